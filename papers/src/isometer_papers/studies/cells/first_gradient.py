"""Gradients of deep random networks on images: of the first layers, and their growth from layer to layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from isometer.errors import IsometerError
from isometer_papers.studies.cells.bare import bare
from isometer_papers.studies.cells.images import images

if TYPE_CHECKING:
    from isometer.spec import Chain

FIRST_LAYERS = (1, 2)


def network(c: Mapping[str, Any], features: int) -> Chain:
    """The network of a configuration: gains are `gain · ℓ^(−exponent)`.

    Example:
        >>> c = {"width": 4, "depth": 3, "weights": "orthogonal", "norm": "batch", "activation": "tanh"}
        >>> network({**c, "gain": 1.0, "exponent": 0.5}, 7).at("activation_gain", 4)
        0.5
    """
    from isometer.spec import Norm, PowerLaw, Spec

    return Spec(
        width=c["width"],
        depth=c["depth"],
        activation=c["activation"],
        norm=Norm.named(c["norm"]),
        weights=c["weights"],
        activation_gain=PowerLaw(c["gain"], layer=-c["exponent"]),
        input_width=features,
    )


def first_gradient_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """log ‖∂loss/∂W‖ of the first two layers, by run.

    Keys: `data`, `samples`, `distinct`, `width`, `depth`, `weights`, `norm`, `activation`, `gain`, `exponent`, `loss`,
    `runs`.

    Example:
        >>> c = {"data": "gaussian:6", "samples": 4, "distinct": 4, "width": 4, "depth": 3, "weights": "orthogonal"}
        >>> c |= {"norm": "batch-rescale", "activation": "identity", "gain": 1.0, "exponent": 0.0}
        >>> first_gradient_cell({**c, "loss": "gaussian", "runs": 2}, 0)["gradient"].sizes["layer"]
        2
    """
    return xarray.Dataset({"gradient": _gradients(configuration, seed).sel(layer=list(FIRST_LAYERS))})


def rate_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Growth per layer of the gradient towards the input over the `lag` layers before each of `layers`, by run.

    This is R of C.155 with its sign changed. Other keys as `first_gradient_cell`.

    Example:
        >>> c = {"data": "gaussian:6", "samples": 4, "distinct": 4, "width": 4, "depth": 5, "weights": "orthogonal"}
        >>> c |= {"norm": "batch", "activation": "tanh", "gain": 0.5, "exponent": 0.0, "layers": [4, 5], "lag": 2}
        >>> rate_cell({**c, "loss": "gaussian", "runs": 2}, 0)["rate"].shape
        (2, 2)
    """
    from isometer.metrics import explosion_rate

    c = configuration
    outside = [layer for layer in c["layers"] if not c["lag"] < layer <= c["depth"]]
    if outside:
        raise IsometerError(
            f"the rate at layer {outside[0]} was requested; expected {c['lag'] + 1} to {c['depth']} — change `layers`"
        )
    logs = _gradients(c, seed).sel(layer=slice(1, None)).transpose("run", "layer")
    rates = -np.asarray(explosion_rate(logs.values, lag=c["lag"]))  # column j: layer j + lag + 1
    chosen = rates[:, np.asarray(c["layers"]) - c["lag"] - 1]
    return xarray.Dataset({"rate": (("run", "layer"), chosen)}, {"run": logs["run"].values, "layer": c["layers"]})


def _gradients(c: Mapping[str, Any], seed: int) -> xarray.DataArray:
    from isometer.simulate import simulate

    batch = images(c["data"], c["samples"], c["distinct"], c["runs"], seed)
    spec = network(c, batch.shape[-1])
    found = simulate(spec, batch, runs=c["runs"], metrics=["gradient_log_norm"], loss=c["loss"], seed=seed)
    return bare(found)["gradient_log_norm"]
