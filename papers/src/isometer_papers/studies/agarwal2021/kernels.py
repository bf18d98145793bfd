"""Studies of paper 004: activations, their duals and the coefficient of non-linearity."""

from __future__ import annotations

import math

import numpy as np
import xarray

from isometer_papers.studies._drawing import PALETTE, Figure, new_figure, single_panel
from isometer_papers.studies._study import Measured, Reading, Scale, Settings, Study
from isometer_papers.studies._tables import table_picture
from isometer_papers.studies.cells.activations import curve_cell, nonlinearity_cell, normrelu_cell

# --- figure 2 ------------------------------------------------------------


def draw_activations(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axis = single_panel()
    for i, (name, label, style) in enumerate((("normrelu", "NormReLU", "-"), ("selu", "SeLU", "--"))):
        axis.plot(result["x"], result["value"].sel(activation=name), style, color=PALETTE[i], label=label)
    axis.set(xlabel="x", ylabel="activation")
    axis.legend(loc="upper left")
    return figure


def read_activations(result: xarray.Dataset, settings: Settings) -> Reading:
    curves, x = result["value"], result["x"].values
    difference = np.abs((curves.sel(activation="normrelu") - curves.sel(activation="selu")).values)
    right, left = float(difference[x >= 0].max()), float(difference[x < -1.6].max())
    return Reading(
        {
            "largest difference for x ≥ 0": Measured(right),
            "largest difference for x < −1.6": Measured(left),
            "NormReLU at the lowest x": Measured(float(result["value"].sel(activation="normrelu")[0])),
        },
        {
            "the curves nearly coincide for positive x (difference below 0.05)": right < 0.05,
            "they differ in the negative tail": left > 2 * right,
        },
    )


_CURVES = Scale({"activation": ["normrelu", "selu"]}, {"low": -4.0, "high": 4.0, "points": 801})
FIGURE_2 = Study(
    "004/fig-2",
    "NormReLU and SeLU",
    "The two activations nearly coincide for positive arguments and differ in the negative tail.",
    {"positive side": "near overlap", "negative tail": "different"},
    curve_cell,
    _CURVES,
    _CURVES,
    draw_activations,
    read_activations,
    seconds=(1, 1),
)

# --- figure 6 ------------------------------------------------------------


def draw_lengths(result: xarray.Dataset, settings: Settings) -> Figure:
    figure, axes = new_figure(2)
    for axis, name, label in zip(axes[0], ("length", "bias"), ("σ̂_l(γ)", "bias(γ)"), strict=True):
        axis.plot(result["variance"], result[name].sel(how="formula"), color=PALETTE[0], label="closed form")
        every = slice(None, None, max(1, result.sizes["variance"] // 12))
        axis.plot(
            result["variance"][every],
            result[name].sel(how="quadrature")[every],
            "o",
            color=PALETTE[1],
            markersize=4,
            label="quadrature",
        )
        axis.set(xlabel="variance γ", ylabel=label)
        axis.legend()
    return figure


def read_lengths(result: xarray.Dataset, settings: Settings) -> Reading:
    formula = result.sel(how="formula")
    variance = result["variance"].values
    length, bias = formula["length"].values, formula["bias"].values
    slope = float(np.interp(1.0, (variance[1:] + variance[:-1]) / 2, np.diff(length) / np.diff(variance)))
    apart = float(np.abs(result["length"].sel(how="quadrature") - formula["length"]).max())
    return Reading(
        {
            "σ̂_l(0.5)": Measured(float(length[0])),
            "σ̂_l′(1)": Measured(slope),
            "bias(0.5)": Measured(float(bias[0])),
            "bias(2)": Measured(float(bias[-1])),
            "closed form − quadrature": Measured(apart),
        },
        {
            "σ̂_l is non-decreasing and concave": bool((np.diff(length) > 0).all() and (np.diff(length, 2) < 0).all()),
            "bias is convex with its minimum 0 at γ = 1": bool(
                (np.diff(bias, 2) > 0).all() and bias.min() < 1e-6 and abs(variance[bias.argmin()] - 1) < 0.01
            ),
            "the four printed values, to a unit of their last digit": bool(
                abs(length[0] - 0.5399) <= 1e-4
                and abs(slope - 0.8428) <= 1e-4
                and abs(bias[0] - 0.00086) <= 1e-5
                and abs(bias[-1] - 0.0029) <= 1e-4
            ),
            "the closed form is the Gaussian integral": apart < 1e-10,
        },
    )


_LENGTHS = Scale({"how": ["formula", "quadrature"]}, {"kink": -1.5975, "low": 0.5, "high": 2.0, "points": 301})
FIGURE_6 = Study(
    "004/fig-6",
    "length map and bias of NormReLU over the variance",
    "On [0.5, 2] the length map is concave and the bias is convex with its minimum at 1.",
    {"σ̂_l(0.5)": 0.5399, "σ̂_l′(1)": 0.8428, "bias(0.5)": 0.00086, "bias(2)": 0.0029},
    normrelu_cell,
    _LENGTHS,
    _LENGTHS,
    draw_lengths,
    read_lengths,
    seconds=(20, 20),
)

# --- the table of μ ------------------------------------------------------------

_PRINTED: dict[str, tuple[str, float]] = {
    "identity": ("u", 0.0),
    "(x^2 - 1)/sqrt(2)": ("(u² − 1)/√2", 1.0),
    "relu": ("max(u, 0)", (math.pi - 2) / (2 * math.pi - 2)),
    "step": ("1[u ≥ 0]", (math.pi - 2) / math.pi),
    "exp": ("eᵘ", (math.e - 2) / (math.e - 1)),
    "normrelu": ("NormReLU", 0.0156),
}


def draw_table(result: xarray.Dataset, settings: Settings) -> Figure:
    cells = [
        [
            label,
            f"{value:.6f}",
            f"{float(result['nonlinearity'].sel(activation=name)):.6f}",
            ", ".join(f"{c:.4f}" for c in result["coefficient"].sel(activation=name).values[:4]),
        ]
        for name, (label, value) in _PRINTED.items()
    ]
    head = ["σ(u)", "μ printed", "μ measured", "σ̂: coefficients of 1, ρ, ρ², ρ³"]
    return table_picture(head, cells)


def read_table(result: xarray.Dataset, settings: Settings) -> Reading:
    found = {name: float(result["nonlinearity"].sel(activation=name)) for name in _PRINTED}
    series = {name: result["coefficient"].sel(activation=name).values for name in _PRINTED}
    relu = np.array([1 / (2 * math.pi), 1 / 4, 1 / (2 * math.pi), 0, 1 / (48 * math.pi)])
    step = np.array([1 / 4, 1 / (2 * math.pi), 0, 1 / (12 * math.pi), 0, 3 / (80 * math.pi)])
    close = {name: abs(found[name] - value) < 1e-10 for name, (_, value) in _PRINTED.items() if name != "normrelu"}
    return Reading(
        {f"μ of {label}": Measured(found[name]) for name, (label, _) in _PRINTED.items()}
        | {
            "coefficient of ρ² in ReLU's dual": Measured(float(series["relu"][2])),
            "dual of eᵘ at ρ = 0": Measured(float(series["exp"][0])),
        },
        {
            "μ of the five activations is as printed": all(close.values()),
            "μ of NormReLU is 0.0156": abs(found["normrelu"] - 0.0156) < 6e-5,
            "the series of the step's dual is as printed": bool(np.abs(series["step"] - step).max() < 1e-10),
            "the series of ReLU's dual is as printed": bool(np.abs(series["relu"][:5] - relu).max() < 1e-10),
            "the dual of eᵘ is e^(ρ+3)": abs(series["exp"][0] - math.e**3) < 1e-8,
        },
    )


_ROWS = Scale({"activation": list(_PRINTED)})
TABLE = Study(
    "004/tab-mu",
    "coefficient of non-linearity of five activations and NormReLU",
    "A table of activations, their duals and μ, and μ ≈ 0.0156 for NormReLU.",
    {f"μ of {label}": value for label, value in _PRINTED.values()}
    | {"coefficient of ρ² in ReLU's dual": 1 / (2 * math.pi), "dual of eᵘ at ρ = 0": math.e**3},
    nonlinearity_cell,
    _ROWS,
    _ROWS,
    draw_table,
    read_table,
    because={
        "the series of ReLU's dual is as printed": "The coefficient of ρ² is 1/(4π), half of what the table has; the "
        "closed form beside it is right.",
        "the dual of eᵘ is e^(ρ+3)": "E e^X e^Y = e^(ρ+1); μ does not depend on the factor.",
    },
    seconds=(2, 2),
)

STUDIES = (FIGURE_2, FIGURE_6, TABLE)
