"""Kernel maps of named activations in any precision: closed forms, and a trapezoidal rule for analytic functions.

The library that computes is passed in: `math` for float64, `mpmath` for as many digits as it is set to. The rule for
E φ(X)φ(Y) has spacing 1/8 on [−14, 14]; for functions that are analytic up to distance a from the real axis its error
is about exp(−16πa), 1e-34 for tanh.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

from isometer.errors import unknown_name
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.exact_duals import dual_slope, dual_value

__all__ = ["CLOSED", "SAMPLED", "PreciseKernel", "precise_kernel"]

_SPACING, _REACH = 8, 14


CLOSED: dict[str, Any] = {
    "identity": (0.0, 1.0),
    "relu": "unit-relu",
    "exp": "unit-exp",
    "sin": "sin",
    "cos": "unit-cos",
    "erf": "erf",
    "sign": "sign",
}
"""Kernel maps with κ(1) = 1 in closed form, each as a dual of `exact_duals`."""

SAMPLED: dict[str, Callable[[Any], tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "tanh": lambda m: (m.tanh, lambda x: 1 - m.tanh(x) ** 2),
    "sigmoid": lambda m: (lambda x: 1 / (1 + m.exp(-x)), lambda x: m.exp(-x) / (1 + m.exp(-x)) ** 2),
    "softplus": lambda m: (lambda x: m.log(1 + m.exp(x)), lambda x: 1 / (1 + m.exp(-x))),
    "gelu": lambda m: (
        lambda x: x * (1 + m.erf(x / m.sqrt(2))) / 2,
        lambda x: (1 + m.erf(x / m.sqrt(2))) / 2 + x * m.exp(-x * x / 2) / m.sqrt(2 * m.pi),
    ),
    "silu": lambda m: (
        lambda x: x / (1 + m.exp(-x)),
        lambda x: 1 / (1 + m.exp(-x)) + x * m.exp(-x) / (1 + m.exp(-x)) ** 2,
    ),
}
"""Analytic activations without a closed form: library ↦ (φ, φ′)."""


class PreciseKernel:
    """κ of a named activation with κ(1) = 1; `centred` subtracts E φ first, as layer norm after φ does.

    Args:
        name: name of `CLOSED` or `SAMPLED`.
        library: `math` or `mpmath`.
        centred: (κ − κ(0))/(1 − κ(0)) instead of κ.

    Implements: 001/def-5.3, 001/thm-5.15 (effective activation).

    Example:
        >>> import math
        >>> round(PreciseKernel("relu", math)(0.0), 12)
        0.318309886184
        >>> round(PreciseKernel("tanh", math)(0.5), 10)
        0.4725513994
    """

    def __init__(self, name: str, library: Any, centred: bool = False) -> None:
        if name not in CLOSED and name not in SAMPLED:
            raise unknown_name("precise kernel", name, [*CLOSED, *SAMPLED])
        self.name, self.library, self.centred = name, library, centred
        self._closed = CLOSED.get(name)

    @property
    def _one(self) -> Numeric:
        """1 in the precision that the library is set to now."""
        return self.library.exp(0)

    @cached_property
    def _rule(self) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        """Points, weights, φ and φ′ there, φ divided by √E φ²."""
        m = self.library
        function, derivative = SAMPLED[self.name](m)
        points = [self._one * k / _SPACING for k in range(-_SPACING * _REACH, _SPACING * _REACH + 1)]
        weights = [m.exp(-x * x / 2) / (_SPACING * m.sqrt(2 * m.pi)) for x in points]
        values, slopes = [function(x) for x in points], [derivative(x) for x in points]
        size = m.sqrt(sum(w * v * v for w, v in zip(weights, values, strict=True)))
        return points, weights, [v / size for v in values], [s / size for s in slopes]

    def _pair(self, rho: Numeric, which: int) -> Numeric:
        """E f(X)f(Y) of f = φ (0) or φ′ (1), scaled."""
        m = self.library
        points, weights, values, slopes = self._rule
        own = (values, slopes)[which]
        function = SAMPLED[self.name](m)[which]
        size = SAMPLED[self.name](m)[0](points[-1]) / values[-1]  # √E φ², recovered where φ is not 0
        side = m.sqrt(1 - rho * rho)
        total = 0 * rho
        for x, w, v in zip(points, weights, own, strict=True):
            if w * _REACH < 1e-45:
                continue
            inner = sum(u * function(rho * x + side * z) for z, u in zip(points, weights, strict=True))
            total = total + w * v * inner / size
        return total

    def _raw(self, rho: Numeric) -> Numeric:
        return dual_value(self._closed, rho) if self._closed is not None else self._pair(rho, 0)

    @property
    def _raw_at_zero(self) -> Numeric:
        if self._closed is not None:
            return dual_value(self._closed, 0 * self._one)
        if self.name == "tanh":  # odd
            return 0
        _, weights, values, _ = self._rule
        return sum(w * v for w, v in zip(weights, values, strict=True)) ** 2

    @property
    def _gain(self) -> Numeric:
        return 1 / (1 - self._raw_at_zero) if self.centred else 1

    def __call__(self, rho: Numeric) -> Numeric:
        """κ(ρ)."""
        return (self._raw(rho) - self._raw_at_zero) * self._gain if self.centred else self._raw(rho)

    def slope(self, rho: Numeric) -> Numeric:
        """κ′(ρ).

        Example:
            >>> import math
            >>> PreciseKernel("exp", math).slope(1.0)
            1.0
        """
        return self._gain * (dual_slope(self._closed, rho) if self._closed is not None else self._pair(rho, 1))

    @property
    def at_zero(self) -> Numeric:
        """κ(0).

        Example:
            >>> import math
            >>> PreciseKernel("relu", math, centred=True).at_zero
            0
        """
        return 0 if self.centred else self._raw_at_zero

    @property
    def slope_at_zero(self) -> Numeric:
        """κ′(0) = c₁².

        Example:
            >>> import math
            >>> PreciseKernel("relu", math).slope_at_zero
            0.5
        """
        if self._closed is not None:
            return self._gain * dual_slope(self._closed, 0 * self._one)
        points, weights, values, _ = self._rule
        return self._gain * sum(w * v * x for x, w, v in zip(points, weights, values, strict=True)) ** 2

    @property
    def slope_at_one(self) -> Numeric:
        """κ′(1) = E φ′²; infinite for sign.

        Example:
            >>> import math
            >>> PreciseKernel("sign", math).slope_at_one
            inf
        """
        if self.name == "sign":
            return self.library.inf
        if self._closed is not None:
            return self._gain * dual_slope(self._closed, self._one)
        _, weights, _, slopes = self._rule
        return self._gain * sum(w * s * s for w, s in zip(weights, slopes, strict=True))

    @cached_property
    def fixed_point(self) -> Numeric:
        """The attracting fixed point; by halving in the interior.

        Example:
            >>> import math
            >>> PreciseKernel("cos", math).fixed_point
            1
        """
        if self.at_zero == 0:
            return 0
        if self.slope_at_one <= 1 + 1e-12:
            return 1
        # 1 is a fixed point as well: the bracket ends below it
        low, high = 0 * self.at_zero, 1 - self.at_zero * 1e-6
        # a value of a sampled kernel is a double sum over 225² points
        for _ in range(60 if self._closed is None else 170):
            middle = (low + high) / 2
            low, high = (middle, high) if self(middle) > middle else (low, middle)
        return (low + high) / 2

    def iterate(self, rho: Numeric, depth: int) -> Numeric:
        """ρ_depth of ρ_{ℓ+1} = κ(ρ_ℓ).

        Example:
            >>> import math
            >>> PreciseKernel("exp", math).iterate(1.0, 3)
            1.0
        """
        for _ in range(depth):
            rho = self(rho)
        return rho


@lru_cache(maxsize=64)
def precise_kernel(name: str, library: Any, centred: bool = False) -> PreciseKernel:
    """A `PreciseKernel`, kept.

    Example:
        >>> import math
        >>> precise_kernel("sin", math).at_zero
        0.0
    """
    return PreciseKernel(name, library, centred)
