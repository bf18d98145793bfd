"""Figure 2 of paper 000: high accuracy from low rank, by another initial variance. It trains the networks of 002."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray

from isometer_papers.studies._comparisons import Decisive, all_of, not_below, ordered
from isometer_papers.studies._readings import measured
from isometer_papers.studies._study import TOGETHER, Choice, Measured, Reading, Scale, Study
from isometer_papers.studies.cells.rank_training import mlp_cell
from isometer_papers.studies.daneshmand2020.trained import (
    BETWEEN,
    DEEP,
    FULL,
    FULL_DEPTHS,
    FULL_RATES,
    LESS,
    MIDDLE,
    MIDDLE_DEPTHS,
    OPTIMIZER_CHOICE,
    QUICK_DEPTHS,
    RATE_CHOICE,
    RATES,
    SMALL,
    at_best_rates,
    depth_axes,
    does_not_learn,
    draw_depths,
    numbers_of,
)

NEAR = Decisive(0.1, "accuracy", "the paper prints no numbers; a tenth of its axis, between “low” and “high”")


def read_he(result: xarray.Dataset, settings: Mapping[str, Any]) -> Reading:
    """All at depths above 10. A low rank is nearer to that of the default than to that of batch norm."""
    best = at_best_rates(result)
    deep = [depth for depth in settings["depth"] if depth > DEEP]
    default, he, batch_norm = (best.sel(network=name, depth=deep) for name in ("ReLU", "ReLU, He", "BN"))
    between = (default["rank"].mean("run") + batch_norm["rank"].mean("run")) / 2
    each = [{"depth": depth} for depth in deep]
    numerical = result["numerical_rank"].isel(epoch=0, learning_rate=0).sel(network="ReLU, He", depth=deep[-1])
    numbers: dict[str, Measured] = {
        **numbers_of(best, settings),
        f"numerical rank before training, ReLU, He, depth {deep[-1]}": measured(numerical),
    }
    return Reading(
        numbers,
        {
            "with batch norm: high rank": all_of(
                ordered(default["rank"].sel(d), batch_norm["rank"].sel(d)) for d in each
            ),
            "and high accuracy": all_of(
                ordered(default["accuracy"].sel(d), batch_norm["accuracy"].sel(d), gap=NEAR.gap) for d in each
            ),
            "without it, torch's default: low accuracy": all_of(
                does_not_learn(default["accuracy"].sel(d)) for d in each
            ),
            "without it, He: low rank": all(bool((he["rank"].sel(d) < between.sel(d)).all()) for d in each),
            "but higher accuracy than the default": all_of(
                ordered(default["accuracy"].sel(d), he["accuracy"].sel(d), gap=NEAR.gap) for d in each
            ),
            "and as high as that of batch norm, within 0.1": all_of(
                not_below(batch_norm["accuracy"].sel(d) - NEAR.gap, he["accuracy"].sel(d), gap=NEAR.gap) for d in each
            ),
        },
        "The rank is r of the last hidden layer before training; the number of its singular values above 1e-9 of the "
        "largest is not low with He's initialisation.",
    )


_THREE = ["BN", "ReLU", "ReLU, He"]
FIGURE_2 = Study(
    "000/fig-2",
    "final training accuracy and rank: batch norm, torch's default and He's initialisation",
    "Batch norm has high rank and high accuracy; without it torch's default has low rank and low accuracy, He's "
    "initialisation low rank and high accuracy.",
    {"BN": "high rank, high accuracy", "default": "low rank, low accuracy", "He": "low rank, high accuracy"},
    mlp_cell,
    Scale(depth_axes(_THREE, QUICK_DEPTHS, RATES, 4), SMALL, f"{LESS}, 4 depths, 3 rates", together=TOGETHER),
    Scale(depth_axes(_THREE, FULL_DEPTHS, FULL_RATES, 5), FULL),
    draw_depths,
    read_he,
    medium=Scale(
        depth_axes(_THREE, MIDDLE_DEPTHS, RATES, 4), MIDDLE, f"{BETWEEN}; 3 depths instead of 8", together=TOGETHER
    ),
    choices={
        "data, width, batch, steps": Choice(
            "those of 002/fig-5", "the paper says that it uses the code of 002, and nothing else"
        ),
        "learning rates": RATE_CHOICE,
        "optimiser": OPTIMIZER_CHOICE,
    },
    data="fashion-mnist",
    seconds=(215, 60000),
    decisive=NEAR,
)

STUDIES = (FIGURE_2,)
