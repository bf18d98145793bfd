"""The orthogonality gap through ReLU networks, dense and convolutional, on batches of images (003/fig-5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from isometer.errors import IsometerError

MEAN, DEVIATION = 0.1307, 0.3081  # of pixels in [0, 1], for all channels


def image_gap_cell(configuration: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The gap of every block's output, by batch.

    A block is ReLU, linear layer, norm. Keys: `architecture` (MLP, ConvNet), `norm` (batch norm, vanilla), `data`,
    `samples`, `batches`, `depth`, `width`, `kernel`, `padding`, `weights` (one draw for all batches, or one each),
    `pixels` (shifted, unit).

    Example:
        >>> cell = {"architecture": "MLP", "norm": "vanilla", "data": "digits", "samples": 4, "batches": 2, "depth": 3,
        ...     "width": 8, "kernel": 3, "padding": "zero", "weights": "one draw", "pixels": "shifted"}
        >>> image_gap_cell(cell, 0)["orthogonality_gap"].shape
        (2, 4)
    """
    from isometer.data import load
    from isometer.metrics import orthogonality_gap

    c = configuration
    images = load(c["data"])
    rows = []
    for batch, child in enumerate(np.random.SeedSequence(seed).spawn(c["batches"])):
        pixels, _ = images.batch(c["samples"], seed=child, centre="none", scale="unit")
        if c["pixels"] == "shifted":
            pixels = (pixels - MEAN) / DEVIATION
        weights = seed if c["weights"] == "one draw" else seed + 1 + batch
        gaps = _gaps(c, np.maximum(pixels, 0.0), weights)
        flat = pixels.reshape(len(pixels), -1).astype(np.float64)
        rows.append([float(orthogonality_gap(flat)), *gaps[1:]])
    return xarray.Dataset(
        {"orthogonality_gap": (("batch", "layer"), np.array(rows))},
        {"batch": np.arange(c["batches"]), "layer": np.arange(c["depth"] + 1)},
    )


def _gaps(c: Mapping[str, Any], rectified: np.ndarray[Any, Any], seed: int) -> np.ndarray[Any, Any]:
    """Gaps before every activation; the first entry is that of what is passed."""
    import torch

    from isometer.simulate import ConvolutionSpec, simulate, simulate_convolution
    from isometer.spec import Norm, Spec

    if c["norm"] not in ("batch norm", "vanilla"):
        raise IsometerError(f"norm is {c['norm']!r}; expected 'batch norm' or 'vanilla'")
    norm = "batch" if c["norm"] == "batch norm" else None
    if c["architecture"] == "ConvNet":
        spec = ConvolutionSpec(c["width"], c["depth"], c["kernel"], c["padding"], norm=norm)
        data = simulate_convolution(spec, rectified, 1, ["orthogonality_gap"], seed, at="pre", dtype=torch.float32)
        return np.asarray(data["orthogonality_gap"].values[0])
    if c["architecture"] != "MLP":
        raise IsometerError(f"architecture is {c['architecture']!r}; expected 'MLP' or 'ConvNet'")
    flat = rectified.reshape(len(rectified), -1).astype(np.float64)
    chain = Spec(
        width=c["width"],
        depth=c["depth"],
        activation="relu",
        norm=None if norm is None else Norm.named(norm),
        input_width=flat.shape[1],
    )
    # weights are drawn in full, so that the same seed is the same network for every batch
    data = simulate(chain, flat, runs=1, metrics=["orthogonality_gap"], seed=seed, engine="dense", at="pre")
    return np.asarray(data["orthogonality_gap"].transpose("run", "layer").values[0])
