"""Figure 6 of paper 003: fluctuations of Gram matrices against the width, for several activations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import xarray

from isometer_papers.studies._comparisons import surely_less
from isometer_papers.studies._drawing import PALETTE, Figure, single_panel
from isometer_papers.studies._readings import log_slope, mean_interval
from isometer_papers.studies._study import Choice, Coordinate, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.stationarity import stationary_distance_cell

_MARKERS = "os^Dv"
COINCIDE = "the curves of different activations coincide"


def draw_conjecture(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel(width=5.2)
    widths = np.log(np.asarray(settings["width"], dtype=float))
    for i, activation in enumerate(settings["activation"]):
        mean, half = mean_interval(np.log(_averages(result, activation)))
        style = {"color": PALETTE[i], "marker": _MARKERS[i % len(_MARKERS)], "capsize": 2, "markersize": 5}
        axis.errorbar(widths, mean, half, label=activation, linewidth=1.2, **style)
    low = np.log(_averages(result, settings["activation"][0])).mean()
    axis.plot(widths, low + 0.35 - 0.5 * (widths - widths.mean()), ":", color="#444444", label="slope −1/2")
    axis.set(xlabel="log d", ylabel=f"log of L(Q) averaged over {settings['depth']} layers")
    axis.legend(fontsize=8)
    return figure


def read_conjecture(result: xarray.Dataset, settings: Settings) -> Reading:
    """An exponent is about −1/2 if it is within 0.05; curves coincide if none is surely lower at the largest width."""
    numbers: dict[str, Measured] = {}
    statements: dict[str, bool | None] = {}
    for activation in settings["activation"]:
        slope = log_slope(settings["width"], _averages(result, activation))
        numbers[f"slope, {activation}"] = slope
        statements[f"{activation}: L falls like 1/√d"] = bool(abs(slope.value + 0.5) <= 0.05 + slope.uncertainty)
    last = {activation: _averages(result, activation)[:, -1] for activation in settings["activation"]}
    statements[COINCIDE] = not any(
        surely_less(last[one], last[other]) or surely_less(last[other], last[one])
        for one, other in combinations(last, 2)
    )
    for activation, values in last.items():
        numbers[f"averaged L at d = {settings['width'][-1]}, {activation}"] = Measured(
            *(float(part) for part in mean_interval(values))
        )
        if len(settings["width"]) >= 5:
            wide = log_slope(settings["width"][2:], _averages(result, activation)[:, 2:])
            numbers[f"slope from d = {settings['width'][2]} on, {activation}"] = wide
        cosine = float(result["off_diagonal"].sel(activation=activation).isel(width=0)) * settings["samples"]
        numbers[f"mean cosine at d = {settings['width'][0]}, {activation}"] = Measured(cosine)
    return Reading(numbers, statements, _told(result))


def _told(result: xarray.Dataset) -> str:
    """How far the means of independent chains are apart, and why where that is far."""
    worst = result["apart"].isel(result["apart"].argmax(...))
    told = f"The means of independent chains differ by up to {float(worst):.2g} per entry "
    told += f"({worst['activation'].item()}, d = {worst['width'].item()})."
    if worst["activation"].item() == "relu" and float(worst) > 0.05:
        told += (
            " There the chain has no unique invariant law: a sample with d negative entries is zero after ReLU "
            "and stays so, which happens once in about 2^d layers."
        )
    return told


def _averages(result: xarray.Dataset, activation: str) -> np.ndarray[Any, Any]:
    return np.asarray(result["average"].sel(activation=activation).transpose("run", "width").values)


_GRID: dict[str, Sequence[Coordinate]] = {
    "activation": ["relu", "sigmoid", "tanh", "sin"],
    "width": [16, 32, 64, 128, 256],
}
FIGURE_6 = Study(
    "003/fig-6",
    "distance of Gram matrices from their stationary mean against the width, four activations",
    "On logarithmic axes the distance, averaged over 1000 layers, falls on straight lines in the width, for ReLU, "
    "sigmoid and tanh; their differences are said to be too small to be seen.",
    {
        "slope, relu": -0.5,
        "slope, sigmoid": -0.5,
        "slope, tanh": -0.5,
        "slope, sin": -0.5,
        "curves": "coincide",
    },
    stationary_distance_cell,
    Scale(
        _GRID,
        {"samples": 4, "depth": 250, "runs": 8, "reference": 1000, "chains": 4},
        "250 layers instead of 1000, 4 chains of 1000 layers for the mean",
    ),
    Scale(_GRID, {"samples": 4, "depth": 1000, "runs": 10, "reference": 5000, "chains": 4}),
    draw_conjecture,
    read_conjecture,
    choices={
        "samples": Choice("n = 4", "the public code has it", {"n = 8": {"samples": 8}}),
        "sigmoid": Choice(
            "1/(1 + e^−x)",
            "the text says sigmoid; the public code has tanh(x) + 1 under that name",
            {"tanh(x) + 1": {"activation": ["relu", "tanh(x)+1", "tanh", "sin"]}},
        ),
        "normalisation": Choice("QᵀQ/d", "the public code has it; QᵀQ itself would grow like √d"),
        "runs": Choice("10 runs, and 4 chains for the stationary mean", "the paper has no intervals"),
    },
    because={
        COINCIDE: "The curve of the sigmoid lies apart. The public notebook draws the same list, that of the "
        "last activation (sin), under all four names.",
        "sigmoid: L falls like 1/√d": "At small widths the samples of the sigmoid network nearly coincide (see the "
        "mean cosine at the smallest), which leaves little room for L; the slope of the wider ones is closer to −1/2.",
    },
    seconds=(40, 150),
)

STUDIES = (FIGURE_6,)
