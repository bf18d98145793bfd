"""Figures 3 and 4 of paper 003: what orthogonality does to the training of dense networks without batch norm.

A run that diverged counts with the loss of chance, log 10.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xarray
from scipy import stats

from isometer_papers.studies._comparisons import Decisive, Seen, ordered, rising, surely_less
from isometer_papers.studies._drawing import PALETTE, Figure, band, new_figure, single_panel
from isometer_papers.studies._readings import line_slope, measured
from isometer_papers.studies._study import TOGETHER, Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.depth_training import depth_training_cell

CHANCE = math.log(10)  # loss of ten equal probabilities
VISIBLE = Decisive(0.1, "training loss", "the paper prints no numbers; a twentieth of its axis, from 0 to log 10")


def losses(result: xarray.Dataset, *dims: str) -> np.ndarray[Any, Any]:
    """Training losses with the dimensions in that order; what a diverged run lacks is the loss of chance."""
    values = result["train_loss"].transpose(*dims, ...)
    return np.asarray(values.where(values["epoch"] == 0, values.fillna(CHANCE)).values)


def final_losses(result: xarray.Dataset, scheme: str) -> np.ndarray[Any, Any]:
    """Training loss of the last epoch, runs by depths."""
    return losses(result.sel(scheme=scheme).isel(epoch=[-1]), "run", "depth")[..., 0]


# --- figure 3a -------------------------------------------------------------------------------------------------------


def draw_depths(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(1)
    left, right = _two_axes(axes[0, 0])
    gap = result["output_gap"].sel(scheme="Xavier", epoch=0).transpose("run", "depth").values
    band(left, settings["depth"], gap, label="gap before training", index=1)
    band(right, settings["depth"], final_losses(result, "Xavier"), label="loss", index=0)
    left.set(xlabel="depth", ylabel="orthogonality gap before training", xticks=settings["depth"])
    right.set(ylabel=f"training loss after {settings['epochs']} epochs")
    return figure


def _two_axes(axis: Any) -> tuple[Any, Any]:
    """The gap on the left in red, the loss on the right in blue, as the paper has them."""
    other = axis.twinx()
    other.spines[["top"]].set_visible(False)
    for one, color in ((axis, PALETTE[1]), (other, PALETTE[0])):
        one.tick_params(axis="y", colors=color)
        one.yaxis.label.set_color(color)
    return axis, other


def read_depths(result: xarray.Dataset, settings: Settings) -> Reading:
    """A quantity rises if the slope of the line over depth is positive beyond chance (Student's test at 1 %).

    The rank correlation is that of the means over runs.
    """
    depths = settings["depth"]
    start = result.sel(scheme="Xavier", epoch=0)
    gaps = {name: start[f"{name}_gap"].transpose("run", "depth").values for name in ("output", "hidden")}
    loss = final_losses(result, "Xavier")
    means = gaps["output"].mean(0), loss.mean(0)
    together = float(stats.spearmanr(*means).statistic) if min(np.ptp(one) for one in means) > 0 else 0.0
    numbers: dict[str, Measured] = {}
    for i in (0, -1):
        numbers |= {
            f"gap of the outputs before training, depth {depths[i]}": measured(gaps["output"][:, i]),
            f"gap of the last hidden layer before training, depth {depths[i]}": measured(gaps["hidden"][:, i]),
            f"training loss, depth {depths[i]}": measured(loss[:, i]),
        }
    return Reading(
        {**numbers, "rank correlation of gap and loss over depths": Measured(together)},
        {
            "the gap before training rises with depth": rising(depths, gaps["output"]),
            "the loss after training rises with depth": rising(depths, loss, gap=VISIBLE.gap),
            "they go together: rank correlation over depths above 0.8": together > 0.8,
        },
    )


ROOT = 2**0.5
_DENSE = {
    "data": "cifar10",
    "device": "cpu",
    "watch": False,
    "gain": ROOT,
    "exponent": 0.5,
    "frame": "polar",
    "output_norm": 1.0,
    "learning_rate": 0.01,
    "epochs": 30,
}
QUICK = {**_DENSE, "width": 128, "train": 2000, "shrink": 2, "batch": 100, "gap_batches": 4, "every": 30}
MEDIUM = {**QUICK, "width": 256, "train": 4000}
PAPER = {
    **_DENSE,
    "width": 800,
    "train": 50000,
    "shrink": 1,
    "batch": 500,
    "gap_batches": 100,
    "every": 30,
    "watch": True,
}
REDUCED = (
    "128 neurons instead of 800, 2000 images of 16×16 instead of 50000 of 32×32, batches of 100 instead of 500: "
    "600 steps instead of 3000"
)
REDUCED_MEDIUM = (
    "256 neurons instead of 800, 4000 images of 16×16 instead of 50000 of 32×32, batches of 100 instead of 500: "
    "1200 steps instead of 3000"
)
RUNS = list(range(4))
QUICK_RUNS = list(range(8))  # cheap there, and 4 leave what differs by a tenth of a loss to chance
DEPTHS = [15, 30, 45, 60, 75]
GAIN = "√2 times Xavier's uniform weights, which keeps the variance through ReLU; no biases"
WHY_GAIN = "the public code has it; the text says Xavier's method"
PIXELS = Choice("pixels from −1 to 1", "the public code has it")


FIGURE_3A = Study(
    "003/fig-3a",
    "gap of the last layer before training and loss after 30 epochs against depth",
    "In ReLU networks without batch norm, with Xavier's weights, the orthogonality gap before training and the "
    "training loss after 30 epochs both rise with depth, from 15 to 75 layers.",
    {"gap": "rises with depth", "loss": "rises with depth"},
    depth_training_cell,
    Scale(
        {"scheme": ["Xavier"], "depth": [15, 30, 45], "run": QUICK_RUNS},
        QUICK,
        f"depths 15 to 45 instead of 15 to 75; {REDUCED}",
        together=TOGETHER,
    ),
    Scale({"scheme": ["Xavier"], "depth": DEPTHS, "run": RUNS}, PAPER),
    draw_depths,
    read_depths,
    medium=Scale({"scheme": ["Xavier"], "depth": DEPTHS, "run": RUNS}, MEDIUM, REDUCED_MEDIUM, together=TOGETHER),
    choices={
        "gain": Choice(GAIN, f"{WHY_GAIN}; figure 3b has it both ways"),
        "pixels": PIXELS,
        "last layer": Choice("the outputs; the last hidden layer is given too", "the public code has the outputs"),
    },
    data="cifar10",
    seconds=(80, 1500),
    decisive=VISIBLE,
)

# --- figure 3b -------------------------------------------------------------------------------------------------------


def draw_epochs(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(1)
    left, right = _two_axes(axes[0, 0])
    gap = result["output_gap"].squeeze(["scheme", "depth"]).transpose("run", "epoch").dropna("epoch", how="all")
    band(left, gap["epoch"], carried(gap.values), label="gap", index=1)
    band(right, result["epoch"].values[1:], _one_network(result)[:, 1:], label="loss", index=0)
    left.set(xlabel="epoch", ylabel="orthogonality gap of the outputs")
    right.set(ylabel="training loss")
    return figure


def _one_network(result: xarray.Dataset) -> np.ndarray[Any, Any]:
    return losses(result.squeeze(["scheme", "depth"]), "run", "epoch")


def carried(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Runs by epochs, each with the number measured last; the first is always measured."""
    places = np.where(np.isfinite(values), np.arange(values.shape[1]), 0)
    return np.take_along_axis(values, np.maximum.accumulate(places, axis=1), axis=1)


def read_epochs(result: xarray.Dataset, settings: Settings) -> Reading:
    """First and last of each curve, over runs; a run that diverged keeps the gap that it had last."""
    loss = _one_network(result)
    numbers = {
        "training loss, first epoch": measured(loss[:, 1]),
        "training loss, last epoch": measured(loss[:, -1]),
    }
    statements: dict[str, Seen] = {"the loss falls": ordered(loss[:, -1], loss[:, 1], gap=VISIBLE.gap)}
    for name, label in (("output_gap", "the outputs"), ("hidden_gap", "the last hidden layer")):
        gap = carried(result[name].squeeze(["scheme", "depth"]).transpose("run", "epoch").values)
        numbers[f"gap of {label} before training"] = measured(gap[:, 0])
        numbers[f"gap of {label} after training"] = measured(gap[:, -1])
        statements[f"the gap of {label} falls during training"] = ordered(gap[:, -1], gap[:, 0])
    return Reading(numbers, statements)


_ONE: dict[str, Any] = {"scheme": ["Xavier"], "depth": [20], "run": RUNS}
FIGURE_3B = Study(
    "003/fig-3b",
    "gap and loss during training of a network of 20 layers",
    "While the training loss falls, the orthogonality gap of the output falls too.",
    {"gap": "falls", "loss": "falls"},
    depth_training_cell,
    Scale(
        {**_ONE, "run": QUICK_RUNS},
        {**QUICK, "every": 3},
        f"30 epochs instead of 50; {REDUCED}".replace("3000", "5000"),
        together=TOGETHER,
    ),
    Scale(_ONE, {**PAPER, "epochs": 50, "every": 5}),
    draw_epochs,
    read_epochs,
    medium=Scale(_ONE, {**MEDIUM, "epochs": 50, "every": 5}, REDUCED_MEDIUM.replace("1200", "2000"), together=TOGETHER),
    choices={
        "gain": Choice(GAIN, WHY_GAIN, {"plain Xavier weights": {"gain": 1.0}}),
        "pixels": PIXELS,
        "epochs": Choice("50, with 800 neurons", "the public code has 50, with 1000 neurons; the text says 800"),
    },
    data="cifar10",
    seconds=(20, 300),
    decisive=VISIBLE,
)

# --- figure 4 --------------------------------------------------------------------------------------------------------


def draw_schemes(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel()
    for i, scheme in enumerate(settings["scheme"]):
        band(axis, settings["depth"], final_losses(result, scheme), label=scheme, index=i)
    axis.set(xlabel="depth", ylabel=f"training loss after {settings['epochs']} epochs", xticks=settings["depth"])
    figure.legend(loc="outside upper center", ncols=3, fontsize=8)
    return figure


def read_schemes(result: xarray.Dataset, settings: Settings) -> Reading:
    """Slopes are of the line over depth; one depth alone has none."""
    depths = settings["depth"]
    plain, ours = final_losses(result, "Xavier"), final_losses(result, "iterative")
    numbers: dict[str, Measured] = {}
    statements: dict[str, Seen] = {}
    for i in range(max(len(depths) - 2, 0), len(depths)):
        numbers[f"training loss with Xavier, depth {depths[i]}"] = measured(plain[:, i])
        numbers[f"training loss with iterative orthogonalisation, depth {depths[i]}"] = measured(ours[:, i])
        statements[f"at depth {depths[i]} iterative orthogonalisation has the lower loss"] = ordered(
            ours[:, i], plain[:, i], gap=VISIBLE.gap
        )
    if len(depths) == 1:
        return Reading(numbers, statements)
    slopes = [line_slope(np.asarray(depths) / 10, values) for values in (plain, ours)]
    numbers |= {
        "rise of the loss in 10 layers, Xavier": slopes[0],
        "rise of the loss in 10 layers, iterative": slopes[1],
    }
    statements |= {
        "with Xavier the loss rises with depth": rising(depths, plain, gap=VISIBLE.gap),
        # runs of the two are independent, and so are differences of any pairs
        "with iterative orthogonalisation it rises less, or not at all": rising(depths, plain - ours, gap=VISIBLE.gap),
    }
    worse = surely_less(plain[:, 0], ours[:, 0])
    return Reading(numbers, statements, f"At depth {depths[0]} Xavier's loss is the lower one." if worse else "")


BOTH: dict[str, Any] = {"scheme": ["Xavier", "iterative"], "run": RUNS}
ITERATION = Choice(
    "exponent ½ and Frobenius norm 1 as printed; V′ is the polar factor of rows of V; 3 images per neuron; the first "
    "and the last layer keep Xavier's weights",
    "a slice of V is not orthogonal by itself; the public code has 3 images per neuron and the layers",
    {"outputs of mean square 1": {"output_norm": 0.0, "depth": [30]}},
)
FIGURE_4 = Study(
    "003/fig-4",
    "loss after 30 epochs against depth, Xavier against iterative orthogonalisation",
    "With Xavier's weights training slows down with depth; with weights that orthogonalise the representations layer "
    "by layer it does not, without batch norm.",
    {"Xavier": "rises with depth", "iterative": "low at all depths"},
    depth_training_cell,
    Scale({**BOTH, "depth": [15, 30, 45], "run": QUICK_RUNS}, QUICK, FIGURE_3A.quick.reduced, together=TOGETHER),
    Scale({**BOTH, "depth": DEPTHS}, PAPER),
    draw_schemes,
    read_schemes,
    medium=Scale({**BOTH, "depth": DEPTHS}, MEDIUM, REDUCED_MEDIUM, together=TOGETHER),
    choices={"weights": ITERATION, "gain": Choice(GAIN, WHY_GAIN), "pixels": PIXELS},
    data="cifar10",
    seconds=(110, 4500),
    decisive=VISIBLE,
)

STUDIES = (FIGURE_3A, FIGURE_3B, FIGURE_4)
