"""Studies of 000 on batches: the odd point, angles and neurons with recentring and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray

from isometer_papers.studies._drawing import PALETTE, Figure, band, new_figure, single_panel
from isometer_papers.studies._readings import measured
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
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
    """Pairs as the paper has them, for the largest batch, and the mean over n beside the published value."""
    figure, axes = new_figure(2, width=4.4, height=3.9)
    left, right = axes[0]
    largest = max(settings["samples"])
    shown = result.sel(samples=largest).isel(mode=0, chunk=0, run=0)
    left.plot(shown["before"], shown["after"], ".", color=PALETTE[0], alpha=0.35, label=f"pairs of {largest} samples")
    layer = settings["layer"]
    left.set(xlabel=f"angle before layer {layer} (°)", ylabel="angle after it (°)", xlim=(30, 100), ylim=(30, 100))
    means = _mean_angles(result, settings)
    band(right, list(means), np.stack(list(means.values()), 1), label="mean angle", index=0)
    right.axhline(PUBLISHED_ANGLES[settings["mode"][0]], color="#444444", linewidth=0.8, label="published, about")
    right.set(xlabel="samples n", ylabel="mean angle after the layer (°)", xscale="log", xticks=list(means))
    right.set_xticklabels([str(n) for n in means])
    right.minorticks_off()
    for axis in (left, right):
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=8)
    return figure


PUBLISHED_ANGLES = {"without recentring": 60.0, "with recentring": 75.0}


def _mean_angles(result: xarray.Dataset, settings: Settings) -> dict[int, np.ndarray[Any, Any]]:
    """By number of samples: the mean over pairs, by run."""
    # pairs beyond those of a small batch are missing
    return {
        n: result["after"].sel(samples=n).mean("pair").stack(all=("mode", "chunk", "run")).values
        for n in settings["samples"]
    }


ROUNDING = 2.5  # degrees: “approximately 60°” and “75°” are multiples of five


def read_angles(result: xarray.Dataset, settings: Settings) -> Reading:
    """At every n, the distance from the published angle; the paper gives no n, so any n that has it will do."""
    published = PUBLISHED_ANGLES[settings["mode"][0]]
    found = {n: measured(runs) for n, runs in _mean_angles(result, settings).items()}
    near = [n for n, angle in found.items() if abs(angle.value - published) <= ROUNDING]
    largest = max(found)
    spread = result["after"].sel(samples=largest).std("pair").values.ravel()
    told = f"Within {ROUNDING:g}° of the published angle for n = {', '.join(map(str, near))}" if near else "No n has it"
    return Reading(
        {
            **{f"mean angle (°), n = {n}": angle for n, angle in found.items()},
            f"distance from the published angle (°), n = {largest}": Measured(
                abs(found[largest].value - published), found[largest].uncertainty
            ),
            f"deviation of pairs (°), n = {largest}": measured(spread),
        },
        {
            f"some batch has a typical angle of about {published:.0f}°": bool(near),
            f"and large ones too, n = {largest}": largest in near,
        },
        f"{told}; the paper does not say which n it has.",
    )


_SAMPLES = [5, 10, 20, 50, 200]
_ANGLES = {"width": 500, "layer": 30, "input": "gaussian"}
_ANGLE_CHOICES = {
    "sizes": Choice("5 to 200 samples, width 500", "not stated", {"width 100": {"width": 100}}),
    "batch": Choice("Gaussian", "not stated", {"equal cosines of 0.9": {"input": "correlated:0.9"}}),
}


def _figure_5(part: str, mode: str) -> Study:
    degrees = PUBLISHED_ANGLES[mode]
    return Study(
        f"000/fig-5{part}",
        f"angles of pairs before and after layer 30, batch norm {mode}",
        f"With batch norm {mode} and ReLU the angles are about {degrees:.0f}° after 30 layers.",
        {f"mean angle (°), n = {n}": degrees for n in _SAMPLES},
        angles_cell,
        Scale({"mode": [mode], "samples": _SAMPLES, "chunk": [0, 1]}, {**_ANGLES, "runs": 4}, "8 runs"),
        Scale({"mode": [mode], "samples": _SAMPLES, "chunk": [0, 1, 2, 3]}, {**_ANGLES, "runs": 10}),
        draw_angles,
        read_angles,
        choices=_ANGLE_CHOICES,
        because={
            "and large ones too, n = 200": "With recentring the angle falls with the number of samples, towards 71.4° "
            "at infinite width and batch: the published 75° is what about ten samples give."
        }
        if mode == "with recentring"
        else {},
        seconds=(10, 30),
    )


FIGURE_5A = _figure_5("a", "without recentring")
FIGURE_5B = _figure_5("b", "with recentring")

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


_ACTIVITY = {**_ANGLES, "samples": 50, "level": 0.25}
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
