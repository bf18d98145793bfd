"""Studies of 000 on batches: the odd point, angles and neurons with recentring and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray

from isometer_papers.studies._drawing import PALETTE, Figure, new_figure, single_panel
from isometer_papers.studies._readings import measured
from isometer_papers.studies._study import Choice, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.odd_points import activity_cell, angles_cell, odd_point_cell

# --- figure 3 ------------------------------------------------------------


def draw_projection(result: xarray.Dataset, settings: Settings) -> Figure:
    """The first run: what a reader of the paper sees."""
    figure, axis = single_panel()
    first = result.isel(chunk=0, run=0)
    points, odd = first["projection"].values, int(first["odd"])
    rest = np.delete(points, odd, axis=0)
    axis.plot(*rest.T, "o", color="#000000", markersize=4, alpha=0.6, label="batch")
    axis.plot(*points[odd], "s", color=PALETTE[1], markersize=8, label="odd point")
    axis.set(xlabel="first random direction", ylabel="second random direction")
    axis.margins(0.15)
    axis.legend()
    return figure


def _odd(result: xarray.Dataset) -> tuple[Any, Any, Any]:
    """Per run: ratio of norms, mean angle to the odd point, mean angle among the others."""
    with_odd = result["with_odd"] > 0
    near = result["after"].where(~with_odd).mean("pair")
    far = result["after"].where(with_odd).mean("pair")
    return result["ratio"].values.ravel(), far.values.ravel(), near.values.ravel()


def read_projection(result: xarray.Dataset, settings: Settings) -> Reading:
    ratio, _, near = _odd(result)
    return Reading(
        {
            "norm of the odd point over the next": measured(ratio),
            "angle among the others (°)": measured(near),
            "share of runs with a ratio above 10": measured(ratio > 10),
        },
        {
            "one point of every batch goes far away": bool((ratio > 10).all()),
            "the others collapse into a cluster (angles below 20°)": bool((near < 20).all()),
        },
    )


def draw_pairs(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel()
    first = result.isel(chunk=0, run=0)
    red = first["with_odd"].values > 0
    before, after = first["before"].values, first["after"].values
    axis.plot(before[~red], after[~red], ".", color="#000000", alpha=0.3, label="other pairs")
    axis.plot(before[red], after[red], "s", color=PALETTE[1], markersize=4, label="pairs with the odd point")
    axis.set(xlabel="angle before the last layer (°)", ylabel="angle after it (°)", xlim=(0, 100), ylim=(0, 100))
    axis.legend(loc="center")
    return figure


def read_pairs(result: xarray.Dataset, settings: Settings) -> Reading:
    _, far, near = _odd(result)
    return Reading(
        {"angle to the odd point (°)": measured(far), "angle among the others (°)": measured(near)},
        {
            "the odd point is orthogonal to the others (to 1°)": bool((np.abs(far - 90) < 1).all()),
            "the others are close to one another (below 20°)": bool((near < 20).all()),
        },
    )


_ODD = {"samples": 50, "width": 500, "input": "gaussian"}
_ODD_CHOICES = {
    "sizes": Choice(
        "50 samples, width 500, 300 layers",
        "none is stated",
        {"10 samples": {"samples": 10}, "width 100": {"width": 100}, "30 layers": {"depth": 30}},
    ),
    "batch": Choice("Gaussian", "not stated", {"equal cosines of 0.9": {"input": "correlated:0.9"}}),
}
_ODD_QUICK = Scale({"chunk": [0, 1]}, {**_ODD, "depth": 300, "runs": 4}, "8 runs")
_ODD_PAPER = Scale({"chunk": [0, 1, 2, 3]}, {**_ODD, "depth": 300, "runs": 10})
FIGURE_3A = Study(
    "000/fig-3a",
    "last layer of a network with recentring and ReLU, in a random plane",
    "All points but one collapse into a cluster; the odd one escapes far away.",
    {"shape": "a cluster and one point far from it"},
    odd_point_cell,
    _ODD_QUICK,
    _ODD_PAPER,
    draw_projection,
    read_projection,
    choices=_ODD_CHOICES,
    seconds=(15, 60),
)
FIGURE_3B = Study(
    "000/fig-3b",
    "angles of pairs before and after the last layer, recentring and ReLU",
    "The odd point is orthogonal to all others, whose angles to one another are small.",
    {"angle to the odd point (°)": 90.0, "angle among the others (°)": "small"},
    odd_point_cell,
    _ODD_QUICK,
    _ODD_PAPER,
    draw_pairs,
    read_pairs,
    choices=_ODD_CHOICES,
    seconds=(15, 60),
)

# --- figure 5 ------------------------------------------------------------


def draw_angles(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel()
    shown = result.isel(mode=0, chunk=0, run=0)
    axis.plot(shown["before"], shown["after"], ".", color=PALETTE[0], alpha=0.35)
    mean = float(result["after"].mean())
    axis.axhline(mean, linestyle="--", color="#444444", label=f"mean after: {mean:.1f}°")
    layer = settings["layer"]
    axis.set(xlabel=f"angle before layer {layer} (°)", ylabel="angle after it (°)", xlim=(30, 100), ylim=(30, 100))
    axis.legend()
    return figure


def _read_angles(published: float) -> Any:
    def read(result: xarray.Dataset, settings: Settings) -> Reading:
        means = result["after"].mean("pair").values.ravel()
        spread = result["after"].std("pair").values.ravel()
        angle = measured(means)
        return Reading(
            {"mean angle (°)": angle, "deviation of pairs (°)": measured(spread)},
            {f"the typical angle is about {published:.0f}° (to 4°)": abs(angle.value - published) <= 4},
        )

    return read


_ANGLES = {"samples": 50, "width": 500, "layer": 30, "input": "gaussian"}
_ANGLE_CHOICES = {
    "sizes": Choice(
        "50 samples, width 500",
        "not stated",
        {"10 samples": {"samples": 10}, "200 samples": {"samples": 200}, "width 100": {"width": 100}},
    ),
    "batch": Choice("Gaussian", "not stated", {"equal cosines of 0.9": {"input": "correlated:0.9"}}),
}


def _figure_5(part: str, mode: str, degrees: float) -> Study:
    return Study(
        f"000/fig-5{part}",
        f"angles of pairs before and after layer 30, batch norm {mode}",
        f"With batch norm {mode} and ReLU the angles are about {degrees:.0f}° after 30 layers.",
        {"mean angle (°)": degrees},
        angles_cell,
        Scale({"mode": [mode], "chunk": [0, 1]}, {**_ANGLES, "runs": 4}, "8 runs"),
        Scale({"mode": [mode], "chunk": [0, 1, 2, 3]}, {**_ANGLES, "runs": 10}),
        draw_angles,
        _read_angles(degrees),
        choices=_ANGLE_CHOICES,
        because={
            "the typical angle is about 75° (to 4°)": "The angle at infinite width depends on the number of samples: "
            "it grows with n towards its limit."
        },
        seconds=(10, 30),
    )


FIGURE_5A = _figure_5("a", "without recentring", 60.0)
FIGURE_5B = _figure_5("b", "with recentring", 75.0)

# --- figure 6 ------------------------------------------------------------


def draw_activity(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(2)
    shown = result.isel(mode=0, chunk=0, run=0)
    axes[0, 0].hist(shown["values"], bins=20, range=(0, 1), color=PALETTE[0], edgecolor="white")
    axes[0, 0].set(xlabel="response of one neuron, relative to its largest", ylabel="inputs of the batch")
    share = result["active"].isel(mode=0).values.ravel()
    axes[0, 1].hist(share, bins=25, range=(0, 1), color=PALETTE[2], edgecolor="white")
    axes[0, 1].set(xlabel=f"share of inputs above {settings['level']:g} of the largest", ylabel="neurons", yscale="log")
    return figure


def _read_activity(recentred: bool) -> Any:
    def read(result: xarray.Dataset, settings: Settings) -> Reading:
        active = result["active"].isel(mode=0)
        wide = (active > 0.8).mean("neuron").values.ravel()
        typical = active.median("neuron").values.ravel()
        numbers = {"share of neurons active on over 80 %": measured(wide), "median share of inputs": measured(typical)}
        if recentred:
            few = "most neurons respond little to most inputs"
            none = "no neuron responds to more than 80 % of them"
            return Reading(numbers, {few: bool((typical < 0.5).all()), none: bool((wide == 0).all())})
        return Reading(numbers, {"some neurons respond strongly to a large part of the batch": bool((wide > 0).all())})

    return read


_ACTIVITY = {**_ANGLES, "level": 0.25}
_ACTIVITY_CHOICES = {
    "response": Choice("above a quarter of the neuron's largest", "not stated", {"above a tenth": {"level": 0.1}}),
    "sizes": Choice("50 samples, width 500, layer 30", "not stated", {"layer 10": {"layer": 10}}),
}


def _figure_6(part: str, mode: str, shows: str, recentred: bool) -> Study:
    return Study(
        f"000/fig-6{part}",
        f"activity of neurons over the batch, batch norm {mode}",
        shows,
        {"neurons": "some respond to many inputs" if not recentred else "respond little to most inputs"},
        activity_cell,
        Scale({"mode": [mode], "chunk": [0, 1]}, {**_ACTIVITY, "runs": 4}, "8 runs"),
        Scale({"mode": [mode], "chunk": [0, 1, 2, 3]}, {**_ACTIVITY, "runs": 10}),
        draw_activity,
        _read_activity(recentred),
        choices=_ACTIVITY_CHOICES,
        seconds=(10, 30),
    )


FIGURE_6A = _figure_6(
    "a", "without recentring", "Without recentring some neurons respond to a large number of inputs.", False
)
FIGURE_6B = _figure_6("b", "with recentring", "With recentring most neurons respond little to most inputs.", True)
