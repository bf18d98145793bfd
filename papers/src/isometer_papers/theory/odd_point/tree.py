"""Limits of the tree model of recentring and ReLU: what its rows of two and three clusters leave in the end.

A split m of n sorted samples has rows whose first m samples are positive (`lower`) and rows whose other samples are
(`upper`); both are summed squared heights. Each layer multiplies their sum by λ_m = (m² + (n − m)²)/n², largest for
m = 1 and n − 1. Whole numbers, fractions and mpmath numbers go through unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric, angle_of_cosine, pi_like
from isometer_papers.theory.rank.bounds import numeric

__all__ = [
    "angle_bound",
    "cosine_limit",
    "cosine_limit_as_printed",
    "extreme_cosine_bound",
    "extreme_cosine_bound_as_printed",
    "extreme_ratio_bound",
    "inner_gaps",
    "linear_arccos",
    "norm_ratio_limit",
    "pair_energy_bound",
    "pair_energy_sum",
    "split_contraction",
    "split_energies_after",
    "split_gram",
    "three_cluster_energies",
    "two_cluster_sum",
]


def split_contraction(members: int, n: int, one: Numeric = 1.0) -> Numeric:
    """λ_m = (m/n)² + ((n − m)/n)².

    Args:
        members: m, from 1 to n − 1.
        n: samples.
        one: 1 in the kind of number that is wanted.

    Example:
        >>> split_contraction(1, 4)
        0.625

    Implements: 000/eq-39-40, 000/eq-41-43.
    """
    if not 1 <= members <= n - 1:
        raise IsometerError(f"members is {members} of n = {n}; expected 1 to n − 1")
    return one * (members**2 + (n - members) ** 2) / n**2


def two_cluster_sum(height: Numeric, members: int, n: int, layers: int) -> Numeric:
    """Σ_k C(T−1, k) ((n−n_ℓ)/n)^{2(T−k)} (n_ℓ/n)^{2k} c², the sum before it is taken.

    Example:
        >>> from fractions import Fraction
        >>> two_cluster_sum(Fraction(1), 3, 4, 2)
        Fraction(5, 128)

    Implements: 000/eq-39-40 (39).
    """
    from math import comb

    away = n - members
    terms = (comb(layers - 1, k) * away ** (2 * (layers - k)) * members ** (2 * k) for k in range(layers))
    return height**2 * sum(terms) / n ** (2 * layers)


def split_energies_after(lower: ArrayLike, upper: ArrayLike, layers: int) -> tuple[Numeric, Numeric]:
    """Energies of all splits after some layers, in units of λ₁^(layers − 1).

    Args:
        lower: `(n − 1,)`, entry m − 1 of the rows whose first m samples are positive.
        upper: the same of the rows whose other samples are.
        layers: T, at least 1.

    Example:
        >>> [part.tolist() for part in split_energies_after([1.0, 0.0], [0.0, 0.0], 1)]
        [[0.4444444444444444, 0.0], [0.1111111111111111, 0.0]]

    Implements: 000/eq-39-40 (40), 000/eq-41-43 (43).
    """
    total = numeric(lower) + numeric(upper)
    n = len(total) + 1
    one = total.sum() * 0 + 1
    first = split_contraction(1, n, one)
    low, high = [], []
    for m, energy in enumerate(total, start=1):
        # relative to the slowest split: powers of λ_m alone underflow at depth
        faded = energy * (split_contraction(m, n, one) / first) ** (layers - 1)
        low.append(faded * (n - m) ** 2 / n**2)
        high.append(faded * m**2 / n**2)
    return np.array(low, dtype=total.dtype), np.array(high, dtype=total.dtype)


def split_gram(lower: ArrayLike, upper: ArrayLike) -> Numeric:
    """Inner products of the n sorted samples from the energies of the splits.

    Example:
        >>> split_gram([4.0, 0.0], [0.0, 1.0]).tolist()
        [[4.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]

    Implements: 000/eq-45-50, 000/eq-53-60, 000/eq-63-73, 000/eq-81-94.
    """
    low, high = numeric(lower), numeric(upper)
    n = len(low) + 1
    gram = np.zeros((n, n), dtype=low.dtype)
    for m in range(1, n):
        gram[:m, :m] += low[m - 1]
        gram[m:, m:] += high[m - 1]
    return gram


def norm_ratio_limit(ratio: Numeric, n: int) -> Numeric:
    """(1 + r)/((n − 1)² + r), the squared length of a middle sample over that of an extreme one.

    r is the energy of the split at the other extreme over that at this one.

    Example:
        >>> norm_ratio_limit(1.0, 4)
        0.2

    Implements: 000/eq-45-50 (49), (50), 000/eq-74-80 (77), (78).
    """
    return (1 + ratio) / ((n - 1) ** 2 + ratio)


def cosine_limit(ratio: Numeric, n: int) -> Numeric:
    """1/(√(r + 1) √((n − 1)² r + 1)), the cosine of a middle sample and an extreme one.

    r is the energy of the split at this extreme over that at the other one.

    Example:
        >>> round(cosine_limit(1.0, 4), 6)
        0.223607

    Implements: 000/eq-53-60 (57), (58), 000/eq-81-94 (91), (92).
    """
    return 1 / ((ratio + 1) ** 0.5 * ((n - 1) ** 2 * ratio + 1) ** 0.5)


def cosine_limit_as_printed(ratio: Numeric, n: int) -> Numeric:
    """√((n − 1)² r + 1)/√(r + 1): eq. (57) and (58) with the second root outside of the fraction, as they are printed.

    Example:
        >>> round(cosine_limit_as_printed(1.0, 4), 6)
        2.236068

    Implements: 000/eq-53-60 (57), (58).
    """
    return 1 / (ratio + 1) ** 0.5 * ((n - 1) ** 2 * ratio + 1) ** 0.5


def extreme_ratio_bound(ratio: Numeric, n: int) -> Numeric:
    """(4 + 4r)/((n − 2)² + r).

    Example:
        >>> extreme_ratio_bound(0.0, 4)
        1.0

    Implements: 000/eq-63-73 (68), (71).
    """
    return (4 + 4 * ratio) / ((n - 2) ** 2 + ratio)


def extreme_cosine_bound(ratio: Numeric, n: int) -> Numeric:
    """4/(√(r + 1) √((n − 2)² r + 1)).

    Example:
        >>> extreme_cosine_bound(0.0, 4)
        4.0

    Implements: 000/eq-81-94 (85), (86).
    """
    return 4 / ((ratio + 1) ** 0.5 * ((n - 2) ** 2 * ratio + 1) ** 0.5)


def extreme_cosine_bound_as_printed(ratio: Numeric, n: int) -> Numeric:
    """4√((n − 2)² r + 1)/√(r + 1): eq. (86) with the second root outside of the fraction, as it is printed.

    Example:
        >>> extreme_cosine_bound_as_printed(0.0, 4)
        4.0

    Implements: 000/eq-81-94 (86).
    """
    return 4 / (ratio + 1) ** 0.5 * ((n - 2) ** 2 * ratio + 1) ** 0.5


def angle_bound(constant: Numeric, n: int) -> Numeric:
    """π/2 − c/(n − 2); the paper has c = √(2π) in Theorem 11 and (87), √2·π in (88).

    Example:
        >>> angle_bound(0.0, 5) == np.pi / 2
        True

    Implements: 000/thm-11 (12), 000/eq-81-94 (87), (88).
    """
    return pi_like(constant) / 2 - constant / (n - 2)


def linear_arccos(value: Numeric) -> tuple[Numeric, Numeric]:
    """arccos x, and the line π/2 − πx/2 below it on [0, 1].

    Example:
        >>> linear_arccos(1.0)
        (0.0, 0.0)

    Implements: 000/eq-53-60 (59).
    """
    half = pi_like(value) / 2
    return angle_of_cosine(value), half - half * value


def pair_energy_sum(n: int, layers: int, one: Numeric = 1.0) -> Numeric:
    """((n−2)/n)² Σ_k ((n−1)/n)^{2k} [(2/n)² + ((n−2)/n)²]^{T−1−k}, k from 1 to T − 1.

    Example:
        >>> round(pair_energy_sum(4, 2), 6)
        0.140625

    Implements: 000/eq-61-62 (61), with c = 1.
    """
    first, second = one * (n - 1) ** 2 / n**2, one * (4 + (n - 2) ** 2) / n**2
    total = sum((first**k * second ** (layers - 1 - k) for k in range(1, layers)), one * 0)
    return total * (n - 2) ** 2 / n**2


def pair_energy_bound(n: int, layers: int, one: Numeric = 1.0) -> Numeric:
    """((n−2)/n)² (n² − 2n + 1)/(2n − 7) ((n−1)/n)^{2(T−1)}.

    Example:
        >>> round(pair_energy_bound(4, 2), 6)
        1.265625

    Implements: 000/eq-61-62 (62), with c = 1.
    """
    return one * (n - 2) ** 2 * (n**2 - 2 * n + 1) * (n - 1) ** (2 * (layers - 1)) / (2 * n - 7) / n ** (2 * layers)


def three_cluster_energies(middle: Numeric, top: Numeric, n: int, layers: int) -> tuple[Numeric, Numeric, Numeric]:
    """What a row (0, a, c, …, c) of composition (1, 1, n − 2) leaves after some layers.

    Args:
        middle: a.
        top: c > a.
        n: samples.
        layers: T, at least 1.

    Returns:
        The part of rows of composition (2, n − 2) or (n − 2, 2) in ‖x₂‖² and in ‖x_j‖², j ≥ 3, and the largest entry
        of the row of three clusters, 0 if there is none.

    Example:
        >>> three_cluster_energies(1.0, 2.0, 4, 1)  # the row 0, 1, 2, 2 with mean 5/4
        (0.0, 0.5625, 1.25)

    Implements: 000/eq-61-62, 000/appE-mid.
    """
    sizes = (1, 1, n - 2)
    values = [middle * 0, middle, top]
    second, other = middle * 0, middle * 0
    pending = [middle * 0, middle * 0]  # energies of split 2: first two samples positive, others positive
    largest = top
    for _ in range(layers):
        total = pending[0] + pending[1]
        pending = [total * (n - 2) ** 2 / n**2, total * 4 / n**2]
        if largest == 0:
            continue
        mean = sum((size * value for size, value in zip(sizes, values, strict=True)), middle * 0) / n
        raised = [value - mean for value in values]
        children = [[max(v, 0 * v) for v in raised], [max(-v, 0 * v) for v in raised]]
        values = [middle * 0] * 3
        # a child of composition (1, n − 1) is neither: it belongs to split 1, which is not asked for
        for child in children:
            if len(set(child)) == 3:
                values = child
            elif child[0] == child[1]:  # split 2
                side = 0 if child[0] > 0 else 1
                pending[side] = pending[side] + max(child) ** 2
        largest = max(values)
    second, other = pending
    return second, other, largest


def inner_gaps(values: Sequence[Any]) -> list[Numeric]:
    """Gaps between neighbouring clusters without the first and the last, in ascending order.

    As long as no clusters merge, neither transformation of the tree changes them.

    Example:
        >>> inner_gaps([0, 1, 2, 4, 100])
        [1, 2]

    Implements: 000/thm-10 (30)–(32), in a form that negative transformations keep.
    """
    distinct = sorted(set(values))
    gaps = [b - a for a, b in pairwise(distinct)]
    return sorted(gaps[1:-1])
