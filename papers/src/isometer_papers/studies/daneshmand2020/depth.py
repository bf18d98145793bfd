"""Studies of 002 over depth: figures 1 and 3, table 1."""

from __future__ import annotations

import math

import numpy as np
import xarray

from isometer_papers.studies._comparisons import surely_less
from isometer_papers.studies._drawing import LINES, PALETTE, Figure, band, single_panel
from isometer_papers.studies._readings import measured
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies._tables import table_picture
from isometer_papers.studies.cells.rank_chains import depth_cell, spectrum_cell
from isometer_papers.studies.daneshmand2020.labels import MARKERS, gamma_label

# --- figure 1 ------------------------------------------------------------


def draw_ranks(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel(width=5.6)
    for i, network in enumerate(settings["network"]):
        for j, gamma in enumerate(settings["gamma"]):
            runs = np.log(result["rank"].sel(network=network, gamma=gamma).transpose("run", "layer").values)
            mean = runs.mean(0)
            axis.plot(result["layer"], mean, LINES[j], color=PALETTE[i], label=f"{network}, {gamma_label(gamma)}")
            axis.fill_between(result["layer"], runs.min(0), runs.max(0), color=PALETTE[i], alpha=0.15, linewidth=0)
    axis.set(xlabel="layer ℓ", ylabel="ln rank", ylim=(-0.1, None))
    axis.legend(loc="center right")
    return figure


def read_ranks(result: xarray.Dataset, settings: Settings) -> Reading:
    last = result["rank"].isel(layer=-1)
    middle = result["rank"].sel(network="batch norm").isel(layer=result.sizes["layer"] // 2)
    vanilla, normalised = last.sel(network="vanilla"), last.sel(network="batch norm")
    return Reading(
        {
            "rank with batch norm, last layer": measured(normalised),
            "rank without, last layer": measured(vanilla),
        },
        {
            "without batch norm the rank falls to one": bool((vanilla == 1).all()),
            "with it the rank stays far above one (at least 5 of 32)": bool(
                normalised.min() >= 5 * settings["width"] / 32
            ),
            "and does not fall with depth in the second half": bool((middle - normalised).mean() < 0.5),
        },
    )


_RANKS = {"activation": "identity", "width": 32, "runs": 5}
FIGURE_1 = Study(
    "002/fig-1",
    "rank over depth, with batch norm and without",
    "The numerical rank of a linear network of width 32 falls to one without batch norm and stays high with it.",
    {"rank without, last layer": 1.0, "rank with batch norm, last layer": "high"},
    depth_cell,
    Scale(
        {"network": ["batch norm", "vanilla"], "gamma": [0.5, math.inf]},
        {**_RANKS, "depth": 3000, "every": 50, "runs": 3},
        "3 runs instead of 5",
    ),
    Scale({"network": ["batch norm", "vanilla"], "gamma": [0.5, math.inf]}, {**_RANKS, "depth": 6000, "every": 50}),
    draw_ranks,
    read_ranks,
    choices={
        "γ": Choice(
            "0.5 and ∞ (no skip)", "two values are shown and not named", {"γ = 1 and 2": {"gamma": [1.0, 2.0]}}
        ),
        "depth": Choice("6000 layers", "the axis has no numbers in the text; the rank is one by then"),
        "samples": Choice("N = d = 32", "the input is said to have full rank"),
    },
    seconds=(40, 120),
)

# --- figure 3 ------------------------------------------------------------


def draw_spectrum(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel(width=5.2)
    for i, layer in enumerate(result["layer"].values):
        values = result["eigenvalue"].mean("chunk").sel(layer=layer).transpose("run", "index").values
        band(axis, result["index"], values, label=f"ℓ = {layer}", index=i, log=True)
        axis.lines[-1].set_marker(MARKERS[i % len(MARKERS)])
    axis.set(xlabel="eigenvalue, in order", ylabel="λ of M(H_ℓ)", yscale="log")
    axis.set_xticks(result["index"].values)
    axis.legend(loc="upper right", ncols=2)
    return figure


def read_spectrum(result: xarray.Dataset, settings: Settings) -> Reading:
    values = result["eigenvalue"].transpose("chunk", "run", "layer", "index")
    runs = values.values.reshape(-1, values.sizes["layer"], values.sizes["index"])
    first, last = runs[:, 0], runs[:, -1]
    return Reading(
        {
            "λ₁ of the input": measured(first[:, 0]),
            "λ₁ at the last layer": measured(last[:, 0]),
            "λ₂ of the input": measured(first[:, 1]),
            "λ₂ at the last layer": measured(last[:, 1]),
            "λ₁₀ of the input": measured(first[:, -1]),
            "λ₁₀ at the last layer": measured(last[:, -1]),
        },
        {
            "the leading eigenvalue falls": surely_less(last[:, 0], first[:, 0]),
            "the next four grow": all(surely_less(first[:, i], last[:, i]) for i in range(1, 5)),
            "gaps between the first eigenvalues shrink": surely_less(
                last[:, 0] - last[:, 1], first[:, 0] - first[:, 1]
            ),
        },
    )


_SPECTRUM = {"width": 32, "gamma": 0.1, "noise": 0.01, "layers": [0, 100, 300, 1000, 3000], "shown": 10}
FIGURE_3 = Study(
    "002/fig-3",
    "ten largest eigenvalues of M(H) over depth, from almost collinear features",
    "Batch norm lowers the leading eigenvalue and raises the next ones as the depth grows.",
    {"λ₁": "falls", "λ₂ … λ₁₀": "grow"},
    spectrum_cell,
    Scale({"chunk": [0, 1]}, {**_SPECTRUM, "runs": 3}, "6 runs"),
    Scale({"chunk": [0, 1]}, {**_SPECTRUM, "runs": 10}),
    draw_spectrum,
    read_spectrum,
    choices={
        "γ": Choice("0.1", "not stated", {"γ = 0.3": {"gamma": 0.3}}),
        "size": Choice("d = N = 32", "not stated"),
        "input": Choice("equal features plus 1 % Gaussian noise", "pairwise cosines are said to be almost one"),
    },
    seconds=(20, 60),
)

# --- table 1 ------------------------------------------------------------


def draw_table(result: xarray.Dataset, settings: Settings) -> Figure:
    rows = []
    for network in settings["network"]:
        for function in settings["activation"]:
            last = result["soft_rank"].sel(network=network, activation=function).isel(layer=-1)
            exact = result["rank"].sel(network=network, activation=function).isel(layer=-1)
            cells = [f"{measured(x.sel(width=w)).value:.1f}" for x in (last, exact) for w in settings["width"]]
            rows.append([network, function, *cells])
    widths = [f"d = {w}" for w in settings["width"]]
    heads = [f"{name},\n{width}" for name in ("rank₁/₂", "rank") for width in widths]
    return table_picture(["network", "activation", *heads], rows)


def read_table(result: xarray.Dataset, settings: Settings) -> Reading:
    soft, exact = (result[name].isel(layer=-1) for name in ("soft_rank", "rank"))
    narrow, wide = (int(f(settings["width"])) for f in (min, max))
    ratio = math.log(wide / narrow)

    def power(function: str) -> Measured:
        chosen = soft.sel(network="batch norm", activation=function)
        a, b = (measured(chosen.sel(width=w)) for w in (narrow, wide))
        error = math.hypot(a.uncertainty / a.value, b.uncertainty / b.value) / ratio
        return Measured(math.log(b.value / a.value) / ratio, error)

    vanilla = exact.sel(network="vanilla", activation="identity")
    tanh = soft.sel(network="vanilla", activation="tanh")
    growth = {name: power(function) for name, function in (("linear", "identity"), ("tanh", "tanh"))}
    return Reading(
        {
            "rank of the last layer, linear, no batch norm": measured(vanilla),
            "soft rank of the last layer, tanh, no batch norm": measured(tanh),
            "exponent of d of the soft rank, linear with batch norm": growth["linear"],
            "exponent of d of the soft rank, tanh with batch norm": growth["tanh"],
        },
        {
            "without batch norm the rank of a linear network is one": bool((vanilla == 1).all()),
            "and of a tanh network": bool((tanh == 1).all()),
            "with batch norm it grows at least like √d, linear": growth["linear"].value + growth["linear"].uncertainty
            >= 0.5,
            "with batch norm it grows like d, tanh": abs(growth["tanh"].value - 1) <= 0.15 + growth["tanh"].uncertainty,
        },
    )


_TABLE = {"network": ["vanilla", "batch norm"], "activation": ["identity", "tanh"]}
TABLE_1 = Study(
    "002/tab-1",
    "rank of deep networks: linear and tanh, with batch norm and without",
    "Without batch norm the rank is one in deep linear and tanh networks; with it the soft rank grows like √d for "
    "linear and like d for tanh ones.",
    {
        "rank of the last layer, linear, no batch norm": 1.0,
        "soft rank of the last layer, tanh, no batch norm": 1.0,
        "exponent of d of the soft rank, linear with batch norm": "at least 0.5",
        "exponent of d of the soft rank, tanh with batch norm": 1.0,
    },
    depth_cell,
    Scale({**_TABLE, "width": [8, 32]}, {"gamma": 1.0, "depth": 3000, "every": 3000, "runs": 6}, "widths 8 and 32"),
    Scale({**_TABLE, "width": [8, 16, 32, 64]}, {"gamma": 1.0, "depth": 6000, "every": 6000, "runs": 16}),
    draw_table,
    read_table,
    choices={
        "γ": Choice("1", "not stated", {"no skip": {"gamma": math.inf}}),
        "sizes": Choice("widths 8 to 64, 6000 layers", "not stated"),
    },
    because={
        "and of a tanh network": "tanh without batch norm and with skips keeps a rank above one: the saturating "
        "function adds directions at every layer (002/tab-1:vanilla-tanh in the ledger).",
    },
    seconds=(40, 400),
)
