"""Steps that mix positions, on pairs of inputs: convolutions, pools, upsampling, flattening; see `_pair_state`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.spec import Convolution, Pool, Upsample
from isometer.theory.networks._convolution import _read_lines, convolution_variance
from isometer.theory.networks._pair_state import Law, NotByPairs, PairRun, PairState, diagonal, fresh, reduced_pairs
from isometer.theory.networks._pooling import pooled_axes
from isometer.theory.networks._windows import Line, pool_lines, summed

Floats = NDArray[Any]
_LARGE = 1 << 18  # entries of one pair from which on it goes in planes


def convolve_pairs(step: Convolution, state: PairState) -> PairState:
    """Sums over windows, both positions of a pair at the same offset."""
    assert step.channels is not None
    if step.groups > 1 and (step.groups >= state.width or state.law != "gaussian"):
        raise NotByPairs("conv with groups", "groups of channels differ in what they see")
    along = _read_lines(step, state.axes)
    offsets = math.prod(one.index.shape[1] for one in along)
    factor = convolution_variance(step, state.width) / offsets
    second = window_sums(state.second, along, state.is_full)
    second *= factor
    tangent = None
    if state.tangent is not None:
        tangent = window_sums(state.tangent, along, state.is_full)
        tangent *= factor
        tangent += second
    squares = state.squares
    if squares is not None:
        squares = factor * window_sums(squares, along, False)
    axes = tuple(len(one.index) for one in along)
    return PairState(axes, state.full, step.channels, squares, None, second, tangent, "gaussian", fresh())


def window_sums(array: Floats, along: Sequence[Line], full: bool) -> Floats:
    """Sums over windows of arrays of pairs, both positions at the same offset; always a new array.

    Example:
        >>> from isometer.theory.networks._windows import lines
        >>> window_sums(np.ones((1, 3)), lines((3,), (3,), (1,), (1,), "zeros"), False).tolist()
        [[2.0, 3.0, 2.0]]
    """
    if full and len(along) == 2 and math.prod(array.shape[1:]) >= _LARGE:
        return _planes(array, *along)
    dims = [(1 + 2 * a, 2 + 2 * a) if full else (1 + a,) for a in range(len(along))]
    found = summed(array, along, dims)
    return found.copy() if found is array else found


def _planes(array: Floats, rows: Line, columns: Line) -> Floats:
    """Sums over windows of `(pairs, h, h', w, w')`, one h at a time, which stays in the cache."""
    pairs, made = len(array), (len(rows.index), len(columns.index))
    out = np.empty((pairs, made[0], made[0], made[1], made[1]), dtype=array.dtype)
    plane = np.empty((made[0], *array.shape[3:]), dtype=array.dtype)
    for pair in range(pairs):
        for row in range(made[0]):
            plane[...] = 0.0
            for place, runs in zip(rows.index[row], rows.runs, strict=True):
                if place >= 0:
                    for written, read in runs:
                        plane[written] += array[pair, place, read]
            out[pair, row] = summed(plane, [columns], [(1, 2)])
    return out


def pool_pairs(step: Pool, state: PairState, run: PairRun) -> PairState:
    """Means over windows, the two positions of a pair apart from each other."""
    along = pool_lines(state.axes, step.size, step.stride)
    offsets = math.prod(one.index.shape[1] for one in along)
    axes = pooled_axes(step, along)

    def pooled(array: Floats) -> Floats:
        each = [line for line in along for _ in range(2)]
        found = summed(array, each, [(1 + k,) for k in range(len(each))]) / offsets**2
        return found if axes else np.asarray(found.reshape(-1))

    second = pooled(state.second)
    tangent = None if state.tangent is None else pooled(state.tangent)
    mean = None
    if state.mean is not None:
        mean = window_sums(state.mean, along, False) / offsets
        mean = mean if axes else mean.reshape(-1)
    law: Law = "gaussian" if state.law == "gaussian" and mean is None else "other"
    squares = None
    if run.records and len(run.first):  # of every sample with itself
        squares = diagonal(second, axes) if axes else second.copy()
    return replace(state, axes=axes, squares=squares, mean=mean, second=second, tangent=tangent, law=law, own=True)


def upsample_pairs(step: Upsample, state: PairState) -> PairState:
    """Every position several times."""

    def repeated(array: Floats | None, both: bool) -> Floats | None:
        if array is None:
            return None
        for axis, times in enumerate(step.repeats):
            for dim in (1 + 2 * axis, 2 + 2 * axis) if both else (1 + axis,):
                array = np.repeat(array, times, axis=dim)
        return array

    second = repeated(state.second, state.is_full)
    assert second is not None
    return replace(
        state,
        axes=tuple(size * times for size, times in zip(state.axes, step.repeats, strict=True)),
        second=second,
        tangent=repeated(state.tangent, state.is_full),
        squares=repeated(state.squares, False),
        mean=repeated(state.mean, False),
        own=True,
    )


def flatten_pairs(state: PairState) -> PairState:
    """Positions become features: second moments are means over positions."""
    if not state.axes:
        return state
    state = reduced_pairs(state)
    positions = math.prod(state.axes)
    over = tuple(range(1, 1 + len(state.axes)))

    def averaged(array: Floats | None) -> Floats | None:
        return None if array is None else np.asarray(array.mean(axis=over, dtype=np.float64))

    second = averaged(state.second)
    assert second is not None
    return replace(
        state,
        axes=(),
        width=state.width * positions,
        second=second,
        tangent=averaged(state.tangent),
        squares=averaged(state.squares),
        mean=averaged(state.mean),
        law="other" if positions > 1 else state.law,
        own=True,
    )
