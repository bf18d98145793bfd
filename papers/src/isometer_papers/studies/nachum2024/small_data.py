"""The experiment that the discussion of 000 mentions: training from one neuron per sample, on small data sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray

from isometer_papers.studies._comparisons import Decisive, Seen, all_of, not_below, ordered
from isometer_papers.studies._drawing import Figure, band, new_figure
from isometer_papers.studies._readings import epochs_measured, measured
from isometer_papers.studies._study import TOGETHER, Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.neuron_training import NEURONS, SCHEMES, neuron_training_cell

CHANCE = 0.1  # accuracy of a run that diverged: ten classes
VISIBLE = Decisive(0.05, "accuracy", "the paper has no numbers and no protocol; a twentieth of the axis is visible")


def at_rates(result: xarray.Dataset) -> xarray.Dataset:
    """Every network at the rate with the highest training accuracy over all epochs."""
    speed = result["train_accuracy"].sel(epoch=slice(1, None)).fillna(CHANCE).mean(("run", "epoch"))
    return result.isel(learning_rate=speed.argmax("learning_rate"))


def curves(chosen: xarray.Dataset, name: str, scheme: str, depth: int, epochs: Any) -> np.ndarray[Any, Any]:
    """Runs by epochs; chance after a divergence."""
    one = chosen[name].sel(scheme=scheme, depth=depth, epoch=epochs).fillna(CHANCE)
    return np.asarray(one.transpose("run", "epoch").values)


def draw_small(result: xarray.Dataset, settings: Settings) -> Figure:
    """Training accuracy in the first row, test accuracy in the second, a column for each depth."""
    chosen, depths = at_rates(result), settings["depth"]
    figure, axes = new_figure(len(depths), 2, width=4.2, height=3.2)
    places = np.arange(1, settings["epochs"] + 1), np.asarray(epochs_measured(settings))
    for row, name, at in zip(axes, ("train_accuracy", "test_accuracy"), places, strict=True):
        for axis, depth in zip(row, depths, strict=True):
            for i, scheme in enumerate(settings["scheme"]):
                band(axis, at, curves(chosen, name, scheme, depth, at), label=scheme, index=i)
            words = f"{name.partition('_')[0]} accuracy"
            axis.set(xlabel="epoch", ylabel=words, ylim=(0, 1), title=f"{depth} hidden layers")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=9)
    return figure


def read_small(result: xarray.Dataset, settings: Settings) -> Reading:
    """Speed is the training accuracy averaged over epochs; differences by Welch's test at 1 %."""
    chosen = at_rates(result)
    numbers: dict[str, Measured] = {}
    statements: dict[str, Seen] = {}
    every = np.arange(1, settings["epochs"] + 1)
    rivals = [scheme for scheme in settings["scheme"] if scheme != NEURONS]
    for depth in settings["depth"]:
        speed, test = {}, {}
        for scheme in settings["scheme"]:
            speed[scheme] = curves(chosen, "train_accuracy", scheme, depth, every).mean(1)
            test[scheme] = curves(chosen, "test_accuracy", scheme, depth, [settings["epochs"]])[:, 0]
            where = f"{scheme}, {depth} hidden layers"
            numbers[f"training accuracy over all epochs, {where}"] = measured(speed[scheme])
            numbers[f"test accuracy, {where}"] = measured(test[scheme])
            numbers[f"gap before training, {where}"] = measured(chosen["gap"].sel(scheme=scheme, depth=depth, epoch=0))
            numbers[f"learning rate, {where}"] = Measured(
                float(chosen["learning_rate"].sel(scheme=scheme, depth=depth))
            )
        where = f"{depth} hidden layers"
        statements[f"one neuron per sample fits the training set faster, {where}"] = all_of(
            ordered(speed[other], speed[NEURONS], gap=VISIBLE.gap) for other in rivals
        )
        statements[f"and generalises no worse, within 0.05, {where}"] = all_of(
            not_below(test[other] - VISIBLE.gap, test[NEURONS], gap=VISIBLE.gap) for other in rivals
        )
    return Reading(numbers, statements)


def small_scale(train: int, epochs: int, runs: int, reduced: str = "") -> Scale:
    """A grid of starts, depths, rates and runs; as many neurons as samples.

    Example:
        >>> small_scale(100, 5, 4).constants["width"]
        100
    """
    axes: dict[str, list[Any]] = {"scheme": list(SCHEMES), "depth": [1, 4], "learning_rate": RATES}
    constants = {"data": "fashion-mnist", "device": "cpu", "watch": False, "width": train, "margin": 0.5, "answer": 1.0}
    constants |= {"train": train, "test": 2000, "shrink": 1, "batch": 20, "optimizer": "sgd"}
    constants |= {"epochs": epochs, "every": epochs}
    return Scale({**axes, "run": list(range(runs))}, constants, reduced, together=TOGETHER)


RATES = [0.01, 0.05, 0.2, 0.4]
SMALL_DATA = Study(
    "000/init-experiment",
    "small data sets: one neuron per sample, He's weights and batch norm",
    "A network in which every training sample has a neuron of its own may be a good start on small data sets, as first "
    "experiments of the authors suggest.",
    {"one neuron per sample": "might be a good initialisation for small data sets"},
    neuron_training_cell,
    small_scale(200, 20, 8, "200 images, 200 steps, 8 runs; the paper has no numbers"),
    small_scale(1000, 40, 8),
    draw_small,
    read_small,
    medium=small_scale(500, 40, 8, "500 images, 1000 steps, 8 runs; the paper has no numbers"),
    choices={
        "protocol": Choice(
            "networks of 1 and 4 hidden layers, as wide as there are images; against He's weights and batch norm",
            "the paper says “initial experimentation” and nothing else",
        ),
        "thresholds": Choice(
            "half of the way from the runner-up to the sample",
            "not stated",
            {"a tenth of the way": {"margin": 0.1}},
        ),
        "length of answers": Choice(
            "1: a sample has length 1 in every layer",
            "not stated; He's weights keep the length of the images, 28 on average",
            {"10 in the last hidden layer": {"answer": 10.0}},
        ),
        "learning rate": Choice(
            "0.01, 0.05, 0.2 or 0.4, for each network the one with the highest training accuracy over all epochs",
            "not stated",
        ),
    },
    data="fashion-mnist",
    seconds=(60, 600),
    decisive=VISIBLE,
)

STUDIES = (SMALL_DATA,)
