"""A dozen numbers of an examination, for the curves that people log."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isometer.doctor.diagnosis._signal_path import View
from isometer.doctor.probe._examination import Examination


def summarize(examination: Examination) -> dict[str, float]:
    """A dozen numbers of an examination: the end of the signal forward, the gradients back, and the worst units.

    Args:
        examination: what `isometer.probe` gives.

    Returns:
        Numbers by name, nan where there is none; `nonfinite_layer` is −1 if all values are finite.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from isometer.doctor import probe
        >>> found = summarize(probe(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)), torch.randn(8, 4)))
        >>> found["nonfinite_layer"], 0 < found["rms/last"] < 1
        (-1.0, True)
    """
    view = View(examination)
    hidden = view.hidden or tuple(range(len(view.sites)))
    weights = view.weights or tuple(i for i, site in enumerate(view.sites) if site.kind == "weight")
    gradients = view.values["gradient_log_norm"][list(weights)] if weights else np.array([math.nan])
    broken = examination.nonfinite_layer
    return {
        "rms/last": view.best("rms", view.last or hidden, smallest=False),
        "rms/largest": view.best("rms", hidden, smallest=False),
        "mean_abs_cosine/last": view.best("mean_abs_cosine", view.last or hidden, smallest=True),
        "effective_rank/last": view.best("effective_rank", view.last or hidden, smallest=False),
        "gradient_log_norm/first": float(gradients[0]),
        "gradient_log_norm/last": float(gradients[-1]),
        "gradient_growth_per_layer": view.gradient_rate,
        "gradient_alignment/median": _median(view.values["gradient_alignment"]),
        "dead_fraction/largest": view.best("dead_fraction", hidden, smallest=False),
        "saturated_fraction/largest": view.best("saturated_fraction", hidden, smallest=False),
        "weight_gain/median": _median(view.values["weight_gain"]),
        "nonfinite_layer": -1.0 if broken is None else float(broken),
    }


def _median(values: Any) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else math.nan
