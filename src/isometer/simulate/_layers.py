"""Normalisation and activation, forward and backward, on batches of representations `(…, n, d)`.

Written out rather than left to automatic differentiation: a backward pass then keeps one tensor per step, and several
cotangents `(runs, m, n, d)` pass through one recorded representation `(runs, n, d)`.
"""

from __future__ import annotations

import math

import torch

from isometer.activations import Activation
from isometer.spec import Norm

_CONSTANT = 8.0  # deviations within this many ε of the mean are rounding, as in the metrics room


def normalize(norm: Norm, x: torch.Tensor) -> torch.Tensor:
    """The normalisation of `x`, `(…, n, d)`; what has no size becomes 0 (plus the shift).

    `y = c / √(s² + ε) · scale + shift`, with c and s as `Norm` says. A feature (or sample) that differs from its mean
    by rounding only counts as constant.

    Args:
        norm: the normalisation.
        x: `(…, n, d)`.

    Returns:
        `(…, n, d)`.

    Example:
        >>> normalize(Norm(), torch.tensor([[1.0, 5.0], [3.0, 5.0]])).tolist()
        [[-1.0, 0.0], [1.0, 0.0]]

    Implements: 000/op-rc, 000/op-rs, 001/op-6.4, 001/eq-5.13, 002/def-bn, 002/op-whitening, 003/def-bn, 004/eq-3.
    """
    if norm.whiten:
        return _whitened(norm, x)
    dim, grouped = _grouped(norm, x)
    numerator, _, inverse = _parts(norm, grouped, dim)
    result = numerator if inverse is None else numerator * inverse
    if norm.scale != 1.0:
        result = result * norm.scale
    if norm.shift != 0.0:
        result = result + norm.shift
    return result.reshape(x.shape) if norm.over == "groups" else result


def normalize_backward(norm: Norm, x: torch.Tensor, cotangent: torch.Tensor) -> torch.Tensor:
    """The cotangent before the normalisation of `x` from the one after it.

    With y = c/s: `δx = C δy / s − b mean(δy ∘ c) / s³`, C the recentring if there is one and b the vector whose mean
    square is s². Where s = 0 the result is 0.

    Args:
        norm: the normalisation.
        x: what was normalised, broadcastable to the cotangent.
        cotangent: derivatives by the result, `(…, n, d)`.

    Returns:
        Derivatives by `x`, the shape of the cotangent.

    Example:
        >>> x = torch.tensor([[1.0], [3.0]])
        >>> normalize_backward(Norm(), x, torch.ones(2, 1)).tolist()  # the mean does not matter
        [[0.0], [0.0]]

    Implements: 001/lem-C.18.
    """
    if norm.whiten:
        return _whitened_backward(norm, x, cotangent)
    dim, grouped = _grouped(norm, x)
    delta = cotangent if norm.over != "groups" else cotangent.reshape(*cotangent.shape[:-1], norm.groups, -1)
    numerator, base, inverse = _parts(norm, grouped, dim)
    result = delta
    if norm.recenter:
        result = delta - delta.mean(dim, keepdim=True)  # recentring is symmetric: its own adjoint
    if inverse is not None:
        length = x.shape[-2] if norm.over == "batch" else grouped.shape[-1]
        # in units of the normalised vector, whose mean square is `unit`
        unit = 1.0 if norm.size == "mean-square" else 1.0 / length
        slope = (delta * (numerator * inverse)).mean(dim, keepdim=True) / unit
        result = (result - (base * inverse) * slope) * inverse
    if norm.scale != 1.0:
        result = result * norm.scale
    return result.reshape(cotangent.shape)


def _grouped(norm: Norm, x: torch.Tensor) -> tuple[int, torch.Tensor]:
    """The axis over which statistics are taken, and `x` with groups on an axis of their own."""
    if norm.over == "batch":
        return -2, x
    if norm.over == "features":
        return -1, x
    return -1, x.reshape(*x.shape[:-1], norm.groups, -1)


def _parts(norm: Norm, x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """What is divided, the vector whose size divides it, and one over that size (None without rescaling)."""
    mean = centered = None
    if norm.recenter or (norm.rescale and norm.divisor == "std"):
        mean = x.mean(dim, keepdim=True)
        centered = x - mean
    numerator = x if centered is None or not norm.recenter else centered
    if not norm.rescale:
        return numerator, numerator, None
    base = x if centered is None or norm.divisor == "rms" else centered
    square = (base * base).mean(dim, keepdim=True)
    if base is centered and mean is not None:
        # a constant feature leaves rounding errors of its mean
        flat = square <= (_CONSTANT * torch.finfo(x.dtype).eps) ** 2 * (mean * mean)
    else:
        flat = square == 0
    # rsqrt of a zero is inf, and inf · 0 would be nan
    inverse = torch.rsqrt(square + norm.eps if norm.eps else square).masked_fill_(flat, 0.0)
    if norm.size == "length":
        inverse = inverse / math.sqrt(x.shape[dim])  # length = √count · root mean square
    return numerator, base, inverse


def _polar(norm: Norm, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Left vectors, inverse singular values (0 for those within rounding) and right vectors of the batch."""
    if norm.recenter:
        x = x - x.mean(-2, keepdim=True)
    left, values, right = torch.linalg.svd(x, full_matrices=False)
    # the threshold of numpy.linalg.matrix_rank
    noise = max(x.shape[-2:]) * torch.finfo(x.dtype).eps * values[..., :1]
    return left, torch.where(values > noise, 1.0 / values, 0.0), right


def _whitened(norm: Norm, x: torch.Tensor) -> torch.Tensor:
    left, inverse, right = _polar(norm, x)
    kept = (inverse > 0).to(x.dtype)
    # X (Xᵀ X/n)^{−1/2} = √n U Vᵀ (002/op-whitening)
    result = (left * kept[..., None, :]) @ right * (math.sqrt(x.shape[-2]) * norm.scale)
    if not norm.recenter:  # rounding in the singular vectors must not give a zero sample a direction
        result = torch.where((x == 0).all(-1, keepdim=True), 0.0, result)
    return result + norm.shift


def _whitened_backward(norm: Norm, x: torch.Tensor, cotangent: torch.Tensor) -> torch.Tensor:
    """The derivative of the polar factor U Vᵀ is symmetric as a linear map:

    `B ↦ U [(Uᵀ B V − Vᵀ Bᵀ U) / (s_i + s_j)] Vᵀ + U S⁻¹ Uᵀ B (I − V Vᵀ) + (I − U Uᵀ) B V S⁻¹ Vᵀ`.
    """
    left, inverse, right = _polar(norm, x)
    kept = (inverse > 0).to(x.dtype)
    values = torch.where(inverse > 0, 1.0 / inverse, 0.0)
    u, v = left * kept[..., None, :], right.mT * kept[..., None, :]
    middle = u.mT @ cotangent @ v
    total = values[..., :, None] + values[..., None, :]
    both = kept[..., :, None] * kept[..., None, :]
    core = torch.where(both > 0, (middle - middle.mT) / torch.where(total > 0, total, 1.0), 0.0)
    result = u @ core @ v.mT
    rows = u.mT @ cotangent
    result = result + (u * inverse[..., None, :]) @ (rows - middle @ v.mT)
    columns = cotangent @ v
    result = result + (columns - u @ middle) @ (v * inverse[..., None, :]).mT
    result = result * (math.sqrt(x.shape[-2]) * norm.scale)
    return result - result.mean(-2, keepdim=True) if norm.recenter else result


def activate_backward(phi: Activation, x: torch.Tensor, cotangent: torch.Tensor) -> torch.Tensor:
    """`φ′(x) ∘ δ`, φ′ as automatic differentiation has it (0 at the kink of a ReLU).

    Args:
        phi: the activation.
        x: what entered it, broadcastable to the cotangent.
        cotangent: derivatives by φ(x).

    Returns:
        Derivatives by `x`, the shape of the cotangent.

    Example:
        >>> from isometer import activation
        >>> activate_backward(activation("relu"), torch.tensor([-1.0, 0.0, 2.0]), torch.ones(3)).tolist()
        [0.0, 0.0, 1.0]
    """
    # simulations run under no_grad
    with torch.enable_grad():
        argument = x.detach().requires_grad_()
        value = phi(argument)
        if not value.requires_grad:  # steps and signs: flat almost everywhere
            return torch.zeros_like(cotangent)
        # φ is elementwise: one pass with ones gives every slope, which all cotangents share
        (slope,) = torch.autograd.grad(value.sum(), argument)  # without a cotangent, torch imports no symbolic shapes
    return slope * cotangent
