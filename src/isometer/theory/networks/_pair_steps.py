"""The steps of a network on pairs of inputs; see `_pair_state`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.spec import (
    Act,
    Bias,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    Join,
    Noise,
    Norm,
    Pool,
    Residual,
    Scaling,
    Step,
    Upsample,
)
from isometer.spec._activation import resolved
from isometer.spec._language import word_of
from isometer.theory.networks._norms import feature_statistics
from isometer.theory.networks._pair_duals import PairDual, pair_dual
from isometer.theory.networks._pair_positions import convolve_pairs, flatten_pairs, pool_pairs, upsample_pairs
from isometer.theory.networks._pair_state import NotByPairs, PairRun, PairState, fresh
from isometer.theory.networks._weights import weight_variance

Floats = NDArray[Any]
_CACHED = 1 << 15  # entries of an activation at a time, which stay in the cache
_NO_MEAN = 1e-15  # what centring leaves
_duals: dict[str, PairDual] = {}


def walk_pairs(steps: Sequence[Step], state: PairState, run: PairRun) -> PairState:
    """Steps one after the other."""
    for step in steps:
        state = _stepped(step, state, run)
    return state


def _stepped(step: Step, state: PairState, run: PairRun) -> PairState:
    match step:
        case Dense():
            return _dense(step, state)
        case Bias():
            return _bias(step, state)
        case Act():
            return _activate(step, state, run)
        case Norm():
            return _normalise(step, state, run)
        case Scaling():
            return _scaled(state, float(step.factor))  # type: ignore[arg-type]
        case Residual():
            return _residual(step, state, run)
        case Join():
            return _join(step, state, run)
        case Convolution():
            return convolve_pairs(step, state)
        case Pool(by="mean"):
            return pool_pairs(step, state, run)
        case Upsample():
            return upsample_pairs(step, state)
        case Flatten():
            return flatten_pairs(state)
        case Dropout():
            return _drop(step, state, run)
        case Noise():
            return _disturb(step, state, run)
        case _:
            raise NotByPairs(word_of(step))


# --- weights ----------------------------------------------------------------------------------------------------------


def _dense(step: Dense, state: PairState) -> PairState:
    assert step.width is not None
    if step.weights == "orthogonalized-xavier" and state.width != step.width:
        raise NotByPairs("dense weights of the law orthogonalized-xavier")
    gain = float(step.gain)  # type: ignore[arg-type]
    variance = weight_variance(step.weights, state.width, step.width, gain, step.weight_scaling)
    tangent = None if state.tangent is None else variance * (state.tangent + state.second)
    squares = None if state.squares is None else variance * state.squares
    return PairState(
        state.axes, state.full, step.width, squares, None, variance * state.second, tangent, "gaussian", fresh()
    )


def _bias(step: Bias, state: PairState) -> PairState:
    state = state.writable()
    second, tangent = state.second, state.tangent
    second += step.variance
    if tangent is not None:
        tangent += step.variance
    squares = None if state.squares is None else state.squares + step.variance
    law = state.law if state.law == "gaussian" else "other"
    return replace(state, squares=squares, law=law, keys=state.keys | fresh())


# --- entry by entry ---------------------------------------------------------------------------------------------------


def _activate(step: Act, state: PairState, run: PairRun) -> PairState:
    if state.law != "gaussian" or state.mean is not None:
        raise NotByPairs(f"act({step.activation!r})", "the features before it are not Gaussian without mean")
    if step.activation not in _duals:
        _duals[step.activation] = pair_dual(resolved(step.activation))
    dual = _duals[step.activation]
    gain = float(step.gain)  # type: ignore[arg-type]
    (squares,) = run.site(lambda: (gain**2 * state.known_squares(f"act({step.activation!r})"),))
    state = _scaled(state, gain).writable()
    second, tangent = state.second, state.tangent
    same = state.same_entries(run)
    if same is not None:  # exactly 1 as a cosine: near it E φ′φ′ is steep
        own = squares[run.first[run.equal]]
        second[same] = own
    one, other = state.sides(squares, run)
    for part in _parts(second.shape):
        dual.pairs(second[part], _part(one, part), _part(other, part), None if tangent is None else tangent[part])
    if same is not None:
        second[same] = dual.moments(own)[0]
    if not run.records:
        return replace(state, law="other")
    after, mean = dual.moments(squares)
    return replace(state, squares=after, mean=mean if mean.any() else None, law="other")


def _parts(shape: Sequence[int]) -> list[tuple[slice, ...]]:
    """Slices of the first axes that leave few enough entries."""
    inner = math.prod(shape[1:])
    if inner <= _CACHED or len(shape) == 1:
        step = max(1, _CACHED // max(inner, 1))
        return [(slice(at, at + step),) for at in range(0, shape[0], step)]
    rows = max(1, _CACHED // max(math.prod(shape[2:]), 1))
    found: list[tuple[slice, ...]] = []
    for pair in range(shape[0]):
        found += [(slice(pair, pair + 1), slice(at, at + rows)) for at in range(0, shape[1], rows)]
    return found


def _part(array: Floats, part: tuple[slice, ...]) -> Floats:
    """The same of an array of which some axes have length 1."""
    chosen = zip(part, array.shape, strict=False)
    return array[tuple(one if size > 1 or axis == 0 else slice(None) for axis, (one, size) in enumerate(chosen))]


def _scaled(state: PairState, factor: float) -> PairState:
    if factor == 1.0:
        return state
    square = factor**2
    return replace(
        state,
        second=square * state.second,
        tangent=None if state.tangent is None else square * state.tangent,
        squares=None if state.squares is None else square * state.squares,
        mean=None if state.mean is None else factor * state.mean,
        own=True,
    )


def _normalise(step: Norm, state: PairState, run: PairRun) -> PairState:
    """A norm over features: affine, with statistics that are constants."""
    if step.over == "batch":
        raise NotByPairs("batch norm", "its statistics are those of the whole batch")
    if step.over == "groups" and step.groups > 1 and state.law != "gaussian":
        raise NotByPairs("group norm", "groups of features may differ in law")

    def statistics() -> tuple[Floats, ...]:
        squares = state.known_squares("norm")
        mean = np.zeros_like(squares) if state.mean is None else state.mean
        spread = np.maximum(squares - mean * mean, 0.0)
        factor, shift = feature_statistics(step, spread, mean, state.width)
        return mean, factor, factor * mean + shift, factor**2 * spread

    mean, factor, after, spread = run.site(statistics)
    out = state.writable()
    second, tangent = out.second, out.tangent
    for vectors, sign in ((mean, -1.0), (after, 1.0)):
        if sign > 0:
            one, other = out.sides(factor, run)
            second *= one
            second *= other
            if tangent is not None:
                tangent *= one
                tangent *= other
        if vectors.any():
            one, other = out.sides(vectors, run)
            second += sign * (one * other)
    if not run.records:
        return out
    has_mean = np.abs(after).max(initial=0.0) > _NO_MEAN
    return replace(out, squares=spread + after**2, mean=after if has_mean else None)


def _drop(step: Dropout, state: PairState, run: PairRun) -> PairState:
    """Mean squares grow by 1/(1 − rate), products of different entries stay as they are."""
    if step.rate == 0.0:
        return state
    keep = 1.0 - step.rate
    state = state.writable()
    same = state.same_entries(run)
    if same is not None:
        state.second[same] /= keep
        if state.tangent is not None:
            state.tangent[same] /= keep
    squares = None if state.squares is None else state.squares / keep
    return replace(state, squares=squares, law="other")


def _disturb(step: Noise, state: PairState, run: PairRun) -> PairState:
    state = state.writable()
    same = state.same_entries(run)
    if same is not None:
        state.second[same] += step.variance
    squares = None if state.squares is None else state.squares + step.variance
    law = state.law if state.law == "gaussian" else "other"
    return replace(state, squares=squares, law=law, keys=state.keys | fresh())


# --- branches ---------------------------------------------------------------------------------------------------------


def _residual(step: Residual, state: PairState, run: PairRun) -> PairState:
    scale, skip = float(step.scale), float(step.skip)  # type: ignore[arg-type]
    if math.isinf(scale):
        return walk_pairs(step.branch, state, run)
    branch = walk_pairs(step.branch, state.shared(), run)
    return _added([_scaled(state.shared(), skip), _scaled(branch, scale)])


def _join(step: Join, state: PairState, run: PairRun) -> PairState:
    states = [walk_pairs(branch, state.shared(), run) for branch in step.branches]
    if step.by == "sum":
        return _added(states)
    if step.by == "concat":
        return _concatenated(states)
    return _multiplied(states)


def _added(states: Sequence[PairState]) -> PairState:
    """Independent summands; at most one of them has a mean."""
    first, *others = states
    means = [state.mean for state in states if state.mean is not None]
    if len(means) > 1:
        raise NotByPairs("a sum", "several summands have means")
    out = first.writable()
    second, tangent, squares, keys = out.second, out.tangent, out.squares, out.keys
    law = out.law
    for state in others:
        if state.keys & keys:
            raise NotByPairs("a sum", "its summands depend on the same features feature by feature")
        second += state.second
        if tangent is not None and state.tangent is not None:
            tangent += state.tangent
        squares = None if squares is None or state.squares is None else squares + state.squares
        keys = keys | state.keys
        law = law if law == state.law == "gaussian" else "other"
    return replace(out, squares=squares, keys=keys, law=law, mean=means[0] if means else None)


def _concatenated(states: Sequence[PairState]) -> PairState:
    width = sum(state.width for state in states)
    shares = [state.width / width for state in states]

    def mixed(arrays: Sequence[Floats | None]) -> Floats | None:
        found = None
        for share, array in zip(shares, arrays, strict=True):
            if array is not None:
                found = share * array if found is None else found + share * array
        return found

    second = mixed([state.second for state in states])
    assert second is not None
    unknown = any(state.squares is None for state in states)
    return replace(
        states[0],
        width=width,
        second=second,
        tangent=mixed([state.tangent for state in states]),
        squares=None if unknown else mixed([state.squares for state in states]),
        mean=mixed([state.mean for state in states]),
        law="other",
        keys=frozenset().union(*(state.keys for state in states)),
        own=True,
    )


def _multiplied(states: Sequence[PairState]) -> PairState:
    """Independent factors: moments multiply, and Θ = Θ₁K₂ + K₁Θ₂."""
    out, *others = states
    for state in others:
        if state.keys & out.keys:
            raise NotByPairs("a product", "its factors depend on the same features feature by feature")
        tangent = None
        if out.tangent is not None and state.tangent is not None:
            tangent = out.tangent * state.second + out.second * state.tangent
        means = out.mean is None or state.mean is None
        out = replace(
            out,
            second=out.second * state.second,
            tangent=tangent,
            squares=None if out.squares is None or state.squares is None else out.squares * state.squares,
            mean=None if means else out.mean * state.mean,  # type: ignore[operator]
            law="other",
            keys=out.keys | state.keys,
            own=True,
        )
    return out
