"""Chains of linear layers with batch norm and without: orthogonality over depth and width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from isometer.errors import IsometerError
from isometer_papers.studies.cells.bare import bare


def dominated(samples: int, features: int, small: float) -> np.ndarray[Any, Any]:
    """Samples on the first axes, one of length 1 and the others `small`.

    Example:
        >>> dominated(2, 3, 0.1).tolist()
        [[1.0, 0.0, 0.0], [0.0, 0.1, 0.0]]
    """
    batch = np.zeros((samples, features))
    batch[np.arange(samples), np.arange(samples)] = [1.0, *[small] * (samples - 1)]
    return batch


def pair(network: str, features: int, nearness: float) -> np.ndarray[Any, Any]:
    """The two samples of 003/fig-1: nearly equal for batch norm, orthogonal without.

    Example:
        >>> pair("vanilla", 2, 1e-3).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    batch = np.eye(2, features)
    if network == "batch norm":
        batch[1, :2] = 1 - nearness, nearness
    return batch


def cosine_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """|cos| of two samples by layer: `network` (batch norm, vanilla), `width`, `depth`, `runs`, `nearness`.

    Example:
        >>> cell = {"network": "vanilla", "width": 8, "depth": 3, "runs": 2, "nearness": 1e-3}
        >>> cosine_cell(cell, 0)["cosine"].dims
        ('run', 'layer')
    """
    from isometer.simulate import simulate
    from isometer.spec import Norm, Spec

    c = configuration
    if c["network"] not in ("batch norm", "vanilla"):
        raise IsometerError(f"network is {c['network']!r}; expected 'batch norm' or 'vanilla'")
    norm = Norm.named("batch-rescale") if c["network"] == "batch norm" else None
    spec = Spec(width=c["width"], depth=c["depth"], activation="identity", norm=norm)
    batch = pair(c["network"], c["width"], c["nearness"])
    data = simulate(spec, batch, runs=c["runs"], metrics=["mean_abs_cosine"], seed=seed)
    return bare(data.rename(mean_abs_cosine="cosine"))


def gap_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Orthogonality gap by layer of linear batch norm: `samples`, `width`, `depth`, `runs`, `small`.

    Example:
        >>> gap_cell({"samples": 2, "width": 8, "depth": 3, "runs": 2, "small": 1e-6}, 0)["orthogonality_gap"].shape
        (2, 4)
    """
    from isometer.simulate import simulate
    from isometer.spec import Norm, Spec

    c = configuration
    spec = Spec(width=c["width"], depth=c["depth"], activation="identity", norm=Norm.named("batch-rescale"))
    batch = dominated(c["samples"], c["width"], c["small"])
    return bare(simulate(spec, batch, runs=c["runs"], metrics=["orthogonality_gap"], seed=seed))


def average_gap_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The gap averaged over layers `first` to `depth`, by run; the rest as `gap_cell`.

    Example:
        >>> cell = {"samples": 2, "width": 8, "depth": 9, "first": 1, "runs": 2, "small": 1e-6}
        >>> average_gap_cell(cell, 0)["average_gap"].sizes["run"]
        2
    """
    data = gap_cell(configuration, seed)["orthogonality_gap"].sel(layer=slice(configuration["first"], None))
    return xarray.Dataset({"average_gap": data.mean("layer")})


def survival_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """σ_min(H_ℓ)/σ_min(H_0), the lowest over layers, by run: `samples`, `width`, `depth`, `runs`, `input`.

    The input is scaled to unit Frobenius norm, which all further layers have; more samples than features give 0.

    Example:
        >>> cell = {"samples": 2, "width": 30, "depth": 9, "runs": 2, "input": "gaussian"}
        >>> survival_cell(cell, 0)["lowest"].sizes["run"]
        2
    """
    from isometer.data import make_batch
    from isometer.simulate import simulate
    from isometer.spec import recurrence

    c = configuration
    if c["samples"] > c["width"]:
        return xarray.Dataset({"lowest": ("run", np.zeros(c["runs"]))}, {"run": np.arange(c["runs"])})
    batch = make_batch(c["input"], c["samples"], c["width"], runs=c["runs"], seed=seed)
    batch = batch / np.linalg.norm(batch, axis=(1, 2), keepdims=True)
    spec = recurrence("001/rec-2.1", width=c["width"], depth=c["depth"])
    name = "smallest_singular_value"
    values = simulate(spec, batch, runs=c["runs"], metrics=[name], seed=seed)[name]
    return bare(xarray.Dataset({"lowest": values.min("layer") / values.sel(layer=0)}))
