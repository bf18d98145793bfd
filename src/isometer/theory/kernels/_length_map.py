"""The length map: how the variance of a signal changes from layer to layer, and an activation at every variance.

A layer sends a signal of variance q to σ_w² E φ(√q X)² + σ_b². `SignalFamily` holds what a Gaussian of any variance
sees of φ (second moment, slope, dual, Hermite coefficients); `LengthMap` iterates it and finds its fixed points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.activations import Activation, Dual, activation
from isometer.activations._closed_forms import as_two_rays, two_rays_dual
from isometer.activations._dual import AffineDual, ClosedDual, SeriesDual
from isometer.activations._expression import split_affine_output
from isometer.checks import real_number
from isometer.errors import ActivationError, InfiniteMomentError, IsometerError, OverflowingMomentError
from isometer.numerics._piecewise_legendre import Piecewise, panel_nodes, resolve
from isometer.theory.kernels._shaping import length_slope

Floats = NDArray[np.float64]
OVERFLOW = 1e150  # a variance beyond this has diverged: its square is no longer a number
UNIT = 1e-12  # a variance this close to one (or to the one before) is the same: rounding must not start a drift
_WEAKEST = 1e-70  # strength of a skip connection's branch: its square is far from the smallest float64
_ORDERS = (64, 256, 768)  # Hermite degrees of the fast series, tried in turn
_WIDEST = 25.0  # and the largest variance it is tried for
_REACH = 10.0  # deviations of X that the rule covers: the density falls to e^−50 there
_SCAN = np.geomspace(1e-8, 1e4, 121)  # where fixed points are looked for


@cache
def _hermite_rows(order: int) -> tuple[Floats, Floats]:
    """Nodes x and the matrix that takes φ(√q x) to Hermite coefficients 0 … order."""
    edges = np.linspace(-_REACH, _REACH, 41 if order > _ORDERS[0] else 21)
    x, w = (v.ravel() for v in panel_nodes(edges[:-1], edges[1:], 24 if order > _ORDERS[0] else 16))
    rows = np.empty((order + 1, x.size))
    # he_k √p instead of he_k: the recurrence stays bounded at high degrees
    before, here = np.zeros_like(x), np.exp(-0.25 * x * x) / (2 * math.pi) ** 0.25
    weight = here * w
    for k in range(order + 1):
        rows[k] = here * weight
        before, here = here, (x * here - math.sqrt(k) * before) / math.sqrt(k + 1.0)
    return x, rows


def gaussian_rule() -> tuple[Floats, Floats]:
    """Nodes and weights of E f(X) for smooth f of moderate growth.

    Example:
        >>> from isometer.theory.kernels._length_map import gaussian_rule
        >>> x, w = gaussian_rule()
        >>> round(float(x**4 @ w), 12)
        3.0
    """
    x, rows = _hermite_rows(_ORDERS[1])
    return x, rows[0]  # he_0 = 1 leaves density times weight


@dataclass(frozen=True)
class GaussianView:
    """What a Gaussian of one variance sees of φ: E φ², E φ′² (inf across a jump) and the dual of x ↦ φ(√q x)."""

    variance: float
    second_moment: float
    slope_second: float
    dual: Dual
    odd: bool


@dataclass(frozen=True)
class RaysDual(ClosedDual):
    """The dual of two rays with its slope a² + b²(1 − 2θ/π) from the angle: through ρ, θ would lose half its digits."""

    odd_part: float = 0.0  # a²
    even_part: float = 0.0  # b²

    def slope_of_angle(self, theta: Floats) -> Floats:
        return self.odd_part + self.even_part * (1.0 - (2.0 / math.pi) * theta)


@dataclass(frozen=True)
class SlopeSeriesDual(ClosedDual):
    """A closed form whose slope is a series in θ."""

    slope_series: Piecewise | None = None

    def slope_of_angle(self, theta: Floats) -> Floats:
        assert self.slope_series is not None
        return self.slope_series(theta)


def rays_dual(right: float, left: float) -> RaysDual:
    """φ(x) = right·x for x > 0 and left·x for x < 0."""
    closed = two_rays_dual(right, left)
    return RaysDual(**closed.__dict__, odd_part=((right + left) / 2) ** 2, even_part=((right - left) / 2) ** 2)


def accurate_dual(phi: Activation) -> Dual:
    """φ's dual with a slope that can be had from the angle, where κ′ is smooth in θ but not in ρ."""
    dual = phi.dual
    base = dual.base if isinstance(dual, AffineDual) else dual
    # no need without kinks (κ′ is smooth in ρ) or for a series; no way across jumps (κ′ is infinite at θ = 0)
    if not isinstance(base, ClosedDual) or not phi.kinks or math.isinf(base.slope_at_one):
        return dual
    _, _, core = split_affine_output(phi.expression)
    rays = as_two_rays(core)
    if rays is not None:
        better: ClosedDual = rays_dual(*rays)
    else:
        series = resolve(lambda theta: base.slope(np.cos(theta)), np.linspace(0.0, np.pi, 3), tolerance=1e-13)
        better = SlopeSeriesDual(**base.__dict__, slope_series=series.series)
    return AffineDual(better, dual.gain, dual.at_zero) if isinstance(dual, AffineDual) else better


class SignalFamily:
    """φ(√q X) for every variance q, with a fast path for smooth φ and an exact one for homogeneous φ.

    Implements 004/def-sigma-l, 004/def-sigma-c, 004/def-mu-gamma, 004/def-bias.

    Example:
        >>> from isometer.theory.kernels import SignalFamily
        >>> SignalFamily("relu").second_moment(4.0)
        2.0
    """

    def __init__(self, source: str | Activation | Any) -> None:
        self.activation = activation(source)

    @cached_property
    def homogeneous(self) -> bool:
        """φ(tx) = tφ(x) for t > 0: norms factor out of every layer.

        Example:
            >>> from isometer.theory.kernels import SignalFamily
            >>> SignalFamily("leaky_relu").homogeneous, SignalFamily("gelu").homogeneous
            (True, False)
        """
        return as_two_rays(self.activation.expression) is not None

    @cached_property
    def affine_rays(self) -> tuple[float, float, RaysDual] | None:
        """(scale, shift, dual of ψ) where φ = scale·ψ + shift and ψ(tx) = tψ(x) for t > 0, as in normalized(relu).

        Example:
            >>> from isometer.theory.kernels import SignalFamily
            >>> SignalFamily("2*relu(x) - 1").affine_rays[:2]
            (2.0, -1.0)
        """
        scale, shift, core = split_affine_output(self.activation.expression)
        rays = as_two_rays(core)
        return None if rays is None or rays[0] == rays[1] else (scale, shift, rays_dual(*rays))

    @cached_property
    def rays_mean(self) -> float:
        """E ψ(X) of `affine_rays`."""
        assert self.affine_rays is not None
        right, left = as_two_rays(split_affine_output(self.activation.expression)[2]) or (0.0, 0.0)
        return (right - left) / math.sqrt(2.0 * math.pi)

    @cached_property
    def sign_like(self) -> bool:
        """φ(tx) = φ(x) for t > 0: lengths do not matter.

        Example:
            >>> from isometer.theory.kernels import SignalFamily
            >>> SignalFamily("step").sign_like, SignalFamily("hardtanh").sign_like
            (True, False)
        """
        phi = self.activation
        sides = np.outer([-1.0, 1.0], [1e-9, 0.3, 1.0, 7.0, 50.0])
        return phi.kinks == (0.0,) and bool((phi(sides) == phi(sides[:, :1])).all())

    @cached_property
    def _unit_dual(self) -> Dual:
        return accurate_dual(self.activation)

    def at(self, variance: float) -> GaussianView:
        """Everything at one variance q > 0.

        Example:
            >>> from isometer.theory.kernels import SignalFamily
            >>> view = SignalFamily("tanh").at(0.25)
            >>> round(view.second_moment, 12), view.odd
            (0.173516143432, True)
        """
        phi = self.activation
        if variance == 1.0:
            return GaussianView(1.0, phi.second_moment, phi.kernel_slope_at_one, self._unit_dual, phi.is_odd)
        if self.homogeneous:
            slope = phi.kernel_slope_at_one
            return GaussianView(variance, variance * phi.second_moment, slope, self._unit_dual, phi.is_odd)
        fast = self._fast(variance)
        if fast is not None:
            return fast
        scaled = phi.gain(math.sqrt(variance))
        # the slope of x ↦ φ(√q x) carries a factor √q: E (d/dx φ(√q x))² = q E φ′(√q X)²
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows has diverged, and is judged below
            second, slope = scaled.second_moment, scaled.kernel_slope_at_one / variance
        if not second <= OVERFLOW:
            raise InfiniteMomentError(f"E φ(√q X)² of {phi.name} overflows at q = {variance:.6g}")
        return GaussianView(variance, second, slope, accurate_dual(scaled), phi.is_odd)

    def second_moment(self, variance: float) -> float:
        """σ̂_l(q) = E φ(√q X)² (004/def-sigma-l).

        Example:
            >>> from isometer.theory.kernels import SignalFamily
            >>> round(SignalFamily("normrelu").second_moment(0.5), 3)  # 004/fact-1
            0.54
        """
        return self._pair(variance)[0]

    def slope_second(self, variance: float) -> float:
        """E φ′(√q X)²; `inf` where φ jumps.

        Example:
            >>> from isometer.theory.kernels import SignalFamily
            >>> SignalFamily("relu").slope_second(9.0)
            0.5
        """
        return self._pair(variance)[1]

    def _pair(self, variance: float) -> tuple[float, float]:
        phi = self.activation
        if self.homogeneous:
            return variance * phi.second_moment, phi.kernel_slope_at_one
        if variance == 0.0:
            here = phi(0.0)
            # as q → 0 half of the Gaussian sees the slope on each side of 0
            near = phi.derivative(np.array([-1e-12, 1e-12]))
            return here * here, math.inf if any(at == 0.0 for at, _ in phi.jumps) else float(np.mean(near**2))
        fast = self._fast(variance)
        if fast is not None:
            return fast.second_moment, fast.slope_second
        scaled = phi.gain(math.sqrt(variance))
        try:
            second, slope = scaled.second_moment, scaled.kernel_slope_at_one / variance
        except OverflowingMomentError:
            return math.inf, math.inf
        return (second, slope) if second <= OVERFLOW else (math.inf, math.inf)

    def slope(self, variance: float) -> float:
        """d/dq E φ(√q X)² = E φ(√q X)φ′(√q X)X/√q; at q = 1 it is E φφ′X.

        Example:
            >>> from isometer.theory.kernels import SignalFamily
            >>> round(SignalFamily("normrelu").slope(1.0), 4)  # 004/fact-1
            0.8428
        """
        if variance == 1.0 or self.homogeneous:
            return length_slope(self.activation)
        return length_slope(self.activation.gain(math.sqrt(variance))) / variance

    # --- generalised Hermite coefficients -----------------------------------------------------------------------------

    def hermite(self, variance: float, order: int = 10) -> Floats:
        """a_j^{γ} = E φ(z) h_j^{γ}(z), z ~ N(0, γ): the Hermite coefficients of x ↦ φ(√γ x) (004/def-sigma-c).

        Example:
            >>> from isometer.theory.kernels import SignalFamily
            >>> SignalFamily("cube").hermite(4.0, 3).round(9) + 0.0  # 8(3 he₁ + √6 he₃)
            array([ 0.        , 24.        ,  0.        , 19.59591794])
        """
        return self.activation.gain(math.sqrt(variance)).hermite(order)

    def bias(self, variance: float) -> float:
        """bias(γ) = (a_0^{γ})²/Σ_j (a_j^{γ})² (004/def-bias).

        Example:
            >>> from isometer.theory.kernels import SignalFamily
            >>> f"{SignalFamily('normrelu').bias(2.0):.4f}"  # 004/fact-1
            '0.0029'
        """
        scaled = self.activation.gain(math.sqrt(variance))
        return scaled.mean**2 / scaled.second_moment

    def nonlinearity(self, variance: float) -> float:
        """μ^{γ} = 1 − (a_1^{γ})²/Σ_j (a_j^{γ})², the sum from j = 0 (004/def-mu-gamma).

        Example:
            >>> from isometer.theory.kernels import SignalFamily
            >>> family = SignalFamily("tanh")
            >>> family.nonlinearity(0.1) < family.nonlinearity(1.0)
            True
        """
        scaled = self.activation.gain(math.sqrt(variance))
        return 1.0 - scaled.first_squared / scaled.second_moment

    # --- the fast path ------------------------------------------------------------------------------------------------

    def coefficients(self, variance: Floats) -> Floats | None:
        """Hermite coefficients of φ(√q ·) for many variances, (variance, degree); None if φ is not smooth enough.

        Example:
            >>> import numpy as np
            >>> from isometer.theory.kernels import SignalFamily
            >>> SignalFamily("sin").coefficients(np.array([1.0, 2.0])).shape[0]
            2
        """
        if self.activation.kinks or not np.all(variance <= _WIDEST):
            return None
        for order in _ORDERS:
            found = self._series(variance, order)
            if found is not None:
                return found
        return None

    def _series(self, variance: Floats, order: int) -> Floats | None:
        phi = self.activation
        x, rows = _hermite_rows(order)
        with np.errstate(all="ignore"):
            values = np.asarray(phi(np.sqrt(variance)[:, None] * x), dtype=float)
        if not np.isfinite(values).all():
            return None
        out: Floats = values @ rows.T  # (variance, degree)
        if phi.is_odd:
            # exact zeros: rounding in even degrees would break κ(−ρ) = −κ(ρ)
            out[:, ::2] = 0.0
        k = np.arange(order + 1)
        second = values**2 @ rows[0]
        # of φ′ the widest Gaussian sees most, and its series is the longest
        widest = int(np.argmax(variance))
        slope = (
            np.asarray(phi.derivative(math.sqrt(variance[widest]) * x), dtype=float) ** 2 @ rows[0] * variance[widest]
        )
        # what is left at the ends of the line must not matter either: exp and its like need more room
        edge = np.abs(values[:, [0, -1]]).max(axis=1) ** 2 * math.exp(-(_REACH**2) / 2)
        # Parseval for φ and for φ′ measures what the truncated series misses
        enough = np.abs(second - (out**2).sum(axis=1)) <= 2e-14 * second
        enough[widest] &= abs(slope - float((k * out[widest] ** 2).sum())) <= 2e-13 * slope
        enough &= edge <= 1e-17 * second
        return out if enough.all() else None

    def _fast(self, variance: float) -> GaussianView | None:
        if not 0.0 < variance <= _WIDEST or self.activation.kinks:
            return None
        found = self.coefficients(np.array([variance]))
        if found is None:
            return None
        squares = found[0] ** 2
        k = np.arange(len(squares))
        # weighted by 1 + k: what is cut matters neither to κ nor to κ′
        tail = np.flatnonzero(np.cumsum((squares * (1 + k))[::-1]) > 1e-18 * squares.sum())
        squares = squares[: max(2, len(squares) - int(tail[0]))]
        second, slope = math.fsum(squares), math.fsum(squares * np.arange(len(squares)))
        dual = SeriesDual(squares, second, slope, 4e-14 * second)
        return GaussianView(variance, second, slope / variance, dual, self.activation.is_odd)

    def small_signal_limit(self, variance: float) -> GaussianView | None:
        """The homogeneous function that φ is for such small signals, to rounding; None if it is not one.

        Example:
            >>> from isometer.theory.kernels import SignalFamily
            >>> SignalFamily("tanh").small_signal_limit(1e-40).second_moment
            1e-40
        """
        phi, root = self.activation, math.sqrt(variance)
        if root > 1e-16 or phi(0.0) != 0.0 or phi.jumps:
            return None
        left, right = (float(v) for v in phi.derivative(np.array([-1e-100, 1e-100])))
        probe = np.array([-6.0, -1.0, 1.0, 6.0]) * root
        rays = np.where(probe > 0, right, left) * probe
        if (left == right == 0.0) or np.max(np.abs(phi(probe) - rays)) > 1e-14 * np.max(np.abs(rays)):
            return None
        dual = rays_dual(right, left)
        return GaussianView(variance, variance * dual.second_moment, dual.slope_at_one, dual, left == right)


@dataclass(frozen=True)
class LengthFixedPoint:
    """A fixed point q* of the length map, with the slope there: stable below one.

    Example:
        >>> from isometer.theory.kernels import LengthMap
        >>> [round(p.variance, 6) for p in LengthMap("tanh", weight_variance=4.0).fixed_points if p.stable]
        [2.121474]
    """

    variance: float
    slope: float

    @property
    def stable(self) -> bool:
        """Whether nearby variances are drawn in."""
        return self.slope < 1.0


class LengthMap:
    """q ↦ σ_w² E φ(√q X)² + σ_b², the variance of pre-activations from layer to layer.

    With a residual strength γ it is q ↦ q + γ²(σ_w² E φ(√q X)² + σ_b²), for layers h + γ(Wφ(h) + b).

    Example:
        >>> from isometer.theory.kernels import LengthMap
        >>> LengthMap("relu", weight_variance=2.0)(3.0)
        3.0
        >>> LengthMap("relu", weight_variance=2.0, residual=0.5)(4.0)
        5.0
    """

    def __init__(
        self,
        source: str | Activation | Any,
        *,
        weight_variance: float = 1.0,
        bias_variance: float = 0.0,
        residual: float | None = None,
    ) -> None:
        self.family = source if isinstance(source, SignalFamily) else SignalFamily(source)
        self.weight_variance = checked_variance(weight_variance, "the weight variance")
        self.bias_variance = checked_variance(bias_variance, "the bias variance")
        self.residual = checked_residual(residual)

    def __call__(self, variance: float) -> float:
        """One layer; `inf` where E φ² is infinite or overflows."""
        try:
            moment = self.family.second_moment(variance)
        except (InfiniteMomentError, OverflowError):
            return math.inf
        branch = self.weight_variance * moment + self.bias_variance
        return branch if self.residual is None else variance + self.residual**2 * branch

    def slope(self, variance: float) -> float:
        """Derivative of the map.

        Example:
            >>> from isometer.theory.kernels import LengthMap
            >>> LengthMap("relu", weight_variance=2.0).slope(1.0)
            1.0
        """
        slope = self.weight_variance * self.family.slope(variance)
        return slope if self.residual is None else 1.0 + self.residual**2 * slope

    def iterate(self, variance: float, depth: int) -> Floats:
        """q_0 … q_depth; the layer at which it diverges is named.

        Example:
            >>> from isometer.theory.kernels import LengthMap
            >>> LengthMap("exp").iterate(1.0, 10)
            Traceback (most recent call last):
            ...
            isometer.errors.IsometerError: the length map of exp diverges: the variance exceeds 1e+150 at layer 3 ...
        """
        out = np.empty(depth + 1)
        out[0] = variance
        for layer in range(1, depth + 1):
            out[layer] = self(float(out[layer - 1]))
            # negated, so that NaN counts as diverged too
            if not out[layer] <= OVERFLOW:
                raise diverging(self.family.activation.name, layer)
            # with a skip the variance keeps growing, and small steps add up
            if self.residual is None and abs(out[layer] - out[layer - 1]) <= UNIT * out[layer - 1]:
                out[layer:] = out[layer - 1]
                break
        return out

    @cached_property
    def fixed_points(self) -> tuple[LengthFixedPoint, ...]:
        """All q* in [0, 10⁴] that a scan sees, ascending. A line of fixed points (critical homogeneous φ) gives none.

        With a skip connection the variance grows by what the branch adds: only a branch that is zero at 0 leaves one.

        Example:
            >>> from isometer.theory.kernels import LengthMap
            >>> [p.variance for p in LengthMap("tanh", weight_variance=0.5).fixed_points]
            [0.0]
        """
        from scipy.optimize import brentq  # slow to load, seldom needed

        sigma, shift, found = self.weight_variance, self.bias_variance, []
        if self.residual is not None:
            silent = shift == 0.0 and self.family.activation(0.0) == 0.0
            start = 1.0 + self.residual**2 * sigma * self.family.slope_second(0.0)
            return (LengthFixedPoint(0.0, start),) if silent else ()
        if self.family.homogeneous:
            rate = sigma * self.family.activation.second_moment
            if abs(rate - 1.0) <= UNIT:
                return ()
            fixed = shift / (1.0 - rate)
            # + 0.0 turns −0.0 into 0.0
            return (LengthFixedPoint(fixed + 0.0, rate),) if fixed >= 0.0 else ()
        if shift == 0.0 and self.family.activation(0.0) == 0.0:
            start = sigma * self.family.slope_second(0.0)
            if math.isfinite(start):
                found.append(LengthFixedPoint(0.0, start))
        grid, moments = scan(self.family)
        excess = sigma * moments + shift - grid
        excess[np.abs(excess) <= UNIT * grid] = 0.0
        # a root on a grid point shows no change of sign
        for i in np.flatnonzero(excess == 0.0):
            if 0 < i < len(grid) - 1:
                found.append(LengthFixedPoint(float(grid[i]), self.slope(float(grid[i]))))
        for i in np.flatnonzero(excess[:-1] * excess[1:] < 0):
            # relative excess over log q: as precise at q = 1e-8 as at 1e4
            log_q = brentq(lambda t: self(math.exp(t)) / math.exp(t) - 1.0, *np.log(grid[i : i + 2]), xtol=1e-14)
            fixed = math.exp(log_q)
            fixed = 1.0 if abs(fixed - 1.0) <= UNIT else fixed
            found.append(LengthFixedPoint(fixed, self.slope(fixed)))
        return tuple(sorted(found, key=lambda point: point.variance))


def scan(family: SignalFamily) -> tuple[Floats, Floats]:
    """E φ(√q X)² on the grid of variances where it is finite, kept with the family."""
    cached: tuple[Floats, Floats] | None = family.__dict__.get("_scan")
    if cached is None:
        values = []
        for variance in _SCAN:
            try:
                value = family.second_moment(float(variance))
            except (ActivationError, OverflowError):
                break
            if not value <= OVERFLOW:
                break
            values.append(value)
        cached = _SCAN[: len(values)], np.array(values)
        family.__dict__["_scan"] = cached
    return cached


def checked_variance(value: float, what: str) -> float:
    """A finite number ≥ 0 whose square is a number too."""
    return real_number(value, what, low=0.0, high=OVERFLOW, fix="pass a variance")


def checked_residual(value: float | None) -> float | None:
    """A positive number, or None for no skip; infinite strength is none either, as in a `Spec`."""
    if value is None or value == math.inf:
        return None
    low, high = _WEAKEST, 1 / _WEAKEST
    return real_number(value, "the residual strength", low=low, high=high, fix="pass None for no skip connection")


def diverging(name: str, layer: int) -> IsometerError:
    """The error for a length map without bound."""
    return IsometerError(
        f"the length map of {name} diverges: the variance exceeds {OVERFLOW:g} at layer {layer} — write unit({name}) "
        "or normalized(…) for unit inputs, scale the weights down, or use norm='rms'"
    )


def patience(family: SignalFamily) -> int:
    """Layers with a variance of their own that are worth computing: each needs a dual, slow where φ has kinks."""
    return 20_000 if not family.activation.kinks else 300


def unsettled(name: str, layer: int, *, skip: bool = False) -> IsometerError:
    """The error for a variance that never settles: a signal that dies like a power of depth, or that skips pile up."""
    way = "" if skip else f"write unit({name}) for inputs of unit length, or "
    return IsometerError(
        f"the variance of {name} is still changing at layer {layer}, and every layer costs a dual of its own there — "
        f"{way}use norm='rms', and layers share one"
    )


# --- inputs of other lengths than one (004 section 3.5, Appendix D) ---------------------------------------------------


def length_contraction(source: str | Activation | Any, smallest: float = 0.5) -> float:
    """α_σ = min(2E σ(√½ X)² − 1, 1 − E σσ′X) of 004/def-alpha-sigma, for σ with unit second moment.

    With another smallest squared length γ₀ the chord of the proof gives (σ̂_l(γ₀) − γ₀)/(1 − γ₀) (004/rem-38).

    Example:
        >>> from isometer.theory.kernels import length_contraction
        >>> 0 < length_contraction("unit(tanh)") < 1
        True
    """
    family = SignalFamily(source)
    if abs(family.activation.second_moment - 1.0) > 1e-9:
        raise IsometerError(
            f"α_σ assumes E σ² = 1; {family.activation.name} has {family.activation.second_moment:.6g} — "
            f"write unit({family.activation.name})"
        )
    if not 0.0 < smallest < 1.0:
        raise IsometerError(f"the smallest squared length must lie in (0, 1); got {smallest!r}")
    chord = (family.second_moment(smallest) - smallest) / (1.0 - smallest)
    return min(chord, 1.0 - family.slope(1.0))


def length_bound(source: str | Activation | Any, squared_length: float, depth: ArrayLike) -> dict[str, Any]:
    """Both readings of 004/thm-37 on |k̄(x, x) − 1|: as displayed, with |‖x‖² − 1| squared, and as its proof gives it.

    Example:
        >>> from isometer.theory.kernels import length_bound
        >>> bound = length_bound("unit(tanh)", 1.5, 0)
        >>> bound["printed"], bound["proved"]
        (0.25, 0.5)
    """
    rate = 1.0 - length_contraction(source)
    power = rate ** np.asarray(depth, dtype=float)
    start = abs(squared_length - 1.0)
    values = {"printed": power * start**2, "proved": power * start}
    return {key: float(v) if np.ndim(depth) == 0 else v for key, v in values.items()}


def settling_depth(source: str | Activation | Any, squared_lengths: ArrayLike) -> dict[str, float]:
    """L̂ of 004/thm-12 (prefactor α_σ, as printed) and of 004/thm-42 (prefactor 1/α_σ, as proved).

    Example:
        >>> from isometer.theory.kernels import settling_depth
        >>> depth = settling_depth("unit(tanh)", [0.5, 2.0])
        >>> depth["printed"] < depth["proved"]
        True
    """
    phi = activation(source)
    mu = phi.nonlinearity
    lengths = np.asarray(squared_lengths, dtype=float)
    if np.min(lengths) < 0.5 - UNIT:
        raise IsometerError(f"004/thm-12 assumes squared lengths of at least 0.5; got {float(np.min(lengths))!r}")
    travel = math.log(4.0 * max(float(np.max(np.abs(lengths - 1.0))), mu / 4.0) / mu)
    rate = length_contraction(phi)
    return {"printed": rate * travel, "proved": travel / rate if rate > 0 else math.inf}
