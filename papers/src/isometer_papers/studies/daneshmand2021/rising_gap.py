"""Why the gap of the convolutional network of figure 5 rises again after layer ten."""

from __future__ import annotations

import numpy as np
import xarray

from isometer_papers.studies._comparisons import surely_less
from isometer_papers.studies._drawing import LINES, PALETTE, Figure, new_figure
from isometer_papers.studies._readings import measured
from isometer_papers.studies._study import Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.spatial_norm import PARTS, gap_parts_cell

_CLOSE = 0.03  # between curves: a tenth of their size
_MIDDLE = slice(7, 12)  # layers 8 to 12, around the lowest gap
_LAST = slice(-5, None)


def draw_parts(result: xarray.Dataset, settings: Settings) -> Figure:
    """One panel per network: the gap and its parts, means over batches with standard deviations."""
    figure, axes = new_figure(len(settings["network"]), width=3.4, height=3.4)
    for axis, network in zip(axes[0], settings["network"], strict=True):
        curves = result["parts"].sel(network=network).transpose("part", "batch", "layer")
        for i, part in enumerate(PARTS):
            mean, spread = curves.sel(part=part).values.mean(0), curves.sel(part=part).values.std(0)
            axis.plot(curves["layer"], mean, LINES[i], color=PALETTE[i], label=part)
            axis.fill_between(curves["layer"], mean - spread, mean + spread, color=PALETTE[i], alpha=0.2, linewidth=0)
        axis.set(xlabel="layer", ylabel="orthogonality gap V", ylim=(0, 0.6), title=network)
    axes[0][0].legend(fontsize=8)
    return figure


def read_parts(result: xarray.Dataset, settings: Settings) -> Reading:
    """Middle: layers 8 to 12; end: the last five. Wide networks must be within 0.03 of theory everywhere."""

    def curve(network: str, part: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        chosen = result["parts"].sel(network=network, part=part).transpose("batch", "layer")
        return np.asarray(chosen.values)

    def level(network: str, part: str, where: slice) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.asarray(curve(network, part)[:, where].mean(axis=1))

    numbers: dict[str, Measured] = {}
    for network in settings["network"]:
        for part in PARTS:
            for name, where in (("layers 8 to 12", _MIDDLE), ("the last five layers", _LAST)):
                numbers[f"{network}: {part}, {name}"] = measured(level(network, part, where))
    apart = {
        name: float(np.abs(curve("mean field", "gap").mean(0) - curve(name, "gap").mean(0)).max())
        for name in ("small images", "four times as wide")
    }
    for name, distance in apart.items():
        numbers[f"largest distance from mean field, {name}"] = Measured(distance)

    def rises(network: str, part: str) -> bool:
        """By the differences within batches, which differ more among themselves."""
        return surely_less([0.0, 0.0], level(network, part, _LAST) - level(network, part, _MIDDLE))

    return Reading(
        numbers,
        {
            "the gap rises again, in whole and in small images": rises("whole images", "gap")
            and rises("small images", "gap"),
            "what rises are the differences between lengths": rises("whole images", "lengths")
            and rises("small images", "lengths"),
            "cosines do not": not rises("whole images", "cosines") and not rises("small images", "cosines"),
            "wider networks come closer to mean-field theory of the same images": apart["four times as wide"]
            < min(_CLOSE, apart["small images"]),
            "and it rises": rises("mean field", "gap") and rises("mean field", "lengths"),
            "statistics at each position keep lengths together": not rises("norm at each position", "lengths")
            and surely_less(level("norm at each position", "lengths", _LAST), level("small images", "lengths", _LAST)),
        },
    )


_AXES = {"network": ["mean field", "small images", "four times as wide", "norm at each position", "whole images"]}
_SHARED = {"data": "cifar10", "samples": 8, "depth": 30, "side": 8, "draw": 0}
FIGURE_5_WHY = Study(
    "003/fig-5-why",
    "why the gap of the convolutional network with batch norm rises again after layer ten",
    "The figure's curve of the convolutional network with batch norm falls and stays; ours rises again after layer "
    "ten. The gap has two parts, differences between the lengths of samples and cosines between them.",
    {"ConvNet, batch norm": "falls, then constant"},
    gap_parts_cell,
    Scale(_AXES, {**_SHARED, "width": 200, "batches": 8}, "8 batches instead of 20"),
    Scale(_AXES, {**_SHARED, "width": 200, "batches": 20}),
    draw_parts,
    read_parts,
    data="cifar10",
    seconds=(90, 400),
)

STUDIES = (FIGURE_5_WHY,)
