"""Chapters 4 and 5 of the thesis: isometry in pictures, Hermite polynomials, and kernel maps to their fixed points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray
from scipy import stats

from isometer_papers.studies._drawing import PALETTE, Figure, new_figure
from isometer_papers.studies._study import Choice, Coordinate, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies._tables import table_picture
from isometer_papers.studies.cells.kernels import convergence_cell, hermite_cell, parallelepiped_cell, property_cell
from isometer_papers.studies.joudaki2024.sketches import draw_parallelepipeds

# --- figure 4.1 ------------------------------------------------------------------------------------------------------


def read_parallelepipeds(result: xarray.Dataset, settings: Settings) -> Reading:
    """Order is Spearman's: 1 if the larger volume always has the larger isometry."""
    surface, printed = result["surface"].isel(vectors=0), result["printed"].isel(vectors=0)
    best = surface.argmax(...)
    angle = float(np.degrees(surface["angle"][best["angle"]]))
    ratio = float(surface["ratio"][best["ratio"]])
    steps = np.degrees(np.ptp(surface["angle"].values)) / (settings["points"] - 1), 3 / (settings["points"] - 1)
    numbers = {"angle of the largest isometry, degrees": Measured(angle), "ratio of lengths there": Measured(ratio)}
    statements: dict[str, bool | None] = {
        "two vectors: the ratio is ab sin θ/(a² + b²), half the isometry": bool(abs(surface - printed).max() < 1e-10),
        "it is largest at a = b and a right angle": bool(
            abs(angle - 90) <= steps[0] and abs(np.log(ratio)) <= steps[1]
        ),
    }
    for n in settings["vectors"]:
        one = result.sel(vectors=n)
        order = float(stats.spearmanr(one["volume"], one["isometry"]).statistic)
        numbers[f"rank correlation of volume and isometry, {n} vectors"] = Measured(order)
        statements[f"{n} vectors: more volume at the same scale is more isometry"] = bool(order > 1 - 1e-9)
    return Reading(numbers, statements)


FIGURE_4_1 = Study(
    "001/fig-4.1",
    "isometry as the volume that vectors span at a given scale",
    "Sketches of two and three vectors: a parallelepiped of larger volume has a higher isometry.",
    {"angle of the largest isometry, degrees": 90, "ratio of lengths there": 1},
    parallelepiped_cell,
    Scale({"vectors": [2, 3]}, {"draws": 300, "points": 41}),
    Scale({"vectors": [2, 3]}, {"draws": 3000, "points": 201}),
    draw_parallelepipeds,
    read_parallelepipeds,
    choices={
        "vectors": Choice(
            "three sets of two and of three", "the figure has no numbers", {"four vectors": {"vectors": [2, 4]}}
        )
    },
    seconds=(1, 2),
)

# --- table 5.1 -------------------------------------------------------------------------------------------------------

_HE = ["1", "x", "x**2 - 1", "x**3 - 3*x", "x**4 - 6*x**2 + 3"]
_NORMALIZED = ["1", "x", "(x**2 - 1)/sqrt(2)", "(x**3 - 3*x)/sqrt(6)", "(x**4 - 6*x**2 + 3)/sqrt(24)"]
_ROUNDING = 1e-10


def draw_hermite(result: xarray.Dataset, settings: Settings) -> Figure:
    rows = []
    for order in settings["order"]:
        one = result.sel(order=order)
        sizes = [f"{float((one[name] ** 2).sum()):.6g}" for name in ("plain", "normalized")]
        worst = max(float(one["plain_error"]), float(one["normalized_error"]))
        plain, normal = (settings[name][order].replace("**", "^") for name in ("plain", "normalized"))
        rows.append([str(order), plain, sizes[0], normal, sizes[1], f"{worst:.1g}"])
    return table_picture(["k", "He_k(x)", "E He_k²", "he_k(x)", "E he_k²", "largest error\nof a coefficient"], rows)


def read_hermite(result: xarray.Dataset, settings: Settings) -> Reading:
    """A polynomial is the k-th one if its k-th coefficient is right and all others, to two orders above, vanish."""
    plain, normal = float(result["plain_error"].max()), float(result["normalized_error"].max())
    return Reading(
        {"largest error, He_k": Measured(plain), "largest error, he_k": Measured(normal)},
        {
            "He_k as printed is √k! times the normalised Hermite polynomial": plain <= _ROUNDING,
            "he_k as printed is orthonormal to all others": normal <= _ROUNDING,
        },
    )


_PRINTED = {"plain": _HE, "normalized": _NORMALIZED, "highest": 6}
TABLE_5_1 = Study(
    "001/tab-5.1",
    "Hermite polynomials and their normalised versions",
    "The first five probabilists' Hermite polynomials and what they are divided by.",
    {"largest error, He_k": 0, "largest error, he_k": 0},
    hermite_cell,
    Scale({"order": list(range(5))}, _PRINTED),
    Scale({"order": list(range(5))}, _PRINTED),
    draw_hermite,
    read_hermite,
    seconds=(1, 1),
)

# --- table 5.2 -------------------------------------------------------------------------------------------------------

PROPERTIES = {"centred": "centred", "stable": "stable", "bend": "non-linear"}


def has(result: xarray.Dataset, activation: str, name: str) -> list[bool]:
    """Whether an activation has a property, by the activation itself, its coefficients and its kernel map."""
    values = result[name].sel(activation=activation).sel(of=["activation", "coefficients", "kernel map"]).values
    left_out = float(result["rest"].sel(activation=activation))
    if name == "stable":
        slack = np.array([1e-9, left_out + 1e-9, 1e-9])
        return [bool(one) for one in np.abs(values - 1) <= slack]
    small = values <= 1e-8
    return [bool(one) for one in (small if name == "centred" else ~small)]


def draw_properties(result: xarray.Dataset, settings: Settings) -> Figure:
    header = [
        "activation",
        "|E φ|",
        "|c₀|",
        "√κ(0)",
        "E φ²",
        "Σ c_k²",
        "κ(1)",
        "non-affine\npart of φ",
        "Σ c_k²,\nk ≥ 2",
        "bend of κ",
    ]
    rows = []
    for name in settings["activation"]:
        one = result.sel(activation=name)
        texts = [f"{0.0 if abs(v) < 5e-10 else v:.5g}" for kind in PROPERTIES for v in one[kind].values]
        rows.append([name.replace("**", "^"), *texts])
    return table_picture(header, rows)


def read_properties(result: xarray.Dataset, settings: Settings) -> Reading:
    """Each row of the table says that three conditions are one; they are asked of every activation."""
    statements: dict[str, bool | None] = {}
    for name, word in PROPERTIES.items():
        answers = [has(result, activation, name) for activation in settings["activation"]]
        both = {row[0] for row in answers} == {True, False}
        agree = all(len(set(row)) == 1 for row in answers)
        statements[f"{word}: the three conditions are one"] = agree if both else (None if agree else False)
    rest = float(result["rest"].max())
    return Reading(
        {"largest part of E φ² beyond the coefficients": Measured(rest)},
        statements,
        f"Asked of {len(settings['activation'])} activations, among them some with each property and some without. "
        f"Σ c_k² stops at k = {settings['highest']}, and counts as 1 up to what is left out.",
    )


_ACTIVATIONS: list[Coordinate] = [
    "identity", "unit(relu)", "normalized(relu)", "relu", "tanh", "normalized(gelu)", "x**2 - 1",
    "(x**3 - 3*x)/sqrt(6)", "exp", "sin", "1 + x/2",
]  # fmt: skip
TABLE_5_2 = Study(
    "001/tab-5.2",
    "properties of activations by moments, Hermite coefficients and kernel map",
    "Centred, stable and non-linear activations, each told in three equivalent ways.",
    {"conditions": "equivalent in every row"},
    property_cell,
    Scale({"activation": _ACTIVATIONS}, {"highest": 60, "points": 201}),
    Scale({"activation": _ACTIVATIONS}, {"highest": 60, "points": 201}),
    draw_properties,
    read_properties,
    choices={
        "activations": Choice(
            "eleven, with and without each property",
            "the table names none",
            {"others": {"activation": ["identity", "elu", "normalized(softplus)", "cos", "unit(silu)", "erf"]}},
        )
    },
    seconds=(5, 5),
)

# --- figures 5.1 and 5.2 ---------------------------------------------------------------------------------------------


def draw_convergence(result: xarray.Dataset, settings: Settings) -> Figure:
    names = settings["activation"]
    figure, axes = new_figure(3, len(names), width=3.7, height=2.5)
    for row, name, caption in zip(axes, names, settings["captions"], strict=True):
        one = result.sel(activation=name)
        left, middle, right = row
        found = int(one["case"])
        told = f"case {found}" if found == caption else f"case {found}, captioned {caption}"
        left.plot(one["x"], one["phi"], color=PALETTE[0])
        left.set(xlabel="x", ylabel="φ(x), scaled")
        left.set_title(f"{name.replace('**', '^')}: {told}", fontsize=9 if len(name) < 20 else 8, loc="left")
        low, high = np.quantile(one["phi"].values, [0.0, 0.97])
        left.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
        middle.plot(one["rho"], one["kappa"], color=PALETTE[0])
        middle.plot([-1, 1], [-1, 1], ":", color="#888888")
        for i, start in enumerate(settings["starts"]):
            _cobweb(middle, one["cosine"].sel(start=start).values, PALETTE[1 + i])
            distance = one["distance"].sel(start=start).values
            shown = np.where(distance > 1e-15, distance, np.nan)
            right.plot(one["layer"], shown, color=PALETTE[1 + i], label=f"ρ₀ = {start:g}".replace("-", "−"))
            bound = one["bound"].sel(start=start).values
            bound = bound / (1 + bound) if found == 1 else bound
            right.plot(one["layer"], np.where(bound > 1e-15, bound, np.nan), "--", color=PALETTE[1 + i], linewidth=0.9)
        middle.plot(
            [float(one["fixed_point"])] * 2, [float(one["fixed_point"])] * 2, "*", color="#000000", markersize=9
        )
        middle.set(xlabel="ρ", ylabel="κ(ρ)")
        middle.set_title(f"ρ* = {float(one['fixed_point']):.3g}, κ′(1) = {float(one['slope_at_one']):.3g}", fontsize=9)
        right.set(xlabel="layer ℓ", ylabel="|ρ_ℓ − ρ*|", yscale="log")
        right.set_title("dashed: the theorem's bound", fontsize=9)
        right.legend(fontsize=7, loc="upper right")
    return figure


def _cobweb(axis: Any, cosines: np.ndarray[Any, Any], color: str) -> None:
    corners = np.repeat(cosines, 2)
    axis.plot(corners[:-1], corners[1:], color=color, linewidth=0.9)
    axis.plot(cosines[:1], cosines[:1], "o", color=color, markersize=4)


def read_convergence(result: xarray.Dataset, settings: Settings) -> Reading:
    """Convergence is a distance that never grows and ends below a twentieth; a bound may be missed by rounding only."""
    numbers: dict[str, Measured] = {}
    statements: dict[str, bool | None] = {}
    rows = zip(settings["activation"], settings["labels"], settings["captions"], strict=True)
    for activation, name, case in rows:
        one = result.sel(activation=activation)
        found = int(one["case"])
        distance, bounded, bound = (one[key].values for key in ("distance", "bounded", "bound"))
        # the first step may lead away from ρ* on the side of negative cosines
        closing = (np.diff(distance[:, 1:], axis=1) <= 1e-12).all()
        statements[f"{name}: every start tends to ρ*"] = bool(closing and (distance[:, -1] < 0.05).all())
        statements[f"{name}: the bound of its case holds"] = bool((bounded <= bound * (1 + 1e-9) + 1e-14).all())
        if found == 1:
            centred = one["centred"].values * (1 + 1e-9) + 1e-14
            statements[f"{name}: the bound of theorem 5.8 holds"] = bool((bounded <= centred).all())
        statements[f"{name}: is in case {case}"] = found == case
        numbers[f"case, {name}"] = Measured(float(found))
        numbers[f"ρ*, {name}"] = Measured(float(one["fixed_point"]))
    return Reading(numbers, statements)


_PATHS: Mapping[str, Any] = {"starts": [0.9, 0.3, -0.7], "depth": 100, "points": 401}
_CASES: Sequence[Coordinate] = (
    "(x + (x**2 - 1)/sqrt(2))/sqrt(2)",
    "sqrt(0.6) + sqrt(0.3)*x + sqrt(0.1)*(x**2 - 1)/sqrt(2)",
    "0.5 + sqrt(0.5)*x + 0.5*(x**2 - 1)/sqrt(2)",
    "sqrt(0.2) + sqrt(0.2)*x + sqrt(0.6)*(x**2 - 1)/sqrt(2)",
)
_MADE = ["first", "second", "third", "fourth"]
_USED = ["tanh", "relu", "exp", "gelu"]
_STARTS = Choice("cosines of 0.9, 0.3 and −0.7", "not stated", {"0.99 and −0.95": {"starts": [0.99, -0.95]}})
_SHOWS = (
    "Activation, kernel map with iterates, and the distance to the fixed point over layers, for the four cases of the "
    "global convergence theorem; the fixed point attracts all starts."
)
FIGURE_5_1 = Study(
    "001/fig-5.1",
    "kernel maps of made activations, one for each case of the theorem",
    _SHOWS,
    {f"case, {name}": case for case, name in enumerate(_MADE, 1)},
    convergence_cell,
    Scale({"activation": _CASES}, _PATHS, reading={"captions": [1, 2, 3, 4], "labels": _MADE}),
    Scale({"activation": _CASES}, _PATHS, reading={"captions": [1, 2, 3, 4], "labels": _MADE}),
    draw_convergence,
    read_convergence,
    choices={
        "activations": Choice("sums of the first three Hermite polynomials, one for each case", "not stated"),
        "starts": _STARTS,
    },
    seconds=(2, 2),
)
FIGURE_5_2 = Study(
    "001/fig-5.2",
    "kernel maps of tanh, ReLU, exp and GELU",
    _SHOWS,
    {"case, tanh": 1, "case, relu": 2, "case, exp": 3, "case, gelu": 4},
    convergence_cell,
    Scale({"activation": _USED}, _PATHS, reading={"captions": [1, 2, 3, 4], "labels": _USED}),
    Scale({"activation": _USED}, _PATHS, reading={"captions": [1, 2, 3, 4], "labels": _USED}),
    draw_convergence,
    read_convergence,
    choices={"starts": _STARTS},
    because={
        "tanh: the bound of its case holds": "Case 1 prints the rate 1/κ′(1) = 0.85, but near 0 the distance shrinks "
        "by κ′(0) = 0.93 per layer; the rate 1/(2 − κ′(0)) of theorem 5.8 holds.",
        "relu: is in case 2": "Case 2 needs κ′(1) < 1; ReLU scaled to E φ² = 1 has κ′(1) = E φ′² = 1, which is case 3, "
        "as for exp: the distance falls like a power of the depth, not exponentially.",
    },
    seconds=(2, 2),
)

STUDIES: tuple[Study, ...] = (FIGURE_4_1, FIGURE_5_1, FIGURE_5_2, TABLE_5_1, TABLE_5_2)
