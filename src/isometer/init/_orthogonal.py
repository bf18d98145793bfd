"""Weights that are orthogonal matrices: Haar, delta-orthogonal kernels, and Xavier draws made orthogonal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from isometer.init._outcome import InitOutcome
from isometer.init._targets import WeightTarget, finite, normals, targets
from isometer.simulate._weights import haar_frame

Tensor = torch.Tensor


def haar_orthogonal_(
    target: Any, *, gain: float = 1.0, seed: int = 0, layers: Sequence[str] | str | None = None
) -> InitOutcome:
    """Set weights to `gain` times Haar-distributed orthogonal matrices.

    Rows are orthonormal where there are no more of them than columns, else columns are. A kernel is the matrix
    `(out, in · k …)` that multiplies unfolded patches, one for each group. Biases are left alone.

    Args:
        target: a weight tensor, a linear layer or convolution, or a model, all of whose layers are set.
        gain: the singular values.
        seed: seed of the draw; each layer has a stream of its own, and no global generator is touched.
        layers: patterns of module names to which a model is restricted.

    Returns:
        What was done.

    Raises:
        IsometerError: weights are frozen, tied, computed, quantised, without memory, or there are none.

    Example:
        >>> layer = torch.nn.Linear(6, 4).double()
        >>> haar_orthogonal_(layer).scheme
        'haar-orthogonal'
        >>> torch.allclose(layer.weight @ layer.weight.T, torch.eye(4, dtype=torch.float64), atol=1e-12)
        True

    Implements: 001/init-haar.
    """
    gain = finite(gain, "gain")
    return _apply(
        "haar-orthogonal", target, layers, lambda t, index: gain * haar_matrices(*t.matrices[1:], seed, index, t.groups)
    )


def delta_orthogonal_(
    target: Any, *, gain: float = 1.0, seed: int = 0, layers: Sequence[str] | str | None = None
) -> InitOutcome:
    """Set kernels to zero except for their centre, which is `gain` times a Haar-distributed orthogonal matrix.

    With stride 1 and circular padding such a convolution keeps every norm if it has no more inputs than outputs. The
    centre of an even kernel of size k is k/2. Linear layers get a Haar matrix.

    Args:
        target: a weight tensor, a linear layer or convolution, or a model, all of whose layers are set.
        gain: the singular values.
        seed: seed of the draw.
        layers: patterns of module names to which a model is restricted.

    Returns:
        What was done.

    Raises:
        IsometerError: as `haar_orthogonal_`.

    Example:
        >>> kernel = torch.empty(4, 2, 3, 3)
        >>> _ = delta_orthogonal_(kernel)
        >>> int((kernel != 0).sum()), torch.allclose(kernel[..., 1, 1].T @ kernel[..., 1, 1], torch.eye(2), atol=1e-6)
        (8, True)

    Implements: no inventory entry; the convolutional companion of 001/init-haar.
    """
    gain = finite(gain, "gain")

    def draw(t: WeightTarget, index: int) -> Tensor:
        rows, columns = t.weight.shape[0] // t.groups, t.weight.shape[1]
        kernel = torch.zeros(*t.weight.shape[:2], math.prod(t.weight.shape[2:]), dtype=torch.float64)
        middle = 0
        for size in t.weight.shape[2:]:
            middle = middle * size + size // 2  # index of the centre in the flattened kernel
        kernel[..., middle] = gain * haar_matrices(rows, columns, seed, index, t.groups).reshape(kernel.shape[:2])
        return kernel

    return _apply("delta-orthogonal", target, layers, draw)


def orthogonalized_xavier_(target: Any, *, seed: int = 0, layers: Sequence[str] | str | None = None) -> InitOutcome:
    """Draw Gaussian Xavier weights U diag(s) Vᵀ and set the weights to `mean(s) U Vᵀ`.

    Args:
        target: a weight tensor, a linear layer or convolution, or a model, all of whose layers are set.
        seed: seed of the draw.
        layers: patterns of module names to which a model is restricted.

    Returns:
        What was done; `singular_value` is mean(s).

    Raises:
        IsometerError: as `haar_orthogonal_`.

    Example:
        >>> weight = torch.empty(3, 5, dtype=torch.float64)
        >>> size = orthogonalized_xavier_(weight).layers[0].numbers["singular_value"]
        >>> torch.allclose(weight @ weight.T, size**2 * torch.eye(3, dtype=torch.float64), atol=1e-12)
        True

    Implements: 001/init-orthxavier (A.5).
    """

    def draw(t: WeightTarget, index: int) -> tuple[Tensor, float]:
        drawn = normals(t.matrices, seed, index) * math.sqrt(2 / (t.fan_in + t.fan_out))
        left, values, right = torch.linalg.svd(drawn, full_matrices=False)
        mean = values.mean(-1)
        return mean[:, None, None] * (left @ right), float(mean.mean())

    found, skipped = targets(target, layers)
    outcomes = []
    for index, t in enumerate(found):
        weight, size = draw(t, index)
        t.write(weight)
        outcomes.append(t.outcome(singular_value=size))
    return InitOutcome("orthogonalized-xavier", tuple(outcomes), skipped)


def haar_matrices(rows: int, columns: int, seed: int, index: int, groups: int | None = None) -> Tensor:
    """A Haar matrix `(rows, columns)`, or one for each group `(groups, rows, columns)`, in float64."""
    shape = (max(rows, columns), min(rows, columns))
    frame = haar_frame(normals(shape if groups is None else (groups, *shape), seed, index))
    return frame if rows >= columns else frame.mT


def _apply(
    scheme: str, target: Any, layers: Sequence[str] | str | None, draw: Callable[[WeightTarget, int], Tensor]
) -> InitOutcome:
    found, skipped = targets(target, layers)
    for index, t in enumerate(found):
        t.write(draw(t, index))
    return InitOutcome(scheme, tuple(t.outcome() for t in found), skipped)
