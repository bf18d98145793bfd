"""Activations shaped by a gain that falls with the layer, and where such a schedule comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isometer.errors import IsometerError
from isometer.nn.activation import Activation
from isometer.spec import PowerLaw, Schedule, Spec

SHAPING = PowerLaw(layer=-0.4)
"""A gain that falls with the layer, as 001/rec-6.11 has it; the papers leave the exponent open."""


def shaped_activations(source: Any, depth: int, gain: Schedule = SHAPING) -> list[Activation]:
    """One activation `φ(α_ℓ x)` for each layer, the gain α_ℓ from a schedule.

    If the rate at which gradients grow falls like `α^{c₂}` with the gain, a gain that falls faster than `ℓ^{−1/c₂}`
    keeps the sum of the rates bounded.

    Args:
        source: φ, as `Activation` takes it.
        depth: number of layers.
        gain: a number, one per layer, or a `PowerLaw`.

    Returns:
        The modules, layer 1 first.

    Example:
        >>> import torch
        >>> [round(float(module(torch.tensor(1e-9)) / 1e-9), 4) for module in shaped_activations("tanh", 3)]
        [1.0, 0.7579, 0.6444]

    Implements: 001/rec-6.11, the shaping of 001/alg-C.5.
    """
    schedule = Spec(width=1, depth=depth, activation_gain=gain)
    return [Activation(source, gain=schedule.at("activation_gain", layer)) for layer in range(1, schedule.layers + 1)]


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
    towards the input: `explosion_rate` of the `gradient_log_norm` of a simulation, its sign changed. What a linear
    network of the same size shows is no effect of the gain: pass it as the floor.

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
