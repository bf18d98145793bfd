"""Windows of positions: what a convolution or a pooling reads, as one table of indices, and its adjoint."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch

Tensor = torch.Tensor


def parted(x: Tensor, axis: int, *sizes: int) -> Tensor:
    """One axis, counted from the left, as several.

    Example:
        >>> parted(torch.zeros(2, 6), 1, 3, -1).shape
        torch.Size([2, 3, 2])
    """
    return x.reshape(*x.shape[:axis], *sizes, *x.shape[axis + 1 :])


@dataclass(frozen=True, eq=False)
class Windows:
    """Which positions each new position reads.

    Attributes:
        index: `(places, offsets)`, a position each; `positions`, one beyond the last, stands for a zero.
        axes: sizes of the new axes.
        positions: how many there are before.
    """

    index: Tensor
    axes: tuple[int, ...]
    positions: int

    @property
    def places(self) -> int:
        """How many positions there are afterwards."""
        return int(self.index.shape[0])

    @property
    def offsets(self) -> int:
        """How many positions a window has."""
        return int(self.index.shape[1])

    @property
    def pads(self) -> bool:
        """Whether some window reaches over the edge into zeros."""
        return bool((self.index == self.positions).any())

    def only(self, offset: int) -> Windows:
        """The windows reduced to one of their offsets."""
        return Windows(self.index[:, offset : offset + 1], self.axes, self.positions)

    def gather(self, x: Tensor) -> Tensor:
        """The values in every window: `(slots, n · positions, d)` to `(slots, n · places, offsets, d)`.

        Example:
            >>> x = torch.arange(3.0).reshape(1, 3, 1)
            >>> windows((3,), (3,), (1,), (1,), "zeros").gather(x)[0, :, :, 0].tolist()
            [[0.0, 0.0, 1.0], [0.0, 1.0, 2.0], [1.0, 2.0, 0.0]]
        """
        samples = x.reshape(-1, self.positions, x.shape[-1])
        if self.pads:
            samples = torch.nn.functional.pad(samples, (0, 0, 0, 1))
        found = samples.index_select(1, self.index.flatten().to(x.device))
        return found.reshape(x.shape[0], -1, self.offsets, x.shape[-1])

    def scatter(self, cotangent: Tensor) -> Tensor:
        """The adjoint of `gather`: `(slots, n · places, offsets, d)` to `(slots, n · positions, d)`.

        Example:
            >>> windows((3,), (3,), (1,), (1,), "zeros").scatter(torch.ones(1, 3, 3, 1))[0, :, 0].tolist()
            [2.0, 3.0, 2.0]
        """
        slots, features = cotangent.shape[0], cotangent.shape[-1]
        rows = cotangent.reshape(-1, self.places * self.offsets, features)
        total = rows.new_zeros(rows.shape[0], self.positions + 1, features)
        total.index_add_(1, self.index.flatten().to(rows.device), rows)
        return total[:, :-1].reshape(slots, -1, features)


@lru_cache(maxsize=256)
def windows(
    axes: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], padding: str
) -> Windows:
    """The windows of a kernel: offset by offset in the order of its axes.

    A padded kernel of reach r = dilation · (size − 1) begins ⌊r/2⌋ positions before the one it stands at.

    Args:
        axes: sizes of the axes of positions.
        size: of the kernel along each.
        stride: of the places that are kept.
        dilation: distance of neighbouring offsets.
        padding: `"circular"`, `"zeros"`, `"reflect"` or `"valid"`.

    Example:
        >>> windows((4,), (2,), (2,), (1,), "valid").index.tolist()
        [[0, 1], [2, 3]]
        >>> windows((3,), (3,), (1,), (1,), "reflect").index.tolist()
        [[1, 0, 1], [0, 1, 2], [1, 2, 1]]
    """
    positions = math.prod(axes)
    places = torch.zeros((1, 1), dtype=torch.long)
    outside = torch.zeros((1, 1), dtype=torch.bool)
    kept = []
    for axis, kernel, step, distance in zip(axes, size, stride, dilation, strict=True):
        index, beyond = _along(axis, kernel, step, distance, padding)
        kept.append(index.shape[0])
        # one more axis inside those before: places and offsets of both, row by row
        places = _outer(places * axis, index, torch.add)
        outside = _outer(outside, beyond, torch.logical_or)
    return Windows(torch.where(outside, positions, places), tuple(kept), positions)


def _outer(first: Tensor, second: Tensor, combine: object) -> Tensor:
    """Every row and column of the first with every one of the second."""
    assert callable(combine)
    both: Tensor = combine(first[:, None, :, None], second[None, :, None, :])
    return both.reshape(first.shape[0] * second.shape[0], first.shape[1] * second.shape[1])


def _along(axis: int, kernel: int, stride: int, dilation: int, padding: str) -> tuple[Tensor, Tensor]:
    """Along one axis: what is read `(places, offsets)`, and whether it lies outside."""
    reach = dilation * (kernel - 1)
    before = 0 if padding == "valid" else reach // 2
    count = ((axis - reach if padding == "valid" else axis) - 1) // stride + 1
    index = torch.arange(count)[:, None] * stride - before + torch.arange(kernel)[None, :] * dilation
    outside = (index < 0) | (index >= axis)
    if padding == "zeros":
        return index.clamp(0, axis - 1), outside
    if padding == "circular":
        index = index % axis
    elif padding == "reflect":
        index = index.abs()
        index = torch.where(index >= axis, 2 * (axis - 1) - index, index)
    return index, torch.zeros_like(outside)


def coarser(axes: tuple[int, ...], factor: tuple[int, ...]) -> Windows:
    """Windows of one position each: that of a coarser grid which an upsampled position repeats.

    Example:
        >>> coarser((2,), (3,)).index.flatten().tolist()
        [0, 0, 0, 1, 1, 1]
    """
    places = torch.zeros((1, 1), dtype=torch.long)
    for axis, times in zip(axes, factor, strict=True):
        places = _outer(places * axis, torch.arange(axis).repeat_interleave(times)[:, None], torch.add)
    return Windows(places, tuple(axis * times for axis, times in zip(axes, factor, strict=True)), math.prod(axes))
