"""Section 2.4 and appendix A.5 of the thesis: training without batch norm. Figures 2.4 and 2.5 are those of 003."""

from __future__ import annotations

import dataclasses
from typing import Any

import xarray

from isometer_papers.studies._comparisons import Seen, not_below, ordered
from isometer_papers.studies._drawing import Figure, band, new_figure
from isometer_papers.studies._readings import measured
from isometer_papers.studies._study import TOGETHER, Choice, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.depth_training import CLIPPING, SCHEMES, depth_training_cell
from isometer_papers.studies.daneshmand2021.trained import (
    FIGURE_3A,
    FIGURE_3B,
    FIGURE_4,
    GAIN,
    ITERATION,
    MEDIUM,
    PAPER,
    PIXELS,
    QUICK,
    QUICK_RUNS,
    REDUCED,
    REDUCED_MEDIUM,
    RUNS,
    VISIBLE,
    WHY_GAIN,
    final_losses,
)

FIGURE_2_4A = dataclasses.replace(FIGURE_3A, id="001/fig-2.4a")
FIGURE_2_4B = dataclasses.replace(FIGURE_3B, id="001/fig-2.4b")
FIGURE_2_5 = dataclasses.replace(FIGURE_4, id="001/fig-2.5")


def draw_clipping(result: xarray.Dataset, settings: Settings) -> Figure:
    """One panel for each λ, as in the thesis; orthogonal weights are in the first."""
    rates = sorted({how["clip"] for how in CLIPPING.values()})
    figure, axes = new_figure(len(rates), width=4.2, height=3.9)
    known = list(settings["scheme"])
    for axis, rate in zip(axes[0], rates, strict=True):
        beside = ["orthogonal Xavier"] if axis is axes[0, 0] else []
        clipped = [name for name, how in CLIPPING.items() if how["clip"] == rate]
        for scheme in ("Xavier", *beside, *clipped, "iterative"):
            band(axis, settings["depth"], final_losses(result, scheme), label=scheme, index=known.index(scheme))
        axis.set(xlabel="depth", ylabel=f"training loss after {settings['epochs']} epochs", xticks=settings["depth"])
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=8, frameon=False)
    return figure


def read_clipping(result: xarray.Dataset, settings: Settings) -> Reading:
    """All comparisons are at the largest depth; undecided where chance explains a difference."""
    depth = settings["depth"][-1]
    last = {scheme: final_losses(result, scheme)[:, -1] for scheme in SCHEMES}
    ours, plain = last["iterative"], last["Xavier"]
    statements: dict[str, Seen] = {
        "orthogonal Xavier weights do not help: their loss is not below Xavier's by 0.1": not_below(
            plain - VISIBLE.gap, last["orthogonal Xavier"], gap=VISIBLE.gap
        )
    }
    for clipped in CLIPPING:
        statements |= {
            f"{clipped} lowers the loss of the deepest network": ordered(last[clipped], plain, gap=VISIBLE.gap),
            f"iterative orthogonalisation has a lower loss than {clipped}": ordered(
                ours, last[clipped], gap=VISIBLE.gap
            ),
        }
    return Reading(
        {f"training loss with {scheme}, depth {depth}": measured(values) for scheme, values in last.items()},
        statements,
    )


_ALL: dict[str, Any] = {"scheme": list(SCHEMES), "run": RUNS}
FIGURE_A_1 = Study(
    "001/fig-A.1",
    "loss against depth: orthogonal weights, adaptive gradient clipping, iterative orthogonalisation",
    "Xavier's weights made orthogonal do not help against the slowdown with depth; adaptive gradient clipping does, "
    "with λ = 0.1 and with λ = 1, but iterative orthogonalisation reaches a lower loss.",
    {"orthogonal weights": "no help", "AGC": "helps", "iterative": "lowest loss"},
    depth_training_cell,
    Scale(
        {**_ALL, "depth": [15, 45], "run": QUICK_RUNS},
        QUICK,
        f"depths 15 and 45 instead of 15 to 75; {REDUCED}",
        together=TOGETHER,
    ),
    Scale({**_ALL, "depth": FIGURE_4.paper.axes["depth"]}, PAPER),
    draw_clipping,
    read_clipping,
    medium=Scale(
        {**_ALL, "depth": [30, 75]},
        MEDIUM,
        f"depths 30 and 75 instead of 15 to 75; {REDUCED_MEDIUM}",
        together=TOGETHER,
    ),
    choices={
        "clipping": Choice("on top of Xavier's weights", "the thesis does not say"),
        "norms": Choice(
            "both: of whole matrices, and unit by unit",
            "the thesis prints the first (A.21), the method that it cites has the second",
        ),
        "weights": dataclasses.replace(ITERATION, instead={}),
        "gain": Choice(f"{GAIN}, for orthogonal weights too", WHY_GAIN),
        "pixels": PIXELS,
    },
    because={
        "AGC, λ = 0.1 lowers the loss of the deepest network": "Clipping only shortens steps, and few are: in the "
        "first 100 steps of one run here 2 % of the gradients of a matrix exceeded a tenth of its norm, half of them "
        "in the first ten; in a network of the paper's own size, 75 layers of 800 neurons, most did in the first step "
        "and none in the next three. Later steps were not looked at. Yet at medium it does lower the loss of 30 "
        "layers, 0.88 ± 0.07 against 1.08 ± 0.08 (four runs, p = 0.0004), and less surely that of 75, 1.74 ± 0.06 "
        "against 1.95 ± 0.19 (p = 0.02).",
        "AGC, λ = 1 lowers the loss of the deepest network": "No gradient was as large as its matrix in the first 100 "
        "steps of one run here, nor in the first four of a network of the paper's own size (the largest ratios were "
        "0.95 and 0.89): nothing is clipped there. Later steps were not looked at.",
    },
    data="cifar10",
    seconds=(150, 9000),
    decisive=VISIBLE,
)

STUDIES = (FIGURE_2_4A, FIGURE_2_4B, FIGURE_2_5, FIGURE_A_1)
