"""Checked inputs of a kernel: directions, lengths, and the angles between them to relative accuracy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.errors import IsometerError
from isometer.theory.kernels._length_map import UNIT
from isometer.theory.kernels._mixed_lengths import NEAR, ROWS, sharpen

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Batch:
    """Checked inputs: directions (zero for the zero vector), squared lengths, and which of them coincide.

    Example:
        >>> from isometer.theory import Batch
        >>> Batch.of([[3.0, 4.0]]).directions
        array([[0.6, 0.8]])
    """

    directions: Floats  # (n, d), unit rows, or zero
    squared_lengths: Floats  # (n,)

    @classmethod
    def of(cls, inputs: ArrayLike) -> Batch:
        """Check an (n, d) array.

        Example:
            >>> from isometer.theory.kernels import Batch
            >>> Batch.of([[3.0, 4.0]]).squared_lengths
            array([25.])
        """
        try:
            array = np.asarray(inputs)
        except ValueError as problem:
            raise IsometerError(f"inputs must be an (n, d) array of numbers: {problem}") from None
        if array.dtype.kind not in "fiub":
            raise IsometerError(f"inputs must be real numbers; got an array of type {array.dtype}")
        if array.ndim != 2 or 0 in array.shape:
            raise IsometerError(
                f"inputs must have the shape (n, d), samples then features; got {array.shape} — "
                "flatten each sample to a row, or add an axis with inputs[None, :]"
            )
        data = array.astype(float)
        bad = ~np.isfinite(data).all(axis=1)
        if bad.any():
            raise IsometerError(
                f"input {int(np.argmax(bad))} has NaN or infinite entries ({int(bad.sum())} such of {len(data)}) — "
                "clean the data first"
            )
        largest = np.abs(data).max(axis=1)
        zero = largest == 0.0
        # by the largest entry first, so that sums of squares neither overflow nor vanish
        scaled = data / np.where(zero, 1.0, largest)[:, None]
        lengths = np.sqrt(np.einsum("nd,nd->n", scaled, scaled))
        with np.errstate(over="ignore", under="ignore"):
            squared = (lengths * largest) ** 2
        bad = ~(((squared > 0.0) | zero) & np.isfinite(squared))
        if bad.any():
            extreme = float(largest[np.argmax(bad)])
            raise IsometerError(
                f"the squared length of an input near {extreme:.3g} overflows float64 — rescale the inputs"
            )
        return cls(scaled / np.where(zero, 1.0, lengths)[:, None], squared)

    @property
    def zeros(self) -> NDArray[np.intp]:
        """Which inputs are the zero vector.

        Example:
            >>> from isometer.theory.kernels import Batch
            >>> Batch.of([[0.0, 0.0], [1.0, 0.0]]).zeros
            array([0])
        """
        return np.flatnonzero(self.squared_lengths == 0.0)

    @property
    def common_length(self) -> float | None:
        """‖x‖² when it is the same for all, up to rounding."""
        low, high = float(self.squared_lengths.min()), float(self.squared_lengths.max())
        if low == 0.0 or high - low > UNIT * high:
            return None
        middle = (low + high) / 2
        return 1.0 if abs(middle - 1.0) <= UNIT else middle

    def gaps(self, rows: slice, columns: slice) -> tuple[Floats, Floats]:
        """(1 − ρ, 1 + ρ) of a block of pairs, each to relative accuracy, exactly 0 for equal directions."""
        left, right = self.directions[rows], self.directions[columns]
        cosine = left @ right.T
        gap, mirror = 1.0 - cosine, 1.0 + cosine
        sharpen(gap, left, right, -1.0)
        sharpen(mirror, left, right, 1.0)
        near = mirror < NEAR  # each is 2 minus the other: take the accurate one
        return np.where(near, 2.0 - mirror, gap), np.where(gap < NEAR, 2.0 - gap, mirror)

    @cached_property
    def closest(self) -> tuple[float, float, list[tuple[int, int]], list[tuple[int, int]]]:
        """(smallest 1 − ρ, smallest 1 + ρ, first parallel pairs, first opposite pairs) over distinct inputs."""
        low, opposite = math.inf, math.inf
        same: list[tuple[int, int]] = []
        flipped: list[tuple[int, int]] = []
        for rows, columns in blocks(len(self.directions)):
            gap, mirror = self.gaps(rows, columns)
            later = np.arange(columns.start, columns.stop)[None, :] > np.arange(rows.start, rows.stop)[:, None]
            if not later.any():
                continue
            low = min(low, float(gap[later].min()))
            opposite = min(opposite, float(mirror[later].min()))
            for found, values in ((same, gap), (flipped, mirror)):
                if len(found) < 10:
                    i, j = np.nonzero((values == 0.0) & later)
                    found += [
                        (int(a) + rows.start, int(b) + columns.start)
                        for a, b in zip(i[: 10 - len(found)], j[: 10 - len(found)], strict=True)
                    ]
        return low, opposite, same, flipped


def blocks(n: int) -> Iterator[tuple[slice, slice]]:
    """Rows and the columns from them on: the upper triangle in strips."""
    for start in range(0, n, ROWS):
        yield slice(start, min(start + ROWS, n)), slice(start, n)
