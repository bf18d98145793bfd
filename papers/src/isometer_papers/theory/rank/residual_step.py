"""One step of a linear residual network with batch norm: what a weak random layer does to the size of correlations."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.errors import IsometerError

__all__ = ["frobenius_drift"]

Floats = NDArray[np.float64]


def frobenius_drift(moments: ArrayLike) -> Floats:
    """Leading term of the change of ‖M‖_F² in one layer `H ← BN(H + γWH)`, divided by γ².

    `δ_F(M) = 2d² − 2‖M‖_F² − 8 Tr M³ + 8 Tr(diag(M²)²)` for M = HHᵀ/N of unit diagonal and W of independent centred
    entries of variance 1; the change is γ² δ_F + O(γ³) (O(γ⁴) for symmetric laws). Batch norm here does not recentre.

    Args:
        moments: M, `(…, d, d)`, of unit diagonal.

    Returns:
        δ_F, `(…)`; negative where a layer spreads the spectrum of M out, that is raises the soft rank.

    Example:
        >>> float(frobenius_drift(np.eye(3)))  # at the orthogonal point correlations can only grow
        12.0
        >>> float(frobenius_drift(np.ones((3, 3))))  # equal rows stay equal
        0.0

    Implements: 002/lem-12, 002/lem-12-steps, 002/prop-13.
    """
    m = _checked(moments)
    d = m.shape[-1]
    size, cube, diagonal = _traces(m)
    return np.asarray(2.0 * d * d - 2 * size - 8 * cube + 8 * diagonal)


def _traces(m: Floats) -> tuple[Floats, Floats, Floats]:
    """‖M‖_F², Tr M³ and Tr(diag(M²)²)."""
    square = m @ m
    rows = np.diagonal(square, axis1=-2, axis2=-1)
    return rows.sum(axis=-1), np.einsum("...ij,...ij->...", square, m), (rows**2).sum(axis=-1)


def _checked(moments: ArrayLike) -> Floats:
    m = np.asarray(moments, dtype=np.float64)
    if m.ndim < 2 or m.shape[-1] != m.shape[-2] or m.size == 0 or not np.isfinite(m).all():
        raise IsometerError(f"moments have shape {m.shape}; expected finite numbers (…, d, d) — pass H Hᵀ / N")
    worst = float(np.abs(np.diagonal(m, axis1=-2, axis2=-1) - 1.0).max())
    if worst > 1e-8 * math.sqrt(m.shape[-1]):
        raise IsometerError(
            f"the diagonal of M is off 1 by {worst:.3g}; expected unit rows — pass M after batch norm, or divide by "
            "the root of its diagonal on both sides"
        )
    return m
