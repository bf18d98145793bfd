"""The integrals behind the shares p_i of 003: the integrand, its derivatives as printed and as they are, closed forms.

`f_n = p_n/σ_n² ≥ ∫_0^∞ g dθ`, `g(δ) = a^{−3/2} b^{−(n−1)/2}`, `a = 1 + 2θ(1/n − δ)`, `b = 1 + 2θ(1/n + δ/(n−1))`.
Numbers of mpmath go through unchanged.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from scipy.special import hyp2f1

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric, is_precise, library_of

__all__ = [
    "TwoLevels",
    "first_order_rate",
    "share_integrand",
    "share_integrand_curvature",
    "share_integrand_slope",
    "slope_helper",
    "slope_helper_brackets",
    "slope_helper_slope",
    "two_level_chain",
    "two_level_share",
]


def _bases(delta: Numeric, theta: Numeric, n: int) -> tuple[Numeric, Numeric]:
    one = delta * 0 + 1
    return one + 2 * theta * (one / n - delta), one + 2 * theta * (one / n + delta / (n - 1))


def share_integrand(delta: Numeric, theta: Numeric, n: int) -> Numeric:
    """g(δ) at one θ.

    Example:
        >>> round(share_integrand(0.0, 1.0, 2), 9)  # (1 + 1)^{−3/2} (1 + 1)^{−1/2}
        0.25

    Implements: 003/eq-16, 003/lem-10, 001/eq-A.11.
    """
    a, b = _bases(delta, theta, n)
    return a ** (-(delta * 0 + 3) / 2) * b ** (-(delta * 0 + n - 1) / 2)


def slope_helper(delta: Numeric, theta: Numeric, n: int, *, steps: int = 1) -> Numeric:
    """h_1 = a^{−5/2} b^{−(n+1)/2}, or with two steps h_3 = a^{−7/2} b^{−(n+3)/2}.

    Example:
        >>> round(slope_helper(0.0, 0.5, 2), 9)  # 1.5^{−4}
        0.197530864

    Implements: 003/lem-10, 001/lem-A.7 (h_1, h_3).
    """
    a, b = _bases(delta, theta, n)
    return a ** (-(delta * 0 + 3 + 2 * steps) / 2) * b ** (-(delta * 0 + n - 1 + 2 * steps) / 2)


def share_integrand_slope(delta: Numeric, theta: Numeric, n: int) -> Numeric:
    """g′(δ) = θ h_1 h_2 with h_2 = 2 + 4θ/n + θδ(2n+4)/(n−1).

    Example:
        >>> round(share_integrand_slope(0.0, 0.5, 2), 9)  # ½ · 1.5^{−4} · 3
        0.296296296

    Implements: 003/lem-10, 001/lem-A.7.
    """
    bracket = 2 + theta * 4 / n + theta * delta * (2 * n + 4) / (n - 1)
    return theta * slope_helper(delta, theta, n) * bracket


def slope_helper_brackets(delta: Numeric, theta: Numeric, n: int) -> dict[str, Numeric]:
    """h_4 in its versions, so that h_1′ should be θ h_3 h_4.

    `true` is 5b − (n+1)/(n−1) a; both papers write (n−3) for (n+1) (`printed`), which 003 expands without a 1/n
    (`003`) and the thesis with it (`001`).

    Example:
        >>> {name: round(value, 3) for name, value in slope_helper_brackets(0.0, 1.0, 2).items()}
        {'true': 4.0, 'printed': 12.0, '003': 18.0, '001': 12.0}

    Implements: 003/lem-10, 001/lem-A.7 (h_4).
    """
    a, b = _bases(delta, theta, n)
    one = delta * 0 + 1
    last = 2 * theta * delta * (n + 2) / (n - 1)
    return {
        "true": 5 * b - one * (n + 1) / (n - 1) * a,
        "printed": 5 * b - one * (n - 3) / (n - 1) * a,
        "003": one * (4 * n - 2) / (n - 1) + 2 * theta * (4 * n - 2) / (n - 1) + last,
        "001": one * (4 * n - 2) / (n - 1) + 2 * theta * (4 * n - 2) / (n * (n - 1)) + last,
    }


def slope_helper_slope(delta: Numeric, theta: Numeric, n: int) -> Numeric:
    """h_1′(δ) = θ h_3 (5b − (n+1)/(n−1) a), which is not negative on [0, 1/n] for n ≥ 2.

    Example:
        >>> round(slope_helper_slope(0.0, 1.0, 2), 9)  # 1 · 2^{−6} · 4
        0.0625

    Implements: 003/lem-10, 001/lem-A.7 (corrected).
    """
    return theta * slope_helper(delta, theta, n, steps=2) * slope_helper_brackets(delta, theta, n)["true"]


def share_integrand_curvature(delta: Numeric, theta: Numeric, n: int) -> Numeric:
    """g″(δ) = θ (h_1′ h_2 + h_1 h_2′).

    Example:
        >>> round(share_integrand_curvature(0.0, 1.0, 2), 9)  # h_1′ h_2 + h_1 h_2′ = 0.0625 · 4 + 0.0625 · 8
        0.75

    Implements: 003/lem-10, 001/lem-A.7.
    """
    bracket = 2 + theta * 4 / n + theta * delta * (2 * n + 4) / (n - 1)
    inner = slope_helper_slope(delta, theta, n) * bracket
    return theta * (inner + slope_helper(delta, theta, n) * theta * (2 * n + 4) / (n - 1))


def two_level_share(n: int, first: Numeric) -> Numeric:
    """p_1 of the spectrum (λ, μ, …, μ) of trace 1: the share after one layer of infinite width, in closed form.

    `p_1 = E[λB/(λB + μ(1−B))]`, B ~ Beta(½, (n−1)/2), which is `(λ/μ) ₂F₁(1, 3/2; n/2 + 1; 1 − λ/μ)/n`.

    Args:
        n: samples, at least 2.
        first: λ in (0, 1).

    Example:
        >>> round(two_level_share(2, 0.8), 12)  # √λ/(√λ + √μ)
        0.666666666667

    Implements: 003/p-map (15), 001/eq-A.10 for two levels.
    """
    if n < 2 or not 0 < first < 1:
        raise IsometerError(f"first is {first} with n = {n}; expected a share between 0 and 1 and n ≥ 2")
    ratio = first * (n - 1) / (1 - first)
    if is_precise(first):
        library = library_of(first)
        return ratio * library.hyp2f1(1, library.mpf(3) / 2, library.mpf(n) / 2 + 1, 1 - ratio) / n
    if n == 2:
        return float(ratio**0.5 / (1 + ratio**0.5))
    if n == 3 and ratio < 0.5:  # in elementary functions, since ₂F₁ has a logarithm of λ/μ here
        root = (1 - ratio) ** 0.5
        return float(ratio / root**2 * ((math.log1p(root) - 0.5 * math.log(ratio)) / root - 1))
    if ratio >= 1:  # Pfaff: the argument into [0, 1)
        return float(hyp2f1(1.0, (n - 1) / 2, n / 2 + 1, 1 - 1 / ratio)) / n
    return float(ratio * hyp2f1(1.0, 1.5, n / 2 + 1, 1 - ratio)) / n


class TwoLevels(NamedTuple):
    """A batch through layers of infinite width: λ_1 of every layer, orthogonality gaps, least singular values."""

    first: list[Any]
    gap: list[Any]
    smallest: list[Any]


def two_level_chain(n: int, first: Numeric, layers: int) -> TwoLevels:
    """The spectrum (λ, μ, …, μ) through layers of infinite width with batch norm: it keeps its form.

    Args:
        n: samples, at least 2.
        first: λ of the input, of trace 1.
        layers: how many.

    Returns:
        Layers 0 … `layers`.

    Example:
        >>> chain = two_level_chain(2, 0.8, 2)
        >>> round(chain.first[1], 9), round(chain.gap[1], 9)  # 2/3, and (2/3 − 1/2)√2
        (0.666666667, 0.23570226)

    Implements: 003/p-map, 003/thm-1 (d = ∞), 001/eq-A.10.
    """
    one = first * 0 + 1
    firsts = [first]
    for _ in range(layers):
        firsts.append(two_level_share(n, firsts[-1]))
    gaps = [abs(value - one / n) * (one * n / (n - 1)) ** 0.5 for value in firsts]
    smallest = [min(value, (1 - value) / (n - 1)) ** 0.5 for value in firsts]
    return TwoLevels(firsts, gaps, smallest)


def first_order_rate(n: int) -> float:
    """Factor by which one layer of infinite width shrinks small deviations from orthogonality: n/(n+2).

    Example:
        >>> first_order_rate(2)
        0.5

    Implements: 003/thm-1 (rate), 001/thm-2.1.
    """
    if n < 1:
        raise IsometerError(f"n is {n}; expected at least one sample")
    return n / (n + 2)
