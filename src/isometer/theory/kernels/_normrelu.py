"""NormReLU in closed form, λ(c)[max(x − c, 0) + b(c)], and the bound of paper 004 on its cosines (Appendix I)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtr

from isometer.activations._registry import NORMRELU_KINK
from isometer.errors import IsometerError
from isometer.theory.kernels._bounds import correlation_bound

NORMRELU_RATE = 0.0798
"""α′ of 004, as printed."""
NORMRELU_EXCESS = 0.0185
"""δ′ of 004, as printed."""
_NONLINEARITY = 0.0156  # μ at that c, to the digits of 004/normrelu


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class NormReLUMoments:
    """λ(c)[max(x − c, 0) + b(c)] with E σ = 0 and E σ² = 1, and what a Gaussian of variance γ sees of it.

    Implements 004/eq-4, 004/normrelu, 004/fact-1.

    Example:
        >>> from isometer.theory.kernels import NormReLUMoments
        >>> unit = NormReLUMoments()
        >>> round(unit.scale, 2), round(unit.shift, 4), round(unit.nonlinearity, 4)
        (1.05, -1.6209, 0.0156)
    """

    kink: float = NORMRELU_KINK

    @property
    def shift(self) -> float:
        """b(c) = (1 − Φ(c))c − φ(c)."""
        c = self.kink
        return float(ndtr(-c)) * c - _density(c)

    @property
    def scale(self) -> float:
        """λ(c)."""
        c, below = self.kink, float(ndtr(self.kink))
        peak = _density(c)
        spread = (1 - below) * below * c * c + (1 - 2 * below) * peak * c + (1 - below - peak**2)
        return 1.0 / math.sqrt(spread)

    @property
    def nonlinearity(self) -> float:
        """μ = 1 − λ²(1 − Φ(c))²."""
        return 1.0 - (self.scale * float(ndtr(-self.kink))) ** 2

    def mean(self, variance: float) -> float:
        """a_0^{γ}, the mean at variance γ.

        Example:
            >>> from isometer.theory.kernels import NormReLUMoments
            >>> abs(NormReLUMoments().mean(1.0)) < 1e-15
            True
        """
        root = math.sqrt(variance)
        c = self.kink
        return self.scale * (root * _density(c / root) - float(ndtr(-c / root)) * c + self.shift)

    def second_moment(self, variance: float) -> float:
        """σ̂_l(γ), the length map.

        Example:
            >>> from isometer.theory.kernels import NormReLUMoments
            >>> round(NormReLUMoments().second_moment(1.0), 12)
            1.0
        """
        root, c, b = math.sqrt(variance), self.kink, self.shift
        inside = (c * c + variance - 2 * c * b) * float(ndtr(-c / root))
        return self.scale**2 * (inside + (2 * b - c) * root * _density(c / root) + b * b)

    def slope(self, variance: float) -> float:
        """σ̂_l′(γ).

        Example:
            >>> from isometer.theory.kernels import NormReLUMoments
            >>> round(NormReLUMoments().slope(1.0), 4)
            0.8428
        """
        root, c = math.sqrt(variance), self.kink
        return self.scale**2 * (float(ndtr(-c / root)) + self.shift / root * _density(c / root))

    def bias(self, variance: float) -> float:
        """bias(γ) = (a_0^{γ})²/σ̂_l(γ).

        Example:
            >>> from isometer.theory.kernels import NormReLUMoments
            >>> round(NormReLUMoments().bias(2.0), 4)
            0.0029
        """
        return self.mean(variance) ** 2 / self.second_moment(variance)

    @property
    def rates(self) -> tuple[float, float]:
        """(α⁻, α⁺) = (2σ̂_l(½) − 1, 1 − σ̂_l′(1)): contraction of lengths from below and from above."""
        return 2.0 * self.second_moment(0.5) - 1.0, 1.0 - self.slope(1.0)

    @property
    def excess(self) -> float:
        """δ′ = max(bias(½)/α⁻, bias(2)/α⁺): what biases can add to a cosine over all layers."""
        below, above = self.rates
        return max(self.bias(0.5) / below, self.bias(2.0) / above)


def normrelu_settling_depth(epsilon: float) -> float:
    """L̂ = (2/α′) log(3/min(ε, μ/4)) of 004/thm-59, with the printed α′.

    Example:
        >>> from isometer.theory.kernels import normrelu_settling_depth
        >>> round(normrelu_settling_depth(0.5), 1)
        166.6
    """
    if not epsilon > 0.0:
        raise IsometerError(f"004/thm-59 takes ε > 0; got {epsilon!r}")
    return 2.0 / NORMRELU_RATE * math.log(3.0 / min(epsilon, _NONLINEARITY / 4))


def normrelu_bound(depth: int, delta: float, epsilon: float) -> float:
    """B_{μ/2}(L − L̂, δ − δ′) + δ′ε of 004/thm-59, for L ≥ L̂ and δ > δ′; `inf` before L̂.

    It bounds the cosine after L layers of NormReLU (c = −1.5975) of inputs with squared lengths in [0.5, 2] and cosine
    at most 1 − δ. B_ν(L, δ) is used with a real first argument.

    Implements 004/thm-59.

    Example:
        >>> from isometer.theory.kernels import normrelu_bound
        >>> normrelu_bound(100, 0.5, 0.1), round(normrelu_bound(2000, 0.5, 0.1), 5)
        (inf, 0.00225)
    """
    if not NORMRELU_EXCESS < delta <= 1.0:
        raise IsometerError(f"004/thm-59 assumes δ in ({NORMRELU_EXCESS}, 1]; got {delta!r}")
    left = depth - normrelu_settling_depth(epsilon)
    if left < 0:
        return math.inf
    return correlation_bound(left, delta - NORMRELU_EXCESS, _NONLINEARITY / 2) + NORMRELU_EXCESS * epsilon
