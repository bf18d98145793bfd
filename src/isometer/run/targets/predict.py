"""One prediction as a cell. The rooms it needs are imported when it is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray

from isometer.run.targets.simulation import _simulation


def predict_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """One prediction: `spec` (JSON data), `input` (an array, or `kind` and `samples`), `metrics`, `at`.

    The seed is that of the input; nothing else is random.

    Example:
        >>> cell = {"spec": {"width": 8, "depth": 2}, "input": {"kind": "gaussian", "samples": 3},
        ...         "metrics": ["rank"], "at": "post"}
        >>> predict_cell(cell, seed=0)["rank"].shape
        (1, 3)
    """
    from isometer.theory.prediction import predict

    spec, batch = _simulation(cell, seed)
    return predict(spec, batch, metrics=cell["metrics"], at=cell["at"])


def check_prediction(cell: Mapping[str, Any]) -> None:
    """Raise what `predict_cell` would raise about its input, without predicting.

    Example:
        >>> check_prediction({"spec": {"width": 8, "depth": 1, "norm": "whiten"}, "metrics": ["rank"],
        ...                   "input": {"kind": "gaussian", "samples": 3}})
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: no theory covers this network: whitening ties ...
    """
    from isometer.spec import Chain
    from isometer.theory.prediction._coverage import check_covered
    from isometer.theory.prediction._measures import checked_metrics
    from isometer.theory.prediction._trajectories import checked_start
    from isometer.theory.prediction._work import check_prediction_work

    spec, batch = _simulation(cell, 0)
    backward = "gradient_log_norm" in checked_metrics(cell["metrics"])
    check_covered(spec, len(batch), backward=backward)
    if not isinstance(spec, Chain):  # how much work it is depends on its steps, and is said when it begins
        return
    start, _ = checked_start(spec, batch, None)
    check_prediction_work(len(start), spec.layers, len(cell["metrics"]), backward=backward)
