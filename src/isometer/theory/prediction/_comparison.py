"""Prediction beside simulation: at which layers a line leaves the interval of the simulated mean."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray
from numpy.typing import NDArray

from isometer.trajectory import summarize

Floats = NDArray[np.float64]
_DIGITS = 1e-3  # of the largest value: what sampled theory is good for


class Departure(NamedTuple):
    """Where predictions of one metric leave the interval of the simulated mean.

    `infinite`, `finite`: the layers outside, for infinite width and for the spec's own width (None without a band).
    """

    metric: str
    infinite: list[int]
    finite: list[int] | None


def departures(
    predicted: xarray.Dataset, simulated: xarray.Dataset, band: xarray.Dataset | None = None, *, level: float = 0.999
) -> list[Departure]:
    """For every metric of both, the layers at which theory is outside the interval of the simulated mean.

    Args:
        predicted: from `predict`.
        simulated: from `simulate`, of the same spec and batch.
        band: from `finite_width`.
        level: level of the intervals; one in 1/(1 − level) layers is outside by chance.

    Returns:
        One `Departure` per metric.

    Example:
        >>> from isometer import Spec
        >>> from isometer.theory.prediction import predict
        >>> data = predict(Spec(width=10, depth=2), gram=np.eye(2), metrics=["mean_cosine"])
        >>> departures(data, xarray.concat([data, data], "run"))
        [Departure(metric='mean_cosine', infinite=[], finite=None)]
    """
    summary = summarize(simulated, level=level)
    found = []
    for name in map(str, predicted.data_vars):
        if name not in summary:
            continue
        low, high = (summary[name].sel(statistic=s).values for s in ("low", "high"))
        finite = None
        if band is not None and name in band:
            finite = _outside(band[name].sel(statistic="mean").values, low, high)
        found.append(Departure(name, _outside(predicted[name].values[0], low, high), finite))
    return found


def _outside(line: Floats, low: Floats, high: Floats) -> list[int]:
    known = np.isfinite(line) & np.isfinite(low) & np.isfinite(high)
    slack = _DIGITS * float(np.abs(line[known]).max()) if known.any() else 0.0
    with np.errstate(invalid="ignore"):
        outside = known & ((line < low - slack) | (line > high + slack))
    return [int(layer) for layer in np.flatnonzero(outside)]
