"""The scale of the signal, and the numbers a dtype can hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from isometer.doctor.diagnosis import _limits as limits
from isometer.doctor.diagnosis._findings import Finding
from isometer.doctor.diagnosis._prescriptions import prescribe
from isometer.doctor.diagnosis._signal_path import View
from isometer.doctor.diagnosis.checks._case import Case

_REFERENCES = ("001/prop-5.1", "004/thm-12")
_DTYPES = ("float16", "bfloat16", "float32")


def activation_growth(case: Case) -> Iterator[Finding]:
    """`activation-explosion` and `activation-vanishing`: total change of the rms from the input to the readout."""
    view = case.view
    if view.examination.nonfinite_layer is not None:
        yield _nonfinite(case, view.examination.nonfinite_layer)
        return
    for explodes in (True, False):

        def total(view: View, smallest: bool = explodes) -> float:
            return view.growth(smallest=smallest)

        growth = total(view)
        signed = growth if explodes else -growth
        severity = limits.severity(signed, limits.GROWTH)
        edge = _at_the_edge(view, explodes)
        if severity is None and not edge:
            continue
        p = case.p_value(growth, 0.0, total)
        if p >= limits.SIGNIFICANCE:
            continue
        yield _finding(case, growth, explodes, severity or "moderate", p, edge)


def _finding(case: Case, growth: float, explodes: bool, severity: str, p: float, edge: tuple[int, ...]) -> Finding:
    view = case.view
    depth = max(1, view.sites[view.last[0]].depth) if view.last else 1
    rate = growth / depth
    rms = view.values["rms"]
    start = float(rms[view.first])
    with np.errstate(divide="ignore"):
        logs = np.log(np.where(rms > 0, rms, 1e-45) / start)
    beyond = logs >= limits.GROWTH[0] if explodes else logs <= -limits.GROWTH[0]
    layers = tuple(layer for layer in range(len(view.sites)) if beyond[layer] and layer > view.first) or edge
    end = view.best("rms", view.last, smallest=explodes)
    verb = "grows" if explodes else "shrinks"
    evidence: dict[str, Any] = {
        "rms_at_start": start,
        "rms_at_end": end,
        "factor_per_layer": math.exp(rate),
        "depth": depth,
        "limit_of_total_factor": math.exp(limits.GROWTH[0]),
        "p_value": p,
        **_range_layers(view, rate, depth, explodes),
    }
    explanation = (
        f"The size of the signal {verb} by a factor of {math.exp(abs(rate)):.3g} per layer, from {start:.2g} at the "
        f"input "
        f"to {end:.2g} before the readout. "
        + (
            "Loss and gradients scale with it, so every learning rate that moves the weights also makes training "
            "diverge."
            if explodes
            else "The output hardly depends on the input and gradients shrink with it, so no usual learning rate "
            "moves the "
            "weights."
        )
    )
    return Finding(
        "activation-explosion" if explodes else "activation-vanishing",
        severity,
        layers or view.last,
        evidence,
        explanation,
        _REFERENCES,
        prescribe("principled-gain", "scale-branches", "add-layer-norm", "add-batch-norm", "fixup"),
    )


def _at_the_edge(view: View, explodes: bool) -> tuple[int, ...]:
    """Layers within a factor of ten of what their dtype can hold."""
    headroom = view.values["overflow_headroom" if explodes else "underflow_headroom"]
    return tuple(int(layer) for layer in view.hidden if headroom[layer] < limits.WORST_HEADROOM)


def _range_layers(view: View, rate: float, depth: int, explodes: bool) -> dict[str, float]:
    """The depth at which each dtype overflows (underflows) at the present rate."""
    name = "max_abs" if explodes else "rms"
    end = view.best(name, view.last, smallest=explodes)
    if not end > 0 or rate == 0:
        return {}
    depths = {}
    for dtype in _DTYPES:
        info = torch.finfo(getattr(torch, dtype))
        limit = info.max if explodes else info.tiny
        depths[f"depth_of_{dtype}_{'overflow' if explodes else 'underflow'}"] = float(
            max(1, round(depth + (math.log(limit) - math.log(end)) / rate))
        )
    return depths


def _nonfinite(case: Case, layer: int) -> Finding:
    view = case.view
    site = view.sites[layer]
    broken = site.kind == "weight" and not math.isfinite(site.weight_gain)
    before = next((float(r) for r in view.values["rms"][:layer][::-1] if math.isfinite(r)), math.nan)
    what = "its weights are not finite" if broken else f"its input has rms {before:.2g} and its dtype is {site.dtype}"
    return Finding(
        "activation-explosion",
        "severe",
        (layer,),
        {"first_nonfinite_layer": layer, "weights_finite": not broken, "rms_before": before, "dtype": site.dtype},
        f"{site.name!r} is the first layer with values that are not finite: {what}. "
        "Everything after it, and every gradient, is lost.",
        _REFERENCES,
        prescribe("finite-weights") if broken else prescribe("principled-gain", "add-layer-norm"),
    )
