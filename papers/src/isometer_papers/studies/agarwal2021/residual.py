"""Figures 4, 5 and 8 of paper 004: residual networks with NormReLU against batch norm, Fixup and SeLU."""

from __future__ import annotations

import xarray

from isometer_papers.studies._comparisons import Seen, similar
from isometer_papers.studies._study import Choice, Measured, Reading, Settings, Study
from isometer_papers.studies.agarwal2021.curves import (
    CHOICES,
    COMMON,
    KERNELS,
    MARGIN,
    SLIGHT,
    ahead,
    best,
    draw_accuracies,
    edges_told,
    numbers,
    paper_scale,
    scale,
    speed,
)
from isometer_papers.studies.cells.normrelu_training import training_cell

_QUICK, _MEDIUM = [20], [32, 56]
_MORE = {"runs": 8, "epochs": 9, "every": 3}  # one depth, so that there is time for runs enough to tell methods apart

# --- figure 4 ------------------------------------------------------------


def read_competitive(result: xarray.Dataset, settings: Settings) -> Reading:
    """Similar: means at most 0.03 apart. Ahead at the largest depth: by Welch's test at 1 %."""
    values: dict[str, Measured] = {}
    statements: dict[str, Seen] = {}
    for depth in settings["depth"]:
        own, other = (best(result, settings, "ResNet", depth, method) for method in ("NormReLU", "batch norm"))
        values |= numbers(f"NormReLU, depth {depth}", own) | numbers(f"batch norm, depth {depth}", other)
        statements[f"depth {depth}: similar test accuracy"] = similar(own.test(), other.test(), MARGIN.gap)
    if len(settings["depth"]) > 1:
        statements["at the largest depth NormReLU is ahead"] = ahead(own.test(), other.test(), SLIGHT)
    return Reading(values, statements, edges_told(result, settings))


FIGURE_4 = Study(
    "004/fig-4",
    "ResNets with batch norm and with NormReLU instead",
    "NormReLU reaches a test accuracy similar to batch norm's, slightly higher at depth 110.",
    {"depth 32": "similar", "depth 110": "similar, NormReLU slightly ahead"},
    training_cell,
    scale("quick", ["ResNet"], _QUICK, ["batch norm", "NormReLU"], **_MORE),
    paper_scale("fig-4"),
    draw_accuracies,
    read_competitive,
    medium=scale("medium", ["ResNet"], _MEDIUM, ["batch norm", "NormReLU"]),
    choices={**CHOICES, "kernels": Choice(KERNELS["kernels"].value, f"{KERNELS['kernels'].why}; varied in 004/fig-8")},
    because={
        f"depth {depth}: similar test accuracy": "Batch norm is behind after so few steps. It is the reduction that "
        "does it: at medium (300 steps) the test accuracies of four runs are 0.344 ± 0.024 with NormReLU and 0.352 ± "
        "0.007 with batch norm at 32 layers, 0.298 ± 0.035 and 0.302 ± 0.046 at 56."
        for depth in _QUICK
    },
    data="cifar10",
    seconds=(180, 300_000),
    decisive=MARGIN,
)

# --- figure 5 ------------------------------------------------------------


def read_fixup(result: xarray.Dataset, settings: Settings) -> Reading:
    """Similar: means at most 0.03 apart, or further, each by Welch's test at 1 %; undecided where neither is."""
    (depth,) = settings["depth"]
    own, other = (best(result, settings, "ResNet", depth, method) for method in ("NormReLU", "Fixup"))
    return Reading(
        numbers("NormReLU", own) | numbers("Fixup", other),
        {"similar test accuracy": similar(own.test(), other.test(), MARGIN.gap)},
        edges_told(result, settings),
    )


_FIXUP = {"augment": True, "bias_factor": 0.1, "fixup_milestones": [], "resnet_shrink": 2}
_RATES = [0.005, 0.02, 0.1]
_SMALL = "ResNet-20 of 8, 16 and 32 channels on {} images of 16×16"
FIGURE_5 = Study(
    "004/fig-5",
    "Fixup and NormReLU in one residual architecture, with augmented images",
    "NormReLU with Gaussian weights reaches a test accuracy similar to Fixup's.",
    {"Fixup and NormReLU": "similar"},
    training_cell,
    scale(
        "quick",
        ["ResNet"],
        [20],
        ["Fixup", "NormReLU"],
        **_FIXUP,
        resnet_rates=_RATES,
        epochs=12,
        every=6,
        reduced=_SMALL.format(2000),
    ),
    paper_scale("fig-5", **{**_FIXUP, "fixup_milestones": [150, 225], "resnet_shrink": 1}),
    draw_accuracies,
    read_fixup,
    medium=scale(
        "medium",
        ["ResNet"],
        [20],
        ["Fixup", "NormReLU"],
        **_FIXUP,
        resnet_rates=_RATES,
        reduced=_SMALL.format(2500),
    ),
    choices={
        "learning rate": Choice(
            "at reduced scales the best of 0.005, 0.02 and 0.1 for each, by the accuracy on images set aside",
            "the paper's two, 0.005 and 0.1, and one between them; they were found by cross-validation for depth 110",
        ),
        "schedule": Choice(
            "Fixup: ×0.1 after a half and three quarters of 300 epochs; NormReLU: after thirds; none at reduced scales",
            "Fixup's authors drop after 100 and 150 of 200 epochs; 004 has 300 for all",
        ),
        "augmentation": Choice(
            "shifts of up to 4 pixels and mirrors, no mixup", "what 004 says of it is that it is on"
        ),
    },
    because={
        "similar test accuracy": "NormReLU is ahead in so few steps: a Fixup network starts with output zero. It is "
        "the reduction that does it: at medium (300 steps, rates up to 0.1) the test accuracies of four runs are 0.375 "
        "and 0.363, each ± 0.016."
    },
    data="cifar10",
    seconds=(165, 200_000),
    decisive=MARGIN,
)

# --- figure 8 ------------------------------------------------------------


def read_activations(result: xarray.Dataset, settings: Settings) -> Reading:
    """Similar: means at most 0.03 apart. Higher: by Welch's test at 1 %, undecided if neither is."""
    values: dict[str, Measured] = {}
    statements: dict[str, Seen] = {}
    for depth in settings["depth"]:
        own, other = (best(result, settings, "ResNet", depth, method) for method in ("NormReLU", "SeLU"))
        values |= numbers(f"NormReLU, depth {depth}", own) | numbers(f"SeLU, depth {depth}", other)
        statements[f"depth {depth}: similar speed of training"] = similar(speed(own), speed(other), MARGIN.gap)
        statements[f"depth {depth}: similar test accuracy"] = similar(own.test(), other.test(), MARGIN.gap)
        statements[f"depth {depth}: NormReLU's is slightly higher"] = ahead(own.test(), other.test(), SLIGHT)
    return Reading(values, statements, edges_told(result, settings))


FIGURE_8 = Study(
    "004/fig-8",
    "ResNets without normalisation, with NormReLU and SeLU",
    "The two activations behave similarly in speed and generalisation, NormReLU slightly higher in test accuracy.",
    {"NormReLU and SeLU": "similar, NormReLU slightly ahead"},
    training_cell,
    scale("quick", ["ResNet"], _QUICK, ["NormReLU", "SeLU"], **_MORE, reading={"chosen": "common"}),
    paper_scale("fig-8", reading={"chosen": "common"}),
    draw_accuracies,
    read_activations,
    medium=scale("medium", ["ResNet"], _MEDIUM, ["NormReLU", "SeLU"], reading={"chosen": "common"}),
    choices={**COMMON, **KERNELS},
    data="cifar10",
    seconds=(180, 300_000),
    decisive=MARGIN,
)

STUDIES = (FIGURE_4, FIGURE_5, FIGURE_8)
