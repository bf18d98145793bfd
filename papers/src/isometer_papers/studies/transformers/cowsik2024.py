"""The phase boundary and the two exponents of Cowsik et al. 2024."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import xarray

from isometer_papers.studies._drawing import PALETTE, Figure, new_figure
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.transformers import exponents_cell

_NETWORK = (
    "gpt(blocks=2, width=64, heads=8, tokens=32, hidden={hidden}, norm='post', activation='tanh', branch={branch}, "
    "mlp_gain={gain}, causal=False)"
)
LINE = "without MLPs tokens collapse to a line at any branch factor"
TRANSITION = "MLPs bring an order–chaos transition: the angle exponent changes sign once along the gain"
ORDERED = "a negative angle exponent means collapse, a positive one a simplex of distinct tokens"
GRADIENTS = "the gradient exponent changes sign too"
TOGETHER = "both exponents vanish at the same gain, to 5 %"


def crossing(x: np.ndarray, y: np.ndarray) -> float | None:
    """Where a curve passes through zero, by straight lines; None if it does not.

    Example:
        >>> crossing(np.array([1.0, 2.0]), np.array([-1.0, 1.0]))
        1.5
    """
    for (a, low), (b, high) in pairwise(zip(x.tolist(), y.tolist(), strict=True)):
        if low < 0.0 <= high or high < 0.0 <= low:
            return float(a + (b - a) * low / (low - high))
    return None


def draw_exponents(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(2, width=4.4, height=3.8)
    for i, branch in enumerate(settings["branch"]):
        rows = result.sel(branch=branch, hidden=256)
        for axis, name in zip(axes.flat, ("angle", "gradient"), strict=False):
            axis.plot(settings["gain"], rows[name], color=PALETTE[i], marker=".", label=f"branch factor {branch:g}")
            axis.axhline(0.0, color="#888888", linewidth=0.8)
            axis.set(xscale="log", xlabel="gain of the MLP", ylabel=f"{name} exponent per block")
    axes.flat[0].legend(fontsize=8)
    return figure


def read_exponents(result: xarray.Dataset, settings: Settings) -> Reading:
    """Signs and crossings along the gain; a collapse is a cosine above 1 − 1e-3 in the steady state."""
    gains = np.asarray(settings["gain"], dtype=float)
    numbers: dict[str, Measured] = {}
    seen: dict[str, list[bool]] = {LINE: [], TRANSITION: [], ORDERED: [], GRADIENTS: [], TOGETHER: []}
    for branch in settings["branch"]:
        bare, rows = (result.sel(branch=branch, hidden=hidden) for hidden in (0, 256))
        seen[LINE].append(bool((bare["angle"] < 0).all()) and bool((bare["cosine"] > 1 - 1e-3).all()))
        known = np.isfinite(rows["angle"].values)  # close to the transition no state is steady within 400 blocks
        at = gains[known]
        angle, gradient, cosine = (rows[name].values[known] for name in ("angle", "gradient", "cosine"))
        seen[TRANSITION].append(int((np.diff(np.sign(angle)) != 0).sum()) == 1)
        agree = (cosine > 1 - 1e-3) == (angle < 0)  # it is read off after 400 blocks at most
        seen[ORDERED].append(bool(agree.all()))
        forward, backward = crossing(at, angle), crossing(at, gradient)
        seen[GRADIENTS].append(backward is not None)
        if forward is not None:
            numbers[f"gain at which the angle exponent vanishes, branch {branch:g}"] = Measured(forward)
        if backward is not None:
            numbers[f"gain at which the gradient exponent vanishes, branch {branch:g}"] = Measured(backward)
        if forward is not None and backward is not None:
            seen[TOGETHER].append(abs(forward / backward - 1) < 0.05)
    return Reading(numbers, {name: all(found) if found else None for name, found in seen.items()})


_GAINS = [round(float(g), 3) for g in np.geomspace(0.5, 8.0, 17)]
EXPONENTS = Study(
    "007/exponents",
    "angle and gradient exponent against the gain of the MLP",
    "Without MLPs tokens collapse to a line. With MLPs there is an order–chaos transition; two exponents, of angles "
    "and of gradients, say on which side a network is, and training is best where both vanish.",
    {"transition": "one", "best training": "both exponents zero"},
    exponents_cell,
    Scale({"branch": [0.3, 0.7], "hidden": [0, 256], "gain": _GAINS}, {"network": _NETWORK}, "two branch factors"),
    Scale({"branch": [0.1, 0.3, 0.5, 0.7, 1.0], "hidden": [0, 256], "gain": _GAINS}, {"network": _NETWORK}),
    draw_exponents,
    read_exponents,
    choices={
        "norm": Choice("after each sum", "with the norm before the branch nothing grows exponentially with depth"),
        "activation": Choice("tanh", "ReLU has no chaotic phase: its angle exponent is never positive here"),
    },
    because={
        TOGETHER: "Both lines cross zero, but at different gains: along this axis alone no network has both. Two "
        "numbers must be tuned for that.",
        GRADIENTS: "Within these gains it keeps its sign.",
    },
    seconds=(60.0, 200.0),
)
STUDIES = (EXPONENTS,)
