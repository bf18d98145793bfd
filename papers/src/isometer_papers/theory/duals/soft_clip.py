"""A smooth clip at ±T: odd, increasing, concave on the positive half-line, and linear to high order near 0.

σ′(x) = (erf(k(x + T)) − erf(k(x − T)))/2. Its coefficient of non-linearity depends strongly on the length of the input,
which is what 004/thm-12 is about.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from isometer_papers.float_or_mpmath import Numeric, erf, exp, is_precise, pi_like, sqrt

__all__ = ["SoftClip"]


@lru_cache(maxsize=1)
def _rule() -> tuple[Numeric, Numeric]:
    x, w = np.polynomial.legendre.leggauss(40)
    # half the line, since σ² is even, and twice the density, which is below 1e-17 beyond 9
    edges = np.array([0.0, 0.7, 1.5, 2.5, 4.0, 6.0, 9.0])
    low, high = edges[:-1, None], edges[1:, None]
    places = ((high - low) / 2 * x + (high + low) / 2).ravel()
    return places, ((high - low) / 2 * w).ravel() * np.exp(-(places**2) / 2) * 2 / math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class SoftClip:
    """σ scaled to E σ(X)² = 1.

    Args:
        threshold: T.
        sharpness: k.

    Example:
        >>> clip = SoftClip(2.0, 3.0)
        >>> round(float(clip.second_moment(1.0)), 12), bool(clip.nonlinearity(0.5) < clip.nonlinearity(1.0) / 4)
        (1.0, True)

    Implements: 004/thm-12, 004/thm-42.
    """

    threshold: Numeric
    sharpness: Numeric

    def plain(self, x: Numeric) -> Numeric:
        """The function before scaling.

        Example:
            >>> round(float(SoftClip(2.0, 3.0).plain(0.5)), 6), round(float(SoftClip(2.0, 3.0).plain(9.0)), 6)
            (0.5, 2.0)
        """
        t, k = self.threshold, self.sharpness
        up, down = x + t, x - t
        bend = exp(-(k * up * k * up)) - exp(-(k * down * k * down))
        root = sqrt(pi_like(t) + 0 * t)
        # ∫ erf(ku) du = u erf(ku) + e^{−k²u²}/(k√π); the two primitives cancel at x = 0
        return (up * erf(k * up) - down * erf(k * down)) / 2 + bend / (2 * k * root)

    def _raw(self, variance: Numeric) -> Numeric:
        root = sqrt(variance)
        if is_precise(variance):
            return _precise_moment(self, variance)
        x, w = _rule()
        return float(w @ self.plain(root * x) ** 2)

    def second_moment(self, variance: Numeric) -> Numeric:
        """σ̂_l(γ).

        Example:
            >>> bool(SoftClip(2.0, 3.0).second_moment(0.5) > 0.5)
            True

        Implements: 004/def-sigma-l.
        """
        return self._raw(variance) / self._raw(variance * 0 + 1)

    def nonlinearity(self, variance: Numeric) -> Numeric:
        """μ^{γ} = 1 − (a_1^{γ})²/σ̂_l(γ), with a_1^{γ} = √γ E σ′(√γX) in closed form.

        Example:
            >>> bool(0 < SoftClip(2.0, 3.0).nonlinearity(1.0) < 0.1)
            True

        Implements: 004/def-mu-gamma.
        """
        t, k = self.threshold, self.sharpness
        # E erf(k(√γX + T)) = erf(kT/√(1 + 2k²γ))
        mean = erf(k * t / sqrt(1 + 2 * k * k * variance))
        return 1 - variance * mean * mean / self._raw(variance)

    def contraction(self, smallest: Numeric) -> Numeric:
        """α_σ; the slope E σσ′X at 1 by a central difference.

        Example:
            >>> bool(0 < SoftClip(2.0, 3.0).contraction(0.5) < 0.2)
            True

        Implements: 004/def-alpha-sigma.
        """
        one, step = smallest * 0 + 1, smallest * 0 + 1e-4
        slope = (self.second_moment(one + step) - self.second_moment(one - step)) / (2 * step)
        return min((self.second_moment(smallest) - smallest) / (1 - smallest), 1 - slope)

    def cosine_floor(self, variance: Numeric, cosine: Numeric, depth: int) -> Numeric:
        """A lower bound on the cosine of two inputs of one length: ρ ∏ (1 − μ^{γ_l}).

        All Hermite terms of equal lengths are non-negative for ρ ≥ 0, so the linear one alone is a bound.

        Example:
            >>> bool(SoftClip(2.0, 3.0).cosine_floor(0.5, 0.5, 3) > 0.49)
            True

        Implements: 004/thm-42.
        """
        for _ in range(depth):
            cosine = cosine * (1 - self.nonlinearity(variance))
            variance = self.second_moment(variance)
        return cosine


@lru_cache(maxsize=512)
def _precise_moment(clip: SoftClip, variance: Numeric) -> Numeric:
    import mpmath

    root = sqrt(variance)
    places = [0, clip.threshold / root, 2 * clip.threshold / root + 2, 16]  # a panel ends where σ bends, at T
    return 2 * mpmath.quad(lambda x: clip.plain(root * x) ** 2 * mpmath.npdf(x), places)
