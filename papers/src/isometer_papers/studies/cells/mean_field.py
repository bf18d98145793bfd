"""Gram matrices of deep networks beside the fixed point of their mean field (chapter 3 of the thesis)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from isometer.errors import IsometerError


def gram_error_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """‖G_ℓ − G*‖_F by run and layer: `network`, `activation`, `samples`, `width`, `depth`, `runs`, `input`.

    `network` is "batch norm", h ← W φ(BN(h)) with G of φ(BN(h)) and its fixed point G*, or "vanilla", h ← W h with G of
    h: there every Gram matrix is fixed at infinite width, and G* = G_0. Samples have mean square 1.

    Example:
        >>> cell = {"network": "vanilla", "activation": "relu", "samples": 4, "width": 20, "depth": 3, "runs": 2,
        ...     "input": "gaussian"}
        >>> gram_error_cell(cell, 0)["error"].sel(layer=0).values.round(12).tolist()
        [0.0, 0.0]
    """
    import torch

    from isometer.activations import activation
    from isometer.data import make_batch
    from isometer.metrics import batch_normalize, gram, gram_distance
    from isometer.simulate import simulate
    from isometer.spec import Norm, Spec
    from isometer.theory.batch_norm import batch_norm_fixed_point

    c = configuration
    if c["network"] not in ("batch norm", "vanilla"):
        raise IsometerError(f"network is {c['network']!r}; expected 'batch norm' or 'vanilla'")
    batch = make_batch(c["input"], c["samples"], c["width"], seed=seed)
    if c["network"] == "batch norm":
        batch = np.asarray(activation(c["activation"])(batch_normalize(batch)))
        target = batch_norm_fixed_point(c["activation"], c["samples"]).gram
        spec = Spec(width=c["width"], depth=c["depth"], activation=c["activation"], norm=Norm.named("batch"))
    else:
        target = gram(batch)
        spec = Spec(width=c["width"], depth=c["depth"], activation="identity")

    def error(state: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = gram_distance(state, reference=torch.as_tensor(target)).absolute
        return found

    data = simulate(spec, batch, runs=c["runs"], metrics=[error], seed=seed)["error"].transpose("run", "layer")
    return xarray.Dataset(
        {"error": (("run", "layer"), data.values)},
        {"run": np.arange(c["runs"]), "layer": np.arange(c["depth"] + 1)},
    )
