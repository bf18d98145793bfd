"""One simulation as a cell. The rooms it needs are imported when it is computed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

if TYPE_CHECKING:
    from isometer.spec import Spec


def simulate_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """One simulation: `spec` (JSON data), `input` (an array, or `kind` and `samples`), `runs`, `metrics`, `engine`,
    `at`, `loss`, `dtype`.

    Example:
        >>> cell = {"spec": {"width": 8, "depth": 2}, "input": {"kind": "gaussian", "samples": 3}, "runs": 2,
        ...         "metrics": ["rank"], "engine": "auto", "at": "post", "loss": "gaussian", "dtype": "float64"}
        >>> simulate_cell(cell, seed=0)["rank"].shape
        (2, 3)
    """
    from isometer.simulate import simulate

    spec, batch = _simulation(cell, seed)
    options = {name: cell[name] for name in ("runs", "metrics", "engine", "at", "loss", "dtype")}
    return simulate(spec, batch, seed=seed, **options)


def check_simulation(cell: Mapping[str, Any]) -> None:
    """Raise what `simulate_cell` would raise about its input, without simulating.

    Example:
        >>> check_simulation({"spec": {"width": 8, "depth": 0}})
        Traceback (most recent call last):
        ...
        isometer.spec._checks.SpecError: depth is 0; expected a whole number from 1 to 10000000 — ...
    """
    from isometer.checks import seed_number
    from isometer.simulate._engine import check_sizes, checked_batch, checked_engine, sizes_of
    from isometer.simulate._measure import Recorder
    from isometer.simulate._steps import check_covered

    spec, batch = _simulation(cell, 0)
    check_covered(spec)
    inputs = checked_batch(spec, batch, cell["runs"], "cpu", cell["dtype"])
    backward = Recorder(cell["metrics"], 1, 1, cell["at"]).needs_backward
    seed_number(cell.get("seed", 0))
    sizes = sizes_of(
        spec, checked_engine(spec, cell["engine"]), inputs, backward, runs=cell["runs"], metrics=len(cell["metrics"])
    )
    check_sizes("the simulation", sizes)


def _simulation(cell: Mapping[str, Any], seed: int) -> tuple[Spec, np.ndarray[Any, Any]]:
    """The network and the input of a cell; positions are flattened."""
    from isometer.data._batches import make_batch
    from isometer.spec import Spec

    spec = Spec.from_json(json.dumps(cell["spec"]))
    source = cell["input"]
    if isinstance(source, np.ndarray):
        return spec, source
    return spec, make_batch(source["kind"], source["samples"], spec.shape.width * spec.shape.positions, seed=seed)
