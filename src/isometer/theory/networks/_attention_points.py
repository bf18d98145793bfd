"""Attention matrices of Gaussian scores for any Gram matrix of tokens, at fixed points.

Many heads of infinite width have scores S = τ L Z Lᵀ with independent normal numbers Z and L Lᵀ the Gram matrix of all
tokens: cov(S_ij, S_kl) = τ² G_ik G_jl. Averages over heads are averages over Z. The points are the same in every layer,
and L is the symmetric root, so the averaged map is a smooth function of G.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from isometer.theory.networks._points import standard_points

Floats = NDArray[np.float64]
_MOST_DIMENSIONS = 21_201  # of Sobol points
_WORK = 6e8  # operations of a layer
_FEWEST, _MOST = 32, 4096
_CHUNK = 1 << 21  # numbers of attention matrices that are held at a time


def point_count(tokens: int) -> int:
    """How many points a layer takes for so many tokens of all samples: a power of two that the work allows.

    Example:
        >>> point_count(16), point_count(64), point_count(1000)
        (4096, 256, 32)
    """
    allowed = _WORK / (8.0 * tokens**3)
    return int(min(_MOST, max(_FEWEST, 2 ** math.floor(math.log2(max(allowed, 1.0))))))


def visible(positions: int, causal: bool) -> NDArray[np.bool_]:
    """Which positions (columns) each position (row) sees.

    Example:
        >>> visible(2, True).tolist()
        [[True, False], [True, True]]
    """
    full = np.ones((positions, positions), dtype=bool)
    return np.tril(full) if causal else full


def attention_matrices(scores: Floats, size: float, samples: int, *, causal: bool) -> Iterator[Floats]:
    """Attention matrices `(points, samples, T, T)`, some points at a time.

    Args:
        scores: the Gram matrix of what queries and keys are made of, `(nT, nT)`, the index sample · T + position.
        size: τ.
        samples: n.
        causal: a position sees itself and those before it only.

    Example:
        >>> [first, *_] = attention_matrices(np.eye(3), 0.0, 1, causal=True)
        >>> first[0, 0].round(3).tolist()
        [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.333, 0.333, 0.333]]
    """
    m = len(scores)
    positions = m // samples
    values, vectors = np.linalg.eigh((scores + scores.T) / 2)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    hidden = ~visible(positions, causal)
    count = point_count(m)
    step = max(1, _CHUNK // (m * m))
    for start in range(0, count, step):
        z = _points(count, m, start, min(start + step, count))
        made = np.empty((len(z), samples, positions, positions))
        for sample in range(samples):
            own = root[sample * positions : (sample + 1) * positions]
            np.matmul(own @ z, (size * own).T, out=made[:, sample])
        if causal:
            made[..., hidden] = -np.inf
        made -= made.max(axis=-1, keepdims=True)
        np.exp(made, out=made)
        made /= made.sum(axis=-1, keepdims=True)
        yield made


def _points(count: int, m: int, start: int, stop: int) -> Floats:
    """Normal numbers Z `(points, m, m)`, the second half of all being the negatives of the first."""
    if m * m <= _MOST_DIMENSIONS:
        return standard_points(count, m * m)[start:stop].reshape(-1, m, m)
    half = count // 2
    rows = [
        (1.0 if at < half else -1.0) * np.random.default_rng([2024, at % half]).standard_normal((m, m))
        for at in range(start, stop)
    ]
    return np.stack(rows)
