"""The Gaussian analysis of one function: panels, moments, and the representation of its dual."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isometer.activations import _gaussian as gaussian
from isometer.activations._closed_forms import closed_dual
from isometer.activations._dual import Dual, PiecewiseFunction, SeriesDual, build_angle_dual, sample_slope
from isometer.activations._expression import Opaque, walk
from isometer.activations._gaussian import NumericalEstimate
from isometer.errors import ActivationError, InfiniteMomentError

if TYPE_CHECKING:
    from isometer.activations._activation import Activation

Floats = NDArray[np.float64]
_CENTRED = 1e-13  # |c₀| below this share of the root second moment counts as zero
_LONG_SERIES = 192  # beyond this many terms the angle series is cheaper to evaluate


class Analysis:
    """What is computed once for an activation and shared by all its affine images.

    Example:
        >>> from isometer import activation
        >>> from isometer.activations._analysis import Analysis
        >>> Analysis(activation("relu")).parity, Analysis(activation("tanh")).parity
        (0, -1)
    """

    def __init__(self, phi: Activation) -> None:
        self.phi = phi

    @cached_property
    def domain(self) -> tuple[float, float]:
        """Where the function matters under the Gaussian."""
        return gaussian.gaussian_domain([self.phi, self.slope], self.phi.name)

    @cached_property
    def edges(self) -> Floats:
        """Panels that resolve it."""
        return gaussian.panel_edges(
            self.phi, self.phi.kinks, self.domain, self.phi.name, tolerance=max(1e-12, 50 * self.precision)
        )

    @property
    def precision(self) -> float:
        """Unit of rounding of the values: larger than float64's when a foreign function computes in float32."""
        foreign = [node.function.precision for node in walk(self.phi.expression) if isinstance(node, Opaque)]
        return max([p for p in foreign if p > 1e-15], default=0.0)

    def slope(self, x: Floats) -> Floats:
        """φ′ with the 0·∞ of a chain rule read as 0: √relu is constant on the left of its root."""
        values = np.asarray(self.phi.derivative(x))
        return np.where(np.isnan(values), 0.0, values)

    @property
    def slope_noise(self) -> float:
        """Relative error of φ′ where it comes from a surrogate of an opaque NumPy function."""
        opaque = any(isinstance(node, Opaque) and not node.function.is_torch for node in walk(self.phi.expression))
        return max(2e-12, 30 * self.precision) if opaque else 0.0

    @cached_property
    def moments(self) -> dict[str, NumericalEstimate]:
        """As `Activation.moments`, by quadrature."""
        self.phi.jumps  # noqa: B018  (raises early for functions without one-sided limits)

        def e(function: Callable[[Floats, Floats], Floats]) -> NumericalEstimate:
            return gaussian.gaussian_expectation(lambda x: function(x, self.phi(x)), self.edges)

        exact = closed_dual(self.phi.expression)
        mean, second = e(lambda x, y: y), e(lambda x, y: y * y)
        if exact is not None:
            second = NumericalEstimate(exact.second_moment, exact.error)
            root = math.sqrt(exact.at_zero)  # |E φ|; quadrature has the sign
            # the closed form replaces the quadrature only where both agree
            if abs(abs(mean.value) - root) <= 1e-9 * (1.0 + root):
                mean = NumericalEstimate(math.copysign(root, mean.value) if root else 0.0, 4e-16 * (1.0 + root))
        # a mean within its own error is zero too, unless that error is too large to mean anything
        elif abs(mean.value) <= max(_CENTRED * math.sqrt(second.value), 4 * mean.error * (mean.error < 1e-10)):
            mean = NumericalEstimate(0.0, max(mean.error, abs(mean.value)))  # odd functions: exactly centred
        centre = mean.value
        variance = e(lambda x, y: (y - centre) ** 2)  # second − mean² cancels where φ hardly varies
        if exact is not None:
            variance = NumericalEstimate(exact.second_moment - exact.at_zero, exact.error)
        slope = gaussian.gaussian_expectation(lambda x: self.slope(x) ** 2, self.edges)
        if slope.error > 1e-3 * slope.value and slope.error > 1e-6 * second.value:
            slope = NumericalEstimate(math.inf, 0.0)  # φ′ is not square-integrable (a cusp): halving keeps adding to it
        elif slope.value <= (1e-10 * (self.slope_noise > 0)) ** 2 * second.value:
            slope = NumericalEstimate(0.0, slope.value)  # nothing but the noise of a surrogate: piecewise constant
        else:
            slope = NumericalEstimate(slope.value, slope.error + self.slope_noise * max(slope.value, second.value))
        # E φ(X)φ(−X) needs panels broken at the kinks of both factors
        both = np.unique(np.concatenate([self.edges, -self.edges]))
        both = both[(both >= self.domain[0]) & (both <= self.domain[1])]
        mirror = gaussian.gaussian_expectation(lambda x: self.phi(x) * self.phi(-x), both)
        return {
            "mean": mean,
            "second": second,
            "variance": variance,
            "slope_second": slope,
            "first": e(lambda x, y: x * y),
            "mirror": mirror,
        }

    @cached_property
    def parity(self) -> int:
        """−1 for odd functions, +1 for even ones, 0 otherwise: κ(−1) = ∓κ(1) decides."""
        second, mirror = self.moments["second"].value, self.moments["mirror"].value
        if abs(second + mirror) <= 1e-13 * second:
            return -1
        return 1 if abs(second - mirror) <= 1e-13 * second else 0

    @cached_property
    def dual(self) -> Dual:
        """A closed form, a Hermite series or an angle series, in this order of preference."""
        exact = closed_dual(self.phi.expression)
        if exact is not None:
            return exact
        if not self.phi.kinks:
            series = self._series_dual()
            if series is not None:
                return series
        return self._angle_dual()

    def _series_dual(self) -> Dual | None:
        moments = self.moments
        slope = moments["slope_second"]
        for order in (64, 192, 512, 2048, 6144, 20480):
            coefficients = self.phi.hermite(order)
            if moments["mean"].value == 0.0:
                coefficients[0] = 0.0  # quadrature leaves rounding there
            squares = coefficients**2
            k = np.arange(order + 1)
            # Parseval, Σ c_k² = E φ² and Σ k c_k² = E φ′²: what is missing is the truncation error
            lost = moments["second"].value - math.fsum(squares)
            lost_slope = slope.value - math.fsum(k * squares)
            # steep functions need very many terms; there the quadrature of the angle series would take minutes
            easy = 1.0 if order <= 2048 else 250.0
            enough = lost <= easy * 4e-15 * moments["second"].value
            if enough and lost_slope <= easy * 4e-14 * slope.value + 10 * slope.error:
                break
        else:
            return None
        # drop the terms at the end that add nothing to κ(1) and κ′(1)
        keep = int(np.flatnonzero(np.cumsum(squares[::-1] * (1 + k[::-1])) > 1e-19 * squares.sum())[0])
        squares = squares[: max(2, order + 1 - keep)]
        error = abs(lost) + moments["second"].error
        series = SeriesDual(squares, moments["second"].value, slope.value, error)
        # a long series is good for sampling κ′, from which the angle series is built without quadrature
        if len(squares) <= _LONG_SERIES:
            return series
        # Horner's rule rounds once for each term
        return self._angle_dual(lambda theta: series.slope(np.cos(theta)), noise=len(squares) * 1e-16)

    def _angle_dual(self, sampler: Callable[[Floats], Floats] | None = None, noise: float = 0.0) -> Dual:
        moments = self.moments
        cusp = ActivationError(
            f"{self.phi.name} has a cusp where φ′ is unbounded; its kernel map is not computed, its moments and "
            "Hermite coefficients are — round the cusp, as in sqrt(abs(x) + 0.01)"
        )
        if math.isinf(moments["slope_second"].value):
            raise cusp
        if sampler is None:
            slope = self.slope
            # φ′² p, not φ′√p, has to be negligible outside: half the decay
            domain = gaussian.gaussian_domain([slope], self.phi.derivative.name, decay=20.5)
            tolerance = max(1e-9, 50 * self.precision)
            floor = 50 * self.slope_noise * math.sqrt(moments["second"].value)
            try:
                edges = gaussian.panel_edges(
                    slope,
                    self.phi.kinks,
                    domain,
                    self.phi.derivative.name,
                    order=16,
                    tolerance=tolerance,
                    floor=floor,
                    smallest=1e-4,
                    anchor=1.0,
                )
            except InfiniteMomentError:
                raise cusp from None
            if float(np.diff(edges).min()) < 1e-3:  # φ′ has a cusp or is very steep: what 1e-11 costs is enough
                noise = max(noise, 1e-11)
            flat = moments["slope_second"].value == 0.0
            smooth_part = PiecewiseFunction(np.zeros_like if flat else slope, edges, self.phi.kinks)
            sampler = sample_slope(smooth_part, self.phi.jumps)
        return build_angle_dual(
            sampler,
            second_moment=moments["second"].value,
            mean=moments["mean"].value,
            slope_at_zero=moments["first"].value ** 2,
            slope_at_one=self.phi.kernel_slope_at_one,
            mirrored_moment=moments["mirror"].value,
            jumping=bool(self.phi.jumps),
            parity=self.parity,
            tolerance=max(2e-14, noise, 5 * self.slope_noise),
        )
