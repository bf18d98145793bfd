"""The dual activation (kernel map before normalisation): κ(ρ) = E φ(X)φ(Y), corr(X, Y) = ρ (001/def-5.3, 004/def-18).

Three representations share one interface. A *power series* Σ c_k² ρ^k for functions whose Hermite series converges
fast; its truncation error is known exactly by Parseval. A *closed form* where one exists. An *angle series* for
everything else: κ′ is smooth in θ = arccos ρ even when φ has kinks or jumps, so it is sampled by quadrature that knows
the kinks and held as a piecewise Legendre series in θ; κ(1) − κ(ρ) is its integral from θ = 0, accurate in relative
terms.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from isometer.activations._angle_table import AngleTable, PiecewiseFunction, SampleCount
from isometer.activations._gaussian import density, distinct
from isometer.numerics._piecewise_legendre import Piecewise, legendre_rule, panel_nodes, resolve

Floats = NDArray[np.float64]
_CHUNK = 1 << 14
# Only integrals are taken of these series: a Gauss rule of m nodes is exact to degree 2m − 1, so coefficients near
# degree m that are this small leave an error far below rounding.
_INTEGRATED = 1e-8


def angle_of(rho: Floats) -> Floats:
    """θ = arccos ρ without loss near ±1."""
    # tan(θ/2) = √((1 − ρ)/(1 + ρ)); arccos loses half the digits near ±1
    return np.asarray(2.0 * np.arctan2(np.sqrt(1.0 - rho), np.sqrt(1.0 + rho)))


def angle_of_gap(gap: Floats) -> Floats:
    """θ from 1 − ρ, to full relative accuracy."""
    return np.asarray(2.0 * np.arctan2(np.sqrt(gap), np.sqrt(2.0 - gap)))


class Dual(ABC):
    """κ of one activation: values, slope, and the deficit κ(1) − κ(1 − δ) without cancellation.

    Example:
        >>> import numpy as np
        >>> from isometer import activation
        >>> dual = activation("sign").dual
        >>> dual.value(np.array([0.5])).round(12), dual.slope_at_one
        (array([0.33333333]), inf)
    """

    second_moment: float  # κ(1)
    at_zero: float  # κ(0)
    slope_at_zero: float  # κ'(0)
    slope_at_one: float  # κ'(1), may be inf
    error: float  # absolute, for values, uniform in ρ
    method: str

    @abstractmethod
    def value(self, rho: Floats) -> Floats:
        """κ(ρ)."""

    @abstractmethod
    def slope(self, rho: Floats) -> Floats:
        """κ'(ρ)."""

    @abstractmethod
    def deficit(self, gap: Floats) -> Floats:
        """κ(1) − κ(1 − gap) to relative accuracy, gap in [0, 2]."""

    def slope_at_gap(self, gap: Floats) -> Floats:
        """κ'(1 − gap); overridden where 1 − gap loses what matters."""
        return self.slope(1.0 - gap)

    def centred(self, rho: Floats) -> Floats:
        """κ(ρ) − κ(0); overridden where that need not cancel."""
        return self.value(rho) - self.at_zero


@dataclass(frozen=True)
class SeriesDual(Dual):
    """κ(ρ) = Σ a_k ρ^k with a_k = c_k² ≥ 0 (001/cor-5.7)."""

    coefficients: Floats
    second_moment: float
    slope_at_one: float
    error: float
    method: str = "Hermite series"

    @property
    def at_zero(self) -> float:  # type: ignore[override]
        return float(self.coefficients[0])

    @property
    def slope_at_zero(self) -> float:  # type: ignore[override]
        return float(self.coefficients[1]) if len(self.coefficients) > 1 else 0.0

    def value(self, rho: Floats) -> Floats:
        return _horner(self.coefficients, rho)

    def centred(self, rho: Floats) -> Floats:
        return rho * _horner(self.coefficients[1:], rho)

    def slope(self, rho: Floats) -> Floats:
        return _horner((self.coefficients * np.arange(len(self.coefficients)))[1:], rho)

    def deficit(self, gap: Floats) -> Floats:
        # κ(1) − κ(ρ) = (1 − ρ) Σ_j b_j ρ^j with b_j = Σ_{k>j} a_k ≥ 0: no cancellation
        tails = np.cumsum(self.coefficients[:0:-1])[::-1]
        return gap * _horner(tails, 1.0 - gap)


def _horner(coefficients: Floats, x: Floats) -> Floats:
    flat = np.ravel(np.asarray(x, dtype=float))
    out = np.empty(flat.shape)
    for start in range(0, flat.size, _CHUNK):  # a block stays in the cache while all coefficients pass over it
        block = flat[start : start + _CHUNK]
        total = np.zeros_like(block)
        for coefficient in coefficients[::-1]:
            total *= block
            total += coefficient
        out[start : start + _CHUNK] = total
    return out.reshape(np.shape(x))


@dataclass(frozen=True)
class ClosedDual(Dual):
    """κ by formula; functions of the angle, so that both ends stay accurate."""

    second_moment: float
    at_zero: float
    slope_at_zero: float
    slope_at_one: float
    value_of: Callable[[Floats], Floats]
    slope_of: Callable[[Floats], Floats]
    deficit_of: Callable[[Floats], Floats]
    slope_of_gap: Callable[[Floats], Floats] | None = None  # where κ' bends at ρ = 1
    error: float = -1.0  # by default, a few roundings of the second moment
    method: str = "closed form"

    def __post_init__(self) -> None:
        if self.error < 0.0:
            object.__setattr__(self, "error", 1e-15 * self.second_moment)

    def value(self, rho: Floats) -> Floats:
        return self.value_of(np.asarray(rho, dtype=float))

    def slope(self, rho: Floats) -> Floats:
        with np.errstate(divide="ignore"):  # κ′(±1) is infinite where φ jumps
            return self.slope_of(np.asarray(rho, dtype=float))

    def slope_at_gap(self, gap: Floats) -> Floats:
        gap = np.asarray(gap, dtype=float)
        if self.slope_of_gap is None:
            return self.slope(1.0 - gap)
        with np.errstate(divide="ignore"):
            return self.slope_of_gap(gap)

    def deficit(self, gap: Floats) -> Floats:
        return self.deficit_of(np.asarray(gap, dtype=float))


@dataclass(frozen=True)
class AngleDual(Dual):
    """κ′ as a piecewise series in θ, and (κ(1) − κ)/θ^p integrated from it (p = 1 where φ jumps, else 2)."""

    second_moment: float
    at_zero: float
    slope_at_zero: float
    slope_at_one: float
    slope_series: Piecewise  # κ'(cos θ) if p = 2, κ'(cos θ) sin θ if p = 1
    deficit_series: Piecewise  # (κ(1) − κ(cos θ)) / θ^p
    power: int
    error: float
    method: str = "angle series"

    def value(self, rho: Floats) -> Floats:
        theta = angle_of(np.asarray(rho, dtype=float))
        return self.second_moment - self.deficit_series(theta) * theta**self.power

    def slope(self, rho: Floats) -> Floats:
        return self._slope_of_angle(angle_of(np.asarray(rho, dtype=float)))

    def slope_at_gap(self, gap: Floats) -> Floats:
        return self._slope_of_angle(angle_of_gap(np.asarray(gap, dtype=float)))

    def _slope_of_angle(self, theta: Floats) -> Floats:
        if self.power == 2:
            return self.slope_series(theta)
        flux = self.slope_series(theta)
        # at θ = π the flux of a function without mirror-image jumps vanishes and leaves only rounding
        flux = np.where((np.abs(flux) < 1e-13 * self.second_moment) & (theta > 3.0), 0.0, flux)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = flux / np.sin(theta)
        return np.where(
            theta == 0.0, self.slope_at_one, np.where(flux == 0.0, 0.0, np.where(theta >= np.pi, np.inf, ratio))
        )

    def deficit(self, gap: Floats) -> Floats:
        theta = angle_of_gap(np.asarray(gap, dtype=float))
        return self.deficit_series(theta) * theta**self.power


@dataclass(frozen=True)
class AffineDual(Dual):
    """κ of scale·φ + shift, from κ of φ: scale²(κ − κ(0)) + mean², mean that of the image."""

    base: Dual
    gain: float  # scale²
    at_zero: float  # mean²

    @property
    def second_moment(self) -> float:  # type: ignore[override]
        return self.gain * (self.base.second_moment - self.base.at_zero) + self.at_zero

    @property
    def slope_at_zero(self) -> float:  # type: ignore[override]
        return self.gain * self.base.slope_at_zero

    @property
    def slope_at_one(self) -> float:  # type: ignore[override]
        return self.gain * self.base.slope_at_one

    @property
    def error(self) -> float:  # type: ignore[override]
        return self.gain * self.base.error + 4e-16 * self.second_moment

    @property
    def method(self) -> str:  # type: ignore[override]
        return self.base.method

    def value(self, rho: Floats) -> Floats:
        return self.gain * self.base.centred(rho) + self.at_zero

    def slope(self, rho: Floats) -> Floats:
        return self.gain * self.base.slope(rho)

    def slope_at_gap(self, gap: Floats) -> Floats:
        return self.gain * self.base.slope_at_gap(gap)

    def deficit(self, gap: Floats) -> Floats:
        return self.gain * self.base.deficit(gap)


# --- sampling κ' ------------------------------------------------------------------------------------------------------


def pair_expectation(f: PiecewiseFunction, g: PiecewiseFunction, theta: float) -> float:
    """E f(X) g(Y) for corr(X, Y) = cos θ ≥ 0.

    With X = y + w, Y = y − w, y ~ N(0, cos²(θ/2)) and w ~ N(0, sin²(θ/2)) are independent. For fixed w the kinks in y
    are known, and the integral over y is smooth in w except where two kinks meet, w = (kink of f − kink of g)/2. Both
    stay true as θ → 0, so the accuracy does not depend on θ.
    """
    c, s = math.cos(theta / 2), math.sin(theta / 2)
    same = f is g
    low = max(f.domain[0], g.domain[0])
    high = min(f.domain[1], g.domain[1])

    def inner(w: Floats) -> Floats:  # (v,) → ∫ f(y + w) g(y − w) p(y) dy
        bottom = np.maximum(np.maximum(f.edges[0] - w, g.edges[0] + w), c * low)
        top = np.maximum(np.minimum(np.minimum(f.edges[-1] - w, g.edges[-1] + w), c * high), bottom)
        borders = np.concatenate([f.edges[None, :] - w[:, None], g.edges[None, :] + w[:, None]], axis=1)
        borders = np.sort(np.clip(borders, bottom[:, None], top[:, None]), axis=1)
        used = (borders[:, 1:] - borders[:, :-1]).max(axis=0) > 0  # clipping leaves panels that are empty for every w
        y, weight = panel_nodes(borders[:, :-1][:, used], borders[:, 1:][:, used], 24)  # (v, panel, node)
        shift = w[:, None, None]
        values = f.function((y + shift).ravel()) * g.function((y - shift).ravel())
        kernel = np.exp(-0.5 * (y / c) ** 2) * weight
        return np.asarray(np.sum(values.reshape(y.shape) * kernel, axis=(1, 2)) / (c * math.sqrt(2 * math.pi)))

    if s == 0.0:
        return float(inner(np.zeros(1))[0])
    reach = max(abs(low), abs(high))
    # 2w = X − Y is a difference of two places where f and g are not zero
    first = max(-reach, (f.edges[0] - g.edges[-1]) / (2 * s))
    last = min(reach, (f.edges[-1] - g.edges[0]) / (2 * s))
    start = 0.0 if same else first  # f = g makes the integrand even in w
    if not start < last:
        return 0.0
    meeting = [(a - b) / (2 * s) for a in f.kinks for b in g.kinks]
    breaks = [start, *(m for m in distinct(meeting, 1e-9) if start + 1e-9 < m < last - 1e-9), last]
    filled = [breaks[0]]
    for right in breaks[1:]:
        pieces = max(1, math.ceil((right - filled[-1]) / 3.0))
        filled += list(np.linspace(filled[-1], right, pieces + 1)[1:])
    outer = resolve(
        lambda v: inner(s * v) * density(v),
        np.array(filled),
        order=20,
        tolerance=_INTEGRATED,
        smallest=1e-6,
        budget=120,
    )
    return outer.series.integral() * (2.0 if same else 1.0)


def conditional_expectation(f: PiecewiseFunction, point: float, theta: float) -> float:
    """E f(Y) given X = point, corr = cos θ: E f(point·cos θ + sin θ Z)."""
    rho, sine = math.cos(theta), math.sin(theta)
    if sine < 1e-14:  # Y is known; at a jump of f its two sides count half each
        values = f.function(np.array([rho * point - 1e-13, rho * point + 1e-13]))
        return float(values.mean())
    borders = np.clip((f.edges - rho * point) / sine, -9.5, 9.5)  # the density at 9.5 is 1e-20
    borders = np.unique(np.concatenate([borders, np.linspace(-9.5, 9.5, 11)]))
    z, weight = panel_nodes(borders[:-1], borders[1:], 24)
    values = f.function((rho * point + sine * z).ravel()).reshape(z.shape)
    return float(np.sum(values * density(z) * weight))


class SlopeSampler:
    """κ'(cos θ) by quadrature; with `as_flux`, times sin θ, which stays bounded where φ jumps.

    Args:
        f: φ′ almost everywhere.
        jumps: places and sizes of those of φ.
        as_flux: whether to multiply by sin θ.
        scale: the size of κ.
        work: how often φ′ may be evaluated before `TooManySamples` ends it.
        noise: relative error of φ′.
    """

    def __init__(
        self,
        f: PiecewiseFunction,
        jumps: Sequence[tuple[float, float]] = (),
        *,
        as_flux: bool = False,
        scale: float = 1.0,
        work: float = math.inf,
        noise: float = 0.0,
    ) -> None:
        self.f, self.jumps, self.as_flux, self.scale, self.noise = f.pruned(), jumps, as_flux, scale, noise
        self.work = SampleCount(work)
        # otherwise φ is piecewise constant
        self.slanted = bool(self.f.function(self.f.edges[:-1] + 0.37 * np.diff(self.f.edges)).any())

    @cached_property
    def _acute(self) -> AngleTable:
        return AngleTable(self.f, 1, self.scale, self.work, self.noise)

    @cached_property
    def _obtuse(self) -> AngleTable:
        """−Y has the correlation −cos θ ≥ 0 with X."""
        return AngleTable(self.f, -1, self.scale, self.work, self.noise)

    def __call__(self, theta: Floats) -> Floats:
        """The samples."""
        values = self._on_tables(theta, AngleTable.__call__)
        if not self.as_flux:
            return values
        values = np.sin(theta) * values
        return values + np.array([self._masses(float(one)) for one in theta]) if self.jumps else values

    def size(self, theta: Floats) -> Floats:
        """What the rounding of a sample is relative to."""
        values = self._on_tables(theta, AngleTable.size)
        return np.sin(theta) * values if self.as_flux else values

    @property
    def truncation(self) -> float:
        """What the tables made so far miss of κ."""
        made = [self.__dict__[name] for name in ("_acute", "_obtuse") if name in self.__dict__]
        return sum((table.truncation for table in made), 0.0)

    def _on_tables(self, theta: Floats, function: Callable[[AngleTable, Floats], Floats]) -> Floats:
        out = np.zeros_like(theta)
        acute = theta <= math.pi / 2
        if self.slanted and acute.any():
            out[acute] = function(self._acute, theta[acute])
        if self.slanted and not acute.all():
            out[~acute] = function(self._obtuse, math.pi - theta[~acute])
        return out

    def _masses(self, theta: float) -> float:
        """What jumps add to the flux.

        A jump of φ is a point mass of φ′. In E φ′(X)φ′(Y) each meets the smooth part twice (X or Y at the jump) and
        each other mass once, with the density of (X, Y) there: exp(exponent)/(2π sin θ). The factor sin θ keeps all
        bounded.
        """
        rho, sine = math.cos(theta), math.sin(theta)
        total = 0.0
        for place, size in self.jumps:
            weight = float(density(np.array(place)))
            if self.slanted:
                total += 2 * size * weight * sine * conditional_expectation(self.f, place, theta)
            for other, other_size in self.jumps:
                # the quadratic form of the last case at equal and at opposite places, where sin θ → 0 is a 0/0
                if other == place:
                    exponent = -(place * place) / (1 + rho) if rho > -1 else (0.0 if place == 0 else -math.inf)
                elif other == -place:
                    exponent = -(place * place) / (1 - rho) if rho < 1 else -math.inf
                elif sine < 1e-10:
                    exponent = -math.inf
                else:
                    exponent = -(place**2 - 2 * rho * place * other + other**2) / (2 * sine * sine)
                total += size * other_size * math.exp(exponent) / (2 * math.pi)
        return total


def _mirror(half: Piecewise, sign: int) -> Piecewise:
    """Extend a series on [0, π/2] to [0, π] by f(π − θ) = sign·f(θ)."""
    # P_k(−x) = (−1)^k P_k(x) turns each panel around
    flip = sign * (-1.0) ** np.arange(half.coefficients.shape[1])
    edges = np.concatenate([half.edges, np.pi - half.edges[-2::-1]])
    return Piecewise(edges, np.concatenate([half.coefficients, half.coefficients[::-1] * flip]))


def build_angle_dual(
    sampler: Callable[[Floats], Floats],
    *,
    second_moment: float,
    mean: float,
    slope_at_zero: float,
    slope_at_one: float,
    mirrored_moment: float,
    jumping: bool,
    parity: int,
    tolerance: float,
    smallest: float = 1e-5,
) -> AngleDual:
    """Resolve κ′ in θ, integrate the deficit, and check both against one-dimensional integrals.

    The error estimate is the worst disagreement with what is known independently: κ(0) = c₀², κ'(0) = c₁²,
    κ(−1) = E φ(X)φ(−X), κ'(1) = E φ'².
    """
    order = 32
    power = 1 if jumping else 2
    # κ'(−ρ) = ∓κ'(ρ) for even and odd φ: half the interval is enough
    ends = [0.0, np.pi / 2] if parity else [0.0, np.pi / 2, np.pi]

    def matters(left: Floats, right: Floats) -> Floats:
        """What κ′ may be off by, over the tolerance, for κ to be right."""
        widest = np.where((left < np.pi / 2) & (right > np.pi / 2), 1.0, np.maximum(np.sin(left), np.sin(right)))
        return second_moment / (np.ones_like(widest) if jumping else widest)

    def attainable(left: Floats, right: Floats) -> Floats:
        """The same, and no less than a twentieth of what rounding is relative to."""
        size = 0.05 * sampler.size((left + right) / 2) if isinstance(sampler, SlopeSampler) else 0.0
        return np.maximum(matters(left, right), size)

    found = resolve(
        sampler, np.array(ends), order=order, tolerance=tolerance, smallest=smallest, budget=400, local=attainable
    )
    series = _mirror(found.series, -parity) if parity else found.series
    nodes, _, analysis = legendre_rule(order)
    rule_nodes, rule_weights, _ = legendre_rule(40)
    edges = series.edges
    total, rows = 0.0, []
    # κ(1) − κ(cos θ) = ∫₀^θ κ′(cos t) sin t dt at the nodes of every panel. It vanishes like θ^power: divided by that
    # it is smooth and of order one at θ = 0, so that its series is accurate there in relative terms.
    for left, right in pairwise(edges):
        upper = np.append((left + right) / 2 + (right - left) / 2 * nodes, right)
        t = left + (upper[:, None] - left) * (rule_nodes + 1) / 2
        integrand = series(t) * (1.0 if jumping else np.sin(t))
        partial = total + (integrand @ rule_weights) * (upper - left) / 2
        rows.append(analysis @ (partial[:-1] / upper[:-1] ** power))
        total = float(partial[-1])
    deficit = Piecewise(edges, np.stack(rows))
    half_pi, pi = np.array([np.pi / 2]), np.array([np.pi])
    checks = [
        abs(second_moment - float(deficit(half_pi)[0]) * (np.pi / 2) ** power - mean * mean),
        abs(second_moment - float(deficit(pi)[0]) * np.pi**power - mirrored_moment),
        abs(float(series(half_pi)[0]) - slope_at_zero),
    ]
    if not jumping:  # κ' times the gap is what κ has of it
        steepness = max(1.0, slope_at_one / second_moment) if second_moment > 0 else 1.0
        checks.append(abs(float(series(np.zeros(1))[0]) - slope_at_one) / steepness)
    missed = np.abs(series.coefficients[:, -4:]).max(axis=1) * np.diff(edges) / matters(edges[:-1], edges[1:])
    truncation = second_moment * float(missed.sum())
    if isinstance(sampler, SlopeSampler):
        truncation += sampler.truncation
    return AngleDual(
        second_moment=second_moment,
        at_zero=mean * mean,
        slope_at_zero=slope_at_zero,
        slope_at_one=slope_at_one,
        slope_series=series,
        deficit_series=deficit,
        power=power,
        error=max(checks) + truncation,
    )
