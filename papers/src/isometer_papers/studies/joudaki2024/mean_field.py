"""Chapter 3 of the thesis: Gram matrices of finite networks around the fixed point of the mean field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray

from isometer.theory.batch_norm import batch_norm_fixed_point, gram_fluctuations
from isometer_papers.studies._comparisons import surely_less
from isometer_papers.studies._drawing import PALETTE, Figure, band, plain_logs, single_panel
from isometer_papers.studies._readings import log_slope, measured
from isometer_papers.studies._study import Choice, Coordinate, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.mean_field import gram_error_cell
from isometer_papers.theory.mean_field.gram_concentration import concentration_bound

Floats = np.ndarray[Any, Any]


def bound_for(settings: Settings, samples: int, width: int, depth: Any) -> Any:
    """The theorem's bound in its simple form with constant 1, (1 − α)^{1/2} being the slowest local rate at G*."""
    point = batch_norm_fixed_point(settings["activation"], samples)
    mixing = 1 - min(point.rates.largest, 0.999) ** 2
    return concentration_bound(depth, samples, width, condition=point.condition_number, mixing=mixing, simple=True)


def level_for(settings: Settings, samples: int, width: int) -> float:
    """√E‖G − G*‖² in a deep network of this width, to leading order."""
    return float(np.sqrt(gram_fluctuations(settings["activation"], samples, width).total))


# --- figure 3.1 ------------------------------------------------------------------------------------------------------


def draw_amplification(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel()
    for i, network in enumerate(settings["network"]):
        curve = result["error"].sel(network=network, layer=slice(1, None)).transpose("run", "layer")
        band(axis, curve["layer"], curve.values, label=network, index=i, log=True, level=0.9)
    axis.set(xlabel="layer ℓ", ylabel="‖G_ℓ − G*‖_F", yscale="log")
    plain_logs(axis.yaxis)
    axis.legend()
    return figure


def read_amplification(result: xarray.Dataset, settings: Settings) -> Reading:
    """Growth is that from layer 1 to the last; staying is a second half no further away than the first, within 10 %."""
    depth = settings["depth"]
    error = result["error"].transpose("network", "run", "layer")
    plain, normed = error.sel(network="vanilla").values, error.sel(network="batch norm").values
    halves = [normed[:, 5 : depth // 2].mean(1), normed[:, depth // 2 :].mean(1)]
    change = measured(np.log(halves[1] / halves[0]))
    return Reading(
        {
            "distance without batch norm, layer 1": measured(plain[:, 1]),
            "distance without batch norm, last layer": measured(plain[:, -1]),
            "distance with batch norm, second half of the layers": measured(halves[1]),
            "the same, theory": Measured(level_for(settings, settings["samples"], settings["width"])),
        },
        {
            "without batch norm the distance grows with depth": surely_less(plain[:, 1], plain[:, -1]),
            "with batch norm it stays in a neighbourhood": bool(change.value - change.uncertainty <= 0.1),
            "which is the smaller of the two in the end": surely_less(normed[:, -1], plain[:, -1]),
        },
    )


_FIRST = {"activation": "relu", "samples": 5, "width": 1000, "depth": 50, "runs": 10, "input": "gaussian"}
FIGURE_3_1 = Study(
    "001/fig-3.1",
    "distance of the Gram matrix from its mean field over depth, with batch norm and without",
    "Without batch norm the distance from the mean field grows with depth; with it the Gram matrix stays near G*.",
    {"without batch norm": "grows", "with batch norm": "stays in a neighbourhood"},
    gram_error_cell,
    Scale({"network": ["batch norm", "vanilla"]}, _FIRST),
    Scale({"network": ["batch norm", "vanilla"]}, _FIRST),
    draw_amplification,
    read_amplification,
    choices={
        "activation": Choice("ReLU under batch norm", "not stated; the network without is linear",
            {"identity": {"activation": "identity"}, "tanh": {"activation": "tanh"}}),
        "depth": Choice("50 layers", "not stated", {"200 layers": {"depth": 200}}),
        "G* without batch norm": Choice("G_0", "every Gram matrix is a fixed point of the linear mean field"),
        "input": Choice("Gaussian samples", "not stated", {"cosines of 0.8": {"input": "correlated:0.8"}}),
    },
    seconds=(15, 15),
)  # fmt: skip

# --- figure 3.2 ------------------------------------------------------------------------------------------------------


def draw_depth(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel()
    samples, width = settings["samples"], settings["width"]
    curve = _errors(result).sel(layer=slice(1, None)).transpose("run", "layer")
    layers = curve["layer"].values
    band(axis, layers, curve.values, label="simulated", log=True)
    axis.plot(layers, bound_for(settings, samples, width, layers), "--", color=PALETTE[1], label="bound, constant 1")
    axis.axhline(level_for(settings, samples, width), color=PALETTE[2], linestyle=":", label="theory, deep network")
    axis.set(xlabel="layer ℓ", ylabel="‖G_ℓ − G*‖_F", yscale="log")
    axis.set_xticks([1, 5, 10, 15, 20])
    plain_logs(axis.yaxis)
    axis.legend(loc="upper right")
    return figure


def read_depth(result: xarray.Dataset, settings: Settings) -> Reading:
    """The fall is exponential if its logarithm, down to twice the last level, is a line with R² above 0.95."""
    samples, width = settings["samples"], settings["width"]
    error = _errors(result).transpose("run", "layer").values
    mean = error.mean(0)
    half = len(mean) // 2
    level = mean[half:].mean()
    stop = int(np.argmax(mean < 2 * level))
    layers = np.arange(1, max(stop, 1) + 1)
    numbers = {
        "distance, layer 1": measured(error[:, 1]),
        "distance, second half of the layers": measured(error[:, half:].mean(1)),
        "the same, theory": Measured(level_for(settings, samples, width)),
    }
    falling: bool | None = None
    if len(layers) >= 3:
        slopes = np.array([np.polyfit(layers, np.log(run[layers]), 1)[0] for run in error])
        numbers["factor per layer while it falls"] = measured(np.exp(slopes))
        falling = bool(np.corrcoef(layers, np.log(mean[layers]))[0, 1] ** 2 > 0.95 and slopes.mean() < 0)
    every = np.arange(1, len(mean))
    below = error[:, 1:] <= bound_for(settings, samples, width, every)
    numbers["rate at G* in theory"] = Measured(batch_norm_fixed_point(settings["activation"], samples).rates.largest)
    return Reading(
        numbers,
        {
            "the distance falls with depth": surely_less(error[:, half:].mean(1), error[:, 1]),
            "at an exponential rate": falling,
            "and ends within 20 % of the level that theory has for deep networks": _near(
                error, numbers["the same, theory"]
            ),
            "the bound with constant 1 lies above": bool(below.all()),
        },
        "The theorem leaves its constant and α open; drawn is κ(G*)(ρ^ℓ + n/√d), ρ the slowest local rate at G*.",
    )


def _near(error: Floats, level: Measured) -> bool:
    """Whether the last quarter of the layers is at a level, within 20 %."""
    quarter = max(error.shape[1] // 4, 1)
    return bool(abs(np.log(error[:, -quarter:].mean() / level.value)) <= 0.2)


def _errors(result: xarray.Dataset) -> xarray.DataArray:
    return result["error"].sel(network="batch norm")


_DEEP = {"activation": "relu", "depth": 20, "runs": 10}
FIGURE_3_2 = Study(
    "001/fig-3.2",
    "distance of the Gram matrix from the fixed point over depth, under batch norm",
    "The distance falls with depth at an exponential rate to a level of order n/√d; a dashed line is the bound.",
    {"distance": "falls, then a level below the bound"},
    gram_error_cell,
    Scale({"network": ["batch norm"]}, {**_DEEP, "samples": 10, "width": 1000, "input": "power-law:3"}),
    Scale({"network": ["batch norm"]}, {**_DEEP, "samples": 10, "width": 1000, "input": "power-law:3"}),
    draw_depth,
    read_depth,
    choices={
        "input": Choice("a batch whose Gram matrix has eigenvalues like k^−3",
            "not stated; independent samples are near G* from the first layer on, and nothing falls",
            {"Gaussian samples": {"input": "gaussian"}}),
        "activation": Choice("ReLU", "not stated", {"tanh": {"activation": "tanh"}}),
        "runs": Choice("10", "as in the first figure of the chapter"),
    },
    seconds=(10, 10),
)  # fmt: skip

# --- figures 3.3 and 3.4 ---------------------------------------------------------------------------------------------


def _last(result: xarray.Dataset, settings: Settings, axis: str) -> Floats:
    return np.asarray(_errors(result).sel(layer=settings["depth"]).transpose("run", axis).values)


def _draw_scaling(
    result: xarray.Dataset, settings: Settings, name: str, bounds: list[float], theory: list[float]
) -> Figure:
    figure, axis = single_panel()
    values, places = _last(result, settings, name), np.asarray(settings[name], dtype=float)
    band(axis, places, values, label="simulated", log=True)
    axis.plot(places, theory, ":", color=PALETTE[2], marker="o", markersize=4, label="theory, deep network")
    axis.plot(places, bounds, "--", color=PALETTE[1], label="bound, constant 1")
    axis.set(ylabel=f"‖G_ℓ − G*‖_F, ℓ = {settings['depth']}", yscale="log")
    plain_logs(axis.yaxis)
    return figure


def draw_width(result: xarray.Dataset, settings: Settings) -> Figure:
    n = settings["samples"]
    bounds = [bound_for(settings, n, d, settings["depth"]) for d in settings["width"]]
    theory = [level_for(settings, n, d) for d in settings["width"]]
    figure = _draw_scaling(result, settings, "width", bounds, theory)
    axis = figure.axes[0]
    axis.set(xscale="log", xlabel="width d")
    axis.set_xticks(settings["width"], [str(d) for d in settings["width"]])
    axis.minorticks_off()
    axis.legend()
    return figure


def read_width(result: xarray.Dataset, settings: Settings) -> Reading:
    values = _last(result, settings, "width")
    slope = log_slope(settings["width"], values)
    straightness = np.corrcoef(np.log(settings["width"]), np.log(values).mean(0))[0, 1] ** 2
    return Reading(
        {
            "slope": slope,
            "R² of the line": Measured(float(straightness)),
            f"distance at d = {settings['width'][-1]}": measured(values[:, -1]),
            "the same, theory": Measured(level_for(settings, settings["samples"], settings["width"][-1])),
        },
        {
            "the distance is a straight line in log–log": bool(straightness > 0.98),
            "of slope −1/2, within 0.05 and chance": bool(abs(slope.value + 0.5) <= 0.05 + slope.uncertainty),
        },
    )


_INPUT = Choice("Gaussian samples", "not stated; after 20 layers the input is forgotten",
    {"eigenvalues like k^−3": {"input": "power-law:3"}})  # fmt: skip
_PHI = Choice("ReLU", "not stated", {"tanh": {"activation": "tanh"}})
_WIDTHS: dict[str, Sequence[Coordinate]] = {"width": [50, 100, 200, 500, 1000], "network": ["batch norm"]}
FIGURE_3_3 = Study(
    "001/fig-3.3",
    "distance of the Gram matrix from the fixed point against the width, at layer 20",
    "On logarithmic axes the distance falls like 1/√d: the second term of the bound dominates.",
    {"slope": -0.5},
    gram_error_cell,
    Scale(_WIDTHS, {**_DEEP, "samples": 10, "input": "gaussian"}),
    Scale(_WIDTHS, {**_DEEP, "samples": 10, "input": "gaussian"}),
    draw_width,
    read_width,
    choices={"input": _INPUT, "activation": _PHI, "runs": Choice("10", "as in the first figure of the chapter",
        {"40 runs": {"runs": 40}})},
    seconds=(10, 10),
)  # fmt: skip


def draw_samples(result: xarray.Dataset, settings: Settings) -> Figure:
    d = settings["width"]
    bounds = [bound_for(settings, n, d, settings["depth"]) for n in settings["samples"]]
    theory = [level_for(settings, n, d) for n in settings["samples"]]
    figure = _draw_scaling(result, settings, "samples", bounds, theory)
    axis = figure.axes[0]
    axis.set(xlabel="samples n")
    axis.set_xticks(settings["samples"])
    axis.legend(loc="lower right")
    return figure


def read_samples(result: xarray.Dataset, settings: Settings) -> Reading:
    values, d = _last(result, settings, "samples"), settings["width"]
    slope = log_slope(settings["samples"], values)
    bounds = np.array([bound_for(settings, n, d, settings["depth"]) for n in settings["samples"]])
    steps = [surely_less(values[:, i], values[:, i + 1]) for i in range(values.shape[1] - 1)]
    return Reading(
        {
            "exponent in n": slope,
            f"distance at n = {settings['samples'][-1]}": measured(values[:, -1]),
            "the same, theory": Measured(level_for(settings, settings["samples"][-1], d)),
            "bound with constant 1 over distance, smallest": Measured(float((bounds / values).min())),
        },
        {
            "the distance grows with the batch": all(steps),
            "the bound with constant 1 lies above": bool((values <= bounds).all()),
        },
    )


_SAMPLES: dict[str, Sequence[Coordinate]] = {"samples": [10, 20, 30, 40, 50], "network": ["batch norm"]}
FIGURE_3_4 = Study(
    "001/fig-3.4",
    "distance of the Gram matrix from the fixed point against the batch size, at layer 20",
    "The distance grows with the batch size, below the bound, which is drawn dashed.",
    {"distance": "grows with n, below the bound"},
    gram_error_cell,
    Scale(_SAMPLES, {**_DEEP, "width": 1000, "input": "gaussian"}),
    Scale(_SAMPLES, {**_DEEP, "width": 1000, "input": "gaussian"}),
    draw_samples,
    read_samples,
    choices={"input": _INPUT, "activation": _PHI,
        "constant of the bound": Choice("1", "the theorem does not give it")},
    seconds=(20, 20),
)  # fmt: skip

STUDIES: tuple[Study, ...] = (FIGURE_3_1, FIGURE_3_2, FIGURE_3_3, FIGURE_3_4)
