"""Kernel maps as power series with non-negative coefficients, in float64 or in mpmath numbers.

κ(ρ) = Σ a_k ρ^k with a_k = c_k² and κ(1) = 1 is all that 001 chapter 5 uses of an activation. The coefficients are
given as weights that are divided by their sum in the precision of the computation: κ(1) = 1 holds to every digit.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.hermite_identities import polynomial_value

__all__ = ["KernelSeries"]

_STEPS = 80  # halvings before Newton's method, which then doubles the digits
_NEWTON = 8


class KernelSeries:
    """κ(ρ) = Σ w_k ρ^k / Σ w_k, the kernel map of Σ √(w_k/Σw) he_k.

    Args:
        weights: w_0, w_1, … ≥ 0, floats or mpmath numbers, not all zero.

    Implements: 001/cor-5.7, 001/tab-5.2, 001/thm-5.11 (fixed point).

    Example:
        >>> square = KernelSeries([1.0, 0.0, 2.0])  # x², scaled to unit second moment
        >>> square(0.5), square.slope_at_one == 4 / 3, square.fixed_point
        (0.5, True, 0.5)
    """

    def __init__(self, weights: Numeric) -> None:
        values = list(weights)
        total = sum(values)
        if not values or any(w < 0 for w in values) or not total > 0:
            raise IsometerError("weights of a kernel series must be ≥ 0 and not all 0 — pass squared coefficients")
        self.coefficients = [w / total for w in values]

    def __call__(self, rho: Numeric) -> Numeric:
        """κ(ρ)."""
        return polynomial_value(self.coefficients, rho)

    def slope(self, rho: Numeric) -> Numeric:
        """κ′(ρ).

        Example:
            >>> KernelSeries([0.0, 1.0, 1.0]).slope(1.0)
            1.5
        """
        return polynomial_value([k * a for k, a in enumerate(self.coefficients)][1:], rho)

    @property
    def at_zero(self) -> Numeric:
        """κ(0) = c₀².

        Example:
            >>> KernelSeries([1.0, 3.0]).at_zero
            0.25
        """
        return self.coefficients[0]

    @property
    def slope_at_zero(self) -> Numeric:
        """κ′(0) = c₁².

        Example:
            >>> KernelSeries([1.0, 3.0]).slope_at_zero
            0.75
        """
        return self.coefficients[1] if len(self.coefficients) > 1 else 0 * self.coefficients[0]

    @property
    def slope_at_one(self) -> Numeric:
        """κ′(1) = Σ k c_k².

        Example:
            >>> KernelSeries([1.0, 0.0, 1.0]).slope_at_one
            1.0
        """
        return sum(k * a for k, a in enumerate(self.coefficients))

    @property
    def nonlinear(self) -> bool:
        """Whether Σ_{k≥2} c_k² > 0.

        Example:
            >>> KernelSeries([1.0, 1.0]).nonlinear
            False
        """
        return any(a > 0 for a in self.coefficients[2:])

    @cached_property
    def chord(self) -> list[Numeric]:
        """b_k of q(ρ) = (1 − κ(ρ))/(1 − ρ) = Σ b_k ρ^k: b_k = Σ_{j>k} a_j.

        Example:
            >>> KernelSeries([1.0, 0.0, 1.0]).chord
            [0.5, 0.5]
        """
        tail, found = 0 * self.coefficients[0], []
        for a in reversed(self.coefficients[1:]):
            tail = tail + a
            found.append(tail)
        return found[::-1]

    def gap_after(self, rho: Numeric) -> Numeric:
        """1 − κ(ρ) = (1 − ρ) q(ρ), without cancellation.

        Example:
            >>> KernelSeries([1.0, 0.0, 1.0]).gap_after(0.0)
            0.5
        """
        return (1 - rho) * polynomial_value(self.chord, rho)

    @cached_property
    def fixed_point(self) -> Numeric:
        """The attracting fixed point: 0 if κ(0) = 0, 1 if κ′(1) ≤ 1, else the solution of q = 1 in (0, 1).

        Example:
            >>> KernelSeries([0.0, 1.0, 1.0]).fixed_point, KernelSeries([1.0, 0.0, 1.0]).fixed_point
            (0.0, 1.0)
        """
        if self.at_zero == 0:
            return 0 * self.at_zero
        if self.slope_at_one <= 1:
            return 1 + 0 * self.at_zero
        # κ(ρ) = ρ below 1 is q(ρ) = 1: the fixed point at 1 is divided out, and q increases
        low, high = 0 * self.at_zero, 1 + 0 * self.at_zero
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if polynomial_value(self.chord, middle) < 1 else (low, middle)
        slopes, root = [k * b for k, b in enumerate(self.chord)][1:], (low + high) / 2
        for _ in range(_NEWTON):
            step = (polynomial_value(self.chord, root) - 1) / polynomial_value(slopes, root)
            if not 0 <= root - step <= 1:
                break
            root = root - step
        return root

    def around(self, centre: Numeric) -> list[Numeric]:
        """Taylor coefficients of κ at a point: κ(ρ) = Σ t_k (ρ − centre)^k.

        Example:
            >>> KernelSeries([1.0, 0.0, 1.0]).around(1.0)
            [1.0, 1.0, 0.5]
        """
        # synthetic division by ρ − centre, again and again: every remainder is the next coefficient
        state, found = list(self.coefficients), []
        while state:
            for k in range(len(state) - 2, -1, -1):
                state[k] = state[k] + centre * state[k + 1]
            found.append(state.pop(0))
        return found

    def iterate(self, rho: Numeric, depth: int) -> Numeric:
        """ρ_depth of ρ_{ℓ+1} = κ(ρ_ℓ).

        Example:
            >>> KernelSeries([0.0, 0.0, 1.0]).iterate(0.5, 2)
            0.0625
        """
        for _ in range(depth):
            rho = self(rho)
        return rho


def as_series(coefficients: Numeric) -> KernelSeries:
    """A `KernelSeries` from an array of weights.

    Example:
        >>> as_series(np.array([0.0, 2.0])).coefficients
        [0.0, 1.0]
    """
    return KernelSeries(np.asarray(coefficients).tolist())
