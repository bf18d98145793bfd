"""The scale of the signal, and the numbers a dtype can hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from isometer.doctor.conditions._condition import Condition
from isometer.doctor.diagnosis.checks._case import SIGNIFICANCE, Case, Sign

if TYPE_CHECKING:
    from isometer.doctor.diagnosis._signal_path import View

_DTYPES = ("float16", "bfloat16", "float32")
_WORST_HEADROOM = 1.0  # factors of ten below a dtype's largest number, or above its smallest normal one


def activation_explosion(case: Case, condition: Condition) -> Iterator[Sign]:
    """`activation-explosion`: the rms grows from the input to the readout, or leaves the numbers that there are."""
    lost = case.view.examination.nonfinite_layer
    if lost is not None:
        yield _nonfinite(case, lost)
    else:
        yield from _growth(case, condition, explodes=True)


def activation_vanishing(case: Case, condition: Condition) -> Iterator[Sign]:
    """`activation-vanishing`: the rms shrinks from the input to the readout."""
    if case.view.examination.nonfinite_layer is None:  # what follows values that are not finite says nothing
        yield from _growth(case, condition, explodes=False)


def _growth(case: Case, condition: Condition, explodes: bool) -> Iterator[Sign]:
    """Total change of the rms in one direction; of several last sites the one that is least far gone counts."""
    view, limits = case.view, condition.limits

    def total(view: View) -> float:
        return view.growth(smallest=explodes)

    growth = total(view)
    severity = limits.severity(growth if explodes else -growth)
    edge = _at_the_edge(view, explodes)
    if severity is None and not edge:
        return
    p = case.p_value(growth, 0.0, total)
    if p >= SIGNIFICANCE:
        return
    depth = max(1, view.sites[view.last[0]].depth) if view.last else 1
    rate = growth / depth
    rms = view.values["rms"]
    start = float(rms[view.first])
    with np.errstate(divide="ignore"):
        logs = np.log(np.where(rms > 0, rms, 1e-45) / start)  # what underflowed counts as the smallest float32
    beyond = logs >= limits.moderate if explodes else logs <= -limits.moderate
    layers = tuple(layer for layer in range(len(view.sites)) if beyond[layer] and layer > view.first) or edge
    end = view.best("rms", view.last, smallest=explodes)
    evidence: dict[str, Any] = {
        "rms_at_start": start,
        "rms_at_end": end,
        "factor_per_layer": math.exp(rate),
        "depth": depth,
        "limit_of_total_factor": math.exp(limits.moderate),
        "p_value": p,
        **_range_layers(view, rate, depth, explodes),
    }
    yield Sign(
        severity or "moderate",
        layers or view.last,
        evidence,
        f"The size of the signal {'grows' if explodes else 'shrinks'} by a factor of {math.exp(abs(rate)):.3g} per "
        f"layer, from {start:.2g} at the input to {end:.2g} before the readout.",
    )


def _at_the_edge(view: View, explodes: bool) -> tuple[int, ...]:
    """Layers within a factor of ten of what their dtype can hold."""
    headroom = view.values["overflow_headroom" if explodes else "underflow_headroom"]
    return tuple(int(layer) for layer in view.hidden if headroom[layer] < _WORST_HEADROOM)


def _range_layers(view: View, rate: float, depth: int, explodes: bool) -> dict[str, float]:
    """The depth at which each dtype overflows (underflows) at the present rate."""
    import torch

    name = "max_abs" if explodes else "rms"  # one entry overflows first; the typical one must be lost to underflow
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


def _nonfinite(case: Case, layer: int) -> Sign:
    view = case.view
    site = view.sites[layer]
    # Weights that are not finite are the cause; finite ones met a signal that had grown too large before them.
    broken = site.kind == "weight" and not math.isfinite(site.weight_gain)
    before = next((float(r) for r in view.values["rms"][:layer][::-1] if math.isfinite(r)), math.nan)
    what = "its weights are not finite" if broken else f"its input has rms {before:.2g} and its dtype is {site.dtype}"
    return Sign(
        "severe",
        (layer,),
        {"first_nonfinite_layer": layer, "weights_finite": not broken, "rms_before": before, "dtype": site.dtype},
        f"{site.name!r} is the first layer with values that are not finite: {what}.",
        variant="broken-weights" if broken else "overflow",
    )
