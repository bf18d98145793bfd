"""Figure 5 of paper 003: the gap through ReLU networks on images."""

from __future__ import annotations

import numpy as np
import xarray

from isometer_papers.studies._comparisons import surely_less
from isometer_papers.studies._drawing import LINES, PALETTE, Figure, new_figure
from isometer_papers.studies._published import told_by
from isometer_papers.studies._readings import measured
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.architectures import image_gap_cell
from isometer_papers.studies.daneshmand2021.published import MLP_GAPS


def draw_networks(result: xarray.Dataset, settings: Settings) -> Figure:
    """Bands are standard deviations over batches, as in the paper."""
    figure, axes = new_figure(len(settings["architecture"]), width=4.4, height=3.8)
    for axis, architecture in zip(axes[0], settings["architecture"], strict=True):
        for i, norm in enumerate(settings["norm"]):
            curve = result["orthogonality_gap"].sel(architecture=architecture, norm=norm).transpose("batch", "layer")
            mean, spread = curve.values.mean(0), curve.values.std(0, ddof=1)
            axis.plot(curve["layer"], mean, LINES[i], color=PALETTE[i], label=norm)
            axis.fill_between(curve["layer"], mean - spread, mean + spread, color=PALETTE[i], alpha=0.2, linewidth=0)
            if architecture == "MLP":
                MLP_GAPS[norm].draw(axis, i)
        if architecture == "MLP":
            told_by(axis)
        axis.set(xlabel="layer", ylabel="orthogonality gap V", ylim=(0, 1), title=architecture)
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.08), ncols=3, fontsize=8)
    return figure


def read_networks(result: xarray.Dataset, settings: Settings) -> Reading:
    """Levels are means over a third of the layers; constant is what moves by less than 5 % of the fall."""
    numbers: dict[str, Measured] = {}
    statements: dict[str, bool | None] = {}
    window = max(settings["depth"] // 3, 1)
    for architecture in settings["architecture"]:
        gap = result["orthogonality_gap"].sel(architecture=architecture).transpose("norm", "batch", "layer")
        plain, normed = gap.sel(norm="vanilla").values, gap.sel(norm="batch norm").values
        middle, last = normed[:, -2 * window : -window].mean(1), normed[:, -window:].mean(1)
        numbers |= {
            f"{architecture}: V of the input": measured(normed[:, 0]),
            f"{architecture}: V of the last layer, vanilla": measured(plain[:, -1]),
            f"{architecture}: V of the last layers, batch norm": measured(last),
        }
        if architecture == "MLP":
            for norm, values in (("batch norm", normed), ("vanilla", plain)):
                apart = MLP_GAPS[norm].distance(gap["layer"].values, values.mean(0))
                numbers[f"{architecture}: distance from the published curve, {norm}"] = apart
        drift = measured(last - middle)
        fall = measured(normed[:, 0] - last)
        statements |= {
            f"{architecture}: the gap of the vanilla network grows with depth": surely_less(plain[:, 1], plain[:, -1]),
            f"{architecture}: batch norm lowers the gap": surely_less(last, normed[:, 0]),
            f"{architecture}: and it becomes constant": bool(
                abs(drift.value) <= 0.05 * abs(fall.value) + drift.uncertainty and fall.value > 0
            ),
        }
    share = np.mean(
        [
            result["orthogonality_gap"].sel(norm="batch norm", layer=settings["depth"]).values
            < result["orthogonality_gap"].sel(norm="vanilla", layer=settings["depth"]).values
        ]
    )
    numbers["share of batches with a lower last gap under batch norm"] = Measured(float(share))
    return Reading(numbers, statements)


_BOTH = {"architecture": ["MLP", "ConvNet"], "norm": ["batch norm", "vanilla"]}
_SHARED = {
    "data": "cifar10",
    "samples": 8,
    "depth": 30,
    "kernel": 3,
    "padding": "zero",
    "weights": "one draw",
    "pixels": "shifted",
}
FIGURE_5 = Study(
    "003/fig-5",
    "orthogonality gap by layer of ReLU networks, dense and convolutional, on CIFAR10",
    "The gap grows with depth in vanilla networks; with batch norm it falls and then stays constant, in a dense and in "
    "a convolutional network.",
    {"vanilla": "grows with depth", "batch norm": "falls, then constant"},
    image_gap_cell,
    Scale(
        _BOTH, {**_SHARED, "width": 48, "batches": 10}, "48 neurons or channels and 10 batches instead of 100 and 50"
    ),
    Scale(_BOTH, {**_SHARED, "width": 100, "batches": 50}),
    draw_networks,
    read_networks,
    choices={
        "weights": Choice(
            "Gaussian, one draw for all batches",
            "the public code has it; their variance does not matter to the gap",
            {"a draw for every batch": {"weights": "each its own"}},
        ),
        "pixels": Choice(
            "(x − 0.1307)/0.3081 for x in [0, 1], then ReLU before the first layer",
            "the public code has it",
            {"x in [0, 1]": {"pixels": "unit"}},
        ),
        "padding": Choice(
            "zeros, as the caption says",
            "the public code reflects instead, although it has an option for zeros",
            {"circular": {"padding": "circular"}, "reflected": {"padding": "reflect"}},
        ),
        "place": Choice("the gap is taken before each ReLU, after the norm", "the public code's blocks end there"),
    },
    because={
        "ConvNet: and it becomes constant": "The gap of the convolutional network is lowest before layer ten and rises "
        "again, with other paddings and draws of weights too, since the lengths of the samples come apart: in six "
        "batches the longest is 1.9 times as long as the shortest at layer 5 and 2.9 times at layer 30, while V rises "
        "from 0.20 ± 0.02 to 0.33 ± 0.04; of samples of unit length V falls, from 0.11 to 0.07. Batch norm takes its "
        "statistics over space, which lets lengths differ: with statistics of every position by itself the ratio is "
        "1.02, and V stays at 0.134 from layer 10 to layer 30. The study 003/fig-5-why has the mean-field theory of it."
    },
    data="cifar10",
    seconds=(30, 120),
)

STUDIES = (FIGURE_5,)
