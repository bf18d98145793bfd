"""σ(x) = a x + b g(t x), g = erf or sin: odd activations whose Gaussian moments at any two lengths are closed forms.

With a, b, t ≥ 0 and g = erf they are increasing and concave on the positive half-line, as 004 Appendix D assumes; with
sin they are odd only. Squared lengths are γ; everything works for float64 and mpmath numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric, asin, exp, pi_like, sinh, sqrt

__all__ = ["OddMixture", "as_printed_hermite_pairing", "mixture_step"]


@dataclass(frozen=True)
class OddMixture:
    """σ(x) = s(a x + b g(t x)) with s such that E σ(X)² = 1.

    Args:
        linear: a.
        weight: b.
        steepness: t.
        kind: "erf" or "sin".

    Example:
        >>> sigma = OddMixture(0.0, 1.0, 1.0, "erf")
        >>> float(sigma.second_moment(1.0)), bool(0 < sigma.nonlinearity(1.0) < 1)
        (1.0, True)
    """

    linear: Numeric
    weight: Numeric
    steepness: Numeric
    kind: str = "erf"

    def _raw(self, first: Numeric, second: Numeric, covariance: Numeric) -> Numeric:
        a, b, t, pi = self.linear, self.weight, self.steepness, pi_like(first, covariance)
        # E z₁ g(tz₂) = (cov/γ₂) E z₂ g(tz₂), by regression of z₁ on z₂
        cross = a * b * (self._with_input(second) + self._with_input(first)) * covariance
        if self.kind == "erf":
            spread = sqrt((1 + 2 * t * t * first) * (1 + 2 * t * t * second))
            both = 2 / pi * asin(2 * t * t * covariance / spread)  # E erf(tz₁) erf(tz₂)
        elif self.kind == "sin":
            both = exp(-t * t * (first + second) / 2) * sinh(t * t * covariance)
        else:
            raise IsometerError(f"g is {self.kind!r}; expected erf or sin")
        return a * a * covariance + cross + b * b * both

    def _with_input(self, variance: Numeric) -> Numeric:
        """E z g(t z)/γ."""
        t = self.steepness
        if self.kind == "erf":
            return 2 * t / sqrt(pi_like(variance) * (1 + 2 * t * t * variance))
        return t * exp(-t * t * variance / 2)

    @property
    def _square(self) -> Numeric:
        one = self.linear * 0 + 1
        return self._raw(one, one, one)

    def pair(self, first: Numeric, second: Numeric, covariance: Numeric) -> Numeric:
        """σ̂_c: E σ(z₁)σ(z₂) for variances γ₁, γ₂ and a covariance.

        Example:
            >>> float(OddMixture(1.0, 0.0, 1.0).pair(2.0, 3.0, 0.5))
            0.5

        Implements: 004/def-sigma-c.
        """
        return self._raw(first, second, covariance) / self._square

    def second_moment(self, variance: Numeric) -> Numeric:
        """σ̂_l(γ) = E σ(√γ X)².

        Example:
            >>> float(OddMixture(1.0, 0.0, 1.0).second_moment(3.0))
            3.0

        Implements: 004/def-sigma-l.
        """
        return self.pair(variance, variance, variance)

    def first_squared(self, variance: Numeric) -> Numeric:
        """(a_1^{γ})², the square of E σ(z) z/√γ.

        Example:
            >>> float(OddMixture(1.0, 0.0, 1.0).first_squared(3.0))
            3.0

        Implements: 004/def-sigma-c.
        """
        return variance * (self.linear + self.weight * self._with_input(variance)) ** 2 / self._square

    def nonlinearity(self, variance: Numeric) -> Numeric:
        """μ^{γ} = 1 − (a_1^{γ})²/σ̂_l(γ).

        Example:
            >>> float(OddMixture(1.0, 0.0, 1.0).nonlinearity(3.0))
            0.0

        Implements: 004/def-mu-gamma.
        """
        return 1 - self.first_squared(variance) / self.second_moment(variance)

    def length_slope(self, variance: Numeric) -> Numeric:
        """σ̂_l′(γ) for g = erf; at γ = 1 it is E σσ′X.

        Example:
            >>> float(OddMixture(1.0, 0.0, 1.0).length_slope(1.0))
            1.0

        Implements: 004/def-alpha-sigma.
        """
        if self.kind != "erf":
            raise IsometerError("the slope of the length map is given for erf only")
        a, b, t, pi = self.linear, self.weight, self.steepness, pi_like(variance)
        wide = 1 + 2 * t * t * variance
        root = sqrt(wide)
        cross = 4 * a * b * t / sqrt(pi + 0 * variance) * (1 / root - t * t * variance / (root * wide))
        both = b * b * 2 / pi * 2 * t * t / (wide * sqrt(1 + 4 * t * t * variance))
        return (a * a + cross + both) / self._square

    def contraction(self, smallest: Numeric) -> Numeric:
        """α_σ, with the chord from the smallest squared length (½ in the paper).

        Example:
            >>> float(OddMixture(1.0, 0.0, 1.0).contraction(0.5))
            0.0

        Implements: 004/def-alpha-sigma, 004/rem-38.
        """
        chord = (self.second_moment(smallest) - smallest) / (1 - smallest)
        one = self.linear * 0 + 1
        return min(chord, 1 - self.length_slope(one))


def mixture_step(sigma: OddMixture, state: tuple[Any, Any, Any]) -> tuple[Numeric, Numeric, Numeric]:
    """One layer of (k̄(x, x), k̄(y, y), k̄(x, y)).

    Example:
        >>> float(mixture_step(OddMixture(1.0, 0.0, 1.0), (1.0, 2.0, 0.5))[1])
        2.0

    Implements: 004/def-sigma-c, 004/thm-42.
    """
    first, second, cross = state
    return sigma.second_moment(first), sigma.second_moment(second), sigma.pair(first, second, cross)


def as_printed_hermite_pairing(
    first: int, second: int, variances: tuple[Any, Any], covariance: Numeric, *, printed: bool = True
) -> Numeric:
    """E h_i^{γ₁}(z₁) h_j^{γ₂}(z₂), h_j = H_j/√(γ^j j!), H_j from the generating function e^{tz − γ²t²/2} of eq. 14.

    With `printed=False` the generating function is e^{tz − γt²/2}. Degrees up to 3; moments by Isserlis' theorem.

    Example:
        >>> float(as_printed_hermite_pairing(2, 2, (2.0, 2.0), 2.0)), float(
        ...     as_printed_hermite_pairing(2, 2, (2.0, 2.0), 2.0, printed=False))
        (1.5, 1.0)

    Implements: 004/lem-40.
    """
    if max(first, second) > 3 or min(first, second) < 0:
        raise IsometerError(f"degrees are {first} and {second}; expected 0 to 3")
    size = 1
    total = 0 * covariance
    polynomials = []
    for degree, variance in ((first, variances[0]), (second, variances[1])):
        c = variance * variance if printed else variance
        terms = {0: {0: 1}, 1: {1: 1}, 2: {2: 1, 0: -c}, 3: {3: 1, 1: -3 * c}}[degree]
        polynomials.append(terms)
        size = size * variance**degree * (1, 1, 2, 6)[degree]
    for p, left in polynomials[0].items():
        for q, right in polynomials[1].items():
            total = total + left * right * _moment(p, q, variances, covariance)
    return total / sqrt(size + 0 * covariance)


def _moment(p: int, q: int, variances: tuple[Any, Any], covariance: Numeric) -> Numeric:
    """E z₁^p z₂^q: one factor z₁ is paired with every other factor."""
    if p == 0:
        return 0 if q % 2 else _odd_factorial(q - 1) * variances[1] ** (q // 2)
    rest = 0
    if p >= 2:
        rest = rest + (p - 1) * variances[0] * _moment(p - 2, q, variances, covariance)
    if q >= 1:
        rest = rest + q * covariance * _moment(p - 1, q - 1, variances, covariance)
    return rest


def _odd_factorial(k: int) -> int:
    return 1 if k <= 0 else k * _odd_factorial(k - 2)
