"""The gap of a convolutional network with batch norm, in its parts: lengths and cosines of samples (003/fig-5-why)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray
from numpy.typing import NDArray

from isometer.errors import IsometerError
from isometer_papers.studies.cells.architectures import DEVIATION, MEAN

Floats = NDArray[np.float64]
PARTS = ("gap", "lengths", "cosines")


def gap_parts_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The gap before every ReLU and its two parts, by batch.

    Keys: `network` (mean field, small images, four times as wide, norm at each position, whole images), `data`, `side`
    of small images, `samples`, `batches`, `depth`, `width`, `draw` of the images.

    Example:
        >>> cell = {"network": "mean field", "data": "digits", "side": 4, "samples": 4, "batches": 1, "depth": 2,
        ...     "width": 8, "draw": 0}
        >>> gap_parts_cell(cell, 0)["parts"].shape
        (1, 2, 3)
    """
    from isometer.data import load

    c = configuration
    images = load(c["data"])
    rows = []
    drawn = np.random.SeedSequence(c["draw"]).spawn(c["batches"])  # the same images for all networks
    for child, weights in zip(drawn, np.random.SeedSequence(seed).spawn(c["batches"]), strict=True):
        pixels, _ = images.batch(c["samples"], seed=child, centre="none", scale="unit")
        shifted = (pixels.astype(np.float64) - MEAN) / DEVIATION
        side = shifted.shape[-1] if c["network"] == "whole images" else min(c["side"], shifted.shape[-1])
        rows.append(list(_walk(c, np.maximum(shrunk(shifted, side), 0.0), int(weights.generate_state(1)[0]))))
    return xarray.Dataset(
        {"parts": (("batch", "layer", "part"), np.array(rows))},
        {"batch": np.arange(c["batches"]), "layer": np.arange(1, c["depth"] + 1), "part": list(PARTS)},
    )


def shrunk(images: Floats, side: int) -> Floats:
    """Means over squares of pixels.

    Example:
        >>> shrunk(np.arange(4.0).reshape(1, 1, 2, 2), 1).tolist()
        [[[[1.5]]]]
    """
    n, channels, height, _ = images.shape
    if height % side:
        raise IsometerError(f"side is {side}; expected a divisor of {height} — 8, for example")
    each = height // side
    return np.asarray(images.reshape(n, channels, side, each, side, each).mean(axis=(3, 5)))


def _walk(c: Mapping[str, Any], images: Floats, seed: int) -> Iterator[tuple[float, float, float]]:
    if c["network"] == "mean field":
        yield from _mean_field(images, c["depth"])
    elif c["network"] in ("small images", "four times as wide", "norm at each position", "whole images"):
        width = c["width"] * (4 if c["network"] == "four times as wide" else 1)
        yield from _simulated(images, c["depth"], width, c["network"] == "norm at each position", seed)
    else:
        raise IsometerError(f"network is {c['network']!r}; expected a network of the study 003/fig-5-why")


def _mean_field(images: Floats, depth: int) -> Iterator[tuple[float, float, float]]:
    from isometer_papers.theory.spatial_batch_norm import (
        gap_parts,
        input_covariance,
        normalised_layer,
        patches_mean,
        same_position_gram,
    )

    samples, _, side, _ = images.shape
    covariance = input_covariance(images)
    for _ in range(depth):
        layer = normalised_layer(patches_mean(covariance, samples, side))
        covariance = layer.rectified
        yield gap_parts(same_position_gram(layer.covariance, samples))


def _simulated(
    images: Floats, depth: int, width: int, each_position: bool, seed: int
) -> Iterator[tuple[float, float, float]]:
    """ReLU, convolution of 3×3 with zeros around, norm; one draw of the weights."""
    import torch
    from torch.nn import functional

    from isometer_papers.theory.spatial_batch_norm import gap_parts

    generator = torch.Generator().manual_seed(seed)
    over = (0,) if each_position else (0, 2, 3)
    hidden = torch.tensor(images, dtype=torch.float32)
    for _ in range(depth):
        weights = torch.randn((width, hidden.shape[1], 3, 3), generator=generator)  # their size is the norm's to remove
        z = functional.conv2d(torch.relu(hidden), weights, padding=1)
        z = z - z.mean(over, keepdim=True)
        hidden = z / z.square().mean(over, keepdim=True).sqrt().clamp_min(1e-12)
        flat = hidden.flatten(1).double()
        yield gap_parts((flat @ flat.T).numpy())
