"""Windows of positions: what a convolution or a pool reads, and sums over windows without loops over positions.

Along one axis every offset of a window reads a few runs of evenly spaced positions: one without padding, two around a
circle, single ones where a border reflects. So a sum over windows is a few additions of slices, axis by axis, for
vectors and for matrices over pairs of positions alike; its transpose swaps what is read and what is written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Line:
    """Windows along one axis.

    Attributes:
        index: `(positions that leave, offsets)`, the position that enters, −1 for padding.
        size: how many positions enter.
        runs: for every offset the slices that are written and read.
    """

    index: Places
    size: int
    runs: tuple[tuple[tuple[slice, slice], ...], ...]

    @classmethod
    def of(cls, index: Places, size: int) -> Line:
        """From what is read."""
        return cls(index, size, tuple(_runs(column) for column in index.T))


@lru_cache(maxsize=256)
def line(axis: int, kernel: int, stride: int, dilation: int, padding: str) -> Line:
    """What a kernel reads along an axis; kernels of even size reach one further to the right.

    Example:
        >>> line(4, 3, 2, 1, "circular").index.tolist()
        [[3, 0, 1], [1, 2, 3]]
        >>> line(3, 3, 1, 1, "zeros").index.tolist()
        [[-1, 0, 1], [0, 1, 2], [1, 2, -1]]
    """
    reach = dilation * (kernel - 1)
    left = 0 if padding == "valid" else reach // 2
    count = ((axis - reach if padding == "valid" else axis) - 1) // stride + 1
    places = stride * np.arange(count)[:, None] + dilation * np.arange(kernel)[None, :] - left
    if padding == "circular":
        places = places % axis
    elif padding == "reflect":
        places = np.abs(places)
        places = np.where(places >= axis, 2 * (axis - 1) - places, places)
    else:
        places = np.where((places < 0) | (places >= axis), -1, places)
    return Line.of(places, axis)


def lines(
    axes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], padding: str
) -> tuple[Line, ...]:
    """One for each axis."""
    return tuple(line(*sizes, padding) for sizes in zip(axes, kernel, stride, dilation, strict=True))


def pool_lines(axes: Sequence[int], size: Sequence[int] | None, stride: Sequence[int] | None) -> tuple[Line, ...]:
    """Those of a pool; without a size one window has everything.

    Example:
        >>> [one.index.tolist() for one in pool_lines((4,), (2,), None)], len(pool_lines((4,), None, None)[0].index)
        ([[[0, 1], [2, 3]]], 1)
    """
    size = tuple(axes) if size is None else tuple(size)
    return lines(axes, size, size if stride is None else stride, (1,) * len(size), "valid")


def table(along: Sequence[Line]) -> Places:
    """For every position that leaves and every offset of all axes the position that enters, −1 for padding.

    Example:
        >>> table(lines((2, 2), (1, 2), (1, 1), (1, 1), "zeros")).tolist()
        [[0, 1], [1, -1], [2, 3], [3, -1]]
    """
    rank = len(along)
    sizes = [one.index.shape for one in along]
    at = np.zeros([count for count, _ in sizes] + [offsets for _, offsets in sizes], dtype=np.intp)
    inside = np.ones(at.shape, dtype=bool)
    for axis, one in enumerate(along):
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = one.index.shape
        at = at * one.size + one.index.reshape(shape)
        inside = inside & (one.index >= 0).reshape(shape)
    return np.where(inside, at, -1).reshape(math.prod(at.shape[:rank]), math.prod(at.shape[rank:]))


def summed(array: Floats, along: Sequence[Line], dims: Sequence[tuple[int, ...]], *, transpose: bool = False) -> Floats:
    """Sums over windows: for each axis along the dimensions of the array that move together.

    Args:
        array: with a dimension for each axis, or two for the positions of a pair.
        along: the windows of each axis.
        dims: of each axis; those of one tuple have the same offset.
        transpose: what was written is read.

    Example:
        >>> summed(np.arange(4.0), [line(4, 3, 1, 1, "circular")], [(0,)]).tolist()
        [4.0, 3.0, 6.0, 5.0]
        >>> summed(np.eye(3), [line(3, 2, 1, 1, "valid")], [(0, 1)]).tolist()
        [[2.0, 0.0], [0.0, 2.0]]
    """
    for one, own in zip(along, dims, strict=True):
        array = _summed_along(array, one, own, transpose)
    return array


def _summed_along(array: Floats, one: Line, dims: tuple[int, ...], transpose: bool) -> Floats:
    made = one.size if transpose else len(one.index)
    if len(one.runs) == 1 and one.runs[0] == ((slice(0, made, 1), slice(0, made, 1)),):
        return array  # a kernel of one position
    if len(dims) == 1 and not transpose and made == 1 and len(one.runs) == one.size:
        return np.asarray(array.sum(axis=dims[0], keepdims=True))
    shape = list(array.shape)
    for dim in dims:
        shape[dim] = made
    out = np.zeros(shape, dtype=array.dtype)
    for runs in one.runs:
        for chosen in product(runs, repeat=len(dims)):
            to, source = ([slice(None)] * array.ndim for _ in range(2))
            for dim, (written, read) in zip(dims, chosen, strict=True):
                to[dim], source[dim] = (read, written) if transpose else (written, read)
            out[tuple(to)] += array[tuple(source)]
    return out


def _runs(column: Places) -> tuple[tuple[slice, slice], ...]:
    """Maximal runs of evenly spaced positions, those of padding left out."""
    found: list[tuple[slice, slice]] = []
    start = 0
    while start < len(column):
        if column[start] < 0:
            start += 1
            continue
        end, step = start + 1, 1
        if end < len(column) and column[end] > column[start]:
            step = int(column[end] - column[start])
            while end < len(column) and column[end] >= 0 and column[end] - column[end - 1] == step:
                end += 1
        read = int(column[start])
        found.append((slice(start, end, 1), slice(read, read + (end - start - 1) * step + 1, step)))
        start = end
    return tuple(found)
