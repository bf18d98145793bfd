"""Figures 7, 8 and 11 of paper 002: convolutional networks with batch norm, without, and with its parts changed.

A run that diverges has the accuracy of chance from then on, and the rank and alignment that were measured last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from isometer_papers.studies._comparisons import Seen, all_of, by_reading, ordered, similar
from isometer_papers.studies._drawing import LINES, Figure, band, new_figure, plain_logs
from isometer_papers.studies._readings import epochs_measured, measured
from isometer_papers.studies._study import TOGETHER, Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.vision_training import vision_cell
from isometer_papers.studies.daneshmand2020.trained import (
    CHANCE,
    VISIBLE,
    accuracy_of,
    at_own_rates,
    does_not_learn,
    kept,
    learns,
    legends_below,
    rates_told,
)

ALIGNED = 0.99  # mean |cos|
SAME_PATH = 0.02  # of accuracy, averaged over epochs
RATIO = 1.25  # of ranks

# --- what the figures share ----------------------------------------------

COMMON = {"data": "cifar10", "device": "cpu", "watch": False, "batch": 50, "optimizer": "sgd", "learning_rate": 0.05}
SMALL = {**COMMON, "channels": 8, "bottleneck": 4, "train": 2000, "shrink": 2, "epochs": 6, "every": 2}
MIDDLE = {**COMMON, "channels": 16, "bottleneck": 8, "train": 5000, "shrink": 2, "epochs": 12, "every": 1}
FULL = {
    **COMMON,
    "channels": 64,
    "bottleneck": 64,
    "train": 50000,
    "shrink": 1,
    "epochs": 50,
    "every": 1,
    "watch": True,
}
LESS = "2000 images of 16×16 pixels, 240 steps, an eighth of the channels, 4 runs"
BETWEEN = "5000 images of 16×16 pixels, 1200 steps, a quarter of the channels, 4 runs"
BN, BARE = "VGG19", "VGG19 without BN"
POSITIVE = ", positive"
FASTER, NOISE = f"{BARE}, 100 × rate", f"{BARE}, random images"
MEAN_FREE = "VGG19, BN without mean"
DEVIATION = "VGG19, BN without mean, by deviation"
READINGS = {MEAN_FREE: "divided by the root mean square", DEVIATION: "divided by the deviation"}
MEAN_RATES = [0.015, 0.05, 0.15, 0.5]


def grid(
    networks: list[str],
    constants: Mapping[str, Any],
    runs: int = 4,
    reduced: str = "",
    rates: list[float] | None = None,
) -> Scale:
    """A scale with these networks, at one rate or at several.

    Example:
        >>> grid(["VGG19"], FULL, 2).axes["run"]
        [0, 1]
    """
    together = 1 if constants["watch"] else TOGETHER
    if rates is None:
        return Scale({"network": networks, "run": list(range(runs))}, constants, reduced, together=together)
    shared = {name: value for name, value in constants.items() if name != "learning_rate"}
    axes: dict[str, list[Any]] = {"network": networks, "learning_rate": rates, "run": list(range(runs))}
    return Scale(axes, shared, reduced, together=together)


def rate_choice(label: str, networks: list[str]) -> Choice:
    """The learning rate of all figures, and another for some networks.

    Example:
        >>> rate_choice("0.01", ["VGG19"]).instead["0.01"]["learning_rate"]
        0.01
    """
    return Choice(
        "SGD without momentum at 0.05, batches of 50, no augmentation",
        "the paper says SGD; a rate at which VGG19 with batch norm learns in a few epochs",
        {label: {"learning_rate": 0.01, "network": networks}},
    )


def curves_by_epoch(axis: Any, values: xarray.DataArray, networks: list[str], *, log: bool = False) -> None:
    """A band for each network, in line styles that show where lines lie on each other."""
    from matplotlib.ticker import MaxNLocator

    for i, network in enumerate(networks):
        one = values.sel(network=network).transpose("run", "epoch")
        band(axis, one["epoch"], one.values, label=network, index=i, log=log)
        axis.lines[-1].set_linestyle(LINES[i % len(LINES)])
    axis.set_xlabel("epoch")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def last_of(accuracy: xarray.DataArray, network: str) -> xarray.DataArray:
    """Accuracy of the last epoch, by run."""
    return accuracy.sel(network=network).isel(epoch=-1)


def at_measurements(result: xarray.Dataset, settings: Settings, name: str) -> xarray.DataArray:
    """A number of the last layers, over the epochs after which it was measured.

    Example:
        >>> curves = xarray.Dataset({"stable_rank": ("epoch", [3.0, float("nan"), 2.0])}, {"epoch": [0, 1, 2]})
        >>> at_measurements(curves, {"epochs": 2, "every": 2}, "stable_rank").values.tolist()
        [3.0, 2.0]
    """
    return kept(result[name].sel(epoch=epochs_measured(settings)))


# --- figure 7 ------------------------------------------------------------


def draw_positive(result: xarray.Dataset, settings: Settings) -> Figure:
    accuracy = accuracy_of(result)
    bases = [network for network in settings["network"] if not network.endswith(POSITIVE)]
    figure, axes = new_figure(len(bases))
    for axis, base in zip(axes[0], bases, strict=True):
        curves_by_epoch(axis, accuracy, [base, base + POSITIVE])
        axis.axhline(CHANCE, color="#888888", linewidth=0.8, linestyle=":")
        axis.set(title=f"{base} with batch norm", ylabel="training accuracy", ylim=(0, None))
    legends_below(*axes[0])
    return figure


def read_positive(result: xarray.Dataset, settings: Settings) -> Reading:
    accuracy, rank = accuracy_of(result), at_measurements(result, settings, "stable_rank").isel(epoch=0)
    numbers: dict[str, Measured] = {}
    statements: dict[str, Seen] = {}
    for network in settings["network"]:
        numbers[f"accuracy, {network}"] = measured(last_of(accuracy, network))
        numbers[f"r before training, {network}"] = measured(rank.sel(network=network))
        if network.endswith(POSITIVE):
            base = network.removesuffix(POSITIVE)
            statements |= {
                f"{base} learns with the default weights": learns(last_of(accuracy, base)),
                f"{base} does not with positive ones": all_of(
                    (
                        does_not_learn(last_of(accuracy, network)),
                        ordered(last_of(accuracy, network), last_of(accuracy, base), gap=VISIBLE.gap),
                    )
                ),
            }
    return Reading(numbers, statements)


_POSITIVE = [BN, BN + POSITIVE, "ResNet50", "ResNet50" + POSITIVE]
FIGURE_7 = Study(
    "002/fig-7",
    "VGG19 and ResNet50 with batch norm: default and positive initial weights",
    "Initial weights uniform on positive numbers, of the same variance as the default, keep VGG19 and ResNet50 from "
    "fitting CIFAR-10, in spite of batch norm.",
    {"default": "fits", "positive": "unable to fit"},
    vision_cell,
    grid(_POSITIVE, SMALL, reduced=f"{LESS}; a sixteenth of those of ResNet50"),
    grid(_POSITIVE, FULL, 5),
    draw_positive,
    read_positive,
    medium=grid(_POSITIVE, MIDDLE, reduced=f"{BETWEEN}; an eighth of those of ResNet50"),
    choices={"optimiser": rate_choice("0.01, VGG19", [BN, BN + POSITIVE])},
    data="cifar10",
    seconds=(155, 30000),
    decisive=VISIBLE,
)

# --- figure 8 ------------------------------------------------------------


def draw_alignment(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(2)
    left, right = axes[0]
    curves_by_epoch(left, accuracy_of(result), settings["network"], log=True)
    curves_by_epoch(right, at_measurements(result, settings, "neuron_alignment"), settings["network"])
    left.set(ylabel="training accuracy", yscale="log")
    plain_logs(left.yaxis)
    right.set(ylabel="|cos| of last gradients", ylim=(0, 1.05))
    legends_below(left, right, columns=1)
    return figure


def read_alignment(result: xarray.Dataset, settings: Settings) -> Reading:
    """Aligned: mean |cos| of at least 0.99 whenever it is measured. The same path: within 0.02 averaged over epochs."""
    accuracy, aligned = accuracy_of(result), at_measurements(result, settings, "neuron_alignment")
    every, there = at_measurements(result, settings, "gradient_alignment"), settings["network"]
    numbers: dict[str, Measured] = {}
    for network in there:
        numbers[f"accuracy, {network}"] = measured(last_of(accuracy, network))
        numbers[f"|cos| by neuron, {network}"] = measured(aligned.sel(network=network).mean("epoch"))
        numbers[f"|cos| of all weights, {network}"] = measured(every.sel(network=network).mean("epoch"))
    statements: dict[str, Seen] = {
        "without batch norm gradients are aligned": bool((aligned.sel(network=BARE).mean("run") >= ALIGNED).all()),
        "and it does not train": does_not_learn(last_of(accuracy, BARE)),
    }
    if FASTER in there:
        statements["nor with 100 times the rate"] = does_not_learn(last_of(accuracy, FASTER))
    if BN in there:
        statements |= {
            "with batch norm they are less aligned": ordered(
                aligned.sel(network=BN).mean("epoch"), aligned.sel(network=BARE).mean("epoch")
            ),
            "and it trains": ordered(last_of(accuracy, BARE), last_of(accuracy, BN), gap=VISIBLE.gap),
        }
    if NOISE in there:
        gap = accuracy.sel(network=NOISE).mean("epoch") - accuracy.sel(network=BARE).mean("epoch")
        numbers["accuracy over all epochs, random less real images"] = measured(gap)
        random, real = (accuracy.sel(network=name).mean("epoch") for name in (NOISE, BARE))
        statements["on random images it takes the same path"] = similar(random, real, SAME_PATH)
    return Reading(
        numbers,
        statements,
        "Gradients of one neuron are compared: of all weights together, samples of different labels have different "
        "gradients even where the hidden layer has rank one.",
    )


_ALIGNMENT = [BN, BARE, FASTER, NOISE]
FIGURE_8 = Study(
    "002/fig-8",
    "VGG19 with batch norm and without, with 100 times the rate, on random images",
    "Without batch norm the gradients of the samples in the last layer are perfectly aligned and nothing is learned, "
    "whether images are real or random, nor with 100 times the learning rate.",
    {"without batch norm": "perfectly aligned gradients", "random images": "almost the same path"},
    vision_cell,
    grid(_ALIGNMENT, SMALL, reduced=LESS),
    grid(_ALIGNMENT, FULL, 5),
    draw_alignment,
    read_alignment,
    medium=grid(_ALIGNMENT, MIDDLE, reduced=BETWEEN),
    choices={
        "optimiser": rate_choice("0.01, without batch norm", [BARE, FASTER]),
        "alignment": Choice(
            "mean |cos| over pairs of 128 samples of the gradients of one neuron",
            "what the paper's proposition 8 is about; the figure does not say",
        ),
    },
    data="cifar10",
    seconds=(95, 30000),
    decisive=VISIBLE,
)

# --- figure 11 -----------------------------------------------------------


def draw_mean(result: xarray.Dataset, settings: Settings) -> Figure:
    """Every network at its own rate."""
    chosen = at_own_rates(result)
    figure, axes = new_figure(2)
    left, right = axes[0]
    curves_by_epoch(left, accuracy_of(chosen), settings["network"])
    curves_by_epoch(right, at_measurements(chosen, settings, "stable_rank"), settings["network"])
    left.set(ylabel="training accuracy", ylim=(0, None))
    right.set(ylabel="r of the last hidden layer", ylim=(0, None))
    legends_below(left, right, columns=1)
    return figure


def read_mean(result: xarray.Dataset, settings: Settings) -> Reading:
    """Every network at its own rate. No difference: at most 0.05 of accuracy at the end, and a factor of at most 1.25
    between ranks averaged over epochs, both beyond chance; undecided where neither that nor its opposite is."""
    chosen = at_own_rates(result)
    accuracy, rank = accuracy_of(chosen), at_measurements(chosen, settings, "stable_rank")
    numbers: dict[str, Measured] = {}
    ends: dict[str, xarray.DataArray] = {}
    ranks: dict[str, xarray.DataArray] = {}
    for network in settings["network"]:
        ends[network] = last_of(accuracy, network)
        ranks[network] = rank.sel(network=network).mean("epoch")
        numbers[f"accuracy, {network}"] = measured(ends[network])
        numbers[f"r before training, {network}"] = measured(rank.sel(network=network).isel(epoch=0))
        numbers[f"r over all epochs, {network}"] = measured(ranks[network])
    statements: dict[str, Seen] = {"with the mean subtracted it learns": learns(ends[BN])}
    there = {name: words for name, words in READINGS.items() if name in ends}
    for network, words in there.items():
        statements |= {
            f"{words}, it learns": learns(ends[network]),
            f"{words}, the accuracy is the same, within 0.05": similar(ends[BN], ends[network], VISIBLE.gap),
            f"{words}, the rank is the same, within a quarter": similar(
                np.log(ranks[BN]), np.log(ranks[network]), math.log(RATIO)
            ),
        }
    told = (by_reading(statements, there), rates_told(chosen, settings))
    return Reading(numbers, statements, " ".join(part for part in told if part))


_MEAN = [BN, MEAN_FREE, DEVIATION]
FIGURE_11 = Study(
    "002/fig-11",
    "VGG19: batch norm, and batch norm that does not subtract the mean",
    "Training accuracy and r of the last hidden layer are the same with and without subtraction of the mean.",
    {"accuracy": "no visible difference", "rank": "no visible difference"},
    vision_cell,
    grid(_MEAN, SMALL, reduced=LESS, rates=MEAN_RATES),
    grid(_MEAN, FULL, 5, rates=MEAN_RATES),
    draw_mean,
    read_mean,
    medium=grid(_MEAN, MIDDLE, reduced=BETWEEN, rates=MEAN_RATES),
    choices={
        "data, network, optimiser": Choice(
            "those of 002/fig-8: CIFAR-10, VGG19, SGD",
            "the paper says a VGG network and nothing else",
        ),
        "learning rate": Choice(
            "0.015, 0.05, 0.15 or 0.5, for each network the one with the highest accuracy at the end",
            "the paper does not print it, and without the mean other rates are best",
        ),
        "batch norm without the mean": Choice(
            "both: divided by the root mean square, and by the standard deviation",
            "the paper's own definition has the first; a library's batch norm whose mean is set to zero has the second",
        ),
    },
    because={
        f"{READINGS[MEAN_FREE]}, the rank is the same, within a quarter": "What ReLU lets through has a positive mean, "
        "which division does not take away. It is not the size of the study: with initial weights, 64 channels and "
        "images of 32×32, r of 64 images is 7.1 and 7.4 with the mean subtracted, 2.1 and 2.2 without (two draws).",
    },
    data="cifar10",
    seconds=(140, 90000),
    decisive=VISIBLE,
)

STUDIES = (FIGURE_7, FIGURE_8, FIGURE_11)
