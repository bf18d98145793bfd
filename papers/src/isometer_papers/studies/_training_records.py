"""What every result of training tells, whatever its study: runs that diverged and why, and what the monitor saw."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray

SHOWN = (
    "effective_rank/last",
    "mean_abs_cosine/last",
    "gradient_growth_per_layer",
    "gradient_alignment/median",
    "dead_fraction/largest",
)


def training_records(result: xarray.Dataset) -> dict[str, list[dict[str, Any]]]:
    """Rows for the record of a study: `diverged` and `monitor`, each only where there is something to tell.

    Example:
        >>> result = xarray.Dataset({"diverged_at": (("depth", "run"), [[-1, -1], [7, 9]])}, {"depth": [10, 100]})
        >>> result["diverged_because"] = ("depth", "run"), [["", ""], ["no", "no"]]
        >>> training_records(result)["diverged"]
        [{'network': 'depth 100', 'diverged': 2, 'runs': 2, 'steps': [7, 9], 'because': 'no'}]
    """
    rows = {"diverged": diverged(result), "monitor": monitored(result)}
    return {name: found for name, found in rows.items() if found}


def diverged(result: xarray.Dataset) -> list[dict[str, Any]]:
    """By network: how many of its runs diverged, the first and last step at which they did, and the reason of one."""
    if "diverged_because" not in result:
        return []
    rows = []
    for label, network in _networks(_those(result, "diverged_at", "diverged_because")):
        steps, reasons = network["diverged_at"].values.ravel(), network["diverged_because"].values.ravel()
        lost = np.flatnonzero(steps >= 0)
        if lost.size:
            first = lost[steps[lost].argmin()]
            span = [int(steps[lost].min()), int(steps[lost].max())]
            counts = {"diverged": int(lost.size), "runs": int(steps.size)}
            rows.append({"network": label, **counts, "steps": span, "because": str(reasons[first])})
    return rows


def monitored(result: xarray.Dataset) -> list[dict[str, Any]]:
    """By network: what the monitor saw before training and at the last look, means over runs, None where nothing."""
    if "monitor" not in result:
        return []
    rows = []
    for label, network in _networks(_those(result, "monitor")):
        values = network["monitor"].sel(signal=list(SHOWN)).transpose("epoch", ..., "signal").values
        values = values.reshape(len(values), -1, len(SHOWN))
        looks = np.flatnonzero(np.isfinite(values).any((1, 2)))
        if looks.size:
            pairs = zip(SHOWN, _means(values[looks[0]]), _means(values[looks[-1]]), strict=True)
            rows.append({"network": label, "seen": {name: [before, after] for name, before, after in pairs}})
    return rows


def _those(result: xarray.Dataset, *names: str) -> xarray.Dataset:
    return result[[*names, *(["learning_rate"] if "learning_rate" in result.data_vars else [])]]


def _means(values: np.ndarray[Any, Any]) -> list[float | None]:
    """Over runs that have a number."""
    columns = ([float(one) for one in column if math.isfinite(one)] for column in values.T)
    return [math.fsum(column) / len(column) if column else None for column in columns]


def _networks(result: xarray.Dataset) -> Iterator[tuple[str, xarray.Dataset]]:
    """The parts of a result that differ in more than the run, with words for each."""
    axes = {str(name): result[name].values.tolist() for name in result.dims if name not in ("run", "epoch", "signal")}
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        part = result.sel(point)
        if "learning_rate" in result.data_vars:  # says more than which candidate it was
            point["rate"] = f"rate {part['learning_rate'].values.flat[0]:g}"
            point.pop("candidate", None)
        words = [value if isinstance(value, str) else f"{name} {value}" for name, value in point.items()]
        yield ", ".join(words) or "the network", part
