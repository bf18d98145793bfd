"""The law of the weights: their mean and their scale."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import special

from isometer.activations._registry import written
from isometer.doctor.conditions._condition import Condition
from isometer.doctor.diagnosis.checks._case import SIGNIFICANCE, Case, Sign

_OFF = 0.1  # logarithm by which a layer's gain is off
_SYMPTOMS = (
    "activation-explosion",
    "activation-vanishing",
    "gradient-explosion",
    "gradient-vanishing",
    "saturation",
    "effectively-linear",
    "rank-collapse",
)


def asymmetric_weights(case: Case, condition: Condition) -> Iterator[Sign]:
    """`asymmetric-init`: weights with a mean that is neither zero nor small.

    The mean of N independent weights with mean zero, over its standard error, is standard normal: that is the null.
    """
    view, limits = case.view, condition.limits
    asymmetry = view.values["weight_asymmetry"]
    chosen, least = [], 0.0
    for layer in view.weights:
        site = view.sites[layer]
        size = abs(float(asymmetry[layer]))
        if not size >= limits.moderate:
            continue
        score = size * math.sqrt(site.weight_count / max(1, site.fan_in))  # from mean/σ √fan_in to mean/σ √N
        # Constant weights have no spread: no law of mean zero gives them.
        p = 2 * float(special.ndtr(-score)) * len(view.weights) if math.isfinite(score) else 0.0
        if p < SIGNIFICANCE:
            chosen.append(layer)
            least = max(least, p)
    if not chosen or 2 * len(chosen) < len(view.weights):
        return
    typical = float(np.median(np.abs(asymmetry[chosen])))
    yield Sign(
        limits.severity(typical) or "moderate",
        tuple(chosen),
        {
            "typical_mean_over_std_times_root_fan_in": typical,
            "layers_affected": len(chosen),
            "limit": limits.moderate,
            "p_value": least,
        },
        f"The weights of {case.where(chosen)} do not average to zero: for inputs of one sign, what all units share is "
        f"{typical:.2g} times as large as what differs between them.",
    )


def wrong_gain(case: Case, condition: Condition) -> Iterator[Sign]:
    """`wrong-gain`: gains that explain what other checks found."""
    view, limits = case.view, condition.limits
    norms = sum(site.kind == "norm" for site in view.sites)
    if not case.has(*_SYMPTOMS) or view.has("add") or 3 * norms > len(view.weights):
        return  # sums and norms keep errors of the gain from compounding
    gains, principled = view.values["weight_gain"], view.values["principled_gain"]
    # Only where an activation follows directly does a principled gain say anything about the weights.
    free = [
        layer
        for layer in view.weights
        if view.sites[layer].followed
        and not view.sites[layer].normalized
        and principled[layer] > 0
        and gains[layer] > 0
    ]
    if not free:
        return
    ratios = np.log(gains[free] / principled[free])
    off = [layer for layer, ratio in zip(free, ratios, strict=True) if abs(ratio) >= _OFF]
    total = float(np.median(ratios)) * len(free)
    severity = limits.severity(abs(total))
    if 2 * len(off) < len(free) or severity is None:
        return
    typical, wanted = float(np.median(gains[off])), float(np.median(principled[off]))
    yield Sign(
        severity,
        tuple(off),
        {
            "typical_gain": typical,
            "principled_gain": wanted,
            "layers_affected": len(off),
            "total_factor": math.exp(total) if total < 700 else math.inf,
            "limit_per_layer": math.exp(_OFF),
        },
        f"The weights of {case.where(off)} have gain {typical:.3g}; "
        f"{written(view.sites[off[0]].activation or 'identity')} needs {wanted:.3g}.",
        f"Nothing normalises the signal in between, so the error compounds over {len(free)} layers.",
    )
