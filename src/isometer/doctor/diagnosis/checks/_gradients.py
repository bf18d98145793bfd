"""Gradients on their way back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer.doctor.diagnosis import _limits as limits
from isometer.doctor.diagnosis._findings import Finding
from isometer.doctor.diagnosis._prescriptions import prescribe
from isometer.doctor.diagnosis._redraws import Statistic
from isometer.doctor.diagnosis.checks._case import Case


def gradient_growth(case: Case) -> Iterator[Finding]:
    """`gradient-explosion` and `gradient-vanishing`: total change of the gradient's norm toward the input."""
    view = case.view
    growth = view.gradient_growth
    severity = limits.severity(abs(growth), limits.GRADIENT)
    if severity is None:
        return
    p = case.p_value(growth, 0.0, lambda view: view.gradient_growth)
    if p >= limits.SIGNIFICANCE:
        return
    explodes = growth > 0
    weights, gradients = np.array(view.trunk), view.gradients
    change = gradients - float(np.nanmedian(gradients[-max(1, len(gradients) // 10) :]))
    beyond = weights[np.where(np.isfinite(change), change, 0.0) * (1 if explodes else -1) >= limits.GRADIENT[0]]
    factor = math.exp(abs(view.gradient_rate))
    evidence: dict[str, Any] = {
        "factor_per_layer_toward_input": math.exp(view.gradient_rate),
        "depth": view.span + 1,
        "total_factor": _exp(growth),
        "limit_of_total_factor": math.exp(limits.GRADIENT[0]),
        "p_value": p,
    }
    lost = view.examination.nonfinite_gradient_layer
    if lost is not None:
        evidence["gradient_overflows_at_layer"] = lost
    normalized = any(view.sites[layer].statistics for layer in range(len(view.sites)))
    yield Finding(
        "gradient-explosion" if explodes else "gradient-vanishing",
        severity,
        tuple(int(layer) for layer in beyond) or view.trunk,
        evidence,
        f"Going back to the input, the gradient's norm {'grows' if explodes else 'shrinks'} by a factor of "
        f"{factor:.3g} per "
        f"layer, {_exp(abs(growth)):.2g} in total. "
        + (
            "A learning rate small enough for the first layers leaves the last ones where they are."
            if explodes
            else "The first layers do not move at any learning rate the last ones can bear."
        ),
        ("001/claim-6.gauss", "001/thm-6.5") if normalized else ("001/eq-6.1-6.2",),
        prescribe("orthogonal-init", "shape-activation", "add-residual", "scale-branches", "clip-gradients")
        if normalized and explodes
        else prescribe(
            "principled-gain",
            "normalize-activation",
            "shape-activation",
            "add-residual",
            "scale-branches",
            "clip-gradients",
        )
        if explodes
        else prescribe("principled-gain", "normalize-activation", "shape-activation", "add-residual"),
    )


def gradient_alignment(case: Case) -> Iterator[Finding]:
    """`gradient-alignment`: samples pull the weights in the same direction.

    Looked for in the hidden weights; where the samples have collapsed also in the readout, whose gradients are then
    parallel by 002/prop-8. (Without a collapse the readout's gradients say how alike pooled features are, no more.)
    """
    view = case.view
    alike = view.alikeness[view.first]
    if case.has("degenerate-batch") or (math.isfinite(alike) and alike <= limits.ALIGNED[0]):
        return
    collapsed = any(finding.id == "rank-collapse" and finding.evidence["of"] == "samples" for finding in case.found)
    statistics: list[Statistic] = [lambda view: view.log_alignment]
    if collapsed:
        statistics.append(lambda view: view.log_readout_alignment)
    values = [statistic(view) for statistic in statistics]
    index = min(range(len(values)), key=lambda i: math.inf if math.isnan(values[i]) else values[i])
    value = values[index]
    severity = limits.severity(math.exp(value) if not math.isnan(value) else math.nan, limits.ALIGNED)
    if severity is None:
        return
    p = case.p_value(value, math.log(0.5), statistics[index])
    if p >= limits.SIGNIFICANCE:
        return
    alignment = view.values["shared_gradient_cosine"]
    places = (*view.weights, *view.readout_weights)
    yield Finding(
        "gradient-alignment",
        severity,
        tuple(layer for layer in places if 1.0 - alignment[layer] <= limits.ALIGNED[0]) or places,
        {
            "mean_abs_cosine_of_gradients": 1.0 - math.exp(value),
            "of": "readout weights" if index else "hidden weights",
            "limit": 1.0 - limits.ALIGNED[0],
            "p_value": p,
        },
        f"Different samples that ask for the same change of the output have parallel gradients: their mean |cosine| is "
        f"{1.0 - math.exp(value):.4f}. A step then moves all outputs together, whatever the samples are.",
        ("002/prop-8", "002/fig-8"),
        prescribe("add-batch-norm", "normalize-activation", "shape-activation", "add-residual", "rank-pretraining"),
    )


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
