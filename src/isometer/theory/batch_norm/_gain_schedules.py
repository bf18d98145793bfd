"""Gains that fall with the layer, so that gradients through batch norm grow by a bounded factor in all.

The gradient's growth per layer of φ(αx) under batch norm exceeds that of a linear network by R(α). With m the order of
the first derivative of φ at 0 from the second on that does not vanish, the share of φ(αx) that is not linear has size
α^{m−1}, and R, which is quadratic in it, is c₁α^{2(m−1)}: fourth power for odd functions, second for others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq

from isometer.activations import Activation, activation, as_two_rays
from isometer.errors import IsometerError
from isometer.spec import Norm, PowerLaw
from isometer.theory.batch_norm import gradient_growth

__all__ = ["GainFit", "GainSchedule", "fit_gain", "gain_schedule", "growth_exponent", "measured_gain_schedule"]

Floats = NDArray[np.float64]
_GRID = np.geomspace(0.08, 1.0, 12)  # gains at which growth is computed; below, the power law holds
_ORDERS = 6


@dataclass(frozen=True)
class GainFit:
    """Rates of gradient explosion as `factor · gain^exponent`, and the schedule of gains that keeps their sum bounded.

    Example:
        >>> round(fit_gain([1.0, 0.5], [0.08, 0.02], k=1.2).schedule.layer, 9)
        -0.6
    """

    factor: float
    exponent: float
    schedule: PowerLaw


def fit_gain(gains: Sequence[float], rates: Sequence[float], *, floor: float = 0.0, k: float = 1.2) -> GainFit:
    """The gains `α_ℓ = ℓ^{−k/c₂}` from rates measured at constant gains, fitted by `R = c₁ α^{c₂}`.

    The fit is by least squares in logarithms.
    The rate of layer ℓ is then c₁ ℓ^{−k}, whose sum over all layers is bounded for k > 1. Rates are growth per layer
    towards the input: `explosion_rate` of the `gradient_log_norm` of a simulation, its sign changed. The growth of a
    linear network of the same size is not an effect of the gain: pass it as the floor.

    Args:
        gains: α, at least two different ones.
        rates: R at each, above the floor.
        floor: rate as α → 0, which is subtracted.
        k: above 1.

    Returns:
        c₁, c₂ and the schedule.

    Raises:
        IsometerError: too few points, a rate not above the floor, a fit that does not rise, or k ≤ 1.

    Example:
        >>> fit = fit_gain([1.0, 0.5, 0.25], [0.5, 0.125, 0.03125], k=1.5)
        >>> round(fit.factor, 12), round(fit.exponent, 12), round(fit.schedule.layer, 12)
        (0.5, 2.0, -0.75)

    Implements: 001/alg-C.5.
    """
    alpha, rate = np.asarray(gains, dtype=float), np.asarray(rates, dtype=float) - floor
    if alpha.ndim != 1 or alpha.shape != rate.shape or len(set(alpha.tolist())) < 2 or not (alpha > 0).all():
        raise IsometerError(
            f"gains are {alpha.tolist()} with {rate.size} rates; expected two different positive gains at least and "
            "one rate for each — measure more"
        )
    if not ((rate > 0) & np.isfinite(rate)).all():
        raise IsometerError(
            f"rates above the floor are {rate.tolist()}; expected positive numbers — leave out gains at which the rate "
            "is that of a linear network"
        )
    if not 1 < k < math.inf:
        raise IsometerError(f"k is {k!r}; expected a number above 1, or the sum of the rates diverges — pass 1.2")
    slope, offset = np.polyfit(np.log(alpha), np.log(rate), 1)
    if not slope > 0:
        raise IsometerError(
            f"the rates fall with the gain (exponent {slope:.3g}); expected them to rise — measure at gains up to 1"
        )
    return GainFit(math.exp(offset), float(slope), PowerLaw(layer=-k / float(slope)))


@dataclass(frozen=True)
class GainSchedule:
    """Gains `α_ℓ = scale·ℓ^{−k/c₂}` and what they do to gradients.

    Args:
        schedule: for `Spec(activation_gain=…)`.
        exponent: c₂.
        factor: c₁.
        rates: growth per layer above that of a linear network, `(depth,)`.
        floor: growth per layer of a linear network.

    Example:
        >>> found = gain_schedule("tanh", 100, 0.5, samples=20)
        >>> found.exponent, round(float(found.rates.sum()), 9)
        (4.0, 0.5)
    """

    schedule: PowerLaw
    exponent: float
    factor: float
    rates: Floats
    floor: float

    @property
    def total(self) -> float:
        """Log of the factor by which gradients grow over all layers, that of a linear network left out."""
        return float(self.rates.sum())


def growth_exponent(source: str | Activation) -> float:
    """c₂ = 2(m − 1), m ≥ 2 the order of the first derivative of φ at 0 beyond the slope that does not vanish.

    Raises:
        IsometerError: φ has a kink or no slope at 0, or is linear: small gains do not make it more linear.

    Example:
        >>> growth_exponent("tanh"), growth_exponent("gelu")
        (4.0, 2.0)

    Implements: 001/alg-C.5 (c₂ derived).
    """
    phi = source if isinstance(source, Activation) else activation(source)
    if as_two_rays(phi.expression) is not None or any(abs(kink) < 1e-9 for kink in (*phi.kinks,)):
        raise IsometerError(
            f"{phi.name} is linear or has a kink at 0, and a gain does not make it more linear; expected a function "
            "that is smooth around 0 — tanh or sin, for example"
        )
    slope = phi.derivative
    if abs(float(slope(0.0))) < 1e-12:
        raise IsometerError(f"{phi.name} is flat at 0: no linear part is left at small gains — use another activation")
    for order in range(2, _ORDERS + 1):
        slope = slope.derivative
        if abs(float(slope(0.0))) > 1e-10:
            return 2.0 * (order - 1)
    raise IsometerError(
        f"{phi.name} is linear around 0 to order {_ORDERS}; expected a curved function — use tanh, for example"
    )


def gain_schedule(
    source: str | Activation,
    depth: int,
    total: float,
    *,
    samples: int,
    norm: str | Norm = "batch",
    k: float = 1.2,
) -> GainSchedule:
    """The schedule of gains, at most 1, for which gradients grow by `exp(total)` over `depth` layers, from theory.

    The growth of a linear network, `½ log((n−2)/(n−3))` per layer under full batch norm with Gaussian weights, comes on
    top whatever the gain. Sums over layers of infinite-width rates at constant gain; k > 1 bounds them at any depth.

    Args:
        source: φ.
        depth: number of layers.
        total: target of the sum of rates above the linear one; what scale 1 has is returned if that is less.
        samples: batch size n, at least 4.
        norm: as in `gradient_growth`, before the activation.
        k: rates fall like ℓ^{−k}.

    Returns:
        A `GainSchedule`.

    Example:
        >>> found = gain_schedule("tanh", 200, 0.3, samples=30, k=1.5)
        >>> round(found.schedule.layer, 12)  # −k/4
        -0.375

    Implements: 001/alg-C.5, 001/rec-6.11.
    """
    _check(depth, total, k)
    phi = source if isinstance(source, Activation) else activation(source)
    exponent = growth_exponent(phi)
    floor = gradient_growth("identity", samples, norm=norm)
    excess = np.array([gradient_growth(phi.gain(float(gain)), samples, norm=norm) - floor for gain in _GRID])
    if not (excess > 0).all():
        raise IsometerError(
            f"with {phi.name}, gradients grow no faster than in a linear network, at every gain — no schedule is needed"
        )
    # c₁ from the smallest gain: the power law then joins the table without a step
    factor = float(excess[0] / _GRID[0] ** exponent)
    # no overshoot between the points
    table = PchipInterpolator(np.log(_GRID), np.log(excess))

    def rates(scale: float) -> Floats:
        gains = scale * np.arange(1.0, depth + 1) ** (-k / exponent)
        inside = np.exp(table(np.log(np.clip(gains, _GRID[0], 1.0))))
        return np.where(gains < _GRID[0], factor * gains**exponent, inside)

    scale = 1.0
    if float(rates(1.0).sum()) > total:
        scale = float(brentq(lambda s: float(rates(math.exp(s)).sum()) - total, -60.0, 0.0, xtol=1e-13))
        scale = math.exp(scale)
    return GainSchedule(PowerLaw(scale, layer=-k / exponent), exponent, factor, rates(scale), floor)


def measured_gain_schedule(
    gains: Sequence[float], rates: Sequence[float], depth: int, total: float, *, floor: float = 0.0, k: float = 1.2
) -> GainSchedule:
    """As `gain_schedule`, from rates measured at constant gains and fitted by `R = c₁α^{c₂}` (`fit_gain`).

    Args:
        gains: α.
        rates: growth per layer towards the input at each.
        depth: number of layers.
        total: target of the sum of rates above the floor.
        floor: growth of a linear network of the same size.
        k: above 1.

    Returns:
        A `GainSchedule`; its scale is `(total/(c₁ Σ ℓ^{−k}))^{1/c₂}`, at most 1.

    Example:
        >>> found = measured_gain_schedule([1.0, 0.5], [0.32, 0.02], 100, 0.1)
        >>> round(found.exponent, 9), round(found.total, 9)
        (4.0, 0.1)

    Implements: 001/alg-C.5.
    """
    _check(depth, total, k)
    fit = fit_gain(gains, rates, floor=floor, k=k)
    shares = np.arange(1.0, depth + 1) ** -k
    scale = min(1.0, (total / (fit.factor * float(shares.sum()))) ** (1 / fit.exponent))
    own = fit.factor * scale**fit.exponent * shares
    return GainSchedule(PowerLaw(scale, layer=-k / fit.exponent), fit.exponent, fit.factor, own, floor)


def _check(depth: int, total: float, k: float) -> None:
    if depth < 1:
        raise IsometerError(f"depth is {depth}; expected a whole number of at least 1 — pass the number of layers")
    if not 0 < total < math.inf:
        raise IsometerError(f"total is {total}; expected a positive log of the growth allowed — pass 1, for example")
    if not 1 < k < math.inf:
        raise IsometerError(f"k is {k!r}; expected a number above 1, or the sum of the rates diverges — pass 1.2")
