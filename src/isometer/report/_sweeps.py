"""Sweeps for people: one row of numbers per cell, slopes in log–log coordinates, small multiples."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from rich.box import SIMPLE
from rich.table import Table
from scipy import stats

from isometer.metrics._catalogue import describe
from isometer.report._numbers import number
from isometer.report._pictures import PALETTE, legend_below, new_figure
from isometer.trajectory import summarize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from isometer.run import Job

STATISTICS = ("mean", "low", "high")
REPLICATE = "seed"  # an axis that repeats, over which means are taken
_PANELS = 9
_LINES = len(PALETTE) - 1  # the last colour is too light for a line
_FEWEST = 3  # points that give a slope and its interval


@dataclass(frozen=True)
class Slope:
    """The exponent of a power law fitted along one axis of a grid.

    Args:
        variable: what was fitted.
        axis: against which axis.
        at: the other coordinates.
        slope: d log(variable) / d log(axis), by least squares.
        low: lower end of Student's 95 % interval of the slope.
        high: upper end.
        points: number of cells used.

    Example:
        >>> Slope("gap", "width", {"depth": 3}, -0.5, -0.6, -0.4, 5).slope
        -0.5
    """

    variable: str
    axis: str
    at: Mapping[str, Any]
    slope: float
    low: float
    high: float
    points: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON data.

        Example:
            >>> sorted(Slope("gap", "width", {}, -0.5, -0.6, -0.4, 5).to_dict())
            ['at', 'axis', 'high', 'low', 'points', 'slope', 'variable']
        """
        return asdict(self)


def last_numbers(dataset: xarray.Dataset) -> dict[str, tuple[float, float, float]]:
    """Mean and 95 % interval of every variable of one cell: over the runs, at the last layer.

    A variable without runs has no spread; one with further dimensions is left out.

    Example:
        >>> last_numbers(xarray.Dataset({"rank": (("run", "layer"), np.array([[4.0, 2.0], [4.0, 2.0]]))}))
        {'rank': (2.0, 2.0, 2.0)}
    """
    last = dataset.isel(layer=-1) if "layer" in dataset.dims else dataset
    if "run" in last.dims:
        last = summarize(last)
    found = {}
    for name, variable in last.data_vars.items():
        if variable.dtype.kind not in "biuf":
            continue
        if variable.dims == ("statistic",):
            found[str(name)] = tuple(float(v) for v in variable.values)
        elif variable.ndim == 0:
            found[str(name)] = (float(variable),) * 3
    return found  # type: ignore[return-value]


def sweep_summary(job: Job, results: Mapping[str, xarray.Dataset]) -> xarray.Dataset:
    """The numbers of all cells over the grid and `statistic` (mean, low, high); NaN for cells that failed.

    Example:
        >>> from isometer.run import Job
        >>> from isometer.run.example import power
        >>> job = Job(power, {"base": [2, 3], "exponent": [1, 2]})
        >>> results = {cell.label: power(cell.configuration, cell.seed) for cell in job.cells}
        >>> sweep_summary(job, results)["value"].sel(statistic="mean").values.tolist()
        [[2.0, 4.0], [3.0, 9.0]]
    """
    shape = tuple(len(values) for values in job.axes.values())
    rows = [last_numbers(results[cell.label]) if cell.label in results else {} for cell in job.cells]
    names = list(dict.fromkeys(name for row in rows for name in row))
    empty = (math.nan,) * len(STATISTICS)
    variables = {
        name: ((*job.axes, "statistic"), np.array([row.get(name, empty) for row in rows]).reshape(*shape, -1))
        for name in names
    }
    return xarray.Dataset(variables, coords={**{k: list(v) for k, v in job.axes.items()}, "statistic": [*STATISTICS]})


def summary_csv(job: Job, summary: xarray.Dataset) -> str:
    """One line per cell: its coordinates, then mean, low and high of every variable; empty where there is none.

    Example:
        >>> from isometer.run import Job
        >>> from isometer.run.example import power
        >>> job = Job(power, {"base": [2]})
        >>> print(summary_csv(job, sweep_summary(job, {"base=2": power({"base": 2}, 0)})).strip())
        base,value,value_low,value_high
        2,2.0,2.0,2.0
    """
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    names = [str(name) for name in summary.data_vars]
    writer.writerow([*job.axes, *(f"{name}{end}" for name in names for end in ("", "_low", "_high"))])
    tables = {name: summary[name].values.reshape(-1, len(STATISTICS)) for name in names}
    for i, cell in enumerate(job.cells):
        numbers = [float(value) for name in names for value in tables[name][i]]
        writer.writerow([*cell.coordinates.values(), *("" if math.isnan(v) else repr(v) for v in numbers)])
    return page.getvalue()


def numeric_axes(summary: xarray.Dataset) -> list[str]:
    """Axes along which a power law makes sense: at least three positive numbers, seeds left out; longest first.

    Example:
        >>> numeric_axes(xarray.Dataset(coords={"width": [1, 2, 4], "depth": [1, 2], "activation": ["a", "b", "c"]}))
        ['width']
    """
    found = []
    for name, values in summary.coords.items():
        array = np.asarray(values.values)
        positive = array.dtype.kind in "iuf" and int((np.isfinite(array) & (array > 0)).sum())
        if name not in ("statistic", REPLICATE) and positive >= _FEWEST:
            found.append((-positive, str(name)))
    return [name for _, name in sorted(found, key=lambda pair: pair[0])]


def _means(summary: xarray.Dataset) -> xarray.Dataset:
    """Over seeds, if there are several."""
    # A seed that failed leaves a gap, not a mean over fewer seeds.
    return summary.mean(REPLICATE, skipna=False) if REPLICATE in summary.dims else summary


def _series(variable: xarray.DataArray, axis: str) -> Iterator[tuple[dict[str, Any], xarray.DataArray]]:
    """The lines along an axis, one per point of the other axes."""
    others = [str(dim) for dim in variable.dims if dim not in (axis, "statistic")]
    for place in np.ndindex(*(variable.sizes[dim] for dim in others)):
        line = variable.isel(dict(zip(others, place, strict=True)))
        yield {dim: line.coords[dim].item() for dim in others}, line


def fit_slopes(summary: xarray.Dataset) -> list[Slope]:
    """Power laws along every numeric axis, for every variable and every point of the other axes.

    Least squares of log(mean) on log(axis), the interval from Student's law with points − 2 degrees of freedom. Means
    that are not positive and finite are left out; fewer than three points give no slope, and logarithms have none.

    Args:
        summary: of `sweep_summary`.

    Returns:
        The slopes, by variable, axis and series.

    Example:
        >>> gap = np.repeat([[8.0], [4.0], [2.0]], 3, axis=1)
        >>> summary = xarray.Dataset({"gap": (("width", "statistic"), gap)},
        ...                          coords={"width": [1, 4, 16], "statistic": ["mean", "low", "high"]})
        >>> [round(slope.slope, 12) for slope in fit_slopes(summary)]
        [-0.5]
    """
    slopes = []
    data = _means(summary)
    for name, variable in data.data_vars.items():
        for axis in () if describe(str(name)).scaling == "logarithmic" else numeric_axes(data):
            for at, line in _series(variable, axis):
                x, y = np.asarray(line[axis].values, dtype=float), line.sel(statistic="mean").values
                usable = (x > 0) & np.isfinite(x) & (y > 0) & np.isfinite(y)
                if usable.sum() >= _FEWEST:
                    slope, half = _fit(np.log(x[usable]), np.log(y[usable]))
                    slopes.append(Slope(str(name), axis, at, slope, slope - half, slope + half, int(usable.sum())))
    return slopes


def _fit(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Slope and half of its 95 % interval."""
    centred = x - x.mean()
    spread = float(centred @ centred)
    slope = float(centred @ (y - y.mean())) / spread
    residual = y - y.mean() - slope * centred
    freedom = len(x) - 2
    return slope, float(stats.t.ppf(0.975, freedom)) * math.sqrt(float(residual @ residual) / freedom / spread)


def slope_table(slopes: Sequence[Slope], limit: int = 24) -> Table:
    """Fitted exponents for the terminal.

    Example:
        >>> slope_table([Slope("gap", "width", {}, -0.5, -0.6, -0.4, 5)]).row_count
        1
    """
    table = Table(box=SIMPLE, padding=(0, 1), title="log–log slopes, 95 % intervals", title_justify="left")
    for column in ("quantity", "over", "at", "slope", "interval"):
        table.add_column(column, justify="right" if column == "slope" else "left")
    for slope in slopes[:limit]:
        interval = f"{number(slope.low, 3)} … {number(slope.high, 3)}"
        at = ", ".join(f"{key}={value}" for key, value in slope.at.items())
        table.add_row(describe(slope.variable).heading, slope.axis, at, number(slope.slope, 4), interval)
    if len(slopes) > limit:
        table.add_row("…", "", f"and {len(slopes) - limit} more", "", "")
    return table


def sweep_picture(summary: xarray.Dataset, slopes: Sequence[Slope], title: str) -> Figure:
    """One panel per variable: against the longest numeric axis in log–log coordinates with the fitted slopes, or the
    cells side by side where no axis has three positive numbers.

    Example:
        >>> gap = np.repeat([[8.0], [4.0], [2.0]], 3, axis=1)
        >>> summary = xarray.Dataset({"gap": (("width", "statistic"), gap)},
        ...                          coords={"width": [1, 4, 16], "statistic": ["mean", "low", "high"]})
        >>> len(sweep_picture(summary, fit_slopes(summary), "gap over width").axes)
        1
    """
    data = _means(summary)
    names = [str(name) for name in data.data_vars][:_PANELS]
    columns = max(1, min(3, len(names)))
    figure, axes = new_figure(columns, max(1, math.ceil(len(names) / columns)), width=5.0, height=3.8)
    along = numeric_axes(data)
    for panel, name in zip(axes.ravel(), names, strict=False):
        if along:
            fitted = [slope for slope in slopes if slope.variable == name and slope.axis == along[0]]
            _draw_lines(panel, data[name], along[0], fitted)
        else:
            _draw_cells(panel, data[name])
        panel.set_title(describe(name).heading, fontsize=10)
    for panel in axes.ravel()[len(names) :]:
        panel.set_axis_off()
    hidden = len(data.data_vars) - len(names)
    note = f" ({hidden} more quantities in the summary)" if hidden else ""
    figure.suptitle(f"{title}{note}; bars: 95 % of the mean", fontsize=9, x=0.01, ha="left")
    return figure


def _draw_lines(panel: Any, variable: xarray.DataArray, axis: str, slopes: Sequence[Slope]) -> None:
    series = list(_series(variable, axis))
    positive = True
    for (at, line), color in zip(series[:_LINES], PALETTE, strict=False):
        mean, low, high = (line.sel(statistic=statistic).values for statistic in STATISTICS)
        x = np.asarray(line[axis].values, dtype=float)
        fine = np.isfinite(mean) & np.isfinite(x)
        if not fine.any():
            continue
        slope = next((s for s in slopes if dict(s.at) == at), None)
        label = ", ".join(str(value) for value in at.values())
        if slope is not None:
            label += f"{': ' if label else ''}slope {slope.slope:.3g} [{slope.low:.3g}, {slope.high:.3g}]"
        panel.plot(x[fine], mean[fine], "o-", color=color, markersize=3.5, linewidth=1.2, label=label or None)
        bars = fine & np.isfinite(low) & np.isfinite(high)
        panel.vlines(x[bars], low[bars], high[bars], color=color, linewidth=1.0, alpha=0.7)
        positive &= bool((mean[fine] > 0).all())
    values = np.asarray(variable[axis].values, dtype=float)
    if (values > 0).all():
        panel.set_xscale("log")
        if len(values) <= 8:
            panel.set_xticks(values, [f"{value:g}" for value in values])
            panel.set_xticks([], minor=True)
    if panel.has_data() and positive and describe(str(variable.name)).scaling != "logarithmic":
        panel.set_yscale("log")
    if not panel.has_data():
        panel.text(0.5, 0.5, "infinite or undefined\nin every cell", ha="center", transform=panel.transAxes)
    legend_below(panel, columns=1, size=7)
    if len(series) > _LINES:
        panel.annotate(f"{len(series) - _LINES} more lines", (0.02, 0.02), xycoords="axes fraction", fontsize=7)
    panel.set_xlabel(axis)


def _draw_cells(panel: Any, variable: xarray.DataArray) -> None:
    others = [str(dim) for dim in variable.dims if dim != "statistic"]
    flat = variable.stack(cell=others) if others else variable.expand_dims("cell")
    labels = [", ".join(map(str, place)) for place in flat["cell"].values] if others else [""]
    mean, low, high = (flat.sel(statistic=statistic).values for statistic in STATISTICS)
    place = np.arange(len(labels))
    fine = np.isfinite(mean)
    panel.plot(place[fine], mean[fine], "o", color=PALETTE[0], markersize=4)
    bars = fine & np.isfinite(low) & np.isfinite(high)
    panel.vlines(place[bars], low[bars], high[bars], color=PALETTE[0], linewidth=1.2)
    shown = place[:: max(1, math.ceil(len(labels) / 24))]
    panel.set_xticks(shown, [labels[i] for i in shown], rotation=60, ha="right", fontsize=7)
    panel.set_xlabel(", ".join(others))
