"""Rank, soft rank and second moments of batch-normalised chains: the bounds of 002, as printed.

A representation is `(n, d)`, samples then features; `M = HᵀH/n` is d×d. Arrays of mpmath numbers go through unchanged,
so that every formula can be evaluated in as many digits as wanted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import hadamard

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric, is_precise

__all__ = [
    "PowerSums",
    "cube_bound",
    "entry_drift",
    "equal_row_drift",
    "equal_row_moments",
    "frobenius_bound",
    "moment_change_bound",
    "power_sums",
    "power_sums_bound",
    "second_moments",
    "singular_value_count_bound",
    "soft_rank_bound",
    "spectral_regularity",
    "spiked_regularity_bound",
    "stationary_rank_bound",
    "two_level_leading_change",
    "two_level_norms",
    "two_level_norms_as_printed",
    "two_level_spectrum",
]


def numeric(values: Numeric) -> np.ndarray[Any, Any]:
    """float64, or what mpmath made.

    Example:
        >>> numeric([1, 2]).dtype
        dtype('float64')
    """
    array = np.asarray(values)
    return array if is_precise(array) else array.astype(np.float64)


def second_moments(representation: ArrayLike) -> Numeric:
    """M(H) = HᵀH/n, the d×d second moments.

    Example:
        >>> second_moments([[1.0, 1.0], [1.0, -1.0]]).tolist()
        [[1.0, 0.0], [0.0, 1.0]]

    Implements: 002/eq-2.
    """
    h = numeric(representation)
    return np.swapaxes(h, -1, -2) @ h / h.shape[-2]


class PowerSums(NamedTuple):
    """Tr M, ‖M‖_F², Tr M³ and Tr(diag(M²)²)."""

    trace: Numeric
    square: Numeric
    cube: Numeric
    diagonal: Numeric


def power_sums(moments: ArrayLike) -> PowerSums:
    """The four traces that the analysis of 002 is made of.

    Since `(M²)_ii² ≤ M_ii (M³)_ii` for every positive semidefinite M, the last is at most the third where the diagonal
    of M is 1.

    Args:
        moments: one symmetric matrix, d×d.

    Returns:
        The sums.

    Example:
        >>> [float(v) for v in power_sums(np.ones((2, 2)))]
        [2.0, 4.0, 8.0, 8.0]

    Implements: 002/eq-3 (numerator and denominator), 002/def-7, 002/lem-15.
    """
    m = numeric(moments)
    square = m @ m
    rows = np.diagonal(square)
    return PowerSums(np.trace(m), rows.sum(), (square * m).sum(), (rows * rows).sum())


def soft_rank_bound(representation: ArrayLike, tau: Numeric) -> Numeric:
    """(1 − τ)² r(H), the lower bound on rank_τ(H) for rows of norm √N.

    Example:
        >>> float(soft_rank_bound([[1.0, 1.0], [1.0, -1.0]], 0.5))
        0.5

    Implements: 002/lem-2, 002/eq-3; with τ = 0 the right-hand side of 002/lem-1.
    """
    sums = power_sums(second_moments(representation))
    return (1 - tau) ** 2 * sums.trace**2 / sums.square


def stationary_rank_bound(width: Numeric, regularity: Numeric, tau: Numeric = 0) -> Numeric:
    """(1 − τ)² √(1 − α) √d, the lower bound on the average soft rank.

    Example:
        >>> stationary_rank_bound(16, 0.75)
        2.0

    Implements: 002/thm-19, 002/thm-3, 002/eq-64-66.
    """
    return (1 - tau) ** 2 * ((1 - regularity) * width) ** 0.5


def singular_value_count_bound(width: Numeric) -> Numeric:
    """√d/24, below the average number of singular values above √(N/2); less than 1 up to d = 576.

    Example:
        >>> singular_value_count_bound(576)
        1.0

    Implements: 002/claim-3.2.
    """
    return width**0.5 / 24


def frobenius_bound(width: Numeric, regularity: Numeric) -> Numeric:
    """d^{3/2}/√(1 − α), the upper bound on E‖M‖_F² under the invariant law.

    The balance 002/eq-57 gives `4(1 − α) E Tr M³ ≤ d²` up to O(γ), hence half of it: the factor 4 is dropped in print.

    Example:
        >>> frobenius_bound(4.0, 0.0)
        8.0

    Implements: 002/lem-18.
    """
    return width**1.5 / (1 - regularity) ** 0.5


def cube_bound(width: Numeric, regularity: Numeric) -> Numeric:
    """d²/(1 − α), the upper bound on E‖λ‖₃³ under the invariant law.

    Example:
        >>> cube_bound(4.0, 0.5)
        32.0

    Implements: 002/lem-18 (eq. 60).
    """
    return width**2 / (1 - regularity)


def power_sums_bound(moments: ArrayLike) -> Numeric:
    """√(d ‖λ‖₃³), above ‖λ‖₂² where the eigenvalues of M sum to d.

    Example:
        >>> float(power_sums_bound(np.eye(4)))
        4.0

    Implements: 002/lem-18 (eq. 61).
    """
    m = numeric(moments)
    return (m.shape[-1] * power_sums(m).cube) ** 0.5


def moment_change_bound(width: Numeric, slope: Numeric, gamma: Numeric) -> Numeric:
    """2√3 dBγ + 3d²B²γ², above every entry of ΔM for |F(x)| ≤ B|x|; attained by equal rows and equal weights.

    Example:
        >>> round(moment_change_bound(10, 1.0, 1 / 80), 4)
        0.4799

    Implements: 002/lem-20.
    """
    step = (3 * width**2) * (slope * gamma) ** 2  # (√3 dBγ)²
    return 2 * step**0.5 + step


def entry_drift(moments: ArrayLike) -> Numeric:
    """Leading change of M_ij² in one layer over γ², i ≠ j; the diagonal is 0.

    `(M²)_ii + (M²)_jj − 2d M_ij² − 8 M_ij (M²)_ij + 4 M_ij² ((M²)_ii + (M²)_jj)`.

    Args:
        moments: M, d×d with unit diagonal.

    Returns:
        d×d.

    Example:
        >>> float(entry_drift(np.eye(2))[0, 1])
        2.0

    Implements: 002/lem-12-steps (eq. 79).
    """
    m = numeric(moments)
    d = m.shape[-1]
    square = m @ m
    rows = np.diagonal(square)
    pair = rows[:, None] + rows[None, :]
    drift = pair - 2 * d * m * m - 8 * m * square + 4 * m * m * pair
    return drift * (1 - np.eye(d, dtype=int))


def equal_row_drift(eigenvalues: ArrayLike) -> Numeric:
    """δ_F(λ) = 2d² − 2‖λ‖₂² − 8‖λ‖₃³ + 8‖λ‖₂⁴/d, for M with rows of equal norm.

    Example:
        >>> float(equal_row_drift([1.0, 1.0, 1.0]))
        12.0

    Implements: 002/prop-13 (eq. 50).
    """
    values = numeric(eigenvalues)
    d = len(values)
    square, cube = (values**2).sum(), (values**3).sum()
    return 2 * d**2 - 2 * square - 8 * cube + 8 * square**2 / d


def equal_row_moments(eigenvalues: ArrayLike) -> Numeric:
    """M with these eigenvalues, unit diagonal and rows of equal norm: U diag(λ) Uᵀ with Hadamard U/√d.

    Args:
        eigenvalues: as many as a power of 2, not negative, summing to their number.

    Returns:
        d×d.

    Example:
        >>> equal_row_moments([2.0, 0.0]).tolist()
        [[1.0, 1.0], [1.0, 1.0]]

    Implements: 002/prop-13 (matrices it is about).
    """
    values = numeric(eigenvalues)
    d = len(values)
    if d & (d - 1) or d == 0:
        raise IsometerError(f"there are {d} eigenvalues; expected a power of 2, for a Hadamard matrix — pad with zeros")
    u = hadamard(d)
    return (u * values) @ u.T / d


def spectral_regularity(eigenvalues: ArrayLike, counts: ArrayLike | None = None) -> Numeric:
    """α = ‖λ‖₂⁴/(d‖λ‖₃³) of a law on matrices with rows of equal norm and this spectrum.

    Args:
        eigenvalues: distinct levels are enough.
        counts: how often each occurs; once by default.

    Returns:
        α, at most 1 where the eigenvalues sum to d.

    Example:
        >>> float(spectral_regularity([1.0, 1.0]))
        1.0

    Implements: 002/ex-16, 002/ex-17.
    """
    values = numeric(eigenvalues)
    often = np.ones(len(values), dtype=int) if counts is None else np.asarray(counts)
    square, cube = (often * values**2).sum(), (often * values**3).sum()
    return square**2 / (often.sum() * cube)


def two_level_spectrum(width: int, small: Numeric) -> Numeric:
    """λ₁ = d − ε(d − 1), the others ε: the spectrum of (1 − ε)11ᵀ + εI.

    Example:
        >>> two_level_spectrum(3, 0.5).tolist()
        [2.0, 0.5, 0.5]

    Implements: 002/ex-14.
    """
    return numeric([width - small * (width - 1), *([small] * (width - 1))])


def two_level_norms(width: int, small: Numeric) -> tuple[Numeric, Numeric, Numeric]:
    """First-order values of ‖λ‖₂², ‖λ‖₃³ and ‖λ‖₂⁴ in ε for `two_level_spectrum`.

    Example:
        >>> two_level_norms(3, 0.0)
        (9.0, 27.0, 81.0)

    Implements: 002/ex-14 (eq. 83, corrected: the perturbation of λ₁ is ε(d − 1), not ε).
    """
    return _expanded(width, small * (width - 1))


def two_level_norms_as_printed(width: int, small: Numeric) -> tuple[Numeric, Numeric, Numeric]:
    """d² − 2εd, d³ − 3εd², d⁴ − 4εd³, as printed with ε = γ².

    Example:
        >>> two_level_norms_as_printed(3, 0.0)
        (9.0, 27.0, 81.0)

    Implements: 002/ex-14 (eq. 83).
    """
    return _expanded(width, small)


def _expanded(d: int, shift: Numeric) -> tuple[Numeric, Numeric, Numeric]:
    return d**2 - 2 * shift * d, d**3 - 3 * shift * d**2, d**4 - 4 * shift * d**3


def two_level_leading_change(width: Numeric) -> Numeric:
    """Leading change of E λ₁ in one layer over γ⁴ at `two_level_spectrum(d, γ²)`: −2(d − 1)(2d − 1).

    From δ_F = −4d(d − 1)(2d − 1)γ² + O(γ⁴) there, and ‖M‖_F² = λ₁² + O(γ⁴) with the small eigenvalues changing by
    O(γ) of their size.

    Example:
        >>> two_level_leading_change(3)
        -20

    Implements: 002/ex-14 (corrected).
    """
    return -2 * (width - 1) * (2 * width - 1)


def spiked_regularity_bound(width: Numeric, power: Numeric, rest: Numeric = 1) -> Numeric:
    """(1 + C)² d^{β−1}, above α where λ₁ = d^β and the squares of the other eigenvalues sum to at most C d^{2β}.

    Example:
        >>> spiked_regularity_bound(16.0, 0.5, 1.0)
        1.0

    Implements: 002/ex-17 (corrected).
    """
    return (1 + rest) ** 2 * width ** (power - 1)
