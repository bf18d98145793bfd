"""What the activation functions do with what they get."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from isometer.activations import activation
from isometer.doctor.conditions._condition import Condition
from isometer.doctor.diagnosis.checks._case import SIGNIFICANCE, Case, Sign
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from isometer.doctor.diagnosis._signal_path import View


def dead_units(case: Case, condition: Condition) -> Iterator[Sign]:
    """`dead-units`: far more units silent on the whole batch than weights with a symmetric law leave."""
    view, limits = case.view, condition.limits
    dead = view.values["dead_fraction"]
    chosen = []
    for layer in view.activations:
        if not dead[layer] >= limits.moderate:
            continue
        from scipy import stats  # imported for a layer that is nearly dead, since it takes long

        shape = view.sites[layer].shape
        units = shape[1] if len(shape) > 3 else shape[-1]  # channels of images, else the last axis
        # Rows of a symmetric law see a given batch all negative with probability at most a half, independently.
        # sf is P(X > k), hence the −1; the factor corrects for the number of layers.
        p = float(stats.binom.sf(round(dead[layer] * units) - 1, units, 0.5)) * len(view.activations)
        if p < SIGNIFICANCE:
            chosen.append((layer, min(1.0, p)))
    if not chosen:
        return
    layers = tuple(layer for layer, _ in chosen)
    worst = max(float(dead[layer]) for layer in layers)
    yield Sign(
        limits.severity(worst) or "moderate",
        layers,
        {
            "largest_dead_fraction": worst,
            "layers_affected": len(layers),
            "limit": limits.moderate,
            "expected_at_most": 0.5,
            "p_value": max(p for _, p in chosen),
        },
        f"Up to {100 * worst:.0f} % of the units of {case.where(layers)} are zero on every sample; symmetric weights "
        "without bias silence at most half of them.",
    )


def saturation(case: Case, condition: Condition) -> Iterator[Sign]:
    """`saturation`: bounded activations driven to their ends."""
    view, limits = case.view, condition.limits
    saturated = view.values["saturated_fraction"]
    bounded = [layer for layer in view.activations if math.isfinite(saturated[layer])]
    layers = [layer for layer in bounded if saturated[layer] >= limits.moderate]
    if not layers or 2 * len(layers) < len(bounded):  # most of them, not a single gate
        return
    typical = float(np.median(saturated[layers]))
    yield Sign(
        limits.severity(typical) or "moderate",
        tuple(layers),
        {"typical_saturated_fraction": typical, "layers_affected": len(layers), "limit": limits.moderate},
        f"{100 * typical:.0f} % of the entries of {case.where(layers)} are in the flat part of the activation (slope "
        "below 5 % of the largest).",
    )


def effectively_linear(case: Case, condition: Condition) -> Iterator[Sign]:
    """`effectively-linear`: activations used where they are straight."""
    view = case.view
    if view.has("attention") or view.has("recurrent") or view.has("other"):
        return  # products of signals, and operations that nothing is known of
    if any(site.kind == "norm" and not site.statistics for site in view.sites):
        return  # normalising each sample by itself is a nonlinearity
    total = nonlinearity(view, enough=condition.limits.moderate)
    severity = condition.limits.severity(total)
    if severity is None or not view.activations:
        return
    sizes = view.values["rms"][list(view.activations)]
    yield Sign(
        severity,
        view.activations,
        {
            "nonlinear_share_of_variance": total,
            "limit": condition.limits.moderate,
            "typical_rms": float(np.median(sizes)),
        },
        f"All activations together make only {100 * total:.1g} % of the signal's variance nonlinear, because their "
        "inputs stay where the activation is straight.",
    )


def nonlinearity(view: View, *, enough: float = math.inf) -> float:
    """Sum over hidden activations of the share of variance that is not linear; nan where one of them is unknown.

    Shares are not negative: a sum beyond `enough` is left there.
    """
    total = 0.0
    for layer in view.activations:
        site = view.sites[layer]
        if site.activation is None or not math.isfinite(site.input_rms) or not math.isfinite(site.rms):
            return math.nan
        total += nonlinear_share(site.activation, _digits(site.input_rms), _digits(site.rms))
        if total > enough:
            break
    return total


def _digits(value: float) -> float:
    """Five significant digits, and nothing below 1e-6, so that layers of one size share a computation."""
    return float(f"{max(value, 1e-6):.5g}")


@lru_cache(maxsize=4096)
def nonlinear_share(text: str, rms_in: float, rms_out: float | None = None) -> float:
    """`1 − Cov(φ(x), x)² / (Var x Var φ(x))` for a Gaussian x; 0 for a function that is constant there.

    The mean of x is the one nearest 0 for which `φ(x)` has the rms that was measured: a ReLU whose inputs are all
    positive hands them on unchanged.

    Args:
        text: the activation.
        rms_in: root mean square of x.
        rms_out: that of φ(x); without it the mean is 0.

    Example:
        >>> round(nonlinear_share("relu", 1.0), 4), nonlinear_share("tanh", 1e-3) < 1e-11
        (0.2665, True)
        >>> nonlinear_share("relu", 1.0, 1.0) < 0.01
        True

    Implements: 001/tab-5.2 (non-linear: Σ_{k≥2} c_k² > 0).
    """
    nodes = np.linspace(-9.0, 9.0, 1201)  # a fine trapezoidal rule, since kinks spoil Gauss–Hermite
    weights = np.exp(-(nodes**2) / 2)
    weights = weights / weights.sum()
    means = np.array([0.0]) if rms_out is None else rms_in * np.array(sorted(np.linspace(-0.999, 0.999, 400), key=abs))
    spreads = np.sqrt(rms_in**2 - means**2)
    try:
        values = np.asarray(activation(text)(means[:, None] + spreads[:, None] * nodes), dtype=np.float64)
    except IsometerError:
        return math.nan
    if rms_out is not None:
        # Several means may give the measured rms; the first within rounding of the best is the nearest to 0.
        miss = np.abs(np.sqrt(values**2 @ weights) / rms_out - 1.0)
        values = values[[int(np.argmax(miss <= miss.min() + 2e-4))]]
    # For a Gaussian x the best linear fit has slope E[φ(x) z]; what it leaves over is the nonlinear part.
    linear = float(weights @ (values[0] * nodes))
    rest = values[0] - float(weights @ values[0]) - linear * nodes
    variance = linear**2 + float(weights @ rest**2)
    return float(weights @ rest**2) / variance if variance > 0 else 0.0
