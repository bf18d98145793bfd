"""Normalisations as modules: batch norm in its parts, normalisation of samples, whitening."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from isometer.errors import IsometerError
from isometer.simulate._layers import normalize, normalize_backward
from isometer.spec import Norm

Tensor = torch.Tensor
_CONSTANT = 8.0  # deviations within this many ε of the mean are rounding, as in the simulation


class BatchNormParts(nn.Module):
    """Batch normalisation in its parts: each feature (axis 1) over all other axes.

    With c = x − x̄ if `norm.recenter` else x and s² the mean of x² or of (x − x̄)²: `y = c / √(s² + ε)`, times
    `norm.scale` plus `norm.shift`, then the affine part. A feature without size, s = 0, becomes 0, and so does its
    gradient. In training mode the statistics are those of the batch, and running ones follow them as in torch (the
    variance without bias); in evaluation mode the running ones are used. With `size="length"` the sum of squares takes
    the place of the mean.

    Args:
        features: number of features or channels.
        norm: a `Norm` over the batch or its name: `batch`, `batch-recenter`, `batch-rescale` (mean-free, by the root
            mean square), `batch-rescale-std` (mean-free, by the centred deviation), `batch-unit`.
        affine: a factor and an offset per feature that are trained.
        momentum: share of the new batch in the running statistics.
        device: torch device.
        dtype: torch dtype.

    Example:
        >>> x = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
        >>> BatchNormParts(2)(x).tolist(), BatchNormParts(2, "batch-recenter")(x).tolist()
        ([[-1.0, 0.0], [1.0, 0.0]], [[-1.0, 0.0], [1.0, 0.0]])
        >>> BatchNormParts(2, "batch-rescale")(x)[:, 1].tolist()
        [1.0, 1.0]

    Implements: 000/op-rc, 000/op-rs (both readings), 001/op-bn-nomean, 001/op-bn-std, 002/def-bn, 003/def-bn.
    """

    running_mean: Tensor
    running_square: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        features: int,
        norm: Norm | str = "batch",
        *,
        affine: bool = False,
        momentum: float = 0.1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.features, self.norm, self.momentum = features, _checked_norm(norm, ("batch",)), momentum
        if self.norm.whiten:
            raise IsometerError("norm whitens; expected one that treats each feature separately — use Whitening")
        self.weight = nn.Parameter(torch.ones(features, device=device, dtype=dtype)) if affine else None
        self.bias = nn.Parameter(torch.zeros(features, device=device, dtype=dtype)) if affine else None
        self.register_buffer("running_mean", torch.zeros(features, device=device, dtype=dtype))
        self.register_buffer("running_square", torch.ones(features, device=device, dtype=dtype))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long, device=device))

    def extra_repr(self) -> str:
        return f"{self.features}, {_text(self.norm)}, affine={self.weight is not None}"

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() < 2 or x.shape[1] != self.features:
            raise IsometerError(
                f"input has shape {tuple(x.shape)}; expected (samples, {self.features}, …) — the features are on axis 1"
            )
        axes = [axis for axis in range(x.dim()) if axis != 1]
        shape = [1, -1, *[1] * (x.dim() - 2)]
        if self.training:
            count = x.numel() // self.features
            if count < 2:
                raise IsometerError(
                    "batch has 1 value per feature; batch statistics need at least 2 — pass more samples or call eval()"
                )
            mean, square, flat = _statistics(self.norm, x, axes)
            if self.norm.size == "length":
                square = square * count
            self._follow(mean, square, count)
        else:
            mean, square = self.running_mean.view(shape), self.running_square.view(shape)
            flat = square == 0
        result = _standardized(self.norm, x, mean, square, flat)
        if self.weight is not None and self.bias is not None:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result

    @torch.no_grad()
    def _follow(self, mean: Tensor, square: Tensor, count: int) -> None:
        unbiased = count / (count - 1) if self.norm.divisor == "std" and self.norm.size == "mean-square" else 1.0
        self.running_mean.lerp_(mean.detach().flatten().to(self.running_mean), self.momentum)
        self.running_square.lerp_(square.detach().flatten().to(self.running_square) * unbiased, self.momentum)
        self.num_batches_tracked += 1


class SampleNorm(nn.Module):
    """Normalisation of each sample over its features or over groups of them; separately at every position.

    Args:
        norm: a `Norm` over features or groups, or its name: `layer`, `rms`, `unit`, `group:K`.
        axis: the axis of the features; 1 for images.

    Example:
        >>> SampleNorm("rms")(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).mul(12.5**0.5).round(decimals=5).tolist()
        [[3.0, 4.0], [0.0, 0.0]]

    Implements: 001/op-ln, 001/op-rms, Π of 004/eq-3.
    """

    def __init__(self, norm: Norm | str = "layer", *, axis: int = -1) -> None:
        super().__init__()
        self.norm, self.axis = _checked_norm(norm, ("features", "groups")), axis

    def extra_repr(self) -> str:
        return _text(self.norm)

    def forward(self, x: Tensor) -> Tensor:
        if self.axis == -1:
            return self._last(x)
        return self._last(x.movedim(self.axis, -1)).movedim(-1, self.axis)

    def _last(self, x: Tensor) -> Tensor:
        grouped = x
        if self.norm.over == "groups":
            if x.shape[-1] % self.norm.groups:
                raise IsometerError(
                    f"width {x.shape[-1]} does not split into {self.norm.groups} groups; expected a multiple — "
                    "change either"
                )
            grouped = x.reshape(*x.shape[:-1], self.norm.groups, -1)
        mean, square, flat = _statistics(self.norm, grouped, [-1])
        if self.norm.size == "length":
            square = square * grouped.shape[-1]
        return _standardized(self.norm, grouped, mean, square, flat).reshape(x.shape)


class Whitening(nn.Module):
    """Multiplication by the inverse root of the second-moment matrix of the batch: `(samples, features, …)`.

    It uses the batch in evaluation mode too, and cannot be differentiated twice.

    Args:
        norm: a `Norm` that whitens, or its name.

    Example:
        >>> y = Whitening()(torch.tensor([[2.0, 0.0], [0.0, 5.0]], dtype=torch.float64))
        >>> (y.T @ y / 2).round(decimals=12).tolist()
        [[1.0, 0.0], [0.0, 1.0]]

    Implements: 002/op-whitening.
    """

    def __init__(self, norm: Norm | str = "whiten") -> None:
        super().__init__()
        self.norm = _checked_norm(norm, ("batch",))
        if not self.norm.whiten:
            raise IsometerError("norm does not whiten; expected one with whiten=True — use BatchNormParts")

    def extra_repr(self) -> str:
        return _text(self.norm)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.movedim(1, -1)
        result: Tensor = _Whiten.apply(rows.reshape(-1, x.shape[1]), self.norm)  # type: ignore[no-untyped-call]
        return result.reshape(rows.shape).movedim(-1, 1)


class _Whiten(torch.autograd.Function):
    """The simulation's own forward and backward: the derivative of an SVD is not stable, that of a polar factor is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, norm: Norm) -> Tensor:
        ctx.save_for_backward(x)
        ctx.norm = norm
        return normalize(norm, x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return normalize_backward(ctx.norm, x, cotangent), None


def norm_module(
    norm: Norm, features: int, *, axes: int = 0, dtype: torch.dtype, device: torch.device | str | None
) -> nn.Module:
    """The module of a spec's normalisation, for `(samples, features, …)` with so many axes of positions.

    Torch's own where it computes the same: with an ε, without which torch divides by zero where there is nothing.
    """
    own = _torch_norm(norm, features, axes)
    if own is not None:
        return own.to(device=device, dtype=dtype)
    if norm.whiten:
        return Whitening(norm)
    if norm.over == "batch":
        return BatchNormParts(features, norm, dtype=dtype, device=device)
    return SampleNorm(norm, axis=1 if axes else -1)


def _torch_norm(norm: Norm, features: int, axes: int) -> nn.Module | None:
    plain = norm.eps > 0 and not norm.whiten and norm.size == "mean-square" and (norm.scale, norm.shift) == (1.0, 0.0)
    if not plain or norm.recenter != (norm.divisor == "std"):
        return None
    if norm.over == "batch" and norm.recenter:
        kind = nn.BatchNorm2d if axes == 2 else nn.BatchNorm1d
        return kind(features, eps=norm.eps, affine=False)
    if axes or norm.over == "batch":  # torch's norms of samples take their statistics over positions too
        return None
    if norm.over == "groups":
        return nn.GroupNorm(norm.groups, features, eps=norm.eps, affine=False) if norm.recenter else None
    if norm.recenter:
        return nn.LayerNorm(features, eps=norm.eps, elementwise_affine=False)
    return nn.RMSNorm(features, eps=norm.eps, elementwise_affine=False)


def _statistics(norm: Norm, x: Tensor, axes: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, mean square of what divides, and where that is nothing but rounding."""
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()  # sums of squares overflow float16 and lose the digits of bfloat16
    mean = x.mean(axes, keepdim=True)
    if norm.divisor == "std":
        square = (x - mean).square().mean(axes, keepdim=True)
        with torch.no_grad():
            flat = square <= (_CONSTANT * torch.finfo(x.dtype).eps) ** 2 * mean * mean
    else:
        square = x.square().mean(axes, keepdim=True)
        flat = square == 0
    return mean, square, flat


def _standardized(norm: Norm, x: Tensor, mean: Tensor, square: Tensor, flat: Tensor) -> Tensor:
    """In the precision of the statistics, then back to that of the input."""
    result = x - mean if norm.recenter else x
    if norm.rescale:
        # the inner `where` keeps infinities out of the gradient
        size = torch.where(flat, 1.0, square + norm.eps if norm.eps else square)
        result = result * torch.where(flat, 0.0, torch.rsqrt(size))
    if norm.scale != 1.0:
        result = result * norm.scale
    return (result + norm.shift if norm.shift != 0.0 else result).to(x.dtype)


def _checked_norm(norm: Norm | str, over: Sequence[str]) -> Norm:
    found = Norm.named(norm) if isinstance(norm, str) else norm
    if not isinstance(found, Norm) or found.over not in over:
        came = f"one over the {found.over}" if isinstance(found, Norm) else repr(found)
        raise IsometerError(f"norm is {came}; expected one over {' or '.join(over)} — pass such a Norm or its name")
    return found


def _text(norm: Norm) -> str:
    parts = [part for part, there in (("recenter", norm.recenter), ("rescale", norm.rescale)) if there]
    if norm.rescale and (norm.divisor == "std") != norm.recenter:
        parts.append(f"divisor={norm.divisor}")
    if norm.over == "groups":
        parts.append(f"groups={norm.groups}")
    if norm.size == "length":
        parts.append("size=length")
    if not math.isclose(norm.eps, 0.0):
        parts.append(f"eps={norm.eps:g}")
    return f"{norm.over}: {' + '.join(parts)}"
