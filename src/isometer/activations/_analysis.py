"""The Gaussian analysis of one function: panels, moments, and the representation of its dual."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isometer.activations import _gaussian as gaussian
from isometer.activations._angle_table import PiecewiseFunction, TooManySamples
from isometer.activations._closed_forms import closed_dual
from isometer.activations._dual import (
    Dual,
    SeriesDual,
    SlopeSampler,
    build_angle_dual,
)
from isometer.activations._expression import FunctionCall, Opaque, walk
from isometer.activations._gaussian import NumericalEstimate
from isometer.activations._steep import Front, cuts, fronts
from isometer.errors import ActivationError, InfiniteMomentError

if TYPE_CHECKING:
    from isometer.activations._activation import Activation

Floats = NDArray[np.float64]
_ORDINARY = (
    64  # powers of two that φ may be away from one before it is scaled: squares are far from over- and underflow
)
_WORK = 1.5e9  # operations on numbers for one kernel map, some seconds
_TERMS = 4e8  # nodes times Hermite polynomials of one series, some seconds
_SLOW = frozenset(
    (
        "tanh",
        "sigmoid",
        "erf",
        "ndtr",
        "arctan",
        "arcsinh",
        "softplus",
        "exp",
        "expm1",
        "sin",
        "cos",
        "sinh",
        "cosh",
        "log1p",
        "log",
        "power",
    )
)
_USELESS = 1e-3  # an error of κ beyond this share of E φ² is no answer
_STEEP = 1e-4
_LONG_SERIES = 192  # beyond this many terms the angle series is cheaper to evaluate


def moments_scale(moments: dict[str, NumericalEstimate]) -> float:
    """E φ², what errors of κ are relative to."""
    return moments["second"].value


def parity(moments: dict[str, NumericalEstimate]) -> int:
    """−1 for odd functions, +1 for even ones, 0 otherwise: κ(−1) = ∓κ(1) decides, within errors."""
    second, mirror = moments["second"], moments["mirror"]
    allowed = min(max(1e-13 * second.value, 4 * (second.error + mirror.error)), 1e-9 * second.value)
    if abs(second.value + mirror.value) <= allowed and moments["mean"].value == 0.0:
        return -1
    return 1 if abs(second.value - mirror.value) <= allowed and moments["first"].value == 0.0 else 0


@dataclass(frozen=True)
class _Core:
    """A stretch on which the kernel takes φ as a step at `place`; `error` is what κ can be off by for that."""

    left: float
    right: float
    place: float
    size: float
    error: float


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
    def fronts(self) -> tuple[Front, ...]:
        """Steep places, read off the formula."""
        return fronts(self.phi.expression)

    @cached_property
    def _extent(self) -> tuple[tuple[float, float], float]:
        hints = [x for front in self.fronts for x in (front.place, front.place + front.width)]
        return gaussian.gaussian_extent([self.phi, self._raw_slope], self.phi.name, hints=hints)

    @property
    def domain(self) -> tuple[float, float]:
        """Where the function matters under the Gaussian."""
        return self._extent[0]

    @cached_property
    def exponent(self) -> int:
        """What is analysed is ψ = φ·2^−exponent, whose square neither over- nor underflows."""
        peak = self._extent[1] / math.log(2.0)
        return round(peak) if math.isfinite(peak) and abs(peak) > _ORDINARY else 0

    def value(self, x: Floats) -> Floats:
        """ψ."""
        values = np.asarray(self.phi(x))
        return values if self.exponent == 0 else np.ldexp(values, -self.exponent)

    @cached_property
    def edges(self) -> Floats:
        """Panels that resolve it."""
        return gaussian.panel_edges(
            self.value,
            self.phi.kinks,
            self.domain,
            self.phi.name,
            tolerance=max(1e-12, 50 * self.precision),
            area=1e-17 if self.fronts else 0.0,  # a pole must be followed to the end
            cuts=cuts(self.fronts),
        )

    @property
    def precision(self) -> float:
        """Unit of rounding of the values: larger than float64's when a foreign function computes in float32."""
        foreign = [node.function.precision for node in walk(self.phi.expression) if isinstance(node, Opaque)]
        return max([p for p in foreign if p > 1e-15], default=0.0)

    def _raw_slope(self, x: Floats) -> Floats:
        """φ′ with the 0·∞ of a chain rule read as 0: √relu is constant on the left of its root."""
        values = np.asarray(self.phi.derivative(x))
        return np.where(np.isnan(values), 0.0, values)

    def slope(self, x: Floats) -> Floats:
        """ψ′, apart from jumps."""
        values = self._raw_slope(x)
        for front in self.fronts:
            if not front.resolvable:
                values = np.where(np.abs(x - front.place) < front.reach, 0.0, values)
        return values if self.exponent == 0 else np.ldexp(values, -self.exponent)

    @property
    def slope_noise(self) -> float:
        """Relative error of φ′ where it comes from a surrogate of an opaque NumPy function."""
        opaque = any(isinstance(node, Opaque) and not node.function.is_torch for node in walk(self.phi.expression))
        return max(2e-12, 30 * self.precision) if opaque else 0.0

    @cached_property
    def jumps(self) -> tuple[tuple[float, float], ...]:
        """Those of ψ."""
        return tuple((place, math.ldexp(size, -self.exponent)) for place, size in self.phi.jumps)

    @cached_property
    def exact(self) -> Dual | None:
        """The dual of ψ by formula, if there is one."""
        return closed_dual(self.phi.expression, self.exponent)

    @cached_property
    def moments(self) -> dict[str, NumericalEstimate]:
        """Those of ψ, by quadrature, or by formula where both agree."""

        def e(function: Callable[[Floats], Floats]) -> NumericalEstimate:
            return self._finite(gaussian.gaussian_expectation(function, self.edges))

        exact = self.exact
        mean, second = e(self.value), self._finite(gaussian.second_moment(self.value, self.edges))
        if exact is not None:
            second = NumericalEstimate(exact.second_moment, exact.error)
            root = math.sqrt(exact.at_zero)  # |E φ|; quadrature has the sign
            # the closed form replaces the quadrature only where both agree
            if abs(abs(mean.value) - root) <= 1e-9 * math.sqrt(second.value) or root > 0 == mean.value:
                mean = NumericalEstimate(math.copysign(root, mean.value) if root else 0.0, 4e-16 * root)
        # a mean within its own error is zero, unless that error is too large to mean anything
        elif abs(mean.value) <= 4 * mean.error and mean.error < 1e-10 * math.sqrt(second.value):
            mean = NumericalEstimate(0.0, max(mean.error, abs(mean.value)))  # odd functions: exactly centred
        centre = mean.value
        variance = gaussian.second_moment(
            lambda x: self.value(x) - centre, self.edges
        )  # second − mean² cancels where φ hardly varies
        if exact is not None:
            # summed without κ(0): κ(1) − κ(0)
            variance = NumericalEstimate(float(exact.deficit(np.ones(1))[0]), exact.error)
        # E φ(X)φ(−X) needs panels broken at the kinks of both factors
        both = np.unique(np.concatenate([self.edges, -self.edges]))
        both = both[(both >= self.domain[0]) & (both <= self.domain[1])]
        return {
            "mean": mean,
            "second": second,
            "variance": variance,
            "slope_second": self._slope_second(second.value),
            "first": self._first(e(lambda x: x * self.value(x))),
            "mirror": self._finite(gaussian.second_moment(self.value, both, lambda x: self.value(-x))),
        }

    def _finite(self, found: NumericalEstimate) -> NumericalEstimate:
        if not math.isfinite(found.value):
            raise InfiniteMomentError(
                f"a moment of {self.phi.name} is infinite, or too large for floating point — use a function without "
                "poles that grows more slowly than exp(x²/4)"
            )
        return found

    def _slope_second(self, second: float) -> NumericalEstimate:
        """E ψ′²; infinite where a cusp makes it so."""
        if self.exact is not None and math.isfinite(self.exact.slope_at_one):
            return NumericalEstimate(self.exact.slope_at_one, 1e-15 * self.exact.slope_at_one)

        def square(x: Floats) -> Floats:
            return np.asarray(self.slope(x) ** 2)

        slope = gaussian.second_moment(self.slope, self.edges)
        if slope.error > 1e-9 * slope.value:  # panels that resolve φ need not resolve φ′
            slope = min(slope, gaussian.refined_expectation(square, self.edges), key=lambda one: one.error)
        if not math.isfinite(slope.value) or (slope.error > 1e-3 * slope.value and slope.error > 1e-6 * second):
            return NumericalEstimate(math.inf, 0.0)  # φ′ is not square-integrable (a cusp): halving keeps adding to it
        if slope.value <= (1e-10 * (self.slope_noise > 0)) ** 2 * second:
            return NumericalEstimate(0.0, slope.value)  # nothing but the noise of a surrogate: piecewise constant
        return NumericalEstimate(slope.value, slope.error + self.slope_noise * max(slope.value, second))

    def _first(self, found: NumericalEstimate) -> NumericalEstimate:
        """E Xψ(X), zero where it is nothing but rounding."""
        if self.exact is not None:
            root = math.sqrt(self.exact.slope_at_zero)
            return NumericalEstimate(math.copysign(root, found.value) if root else 0.0, 4e-16 * root)
        return found if abs(found.value) > 4 * found.error else NumericalEstimate(0.0, abs(found.value) + found.error)

    def degrees(self, order: int) -> NDArray[np.bool_]:
        """Which Hermite coefficients are more than rounding."""
        if isinstance(self.exact, SeriesDual):
            known = self.exact.coefficients[: order + 1] > 0.0
            return np.concatenate([known, np.zeros(order + 1 - len(known), dtype=bool)])
        found, size = gaussian.hermite_with_sizes(self.value, self.edges, order)
        present = np.abs(found) > max(1e-15, 4 * self.precision) * 8 * size
        present[1] = self.moments["first"].value != 0.0
        if self.parity:
            present[(1 - self.parity) // 2 ^ 1 :: 2] = False
        return np.asarray(present)

    @cached_property
    def parity(self) -> int:
        """−1 for odd functions, +1 for even ones, 0 otherwise: κ(−1) = ∓κ(1) decides."""
        return parity(self.moments)

    @cached_property
    def dual(self) -> Dual:
        """A closed form, a Hermite series or an angle series, in this order of preference."""
        if self.exact is not None:
            return self.exact
        if not self.phi.kinks and all(front.width > 1e-2 for front in self.fronts):
            series = self._series_dual()
            if series is not None:
                return series
        try:
            dual = self._angle_dual(work=_WORK / self._cost)
        except TooManySamples:
            raise ActivationError(
                f"the kernel map of {self.phi.name} would take minutes to compute: its derivative has many scales — "
                "smooth its steep places"
            ) from None
        if not dual.error <= _USELESS * moments_scale(self.moments):
            raise ActivationError(
                f"the kernel of {self.phi.name} could not be computed: its estimated error is "
                f"{dual.error / moments_scale(self.moments):.1g} of E φ² — smooth the activation, or declare the kinks "
                "of a callable with activation(f, kinks=[...])"
            )
        return dual

    @property
    def _cost(self) -> float:
        """How much longer than a short formula φ′ takes, roughly; a count, so that it is the same on every machine."""
        nodes = list(walk(self.phi.derivative.expression))
        slow = sum(1 for node in nodes if isinstance(node, FunctionCall) and node.name in _SLOW)
        return len(nodes) + 8.0 * slow

    def _series_dual(self) -> Dual | None:
        moments = self.moments
        slope = moments["slope_second"]
        width = np.diff(self.edges)
        # a function of one scale may need many terms; one of many scales has a shorter series in the angle
        orders = (64, 192, 512, 2048, 6144, 20480) if np.median(width) < 4 * np.quantile(width, 0.1) else (64, 192, 512)
        for order in orders:
            # panels much finer than the waves of the last polynomial: the series would not end there either
            if 32 * len(self.edges) * order > _TERMS:
                return None
            coefficients = gaussian.hermite_coefficients(self.value, self.edges, order)
            # quadrature leaves rounding in coefficients that are zero
            if self.parity:
                coefficients[(1 - self.parity) // 2 ^ 1 :: 2] = 0.0
            if moments["mean"].value == 0.0:
                coefficients[0] = 0.0
            coefficients[1] = moments["first"].value
            squares = coefficients**2
            k = np.arange(order + 1)
            # Parseval, Σ c_k² = E φ² and Σ k c_k² = E φ′²: what is missing is the truncation error
            lost = moments["second"].value - math.fsum(squares)
            lost_slope = slope.value - math.fsum(k * squares)
            easy = 1.0 if order <= 2048 else 250.0
            enough = abs(lost) <= easy * 4e-15 * moments["second"].value + 10 * moments["second"].error
            if enough and abs(lost_slope) <= easy * 4e-14 * slope.value + 10 * slope.error:
                break
        else:
            return None
        # drop the terms at the end that add nothing to κ(1) and κ′(1)
        matters = np.cumsum(squares[::-1] * (1 + k[::-1])) > 1e-19 * squares.sum()
        squares = squares[: max(2, int(matters.sum()))]  # none where φ is zero
        error = abs(lost) + moments["second"].error
        series = SeriesDual(squares, moments["second"].value, slope.value, error)
        # a long series is good for sampling κ′, from which the angle series is built without quadrature
        if len(squares) <= _LONG_SERIES:
            return series
        # Horner's rule rounds once for each term
        return self._angle_dual(lambda theta: series.slope(np.cos(theta)), noise=len(squares) * 1e-16)

    def _angle_dual(
        self,
        sampler: Callable[[Floats], Floats] | None = None,
        noise: float = 0.0,
        work: float = math.inf,
    ) -> Dual:
        moments = self.moments
        cusp = ActivationError(
            f"{self.phi.name} has a cusp where φ′ is unbounded; its kernel map is not computed, its moments and "
            "Hermite coefficients are — round the cusp, as in sqrt(abs(x) + 0.01)"
        )
        if math.isinf(moments["slope_second"].value):
            raise cusp
        steep = [front for front in self.fronts if front.width >= front.narrow]
        cores = self._cores() if sampler is None else ()
        width = min((front.width for front in steep), default=1.0)
        # κ' of a steep function is so large at ρ = 1 that an error relative to it would be one everywhere else
        as_flux = bool(self.jumps or cores) or (sampler is None and width < _STEEP)
        if sampler is None:
            # x − place is rounded, and with it what a front makes of it
            noise = max([noise, *(5e-15 * abs(front.place) / front.width for front in steep)])
            sampler = self._sampler(cores, steep, cusp, as_flux, work, noise)
        dual = build_angle_dual(
            sampler,
            second_moment=moments["second"].value,
            mean=moments["mean"].value,
            slope_at_zero=moments["first"].value ** 2,
            slope_at_one=math.inf if self.jumps else moments["slope_second"].value,
            mirrored_moment=moments["mirror"].value,
            jumping=as_flux,
            parity=self.parity,
            tolerance=max(2e-14, noise, 5 * self.slope_noise),
            smallest=min(1e-5, width / 16),
        )
        return replace(dual, error=dual.error + sum(core.error for core in cores)) if cores else dual

    def _sampler(
        self,
        cores: tuple[_Core, ...],
        fronts: list[Front],
        cusp: ActivationError,
        as_flux: bool,
        work: float,
        noise: float,
    ) -> SlopeSampler:
        """κ′(cos θ) by quadrature."""

        def slope(x: Floats) -> Floats:
            values = self.slope(x)
            for core in cores:
                values = np.where((x > core.left) & (x < core.right), 0.0, values)
            return values

        # φ′² p, not φ′√p, has to be negligible outside: half the decay
        name, second = self.phi.derivative.name, self.moments["second"].value
        domain = gaussian.gaussian_domain([slope], name, decay=20.5)
        ends = [end for core in cores for end in (core.left, core.right)]
        kinks = tuple(sorted({*self.phi.kinks, *ends}))
        # what follows a front, and what leads away from a core
        steep = [*fronts]
        steep += [Front(end, (core.right - core.left) / 8) for core in cores for end in (core.left, core.right)]
        try:
            edges = gaussian.panel_edges(
                slope,
                kinks,
                domain,
                name,
                order=16,
                tolerance=max(
                    [1e-11 if steep else 1e-9, 50 * self.precision, *(5e-15 * abs(f.place) / f.width for f in fronts)]
                ),
                floor=50 * self.slope_noise * math.sqrt(second),
                smallest=min([1e-4, *(front.width / 100 for front in steep)]),
                anchor=1.0,
                cuts=cuts(tuple(steep)),
            )
        except InfiniteMomentError:
            raise cusp from None
        flat = self.moments["slope_second"].value == 0.0
        places = tuple((front.place, front.width) for front in steep)
        smooth = PiecewiseFunction(np.zeros_like if flat else slope, edges, kinks, domain, places)
        inside = [(place, size) for place, size in self.jumps if not any(c.left < place < c.right for c in cores)]
        return SlopeSampler(
            smooth,
            [*inside, *((core.place, core.size) for core in cores)],
            as_flux=as_flux,
            scale=second,
            work=work,
            noise=max(noise, 5 * self.slope_noise),
        )

    def _cores(self) -> tuple[_Core, ...]:
        """Fronts so narrow that κ takes them as jumps, and what that costs."""
        narrow = [front for front in self.fronts if front.width < front.narrow]
        reach = [max(front.reach, 1e-7) for front in narrow]
        found: list[_Core] = []
        for front, half in zip(narrow, reach, strict=True):
            left, right = front.place - half, front.place + half
            if found and found[-1].right >= left:
                left = found.pop().left
            found.append(self._core_between(left, right, front.place))
        return tuple(core for core in found if core.size != 0.0)

    def _core_between(self, left: float, right: float, place: float) -> _Core:
        below, above = (float(v) for v in self.value(np.array([left, right])))
        edges = self.edges[(self.edges > left) & (self.edges < right)]
        edges = np.concatenate([[left], edges, [right]])

        def missed(x: Floats) -> Floats:
            return np.asarray(np.abs(self.value(x) - np.where(x < place, below, above)))

        gone = gaussian.gaussian_expectation(missed, edges)
        squared = gaussian.gaussian_expectation(lambda x: missed(x) ** 2, edges)
        height = max(abs(below), abs(above), 3 * math.sqrt(self.moments["second"].value))
        return _Core(left, right, place, above - below, 2 * height * gone.value + squared.value)
