"""What theory knows of two inputs at a place of a network: the state of the engine that goes pair by pair.

The interpreter follows a batch as a whole, to relative accuracy in 1 − ρ. Kernels of thousands of images need less and
more: entries to rounding relative to the diagonal, and no matrix over the whole batch. Without a norm over samples an
entry depends on its two inputs alone, so a few pairs at a time pass through the whole network, small enough to stay in
the processor's cache.

Arrays have pairs first, then positions: `(pairs, h, w)` where only equal positions matter, `(pairs, h, h', w, w')`
where a pool needs all. Mean squares are those of samples, `(samples, h, w)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from isometer.theory.networks._state import NotCovered

Floats = NDArray[Any]  # float64 or float32
Places = NDArray[np.intp]
Law = Literal["gaussian", "given", "other"]
_numbers = count()


class NotByPairs(NotCovered):
    """A step that the engine of pairs leaves to the interpreter.

    Example:
        >>> print(NotByPairs("attention"))
        theory does not cover attention pair by pair: its kernel is not one of two inputs alone, or has no formula — ...
    """

    def __init__(self, step: str, reason: str = "its kernel is not one of two inputs alone, or has no formula") -> None:
        super().__init__(f"{step} pair by pair", reason, "use network_kernels on the whole batch")


@dataclass(frozen=True, eq=False)
class PairRun:
    """Which pairs, and what is requested.

    `first` and `second` are the samples of each pair. What steps need of single samples, such as mean squares before an
    activation, a run that `records` finds once, and later ones read: `kept`, a tuple of arrays `(samples, *axes)` for
    each such step.
    """

    first: Places
    second: Places
    tangent: bool
    dtype: Any = np.float64
    records: bool = False
    kept: list[tuple[Floats, ...]] = field(default_factory=list)
    _read: list[int] = field(default_factory=lambda: [0])

    @property
    def equal(self) -> Places:
        """Pairs of a sample with itself."""
        return np.flatnonzero(self.first == self.second)

    def site(self, find: Callable[[], tuple[Floats, ...]]) -> tuple[Floats, ...]:
        """Numbers of every sample at the next step that needs any."""
        if self.records:
            self.kept.append(find())
            return self.kept[-1]
        self._read[0] += 1
        return self.kept[self._read[0] - 1]


@dataclass(frozen=True, eq=False)
class PairState:
    """One feature of two inputs.

    Attributes:
        axes: positions along each axis.
        full: whether all pairs of positions are held.
        width: features.
        squares: E x² of every sample and position; None in a run that does not record.
        mean: E x, None where it is 0, and in a run that does not record.
        second: E xx′ of every pair.
        tangent: the tangent kernel of every pair.
        law: Gaussian, numbers of the input, or anything else.
        keys: of the random weights that it depends on feature by feature.
        own: whether `second` and `tangent` may be overwritten.
    """

    axes: tuple[int, ...]
    full: bool
    width: int
    squares: Floats | None
    mean: Floats | None
    second: Floats
    tangent: Floats | None
    law: Law
    keys: frozenset[int]
    own: bool = True

    @property
    def is_full(self) -> bool:
        """Whether pairs of different positions are held."""
        return self.full and bool(self.axes)

    def known_squares(self, step: str) -> Floats:
        """Mean squares, which must be there."""
        if self.squares is None:
            raise NotByPairs(step, "mean squares of what leaves a pool are not known")
        return self.squares

    def shared(self) -> PairState:
        """The same for a second reader."""
        return replace(self, own=False)

    def writable(self) -> PairState:
        """With arrays of its own."""
        if self.own:
            return self
        tangent = None if self.tangent is None else self.tangent.copy()
        return replace(self, second=self.second.copy(), tangent=tangent, own=True)

    # --- vectors of samples as factors of pairs -----------------------------------------------------------------------

    def sides(self, vectors: Floats, run: PairRun) -> tuple[Floats, Floats]:
        """Numbers `(samples, *axes)` of both inputs of every pair, shaped to multiply `second`."""
        own = vectors.astype(run.dtype, copy=False)
        return spread(own[run.first], self.is_full, 0), spread(own[run.second], self.is_full, 1)

    def same_entries(self, run: PairRun) -> tuple[Any, ...] | None:
        """The index of entries of a sample and position with itself; None if no pair has one."""
        equal = run.equal
        if not len(equal):
            return None
        if not self.is_full:
            return (equal,)
        rank = len(self.axes)
        at = [np.arange(size).reshape([1] * (1 + a) + [-1] + [1] * (rank - 1 - a)) for a, size in enumerate(self.axes)]
        index: list[Any] = [equal.reshape([-1] + [1] * rank)]
        for one in at:
            index += [one, one]
        return tuple(index)


def fresh() -> frozenset[int]:
    """The key of new random weights."""
    return frozenset({next(_numbers)})


def spread(array: Floats, full: bool, side: int) -> Floats:
    """`(pairs, *axes)` as a factor of arrays of pairs; `side` is which of the two positions it is about.

    Example:
        >>> spread(np.ones((2, 3, 4)), True, 1).shape, spread(np.ones((2, 3, 4)), False, 1).shape
        ((2, 1, 3, 1, 4), (2, 3, 4))
    """
    if not full:
        return array
    shape: list[int] = [array.shape[0]]
    for size in array.shape[1:]:
        shape += [size, 1] if side == 0 else [1, size]
    return array.reshape(shape)


def diagonal(array: Floats, axes: Sequence[int]) -> Floats:
    """`(pairs, h, h, w, w)` at equal positions, `(pairs, h, w)`.

    Example:
        >>> diagonal(np.arange(4.0).reshape(1, 2, 2), (2,)).tolist()
        [[0.0, 3.0]]
    """
    for axis in range(len(axes)):
        array = np.moveaxis(np.diagonal(array, axis1=1 + axis, axis2=2 + axis), -1, 1 + axis)
    return np.ascontiguousarray(array)


def reduced_pairs(state: PairState) -> PairState:
    """With equal positions only."""
    if not state.is_full:
        return state
    tangent = None if state.tangent is None else diagonal(state.tangent, state.axes)
    return replace(state, full=False, second=diagonal(state.second, state.axes), tangent=tangent, own=True)
