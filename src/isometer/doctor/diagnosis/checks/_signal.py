"""Whether samples, and tokens, can still be told apart."""

from __future__ import annotations

import math
from collections.abc import Iterator

from isometer import metrics
from isometer.doctor.diagnosis import _limits as limits
from isometer.doctor.diagnosis._findings import Finding
from isometer.doctor.diagnosis._prescriptions import prescribe
from isometer.doctor.diagnosis._redraws import Statistic
from isometer.doctor.diagnosis.checks._case import Case

_RIGHT_ANGLE = 45.0  # degrees, halfway to one


def rank_collapse(case: Case) -> Iterator[Finding]:
    """`rank-collapse`: all samples, or all tokens of a sample, point the same way before the readout."""
    view = case.view
    if case.has("degenerate-batch") and case.view.alikeness[view.first] < limits.ALIKE[0]:
        return  # nothing was there to collapse
    yield from _collapse(case, "samples", view.last_difference, lambda view: view.last_difference, limits.ALIKE)
    if view.has("attention"):
        yield from _collapse(
            case, "tokens", view.last_token_difference, lambda view: view.last_token_difference, limits.TOKENS_ALIKE
        )


def _collapse(case: Case, of: str, value: float, statistic: Statistic, limit: tuple[float, float]) -> Iterator[Finding]:
    view = case.view
    name = "mean_abs_cosine" if of == "samples" else "token_mean_abs_cosine"
    cosines = view.values[name]
    start = next((layer for layer in range(view.first, len(view.sites)) if math.isfinite(cosines[layer])), None)
    if start is None or math.isnan(value):
        return
    severity = limits.severity(math.exp(value), limit)
    neutral = math.log(max(1.0 - float(cosines[start]), 1e-6))
    if severity is None or neutral - value < math.log(2.0):  # they were that alike to begin with
        return
    p = case.p_value(value, neutral, statistic)
    if p >= limits.SIGNIFICANCE:
        return
    layers = tuple(layer for layer in view.hidden if 1.0 - cosines[layer] <= limit[0])
    rank = view.best("effective_rank" if of == "samples" else "token_stable_rank", view.last, smallest=False)
    depth = view.sites[layers[0]].depth if layers else view.hidden_depth
    yield Finding(
        "rank-collapse",
        severity,
        layers or view.last,
        {
            "of": of,
            "mean_abs_cosine_at_start": float(cosines[start]),
            "mean_abs_cosine_at_end": 1.0 - math.exp(value),
            "rank_at_end": rank,
            "limit_of_one_minus_cosine": limit[0],
            "depth_of_collapse": depth,
            "p_value": p,
        },
        f"From depth {depth} on all {of} point in nearly the same direction: their mean |cosine| rises from "
        f"{float(cosines[start]):.3f} to {1.0 - math.exp(value):.5f} before the readout. "
        f"What tells {of} apart is a part of {math.exp(value):.1g} of the signal, and training along it is slower "
        f"by that "
        "factor than along what they share.",
        ("002/lem-4", "001/thm-5.11") if of == "samples" else ("002/lem-4",),
        prescribe(
            "normalize-activation",
            "add-batch-norm",
            "shape-activation",
            "add-residual",
            "scale-branches",
            "zero-bias",
            "rank-pretraining",
            "iterative-orthogonalization",
        )
        if of == "samples"
        else prescribe("add-residual", "pre-norm", "scale-branches", "principled-gain"),
    )


def odd_point(case: Case) -> Iterator[Finding]:
    """`odd-point`: one sample outgrows all others, and stands at a right angle to them."""
    view = case.view
    share, start = view.odd_share(view.last), view.odd_share((view.first,))
    severity = limits.severity(share, limits.ODD)
    if severity is None or not start <= share / 2:
        return
    p = case.p_value(math.log(share), math.log(start), lambda view: math.log(max(view.odd_share(view.last), 1e-12)))
    gram = view.sites[view.last[-1]].gram
    if p >= limits.SIGNIFICANCE or gram is None:
        return
    odd = metrics.odd_point_statistics(gram=gram.double())
    n = gram.shape[0]
    if not float(odd.angle_to_rest_mean) >= _RIGHT_ANGLE:
        return
    yield Finding(
        "odd-point",
        severity,
        tuple(layer for layer in view.hidden if view.odd_share((layer,)) >= limits.ODD[0]),
        {
            "sample": int(odd.index),
            "share_of_squared_length": share,
            "share_at_start": start,
            "rest_norm_ratio": float(odd.rest_norm_ratio),
            "predicted_rest_norm_ratio": 1.0 / (n - 1),
            "mean_angle_to_rest_deg": float(odd.angle_to_rest_mean),
            "mean_angle_within_rest_deg": float(odd.angle_within_rest_mean),
            "limit_of_share": limits.ODD[0],
            "p_value": p,
        },
        f"Sample {int(odd.index)} has {share:.0%} of the batch's squared length before the readout, at "
        f"{odd.angle_to_rest_mean:.0f}° "
        f"to the others, which are {float(odd.rest_norm_ratio):.2g} times as long. Recentring without rescaling "
        f"lets ReLU single "
        "out one sample, and what tells the others apart is lost beside it.",
        ("000/def-12", "000/odd-emergence", "000/thm-11"),
        prescribe("full-batch-norm", "normalize-activation"),
    )
