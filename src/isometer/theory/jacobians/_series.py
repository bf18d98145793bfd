"""Formal power series by their coefficients, lowest first: enough of them for moments from S-transforms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def product(left: Floats, right: Floats) -> Floats:
    """The product, as long as the left one.

    Example:
        >>> product(np.array([1.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0]))
        array([1., 2., 1.])
    """
    return np.asarray(np.convolve(left, right)[: len(left)])


def exponential(series: Floats) -> Floats:
    """exp of a series without a constant term.

    Example:
        >>> exponential(np.array([0.0, 1.0, 0.0]))
        array([1. , 1. , 0.5])
    """
    found = np.zeros_like(series)
    found[0] = 1.0
    for k in range(1, len(series)):  # f′ = s′f
        found[k] = sum(j * series[j] * found[k - j] for j in range(1, k + 1)) / k
    return found


def logarithm(series: Floats) -> Floats:
    """log of a series that begins with 1.

    Example:
        >>> logarithm(np.array([1.0, 1.0, 0.5])).tolist()
        [0.0, 1.0, 0.0]
    """
    found = np.zeros_like(series)
    for k in range(1, len(series)):
        found[k] = series[k] - sum(j * found[j] * series[k - j] for j in range(1, k)) / k
    return found


def reversion(series: Floats) -> Floats:
    """The inverse function of a₁x + a₂x² + …, by Lagrange: its kth coefficient is that of (x/f)^k at x^(k−1), over k.

    Example:
        >>> reversion(np.array([0.0, 1.0, 1.0, 0.0]))  # the root of x + x² = y
        array([ 0.,  1., -1.,  2.])
    """
    size = len(series)
    found = np.zeros(size)
    scale = series[1]
    tail = logarithm(np.append(series[1:] / scale, 0.0)[:size])
    for k in range(1, size):
        found[k] = exponential(-k * tail)[k - 1] / k / scale**k
    return found


def log_s_transform(moments: Floats) -> Floats:
    """log S(z) without its constant −log m₁, from moments m₁ = 1, m₂, …: as many coefficients as there are moments.

    Example:
        >>> log_s_transform(np.array([1.0, 2.0, 5.0])).round(12).tolist()  # Marchenko–Pastur: S = 1/(1 + z)
        [0.0, -1.0, 0.5]
    """
    inverse = reversion(np.append(0.0, moments))[1:]  # χ(z)/z
    return logarithm(inverse) + _log_one_plus(len(inverse))


def moments_of(log_s: Floats) -> Floats:
    """The moments m₁ = 1, m₂, … of a law with this log S, the inverse of `log_s_transform`.

    Example:
        >>> moments_of(np.array([0.0, -1.0, 0.5])).round(12).tolist()
        [1.0, 2.0, 5.0]
    """
    chi = exponential(log_s - _log_one_plus(len(log_s)))
    return reversion(np.append(0.0, chi))[1:]


def _log_one_plus(size: int) -> Floats:
    """log(1 + z)."""
    k = np.arange(1, size)
    return np.append(0.0, -((-1.0) ** k) / k)


def sum_log_s(skip: float, log_s: Floats, log_mean: float) -> tuple[Floats, float]:
    """log S and log m₁ of |s + A|² for an R-diagonal A free of the rest, from those of |A|².

    With t = χ(z)(1 + z)², z is additive in t (the rectangular R-transform), and s² has t = z(1 + z)/s².
    """
    size = len(log_s)
    scale = np.exp(log_mean) + skip**2  # m₁ of the sum: t is measured in its units
    own = np.exp(log_mean) / scale
    share = skip**2 / scale
    of_branch = np.append(0.0, exponential(log_s + _log_one_plus(size)) / own)  # t as a series in z
    of_skip = np.zeros(size + 1)
    of_skip[1:3] = 1.0 / share if share else 0.0
    total = reversion(of_branch)
    if share:
        total = total + reversion(of_skip)
    found = logarithm(reversion(total)[1:]) - _log_one_plus(size)
    return found, float(np.log(scale))
