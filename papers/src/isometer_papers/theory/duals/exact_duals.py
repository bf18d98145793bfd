"""Dual activations of 004 in closed form, for float64 and mpmath alike: one layer, many layers, and the tangent kernel.

A dual is an array of squared Hermite coefficients a_0², a_1², …, scaled to sum 1, or one of the names in `NORMALIZED`
(E σ = 0, E σ² = 1) and `UNCENTRED` (E σ² = 1). Depth is the number of hidden layers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isometer.errors import IsometerError, unknown_name
from isometer_papers.float_or_mpmath import Numeric, acos, asin, cosh, exp, is_precise, pi_like, sinh, sqrt

__all__ = [
    "NORMALIZED",
    "UNCENTRED",
    "Dual",
    "dual_slope",
    "dual_value",
    "iterated_dual",
    "relative_tangent",
    "relu_arc",
    "smallest_fixed_point",
    "tangent_as_printed",
    "tangent_by_layers",
    "tangent_diagonal",
]

Dual = Any  # a name, or squared Hermite coefficients
NORMALIZED = ("relu", "exp", "sin", "erf", "sign")
UNCENTRED = ("unit-relu", "unit-exp", "unit-cos")


def relu_arc(rho: Numeric) -> Numeric:
    """√(1 − ρ²) + (π − arccos ρ)ρ, the dual of ReLU times 2π.

    Example:
        >>> float(relu_arc(0.0))
        1.0
    """
    # 1 − ρ² as a product, which does not cancel at ±1
    return sqrt((1 - rho) * (1 + rho)) + (pi_like(rho) - acos(rho)) * rho


def _named(name: str, rho: Numeric) -> Numeric:
    pi, one = pi_like(rho), rho * 0 + 1
    if name == "relu":
        return (relu_arc(rho) - 1) / (pi - 1)
    if name == "unit-relu":
        return relu_arc(rho) / pi
    if name == "sign":
        return 2 * asin(rho) / pi
    if name == "exp":
        return (exp(rho) - 1) / (exp(one) - 1)
    if name == "unit-exp":
        return exp(rho - 1)
    if name == "sin":
        return sinh(rho) / sinh(one)
    if name == "unit-cos":
        return cosh(rho) / cosh(one)
    if name == "erf":
        return asin(2 * rho / 3) / asin(2 * one / 3)
    raise unknown_name("dual", name, [*NORMALIZED, *UNCENTRED, "squares"])


def _named_slope(name: str, rho: Numeric) -> Numeric:
    pi, one = pi_like(rho), rho * 0 + 1
    if name in ("relu", "unit-relu"):
        return (pi - acos(rho)) / (pi - 1 if name == "relu" else pi)
    if name == "sign":
        return 2 / (pi * sqrt((1 - rho) * (1 + rho)))
    if name == "exp":
        return exp(rho) / (exp(one) - 1)
    if name == "unit-exp":
        return exp(rho - 1)
    if name == "sin":
        return cosh(rho) / sinh(one)
    if name == "unit-cos":
        return sinh(rho) / cosh(one)
    if name == "erf":
        return 2 / (sqrt(9 * one - 4 * rho * rho) * asin(2 * one / 3))
    raise unknown_name("dual", name, [*NORMALIZED, *UNCENTRED, "squares"])


def _horner(coefficients: Numeric, rho: Numeric) -> Numeric:
    value = rho * 0
    for c in reversed(coefficients):
        value = value * rho + c
    return value


def dual_value(dual: Dual, rho: Numeric) -> Numeric:
    """σ̂(ρ) = Σ a_i² ρ^i, over σ̂(1) for squares; σ̂(1) = 1 exactly.

    Example:
        >>> float(dual_value([0.0, 0.5, 0.5], 0.5)), round(float(dual_value("sign", 0.5)), 6)
        (0.375, 0.333333)

    Implements: 004/def-18.
    """
    if isinstance(dual, str):
        value = _named(dual, rho)
    else:
        squares = np.asarray(dual)
        value = _horner(squares, rho) / squares.sum()
    # closed forms miss 1 by a rounding there, and iterates would drift away from a repelling fixed point
    if isinstance(rho, np.ndarray):
        return np.where(rho == 1, rho, value)
    return rho if rho == 1 else value


def dual_slope(dual: Dual, rho: Numeric) -> Numeric:
    """(σ̂)′(ρ) = Σ i a_i² ρ^{i−1}.

    Example:
        >>> float(dual_slope([0.0, 0.5, 0.5], 1.0)), float(dual_slope("unit-relu", 1.0))
        (1.5, 1.0)

    Implements: 004/def-18.
    """
    if isinstance(dual, str):
        return _named_slope(dual, rho)
    squares = np.asarray(dual)
    return _horner(squares[1:] * np.arange(1, len(squares)), rho) / squares.sum()


def iterated_dual(dual: Dual, rho: Numeric, depth: int) -> Numeric:
    """σ̂^{(L)}(ρ), the L-fold composition.

    Example:
        >>> float(iterated_dual([0, 0, 1.0], 0.5, 3))
        0.00390625

    Implements: 004/def-K, 004/lem-20.
    """
    for _ in range(depth):
        rho = dual_value(dual, rho)
    return rho


def tangent_by_layers(dual: Dual, rho: Numeric, depth: int) -> Numeric:
    """The tangent kernel by its recursion: Θ_0 = ρ, Θ_l = σ̂^{(l)}(ρ) + Θ_{l−1} (σ̂)′(σ̂^{(l−1)}(ρ)).

    Example:
        >>> float(tangent_by_layers([0, 0, 1.0], 0.5, 1))  # 3ρ²
        0.75

    Implements: 004/def-NTK.
    """
    theta, here = rho, rho
    for _ in range(depth):
        after = dual_value(dual, here)
        theta, here = after + theta * dual_slope(dual, here), after
    return theta


def tangent_as_printed(dual: Dual, rho: Numeric, depth: int, *, shift: int = 0) -> Numeric:
    """Σ_{h=1}^{L+1} σ̂^{(h−1)}(ρ) ∏_{h′=h}^{L} (σ̂)′(σ̂^{(h′−shift)}(ρ)): eq. 7 with shift 0, the tangent kernel with 1.

    Example:
        >>> float(tangent_as_printed([0, 0, 1.0], 0.5, 1)), float(tangent_as_printed([0, 0, 1.0], 0.5, 1, shift=1))
        (0.5, 0.75)

    Implements: 004/eq-7.
    """
    path = [rho]
    for _ in range(depth + 1):
        path.append(dual_value(dual, path[-1]))
    total = rho * 0
    for h in range(1, depth + 2):
        term = path[h - 1]
        for k in range(h, depth + 1):
            term = term * dual_slope(dual, path[k - shift])
        total = total + term
    return total


def tangent_diagonal(slope: Numeric, depth: int) -> Numeric:
    """Σ_{h=0}^{L} (σ̂)′(1)^h, the diagonal of the tangent kernel.

    Example:
        >>> tangent_diagonal(2.0, 3)
        15.0

    Implements: 004/eq-NTKdiag.
    """
    return sum(slope**h for h in range(depth + 1))


def relative_tangent(dual: Dual, rho: Numeric, depth: int) -> Numeric:
    """The tangent kernel over its diagonal, at any depth without overflow.

    Example:
        >>> float(relative_tangent([0, 0, 1.0], 0.5, 1))  # 3ρ²/3
        0.25

    Implements: 004/def-NTK, 004/thm-5.
    """
    one = rho * 0 + 1
    top = dual_slope(dual, one)
    theta, here, inverse = rho, rho, one  # inverse: one over the diagonal
    for _ in range(depth):
        after = dual_value(dual, here)
        # D_l = 1 + σ̂′(1) D_{l−1} grows without bound; 1/D_l = (1/D_{l−1})/(1/D_{l−1} + σ̂′(1)) does not
        below = inverse + top
        theta = after * (inverse / below) + theta * dual_slope(dual, here) / below
        here, inverse = after, inverse / below
    return theta


def smallest_fixed_point(dual: Dual, *, precise: bool = False) -> Numeric:
    """ρ̄, the smallest fixed point of σ̂ in [0, 1], by bisection of σ̂(ρ) − ρ.

    1 if σ̂′(1) ≤ 1, which leaves no other by convexity; 0 if σ̂(0) = 0.

    Example:
        >>> round(float(smallest_fixed_point([0.25, 0, 0.75])), 12), float(smallest_fixed_point("unit-relu"))
        (0.333333333333, 1.0)

    Implements: 004/lem-32.
    """
    precise = precise or is_precise(dual)
    if precise:
        import mpmath

        low, high, steps = mpmath.mpf(0), mpmath.mpf(1), 200
    else:
        # 2⁻⁶⁰ is below the last digit of a float, 2⁻²⁰⁰ is 60 digits
        low, high, steps = 0.0, 1.0, 60
    if dual_value(dual, low) == 0:
        return low
    slope = dual_slope(dual, high)
    # σ̂′(1) = 1 up to its rounding
    if slope <= 1 + 1e-13:
        return high
    # the crossing lies below a point where σ̂(ρ) < ρ
    step = (high - low) / 2
    while dual_value(dual, high) >= high and step > 1e-18:
        step = step / 2
        high = 1 - step
    if not dual_value(dual, high) < high:
        return low + 1  # a crossing that cannot be told from 1
    for _ in range(steps):
        middle = (low + high) / 2
        if dual_value(dual, middle) > middle:
            low = middle
        else:
            high = middle
    if not precise and not math.isfinite(float(high)):
        raise IsometerError("the dual is not finite on [0, 1]; expected non-negative squares")
    return (low + high) / 2
