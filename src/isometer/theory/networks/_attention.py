"""Attention in the limit of many wide heads: what it does to Gram matrices of tokens, and to gradients.

With K the second moments of tokens, scores of a head are Gaussian with cov(S_ij, S_kl) = τ² U_ik U_jl, where
τ = score_scale · √head_width · qk_gain² and U = K, or the cosines of K under a norm of queries and keys. A = softmax(S)
differs from head to head, and what leaves is Gaussian with the covariance v² E[A K Aᵀ], v = value_gain · output_gain.

Gradients by the features of heads, of covariance Γ, go back on three ways that independent weights keep apart. With J_i
the Jacobian of softmax in row i they are, up to factors of weights and widths,

    values:   E[Aᵀ Γ A]_jl
    queries:  Γ_ik E tr(J_i K J_k U)
    keys:     Σ_ik Γ_ik U_ik E (J_i K J_k)_jl,   (J_i K J_k)_jl = A_ij A_kl (K_jl − (AK)_kj − (AK)_il + (AKAᵀ)_ik).

Rotary positions multiply cov(S_ij, S_kl) and both sums by Σ_r F_r[i, j] F_r[k, l], so that A_ij A_kl becomes
Σ_r (A F_r)_ij (A F_r)_kl, products entry by entry.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isometer.spec import Attention
from isometer.theory.networks._attention_points import attention_matrices, rotation_modes, visible
from isometer.theory.networks._attention_sizes import attention_sizes
from isometer.theory.networks._covariance import Covariance
from isometer.theory.networks._exchangeable_attention import attend_exchangeable
from isometer.theory.networks._gradient import Gradient, Squares
from isometer.theory.networks._state import FeatureState, NotCovered, gaussian
from isometer.theory.networks._weights import ExpectedAttention, Run, Stepped

Floats = NDArray[np.float64]


def attend(step: Attention, state: FeatureState, run: Run) -> Stepped:
    """Multi-head self-attention over positions."""
    if run.tangent:
        raise NotCovered("attention in a tangent kernel", "it is not derived here", "use kinds=('nngp',)")
    if run.dry:  # positions are apart here
        plain = FeatureState.of(gaussian(state.second(), None), state.layout, state.width, state.log_scale)
        return plain, (lambda gradient, _: gradient) if run.backward else None
    if state.layout.exchangeable:
        return attend_exchangeable(step, state, run)
    assert state.layout.is_full
    second = state.second()
    gram, sizes = second.gram()[0], attention_sizes(step, state.width, run)
    value, output, tau, per_query = map(float, (sizes.value, sizes.output, sizes.score, sizes.per_query))
    row = np.ones(len(gram))
    if step.qk_norm:
        row = np.where(second.variances[0] > 0.0, 1.0, 0.0) / np.sqrt(np.maximum(second.variances[0], 1e-300))
    tokens = _tokens(step, gram, row, tau, state.layout.samples)
    mixed = tokens.mixed()
    run.moments.error += mixed.error
    if run.attention is not None and mixed.reading is not None:
        run.attention.append(mixed.reading)
    covariance = Covariance.of_gram((value * output * mixed.gram)[None])
    out = FeatureState.of(gaussian(covariance, None), state.layout, state.width, state.log_scale)
    if not run.backward:
        return out, None
    wide, inner = state.width, sizes.inner
    log = math.log(wide) + math.log(inner) + 2 * state.log_scale

    def back(gradient: Gradient, squares: Squares) -> Gradient:
        total = gradient.total()[0]
        # E ‖∂loss/∂W‖² = fan_out · fan_in · tr(ΓK), Γ by what leaves W and K of what enters it
        squares.add("output", value * float(np.sum(total * mixed.gram)), gradient.log + log, wide * inner)
        ways = tokens.ways(total * (output * wide / inner))
        queries, keys = (value * one * row[:, None] * row[None, :] for one in (ways.queries, ways.keys))
        squares.add("value", float(np.sum(ways.values * gram)), gradient.log + log, wide * sizes.keyed)
        squares.add("query", per_query * float(np.sum(queries * gram)), gradient.log + log, wide * inner)
        squares.add("key", per_query * float(np.sum(keys * gram)), gradient.log + log, wide * sizes.keyed)
        found = (value * ways.values + tau**2 * (queries + keys)) * (inner / wide)
        return Gradient.of(found[None], gradient.layout, gradient.log)

    return out, back


class Mixed(NamedTuple):
    """E[A K Aᵀ], what attention reads, and the relative error of the former."""

    gram: Floats
    reading: ExpectedAttention | None
    error: float


class Ways(NamedTuple):
    """Gradients by values, queries and keys, without factors of weights."""

    values: Floats
    queries: Floats
    keys: Floats


@dataclass(frozen=True)
class _SoftmaxTokens:
    """Tokens of all samples, `(nT, nT)` matrices, and their attention at points."""

    gram: Floats
    scores: Floats  # U
    size: float  # τ
    samples: int
    causal: bool
    modes: Floats  # F_r, one matrix of ones without rotary positions

    def _matrices(self) -> Iterator[Floats]:
        modes = self.modes if len(self.modes) > 1 else None
        return attention_matrices(self.scores, self.size, self.samples, causal=self.causal, modes=modes)

    def mixed(self) -> Mixed:
        total, traces, entropies, squares, count = np.zeros_like(self.gram), [], 0.0, 0.0, 0
        for a in self._matrices():
            found = _right(_left(a, self.gram), a)
            total += found.sum(axis=0)
            traces.append(np.trace(found, axis1=1, axis2=2))
            entropies -= float((a * np.log(np.maximum(a, 1e-300))).sum())
            squares += float((a * a).sum())
            count += len(a)
        queries = count * len(self.gram)
        # antithetic halves are averaged first: their spread is that of independent points
        each = np.concatenate(traces).reshape(2, -1).mean(axis=0)
        error = float(each.std() / math.sqrt(len(each)) / max(float(each.mean()), 1e-300))
        reading = ExpectedAttention(np.array([entropies / queries]), np.array([queries / squares]))
        return Mixed(total / count, reading, error)

    def ways(self, gradient: Floats) -> Ways:
        gram, scores, weights = self.gram, self.scores, gradient * self.scores
        both, count = gram * scores, 0
        values, queries, keys = (np.zeros_like(gram) for _ in range(3))
        for a in self._matrices():
            seen = _left(a, gram)  # AK
            out = _right(seen, a)
            t = np.swapaxes(a, -1, -2)
            values += _right(_left(t, gradient), t).sum(axis=0)
            for mode in self.modes:
                b = a * mode
                t, keyed = np.swapaxes(b, -1, -2), _left(b, scores)
                crossed = _right(seen * keyed, b)
                traces = _right(_left(b, both), b) - crossed - np.swapaxes(crossed, 1, 2) + out * _right(keyed, b)
                queries += gradient * traces.sum(axis=0)
                pulled = _left(t, weights)
                turned = _right(np.swapaxes(_right(weights[None], t) * seen, 1, 2), t)
                keys += gram * _right(pulled, t).sum(axis=0) - turned.sum(axis=0) - turned.sum(axis=0).T
                keys += _right(_left(t, weights * out), t).sum(axis=0)
            count += len(a)
        return Ways(values / count, queries / count, keys / count)


def _left(a: Floats, matrix: Floats) -> Floats:
    """A M for matrices A `(points, n, T, T)` on the diagonal and M `(…, nT, nT)`."""
    points, samples, positions, _ = a.shape
    size = samples * positions
    rows = matrix.reshape(*matrix.shape[:-2], samples, positions, size)
    return np.asarray(np.matmul(a, rows)).reshape(points, size, size)


def _right(matrix: Floats, a: Floats) -> Floats:
    """M Aᵀ."""
    return np.swapaxes(_left(a, np.swapaxes(matrix, -1, -2)), -1, -2)


@dataclass(frozen=True)
class _LinearTokens:
    """Scores as they are, over the number of positions that a position sees: E of products of scores is known."""

    gram: Floats
    scores: Floats
    size: float
    samples: int
    causal: bool
    modes: Floats

    def _means(self) -> list[Floats]:
        positions = len(self.gram) // self.samples
        seen = visible(positions, self.causal)
        return [np.kron(np.eye(self.samples), mode * seen / seen.sum(axis=1, keepdims=True)) for mode in self.modes]

    def _seen(self) -> Floats:
        return np.asarray(sum(means @ (self.gram * self.scores) @ means.T for means in self._means()))

    def mixed(self) -> Mixed:
        return Mixed(self.size**2 * self.scores * self._seen(), None, 0.0)

    def ways(self, gradient: Floats) -> Ways:
        pulled = np.asarray(sum(means.T @ (gradient * self.scores) @ means for means in self._means()))
        return Ways(self.size**2 * self.scores * pulled, gradient * self._seen(), self.gram * pulled)


def _tokens(step: Attention, gram: Floats, row: Floats, size: float, samples: int) -> _SoftmaxTokens | _LinearTokens:
    kind = _LinearTokens if step.kind == "linear" else _SoftmaxTokens
    modes = rotation_modes(len(gram) // samples, np.array(step.rotary_angles))
    return kind(gram, gram * row[:, None] * row[None, :], size, samples, step.causal, modes)
