"""Studies of 002 that average over depth: figures 2, 4, 9 and 10."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xarray

from isometer_papers.studies._drawing import PALETTE, Figure, plain_logs, single_panel
from isometer_papers.studies._study import Choice, Draw, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.rank_chains import average_cell
from isometer_papers.studies.daneshmand2020.labels import MARKERS, gamma_label

# --- averages over depth: figures 2, 4, 9 and 10 ------------------------------------------------------------


def _curves(result: xarray.Dataset, gamma: float, metric: str) -> tuple[Any, Any]:
    chosen = result.sel(gamma=gamma, metric=metric)
    return chosen["mean"].values, chosen["standard_error"].values


def _draw_averages(axis: Any, result: xarray.Dataset, settings: Settings, metric: str) -> None:
    for i, gamma in enumerate(settings["gamma"]):
        mean, error = _curves(result, gamma, metric)
        axis.errorbar(
            settings["width"],
            mean,
            2 * error,
            color=PALETTE[i],
            marker=MARKERS[i],
            markersize=4,
            label=gamma_label(gamma),
        )


def _power_axes(axis: Any, settings: Settings, **labels: str) -> None:
    axis.set(xscale="log", yscale="log", xlabel="width d", **labels)
    axis.set_xticks(settings["width"], [str(width) for width in settings["width"]])
    axis.minorticks_off()
    plain_logs(axis.yaxis)


def _exponent(settings: Settings, mean: Any, error: Any) -> Measured:
    """d log(mean)/d log(width) by weighted least squares; 95 %."""
    # 1e-6: a point without error would take all the weight
    x, y, spread = np.log(np.asarray(settings["width"], dtype=float)), np.log(mean), np.maximum(error / mean, 1e-6)
    design = np.stack([np.ones_like(x), x], 1) / spread[:, None]
    covariance = np.linalg.inv(design.T @ design)
    # the interval widens where points scatter by more than their errors
    scatter = max(1.0, float(np.linalg.norm(y / spread - design @ (covariance @ design.T @ (y / spread)))))
    freedom = max(1, len(x) - 2)
    return Measured(
        float((covariance @ design.T @ (y / spread))[1]),
        1.96 * math.sqrt(float(covariance[1, 1])) * max(1.0, scatter / math.sqrt(freedom)),
    )


def _draw_against(metric: str, ylabel: str, power: float, label: str) -> Draw:
    """Averages over depth against the width, both logarithmic, beside a power of the width."""

    def draw(result: xarray.Dataset, settings: Settings) -> Figure:
        figure, axis = single_panel(width=5.2)
        _draw_averages(axis, result, settings, metric)
        widths = np.asarray(settings["width"], dtype=float)
        axis.plot(widths, widths**power, "--", color="#444444", label=label)
        _power_axes(axis, settings, ylabel=ylabel)
        axis.legend()
        return figure

    return draw


def read_soft_ranks(result: xarray.Dataset, settings: Settings) -> Reading:
    numbers, grows = {}, True
    for gamma in settings["gamma"]:
        mean, error = _curves(result, gamma, "soft_rank")
        power = _exponent(settings, mean, error)
        numbers[f"exponent of d, {gamma_label(gamma)}"] = power
        grows &= power.value + power.uncertainty >= 0.5
    widest = int(max(settings["width"]))
    done = result["layers_done"].sel(width=widest).min()
    error = result["standard_error"].sel(width=widest, metric="soft_rank").max()
    return Reading(
        numbers | {f"largest standard error at d = {widest}": Measured(float(error))},
        {
            "for every γ the soft rank grows at least like √d": bool(grows),
        },
        f"At d = {widest} {int(done)} of {settings['layers']} layers were averaged over.",
    )


_GAMMAS = [0.1, 1.0, math.inf]
_CHOICES = {
    "γ": Choice("0.1, 1 and ∞ (no skip)", "the values are not listed", {"γ = 0.3 and 3": {"gamma": [0.3, 3.0]}}),
}
_LESS = (
    "the {layers} layers are run as 8 chains side by side (4 for d = 256), fewer of them for wide networks, and wide "
    "networks are measured at one layer in d/16: the errors say what remains"
)
FIGURE_2 = Study(
    "002/fig-2",
    "soft rank averaged over depth against the width, linear networks with batch norm",
    "For every γ, no skip included, the average of rank₁/₂ over 10⁶ layers grows at least like √d.",
    {"growth": "at least √d for every γ"},
    average_cell,
    Scale(
        {"width": [8, 16, 32, 64], "gamma": _GAMMAS},
        {"activation": "identity", "layers": 20_000, "work": 20_000},
        "up to 20 000 layers, widths to 64",
    ),
    Scale(
        {"width": [8, 16, 32, 64, 128, 256], "gamma": _GAMMAS},
        {"activation": "identity", "layers": 1_000_000, "work": 1_000_000},
        _LESS.format(layers="10⁶"),
    ),
    _draw_against("soft_rank", "rank₁/₂, averaged over depth", 0.5, "√d"),
    read_soft_ranks,
    choices=_CHOICES,
    seconds=(60, 1200),
)


def read_stable_ranks(result: xarray.Dataset, settings: Settings) -> Reading:
    numbers, apart, grows, root = {}, True, True, True
    for gamma in settings["gamma"]:
        mean, error = _curves(result, gamma, "stable_rank")
        power = _exponent(settings, mean, error)
        numbers[f"exponent of d, {gamma_label(gamma)}"] = power
        apart &= bool((mean - 3 * error > 1.5).all())
        grows &= bool((np.diff(mean) > 0).all())
        root &= power.value + power.uncertainty >= 0.5
    return Reading(
        numbers,
        {
            "with tanh the rank does not collapse": apart,
            "it grows with the width": grows,
            "at least like √d": root,
        },
    )


FIGURE_4 = Study(
    "002/fig-4",
    "r averaged over depth against the width, tanh networks with batch norm",
    "With tanh the averaged rank does not collapse to one and grows with the width, for a wide range of γ.",
    {"growth": "as √d or better"},
    average_cell,
    Scale(
        {"width": [8, 16, 32, 64], "gamma": _GAMMAS},
        {"activation": "tanh", "layers": 10_000, "work": 10_000},
        "up to 10 000 layers, widths to 64",
    ),
    Scale(
        {"width": [8, 16, 32, 64, 128, 256], "gamma": _GAMMAS},
        {"activation": "tanh", "layers": 100_000, "work": 100_000},
        _LESS.format(layers="10⁵"),
    ),
    _draw_against("stable_rank", "r(H), averaged over depth", 0.5, "√d"),
    read_stable_ranks,
    choices=_CHOICES
    | {
        "axis": Choice("the width d", "the caption names log₂ L on the axis; the text speaks of the width"),
        "layers": Choice("10⁵, fewer for wide networks", "not stated"),
    },
    seconds=(40, 600),
)


def draw_regularity(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel(width=5.2)
    for i, gamma in enumerate(settings["gamma"]):
        chosen = result.sel(gamma=gamma)
        axis.errorbar(
            settings["width"],
            chosen["regularity"],
            2 * chosen["regularity_error"],
            color=PALETTE[i],
            marker=MARKERS[i],
            markersize=4,
            label=gamma_label(gamma),
        )
    axis.axhline(0.9, linestyle="--", color="#444444", label="0.9")
    axis.set(xscale="log", xlabel="width d", ylabel="regularity constant α")
    axis.set_xticks(settings["width"], [str(width) for width in settings["width"]])
    axis.minorticks_off()
    axis.legend()
    return figure


def read_regularity(result: xarray.Dataset, settings: Settings) -> Reading:
    values, errors = result["regularity"], result["regularity_error"]
    widths = np.asarray(settings["width"])
    wide = values.sel(width=widths[widths > 10]) + 3 * errors.sel(width=widths[widths > 10])
    steps = np.diff(values.transpose("gamma", "width").values, axis=1)
    spread = np.hypot(*(errors.transpose("gamma", "width").values[:, s] for s in (slice(1, None), slice(None, -1))))
    numbers = {
        f"α at d = {widths[-1]}, {gamma_label(gamma)}": Measured(
            float(values.sel(gamma=gamma)[-1]), 2 * float(errors.sel(gamma=gamma)[-1])
        )
        for gamma in settings["gamma"]
    }
    return Reading(
        numbers,
        {
            "α is below 0.9 for d > 10": bool((wide < 0.9).all()),
            "α falls with d": bool((steps < 3 * spread).all() and (steps[:, 0] < -3 * spread[:, 0]).all()),
        },
    )


_SMALL = {"activation": "identity", "layers": 20_000, "work": 20_000}
_LONG = {"activation": "identity", "layers": 100_000, "work": 100_000}
_WIDTHS = [8, 16, 32, 64, 128]
FIGURE_9 = Study(
    "002/fig-9",
    "regularity constant of the invariant law against the width",
    "The estimated regularity constant is below 0.9 for d > 10 and falls with d.",
    {"α for d > 10": "below 0.9"},
    average_cell,
    Scale({"width": [8, 16, 32, 64], "gamma": _GAMMAS}, _SMALL, "up to 20 000 layers, widths to 64"),
    Scale({"width": _WIDTHS, "gamma": _GAMMAS}, _LONG, "fewer than 10⁵ layers for d > 32: the errors say what remains"),
    draw_regularity,
    read_regularity,
    choices=_CHOICES,
    seconds=(60, 300),
)


def draw_squares(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel(width=5.2)
    _draw_averages(axis, result, settings, "moment_square")
    widths = np.asarray(settings["width"], dtype=float)
    axis.plot(widths, widths**1.5, "--", color="#444444", label="d^1.5")
    axis.set(xscale="log", yscale="log", xlabel="width d", ylabel="‖M(H)‖²_F, averaged over depth")
    axis.set_xticks(settings["width"], [str(width) for width in settings["width"]])
    axis.minorticks_off()
    axis.legend()
    return figure


def read_squares(result: xarray.Dataset, settings: Settings) -> Reading:
    numbers, below = {}, True
    for gamma in settings["gamma"]:
        power = _exponent(settings, *_curves(result, gamma, "moment_square"))
        numbers[f"exponent of d, {gamma_label(gamma)}"] = power
        below &= power.value - power.uncertainty <= 1.5
    return Reading(numbers, {"‖M‖²_F grows no faster than d^1.5": bool(below)})


FIGURE_10 = Study(
    "002/fig-10",
    "average of ‖M(H)‖²_F against the width",
    "The averaged squared Frobenius norm grows with the width about as d^1.5.",
    {"exponent of d": 1.5},
    average_cell,
    Scale({"width": [8, 16, 32, 64], "gamma": _GAMMAS}, _SMALL, "up to 20 000 layers, widths to 64"),
    Scale({"width": _WIDTHS, "gamma": _GAMMAS}, _LONG, "fewer than 10⁵ layers for d > 32: the errors say what remains"),
    draw_squares,
    read_squares,
    choices=_CHOICES,
    seconds=(60, 300),
)
