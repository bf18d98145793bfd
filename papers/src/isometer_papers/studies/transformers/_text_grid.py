"""A trainability diagram validated by training: 008/grid."""

from __future__ import annotations

import numpy as np
import xarray

from isometer_papers.studies._comparisons import Decisive, Seen, above, all_of, ordered
from isometer_papers.studies._drawing import PALETTE, Figure, plain_logs, single_panel
from isometer_papers.studies._readings import measured
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.text_training import gap_filling_cell, unigram_entropy

_NETWORK = (
    "gpt(blocks={blocks}, width={width}, heads=4, hidden=64, tokens=32, norm='post', branch={branch}, qk_gain={gain}, "
    "causal=False)"
)
_NAMES = ("open", "rank collapse", "entropy collapse", "vanishing gradients", "exploding gradients", "diverged")
OPEN = "every network in the open phase learns more than how often symbols occur"
RANK = "every network in rank collapse ends at a higher loss than every network in the open phase"
ENTROPY = "every network in entropy collapse ends at a higher loss than every network in the open phase"
DECISIVE = Decisive(
    0.05, "loss in nats", "at most half of what the best networks learn beyond the symbols' frequencies"
)


def draw_grid(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel(width=5.4)
    for branch, marker in zip(settings["branch"], "osD^v", strict=False):
        for gain in settings["gain"]:
            point = result.sel(branch=branch, gain=gain)
            phase = int(point["phase"].isel(run=0))
            place = np.full(point.sizes["run"], gain)
            axis.plot(place, point["loss"], marker, color=PALETTE[phase % len(PALETTE)], alpha=0.7)
    for phase in sorted({int(one) for one in result["phase"].values.ravel()}):
        axis.plot([], [], "o", color=PALETTE[phase % len(PALETTE)], label=_NAMES[phase])
    for branch, marker in zip(settings["branch"], "osD^v", strict=False):
        axis.plot([], [], marker, color="#888888", label=f"branch factor {branch:g}")
    axis.axhline(unigram_entropy(), color="#444444", linestyle=":", label="symbols alone")
    axis.set(xscale="log", xlabel="query–key gain", ylabel="loss at the end, nats")
    plain_logs(axis.xaxis)
    axis.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    return figure


def read_grid(result: xarray.Dataset, settings: Settings) -> Reading:
    """Runs of networks compared by phase; a phase that the grid does not have says nothing."""
    symbols_alone = unigram_entropy()
    numbers: dict[str, Measured] = {"loss of symbols alone": Measured(symbols_alone)}
    losses: dict[int, list[np.ndarray]] = {}
    for branch in settings["branch"]:
        for gain in settings["gain"]:
            point = result.sel(branch=branch, gain=gain)
            phase, runs = int(point["phase"].isel(run=0)), point["loss"].values
            numbers[f"loss, branch {branch:g}, gain {gain:g} ({_NAMES[phase]})"] = measured(runs)
            losses.setdefault(phase, []).append(runs)
    opened = losses.get(0, [])

    def all_below(phase: int) -> Seen:
        pairs = [(low, high) for low in opened for high in losses.get(phase, [])]
        return all_of(ordered(low, high, gap=DECISIVE.gap) for low, high in pairs) if pairs else None

    learns = all_of(above(-runs, -symbols_alone, gap=DECISIVE.gap) for runs in opened) if opened else None
    return Reading(numbers, {OPEN: learns, RANK: all_below(1), ENTROPY: all_below(2)})


_AXES = {"branch": [0.15, 1.0], "gain": [0.3, 1.0, 5.0]}
_HOW = {"network": _NETWORK, "batch": 16, "rate": 2e-3, "device": "cpu"}
GRID = Study(
    "008/grid",
    "phases at initialisation against the loss of small transformers after training",
    "Trainability diagrams at initialisation say which transformers train: tokens that become alike and attention that "
    "reads single tokens are two ways to fail.",
    {"open phase": "trains", "rank collapse": "does not train", "entropy collapse": "unstable"},
    gap_filling_cell,
    Scale(
        {**_AXES, "run": [0, 1, 2, 3]},
        {**_HOW, "blocks": 16, "width": 32, "steps": 150},
        "16 blocks of width 32, 150 steps, help texts of Python instead of TinyStories",
    ),
    Scale(
        {"branch": [0.05, 0.15, 0.5, 0.7, 1.0], "gain": [0.3, 1.0, 2.0, 3.5, 5.0, 8.0], "run": list(range(4))},
        {**_HOW, "blocks": 24, "width": 64, "steps": 2000},
        "24 blocks of width 64, 2000 steps, help texts of Python instead of TinyStories",
    ),
    draw_grid,
    read_grid,
    decisive=DECISIVE,
    medium=Scale(
        {"branch": [0.15, 0.5, 1.0], "gain": [0.3, 1.0, 3.0, 6.0], "run": [0, 1, 2, 3]},
        {**_HOW, "blocks": 16, "width": 32, "steps": 500},
        "16 blocks of width 32, 500 steps, help texts of Python instead of TinyStories",
    ),
    choices={
        "task": Choice("a quarter of 32 symbols is to be found", "the paper trains BERT-like models on masked words"),
        "optimizer": Choice("Adam, 0.002, no warm-up", "one rate for all", {"rate 0.0005": {"rate": 5e-4}}),
    },
    because={
        RANK: "Some of these networks still learn: training leaves the state of initialisation.",
        ENTROPY: "Some of these networks still learn: training leaves the state of initialisation.",
        OPEN: "150 steps are few.",
    },
    seconds=(180.0, 20000.0),
)
