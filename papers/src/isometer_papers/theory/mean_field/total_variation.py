"""Total variation: finite Markov chains, Gaussians that differ in scale, and the bounds that 001 Appendix B uses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric

__all__ = [
    "contraction",
    "correlation_tv_bound",
    "finite_tv",
    "gaussian_distance",
    "gaussian_tv_lower",
    "gaussian_tv_upper",
    "mixture_tv",
    "scale_distance",
    "scale_tv",
]


def finite_tv(first: Numeric, second: Numeric) -> Numeric:
    """½ Σ |p − q| of two laws on a finite set, in the precision of the entries.

    Implements: 001/metric-tv, 001/claim-3.tvmono.

    Example:
        >>> float(finite_tv(np.array([1.0, 0.0]), np.array([0.5, 0.5])))
        0.5
    """
    return abs(np.asarray(first) - np.asarray(second)).sum() / 2


def contraction(kernel: Any) -> Numeric:
    """Largest total variation between two rows of a stochastic matrix: 1 − α of 001/ass-3.1 for all pairs of laws.

    Implements: 001/ass-3.1 on finite sets.

    Example:
        >>> float(contraction(np.array([[1.0, 0.0], [0.5, 0.5]])))
        0.5
    """
    rows = np.asarray(kernel)
    # point masses are the worst pair of laws: total variation is convex in them (Dobrushin)
    return max(finite_tv(a, b) for a in rows for b in rows)


def scale_tv(dimension: int, ratio: Numeric, library: Any = math) -> Numeric:
    """Total variation between N(0, I_m) and N(0, g I_m): the law of the squared length decides.

    Densities are equal at r² = m g ln g/(g − 1); the value is |F(r²) − F(r²/g)|, F the χ²_m distribution.

    Args:
        dimension: m.
        ratio: g > 0, not 1.
        library: `math` for float64, or `mpmath`.

    Implements: 001/gauss-tv (exact family), 001/lem-B.3.

    Example:
        >>> round(scale_tv(1, 2.0), 6)
        0.166064
    """
    if not ratio > 0:
        raise IsometerError(f"a ratio of variances is {ratio}; expected a positive number")
    if ratio == 1:
        return 0 * ratio
    square = dimension * ratio * library.log(ratio) / (ratio - 1)
    return abs(_chi_square(dimension, square, library) - _chi_square(dimension, square / ratio, library))


def _chi_square(dimension: int, square: Numeric, library: Any) -> Numeric:
    if library is math:
        from scipy.special import gammainc

        return float(gammainc(dimension / 2, square / 2))
    return library.gammainc(library.mpf(dimension) / 2, 0, square / 2, regularized=True)


def scale_distance(dimension: int, ratio: Numeric) -> Numeric:
    """‖G*^{-1}G − I‖_F for G* = I_m, G = g I_m: √m |g − 1|.

    Example:
        >>> scale_distance(4, 1.5)
        1.0
    """
    return (0 * ratio + dimension) ** 0.5 * abs(ratio - 1)


def gaussian_tv_lower(distance: Numeric) -> Numeric:
    """min(1, x)/100, x = √Σλ_i², λ_i the eigenvalues of G*^{-1}G − I (Devroye, Mehrabian, Reddad).

    Implements: 001/gauss-tv, 001/lem-B.7#corrected.

    Example:
        >>> gaussian_tv_lower(0.5)
        0.005
    """
    return min(distance, 1 + 0 * distance) / 100


def gaussian_tv_upper(distance: Numeric) -> Numeric:
    """(3/2) min(1, x), the other half of the same theorem.

    Implements: 001/gauss-tv, 001/lem-B.3:eq-B.43#corrected.

    Example:
        >>> gaussian_tv_upper(0.5)
        0.75
    """
    return 3 * min(distance, 1 + 0 * distance) / 2


def gaussian_distance(reference: Numeric, gram: Numeric) -> Numeric:
    """‖G*^{-1}G − I‖_F for G* diagonal.

    Implements: 001/lem-B.7.

    Example:
        >>> float(gaussian_distance(np.array([1.0, 0.25]), np.array([[1.0, 0.0], [0.0, 0.5]])))
        1.0
    """
    scaled = np.asarray(gram) / np.asarray(reference)[:, None]
    return ((scaled - np.eye(len(scaled), dtype=int)) ** 2).sum() ** 0.5


def correlation_tv_bound(rho: Numeric, rows: int, library: Any = math) -> Numeric:
    """Upper bound of the total variation between d independent pairs and d pairs of correlation ρ, by Pinsker.

    The divergence is −(d/2) log(1 − ρ²); the bound √(½ divergence), at most 1.

    Implements: 001/lem-B.7 (an upper bound of its left side).

    Example:
        >>> round(correlation_tv_bound(0.1, 1), 6)
        0.050126
    """
    value = library.sqrt(-library.log(1 - rho * rho) * rows / 4)
    return min(value, 1 + 0 * value)


def mixture_tv(ratios: Numeric, library: Any = math, points: int = 4000) -> Numeric:
    """Total variation between the mixture of N(0, g) with equal shares and N(0, 1), by the trapezoidal rule.

    Smaller than the mean of `scale_tv(1, g)` where the densities lie on different sides: what eq. B.47 leaves out.

    Implements: 001/lem-B.7:mixture.

    Example:
        >>> round(mixture_tv([2.0]), 3) == round(scale_tv(1, 2.0), 3)
        True
    """
    # over x ≥ 0 only: the other half of the line makes up for the ½ of total variation
    reach = 12 * max(1, *ratios) ** 0.5 if len(ratios) > 1 else 12 * max(1, ratios[0]) ** 0.5
    step, total = reach / points, 0 * ratios[0]
    root = library.sqrt(2 * library.pi)
    for k in range(points + 1):
        x = k * step
        mixed = sum(library.exp(-x * x / (2 * g)) / library.sqrt(g) for g in ratios) / len(ratios)
        total = total + abs(mixed - library.exp(-x * x / 2)) * (step / 2 if k in (0, points) else step)
    return total / root
