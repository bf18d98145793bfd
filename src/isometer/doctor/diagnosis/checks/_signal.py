"""Whether samples, and tokens, can still be distinguished."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from isometer import metrics
from isometer.doctor.conditions._condition import Condition, Limits
from isometer.doctor.diagnosis.checks._case import SIGNIFICANCE, Case, Sign

if TYPE_CHECKING:
    from isometer.doctor.diagnosis._redraws import Statistic

_RIGHT_ANGLE = 45.0  # degrees, halfway to one


def rank_collapse(case: Case, condition: Condition) -> Iterator[Sign]:
    """`rank-collapse`: all samples, or all tokens of a sample, point the same way before the readout."""
    view, limits = case.view, condition.limits
    if case.has("degenerate-batch") and view.alikeness[view.first] < limits.moderate:
        return  # nothing was there to collapse
    yield from _collapse(case, "samples", lambda view: view.last_difference, limits)
    if view.has("attention"):
        stricter = condition.variants["tokens"].limits or limits
        yield from _collapse(case, "tokens", lambda view: view.last_token_difference, stricter)


def _collapse(case: Case, of: str, statistic: Statistic, limits: Limits) -> Iterator[Sign]:
    view = case.view
    value = statistic(view)
    cosines = view.values["mean_abs_cosine" if of == "samples" else "token_mean_abs_cosine"]
    start = next((layer for layer in range(view.first, len(view.sites)) if math.isfinite(cosines[layer])), None)
    if start is None or math.isnan(value):
        return
    severity = limits.severity(math.exp(value))
    neutral = math.log(max(1.0 - float(cosines[start]), 1e-6))
    if severity is None or neutral - value < math.log(2.0):  # they were that alike to begin with
        return
    p = case.p_value(value, neutral, statistic)
    if p >= SIGNIFICANCE:
        return
    layers = tuple(layer for layer in view.hidden if 1.0 - cosines[layer] <= limits.moderate)
    rank = view.best("effective_rank" if of == "samples" else "token_stable_rank", view.last, smallest=False)
    depth = view.sites[layers[0]].depth if layers else view.hidden_depth
    yield Sign(
        severity,
        layers or view.last,
        {
            "of": of,
            "mean_abs_cosine_at_start": float(cosines[start]),
            "mean_abs_cosine_at_end": 1.0 - math.exp(value),
            "rank_at_end": rank,
            "limit_of_one_minus_cosine": limits.moderate,
            "depth_of_collapse": depth,
            "p_value": p,
        },
        f"From depth {depth} on, all {of} point in nearly the same direction: their mean |cosine| rises from "
        f"{float(cosines[start]):.3f} at the input to {_near_one(math.exp(value))} before the readout.",
        f"Only {100 * math.exp(value):.2g} % of the signal distinguishes the {of}, and training along it is slower by "
        "that factor than along what they share.",
        variant="" if of == "samples" else "tokens",
    )


def _near_one(gap: float) -> str:
    """1 − gap, with as many digits as show the gap.

    Example:
        >>> _near_one(0.0213), _near_one(8e-7)
        ('0.979', '0.9999992')
    """
    digits = math.ceil(-math.log10(max(gap, 1e-9)))
    return f"{1.0 - gap:.{max(3, digits)}f}"


def odd_point(case: Case, condition: Condition) -> Iterator[Sign]:
    """`odd-point`: one sample outgrows all others, and stands at a right angle to them."""
    view, limits = case.view, condition.limits
    share, start = view.odd_share(view.last), view.odd_share((view.first,))
    severity = limits.severity(share)
    if severity is None or not start <= share / 2:  # a sample that was that long already is the batch's doing
        return
    p = case.p_value(math.log(share), math.log(start), lambda view: math.log(max(view.odd_share(view.last), 1e-12)))
    gram = view.sites[view.last[-1]].gram
    if p >= SIGNIFICANCE or gram is None:
        return
    odd = metrics.odd_point_statistics(gram=gram.double())
    n = gram.shape[0]
    # Along the others, a long sample is a matter of scale; only across them does it take directions away.
    if not float(odd.angle_to_rest_mean) >= _RIGHT_ANGLE:
        return
    yield Sign(
        severity,
        tuple(layer for layer in view.hidden if view.odd_share((layer,)) >= limits.moderate),
        {
            "sample": int(odd.index),
            "share_of_squared_length": share,
            "share_at_start": start,
            "rest_norm_ratio": float(odd.rest_norm_ratio),
            "predicted_rest_norm_ratio": 1.0 / (n - 1),
            "mean_angle_to_rest_deg": float(odd.angle_to_rest_mean),
            "mean_angle_within_rest_deg": float(odd.angle_within_rest_mean),
            "limit_of_share": limits.moderate,
            "p_value": p,
        },
        f"Sample {int(odd.index)} holds {100 * share:.0f} % of the batch's squared length before the readout, at "
        f"{odd.angle_to_rest_mean:.0f}° to the others, whose length is {float(odd.rest_norm_ratio):.2g} times its own.",
    )
