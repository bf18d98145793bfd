"""Batches for tests of theory."""

from __future__ import annotations

import numpy as np


def sphere(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Points drawn uniformly on the unit sphere."""
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def simplex_directions(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Symmetric directions at the simplex: growth, one of the standard representation, one of pairs."""
    centring = np.eye(n) - 1 / n
    corner, pair = np.zeros((n, n)), np.zeros((n, n))
    corner[0, 0] = 1.0
    pair[np.ix_([0, 1], [2, 3])] = [[1, -1], [-1, 1]]
    return centring, centring @ corner @ centring - centring / n, pair + pair.T
