"""Orthogonal weights: decay of the isometry gap under batch norm, and moments of Haar matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma

from isometer.activations import NumericalEstimate
from isometer.errors import IsometerError

__all__ = ["haar_moment", "isometry_gap_rate", "isometry_gap_step"]

_STEP = 0.125
_PAIRINGS = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))


def isometry_gap_step(eigenvalues: ArrayLike) -> NumericalEstimate:
    """Exact expected change of the isometry gap in one layer of Haar weights and batch norm (no recentring).

    Row norms are `‖w_jᵀX‖² = Σ λ_k w_jk²`, w_j uniform on the unit sphere, and batch norm changes the gap by the mean
    of their logs minus the log of their mean, so that `E ψ' − ψ = E log Σ λ_k w_k² − log mean λ`. The expectation is
    `∫_0^∞ (e^{−t} − Π (1 + 2tλ_k)^{−1/2}) dt/t − Ψ(d/2) − log 2`.

    Args:
        eigenvalues: λ of XXᵀ, `(d,)`, ≥ 0 and not all 0.

    Returns:
        The change, ≤ 0, and a bound on its error.

    Example:
        >>> step = isometry_gap_step([1.0, 1.0, 1.0])
        >>> abs(step.value) <= step.error < 1e-10
        True
        >>> a, b = 4.0, 1.0  # for d = 2, E log(a cos² + b sin²) = 2 log((√a + √b)/2)
        >>> abs(isometry_gap_step([a, b]).value - 2 * math.log(1.5) + math.log(2.5)) < 1e-12
        True

    Implements: 001/thm-6.3, 001/cor-6.4, 001/eq-C.48 (exact value).
    """
    values = np.asarray(eigenvalues, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all() or (values < 0).any():
        raise IsometerError(f"eigenvalues have shape {values.shape}; expected finite numbers ≥ 0, (d,) — pass σ²")
    if not values.any():
        raise IsometerError("all eigenvalues are 0; expected at least one above — the batch is zero")
    d = len(values)
    values = values / values.mean()
    positive = values[values > 0]
    # In x = log t the integrand e^{−t} − Π(…) is analytic and decays at both ends.
    low, high = -42.0 - math.log(d), -math.log(positive.min()) + 2 * 42.0 / len(positive) + 6
    x = np.arange(low, max(high, 5.0), _STEP / 2)
    t = np.exp(x)
    fall = 0.5 * np.log1p(2 * t[:, None] * positive).sum(axis=1)
    small = np.minimum(t, 1.0)
    # e^−t − e^−fall = −e^−t expm1(t − fall): both tend to 1 as t → 0
    terms = np.where(t < 1.0, -np.exp(-small) * np.expm1(small - fall), np.exp(-np.minimum(t, 745.0)) - np.exp(-fall))
    sums = _STEP * terms[::2].sum(), _STEP * terms[1::2].sum()
    offset = float(digamma(d / 2)) + math.log(2.0)
    value = (sums[0] + sums[1]) / 2 - offset
    error = abs(sums[0] - sums[1]) + 1e-14 * (1.0 + abs(offset) + _STEP * float(np.abs(terms).sum()))
    return NumericalEstimate(float(value), float(error))


def isometry_gap_rate(d: int) -> float:
    """Factor by which a small isometry gap decays per layer, Haar weights and batch norm, n = d: d/(d + 2).

    Near isometry, λ = 1 + ε, the gap is Σε²/(2d) and `E log Σ λ_k w_k² = −Σε²/(d(d+2))`.

    Example:
        >>> isometry_gap_rate(8)
        0.8

    Implements: 001/thm-6.1, 001/lem-C.9 (local rate, exact).
    """
    if d < 1:
        raise IsometerError(f"d is {d}; expected a whole number of at least 1 — pass the width")
    return d / (d + 2)


def haar_moment(d: int, rows: Sequence[int], columns: Sequence[int]) -> float:
    """E Π W[rows[k], columns[k]] for Haar-orthogonal W of size d, of order 1 to 4.

    Order 4 sums over pairs of pairings, with `Wg = (d+1)/(d(d+2)(d−1))` for equal and `−1/(d(d+2)(d−1))` for different
    ones.

    Args:
        d: size; with d = 1, W = ±1.
        rows: row indices.
        columns: as many column indices.

    Returns:
        The moment; odd ones are 0.

    Example:
        >>> haar_moment(4, [0, 0, 0, 0], [1, 1, 1, 1])  # 3/(d(d + 2))
        0.125

    Implements: 001/weingarten.
    """
    order = len(rows)
    if order != len(columns) or not 1 <= order <= 4:
        raise IsometerError(f"rows and columns have lengths {order} and {len(columns)}; expected equal ones, 1 to 4")
    if d < 1 or not all(0 <= index < d for index in (*rows, *columns)):
        raise IsometerError(f"indices {(*rows, *columns)} with d = {d}; expected 0 ≤ index < d")
    if order % 2:
        return 0.0
    if order == 2:
        return 1.0 / d if rows[0] == rows[1] and columns[0] == columns[1] else 0.0
    if d == 1:
        return 1.0
    fits_rows = [all(rows[a] == rows[b] for a, b in pairing) for pairing in _PAIRINGS]
    fits_columns = [all(columns[a] == columns[b] for a, b in pairing) for pairing in _PAIRINGS]
    equal = sum(a and b for a, b in zip(fits_rows, fits_columns, strict=True))
    different = sum(fits_rows) * sum(fits_columns) - equal
    return ((d + 1) * equal - different) / (d * (d + 2) * (d - 1))
