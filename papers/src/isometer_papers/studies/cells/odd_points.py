"""Batches under recentring and ReLU, and what recentring does to angles and neurons: the cells of 000."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

_MODES = {"with recentring": "batch", "without recentring": "batch-rescale", "recentring only": "batch-recenter"}


def _states(c: Mapping[str, Any], mode: str, layers: list[int], seed: int) -> Any:
    """Representations `(run, layer, n, d)` of ReLU networks on Gaussian or image batches."""
    from isometer.data import make_batch
    from isometer.simulate import representations
    from isometer.spec import Norm, Spec

    spec = Spec(width=c["width"], depth=max(layers), activation="relu", norm=Norm.named(_MODES[mode]))
    batch = make_batch(c["input"], c["samples"], c["width"], seed=seed, runs=c["runs"])
    return representations(spec, batch, layers=layers, runs=c["runs"], seed=seed)["state"].values


def angles_deg(states: Any) -> Any:
    """Angles of all pairs of samples in degrees, `(…, pairs)`.

    Example:
        >>> angles_deg(np.array([[1.0, 0.0], [0.0, 2.0]])).tolist()
        [90.0]
    """
    from isometer.metrics import cosines

    matrix = np.clip(np.asarray(cosines(states)), -1.0, 1.0)  # arccos of a rounding above 1 is NaN
    first, second = np.triu_indices(matrix.shape[-1], 1)
    return np.degrees(np.arccos(matrix[..., first, second]))


def odd_point_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The last layer of a network with recentring and ReLU: a random projection, angles before and after, odd points.

    `samples`, `width`, `depth`, `input`, `runs`. `odd` is the sample of the largest norm; `ratio` compares it with the
    next one.

    Example:
        >>> cell = {"samples": 6, "width": 32, "depth": 3, "input": "gaussian", "runs": 2, "chunk": 0}
        >>> odd_point_cell(cell, 0)["projection"].shape
        (2, 6, 2)
    """
    c = configuration
    states = _states(c, "recentring only", [c["depth"] - 1, c["depth"]], seed)
    # recentring alone lets the scale drift with depth; only ratios of lengths are read
    last = states[:, 1] / np.abs(states[:, 1]).max((1, 2), keepdims=True)
    norms = np.linalg.norm(last, axis=2)
    order = np.argsort(norms, axis=1)
    odd = order[:, -1]
    top, second = (np.take_along_axis(norms, order[:, [-k]], 1)[:, 0] for k in (1, 2))
    plane = np.random.default_rng(seed).standard_normal((c["runs"], c["width"], 2)) / np.sqrt(c["width"])
    projected = last @ plane
    pairs = np.stack(np.triu_indices(c["samples"], 1))
    touches = (pairs[None] == odd[:, None, None]).any(1)
    before, after = angles_deg(states[:, 0]), angles_deg(states[:, 1])
    return xarray.Dataset(
        {
            "projection": (("run", "sample", "axis"), projected / np.abs(projected).max((1, 2), keepdims=True)),
            "odd": ("run", odd),
            "ratio": ("run", top / second),
            "before": (("run", "pair"), before),
            "after": (("run", "pair"), after),
            "with_odd": (("run", "pair"), touches.astype(float)),
        }
    )


def angles_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Angles of pairs before and after layer `layer`: `mode` (with recentring, without recentring), `samples`, `width`.

    Example:
        >>> cell = {"mode": "with recentring", "samples": 5, "width": 16, "layer": 2, "input": "gaussian", "runs": 2}
        >>> angles_cell(cell, 0)["after"].shape
        (2, 10)
    """
    c = configuration
    states = _states(c, c["mode"], [c["layer"] - 1, c["layer"]], seed)
    before, after = angles_deg(states[:, 0]), angles_deg(states[:, 1])
    return xarray.Dataset(
        {"before": (("run", "pair"), before), "after": (("run", "pair"), after)},
        {"pair": np.arange(after.shape[1])},  # batches of other sizes have other numbers of them
    )


def activity_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Activity of neurons over the batch at layer `layer`: shares, and the values of the most widely active neuron.

    `active` is the share of the batch with a value above `level` of the neuron's largest. The neuron of the histogram
    is the one with the largest share without recentring and the median one with it, as the figure tells them.

    Example:
        >>> cell = {"mode": "with recentring", "samples": 8, "width": 16, "layer": 2, "input": "gaussian", "runs": 2,
        ...         "level": 0.25}
        >>> activity_cell(cell, 0)["active"].shape
        (2, 16)
    """
    c = configuration
    states = _states(c, c["mode"], [c["layer"]], seed)[:, 0]
    largest = states.max(1, keepdims=True)
    relative = states / np.where(largest > 0, largest, 1.0)
    active = (relative > c["level"]).mean(1)
    order = np.argsort(active, axis=1)
    at = -1 if c["mode"] == "without recentring" else c["width"] // 2
    chosen = np.take_along_axis(relative, order[:, None, [at]], 2)[:, :, 0]
    return xarray.Dataset({"active": (("run", "neuron"), active), "values": (("run", "sample"), chosen)})


def tree_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Rows of the tree from a one-dimensional batch `start`, all signs of `levels` levels, in exact arithmetic.

    Example:
        >>> tree_cell({"start": "0,1,3", "levels": 1}, 0)["row"].values.tolist()
        [[0.0, 0.0, 1.66...], [1.33..., 0.33..., 0.0]]
    """
    from fractions import Fraction

    from isometer_papers.simulate.tree import negative_transformation, positive_transformation

    rows: list[Any] = [np.array([Fraction(value) for value in str(configuration["start"]).split(",")])]
    found: list[Any] = []
    for _ in range(configuration["levels"]):
        rows = [child(row) for row in rows for child in (positive_transformation, negative_transformation)]
        found += rows
    values = np.array([[float(value) for value in row] for row in found])
    return xarray.Dataset({"row": (("node", "sample"), values)})
