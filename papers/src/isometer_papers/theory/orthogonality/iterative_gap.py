"""Iterative orthogonalisation in numbers: what W = V′Σ^{−1/2}Uᵀ/‖Σ^{1/2}‖_F does to the orthogonality gap.

A batch is H = UΣVᵀ (d × n, as in the papers), n ≥ d. Arrays of mpmath numbers go through unchanged.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.rank.bounds import numeric

__all__ = ["cauchy_steps", "gap_after", "gap_after_squared", "gap_before", "key_inequality", "sliced_output"]


def _unit(sigma: ArrayLike) -> Numeric:
    values = numeric(sigma)
    return values / (values**2).sum() ** 0.5


def gap_before(sigma: ArrayLike, n: int) -> Numeric:
    """V(H)² = Σσ_i⁴ − 1/n for Σσ_i² = 1, n samples, of which n − d have no singular value.

    Example:
        >>> round(float(gap_before([1.0, 1.0], 4)), 12)
        0.25

    Implements: 003/appE (18), 001/claim-A.4 (A.20), squared.
    """
    values = _unit(sigma) ** 2
    return (values**2).sum() - (values[0] * 0 + 1) / n


def gap_after_squared(sigma: ArrayLike, n: int) -> Numeric:
    """V(WH)² = 1/(Σσ_i)² − 1/n for Σσ_i² = 1 and an orthogonal V′.

    Example:
        >>> round(float(gap_after_squared([0.8, 0.6], 2)), 6)  # 1/1.96 − 1/2
        0.010204

    Implements: 003/appE, 001/claim-A.4.
    """
    values = _unit(sigma)
    return 1 / values.sum() ** 2 - (values[0] * 0 + 1) / n


def gap_after(sigma: ArrayLike, n: int) -> Numeric:
    """V(WH) for an orthogonal V′.

    Example:
        >>> round(float(gap_after([0.8, 0.6], 2)), 6)
        0.101015

    Implements: 003/appE (17), 001/claim-A.4 (A.19).
    """
    square = gap_after_squared(sigma, n)
    # equal singular values leave a rounding around 0
    return (square if square > 0 else square * 0) ** 0.5


def sliced_output(right: ArrayLike, sigma: ArrayLike) -> Numeric:
    """(WH)ᵀ, `(n, d)`, with V′ the first d rows of V, for U = I.

    Args:
        right: V, n × d with orthonormal columns.
        sigma: singular values.

    Example:
        >>> import numpy as np
        >>> from isometer_papers.theory.orthogonality.bounds import gap_of
        >>> v = np.array([[1, 1], [1, 1], [1, -1], [1, -1]]) / 2
        >>> round(float(gap_of(sliced_output(v, [1.0, 1.0]))), 6)  # of rank one: √(1 − 1/4)
        0.866025

    Implements: 003/alg-iter-mlp (6), 001/alg-2.6 (2.6), to the letter.
    """
    v, s = numeric(right), numeric(sigma)
    root = s**0.5
    return (v * root) @ v[: len(s)].T / s.sum() ** 0.5


def key_inequality(sigma: ArrayLike) -> Numeric:
    """Σσ_i⁴ (Σσ_i)² for Σσ_i² = 1, at least 1, with equality only where all non-zero σ_i are equal.

    Example:
        >>> round(float(key_inequality([1.0, 1.0])), 12)
        1.0

    Implements: 003/appE, 001/claim-A.4.
    """
    values = _unit(sigma)
    return (values**4).sum() * values.sum() ** 2


def cauchy_steps(sigma: ArrayLike) -> dict[str, Numeric]:
    """The members of the printed chain for Σσ_i² = 1.

    `start` (Σσ²)⁴ ≤ `middle` (Σσ)²(Σσ³)², then in 003 ≤ `003` (Σσ)²(Σσ⁴)², in the thesis ≤ `001` (Σσ)²Σσ⁴.

    Example:
        >>> {name: round(float(value), 6) for name, value in cauchy_steps([1.0, 1.0]).items()}
        {'start': 1.0, 'middle': 1.0, '003': 0.5, '001': 1.0}

    Implements: 003/appE, 001/claim-A.4.
    """
    values = _unit(sigma)
    square, fourth = values.sum() ** 2, (values**4).sum()
    return {
        "start": (values**2).sum() ** 4,
        "middle": square * (values**3).sum() ** 2,
        "003": square * fourth**2,
        "001": square * fourth,
    }
