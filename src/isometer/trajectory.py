"""The trajectory format: one `xarray.Dataset`, run × layer, that predictions, simulations and measurements share."""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from isometer._version import __version__
from isometer.errors import IsometerError
from isometer.spec import Chain, Spec
from isometer.spec._language import word_of
from isometer.spec._steps import Attention, Convolution, Dense, Join, Residual, Step

if TYPE_CHECKING:
    import xarray  # imported where a dataset is made: a diagnosis has none, and takes no longer

DEFAULT_METRICS = (
    "orthogonality_gap",
    "isometry_gap",
    "stable_rank",
    "soft_rank",
    "rank",
    "effective_rank",
    "mean_abs_cosine",
    "mean_angle_deg",
)
"""What simulations and predictions measure by default."""


def trajectory(values: Mapping[str, NDArray[np.float64]], spec: Spec, *, at: str, **attrs: Any) -> xarray.Dataset:
    """A dataset of metrics `(run, layer)` with the coordinates and attributes every trajectory has.

    Args:
        values: one array `(runs, layers + 1)` per metric; layer 0 is the input.
        spec: the network.
        at: `"post"` or `"pre"`.
        attrs: further attributes.

    Returns:
        Dimensions `run` and `layer`; coordinates `layer`, `depth`, `name`, `op` and `site`; attributes `spec` and
        `versions` (both JSON) besides those given.

    Example:
        >>> data = trajectory({"rank": np.ones((2, 4))}, Spec(width=8, depth=3), at="post", seed=0)
        >>> dict(data.sizes), data["name"].values.tolist()
        ({'run': 2, 'layer': 4}, ['input', 'layer 1', 'layer 2', 'layer 3'])
    """
    from isometer._trajectory_dataset import Trajectory  # xarray is slow to load

    depths, operations = _layer_table(spec)
    layers = np.arange(len(depths))
    runs = next(iter(values.values())).shape[0] if values else 0
    site = "output" if at == "post" else "pre-activation"
    coordinates = {
        "run": np.arange(runs),
        "layer": layers,
        "depth": ("layer", np.array(depths)),
        "name": ("layer", np.array(["input", *(f"layer {layer}" for layer in layers[1:])], dtype=object)),
        "op": ("layer", np.array(operations, dtype=object)),
        "site": ("layer", np.array(["output", *[site] * (len(layers) - 1)], dtype=object)),
    }
    data = {name: (("run", "layer"), array) for name, array in values.items()}
    common = {"spec": spec.to_json(), "at": at, "versions": versions()}
    return Trajectory(data, coords=coordinates, attrs={**common, **attrs})


def _layer_table(spec: Spec) -> tuple[list[int], list[str]]:
    """The depth of every layer, its steps with weights on the longest path from the input, and what it does."""
    if isinstance(spec, Chain):
        return list(range(spec.layers + 1)), ["input", *[" ".join(spec.operations)] * spec.layers]
    depths, operations = [0], ["input"]
    last: tuple[tuple[Step, ...], int, str] | None = None
    for steps, _ in spec.executed_layers():
        # turns of a repeat that are equal are one object
        if last is None or last[0] is not steps:
            last = steps, _weights_deep(steps), _operations(steps)
        depths.append(depths[-1] + last[1])
        operations.append(last[2])
    return depths, operations


def _weights_deep(steps: Sequence[Step]) -> int:
    found = 0
    for step in steps:
        if isinstance(step, Residual):
            found += _weights_deep(step.branch)
        elif isinstance(step, Join):
            found += max(map(_weights_deep, step.branches))
        else:
            found += {Dense: 1, Convolution: 1, Attention: 2}.get(type(step), 0)
    return found


def _operations(steps: Sequence[Step]) -> str:
    """What a layer does, in the words of the network language."""

    def said(step: Step) -> str:
        branches = (step.branch,) if isinstance(step, Residual) else step.branches if isinstance(step, Join) else ()
        inner = ", ".join(map(_operations, branches))
        return f"{word_of(step)}({inner})" if inner else word_of(step)

    return " ".join(map(said, steps))


def versions() -> str:
    """Versions of what computes a trajectory, as JSON; torch's where it is loaded.

    Example:
        >>> sorted(json.loads(versions()))[0]
        'isometer'
    """
    found = {"isometer": __version__}
    if "torch" in sys.modules:
        found["torch"] = str(sys.modules["torch"].__version__)
    return json.dumps({**found, "numpy": np.__version__, "python": platform.python_version()})


def summarize(dataset: xarray.Dataset, *, level: float = 0.95) -> xarray.Dataset:
    """Mean over the runs and Student's interval of the mean, for every variable.

    `mean ± t_{(1+level)/2, R−1} · s/√R`. A mean of runs of which some are infinite is infinite, and so is its interval;
    opposite infinities and runs which are not defined (nan) give nan. One run tells nothing about the spread: its
    interval is (−∞, ∞).

    Args:
        dataset: a trajectory with a dimension `run`.
        level: coverage of the interval.

    Returns:
        The same variables with `run` replaced by `statistic`: `mean`, `low`, `high`.

    Example:
        >>> data = trajectory({"rank": np.array([[1.0, 2.0], [1.0, 4.0]])}, Spec(width=8, depth=1), at="post")
        >>> summary = summarize(data)
        >>> summary["rank"].sel(statistic="mean").values.tolist()
        [1.0, 3.0]
        >>> summary["rank"].sel(layer=1).round(2).values.tolist()
        [3.0, -9.71, 15.71]
    """
    import xarray

    if "run" not in dataset.dims:
        raise IsometerError("the dataset has no dimension 'run'; expected a trajectory over runs — pass simulate(…)")
    if not 0 < level < 1:
        raise IsometerError(f"level is {level}; expected 0 < level < 1 — the usual one is 0.95")
    runs = dataset.sizes["run"]
    quantile = float(special.stdtrit(runs - 1, (1 + level) / 2)) if runs > 1 else math.inf
    summary = {}
    for name, variable in dataset.data_vars.items():
        if "run" not in variable.dims:
            summary[name] = variable
            continue
        values = np.moveaxis(np.asarray(variable.values, dtype=float), variable.get_axis_num("run"), 0)
        dims = ["statistic", *(dim for dim in variable.dims if dim != "run")]
        summary[name] = xarray.DataArray(np.stack(_interval(values, quantile)), dims=dims)
    kept = {key: value for key, value in dataset.coords.items() if "run" not in value.dims}
    coordinates = {**kept, "statistic": ["mean", "low", "high"]}
    return xarray.Dataset(summary, coords=coordinates, attrs={**dataset.attrs, "runs": runs, "level": level})


def spread(dataset: xarray.Dataset, *, level: float = 0.95) -> xarray.Dataset:
    """Mean over the runs, and the quantiles between which `level` of single runs are, for every variable.

    Where some runs are infinite or not defined, so are all three numbers.

    Args:
        dataset: a trajectory with a dimension `run`.
        level: coverage of the interval.

    Returns:
        The same variables with `run` replaced by `statistic`: `mean`, `low`, `high`.

    Example:
        >>> runs = np.stack([np.zeros(101), np.arange(101.0)], axis=1)
        >>> data = spread(trajectory({"rank": runs}, Spec(width=8, depth=1), at="post"), level=0.9)
        >>> data["rank"].sel(layer=1).values.round(6).tolist()
        [50.0, 5.0, 95.0]
    """
    summary = summarize(dataset, level=level)
    ends = (1 - level) / 2, (1 + level) / 2
    for name, variable in dataset.data_vars.items():
        values = np.moveaxis(np.asarray(variable.values, dtype=float), variable.get_axis_num("run"), 0)
        finite = np.isfinite(values).all(0)
        low, high = np.quantile(np.where(finite, values, 0.0), ends, axis=0)
        mean = summary[name].sel(statistic="mean").values
        summary[name].values[1:] = np.where(finite, (low, high), mean)
    return summary


def _interval(values: NDArray[np.float64], quantile: float) -> list[NDArray[np.float64]]:
    runs = values.shape[0]
    finite = np.isfinite(values).all(0)
    safe = np.where(finite, values, 0.0)
    # Over a power of two, which rounds nothing: squares and sums of numbers beyond 1e154 leave the range.
    power = np.frexp(np.abs(safe).max(0))[1]
    safe = np.ldexp(safe, -power)
    mean = safe.mean(0)
    half = quantile * safe.std(0, ddof=1) / math.sqrt(runs) if runs > 1 else np.full_like(mean, math.inf)
    up, down = (values == math.inf).any(0), (values == -math.inf).any(0)
    unknown = np.isnan(values).any(0) | (up & down)
    special = np.where(up, math.inf, -math.inf)
    result = []
    for scaled in (mean, mean - half, mean + half):
        with np.errstate(over="ignore"):  # an end beyond the range is infinite
            estimate = np.ldexp(scaled, power)
        result.append(np.where(finite, estimate, np.where(unknown, math.nan, special)))
    return result
