"""Length maps that 004 D.4 talks about: the shifted hinge, the sigmoid, and a monotone staircase."""

from __future__ import annotations

from isometer_papers.float_or_mpmath import Numeric, exp, ncdf, pi_like, sqrt

__all__ = ["hinge_length", "sigmoid_at_zero", "staircase_length"]


def hinge_length(variance: Numeric, *, unit: bool = False) -> Numeric:
    """E (max(z, 0) − 1)² for z ~ N(0, γ), γ/2 − √(2γ/π) + 1; with `unit` scaled to 1 at γ = 1.

    Example:
        >>> round(float(hinge_length(1.0)), 6), float(hinge_length(1.0, unit=True))
        (0.702115, 1.0)

    Implements: 004/rem-D4.
    """
    pi = pi_like(variance)

    def plain(v: Numeric) -> Numeric:
        return v / 2 - sqrt(2 * v / pi) + 1

    value = plain(variance)
    return value / plain(variance * 0 + 1) if unit else value


def staircase_length(variance: Numeric) -> Numeric:
    """E σ(z)² for σ = sign(x)/10 + 10 sign(x)·1{|x| > 5}: 0.01 + (10.1² − 0.01)·P(|z| > 5).

    σ is non-decreasing and σ(0) = 0; the map has attracting fixed points near 0.01 and near 80.

    Example:
        >>> round(float(staircase_length(0.01)), 12)
        0.01

    Implements: 004/rem-D4.
    """
    tail = 2 * ncdf(-5 / sqrt(variance))
    return variance * 0 + 1 / (variance * 0 + 100) + 102 * tail


def sigmoid_at_zero(x: Numeric, *, shift: bool = False) -> Numeric:
    """1/(1 + e^{−x}), minus ½ with `shift`.

    Example:
        >>> float(sigmoid_at_zero(0.0)), float(sigmoid_at_zero(0.0, shift=True))
        (0.5, 0.0)

    Implements: 004/rem-D4.
    """
    value = 1 / (1 + exp(-x))
    return value - (x * 0 + 1) / 2 if shift else value
