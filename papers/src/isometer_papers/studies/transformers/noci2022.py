"""Branches of 1/√depth: Noci et al. 2022."""

from __future__ import annotations

import math

import numpy as np
import xarray

from isometer_papers.studies._drawing import LINES, PALETTE, Figure, new_figure
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.transformers import last_block_cell

_NETWORK = (
    "gpt(blocks={blocks}, width=64, heads=8, tokens=32, norm='{norm}', activation='relu', branch={branch}, "
    "mlp_gain=1.41421356237, causal=False)"
)
_SCALED = "power(depth=-0.5)"
COLLAPSES = "branches of factor 1: cosines of tokens approach 1 as depth grows"
STAYS = "branches of factor 1/√depth: cosines of tokens reach a limit below 1"
VANISH = "branches of factor 1: gradients of queries vanish beside those of values as depth grows"
KEPT = "branches of factor 1/√depth: gradients of queries do not vanish beside those of values"


def draw_depths(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(2, width=4.4, height=3.8)
    ratio = (result["log_query"] - result["log_value"]) / (2 * math.log(10))
    for i, norm in enumerate(settings["norm"]):
        for branch, line in zip(settings["branch"], LINES, strict=False):
            told = f"norm {norm}, {'1/√depth' if branch == _SCALED else 'factor 1'}"
            style = {"color": PALETTE[i], "linestyle": line, "marker": ".", "label": told}
            axes.flat[0].plot(settings["blocks"], result["cosine"].sel(norm=norm, branch=branch), **style)
            axes.flat[1].plot(settings["blocks"], ratio.sel(norm=norm, branch=branch), **style)
    for axis, told in zip(axes.flat, ("cosine of two tokens", "log₁₀ ‖∂queries‖/‖∂values‖, last block"), strict=False):
        axis.set(xscale="log", xlabel="blocks", ylabel=told)
    axes.flat[0].legend(fontsize=7)
    return figure


def read_depths(result: xarray.Dataset, settings: Settings) -> Reading:
    """A limit: the last step in depth moves the cosine by less than 0.01, the ratio of gradients by less than 12 %.

    To 1: above 0.99, and nearer at every depth. Gradients vanish if they fall by a factor of 10 at least.
    """
    numbers: dict[str, Measured] = {}
    seen: dict[str, list[bool]] = {COLLAPSES: [], STAYS: [], VANISH: [], KEPT: []}
    ratio = (result["log_query"] - result["log_value"]) / 2
    for norm in settings["norm"]:
        for branch in settings["branch"]:
            cosine = result["cosine"].sel(norm=norm, branch=branch).values
            row = ratio.sel(norm=norm, branch=branch).values
            scaled = branch == _SCALED
            told = f"norm {norm}, {'1/√depth' if scaled else 'factor 1'}"
            numbers[f"cosine at the largest depth, {told}"] = Measured(float(cosine[-1]))
            numbers[f"log₁₀ ‖∂queries‖/‖∂values‖ there, {told}"] = Measured(float(row[-1]) / math.log(10))
            if norm != "post":
                continue  # the paper shows norms after the sum
            if scaled:
                seen[STAYS].append(bool(abs(cosine[-1] - cosine[-2]) < 0.01 and cosine[-1] < 0.95))
                seen[KEPT].append(bool(abs(row[-1] - row[-2]) < 0.05 * math.log(10)))
            else:
                seen[COLLAPSES].append(bool(cosine[-1] > 0.99 and (np.diff(cosine) > -1e-12).all()))
                seen[VANISH].append(bool(row[-1] < row[0] - math.log(10)))
    return Reading(numbers, {name: all(found) for name, found in seen.items()})


_AXES = {"norm": ["post", "pre"], "branch": ["1.0", _SCALED]}
DEPTHS = Study(
    "006/depth",
    "cosines of tokens and gradients of queries against depth, branches of 1 and of 1/√depth",
    "Tokens become alike as depth grows, and the gradients of queries and keys vanish with that; branches of factor "
    "1/√depth keep cosines below 1 at any depth.",
    {"cosine, factor 1": "to 1", "cosine, 1/√depth": "below 1"},
    last_block_cell,
    Scale({**_AXES, "blocks": [4, 16, 64, 256]}, {"network": _NETWORK}, "to 256 blocks"),
    Scale({**_AXES, "blocks": [4, 16, 64, 256, 1024]}, {"network": _NETWORK}),
    draw_depths,
    read_depths,
    choices={
        "norm": Choice(
            "after each sum for the verdict, before the branch beside it", "the paper's figures have post-LN"
        ),
        "block": Choice("attention and an MLP of ReLU with He's gain", "the paper's blocks have both"),
        "tokens": Choice("32, orthogonal at the input", "the paper has sentences"),
    },
    because={
        STAYS: "With a norm after each sum, the cosine still moves with depth, or its limit is close to 1.",
        VANISH: "Where tokens stay distinct, gradients of queries stay too.",
    },
    seconds=(30.0, 200.0),
)
STUDIES = (DEPTHS,)
