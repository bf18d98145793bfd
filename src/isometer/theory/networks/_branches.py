"""Branches at infinite width: skips, sums, products, concatenations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from isometer.spec import Join, Residual, Step
from isometer.theory.networks._covariance import Covariance, combined, without_mean
from isometer.theory.networks._gradient import Gradient, Squares, merged
from isometer.theory.networks._state import FeatureState, NotCovered, Process, added, compressed
from isometer.theory.networks._weights import Run, Stepped

Floats = NDArray[np.float64]
Walk = Callable[[Sequence[Step], FeatureState, Run, frozenset[int]], Stepped]


def residual(step: Residual, state: FeatureState, run: Run, held: frozenset[int], walk: Walk) -> Stepped:
    """x ↦ skip·x + scale·branch(x)."""
    skip, gamma = run.number(step, "skip"), run.number(step, "scale")
    if isinstance(gamma, float) and math.isinf(gamma):
        return walk(step.branch, state, run, held)
    branch, back_branch = walk(step.branch, state, run, held | state.keys)
    out = compressed(added([state, branch], [skip, gamma], "residual"), held)
    if not run.backward:
        return out, None
    assert back_branch is not None

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        return merged([gradient.scaled(skip), back_branch(gradient.scaled(gamma), squares)])

    return out, back


def join(step: Join, state: FeatureState, run: Run, held: frozenset[int], walk: Walk) -> Stepped:
    """What several branches make of x, added, multiplied or side by side."""
    ran = [walk(branch, state, run, held | state.keys) for branch in step.branches]
    states = [one for one, _ in ran]
    if step.by == "sum":
        out = compressed(added(states, [1.0] * len(states), "sum"), held)
        parts: list[Floats | None] = [None] * len(states)
    elif step.by == "product":
        out, parts = _product(states)
    else:
        out, parts = _concatenated(states), [None] * len(states)
    if not run.backward:
        return out, None
    backs = [back for _, back in ran]

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        found = []
        for one, others in zip(backs, parts, strict=True):
            assert one is not None
            own = gradient
            if others is not None:
                own = Gradient.of(gradient.total() * others, gradient.layout, gradient.log)
            found.append(one(own, squares))
        return merged(found)

    return out, back


def _product(states: Sequence[FeatureState]) -> tuple[FeatureState, list[Floats | None]]:
    """Second moments and means of independent factors multiply."""
    for place, one in enumerate(states):
        for other in states[place + 1 :]:
            if one.keys & other.keys:
                reason = "its branches depend on the same features feature by feature"
                raise NotCovered("product", reason, "put a dense step into each branch, or simulate it")
            if any(process.mixed for _, process in (*one.terms, *other.terms)):
                raise NotCovered("product", "its features have several laws", "put a dense step into each branch")
    seconds = [state.second() for state in states]
    grams = [second.gram() for second in seconds]
    mean = np.prod([state.mean() for state in states], axis=0)
    variances = np.prod([second.variances for second in seconds], axis=0)
    gaps = np.zeros_like(seconds[0].gaps)
    for second in seconds:  # 1 − ρσ = (1 − ρ) + (1 − σ) − (1 − ρ)(1 − σ)
        gaps = gaps + second.gaps - gaps * second.gaps
    others = [np.prod([gram for k, gram in enumerate(grams) if k != place], axis=0) for place in range(len(grams))]
    tangent: Floats | None = None
    for state, rest in zip(states, others, strict=True):
        own = state.tangent()
        if own is not None:
            tangent = own * rest if tangent is None else tangent + own * rest
    keys = frozenset().union(*(state.keys for state in states))
    covariance = without_mean(Covariance(variances, gaps), mean)
    process = Process("opaque", mean, covariance, tangent, keys)
    return FeatureState.of(process, states[0].layout, states[0].width), list(others)


def _concatenated(states: Sequence[FeatureState]) -> FeatureState:
    """Means over features, which are of several laws."""
    width = sum(state.width for state in states)
    shares = [state.width / width for state in states]
    mean = np.sum([share * state.mean() for share, state in zip(shares, states, strict=True)], axis=0)
    seconds = [state.second() for state in states]
    second = combined([one.part(math.sqrt(share)) for share, one in zip(shares, seconds, strict=True)])
    tangent: Floats | None = None
    for share, state in zip(shares, states, strict=True):
        own = state.tangent()
        if own is not None:
            tangent = share * own if tangent is None else tangent + share * own
    keys = frozenset().union(*(state.keys for state in states))
    process = Process("opaque", mean, without_mean(second, mean), tangent, keys, mixed=True)
    return FeatureState.of(process, states[0].layout, width, states[0].log_scale)
