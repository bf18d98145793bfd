"""Figure 7 and table 3 of paper 003: convolutional networks of 20 and 80 layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray

from isometer_papers.studies._comparisons import Decisive, Seen, ordered
from isometer_papers.studies._drawing import Figure, band, new_figure
from isometer_papers.studies._published import PublishedCurve, told_by
from isometer_papers.studies._readings import measured
from isometer_papers.studies._study import TOGETHER, Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies._tables import table_picture
from isometer_papers.studies.cells.convolution_training import (
    PRINTED,
    PUBLIC,
    SCHEMES,
    convolution_training_cell,
    expanded,
    printed_rows,
    table_cell,
)
from isometer_papers.studies.daneshmand2021.published import CONVOLUTION_LOSSES
from isometer_papers.studies.daneshmand2021.trained import ROOT, RUNS, WHY_GAIN, losses

# --- figure 7 --------------------------------------------------------------------------------------------------------


def published_losses(counts: Sequence[int], count: int) -> Mapping[str, PublishedCurve]:
    """The curves of the network that this one stands for: of 20 convolutions for the first, of 80 for the last."""
    return CONVOLUTION_LOSSES[20 if count == counts[0] else 80]


def draw_convolutions(result: xarray.Dataset, settings: Settings) -> Figure:
    counts = settings["convolutions"]
    figure, axes = new_figure(len(counts), width=4.2, height=3.9)
    for axis, count in zip(axes[0], counts, strict=True):
        for i, scheme in enumerate(settings["scheme"]):
            curve = losses(result.sel(convolutions=count, scheme=scheme), "run", "epoch")[:, 1:]
            band(axis, np.arange(1, curve.shape[1] + 1), curve, label=scheme, index=i)
            if scheme != PRINTED:
                published_losses(counts, count)["Xavier" if scheme == "Xavier" else "orthogonal"].draw(axis, i)
        told_by(axis)
        axis.set(xlabel="epoch", ylabel="training loss", title=f"{count} convolutions")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=8)
    return figure


def read_convolutions(result: xarray.Dataset, settings: Settings) -> Reading:
    """Early is the first tenth of the epochs, late the last quarter; the shallow network is the first, the deep one the
    last. Differences that chance explains (Welch's test at 1 %) leave a statement undecided.
    """
    numbers: dict[str, Measured] = {}
    statements: dict[str, Seen] = {}
    counts = settings["convolutions"]
    for count in counts:
        values: dict[str, np.ndarray[Any, Any]] = {}
        for scheme in settings["scheme"]:
            one = result.sel(convolutions=count, scheme=scheme)
            values[scheme] = losses(one, "run", "epoch")[:, 1:]
            where = f"{scheme}, {count} convolutions"
            numbers[f"late training loss, {where}"] = measured(_late(values[scheme]))
            numbers[f"gap of the features before training, {where}"] = measured(one["feature_gap"].sel(epoch=0))
            if count in CONVOLUTION_LOSSES and scheme != PRINTED:
                published = CONVOLUTION_LOSSES[count]["Xavier" if scheme == "Xavier" else "orthogonal"]
                mean = values[scheme].mean(0)
                numbers[f"distance from the published curve, {where}"] = published.distance(
                    np.arange(1, len(mean) + 1), mean
                )
        for scheme in [scheme for scheme in settings["scheme"] if scheme != "Xavier"]:
            ours, plain = values[scheme], values["Xavier"]
            if count == counts[0]:
                where = f"in the shallow network, of {count} convolutions,"
                statements[f"{where} the weights “{scheme}” lead at first"] = ordered(
                    _early(ours), _early(plain), gap=_published_gap(20, _early)
                )
                statements[f"{where} the weights “{scheme}” fall behind"] = ordered(
                    _late(plain), _late(ours), gap=_published_gap(20, _late)
                )
            if count == counts[-1] and len(counts) > 1:
                name = f"in the deep network, of {count} convolutions, the weights “{scheme}” lead"
                statements[name] = ordered(_late(ours), _late(plain), gap=_published_gap(80, _late))
    return Reading(numbers, statements)


def _early(curves: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """By run: the published curves cross at epoch 3 of 20."""
    return np.asarray(curves[:, : max(curves.shape[1] // 10, 1)].mean(1))


def _late(curves: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(curves[:, -max(curves.shape[1] // 4, 1) :].mean(1))


def _published_gap(count: int, part: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> float:
    """How far the published curves are apart there, epochs that cannot be read left out."""
    curves = [np.asarray(CONVOLUTION_LOSSES[count][name].values)[None] for name in ("Xavier", "orthogonal")]
    # a copy of the neighbour where a point cannot be read
    known = [np.where(np.isnan(one), np.roll(one, -1, axis=1), one) for one in curves]
    return abs(float(part(known[0])[0] - part(known[1])[0]))


PUBLISHED_GAPS = Decisive(
    _published_gap(20, _late),
    "training loss",
    "read off the authors' public notebook: 20 convolutions, last quarter of the epochs; "
    f"{_published_gap(20, _early):.3f} in the first tenth, {_published_gap(80, _late):.2f} with 80 convolutions",
)
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


def _published_late(count: int, name: str) -> float:
    return round(float(np.nanmean(CONVOLUTION_LOSSES[count][name].values[-5:])), 3)


_ALL: dict[str, Any] = {"scheme": list(SCHEMES), "run": RUNS}
FIGURE_7 = Study(
    "003/fig-7",
    "training convolutional networks, Xavier against iterative orthogonalisation",
    "In a network of 20 convolutions, weights that orthogonalise the representations lead for two epochs and fall "
    "behind Xavier's from the third on; in one of 80 they lead throughout.",
    {
        "20 convolutions": "orthogonal leads for two epochs, then Xavier",
        "80 convolutions": "orthogonal leads",
        **{
            f"late training loss, {scheme}, {count} convolutions": _published_late(count, name)
            for scheme, name in (("Xavier", "Xavier"), (PUBLIC, "orthogonal"))
            for count in (20, 80)
        },
    },
    convolution_training_cell,
    Scale(
        {**_ALL, "convolutions": [6, 24]},
        {**_CONVOLUTIONS, "channels": [16, 24, 24], "hidden": 256, "train": 1800, "learning_rate": 0.02},
        "6 and 24 convolutions of 24 channels instead of 20 and 80 of 256, 256 hidden units instead of 4096, 1800 "
        "images instead of 50000: 1200 steps at a learning rate of 0.02 instead of 33000 at 0.001",
        together=TOGETHER,
    ),
    Scale(
        {**_ALL, "convolutions": [20, 80]},
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
        {**_ALL, "convolutions": [10, 40]},
        {**_CONVOLUTIONS, "channels": [16, 24, 24], "hidden": 256, "train": 6750, "learning_rate": 0.01},
        "10 and 40 convolutions of 24 channels instead of 20 and 80 of 256, 256 hidden units instead of 4096, 6750 "
        "images instead of 50000: 4500 steps at a learning rate of 0.01 instead of 33000 at 0.001",
        together=TOGETHER,
    ),
    choices={
        "gain": Choice(
            "√2 times Xavier's uniform weights, biases zero",
            WHY_GAIN,
            {"plain Xavier weights": {"gain": 1.0, "convolutions": [6]}},
        ),
        "weights": Choice(
            "set from 256 images, in convolutions with as many outputs as inputs; both with all directions of the "
            "patches and polar factors, as printed, and with the leading ones alone, as many as outputs, and a slice",
            "the public code has these images and layers; the figure was made with its leading directions and slice",
        ),
        "pixels": Choice("from 0 to 1", "the public code has it"),
        "epochs": Choice("20", "the public code has it"),
    },
    because={
        f"in the deep network, of 24 convolutions, the weights “{PRINTED}” lead": "Too shallow and too short: with 40 "
        "convolutions and 4500 steps (medium, four runs) the iterative weights reach a loss of 1.86 ± 0.07, and "
        "Xavier's, which hardly leave the plateau, 2.24 ± 0.20.",
        **{
            f"in the shallow network, of {count} convolutions, the weights “{PRINTED}” fall behind": "The "
            "difference is not beyond chance, at medium (10 convolutions, 1.78 both) neither."
            for count in (6, 10)
        },
    },
    data="cifar10",
    seconds=(180, 15000),
    decisive=PUBLISHED_GAPS,
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
    statements: dict[str, Seen] = {}
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
