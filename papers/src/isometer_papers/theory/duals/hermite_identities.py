"""Hermite polynomials under a pair of correlated Gaussians, by exact moments, and Mehler's formula (001 §5.3).

Polynomials are lists of coefficients in ascending order. Integers stay integers; with mpmath numbers everything has
their precision.
"""

from __future__ import annotations

import math
from typing import Any

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric

__all__ = [
    "cosine_after_sparse_input",
    "gaussian_moment",
    "hermite_coefficients",
    "hermite_pairing_of",
    "hermite_polynomial",
    "hermite_value",
    "mehler_kernel",
    "mehler_sum",
    "pair_moment",
    "polynomial_value",
    "sine_kernel_at",
]


def hermite_polynomial(order: int) -> list[int]:
    """He_k, probabilists', from He_{k+1} = x He_k − k He_{k−1}.

    Implements: 001/def-5.4, 001/tab-5.1.

    Example:
        >>> hermite_polynomial(4)
        [3, 0, -6, 0, 1]
    """
    if order < 0:
        raise IsometerError(f"order is {order}; expected a whole number ≥ 0")
    previous, current = [0], [1]
    for k in range(order):
        shifted = [0, *current]
        padded = [*previous, *[0] * (len(shifted) - len(previous))]
        previous, current = current, [a - k * b for a, b in zip(shifted, padded, strict=True)]
    return current


def polynomial_value(polynomial: list[Any], x: Numeric) -> Numeric:
    """Value of a polynomial.

    Example:
        >>> polynomial_value([1, 0, 2], 3)
        19
    """
    value = 0 * x
    for a in reversed(polynomial):
        value = value * x + a
    return value


def hermite_value(order: int, x: Numeric) -> Numeric:
    """he_k(x) = He_k(x)/√k!.

    Implements: 001/def-5.4, 001/tab-5.1.

    Example:
        >>> hermite_value(2, 1.0)
        0.0
    """
    return polynomial_value(hermite_polynomial(order), x) / (x * 0 + math.factorial(order)) ** _half(x)


def _half(x: Numeric) -> Numeric:
    # ½ of the type of x: powers keep its precision, which math.sqrt would not
    return (x * 0 + 1) / 2


def gaussian_moment(power: int) -> int:
    """E X^m of a standard Gaussian: (m − 1)!! for even m.

    Example:
        >>> [gaussian_moment(m) for m in range(7)]
        [1, 0, 1, 0, 3, 0, 15]
    """
    return 0 if power % 2 else math.prod(range(1, power, 2))


def pair_moment(first: int, second: int, rho: Numeric) -> Numeric:
    """E X^i Y^j for standard Gaussians of covariance ρ (Isserlis): Σ over the number of mixed pairs.

    Example:
        >>> pair_moment(2, 2, 0.5)
        1.5
    """
    total = 0 * rho
    for mixed in range(min(first, second) + 1):
        if (first - mixed) % 2 or (second - mixed) % 2:
            continue
        # factors chosen on either side and matched across; the others are paired within their side
        ways = math.comb(first, mixed) * math.comb(second, mixed) * math.factorial(mixed)
        total = total + ways * gaussian_moment(first - mixed) * gaussian_moment(second - mixed) * rho**mixed
    return total


def hermite_pairing_of(first: int, second: int, rho: Numeric) -> Numeric:
    """E he_n(X) he_k(Y), from moments.

    Implements: 001/lem-5.6, 001/eq-5.5 (ρ = 1).

    Example:
        >>> round(hermite_pairing_of(3, 3, 0.5), 12)
        0.125
    """
    one, two = hermite_polynomial(first), hermite_polynomial(second)
    total = 0 * rho
    for i, a in enumerate(one):
        for j, b in enumerate(two):
            if a and b:
                total = total + a * b * pair_moment(i, j, rho)
    scale = (rho * 0 + math.factorial(first) * math.factorial(second)) ** _half(rho)
    return total / scale


def hermite_coefficients(polynomial: Numeric, one: Numeric) -> list[Numeric]:
    """c_k = E φ(X) he_k(X) of a polynomial φ, in the precision of `one`, which is 1.

    Implements: 001/def-5.5.

    Example:
        >>> [round(c, 6) for c in hermite_coefficients([0, 0, 1], 1.0)]  # x² = he_0 + √2 he_2
        [1.0, 0.0, 1.414214]
    """
    values = list(polynomial)
    found = []
    for k in range(len(values)):
        total = 0 * one
        for i, a in enumerate(values):
            for j, b in enumerate(hermite_polynomial(k)):
                total = total + a * b * gaussian_moment(i + j)
        found.append(total / (one * math.factorial(k)) ** _half(one))
    return found


def mehler_kernel(x: Numeric, y: Numeric, rho: Numeric, library: Any = math) -> Numeric:
    """(1−ρ²)^{−1/2} exp(−(ρ²(x²+y²) − 2xyρ)/(2(1−ρ²))), the ratio of the joint density to the product.

    Implements: 001/lem-5.6 (left side of Mehler's formula).

    Example:
        >>> mehler_kernel(1.0, 2.0, 0.0)
        1.0
    """
    rest = 1 - rho * rho
    return library.exp(-(rho * rho * (x * x + y * y) - 2 * x * y * rho) / (2 * rest)) / library.sqrt(rest)


def mehler_sum(x: Numeric, y: Numeric, rho: Numeric, terms: int) -> Numeric:
    """Σ_{m<terms} ρ^m he_m(x) he_m(y), by the recurrence of he_m.

    Implements: 001/lem-5.6 (right side of Mehler's formula, with the ρ^m that the print leaves out).

    Example:
        >>> abs(mehler_sum(0.5, -1.0, 0.3, 80) - mehler_kernel(0.5, -1.0, 0.3)) < 1e-14
        True
    """
    total, power = 0 * x, 1 + 0 * x
    previous, current = (0 * x, 0 * x), (1 + 0 * x, 1 + 0 * x)
    for m in range(terms):
        total = total + power * current[0] * current[1]
        # √(m+1) he_{m+1} = z he_m − √m he_{m−1}
        up, down = ((m + 1) * (1 + 0 * x)) ** _half(x), (m * (1 + 0 * x)) ** _half(x)
        following = tuple((z * c - down * p) / up for z, c, p in zip((x, y), current, previous, strict=True))
        previous, current, power = current, (following[0], following[1]), power * rho
    return total


def sine_kernel_at(rho: Numeric, square: Numeric, library: Any = math) -> Numeric:
    """Cosine after a layer with φ = sin at infinite width, for inputs with ‖x‖²/d = q: sinh(qρ)/sinh(q).

    The kernel map of 001/prop-5.1 is q = 1; other inputs have another first step, whatever E φ² is.

    Implements: 001/prop-5.1 (inputs of other lengths).

    Example:
        >>> round(sine_kernel_at(0.5, 1.0), 6), round(sine_kernel_at(0.5, 4.0), 6)
        (0.443409, 0.132901)
    """
    return library.sinh(square * rho) / library.sinh(square)


def cosine_after_sparse_input(first: Numeric, second: Numeric) -> Numeric:
    """Cosine after a layer with weights ±1/√d and one-hot inputs √d e₁, √d e₂: (E φ(ξ))²/E φ(ξ)², ξ = ±1.

    The pre-activations are the signs themselves, at every width; no central limit theorem applies.

    Args:
        first: φ(1).
        second: φ(−1).

    Implements: 001/prop-5.2 (an input for which it fails).

    Example:
        >>> cosine_after_sparse_input(1.0, 0.0)  # ReLU; the Gaussian value is 1/π
        0.5
    """
    return (first + second) ** 2 / (2 * (first * first + second * second))
