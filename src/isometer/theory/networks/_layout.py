"""Which pairs of (sample, position) a state holds, and where they are in its arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Layout:
    """The pairs that are known.

    Arrays are stacks of matrices. Without positions there is one, n × n. Diagonal in position there is one for each of
    the P positions: pairs of samples at the same place. In full there is one of nP × nP, the index of a pair being
    sample · P + position. `copies` counts recursions that run side by side, which have no positions. `exchangeable`
    counts tokens of which all pairs are alike: three rows stand for them, two of one sample and one of another.

    Example:
        >>> Layout(3, (2, 2)).size, Layout(3, (2, 2), full=True).size, Layout(3).size
        ((4, 3), (1, 12), (1, 3))
    """

    samples: int
    axes: tuple[int, ...] = ()
    full: bool = False
    copies: int = 1
    exchangeable: int = 0

    @property
    def positions(self) -> int:
        """P, 1 without axes."""
        return math.prod(self.axes)

    @property
    def size(self) -> tuple[int, int]:
        """(stack, m) of the arrays."""
        if not self.axes:
            return self.copies, self.samples
        return (1, self.samples * self.positions) if self.full else (self.positions, self.samples)

    @property
    def is_full(self) -> bool:
        """Whether pairs of different positions are held."""
        return self.full and bool(self.axes)

    def at(self, axes: tuple[int, ...]) -> Layout:
        """The same with other positions."""
        return replace(self, axes=axes)

    def summed(self, array: Floats) -> Floats | float:
        """The sum over all pairs; for exchangeable tokens over those of one sample, one number per copy.

        Example:
            >>> Layout(2).summed(np.ones((1, 2, 2))), Layout(3, exchangeable=5).summed(np.ones((1, 3, 3))).tolist()
            (4.0, [25.0])
        """
        if not self.exchangeable:
            return float(array.sum())
        return self.exchangeable * (array[:, 0, 0] + (self.exchangeable - 1) * array[:, 0, 1])

    # --- by position --------------------------------------------------------------------------------------------------

    def vectors(self, array: Floats) -> Floats:
        """Numbers `(stack, m)` as `(P, n)`."""
        return array.reshape(self.samples, self.positions).T if self.is_full else array

    def stacked(self, array: Floats) -> Floats:
        """The reverse of `vectors`."""
        return np.ascontiguousarray(array.T).reshape(1, -1) if self.is_full else array

    def blocks(self, array: Floats) -> Floats:
        """Matrices of a full layout as `(n, P, n, P)`."""
        shape = (self.samples, self.positions) * 2
        return array.reshape(shape)

    def diagonal(self, array: Floats) -> Floats:
        """Matrices `(P, n, n)` of pairs at the same position."""
        if not self.is_full:
            return array
        return np.ascontiguousarray(np.einsum("ipjp->pij", self.blocks(array)))

    def embedded(self, array: Floats) -> Floats:
        """The reverse of `diagonal`, with zeros for pairs of different positions."""
        if not self.is_full:
            return array
        n, p = self.samples, self.positions
        out = np.zeros((n, p, n, p))
        index = np.arange(p)
        out[:, index, :, index] = array
        return out.reshape(1, n * p, n * p)
