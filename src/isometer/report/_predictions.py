"""Predictions for people: a table, the band of finite width, and theory laid over simulation."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from isometer.metrics._catalogue import describe
from isometer.report._numbers import number, spread
from isometer.report._pictures import PALETTE, new_figure
from isometer.report._trajectories import gradient_fate, setting, told_layers
from isometer.theory.prediction import Departure
from isometer.trajectory import summarize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SAMPLED = 1e-8  # errors beyond this are those of points, not of rounding


def print_prediction(
    console: Console,
    predicted: xarray.Dataset,
    bands: Sequence[xarray.Dataset],
    simulated: xarray.Dataset | None,
    departures: Sequence[Departure],
    missing: Mapping[str, str] | None = None,
) -> None:
    """The tables of `isometer predict`: infinite width, the band of single runs of this width, the simulated mean.

    `bands` are those of theory and of simulation; `missing` says which metrics have none, and why.
    """
    console.print(f"[bold]{setting(predicted)}[/]", highlight=False)
    summary = None if simulated is None else summarize(simulated)
    names = [str(name) for name in predicted.data_vars]
    together = (2 if bands else 4) if summary is None else (1 if bands else 2)  # what fits 80 columns
    for start in range(0, len(names), together):
        _print_table(console, names[start : start + together], predicted, bands, summary)
    if bands:
        console.print("∞: infinite width; this width: the range of 95 % of networks of this width", style="dim")
    error = float(predicted.attrs.get("relative_error", 0.0))
    if error > _SAMPLED:
        told = f"expectations are sampled: the errors of all layers add up to at most {number(error, 1)}"
        console.print(told, style="dim")
    for line in band_lines(bands, predicted.sizes["layer"]):
        console.print(line, style="dim")
    for line in missing_lines(missing or {}):
        console.print(line, style="dim")
    for line in statements(predicted):
        console.print(Text(f"→ {line}", style="bold green"))
    for line in departure_lines(departures, predicted.sizes["layer"]):
        console.print(Text(f"  {line}"))


def _print_table(
    console: Console,
    names: Sequence[str],
    predicted: xarray.Dataset,
    bands: Sequence[xarray.Dataset],
    summary: xarray.Dataset | None,
) -> None:
    table = Table(box=SIMPLE, padding=(0, 1), header_style="bold")
    table.add_column("layer", justify="right")
    for name in names:
        banded = _band_of(bands, name) is not None
        table.add_column(describe(name).heading + (", ∞" if banded else ""), justify="right")
        if banded:  # the two are different things: the value of infinite width may lie outside the band of this one
            table.add_column("this width", justify="right")
        if summary is not None:
            table.add_column("simulated", justify="right")
    for layer in told_layers(predicted.sizes["layer"] - 1):
        cells = []
        for name in names:
            cells.append(_cell(float(predicted[name].values[0, layer])))
            band = _band_of(bands, name)
            if band is not None:
                cells.append(_band_cell(band, name, layer))
            if summary is not None:
                mean = float(summary[name].sel(statistic="mean").values[layer])
                half = float(summary[name].sel(statistic="high").values[layer]) - mean
                shown = math.isfinite(half) and half > 1e-9 * abs(mean)
                cells.append(_cell(mean) + (f" {spread(half)}" if shown else ""))
        table.add_row(str(layer), *cells)
    console.print(table)


def _band_of(bands: Sequence[xarray.Dataset], name: str) -> xarray.Dataset | None:
    return next((band for band in bands if name in band), None)


def band_lines(bands: Sequence[xarray.Dataset], layers: int) -> list[str]:
    """What to know about bands: where those of theory end, and how many networks are behind those of simulation."""
    lines = []
    for band in bands:
        if band.attrs["band_from"] == "simulation":
            names = ", ".join(describe(str(name)).heading for name in band.data_vars)
            lines.append(f"this width: simulated, {band.attrs['draws']} networks, not theory, for {names}")
        elif band.attrs["band_until"] < layers - 1:
            lines.append(
                f"the ranges end at layer {band.attrs['band_until']}: beyond it, fluctuations are as large "
                "as the mean, and the expansion in 1/width does not apply"
            )
    return lines


def _band_cell(band: xarray.Dataset, name: str, layer: int) -> str:
    """Where single networks of this width are; one number where they all agree."""
    if layer == 0 and describe(name).reads != "gradient":  # the input, which is given
        return ""
    low, high = (float(band[name].sel(statistic=s).values[layer]) for s in ("low", "high"))
    if not math.isfinite(low) or not math.isfinite(high):
        return _cell(low)
    if high - low <= 1e-6 * abs(high):
        return number(high, 3)
    return f"{number(low, 3)} to {number(high, 3)}"


def _cell(value: float) -> str:
    return "–" if math.isnan(value) else number(value, 4, beside=1.0)


def statements(predicted: xarray.Dataset) -> list[str]:
    """What happens at great depth, in words.

    Example:
        >>> from isometer import Spec
        >>> from isometer.theory.prediction import predict
        >>> print(statements(predict(Spec(width=64, depth=20, norm="batch"), gram=np.eye(10)))[0])
        Cosines approach 0.2647: the samples stay distinct.
    """
    attributes = predicted.attrs
    lines = []
    point = json.loads(attributes["fixed_point"])
    rate, scale = attributes["local_rate"], attributes["depth_scale"]
    tail = (
        ""
        if math.isnan(rate)
        else f"; small deviations change by a factor {number(rate, 4)} per layer (depth scale {number(scale, 3)})"
    )
    if point is not None:
        condition = math.inf if point["condition_number"] == "inf" else point["condition_number"]
        lines += _fate(point)
        lines.append(
            f"Fixed point of the Gram matrix: diagonal {number(point['diagonal'], 4)}, off-diagonal "
            f"{number(point['off_diagonal'], 4)}, "
            f"condition number {number(condition, 4)}{tail}."
        )
    if attributes["note"]:
        lines.append(attributes["note"][0].upper() + attributes["note"][1:] + ".")
    growth, depth = attributes["gradient_growth_per_layer"], predicted.sizes["layer"] - 1
    if math.isfinite(growth):
        total = growth * depth
        fate = gradient_fate(total)
        lines.append(f"Gradients {fate} toward the input: ×{math.exp(growth):.4g} per layer at great depth.")
    return lines


def _fate(point: Mapping[str, Any]) -> list[str]:
    """What happens to the samples, in the words of every lab and command."""
    if not point["diagonal"]:
        return []
    cosine = point["off_diagonal"] / point["diagonal"]
    fate = "the samples collapse" if cosine > 1 - 1e-6 else "the samples stay distinct"
    return [f"Cosines approach {number(cosine, 4)}: {fate}."]


def missing_lines(missing: Mapping[str, str]) -> list[str]:
    """Which metrics have no band, one line per reason.

    Example:
        >>> missing_lines({"rank": "of skips", "log_norm": "of skips"})
        ['no band of this width for rank, log ‖H‖: of skips']
    """
    lines = []
    for reason in dict.fromkeys(missing.values()):
        names = ", ".join(describe(name).heading for name, why in missing.items() if why == reason)
        lines.append(f"no band of this width for {names}: {reason}")
    return lines


def departure_lines(departures: Sequence[Departure], layers: int) -> list[str]:
    """Where theory leaves the interval of the simulated mean, one line per metric.

    Example:
        >>> print(departure_lines([Departure("rank", [3, 4], [])], 5)[0])
        rank: infinite width leaves the 99.9 % interval of the simulated mean at layer 3 (2 of 5 layers), theory ...
    """
    lines = []
    for found in departures:
        what = f"{describe(found.metric).heading}: infinite width {_leaves(found.infinite, layers)}"
        if found.finite is not None:
            what += f", theory of this width {_leaves(found.finite, layers)}"
        lines.append(what.replace("leaves", "leaves the 99.9 % interval of the simulated mean", 1))
    return lines


def _leaves(outside: Sequence[int], layers: int) -> str:
    return "stays inside" if not outside else f"leaves at layer {outside[0]} ({len(outside)} of {layers} layers)"


def prediction_picture(
    predicted: xarray.Dataset, bands: Sequence[xarray.Dataset] = (), simulated: xarray.Dataset | None = None
) -> Figure:
    """One panel per metric: infinite width as a line, the band of single runs, and simulated means with their interval.

    Example:
        >>> from isometer import Spec
        >>> from isometer.theory.prediction import predict
        >>> len(prediction_picture(predict(Spec(width=8, depth=3), gram=np.eye(2), metrics=["rank"])).axes)
        1
    """
    names = [str(name) for name in predicted.data_vars]
    columns = min(3, len(names))
    figure, axes = new_figure(columns, math.ceil(len(names) / columns), width=4.2, height=2.9)
    for axis, name in zip(axes.ravel(), names, strict=False):
        _draw(axis, name, predicted, bands, simulated)
        axis.set_title(describe(name).heading, fontsize=10)
        axis.set_xlabel("layer")
    for axis in axes.ravel()[len(names) :]:
        axis.set_axis_off()
    _legend(figure, axes.ravel()[0])
    figure.suptitle(setting(predicted), fontsize=9, x=0.01, ha="left")
    return figure


def _legend(figure: Figure, axis: Any) -> None:
    """One legend for all panels, below them."""
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        columns = min(len(labels), max(1, int(figure.get_figwidth() / 2.1)))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def comparison_picture(
    panels: Mapping[str, tuple[xarray.Dataset, Sequence[xarray.Dataset], xarray.Dataset | None]], metrics: Sequence[str]
) -> Figure:
    """One panel per name and metric: prediction, band and simulation, the metrics below each other.

    Example:
        >>> from isometer import Spec
        >>> from isometer.theory.prediction import predict
        >>> data = predict(Spec(width=8, depth=3), gram=np.eye(2), metrics=["rank"])
        >>> len([axis for axis in comparison_picture({"relu": (data, [], None)}, ["rank"]).axes if axis.axison])
        1
    """
    columns = min(4, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure, axes = new_figure(columns, rows * len(metrics), width=3.6, height=2.7)
    for block, metric in enumerate(metrics):
        own = axes.ravel()[block * rows * columns : (block + 1) * rows * columns]
        for place, (axis, (name, found)) in enumerate(zip(own, panels.items(), strict=False)):
            _draw(axis, metric, *found)
            axis.set_title(name, fontsize=10)
            if place >= len(panels) - columns:
                axis.set_xlabel("layer")
            if place % columns == 0:
                axis.set_ylabel(describe(metric).heading)
        for axis in own[len(panels) :]:
            axis.set_axis_off()
    _legend(figure, axes.ravel()[0])
    first = next(iter(panels.values()))[0]
    title = ", ".join(describe(metric).heading for metric in metrics)
    figure.suptitle(f"{title} · {_without_activation(first)}", fontsize=9, x=0.01, ha="left")
    return figure


def _without_activation(predicted: xarray.Dataset) -> str:
    own = json.loads(predicted.attrs["spec"])["activation"]
    return setting(predicted).replace(f" {own},", "", 1)


def _draw(
    axis: Any, name: str, predicted: xarray.Dataset, bands: Sequence[xarray.Dataset], simulated: xarray.Dataset | None
) -> None:
    layers = predicted["layer"].values
    band = _band_of(bands, name)
    if band is not None:
        by = "theory" if band.attrs["band_from"] == "theory" else f"{band.attrs['draws']} simulated"
        low, high, mean = (band[name].sel(statistic=s).values for s in ("low", "high", "mean"))
        finite = np.isfinite(low) & np.isfinite(high)
        shown = (np.where(finite, low, np.nan), np.where(finite, high, np.nan))
        axis.fill_between(layers, *shown, color=PALETTE[5], alpha=0.3, linewidth=0, label=f"95 % of networks, {by}")
        axis.plot(layers, np.where(finite, mean, np.nan), color=PALETTE[0], linewidth=1, linestyle="--",
                  label=f"their mean, {by}")  # fmt: skip
    line = predicted[name].values[0]
    axis.plot(layers, np.where(np.isfinite(line), line, np.nan), color=PALETTE[0], label="infinite width")
    if simulated is not None:
        summary = summarize(simulated)[name]
        mean, high = (summary.sel(statistic=s).values for s in ("mean", "high"))
        step = max(1, len(layers) // 25)
        kept = np.arange(0, len(layers), step)
        kept = kept[np.isfinite(mean[kept]) & np.isfinite(high[kept])]
        axis.errorbar(
            layers[kept], mean[kept], (high - mean)[kept], fmt="o", markersize=2.5, linewidth=0.8, color=PALETTE[1],
            label=f"mean of {simulated.sizes['run']} simulated, 95 %",
        )  # fmt: skip
    if not np.isfinite(line).any():
        axis.text(0.5, 0.5, "infinite or undefined\nat every layer", ha="center", transform=axis.transAxes)


def print_comparison(console: Console, answers: Mapping[str, tuple[xarray.Dataset, Sequence[Departure]]]) -> None:
    """The table of `isometer predict --compare`: where depth leads, and where theory leaves the simulation."""
    first = next(iter(answers.values()))[0]
    console.print(f"[bold]{_without_activation(first)}[/]", highlight=False)
    table = Table(box=SIMPLE, padding=(0, 1), header_style="bold")
    for title in ("activation", "G*", "cos*", "rate", "gradients"):
        table.add_column(title, justify="left" if title == "activation" else "right")
    names = [found.metric for found in next(iter(answers.values()))[1]]
    for metric in names:
        table.add_column(f"{describe(metric).heading} outside", justify="right")
    for name, (data, departures) in answers.items():
        point = json.loads(data.attrs["fixed_point"])
        diagonal = "–" if point is None else number(point["diagonal"], 4)
        cosine = "–" if point is None or not point["diagonal"] else number(point["off_diagonal"] / point["diagonal"], 4)
        rate, growth = data.attrs["local_rate"], data.attrs["gradient_growth_per_layer"]
        counts = [f"{len(d.infinite)}, {'–' if d.finite is None else len(d.finite)}" for d in departures]
        # exp overflows beyond 709.
        shown = "–" if math.isnan(growth) else f"×{math.exp(min(growth, 700.0)):.4g}"
        table.add_row(name, diagonal, cosine, "–" if math.isnan(rate) else number(rate, 4), shown, *counts)
    console.print(table)
    layers = first.sizes["layer"]
    console.print(
        f"outside: number of layers, of {layers}, at which theory is outside the 99.9 % interval of the simulated "
        "mean: infinite width, this width (–: no band)",
        style="dim",
    )
    for name, (data, _) in answers.items():
        if data.attrs["note"]:
            console.print(Text(f"→ {name}: {data.attrs['note']}", style="bold green"))
