"""NormReLU on inputs of any length, layer by layer, and its constants again in mpmath (004, Appendix I)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from isometer.activations import NORMRELU_KINK
from isometer_papers.float_or_mpmath import Numeric, is_precise, ncdf, npdf, sqrt

__all__ = ["NORMRELU_CONSTANTS", "normrelu_constants", "normrelu_correlations", "normrelu_pair"]

NORMRELU_CONSTANTS = (
    "shift",
    "scale",
    "below",
    "nonlinearity",
    "length_half",
    "length_slope",
    "bias_half",
    "bias_two",
    "rate_below",
    "rate_above",
    "excess",
)


def _moments(kink: Numeric) -> tuple[Numeric, Numeric, Numeric]:
    """(b, λ, Φ(c)) from the conditions E σ = 0 and E σ² = 1, by Gaussian integrals of the hinge."""
    first, second = _hinge(kink, kink * 0 + 1)
    return -first, 1 / sqrt(second - first * first), ncdf(kink)


def _hinge(kink: Numeric, variance: Numeric) -> tuple[Numeric, Numeric]:
    """E max(z − c, 0) and E max(z − c, 0)² for z ~ N(0, γ)."""
    root = sqrt(variance)
    t = kink / root
    density, above = npdf(t), ncdf(-t)
    return root * density - kink * above, (variance + kink * kink) * above - kink * root * density


def normrelu_constants(kink: Numeric = NORMRELU_KINK) -> dict[str, Numeric]:
    """Every constant that 004 prints for NormReLU, from moments of the hinge rather than from its closed forms.

    Args:
        kink: c, float64 or mpmath.

    Returns:
        b, λ, Φ(c), μ, σ̂_l(½), σ̂_l′(1), bias(½), bias(2), α⁻, α⁺ and δ′ under the names of `NORMRELU_CONSTANTS`.

    Example:
        >>> found = normrelu_constants()
        >>> round(float(found["scale"]), 2), round(float(found["excess"]), 4)
        (1.05, 0.0185)

    Implements: 004/normrelu, 004/fact-1, 004/thm-59.
    """
    b, scale, below = _moments(kink)
    half, two = kink * 0 + 1 / (kink * 0 + 2), kink * 0 + 2

    def length(variance: Numeric) -> Numeric:
        first, second = _hinge(kink, variance)
        return scale**2 * (second + 2 * b * first + b * b)

    def bias(variance: Numeric) -> Numeric:
        first, _ = _hinge(kink, variance)
        return scale**2 * (first + b) ** 2 / length(variance)

    # d/dγ E f(√γX)² = E f f′X: with Stein's lemma, Φ(−c) + bφ(c) at γ = 1
    slope = scale**2 * (ncdf(-kink) + b * npdf(kink))
    rates = 2 * length(half) - 1, 1 - slope
    return {
        "shift": b,
        "scale": scale,
        "below": below,
        "nonlinearity": 1 - scale**2 * (1 - below) ** 2,
        "length_half": length(half),
        "length_slope": slope,
        "bias_half": bias(half),
        "bias_two": bias(two),
        "rate_below": rates[0],
        "rate_above": rates[1],
        "excess": max(bias(half) / rates[0], bias(two) / rates[1]),
    }


@lru_cache(maxsize=1)
def _nodes() -> tuple[Numeric, Numeric]:
    return np.polynomial.legendre.leggauss(160)


def normrelu_pair(first: Numeric, second: Numeric, covariance: Numeric, kink: Numeric = NORMRELU_KINK) -> Numeric:
    """E σ(z₁)σ(z₂) of NormReLU for variances γ₁, γ₂ and a covariance: one integral, the inner one in closed form.

    Example:
        >>> round(float(normrelu_pair(1.0, 1.0, 0.0)), 9) + 0.0
        0.0

    Implements: 004/thm-59, 004/def-sigma-c.
    """
    b, scale, _ = _moments(kink)
    means = _hinge(kink, first)[0] + _hinge(kink, second)[0]
    both = (
        _closed(first, second, covariance, kink)
        if is_precise(first, covariance)
        else _quadrature(float(first), float(second), float(covariance), float(kink))
    )
    return scale**2 * (both + b * means + b * b)


def _quadrature(first: float, second: float, covariance: float, kink: float) -> float:
    """E max(z₁ − c, 0) max(z₂ − c, 0), by Gauss–Legendre over z₁."""
    # parallel inputs leave 0 or a rounding below it; the tiny spread stands for a point mass
    spread = math.sqrt(max(second - covariance * covariance / first, 1e-300))
    root = math.sqrt(first)
    edges = np.linspace(kink, max(kink, 0.0) + 11 * root, 4)  # the density is below 1e-26 beyond 11 deviations
    x, w = _nodes()
    low, high = edges[:-1, None], edges[1:, None]
    z = (high - low) / 2 * x + (high + low) / 2
    away = covariance / first * z - kink
    t = away / spread
    mean = spread * npdf(t) + away * ncdf(t)  # E[max(z₂ − c, 0) | z₁]
    values = (z - kink) * mean * npdf(z / root) / root
    return float(((high - low) / 2 * w * values).sum())


def _closed(first: Numeric, second: Numeric, covariance: Numeric, kink: Numeric) -> Numeric:
    """The same by the moments of the truncated bivariate normal law; its probability by Plackett's integral."""
    import mpmath

    one, two = sqrt(first), sqrt(second)
    h, k, rho = kink / one, kink / two, covariance / (one * two)
    rest = sqrt((1 - rho) * (1 + rho))
    square = h * h + k * k

    def density(t: Numeric) -> Numeric:
        return mpmath.exp(-(square - 2 * h * k * mpmath.sin(t)) / (2 * mpmath.cos(t) ** 2))

    # ∂P/∂ρ is the joint density at (h, k); ρ = sin t takes out its factor 1/√(1 − ρ²)
    arc = mpmath.quad(density, [0, mpmath.asin(rho)], method="gauss-legendre") / (2 * mpmath.pi)
    both = ncdf(-h) * ncdf(-k) + arc  # P(X > h, Y > k)
    left = npdf(h) * ncdf((rho * h - k) / rest)
    right = npdf(k) * ncdf((rho * k - h) / rest)
    corner = npdf(h) * npdf((k - rho * h) / rest) * rest
    product = rho * both + rho * (h * left + k * right) + corner
    return one * two * (product - k * (left + rho * right) - h * (right + rho * left) + h * k * both)


def normrelu_correlations(lengths: tuple[Any, Any], cosine: Numeric, depth: int) -> Numeric:
    """The cosine of two inputs of squared lengths γ₁, γ₂ after L layers of NormReLU at infinite width.

    Example:
        >>> 0 < float(normrelu_correlations((0.5, 2.0), 0.5, 3)) < 0.5
        True

    Implements: 004/thm-59.
    """
    first, second = lengths
    cross = cosine * sqrt(first * second)
    kink = first * 0 + NORMRELU_KINK
    b, scale, _ = _moments(kink)
    for _ in range(depth):
        cross = normrelu_pair(first, second, cross, kink)
        one, two = _hinge(kink, first), _hinge(kink, second)
        first, second = (scale**2 * (s + 2 * b * f + b * b) for f, s in (one, two))
    value = cross / sqrt(first * second)
    return value if is_precise(value) else min(1.0, max(-1.0, float(value))) if math.isfinite(value) else value
