"""Figures 1, 3 and 7 of paper 004: NormReLU against batch norm, layer norm and SeLU in training."""

from __future__ import annotations

from typing import Any

import xarray

from isometer_papers.studies._comparisons import Seen, all_of, ordered, similar
from isometer_papers.studies._drawing import PALETTE, Figure, band, new_figure
from isometer_papers.studies._readings import measured
from isometer_papers.studies._study import Choice, Measured, Reading, Settings, Study
from isometer_papers.studies.agarwal2021.curves import (
    CHOICES,
    COMMON,
    MARGIN,
    OPTIMIZER,
    VISIBLE,
    best,
    draw_accuracies,
    edges_told,
    numbers,
    paper_scale,
    rises,
    scale,
    speed,
)
from isometer_papers.studies.cells.normrelu_training import training_cell

_ALL = ["batch norm", "layer norm", "NormReLU"]

# --- figure 1 ------------------------------------------------------------


def draw_conditioning(result: xarray.Dataset, settings: Settings) -> Figure:
    """Test accuracy to the left axis, dot products to the right, a row per architecture."""
    (depth,) = settings["depth"]
    figure, axes = new_figure(len(settings["method"]), len(settings["architecture"]), height=3.4)
    for row, architecture in zip(axes, settings["architecture"], strict=True):
        for axis, method in zip(row, settings["method"], strict=True):
            curves = best(result, settings, architecture, depth, method)
            other = axis.twinx()
            other.spines["top"].set_visible(False)
            band(axis, curves.tested, curves.held("test_accuracy"), label="test accuracy", index=0)
            band(other, curves.tested, curves.held(settings["products"]), label="average dot product", index=1)
            axis.set(xlabel="epoch", title=f"{architecture}-{depth}, {method}, η = {curves.rate:g}")
            axis.title.set_fontsize(10)
            axis.set_ylabel("test accuracy", color=PALETTE[0])
            other.set_ylabel("average normalised dot product", color=PALETTE[1])
    return figure


def read_conditioning(result: xarray.Dataset, settings: Settings) -> Reading:
    """First against last measured epoch of the same runs, from the setting `start` on; undecided if chance may do it.

    A run that diverged counts as accuracy 0.1 and dot product 1.
    """
    (depth,) = settings["depth"]
    values: dict[str, Measured] = {}
    statements: dict[str, Seen] = {}
    for architecture in settings["architecture"]:
        for method in settings["method"]:
            label = f"{architecture} with {method}"
            curves = best(result, settings, architecture, depth, method)
            first = int((curves.tested < settings["start"]).sum())
            accuracy, products = curves.held("test_accuracy"), curves.held(settings["products"])
            up, down = (accuracy[:, first], accuracy[:, -1]), (products[:, -1], products[:, first])
            statements[f"{label}: accuracy rises and dot products fall"] = all_of(
                rises(*pair, gap=VISIBLE.gap) for pair in (up, down)
            )
            values |= {
                f"test accuracy, {label}": measured(accuracy[:, -1]),
                f"dot product before training, {label}": measured(products[:, 0]),
                f"dot product at the start, {label}": measured(products[:, first]),
                f"dot product at the end, {label}": measured(products[:, -1]),
            }
    near = [name.rpartition(", ")[2] for name, one in values.items() if "before" in name and one.value < 0.1]
    remark = f"Nearly orthogonal before training, so that little can fall: {', '.join(near)}." if near else ""
    return Reading(values, statements, remark)


_CURVES: dict[str, Any] = {"reading": {"products": "mean_cosine", "start": 2}, "runs": 8, "every": 2}
_BRIEF: dict[str, Any] = {
    "mlp_rates": [0.002, 0.02],
    "resnet_rates": [0.005, 0.02],
    "resnet_train": 1000,
    "test": 600,
    "validation": 200,
}
FIGURE_1 = Study(
    "004/fig-1",
    "test accuracy and average dot product of test representations over training",
    "Whatever the normalisation, as test accuracy rises the average normalised dot product of representations falls.",
    {f"{net} with {method}": "accuracy rises, dot products fall" for net in ("MLP", "ResNet") for method in _ALL},
    training_cell,
    scale("quick", ["MLP", "ResNet"], [32], _ALL, **_CURVES, **_BRIEF),
    paper_scale("fig-1", reading={"products": "mean_cosine", "start": 5}),
    draw_conditioning,
    read_conditioning,
    medium=scale("medium", ["MLP", "ResNet"], [32], _ALL, **_CURVES, resnet_rates=[0.002, 0.01, 0.05, 0.2]),
    choices={
        **CHOICES,
        "dot products": Choice(
            "the mean cosine over pairs of test images in the last hidden layer",
            "the paper states neither layer nor normalisation",
            {"mean product over mean square": {"products": "dot_product"}},
        ),
        "first epoch": Choice(
            "the first that is measured after training has begun",
            "the axis has epochs of training",
            {"before training": {"start": 0}},
        ),
    },
    because={
        "MLP with batch norm: accuracy rises and dot products fall": "The fall is over before the first epoch that is "
        "compared: at medium from 0.97 before training to 0.42 after two epochs, and 0.43 at the end.",
        "ResNet with NormReLU: accuracy rises and dot products fall": "At medium dot products fall from 0.42 to 0.15 "
        "in four epochs while the accuracy rises, then rise to 0.22 while it falls: few images, learnt by heart.",
    },
    data="cifar10",
    seconds=(150, 400_000),
    decisive=VISIBLE,
)

# --- figure 3 ------------------------------------------------------------


def read_against_norms(result: xarray.Dataset, settings: Settings) -> Reading:
    """Speed is the training accuracy averaged over epochs; both differences by Welch's test at 1 %, else undecided."""
    values: dict[str, Measured] = {}
    statements: dict[str, Seen] = {}
    rivals = [method for method in settings["method"] if method != "NormReLU"]
    for depth in settings["depth"]:
        own = best(result, settings, "MLP", depth, "NormReLU")
        others = {method: best(result, settings, "MLP", depth, method) for method in rivals}
        for method, curves in {**others, "NormReLU": own}.items():
            values |= numbers(f"{method}, depth {depth}", curves)
        for method, curves in others.items():
            statements[f"depth {depth}: NormReLU is optimised faster than {method}"] = ordered(
                speed(curves), speed(own), gap=VISIBLE.gap
            )
            statements[f"depth {depth}: it generalises better than {method}"] = ordered(
                curves.test(), own.test(), gap=VISIBLE.gap
            )
    return Reading(values, statements, edges_told(result, settings))


FIGURE_3 = Study(
    "004/fig-3",
    "deep MLPs with NormReLU, batch norm and layer norm",
    "NormReLU is optimised much faster than batch norm and layer norm and generalises better.",
    {"optimisation": "NormReLU fastest", "test accuracy": "NormReLU highest"},
    training_cell,
    scale("quick", ["MLP"], [32, 64], _ALL),
    paper_scale("fig-3"),
    draw_accuracies,
    read_against_norms,
    medium=scale("medium", ["MLP"], [32, 64], _ALL),
    choices={**CHOICES, **OPTIMIZER},
    data="cifar10",
    seconds=(165, 800_000),
    decisive=VISIBLE,
)

# --- figure 7 ------------------------------------------------------------


def read_twins(result: xarray.Dataset, settings: Settings) -> Reading:
    """Similar: means at most 0.03 apart, or further, each by Welch's test at 1 %; undecided where neither is."""
    values: dict[str, Measured] = {}
    statements: dict[str, Seen] = {}
    for depth in settings["depth"]:
        own, other = (best(result, settings, "MLP", depth, method) for method in ("NormReLU", "SeLU"))
        values |= numbers(f"NormReLU, depth {depth}", own) | numbers(f"SeLU, depth {depth}", other)
        statements[f"depth {depth}: similar speed of training"] = similar(speed(own), speed(other), MARGIN.gap)
        statements[f"depth {depth}: similar test accuracy"] = similar(own.test(), other.test(), MARGIN.gap)
    return Reading(values, statements, edges_told(result, settings))


_TWINS = ["NormReLU", "SeLU"]
_SMALLER = [0.0002, 0.0005, 0.001, 0.002, 0.005]  # around the paper's own, 0.001 and 0.0005
FIGURE_7 = Study(
    "004/fig-7",
    "deep MLPs with NormReLU and SeLU",
    "In MLPs of depth 32 and 64 the two activations train and generalise very similarly.",
    {"NormReLU and SeLU": "very similar"},
    training_cell,
    scale("quick", ["MLP"], [32, 64], _TWINS, reading={"chosen": "common"}),
    paper_scale("fig-7", reading={"chosen": "common"}),
    draw_accuracies,
    read_twins,
    medium=scale("medium", ["MLP"], [32, 64], _TWINS, mlp_rates=_SMALLER, runs=8, reading={"chosen": "common"}),
    choices={**COMMON, **OPTIMIZER},
    data="cifar10",
    seconds=(85, 500_000),
    decisive=MARGIN,
)

STUDIES = (FIGURE_1, FIGURE_3, FIGURE_7)
