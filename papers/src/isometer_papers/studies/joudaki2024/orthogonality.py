"""Chapter 2 of the thesis: orthogonality under batch norm. Figures 2.1, 2.2a and table 2.1 are those of paper 003."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import xarray
from scipy import stats

from isometer.theory.batch_norm import stationary_orthogonality_gap
from isometer_papers.studies._drawing import PALETTE, Figure, single_panel
from isometer_papers.studies._readings import log_slope, measured
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.orthogonality import average_gap_cell, survival_cell
from isometer_papers.studies.daneshmand2021.depth_and_width import FIGURE_1, FIGURE_2A, FIGURE_2B, draw_average
from isometer_papers.studies.daneshmand2021.gaussian_table import gaussian_table

FIGURE_2_1 = dataclasses.replace(FIGURE_1, id="001/fig-2.1")
FIGURE_2_2A = dataclasses.replace(FIGURE_2A, id="001/fig-2.2a")
TABLE_2_1 = gaussian_table("001/tab-2.1")

# --- figure 2.2b -----------------------------------------------------------------------------------------------------


def read_radius(result: xarray.Dataset, settings: Settings) -> Reading:
    """The line has slope −1/2 within 0.05; the level of the widest network is also compared with theory."""
    values = result["average_gap"].transpose("run", "width").values
    slope = log_slope(settings["width"], values)
    straightness = np.corrcoef(np.log(settings["width"]), np.log(values).mean(0))[0, 1] ** 2
    level, widest = measured(values[:, -1]), settings["width"][-1]
    theory = stationary_orthogonality_gap(settings["samples"], widest)
    return Reading(
        {
            "slope": slope,
            "R² of the line": Measured(float(straightness)),
            f"averaged gap at d = {widest}": level,
            f"averaged gap at d = {widest}, theory": Measured(theory),
        },
        {
            "the averaged gap is a straight line in log–log": bool(straightness > 0.99),
            "its slope is −1/2, within 0.05": bool(abs(slope.value + 0.5) <= 0.05),
        },
    )


_RADIUS = {"samples": 4, "depth": 600, "first": 101, "runs": 20, "small": 1e-6}
FIGURE_2_2B = dataclasses.replace(
    FIGURE_2B,
    id="001/fig-2.2b",
    title="orthogonality gap averaged over layers 100 to 600 against the width",
    shows="On logarithmic axes the gap, averaged over 500 layers once the chain has settled, is a straight line in the "
    "width of slope about −1/2.",
    published={"slope": -0.5},
    cell=average_gap_cell,
    quick=Scale(FIGURE_2B.quick.axes, _RADIUS),
    paper=Scale(FIGURE_2B.paper.axes, _RADIUS),
    draw=draw_average,
    read=read_radius,
    seconds=(25, 25),
)

# --- figure 2.3 ------------------------------------------------------------------------------------------------------

OFFSET = 28.0  # of the printed curve
SHARE = 0.1  # of the first smallest singular value that must be left
CURVE = "the curve d = (n − 28)^1.8 parts where it holds from where it fails"
QUADRATIC = "d = Ω(n²) is enough: that width grows no faster than n²"


def printed_curve(samples: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """d = (n − 28)^1.8, 0 for fewer than 28 samples."""
    return np.asarray(np.maximum(samples - OFFSET, 0.0) ** 1.8)


def lowest_ratio(result: xarray.Dataset) -> np.ndarray[Any, Any]:
    """The smallest share over all runs, samples by width."""
    return np.asarray(result["lowest"].min("run").transpose("samples", "width").values)


def thresholds(lowest: np.ndarray[Any, Any], widths: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Widths at which the lowest share crosses 0.1, by interpolation in logarithms; nan outside the grid."""
    found = np.full(len(lowest), np.nan)
    for i, row in enumerate(lowest):
        last = np.flatnonzero(row < SHARE)
        if len(last) and last[-1] + 1 < len(widths):
            j = int(last[-1])
            low, high = np.log(np.maximum(row[j : j + 2], SHARE / 100))
            found[i] = np.exp(np.interp(np.log(SHARE), [low, high], np.log(widths[j : j + 2])))
    return found


def draw_survival(result: xarray.Dataset, settings: Settings) -> Figure:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    figure, axis = single_panel(width=6.0, height=4.4)
    samples, widths = (np.asarray(settings[name], dtype=float) for name in ("samples", "width"))
    lowest = lowest_ratio(result)
    colours = ListedColormap(["#000000", "#e8e8e8"])
    axis.pcolormesh(
        samples, np.arange(len(widths)), (lowest >= SHARE).T, cmap=colours, vmin=0, vmax=1, edgecolors="#888888", lw=0.3
    )
    places = np.arange(len(widths))

    def place(width: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(np.interp(width, widths, places, left=np.nan, right=np.nan))

    fine = np.linspace(samples[0], samples[-1], 300)
    if samples[-1] > OFFSET:
        axis.plot(fine, place(printed_curve(fine)), color=PALETTE[5], linewidth=2, label="printed: d = (n − 28)^1.8")
    crossing = thresholds(lowest, widths)
    known = np.isfinite(crossing)
    if known.any():
        factor = float(np.exp(np.log(crossing[known] / samples[known] ** 2).mean()))
        axis.plot(fine, place(factor * fine**2), "--", color=PALETTE[1], linewidth=2, label=f"d = {factor:.2f} n²")
    axis.set_yticks(places, [f"{int(w)}" for w in widths])
    axis.set_xticks(samples, [f"{int(n)}" for n in samples])
    axis.grid(False)
    axis.set(xlabel="samples n", ylabel="width d")
    handles, _ = axis.get_legend_handles_labels()
    patches = [
        Patch(color="#000000", label="fails in a run"),
        Patch(fc="#e8e8e8", ec="#888888", label="holds in all runs"),
    ]
    axis.legend(handles=[*patches, *handles], fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=2)
    return figure


def read_survival(result: xarray.Dataset, settings: Settings) -> Reading:
    """The exponent is that of the widths at which the lowest share crosses 0.1, to be at most 2 within its interval; a
    curve parts the grid if it errs on at most 5 % of it."""
    samples, widths = (np.asarray(settings[name], dtype=float) for name in ("samples", "width"))
    lowest = lowest_ratio(result)
    holds = lowest >= SHARE
    rising = all((np.diff(row.astype(int)) >= 0).all() for row in holds)
    crossing = thresholds(lowest, widths)
    known = np.isfinite(crossing)
    numbers: dict[str, Measured] = {}
    statements: dict[str, bool | None] = {
        "for every n it holds from some width on": bool(rising and holds[:, -1].all()),
        CURVE: None,
    }
    if (beyond := samples > OFFSET).any():
        right = holds[beyond] == (widths[None, :] >= printed_curve(samples[beyond])[:, None])
        numbers["share of the grid beyond n = 28 that the curve has right"] = Measured(float(right.mean()))
        statements[CURVE] = bool(right.mean() >= 0.95)
    if known.sum() >= 3:
        fit = stats.linregress(np.log(samples[known]), np.log(crossing[known]))
        half = float(stats.t.isf(0.025, int(known.sum()) - 2) * fit.stderr)
        numbers["exponent of that width in n"] = Measured(float(fit.slope), half)
        numbers["that width over n²"] = measured(crossing[known] / samples[known] ** 2)
        statements[QUADRATIC] = bool(fit.slope - half <= 2.01)
    else:
        statements[QUADRATIC] = None
    return Reading(numbers, statements)


FIGURE_2_3 = Study(
    "001/fig-2.3",
    "where samples stay linearly independent over 1000 layers, by batch size and width",
    "A bitmap of whether the smallest singular value stays above a tenth of its first value through 1000 layers of "
    "linear batch norm in all of 10 runs; the curve d = (n − 28)^1.8 is drawn to show that d = Ω(n²) is enough.",
    {"exponent of that width in n": "2, or 1.8 in n − 28"},
    survival_cell,
    Scale(
        {"samples": [8, 12, 20, 30, 40], "width": [15, 30, 60, 110, 200, 350, 600, 1000]},
        {"depth": 300, "runs": 5, "input": "gaussian"},
        "n up to 40, 300 layers and 5 runs instead of 50, 1000 and 10",
    ),
    Scale(
        {"samples": [10, 20, 30, 40, 50],
         "width": [50, 75, 100, 150, 200, 300, 400, 500, 650, 800, 1000, 1250]},
        {"depth": 1000, "runs": 10, "input": "gaussian"},
    ),
    draw_survival,
    read_survival,
    choices={
        "grid": Choice("n to 50, d to 1250", "the axes are not in the text; the curve begins at n = 28"),
        "input": Choice(
            "Gaussian, scaled to unit norm as all layers are",
            "without the scaling the first singular value is about √d and the assumption fails at once",
            {"orthogonal samples": {"input": "orthogonal"}},
        ),
    },
    because={
        CURVE: "The curve asks for d = 261 at n = 50 and for nothing below n = 28; in the simulated chains the "
        "smallest singular value is lost there, and the width that is needed is between a third and two thirds of n².",
    },
    seconds=(20, 250),
)  # fmt: skip

STUDIES: tuple[Study, ...] = (FIGURE_2_1, FIGURE_2_2A, FIGURE_2_2B, FIGURE_2_3, TABLE_2_1)
