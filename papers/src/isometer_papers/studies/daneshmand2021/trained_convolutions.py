"""Figure 7 and table 3 of paper 003: convolutional networks of 20 and 80 layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray

from isometer_papers.studies._drawing import Figure, band, new_figure
from isometer_papers.studies._readings import measured, ordered
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies._tables import table_picture
from isometer_papers.studies.cells.convolution_training import (
    convolution_training_cell,
    expanded,
    printed_rows,
    table_cell,
)
from isometer_papers.studies.daneshmand2021.trained import BOTH, ROOT, WHY_GAIN, losses

# --- figure 7 --------------------------------------------------------------------------------------------------------


def draw_convolutions(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(len(settings["convolutions"]), width=4.2, height=3.9)
    for axis, count in zip(axes[0], settings["convolutions"], strict=True):
        for i, scheme in enumerate(settings["scheme"]):
            curve = losses(result.sel(convolutions=count, scheme=scheme), "run", "epoch")[:, 1:]
            band(axis, np.arange(1, curve.shape[1] + 1), curve, label=scheme, index=i)
        axis.set(xlabel="epoch", ylabel="training loss", title=f"{count} convolutions")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=8)
    return figure


def read_convolutions(result: xarray.Dataset, settings: Settings) -> Reading:
    """Losses are means over the last quarter of the epochs; the shallow network is the first, the deep one the last.

    Differences that chance explains (Welch's test at 1 %) leave a statement undecided.
    """
    late = max(settings["epochs"] // 4, 1)
    numbers: dict[str, Measured] = {}
    statements: dict[str, bool | None] = {}
    counts = settings["convolutions"]
    for count in counts:
        values = {}
        for scheme in ("Xavier", "iterative"):
            one = result.sel(convolutions=count, scheme=scheme)
            values[scheme] = losses(one, "run", "epoch")[:, -late:].mean(1)
            numbers[f"late training loss, {scheme}, {count} convolutions"] = measured(values[scheme])
            gap = measured(one["feature_gap"].sel(epoch=0))
            numbers[f"gap of the features before training, {scheme}, {count} convolutions"] = gap
        if count == counts[0]:
            name = f"in the shallow network, of {count} convolutions, the iterative weights are slower"
            statements[name] = ordered(values["Xavier"], values["iterative"])
        if count == counts[-1] and len(counts) > 1:
            name = f"in the deep network, of {count} convolutions, the iterative weights are better"
            statements[name] = ordered(values["iterative"], values["Xavier"])
    return Reading(numbers, statements)


_CONVOLUTIONS = {
    "data": "cifar10",
    "device": "cpu",
    "watch": False,
    "gain": ROOT,
    "exponent": 0.5,
    "output_norm": 1.0,
    "shrink": 1,
    "batch": 30,
    "epochs": 20,
    "every": 20,
}
FIGURE_7 = Study(
    "003/fig-7",
    "training convolutional networks, Xavier against iterative orthogonalisation",
    "In a network of 20 convolutions, weights that orthogonalise the representations slow SGD down; in one of 80 they "
    "are better than Xavier's.",
    {"20 convolutions": "Xavier is faster", "80 convolutions": "iterative is better"},
    convolution_training_cell,
    Scale(
        {**BOTH, "convolutions": [6, 24]},
        {**_CONVOLUTIONS, "channels": [16, 24, 24], "hidden": 256, "train": 1800, "learning_rate": 0.02},
        "6 and 24 convolutions of 24 channels instead of 20 and 80 of 256, 256 hidden units instead of 4096, 1800 "
        "images instead of 50000: 1200 steps at a learning rate of 0.02 instead of 33000 at 0.001",
    ),
    Scale(
        {**BOTH, "convolutions": [20, 80]},
        {
            **_CONVOLUTIONS,
            "channels": [64, 192, 256],
            "hidden": 4096,
            "train": 50000,
            "learning_rate": 0.001,
            "watch": True,
        },
    ),
    draw_convolutions,
    read_convolutions,
    medium=Scale(
        {**BOTH, "convolutions": [10, 40]},
        {**_CONVOLUTIONS, "channels": [16, 24, 24], "hidden": 256, "train": 6750, "learning_rate": 0.01},
        "10 and 40 convolutions of 24 channels instead of 20 and 80 of 256, 256 hidden units instead of 4096, 6750 "
        "images instead of 50000: 4500 steps at a learning rate of 0.01 instead of 33000 at 0.001",
    ),
    choices={
        "gain": Choice(
            "√2 times Xavier's uniform weights, biases zero",
            WHY_GAIN,
            {"plain Xavier weights": {"gain": 1.0, "convolutions": [6]}},
        ),
        "weights": Choice(
            "set from 256 images, in convolutions with as many outputs as inputs", "the public code has these"
        ),
        "pixels": Choice("from 0 to 1", "the public code has it"),
        "epochs": Choice("20", "the public code has it"),
    },
    because={
        "in the deep network, of 24 convolutions, the iterative weights are better": "Too shallow and too short: with "
        "40 convolutions and 4500 steps (medium, four runs) the iterative weights reach a loss of 1.86 ± 0.07, and "
        "Xavier's, which hardly leave the plateau, 2.24 ± 0.20.",
        **{
            f"in the shallow network, of {count} convolutions, the iterative weights are slower": "The means are in "
            "the published order at first and meet later; the difference is not beyond chance, at medium (10 "
            "convolutions, 1.78 both) neither."
            for count in (6, 10)
        },
    },
    data="cifar10",
    seconds=(180, 15000),
)

# --- table 3 ---------------------------------------------------------------------------------------------------------


def draw_table(result: xarray.Dataset, settings: Settings) -> Figure:
    first = result.isel(convolutions=0)
    rows = []
    for i, row in enumerate(printed_rows(settings["convolutions"][0])):
        one = first.isel(row=i)
        side = int(one["side"])
        shape = f"{int(one['channels'])}×{side}×{side}" if side > 1 else f"{int(one['channels'])}"
        kernel = f"{int(one['largest_kernel'])} / {int(one['largest_stride'])}" if one["largest_kernel"] else ""
        counts = [f"{int(count):,}".replace(",", " ") for count in result["parameters"].isel(row=i).values]
        same = "yes" if bool(result["agrees"].isel(row=i).all()) else "no"
        rows.append([_both(row, settings), kernel, shape, *counts, same])
    header = ["as printed", "kernel / stride", "what comes out"]
    header += [f"parameters,\n{count} convolutions" for count in settings["convolutions"]]
    return table_picture([*header, "built so"], rows)


def _both(row: str, settings: Settings) -> str:
    """A row of the first network, with the repeats of the others."""
    start, times, _ = row.partition(" × ")
    if not times:
        return row
    printed = [printed_rows(count) for count in settings["convolutions"]]
    repeats = [one.partition(" × ")[2] for rows in printed for one in rows if one.startswith(f"{start} × ")]
    return f"{start} × {' or '.join(repeats)}"


def read_table(result: xarray.Dataset, settings: Settings) -> Reading:
    """Layers are compared by kind and sizes, in order."""
    numbers: dict[str, Measured] = {}
    statements: dict[str, bool | None] = {}
    for count in settings["convolutions"]:
        one = result.sel(convolutions=count)
        numbers[f"parameters, {count} convolutions"] = Measured(float(one["parameters"].sum()))
        statements[f"the network of {count} layers is built of the printed layers in their order"] = bool(
            one["agrees"].all() and one["left"] == 0
        )
        printed = sum(layer.startswith("Conv2d") for row in printed_rows(count) for layer in expanded(row))
        statements[f"its rows add up to {count} convolutions"] = printed == count
    some = result["largest_kernel"] > 0
    sizes = [result[name].where(some, 3) for name in ("smallest_kernel", "largest_kernel")]
    reached = (result["channels"] * result["side"] ** 2).isel(row=4)
    numbers["numbers that reach the first linear layer"] = Measured(float(reached[0]))
    statements |= {
        "the kernel size is 3 in all convolutions": all(bool((size == 3).all()) for size in sizes),
        "1024 numbers reach the first linear layer": bool((reached == 1024).all()),
    }
    return Reading(
        numbers,
        statements,
        "The public code has one more convolution of 192 channels and one repeated one less, 20 and 80 in all as well.",
    )


_NETWORKS: dict[str, Any] = {"convolutions": [20, 80]}
TABLE_3 = Study(
    "003/table-3",
    "the convolutional networks, layer by layer",
    "A list of the layers of the networks of 20 and of 80 convolutions, with their inputs and outputs.",
    {"numbers that reach the first linear layer": 1024},
    table_cell,
    Scale(_NETWORKS),
    Scale(_NETWORKS),
    draw_table,
    read_table,
    choices={
        "strides": Choice(
            "2 in the first convolution, 1 in the others; padding 1",
            "the table does not say; 1024 numbers reach the first linear layer only so, and the public code has it",
        )
    },
    seconds=(5, 5),
)

STUDIES = (FIGURE_7, TABLE_3)
