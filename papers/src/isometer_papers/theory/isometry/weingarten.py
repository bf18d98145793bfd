"""Fourth moments of Haar matrices by pairings, and the expectations behind 001/thm-C.4."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.isometry.spectra import eigenvalue_variance

__all__ = [
    "pair_expectation_bound",
    "pairing_moment",
    "pairing_moment_as_printed",
    "product_expectation_bound",
    "squared_sum_bound",
]

_PAIRINGS = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))


def pairing_moment(d: int, rows: Sequence[int], columns: Sequence[int]) -> Fraction:
    """E of a product of four entries: Σ_σ Σ_τ Δ_σ(i) Δ_τ(j) Wg(σ⁻¹τ).

    Example:
        >>> pairing_moment(2, [0, 0, 1, 1], [0, 0, 1, 1])  # E cos⁴
        Fraction(3, 8)

    Implements: 001/weingarten (C.25 with Δ_τ(j) and both sums over pairings of the indices).
    """
    return _summed(d, rows, columns, same=False)


def pairing_moment_as_printed(d: int, rows: Sequence[int], columns: Sequence[int]) -> Fraction:
    """Σ_σ Σ_τ Δ_σ(i) Δ_σ(j) Wg(σ⁻¹τ): C.25 has Δ_σ for both lists of indices.

    Example:
        >>> pairing_moment_as_printed(2, [0, 0, 1, 1], [0, 0, 1, 1])
        Fraction(1, 8)

    Implements: 001/weingarten (C.25 as printed).
    """
    return _summed(d, rows, columns, same=True)


def _summed(d: int, rows: Sequence[int], columns: Sequence[int], *, same: bool) -> Fraction:
    if len(rows) != 4 or len(columns) != 4 or d < 2:
        raise IsometerError(f"d is {d} with {len(rows)} and {len(columns)} indices; expected d ≥ 2 and four of each")
    # the orthogonal Weingarten function of two pairs only tells whether the pairings agree
    equal, different = Fraction(d + 1, d * (d + 2) * (d - 1)), Fraction(-1, d * (d + 2) * (d - 1))
    total = Fraction(0)
    for sigma in _PAIRINGS:
        for tau in _PAIRINGS:
            fits = _fits(sigma, rows) and _fits(sigma if same else tau, columns)
            total += (equal if sigma == tau else different) if fits else 0
    return total


def _fits(pairing: Sequence[tuple[int, int]], indices: Sequence[int]) -> bool:
    return all(indices[a] == indices[b] for a, b in pairing)


def product_expectation_bound(values: Numeric) -> Numeric:
    """1 + ¼[E₁ Σ_{k≠q} (λ_k − 1)(λ_q − 1) + E₂ Σ_k (λ_k − 1)²], a bound of E‖X'_i‖‖X'_j‖ for i ≠ j.

    E₁ = (d+1)/(d(d+2)(d−1)), E₂ = 1/(d(d+2)).

    Example:
        >>> float(product_expectation_bound(np.array([1.5, 0.5])))  # 1 − 0.5/16
        0.96875

    Implements: 001/thm-C.4 (C.20, C.33).
    """
    excess = np.asarray(values) - 1
    d = len(excess)
    own = (excess**2).sum()
    across = excess.sum() ** 2 - own
    return 1 + ((d + 1) * across + (d - 1) * own) / (4 * d * (d + 2) * (d - 1))


def pair_expectation_bound(values: Numeric) -> Numeric:
    """1 − Σ(λ_k − 1)²/(2d(d+2)(d−1)), for eigenvalues that sum to d.

    Example:
        >>> float(pair_expectation_bound(np.array([1.5, 0.5])))
        0.96875

    Implements: 001/thm-C.4 (C.35).
    """
    d = len(np.asarray(values))
    return 1 - eigenvalue_variance(values) / (2 * (d + 2) * (d - 1))


def squared_sum_bound(values: Numeric) -> Numeric:
    """d² − Σ(λ_k − 1)²/(2(d+2)), a bound of E(Σ_j ‖X'_j‖)².

    Example:
        >>> float(squared_sum_bound(np.array([1.5, 0.5])))
        3.9375

    Implements: 001/thm-C.4 (C.39).
    """
    d = len(np.asarray(values))
    return d**2 - d * eigenvalue_variance(values) / (2 * (d + 2))
