"""001 Appendix B.1 line by line: Bernstein's inequality and the sample covariance of bounded vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric

__all__ = [
    "bernstein_as_printed",
    "bernstein_bound",
    "coin_tail",
    "covariance_deviation",
    "covariance_scale",
    "deviation_tail",
    "deviation_tail_as_printed",
    "rademacher_tail",
    "sphere_distance",
    "substituted_term",
    "substituted_term_as_printed",
    "summed_tail_as_printed",
]


def bernstein_as_printed(count: int, threshold: Numeric, size: Numeric, library: Any = math) -> Numeric:
    """2 exp(−(dt²/2)/(K² + Kt/3)), eq. B.5, which asks for bounded variables only.

    Implements: 001/eq-B.5 as printed.

    Example:
        >>> round(bernstein_as_printed(40, 0.5, 1.0), 4)
        0.0275
    """
    return 2 * bernstein_bound(count, threshold, size, library)


def bernstein_bound(count: int, threshold: Numeric, size: Numeric, library: Any = math) -> Numeric:
    """exp(−(dt²/2)/(K² + Kt/3)) for the mean of d independent variables with E X = 0, |X| ≤ K.

    Implements: 001/eq-B.5#corrected.

    Example:
        >>> round(bernstein_bound(40, 0.5, 1.0), 4)
        0.0138
    """
    return library.exp(-(count * threshold**2 / 2) / (size**2 + size * threshold / 3))


def rademacher_tail(count: int, threshold: Numeric, one: Numeric) -> Numeric:
    """P((1/d) Σ X_i ≥ t) for fair signs, exactly.

    Example:
        >>> rademacher_tail(2, 1.0, 1.0)
        0.25
    """
    # 1e-12: a tie with the threshold counts although t·d is rounded
    hits = sum(math.comb(count, k) for k in range(count + 1) if (2 * k - count) >= threshold * count - 1e-12)
    return hits * one / 2**count


def coin_tail(count: int, threshold: Numeric, one: Numeric) -> Numeric:
    """P(|C_d − C| ≥ s) for d fair coins x_i ∈ {0, 1}, n = 1, C = ½, s > 0: exactly.

    It is 1 for s ≤ 1/(2d) and odd d, so that no bound below 1 can hold for small deviations.

    Implements: 001/lem-B.1, 001/lem-B.2 (an instance).

    Example:
        >>> coin_tail(3, 0.1, 1.0), coin_tail(3, 0.4, 1.0)
        (1.0, 0.25)
    """
    return 2 * rademacher_tail(count, 2 * threshold, one)


def summed_tail_as_printed(
    count: int, threshold: Numeric, samples: int, bound: Numeric, library: Any = math
) -> Numeric:
    """exp(−(dt²/2)/(4n²B² + 2Bnt/3)), the right side of eq. B.11.

    Implements: 001/lem-B.1:eq-B.11 as printed.

    Example:
        >>> round(summed_tail_as_printed(100, 1.0, 2, 1.0), 4)
        0.0559
    """
    return bernstein_bound(count, threshold, 2 * samples * bound, library)


def sphere_distance(samples: int, one: Numeric) -> Numeric:
    """‖xxᵀ − C‖_F = √(n² − n) for x uniform on the sphere of radius √n, C = I.

    Implements: 001/eq-B.6-9 (an instance).

    Example:
        >>> round(sphere_distance(2, 1.0), 6)
        1.414214
    """
    return (one * (samples * samples - samples)) ** 0.5


def substituted_term(threshold: Numeric, width: int) -> Numeric:
    """s/(6nB) at s = t√8 Bn/√d: √2 t/(3√d).

    Implements: 001/lem-B.1:eq-B.14#corrected.

    Example:
        >>> round(substituted_term(3.0, 4), 6)
        0.707107
    """
    return (0 * threshold + 2) ** 0.5 * threshold / (3 * (0 * threshold + width) ** 0.5)


def substituted_term_as_printed(threshold: Numeric, width: int) -> Numeric:
    """t/(3√(2d)), what eq. B.14 has in that place.

    Implements: 001/lem-B.1:eq-B.14 as printed.

    Example:
        >>> substituted_term_as_printed(3.0, 2)
        0.5
    """
    return threshold / (3 * (0 * threshold + 2 * width) ** 0.5)


def covariance_scale(samples: int, width: int, bound: float) -> float:
    """ε = Bn/√d.

    Implements: 001/lem-B.1, 001/lem-B.2.

    Example:
        >>> covariance_scale(2, 4, 1.0)
        1.0
    """
    return bound * samples / math.sqrt(width)


def deviation_tail_as_printed(threshold: Numeric, library: Any = math) -> Numeric:
    """exp(−t²), the bound of P(‖C_d − C‖_F ≥ c t ε).

    Implements: 001/lem-B.1, 001/lem-B.2 as printed.

    Example:
        >>> deviation_tail_as_printed(0.0)
        1.0
    """
    return library.exp(-(threshold**2))


def deviation_tail(threshold: float) -> float:
    """exp(−t²), the bound of P(‖C_d − C‖_F ≥ (1 + t) ε), for every t ≥ 0.

    E ‖C_d − C‖_F ≤ ε, and replacing one vector moves C_d by at most √2 Bn/d: McDiarmid's inequality.

    Implements: 001/lem-B.1#corrected, 001/lem-B.2#corrected.

    Example:
        >>> deviation_tail(0.0)
        1.0
    """
    return math.exp(-(threshold**2))


def covariance_deviation(vectors: Numeric, covariance: Numeric, inverse: bool = False) -> Numeric:
    """‖C_d − C‖_F, or ‖C^{-1}C_d − I‖_F for diagonal C, of vectors `(…, d, n)`.

    Implements: 001/eq-B.1-B.2, 001/lem-B.1, 001/lem-B.2.

    Example:
        >>> float(covariance_deviation(np.eye(2), np.array([0.5, 0.5])))
        0.0
    """
    x, diagonal = np.asarray(vectors), np.asarray(covariance)
    if diagonal.ndim != 1 or x.shape[-1] != len(diagonal):
        raise IsometerError(f"vectors have shape {x.shape}; expected (…, d, n) and a diagonal of length n")
    moments = np.swapaxes(x, -1, -2) @ x / x.shape[-2]
    difference = moments - np.diag(diagonal)
    if inverse:
        difference = difference / diagonal[:, None]
    return (difference**2).sum((-2, -1)) ** 0.5
