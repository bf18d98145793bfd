"""How far the next linear layer is from a Gaussian matrix, for linear networks of the kinds in 003/table-1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from isometer.errors import unknown_name

NETWORKS = ("vanilla MLP", "vanilla ConvNet", "batch norm MLP")


def wasserstein_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """W₂ to the isotropic Gaussian at some depths: `network`, `width`, `samples`, `depths`, `runs`, `side`, `share`.

    The distance at a depth is the mean over the last fifth of the layers up to it, at least that one. Linear layers on
    orthogonal samples; a convolutional network has width/`share` channels on images of `side` pixels
    squared, with circular padding, which keeps inner products in the limit of many channels.

    Example:
        >>> cell = {"network": "vanilla ConvNet", "width": 16, "samples": 2, "depths": [1, 3], "runs": 2, "side": 3,
        ...     "share": 4}
        >>> dict(wasserstein_cell(cell, 0).sizes)
        {'run': 2, 'depth': 2}
    """
    from isometer.data import make_batch
    from isometer.simulate import ConvolutionSpec, simulate, simulate_convolution
    from isometer.spec import recurrence

    c = configuration
    if c["network"] not in NETWORKS:
        raise unknown_name("network", c["network"], NETWORKS)
    name, depth = "wasserstein_to_isotropic", max(c["depths"])
    if c["network"] == "vanilla ConvNet":
        channels, side = c["width"] // c["share"], c["side"]
        images = make_batch("orthogonal", c["samples"], channels * side**2, seed=seed)
        spec = ConvolutionSpec(channels, depth, padding="circular", activation="identity")
        shape = (c["samples"], channels, side, side)
        data = simulate_convolution(spec, images.reshape(shape), c["runs"], [name], seed)
    else:
        chain = "001/rec-2.1" if c["network"] == "batch norm MLP" else "001/rec-2.vanilla"
        batch = make_batch("orthogonal", c["samples"], c["width"], seed=seed)
        data = simulate(
            recurrence(chain, width=c["width"], depth=depth), batch, runs=c["runs"], metrics=[name], seed=seed
        )
    layers = data[name].transpose("run", "layer").values
    windows = [layers[:, depth - max(depth // 5, 1) + 1 : depth + 1] for depth in c["depths"]]
    values = np.stack([window.mean(1) for window in windows], axis=1)
    return xarray.Dataset({"distance": (("run", "depth"), values)}, {"run": np.arange(c["runs"]), "depth": c["depths"]})
