"""The layers of an infinitely wide network on inputs of one length: what each does to the cosine of two signals.

A plain layer takes pre-activations of covariance K to E φφ + V, V the variance of its bias. With a skip connection a
layer is h ↦ h + γ(Wφ(h) + b), the step `residual` of a `Spec` with order ("activation", "weights", "residual"): the
covariance becomes K + γ²(E φφ + V), for W is fresh and the two parts are independent. A norm sits inside the branch
(`pre`, `post`) or after the addition (`sum`), where it divides by the root of the sum of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from isometer.activations import Activation
from isometer.activations._dual import AffineDual, AngleDual, ClosedDual
from isometer.errors import InfiniteMomentError, IsometerError
from isometer.theory.kernels._kernel_map import Norm
from isometer.theory.kernels._length_map import (
    OVERFLOW,
    UNIT,
    GaussianView,
    RaysDual,
    SignalFamily,
    SlopeSeriesDual,
    checked_residual,
    checked_variance,
    diverging,
    patience,
    unsettled,
)

Floats = NDArray[np.float64]
Place = Literal["pre", "post", "sum"]
"""The type of a norm's place: before φ, after φ, or after the addition of a skip connection."""
_TINY = 1e-300  # least 1 ∓ ρ: keeps s = ½ log((1 − ρ)/(1 + ρ)) finite
_FAINT = math.log(1e-34)  # signals so small see only the slopes of φ at zero
_SLOW = 300  # layers whose dual takes quadrature, 0.1 s each


@dataclass(frozen=True)
class Stage:
    """One layer on a batch of one length: the cosine of pre-activations to that of the next pre-activations.

    1 − ρ′ = share·(1 − κ(ρ)) + skip·(1 − ρ), share, skip and what is left of one the parts of the next variance that
    come from φ, from the skip connection and from the bias. The NTK relative to its diagonal obeys
    T′ = w·c + (1 − w)·r·T, c the cosine of the branch, r = (skip + share·κ′(ρ))/growth and w = (1 − skip)/R′, where
    R′ = 1 − skip + growth·R follows the ratio of the two diagonals.
    """

    dual: AffineDual  # κ, scaled so that κ(1) = 1
    odd: bool
    share: float
    growth: float  # skip + share·κ'(1); inf where φ jumps
    log_variance: float  # log of the variance after the layer, bias included
    skip: float = 0.0
    source: float = 1.0  # 1 − skip, without cancellation

    def forward(self, gap: Floats, mirror: Floats) -> tuple[Floats, Floats]:
        """(1 − ρ, 1 + ρ) after the layer, each to relative accuracy."""
        if self.odd:
            # κ(−ρ) = −κ(ρ): the smaller of the two gaps gives both without cancellation
            near = self.dual.deficit(np.minimum(gap, mirror))
            left = gap <= mirror
            after, rest = np.where(left, near, 2.0 - near), np.where(left, 2.0 - near, near)
        elif self._linear_in_angle:  # D(θ) = D(π) − D(π − θ)
            whole = self.dual.deficit(np.array(2.0))
            after = np.where(gap <= 1.0, self.dual.deficit(gap), whole - self.dual.deficit(mirror))
            rest = 2.0 - after
        else:
            after = self.dual.deficit(gap)
            rest = 2.0 - after
        if self.skip > 0.0:
            # the bias is common to both inputs: its part has 1 − ρ = 0 and 1 + ρ = 2
            own = max(0.0, self.source - self.share)
            low, high = self.share * after + self.skip * gap, self.share * rest + self.skip * mirror + 2.0 * own
        else:
            low, high = self.share * after, self.share * rest + 2.0 * (1.0 - self.share)
        return np.clip(low, _TINY, 2.0), np.clip(high, _TINY, 2.0)

    def slope_ratio(self, gap: Floats, mirror: Floats) -> Floats:
        """(skip + share·κ′(ρ))/growth; where κ′ is smooth in θ and not in ρ, from an angle accurate at both ends."""
        base = self.dual.base
        if isinstance(base, RaysDual | SlopeSeriesDual):
            slope = base.slope_of_angle(2.0 * np.arctan2(np.sqrt(gap), np.sqrt(mirror)))
        elif isinstance(base, AngleDual) and base.power == 2:
            slope = base.slope_series(2.0 * np.arctan2(np.sqrt(gap), np.sqrt(mirror)))
        else:
            slope = base.slope_at_gap(np.minimum(gap, mirror) if self.odd else gap)
        ratio = np.asarray(slope / base.slope_at_one)
        if self.skip > 0.0:
            # growth − skip = share·κ'(1)
            ratio = (self.skip + (self.growth - self.skip) * ratio) / self.growth
        return ratio

    def branch_cosine(self, before: Floats, after: Floats) -> Floats:
        """c, what the weights of this layer add to the NTK over its own diagonal, from ρ before and after."""
        return after if self.skip == 0.0 else (after - self.skip * before) / self.source

    @property
    def log_source(self) -> float:
        """log(1 − skip), the layer's own part of the ratio of diagonals."""
        return math.log(self.source)

    @property
    def _linear_in_angle(self) -> bool:
        # the only closed form with infinite slope is that of sign, 1 − 2θ/π
        return isinstance(self.dual.base, ClosedDual) and math.isinf(self.dual.slope_at_one)


def coordinates(gap: Floats, mirror: Floats) -> Floats:
    """s = ½ log((1 − ρ)/(1 + ρ)); ±inf at ρ = ±1."""
    with np.errstate(divide="ignore"):
        return np.asarray(0.5 * (np.log(gap) - np.log(mirror)))


def gaps(s: Floats) -> tuple[Floats, Floats]:
    """(1 − ρ, 1 + ρ) from s."""
    # 1 ∓ ρ = 1 ± tanh s = 2 expit(±2s): both keep their digits where they are small
    return np.asarray(2.0 * expit(2.0 * s)), np.asarray(2.0 * expit(-2.0 * s))


def cosine_of(gap: Floats, mirror: Floats) -> Floats:
    """ρ from whichever of 1 − ρ and 1 + ρ is small."""
    return np.where(gap < 1.0, 1.0 - gap, mirror - 1.0)


class Layers:
    """The layers of one architecture for inputs of one squared length, as stages, repeated once they are constant.

    Args:
        source: the activation, as given.
        squared_length: ‖x‖² of every input.
        bias: σ_b², the variance of the biases of every layer.
        norm, norm_position: normalisation over features, before or after φ, or after the addition of the skip.
        residual: γ, the strength of the branch beside a skip connection; None or inf for no skip.
        entry_bias: variance of the biases of the first weights, those of all others by default.
    """

    def __init__(
        self,
        source: str | Activation | SignalFamily | Any,
        *,
        squared_length: float = 1.0,
        bias: float = 0.0,
        norm: Norm = "none",
        norm_position: Place = "pre",
        residual: float | None = None,
        entry_bias: float | None = None,
    ) -> None:
        self.family = source if isinstance(source, SignalFamily) else SignalFamily(source)
        self.bias = checked_variance(bias, "the bias variance")
        self.norm, self.norm_position = norm, norm_position
        self.residual = checked_residual(residual)
        entry = self.bias if entry_bias is None else checked_variance(entry_bias, "the bias variance")
        self.start = squared_length + entry  # variance of the first pre-activations
        self.one_dual = self.family.homogeneous or (norm != "none" and norm_position == "pre")
        self.patience = 20_000 if self.one_dual else patience(self.family)
        self.first_share = squared_length / self.start
        self.slow_layers = _SLOW
        self._found: list[Stage] = []  # what was needed so far, for every depth
        self._constant: Stage | None = None

    def stages(self, depth: int) -> tuple[list[Stage], Stage | None]:
        """(layers that differ, the constant one that follows them), enough for `depth` layers."""
        found = self._found
        while self._constant is None and len(found) < depth:
            log_p = found[-1].log_variance if found else math.log(self.start)
            stage, constant = self._stage(log_p, len(found) + 1)
            if constant:
                self._constant = stage
                break
            slow = 0
            if self.residual is not None and not self.one_dual and isinstance(stage.dual.base, AngleDual):
                slow = depth - len(found)  # a signal that only grows: all layers from here on
            if len(found) >= self.patience or slow > self.slow_layers:
                raise unsettled(self.family.activation.name, len(found) + 1, skip=self.residual is not None)
            found.append(stage)
        return found[:depth], self._constant if depth > len(found) else None

    def _view(self, log_p: float, layer: int) -> GaussianView:
        """What φ is to a signal of this variance."""
        family, name = self.family, self.family.activation.name
        if (self.norm != "none" and self.norm_position == "pre") or family.homogeneous:
            return family.at(1.0)
        tiny = log_p < _FAINT
        # so small a signal sees two rays, whose dual does not depend on p; exp(log_p) may underflow
        p = math.exp(log_p) if not tiny else math.exp(_FAINT)
        p = 1.0 if abs(p - 1.0) <= UNIT else p
        limit = family.small_signal_limit(p)
        if tiny and limit is None:
            raise IsometerError(
                f"the variance of {name} falls below 1e-34 at layer {layer}, where it is neither linear nor two "
                "rays: the signal dies — scale it with unit(…), or use norm='rms'"
            )
        try:
            return limit or family.at(p)
        except (InfiniteMomentError, OverflowError):
            raise diverging(name, layer) from None

    def _stage(self, log_p: float, layer: int) -> tuple[Stage, bool]:
        family, name = self.family, self.family.activation.name
        before = self.norm != "none" and self.norm_position == "pre"
        after = self.norm != "none" and self.norm_position == "post"
        renewed = self.norm != "none" and self.norm_position == "sum"
        view = self._view(log_p, layer)
        centring = self.norm == "layer" and after
        scale = view.dual.second_moment - (view.dual.at_zero if centring else 0.0)
        if not scale > 0.0:
            what = "is constant at the signal's scale" if centring else "is zero at the signal's scale"
            raise IsometerError(f"{name} {what} (layer {layer}): no signal is left, so there is no kernel")
        inner, gain = (view.dual.base, view.dual.gain) if isinstance(view.dual, AffineDual) else (view.dual, 1.0)
        dual = AffineDual(inner, gain / scale, 0.0 if centring else view.dual.at_zero / scale)
        if after:
            log_q = 0.0
        elif before:
            log_q = math.log(scale)
        else:
            # the view may be at another variance than p; φ is homogeneous there
            log_q = log_p + math.log(view.second_moment) - math.log(view.variance)
        log_q = 0.0 if abs(log_q) <= UNIT else log_q
        log_next, share, skip, source = self._parts(log_p, log_q)
        # where φ is homogeneous only the logarithm of the variance is used, and that cannot overflow
        if not log_next < math.log(OVERFLOW) and not (family.homogeneous and self.bias == 0.0):
            raise diverging(name, layer)
        if renewed:
            log_next = 0.0
        growth = skip + share * dual.slope_at_one
        # a dying signal sees two rays from now on; with a skip it grows again
        scale_free = family.homogeneous or (log_p < _FAINT and self.residual is None)
        if abs(log_next - log_p) <= UNIT and self.residual is None:
            log_next = log_p
        constant = log_next == log_p or (scale_free and self.bias == 0.0 and not (before or after or renewed))
        return Stage(dual, view.odd, share, growth, log_next, skip, source), constant

    def _parts(self, log_p: float, log_q: float) -> tuple[float, float, float, float]:
        """(log of the next variance; the parts in it of φ, of the skip, and of all but the skip)."""
        log_bias = math.log(self.bias) if self.bias > 0 else -math.inf
        if self.residual is None:
            log_next = float(np.logaddexp(log_q, log_bias)) if self.bias > 0 else log_q
            return log_next, math.exp(log_q - log_next), 0.0, 1.0
        strength = 2.0 * math.log(self.residual)
        branch = strength + log_q
        # summed for itself: 1 − skip would cancel for weak branches
        own = float(np.logaddexp(branch, strength + log_bias))
        log_next = float(np.logaddexp(log_p, own))
        return log_next, math.exp(branch - log_next), math.exp(log_p - log_next), math.exp(own - log_next)
