"""Gradients on their way back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from isometer.doctor.conditions._condition import Condition
from isometer.doctor.diagnosis.checks._case import SIGNIFICANCE, Case, Sign

if TYPE_CHECKING:
    from isometer.doctor.diagnosis._redraws import Statistic


def gradient_explosion(case: Case, condition: Condition) -> Iterator[Sign]:
    """`gradient-explosion`: the gradient's norm grows toward the input."""
    return _gradient(case, condition, explodes=True)


def gradient_vanishing(case: Case, condition: Condition) -> Iterator[Sign]:
    """`gradient-vanishing`: the gradient's norm shrinks toward the input."""
    return _gradient(case, condition, explodes=False)


def _gradient(case: Case, condition: Condition, explodes: bool) -> Iterator[Sign]:
    """Total change of the gradient's norm over the depth, in one direction."""
    view, direction = case.view, 1 if explodes else -1
    growth = view.gradient_growth
    severity = condition.limits.severity(direction * growth)
    if severity is None:
        return
    p = case.p_value(growth, 0.0, lambda view: view.gradient_growth)
    if p >= SIGNIFICANCE:
        return
    weights, gradients = np.array(view.trunk), view.gradients
    # The layers next to the readout are what the others are measured by: a tenth of them, so that no single one is.
    change = gradients - float(np.nanmedian(gradients[-max(1, len(gradients) // 10) :]))
    beyond = weights[np.where(np.isfinite(change), change, 0.0) * direction >= condition.limits.moderate]
    evidence: dict[str, Any] = {
        "factor_per_layer_toward_input": math.exp(view.gradient_rate),
        "depth": view.span + 1,
        "total_factor": _exp(growth),
        "limit_of_total_factor": math.exp(condition.limits.moderate),
        "p_value": p,
    }
    lost = view.examination.nonfinite_gradient_layer
    if lost is not None:
        evidence["gradient_overflows_at_layer"] = lost
    yield Sign(
        severity,
        # A slope can pass the limit while no single layer does; it is then the whole trunk's.
        tuple(int(layer) for layer in beyond) or view.trunk,
        evidence,
        f"The gradient's norm {'grows' if explodes else 'shrinks'} by a factor of "
        f"{math.exp(abs(view.gradient_rate)):.3g} per layer on its way back to the input, {_exp(abs(growth)):.2g} in "
        "total.",
        variant="batch-statistics" if any(site.statistics for site in view.sites) else "",
    )


def gradient_alignment(case: Case, condition: Condition) -> Iterator[Sign]:
    """`gradient-alignment`: samples pull the weights in the same direction.

    Looked for in the hidden weights; where the samples have collapsed also in the readout, whose gradients are then
    parallel by 002/prop-8. (Without a collapse the readout's gradients say how alike pooled features are, no more.)
    """
    view, limits = case.view, condition.limits
    alike = view.alikeness[view.first]
    if case.has("degenerate-batch") or (math.isfinite(alike) and alike <= limits.moderate):
        return  # samples that are alike from the start have parallel gradients in any network
    collapsed = any(finding.id == "rank-collapse" and finding.evidence["of"] == "samples" for finding in case.found)
    statistics: list[Statistic] = [lambda view: view.log_alignment]
    if collapsed:
        statistics.append(lambda view: view.log_readout_alignment)
    values = [statistic(view) for statistic in statistics]
    index = min(range(len(values)), key=lambda i: math.inf if math.isnan(values[i]) else values[i])
    value = values[index]
    severity = limits.severity(math.exp(value) if not math.isnan(value) else math.nan)
    if severity is None:
        return
    # Neutral is halfway between parallel and orthogonal.
    p = case.p_value(value, math.log(0.5), statistics[index])
    if p >= SIGNIFICANCE:
        return
    alignment = view.values["shared_gradient_cosine"]
    places = (*view.weights, *view.readout_weights)
    yield Sign(
        severity,
        tuple(layer for layer in places if 1.0 - alignment[layer] <= limits.moderate) or places,
        {
            "mean_abs_cosine_of_gradients": 1.0 - math.exp(value),
            "of": "readout weights" if index else "hidden weights",
            "limit": 1.0 - limits.moderate,
            "p_value": p,
        },
        "Gradients of different samples are nearly parallel where both need the same change of the output: their mean "
        f"|cosine| is {1.0 - math.exp(value):.4f}.",
    )


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf  # what a double can hold
