"""Attention matrices of Gaussian scores for any Gram matrix of tokens, at fixed points.

Many heads of infinite width have scores S = τ L Z Lᵀ with independent normal numbers Z and L Lᵀ the Gram matrix of all
tokens: cov(S_ij, S_kl) = τ² G_ik G_jl. Averages over heads are averages over Z. The points are the same in every layer,
and L is the symmetric root, so the averaged map is a smooth function of G.

Rotary positions turn pair p of a head's features by the angle θ_p times the position, so the score of i and j reads
⟨q_i, R(j − i) k_j⟩ and the covariance has a factor c((j − i) − (l − k)), the mean of cos θ_p(…) over pairs. As a matrix
over displacements it is Σ_r f_r f_rᵀ with few terms that matter, so S = τ Σ_r f_r(j − i) · (L Z_r Lᵀ)_ij.
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
_FAINT_MODE = 1e-4  # of rotary positions: what is left out of the covariance of scores is its square


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


def rotation_modes(positions: int, angles: Floats) -> Floats:
    """Matrices F_r `(modes, T, T)` with Σ_r F_r[i, j] F_r[k, l] = the mean over θ of cos θ((j − i) − (l − k)).

    Args:
        positions: T.
        angles: θ of each pair of features; none for heads without rotary positions.

    Example:
        >>> rotation_modes(2, np.empty(0)).tolist()
        [[[1.0, 1.0], [1.0, 1.0]]]
        >>> modes = rotation_modes(3, np.array([1.0, 0.1]))
        >>> found = np.einsum("rij,rkl->ijkl", modes, modes)[0, 2, 1, 0]  # (2 − 0) − (0 − 1) = 3
        >>> bool(abs(found - (np.cos(3.0) + np.cos(0.3)) / 2) < 1e-12)
        True
    """
    if not len(angles):
        return np.ones((1, positions, positions))
    places = np.arange(1 - positions, positions)
    turned = angles[:, None] * places
    rows = np.concatenate([np.cos(turned), np.sin(turned)]) / math.sqrt(len(angles))  # rowsᵀ rows = c
    _, sizes, vectors = np.linalg.svd(rows, full_matrices=False)
    kept = sizes > _FAINT_MODE * sizes[0]
    profiles = sizes[kept, None] * vectors[kept]
    index = np.arange(positions)[None, :] - np.arange(positions)[:, None] + positions - 1
    return np.ascontiguousarray(profiles[:, index])


def attention_matrices(
    scores: Floats, size: float, samples: int, *, causal: bool, modes: Floats | None = None
) -> Iterator[Floats]:
    """Attention matrices `(points, samples, T, T)`, some points at a time.

    Args:
        scores: the Gram matrix of what queries and keys are made of, `(nT, nT)`, the index sample · T + position.
        size: τ.
        samples: n.
        causal: a position sees itself and those before it only.
        modes: of rotary positions, as `rotation_modes` has them.

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
    turned = 1 if modes is None else len(modes)
    count = point_count(m)
    step = max(1, _CHUNK // (m * m * turned))
    for start in range(0, count, step):
        z = _points(count, (turned, m, m), start, min(start + step, count))
        made = np.empty((len(z), samples, positions, positions))
        for sample in range(samples):
            own = root[sample * positions : (sample + 1) * positions]
            if modes is None:
                np.matmul(own @ z[:, 0], (size * own).T, out=made[:, sample])
            else:
                np.einsum("prij,rij->pij", own @ z @ (size * own).T, modes, out=made[:, sample])
        if causal:
            made[..., hidden] = -np.inf
        made -= made.max(axis=-1, keepdims=True)
        np.exp(made, out=made)
        made /= made.sum(axis=-1, keepdims=True)
        yield made


def _points(count: int, shape: tuple[int, int, int], start: int, stop: int) -> Floats:
    """Normal numbers Z `(points, modes, m, m)`, the second half of all being the negatives of the first."""
    if math.prod(shape) <= _MOST_DIMENSIONS:
        return standard_points(count, math.prod(shape))[start:stop].reshape(-1, *shape)
    half = count // 2
    rows = [
        (1.0 if at < half else -1.0) * np.random.default_rng([2024, at % half]).standard_normal(shape)
        for at in range(start, stop)
    ]
    return np.stack(rows)
