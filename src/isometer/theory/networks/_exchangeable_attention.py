"""Attention over exchangeable tokens: three numbers per copy, a length and two gaps.

Softmax does not see what all keys of a sample share, so scores of tokens at the gap g = 1 − cosine vary by σ² = κ²g,
and those of two queries for the same key correlate by 1 − g. With P = E Σ A_j² and D = ½ E |A − B|² of two rows,

    length²:  v² q (1 − g(1 − P))
    gap within a sample:   g D / (1 − g(1 − P))
    gap across samples:    (s − g(1 − P)) / (1 − g(1 − P))

since keys of another sample are all alike to a query.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from isometer.spec import Attention
from isometer.theory.attention import softmax_moments
from isometer.theory.networks._attention_sizes import attention_sizes
from isometer.theory.networks._covariance import Covariance
from isometer.theory.networks._gradient import Gradient, Squares
from isometer.theory.networks._state import FeatureState, NotCovered, gaussian
from isometer.theory.networks._weights import ExpectedAttention, Run, Stepped

Floats = NDArray[np.float64]


def attend_exchangeable(step: Attention, state: FeatureState, run: Run) -> Stepped:
    """Softmax attention in full over T tokens of which all pairs are alike."""
    if step.causal or step.rotary:
        what, fix = ("a causal mask", "causal=False") if step.causal else ("rotary positions", "rotary=False")
        reason = "positions differ after it, but exchangeable tokens are all alike"
        raise NotCovered(f"{what} over exchangeable tokens", reason, f"pass {fix}, or a batch of tokens to predict")
    if step.kind != "softmax":
        raise NotCovered("linear attention over exchangeable tokens", "it is not derived here", "pass kind='softmax'")
    tokens, second = state.layout.exchangeable, state.second()
    length = second.variances[:, 0]
    inside, across = second.gaps[:, 0, 1], second.gaps[:, 0, 2]
    sizes = attention_sizes(step, state.width, run)
    unit = np.where(length > 0.0, 1.0, 0.0) if step.qk_norm else length
    scores = np.broadcast_to(np.asarray(sizes.score, dtype=float).reshape(-1), length.shape)
    found = softmax_moments(scores * unit, inside, tokens)
    run.moments.error += found.error
    if run.attention is not None:
        strength = scores * unit * np.sqrt(inside / math.log(max(tokens, 2)))
        run.attention.append(ExpectedAttention(found.entropy, 1.0 / found.participation, strength))
    lost = inside * (1.0 - found.participation)
    left = np.maximum(1.0 - lost, 1e-300)
    gaps = np.zeros_like(second.gaps)
    gaps[:, 0, 1] = gaps[:, 1, 0] = np.clip(inside * found.distance / left, 0.0, 2.0)
    gaps[:, :2, 2] = gaps[:, 2, :2] = np.clip((across - lost) / left, 0.0, 2.0)[:, None]
    mixed = length * left
    forward = np.asarray(sizes.value * sizes.output, dtype=float).reshape(-1) * mixed
    covariance = Covariance(np.repeat(forward[:, None], 3, axis=1), gaps)
    out = FeatureState.of(gaussian(covariance, None), state.layout, state.width, state.log_scale)
    if not run.backward:
        return out, None
    value, output, tau = (
        np.broadcast_to(np.asarray(one, dtype=float).reshape(-1), length.shape)
        for one in (sizes.value, sizes.output, sizes.score)
    )
    overlap = found.participation - found.distance
    share, others = sizes.inner / state.width, max(tokens - 1, 1)
    # K and U between Jacobians of softmax, which do not see constants: what is left of each
    raw = 1.0 / np.where(length > 0.0, length, 1.0) if step.qk_norm else np.ones_like(length)
    through = value * (length * inside) * (unit * raw)  # raw undoes the norm of queries and keys
    gram = Classes(length, length * (1.0 - inside), length * (1.0 - across))
    left_gram = Classes.read(covariance.gram()).times(1.0 / np.where(output > 0.0, output, 1.0))  # of heads
    log = math.log(state.width) + math.log(sizes.inner) + 2 * state.log_scale

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        total = Classes.read(gradient.total())
        head = total.times(output / share)
        values = Classes(
            head.same * found.participation + others * head.within * overlap,
            head.same * (1.0 - found.participation) / others + head.within * (1.0 - overlap),
            head.across,
        )
        own, other = head.same * found.row_slope, head.within * found.pair_slope
        queries = Classes(own * inside, other * inside, np.zeros_like(length))
        keys = own + others * other * (1.0 - inside)  # those by all keys of a sample sum to 0
        by_keys = Classes(keys, -keys / others, np.zeros_like(length))
        wide, keyed = state.width * sizes.inner, state.width * sizes.keyed
        per_query = through * np.asarray(sizes.per_query, dtype=float).reshape(-1)
        for kind, matrix, entries in (
            ("output", total.by(left_gram), wide),
            ("value", values.by(gram), keyed),
            ("query", queries.times(per_query).by(gram), wide),
            ("key", by_keys.times(per_query).by(gram), keyed),
        ):
            squares.add(kind, state.layout.summed(matrix.matrix()), gradient.log + log, entries)
        scores = queries.plus(by_keys).times(through * tau**2)
        return Gradient.of(values.times(value).plus(scores).times(share).matrix(), gradient.layout, gradient.log)

    return out, back


class Classes:
    """A matrix over tokens by its three classes of pairs: the same token, one sample, different samples."""

    def __init__(self, same: Floats, within: Floats, across: Floats) -> None:
        self.same, self.within, self.across = same, within, across

    @classmethod
    def read(cls, matrices: Floats) -> Classes:
        return cls(matrices[:, 0, 0], matrices[:, 0, 1], matrices[:, 0, 2])

    def times(self, factor: Floats | float) -> Classes:
        return Classes(self.same * factor, self.within * factor, self.across * factor)

    def plus(self, other: Classes) -> Classes:
        return Classes(self.same + other.same, self.within + other.within, self.across + other.across)

    def by(self, other: Classes) -> Classes:
        return Classes(self.same * other.same, self.within * other.within, self.across * other.across)

    def matrix(self) -> Floats:
        out = np.empty((len(self.same), 3, 3))
        out[:] = self.across[:, None, None]
        out[:, 0, 1] = out[:, 1, 0] = self.within
        index = np.arange(3)
        out[:, index, index] = self.same[:, None]
        return out
