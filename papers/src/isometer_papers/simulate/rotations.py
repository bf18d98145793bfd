"""Haar rotations and batch norm without recentring on square batches, in NumPy: small widths, many draws."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isometer.errors import IsometerError
from isometer.metrics import isometry_gap

__all__ = ["RotationChain", "haar_matrices", "rotated_row_norms", "rotation_chain"]


def haar_matrices(draws: int, d: int, rng: np.random.Generator) -> Any:
    """Haar-orthogonal matrices, `(draws, d, d)`: the Q of a Gaussian matrix, its signs set by the diagonal of R.

    Example:
        >>> w = haar_matrices(2, 3, np.random.default_rng(0))
        >>> bool(np.allclose(w @ w.swapaxes(1, 2), np.eye(3)))
        True

    Implements: 001/init-haar.
    """
    if draws < 1 or d < 1:
        raise IsometerError(f"draws is {draws} and d is {d}; expected whole numbers of at least 1")
    q, r = np.linalg.qr(rng.standard_normal((draws, d, d)))
    # LAPACK's Householder QR does not fix the signs of diag R, and Q is Haar only with all of them positive
    signs = np.where(np.einsum("sii->si", r) < 0, -1.0, 1.0)
    return q * signs[:, None, :]


def rotated_row_norms(eigenvalues: Any, draws: int, rng: np.random.Generator) -> Any:
    """Squared lengths ‖X'_j‖² = Σ_k λ_k W_jk² of the rows of X' = WX, `(draws, d)`, λ the eigenvalues of XXᵀ.

    Example:
        >>> rotated_row_norms([1.0, 1.0], 1, np.random.default_rng(0)).round(12).tolist()
        [[1.0, 1.0]]

    Implements: 001/thm-C.4 (C.14).
    """
    values = np.asarray(eigenvalues, dtype=float)
    w = haar_matrices(draws, len(values), rng)
    return (w * w) @ values


class RotationChain(NamedTuple):
    """Of every run: ψ(X_ℓ), ℓ = 0 … L, and log‖J_BN(H_ℓ)‖, ℓ = 0 … L − 1."""

    gap: Any
    log_jacobian: Any


def rotation_chain(x: Any, layers: int, runs: int, rng: np.random.Generator) -> RotationChain:
    """X_{ℓ+1} = BN(W_ℓ X_ℓ) with Haar W, a feature per row, in independent runs.

    Args:
        x: X_0, d × d.
        layers: L.
        runs: how many.
        rng: of the weights.

    Returns:
        `RotationChain`, `(runs, L + 1)` and `(runs, L)`.

    Example:
        >>> chain = rotation_chain(np.diag([2.0, 1.0]), 5, 3, np.random.default_rng(0))
        >>> bool((np.diff(chain.gap) <= 1e-12).all())
        True

    Implements: 001/rec-6.3, 001/lem-C.12, 001/lem-C.14 (measured).
    """
    start = np.asarray(x, dtype=float)
    if start.ndim != 2 or start.shape[0] != start.shape[1] or layers < 1:
        raise IsometerError(f"X has shape {start.shape}, layers is {layers}; expected a square matrix and a layer")
    d = len(start)
    state = np.broadcast_to(start, (runs, d, d))
    gap, logs = np.empty((runs, layers + 1)), np.empty((runs, layers))
    gap[:, 0] = isometry_gap(start)
    for layer in range(layers):
        pre = haar_matrices(runs, d, rng) @ state
        norms = np.sqrt((pre * pre).sum(axis=-1))
        logs[:, layer] = -np.log(norms.min(axis=-1))  # ‖J_BN‖ = 1/min_j ‖H_j‖ (001/lem-C.16)
        state = pre / norms[..., None]
        gap[:, layer + 1] = isometry_gap(state)
    return RotationChain(gap, logs)
