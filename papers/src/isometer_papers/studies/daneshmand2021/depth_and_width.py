"""Figures 1 and 2 of paper 003: orthogonality over depth and width; chapter 2 of the thesis has them again."""

from __future__ import annotations

import numpy as np
import xarray

from isometer_papers.studies._comparisons import surely_less
from isometer_papers.studies._drawing import Figure, band, plain_logs, single_panel
from isometer_papers.studies._published import told_by
from isometer_papers.studies._readings import log_slope, measured
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.orthogonality import average_gap_cell, cosine_cell, gap_cell
from isometer_papers.studies.daneshmand2021.published import COSINES, LOG_GAPS

# --- figure 1 ------------------------------------------------------------


def draw_cosine(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel()
    for i, network in enumerate(settings["network"]):
        curve = result["cosine"].sel(network=network).transpose("run", "layer")
        band(axis, curve["layer"], curve.values, label=network, index=i)
        COSINES[network].draw(axis, i)
    told_by(axis)
    axis.set(xlabel="layer", ylabel="|cos| of two samples", ylim=(-0.02, 1.02))
    axis.legend(loc="center right")
    return figure


def read_cosine(result: xarray.Dataset, settings: Settings) -> Reading:
    first = result["cosine"].sel(layer=1)
    last = result["cosine"].sel(layer=settings["depth"])
    means = result["cosine"].mean("run")
    apart = {
        f"distance from the published curve, {network}": COSINES[network].distance(
            means["layer"].values, means.sel(network=network).values
        )
        for network in settings["network"]
    }
    return Reading(
        {
            **apart,
            "|cos| with batch norm, layer 1": measured(first.sel(network="batch norm")),
            "|cos| with batch norm, last layer": measured(last.sel(network="batch norm")),
            "|cos| without, last layer": measured(last.sel(network="vanilla")),
        },
        {
            "with batch norm samples become orthogonal": surely_less(
                last.sel(network="batch norm"), first.sel(network="batch norm")
            ),
            "without it they align": surely_less(first.sel(network="vanilla"), last.sel(network="vanilla")),
        },
    )


FIGURE_1 = Study(
    "003/fig-1",
    "|cos| of two samples over depth, with batch norm and without",
    "Nearly equal samples become orthogonal in a linear network with batch norm; orthogonal ones align without it.",
    {"with batch norm": "falls towards 0", "without": "rises towards 1"},
    cosine_cell,
    Scale({"network": ["batch norm", "vanilla"]}, {"width": 32, "depth": 50, "runs": 20, "nearness": 1e-3}),
    Scale({"network": ["batch norm", "vanilla"]}, {"width": 32, "depth": 50, "runs": 20, "nearness": 1e-3}),
    draw_cosine,
    read_cosine,
    choices={
        "inputs": Choice(
            "e₁ and (1 − ε)e₁ + εe₂ with ε = 0.001; e₁ and e₂ without batch norm",
            "the paper says highly correlated and orthogonal; its public code has these",
            {"ε = 0.1": {"nearness": 0.1}},
        ),
        "depth": Choice("50 layers", "the axis of the figure", {"100 layers": {"depth": 100}}),
    },
    seconds=(2, 2),
)

# --- figure 2 ------------------------------------------------------------


def draw_gap(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel()
    for i, width in enumerate(settings["width"]):
        curve = result["orthogonality_gap"].sel(width=width).transpose("run", "layer")
        band(axis, curve["layer"], np.log(curve.values), label=f"d = {width}", index=i)
        if width in LOG_GAPS:
            LOG_GAPS[width].draw(axis, i)
    if any(width in LOG_GAPS for width in settings["width"]):
        told_by(axis)
    axis.set(xlabel="layer ℓ", ylabel="log V(H_ℓ)")
    axis.legend()
    return figure


def read_gap(result: xarray.Dataset, settings: Settings) -> Reading:
    """The straight part of log V is from 0.1 below its first value to 0.3 above the level of the second half."""
    numbers: dict[str, Measured] = {}
    levels, stops, straight, flat = [], list[int](), True, True
    for width in settings["width"]:
        logs = np.log(result["orthogonality_gap"].sel(width=width).transpose("run", "layer").values)
        mean = logs.mean(0)
        half = len(mean) // 2
        level = logs[:, half:].mean(1)
        levels.append(level)
        stop = int(np.argmax(mean < level.mean() + 0.3))
        stops.append(stop)
        start = int(np.argmax(mean < mean[0] - 0.1))
        layers = np.arange(start, max(stop, start + 3))
        fit = np.polynomial.Polynomial.fit(layers, mean[layers], 1)
        explained = 1 - np.var(mean[layers] - fit(layers)) / np.var(mean[layers])
        slope = np.array([np.polyfit(layers, run[layers], 1)[0] for run in logs])
        numbers[f"slope of log V, d = {width}"] = measured(slope)
        if width in LOG_GAPS:
            layers_there = result["layer"].values
            numbers[f"distance from the published curve, d = {width}"] = LOG_GAPS[width].distance(layers_there, mean)
        numbers[f"layer at which the plateau begins, d = {width}"] = Measured(float(stop))
        straight &= bool(explained > 0.9 and slope.mean() < 0)
        drift = logs[:, half:].mean(1) - logs[:, -len(mean) // 4 :].mean(1)
        flat &= bool(abs(measured(drift).value) < max(measured(drift).uncertainty, 0.1))
    return Reading(
        numbers,
        {
            "log V falls on a straight line at first": straight,
            "until about layer 20, between 10 and 30": all(10 <= stop <= 30 for stop in stops),
            "then it fluctuates around a constant": flat,
            "which is lower for a wider network": surely_less(levels[-1], levels[0]),
        },
    )


_GAP = {"samples": 4, "depth": 50, "runs": 20, "small": 1e-6}
FIGURE_2A = Study(
    "003/fig-2a",
    "log of the orthogonality gap over depth",
    "The gap falls on a straight line in log scale for about twenty layers and then fluctuates around a constant.",
    {"plateau": "from about layer 20 on"},
    gap_cell,
    Scale({"width": [32, 512]}, _GAP),
    Scale({"width": [32, 512]}, _GAP),
    draw_gap,
    read_gap,
    choices={
        "inputs": Choice(
            "4 samples on the axes, of lengths 1 and 1e-6",
            "the public code has these",
            {"lengths 1 and 1e-3": {"small": 1e-3}, "8 samples": {"samples": 8}},
        )
    },
    seconds=(2, 2),
)


def draw_average(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel()
    widths = np.asarray(settings["width"], dtype=float)
    values = result["average_gap"].transpose("run", "width").values
    band(axis, widths, values, label="simulated", log=True)
    slope = log_slope(widths, values)
    middle = np.exp(np.log(values).mean())
    line = middle * (widths / np.exp(np.log(widths).mean())) ** slope.value
    label = f"slope {slope.value:.3f} ± {slope.uncertainty:.3f}".replace("-", "−")
    axis.plot(widths, line, "--", color="#444444", label=label)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="width d",
        ylabel=f"V averaged over layers {settings['first']} to {settings['depth']}",
    )
    axis.set_xticks(widths, [f"{int(w)}" for w in widths])
    axis.minorticks_off()
    plain_logs(axis.yaxis)
    axis.legend()
    return figure


def read_average(result: xarray.Dataset, settings: Settings) -> Reading:
    """The printed slope has two digits and comes from as many runs: rounding and both intervals may lie between."""
    values = result["average_gap"].transpose("run", "width").values
    slope = log_slope(settings["width"], values)
    straightness = np.corrcoef(np.log(settings["width"]), np.log(values).mean(0))[0, 1] ** 2
    allowed = 0.005 + np.sqrt(2) * slope.uncertainty
    return Reading(
        {"slope": slope, "R² of the line": Measured(float(straightness))},
        {
            "the averaged gap is a straight line in log–log": bool(straightness > 0.99),
            "its slope is −0.46, up to rounding and chance": bool(abs(slope.value + 0.46) <= allowed),
            "which is close to −1/2, within 0.05": bool(abs(slope.value + 0.5) <= 0.05),
        },
        "The average has the first layers in it, where the gap is large whatever the width; they make the line flatter "
        "than −1/2 (see the variant with equal lengths, and 001/fig-2.2b, which leaves them out).",
    )


_WIDTHS = [16, 32, 64, 128, 256, 512]
_AVERAGE = {"samples": 4, "depth": 500, "first": 1, "runs": 20, "small": 1e-6}
FIGURE_2B = Study(
    "003/fig-2b",
    "orthogonality gap averaged over 500 layers against the width",
    "On logarithmic axes the averaged gap is a straight line in the width, of slope −0.46, close to −1/2.",
    {"slope": -0.46},
    average_gap_cell,
    Scale({"width": _WIDTHS}, _AVERAGE),
    Scale({"width": _WIDTHS}, _AVERAGE),
    draw_average,
    read_average,
    choices={
        "samples": Choice("n = 4", "the public code has it", {"n = 8": {"samples": 8}}),
        "inputs": Choice("lengths 1 and 1e-6", "the public code has them", {"equal lengths": {"small": 1.0}}),
    },
    seconds=(20, 20),
)

STUDIES = (FIGURE_1, FIGURE_2A, FIGURE_2B)
