"""Products of Gaussian matrices, the linear network without normalisation: growth and the approach to rank one.

The exponents are those of squared singular values, as Lemma A.8 of the thesis has them. Numbers of mpmath go through.
"""

from __future__ import annotations

from typing import Any

from scipy.special import digamma

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric, is_precise, library_of
from isometer_papers.theory.orthogonality.bounds import unit_trace

__all__ = [
    "distance_from_rank_one",
    "first_share_bound_as_printed",
    "product_exponent",
    "product_exponent_as_printed",
    "rank_one_bound",
    "rank_one_exponent_as_printed",
    "rank_one_rate",
]


def _psi(value: Numeric) -> Numeric:
    return library_of(value).psi(0, value) if is_precise(value) else float(digamma(value))


def product_exponent(width: int, index: int, variance: Numeric = 1.0) -> Numeric:
    """lim (1/ℓ) log σ_i²(W_ℓ⋯W_1) = log 2 + Ψ((d−i+1)/2) + log(variance), almost surely.

    Args:
        width: d.
        index: i, from 1.
        variance: variance of the entries.

    Example:
        >>> round(product_exponent(2, 1), 6), round(product_exponent(1, 1), 6)  # Ψ(1) + log 2, Ψ(½) + log 2
        (0.115932, -1.270363)

    Implements: 001/lem-A.8 (A.13 corrected).
    """
    if not 1 <= index <= width:
        raise IsometerError(f"index is {index} with width {width}; expected 1 to the width")
    library: Any = library_of(variance)
    half = (variance * 0 + width - index + 1) / 2
    return library.log(2) + _psi(half) + library.log(variance)


def product_exponent_as_printed(width: int, index: int, variance: Numeric = 1.0) -> Numeric:
    """½(log 2 + Ψ((d−i+1)/2)), which is the exponent of σ_i, printed for σ_i².

    Example:
        >>> round(product_exponent_as_printed(1, 1), 6)
        -0.635181

    Implements: 001/lem-A.8 (A.13).
    """
    return product_exponent(width, index, variance * 0 + 1) / 2


def rank_one_rate(width: int) -> float:
    """δ = Ψ(d/2) − Ψ((d−1)/2): σ_2²/σ_1² falls like e^{−δℓ}, and the orthogonality gap approaches √(1−1/n) as fast.

    Example:
        >>> round(rank_one_rate(2), 6)  # 2 log 2
        1.386294

    Implements: 001/lem-A.8 (A.14).
    """
    if width < 2:
        raise IsometerError(f"width is {width}; expected at least 2, for two singular values")
    return float(digamma(width / 2) - digamma((width - 1) / 2))


def distance_from_rank_one(squares: Numeric) -> Numeric:
    """|V − √((n−1)/n)| of a spectrum, by (1 − Σp²)/(V + √(1−1/n)), which keeps its digits near rank one.

    Args:
        squares: squared singular values, the largest first.

    Example:
        >>> round(float(distance_from_rank_one([1.0, 1.0])), 6)
        0.707107

    Implements: 001/lem-A.8 (A.12).
    """
    p = unit_trace(squares)
    n, one = len(p), p[0] * 0 + 1
    rest = p[1:].sum()
    missing = 2 * rest - rest**2 - (p[1:] ** 2).sum()  # 1 − Σp²
    top = (one - one / n) ** 0.5
    gap = abs(one - one / n - missing) ** 0.5  # V²; equal shares leave a rounding below 0
    return missing / (gap + top)


def rank_one_bound(squares: Numeric) -> Numeric:
    """‖σ²/‖σ²‖_1 − e_1‖, which bounds the distance from rank one.

    Example:
        >>> round(float(rank_one_bound([1.0, 1.0])), 6)
        0.707107

    Implements: 001/lem-A.8 (A.17).
    """
    p = unit_trace(squares)
    return (p[1:].sum() ** 2 + (p[1:] ** 2).sum()) ** 0.5


def first_share_bound_as_printed(layers: int, ratio_log: Numeric, n: int) -> tuple[Numeric, Numeric]:
    """Both sides of the printed inequality (1/2ℓ) log|p_1 − 1| ≤ (1/ℓ) log(n σ_2²/σ_1²), for n − 1 equal small values.

    Args:
        layers: ℓ.
        ratio_log: log(σ_2²/σ_1²) < 0.
        n: samples.

    Example:
        >>> left, right = first_share_bound_as_printed(1, -10.0, 2)
        >>> round(left, 4), round(right, 4)
        (-5.0, -9.3069)

    Implements: 001/lem-A.8 (A.16).
    """
    library: Any = library_of(ratio_log)
    rest = (n - 1) * library.exp(ratio_log)
    return library.log(rest / (1 + rest)) / (2 * layers), (library.log(n + ratio_log * 0) + ratio_log) / layers


def rank_one_exponent_as_printed(layers: int, ratio_log: Numeric, n: int) -> tuple[Numeric, Numeric]:
    """The printed right side (1/4ℓ) log(2n p_2) + (1/4ℓ) log(2(p_1 − 1)²) and −δ = (1/ℓ) log(σ_2²/σ_1²).

    For n − 1 equal small values. It tends to −¾δ, not to −δ.

    Example:
        >>> right, rate = rank_one_exponent_as_printed(1000, -1000.0, 2)
        >>> round(right, 2), rate
        (-0.75, -1.0)

    Implements: 001/lem-A.8 (A.18).
    """
    library: Any = library_of(ratio_log)
    # 1 − p_1 in logarithms: at depth the ratio of the squares underflows
    log_rest = library.log(n - 1 + ratio_log * 0) + ratio_log - library.log(1 + (n - 1) * library.exp(ratio_log))
    log_second = log_rest - library.log(n - 1 + ratio_log * 0)
    two = library.log(2 + ratio_log * 0)
    right = (two + library.log(n + ratio_log * 0) + log_second + two + 2 * log_rest) / (4 * layers)
    return right, ratio_log / layers
