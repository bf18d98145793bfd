"""Rank collapse of pure attention: Dong et al. 2021."""

from __future__ import annotations

import math

import numpy as np
import xarray

from isometer_papers.studies._drawing import PALETTE, Figure, single_panel
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.transformers import printed_bound_cell, token_gap_cell

_NETWORK = (
    "gpt(blocks={blocks}, width=64, heads=8, tokens={tokens}, hidden=0, norm='none', skip={skip}, qk_gain={gain}, "
    "causal=False)"
)
CUBIC = "without skips the residual is cubed from layer to layer: doubly exponential"
SKIPS = "skip connections stop it"
ANY_GAIN = "whatever the size of scores, five layers make tokens alike to 1e-6"


def draw_collapse(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel(width=5.2)
    for i, gain in enumerate(settings["gain"]):
        for skip, line in ((0.0, "-"), (1.0, "--")):
            gap = result["log_gap"].sel(gain=gain, skip=skip).values / math.log(10)
            told = f"query–key gain {gain:g}, {'skips' if skip else 'no skips'}"
            axis.plot(np.where(gap > -300, gap, np.nan), line, color=PALETTE[i], marker=".", label=told)
    axis.set(xlabel="layer", ylabel="log₁₀ (1 − cosine of two tokens)", ylim=(-60, 3))
    axis.legend(fontsize=7)
    return figure


def read_collapse(result: xarray.Dataset, settings: Settings) -> Reading:
    """Cubic if the last power between two layers that numbers still hold is 3 to 1 %."""
    numbers: dict[str, Measured] = {}
    cubic, soon, kept = [], [], []
    for gain in settings["gain"]:
        gap = result["log_gap"].sel(gain=gain, skip=0.0).values
        known = gap[gap > -700]
        if len(known) >= 3 and known[-1] < -5:
            power = float((known[-1] - known[-2]) / (known[-2] - known[-3]))
            numbers[f"last power, query–key gain {gain:g}"] = Measured(power)
            cubic.append(abs(power - 3) < 0.03)
        soon.append(bool(gap[5] < math.log(1e-6)))
        numbers[f"log₁₀ gap at layer 5, gain {gain:g}"] = Measured(max(float(gap[5]) / math.log(10), -4000.0))
        skips = result["log_gap"].sel(gain=gain, skip=1.0).values
        kept.append(bool(skips[-1] > math.log(1e-3)))
        numbers[f"gap with skips, gain {gain:g}"] = Measured(float(np.exp(skips[-1])))
    statements: dict[str, bool | None] = {
        CUBIC: all(cubic) if cubic else None,
        ANY_GAIN: all(soon),
        SKIPS: all(kept),
    }
    return Reading(numbers, statements)


COLLAPSE = Study(
    "005/collapse",
    "tokens become alike in attention without skips, layer by layer",
    "Attention without skip connections and MLPs converges doubly exponentially, at a cubic rate, to a matrix with "
    "identical rows; skip connections stop that.",
    {"power": 3.0},
    token_gap_cell,
    Scale(
        {"gain": [0.5, 1.0, 2.0, 4.0], "skip": [0.0, 1.0]},
        {"network": _NETWORK, "blocks": 10, "tokens": 32},
        "10 layers",
    ),
    Scale({"gain": [0.5, 1.0, 2.0, 4.0, 8.0], "skip": [0.0, 1.0]}, {"network": _NETWORK, "blocks": 12, "tokens": 32}),
    draw_collapse,
    read_collapse,
    choices={
        "weights": Choice("Gaussian, of variance 1/width, values and output without gain", "those of initialisation"),
        "measure": Choice("1 − cosine of two tokens, by theory at infinite width", "the square of the residual"),
        "tokens": Choice("32", "the paper trains on several", {"128 tokens": {"tokens": 128}}),
    },
    because={
        ANY_GAIN: "Strong scores make each query read about one token. Tokens then stay distinct until they come close "
        "by the slow merging of queries that read the same token; the cubic regime begins where scores are alike.",
    },
    seconds=(5.0, 10.0),
)

HOLDS = "the residual is below the printed bound at every layer"
SMALL = "the bound falls with depth for small weights"


def draw_bound(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel(width=5.2)
    for i, size in enumerate(settings["size"]):
        for name, line in (("residual", "-"), ("bound", "--")):
            rows = result[name].sel(size=size)
            axis.plot(rows.mean("draw"), line, color=PALETTE[i], marker=".", label=f"{name}, size {size:g}")
    axis.set(xlabel="layer", ylabel="log₁₀ ‖residual‖")
    axis.legend(fontsize=7)
    return figure


def read_bound(result: xarray.Dataset, settings: Settings) -> Reading:
    """Holds if no residual of any draw is above its bound."""
    margin = (result["bound"] - result["residual"]).isel(layer=slice(1, None))
    falls = {size: bool((result["bound"].sel(size=size).diff("layer") < 0).all()) for size in settings["size"]}
    smallest, standard = min(settings["size"]), max(settings["size"])
    numbers = {"smallest log₁₀(bound/residual)": Measured(float(margin.min()))}
    for size in settings["size"]:
        last = result["bound"].sel(size=size).isel(layer=-1).mean("draw")
        numbers[f"log₁₀ bound at the last layer, size {size:g}"] = Measured(float(last))
        row = result["residual"].sel(size=size).isel(layer=-1).mean("draw")
        numbers[f"log₁₀ residual there, size {size:g}"] = Measured(float(row))
    statements: dict[str, bool | None] = {
        HOLDS: bool((margin >= 0).all()),
        SMALL: falls[smallest],
    }
    told = "falls with depth" if falls[standard] else "grows with depth and says nothing, although tokens do collapse"
    return Reading(numbers, statements, f"With weights of variance 1/width the bound {told}.")


_BOUND = {"tokens": 8, "width": 8, "heads": 2, "layers": 4, "digits": 400}
BOUND = Study(
    "005/bound",
    "the printed bound on the residual of pure attention against random networks",
    "The residual of attention with H heads obeys ‖res(SAN(X))‖ ≤ (4Hβ/√d)^((3^L − 1)/2) ‖res(X)‖^(3^L), which is "
    "doubly exponential.",
    {"residual": "below the bound"},
    printed_bound_cell,
    Scale({"size": [0.02, 0.2, 1.0], "draw": [0, 1, 2]}, _BOUND, "8 tokens of 8 features"),
    Scale({"size": [0.02, 0.1, 0.2, 0.5, 1.0], "draw": list(range(8))}, {**_BOUND, "tokens": 12, "width": 12}),
    draw_bound,
    read_bound,
    choices={
        "residual": Choice("from the mean of the rows", "the minimiser in the paper's norm has no closed form"),
        "beta": Choice("the largest product of norms of any head of any layer", "the theorem asks for one constant"),
    },
    because={SMALL: "Where 4Hβ‖res(X)‖²/√d is above 1 the printed bound grows."},
    seconds=(20.0, 120.0),
)
STUDIES = (COLLAPSE, BOUND)
