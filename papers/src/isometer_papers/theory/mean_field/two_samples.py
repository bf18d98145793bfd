"""The batch-norm chain of 001 chapter 3 for two samples, where everything is explicit.

BN(x) = ±(1, −1) for two samples, so that a row of φ∘BN is (φ(1), φ(−1)) or the other way round, and the signs of the
next layer are fair coins whatever G is: the number k of rows of the first kind is Binomial(d, ½) from the second
layer on.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from isometer_papers.float_or_mpmath import Numeric, log

__all__ = [
    "deviation_bound",
    "image_statistic",
    "joint_tail",
    "mean_distance",
    "mixing_limit",
    "tail_bound",
    "tv_bound",
    "two_sample_condition",
    "two_sample_distance",
    "two_sample_tail",
]

Floats = NDArray[np.float64]


def two_sample_condition(high: Numeric, low: Numeric) -> Numeric:
    """κ(G*) = ((|a| + |b|)/(|a| − |b|))².

    Implements: 001/thm-3.2 (its factor) for n = 2.

    Example:
        >>> two_sample_condition(2.0, 1.0)
        9.0
    """
    return ((abs(high) + abs(low)) / (abs(high) - abs(low))) ** 2


def two_sample_distance(share: Numeric, high: Numeric, low: Numeric) -> Numeric:
    """‖G − G*‖_F = √2 |p − ½| |a² − b²|.

    Implements: 001/thm-3.2 (its left side) for n = 2.

    Example:
        >>> round(two_sample_distance(1.0, 1.0, 0.0), 6)
        0.707107
    """
    return abs(share - 0.5) * abs(high * high - low * low) * (0 * high + 2) ** 0.5


def mean_distance(width: int, high: float, low: float) -> float:
    """E ‖G_ℓ − G*‖_F for ℓ ≥ 2, exactly.

    Implements: 001/thm-3.2 (its left side) for n = 2.

    Example:
        >>> round(mean_distance(1, 1.0, 0.0), 6)
        0.707107
    """
    total = sum(math.comb(width, k) * abs(2 * k - width) for k in range(width + 1))
    return float(total / (2 * width) / 2**width * abs(high**2 - low**2) * math.sqrt(2))


def two_sample_tail(width: int, threshold: float, high: float, low: float) -> float:
    """P(‖G_ℓ − G*‖_F ≥ t) for ℓ ≥ 2, exactly.

    Implements: 001/thm-B.6 (its left side) for n = 2.

    Example:
        >>> two_sample_tail(1, 0.5, 1.0, 0.0)
        1.0
    """
    hits = (
        math.comb(width, k) for k in range(width + 1) if two_sample_distance(k / width, high, low) >= threshold - 1e-12
    )
    return float(sum(hits) / 2**width)


def joint_tail(tail: Numeric, layers: int) -> Numeric:
    """P(some layer of L exceeds t) where one does with probability p: layers are independent from the second on.

    Implements: 001/thm-3.2:joint.

    Example:
        >>> joint_tail(0.5, 2)
        0.75
    """
    return 1 - (1 - tail) ** layers


def mixing_limit(width: int) -> float:
    """The largest α that 001/ass-3.1 can have for n = 2: 2^{−d}.

    From an input all of whose rows have one sign, h_1 has rank one in a fixed direction, which the invariant law gives
    probability 2^{−d}: ‖μ_1 − μ_*‖ = 1 − 2^{−d}.

    Implements: 001/ass-3.1 for n = 2.

    Example:
        >>> mixing_limit(3)
        0.125
    """
    return 2.0**-width


def deviation_bound(condition: float, bound: float, width: int, samples: int, alpha: float) -> float:
    """κ(G*) B (n/√d) α^{−1/2} ln^{1/2}(d/n): the second term of eq. 3.5, with the constant of O taken as B.

    Implements: 001/thm-3.2 as printed.

    Example:
        >>> round(deviation_bound(1.0, 1.0, 100, 2, 0.25), 4)
        0.7912
    """
    return condition * bound * samples / math.sqrt(width * alpha) * math.sqrt(math.log(width / samples))


def tv_bound(epsilon: Numeric, alpha: Numeric = 1.0) -> Numeric:
    """α^{−1} ε² ln(1/ε).

    Implements: 001/lem-B.3, 001/lem-B.4, 001/lem-B.5 as printed.

    Example:
        >>> round(float(tv_bound(0.1)), 6)
        0.023026
    """
    return epsilon**2 * log(1 / epsilon) / alpha


def tail_bound(threshold: Numeric, norm: Numeric, epsilon: Numeric, alpha: Numeric, depth: int) -> Numeric:
    """t^{−2}(‖G_*‖²(1−α)^ℓ + α^{−1}ε² ln(1/ε)).

    Implements: 001/thm-B.6 as printed.

    Example:
        >>> round(float(tail_bound(1.0, 1.0, 0.1, 1.0, 3)), 6)
        0.023026
    """
    return (norm**2 * (1 - alpha) ** depth + tv_bound(epsilon, alpha)) / threshold**2


def image_statistic(width: int, draws: int, rng: np.random.Generator, image: bool) -> Floats:
    """Σ s_i t_i/√d of d rows in the eigenbasis of G*, scaled to unit variances: for μ̂, or for its image T(μ̂).

    Under μ̂ the two coordinates are independent. In the image their correlation is 2k/d − 1, k ~ Binomial(d, ½), so
    that the statistic tends to N(0, 1) and to N(0, 2): the total variation does not vanish with the width.

    Implements: 001/lem-3.3, 001/lem-B.3 for n = 2.

    Example:
        >>> round(float(image_statistic(10**6, 4000, np.random.default_rng(0), True).var()), 1)
        2.0
    """
    # t = ρs + √(1 − ρ²)g: given ‖s‖² the sum is Gaussian, so that no rows are drawn
    square = rng.chisquare(width, draws) / width
    rho = 2 * rng.binomial(width, 0.5, draws) / width - 1 if image else np.zeros(draws)
    noise = np.sqrt((1 - rho**2) * square) * rng.standard_normal(draws)
    return np.asarray(math.sqrt(width) * rho * square + noise)
