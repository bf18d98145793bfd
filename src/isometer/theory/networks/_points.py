"""Gaussian batches for expectations that no integral formula covers: one fixed set of points for every layer.

The same points in every layer make a sampled map a smooth deterministic one: its iterates converge, and differences of
its values near each other are not noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincinv, ndtri

Floats = NDArray[np.float64]
_NUMBERS = 1 << 15  # of a block
_SINGULAR = 1e-12  # eigenvalues below this share of the largest are rounding


@lru_cache(maxsize=8)
def standard_points(count: int, dimensions: int, scramble: int = 0) -> Floats:
    """Scrambled Sobol points of a standard Gaussian and their negatives, `(count, dimensions)`.

    Every `scramble` is an independent set: what several of them differ by is their error.

    Example:
        >>> bool(np.abs(standard_points(1024, 3).mean(axis=0)).max() < 1e-12)
        True
    """
    from scipy.stats import qmc  # slow to import, seldom needed

    level = max(2, int(count - 1).bit_length() - 1)
    uniform = qmc.Sobol(dimensions, rng=np.random.default_rng(2024 + scramble)).random_base2(level)
    half = ndtri(np.clip(uniform, 1e-12, 1 - 1e-12))  # ndtri is infinite at 0 and 1
    half = half / np.sqrt((half**2).mean(axis=0))  # unit variance in every coordinate, exactly
    points = np.concatenate([half, -half])
    points.setflags(write=False)  # cached: every caller gets this very array
    return np.asarray(points)


def spectrum_of(covariance: Floats) -> tuple[Floats, Floats]:
    """Positive eigenvalues, largest first, and their vectors in columns.

    Example:
        >>> spectrum_of(np.diag([1.0, 0.0, 4.0]))[0].tolist()
        [4.0, 1.0]
    """
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    kept = np.flatnonzero(values > _SINGULAR * max(float(values[-1]), 0.0))[::-1]
    return values[kept], vectors[:, kept]


def gaussian_batches(covariance: Floats, count: int, scramble: int = 0) -> tuple[Floats, Floats]:
    """Points h `(count, n)` of N(0, V), and V⁺h.

    Example:
        >>> h, score = gaussian_batches(np.diag([1.0, 4.0]), 64)
        >>> bool(np.allclose(score, h / [1.0, 4.0]))
        True
    """
    values, vectors = spectrum_of(covariance)
    if not len(values):
        return np.zeros((1, len(covariance))), np.zeros((1, len(covariance)))
    z = standard_points(count, len(values), scramble)
    return z @ (vectors * np.sqrt(values)).T, z @ (vectors / np.sqrt(values)).T


def half_batches(covariance: Floats, count: int, scramble: int = 0, *, parts: int = 1) -> Iterator[Floats]:
    """The points of `gaussian_batches` without their negatives, a block that stays in the cache at a time.

    Blocks are equal powers of two, `parts` of them at least: each is a point set of its own.

    Example:
        >>> sum(len(block) for block in half_batches(np.eye(2), 1 << 12))
        2048
    """
    values, vectors = spectrum_of(covariance)
    if not len(values):
        yield np.zeros((1, len(covariance)))
        return
    z, root = standard_points(count, len(values), scramble), (vectors * np.sqrt(values)).T
    z = z[: len(z) // 2]
    block = 1 << (max(64, _NUMBERS // len(covariance)).bit_length() - 1)
    block = max(1, min(block, len(z) // parts))
    for start in range(0, len(z), block):
        yield z[start : start + block] @ root


def tilted_batches(covariance: Floats, count: int, scramble: int = 0) -> tuple[Floats, Floats] | None:
    """Points h and weights for expectations of functions with a pole 1/‖h‖² at 0; None if those are infinite.

    With r the rank of V and ρ the length of V^{−1/2}h, `E f = E' ρ² f/(r − 2)` under a law of ρ² with two degrees of
    freedom less and the same directions.

    Example:
        >>> h, weight = tilted_batches(np.eye(4), 4096)
        >>> round(float(np.mean(weight / (h * h).sum(axis=1))), 9)  # E 1/χ²₄
        0.5
    """
    values, vectors = spectrum_of(covariance)
    rank = len(values)
    if rank < 3:
        return None
    z = standard_points(count, rank, scramble)
    square = np.maximum((z * z).sum(axis=1), 1e-300)
    # the same quantile of the law with two degrees of freedom less
    shorter = 2 * gammaincinv((rank - 2) / 2, gammainc(rank / 2, square / 2))
    # far out gammainc rounds to 1, and its inverse is inf
    shorter = np.where(np.isfinite(shorter), shorter, square)
    h = (z * np.sqrt(shorter / square)[:, None]) @ (vectors * np.sqrt(values)).T
    return h, shorter / (rank - 2)
