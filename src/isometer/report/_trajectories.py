"""Trajectories for people: a table of selected layers and small multiples with bands."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from isometer.metrics._catalogue import describe
from isometer.report._numbers import number, rounded, spread
from isometer.report._pictures import PALETTE, legend_below, new_figure
from isometer.trajectory import summarize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROWS = (0, 1, 2, 5)
_MATTERS = math.log(10.0)  # a factor of ten over the whole depth slows training
_CLOSE = 0.1  # cosines whose interval stays within this of the input's are the same for a reader
_SAME = 0.1


def told_layers(depth: int) -> list[int]:
    """A few layers that tell the story: the first ones, then 1-2-5 steps, then the last."""
    steps = sorted({*(_ROWS), *(m * 10**e for e in range(1, 8) for m in (1, 2, 5)), depth})
    return [layer for layer in steps if layer <= depth]


def setting(dataset: xarray.Dataset) -> str:
    """One line that says what was simulated."""
    spec = json.loads(dataset.attrs["spec"])
    what = rounded(str(spec["network"])) if "network" in spec else _chain_words(spec, dataset.sizes["layer"] - 1)
    if dataset.attrs["engine"] == "theory":
        return f"{what} · theory"
    return f"{what} · {dataset.sizes['run']} runs, {dataset.attrs['engine']} engine"


def _chain_words(spec: dict[str, Any], depth: int) -> str:
    width = spec["width"] if isinstance(spec["width"], int) else f"{min(spec['width'])}…{max(spec['width'])}"
    norm = "no norm" if spec["norm"] is None else f"norm over {spec['norm']['over']}"
    parts = [f"width {width}", f"depth {depth}", spec["activation"], norm, f"{spec['weights']} weights"]
    if spec["residual"] is not None:
        parts.append(f"residual {spec['residual']}")
    return ", ".join(parts)


def print_trajectory(console: Console, dataset: xarray.Dataset) -> None:
    """The table of `isometer simulate` and a one-line conclusion per metric."""
    summary = summarize(dataset)
    names = [str(name) for name in summary.data_vars]
    console.print(f"[bold]{escape(setting(dataset))}[/]", highlight=False)
    for start in range(0, len(names), 4):  # four metrics fit an 80-column terminal
        table = Table(box=SIMPLE, padding=(0, 1), header_style="bold")
        table.add_column("layer", justify="right")
        for name in names[start : start + 4]:
            table.add_column(describe(name).heading, justify="right")
        for layer in told_layers(dataset.sizes["layer"] - 1):
            cells = []
            for name in names[start : start + 4]:
                at = summary[name].sel(layer=layer)
                mean, low, high = (float(at.sel(statistic=s)) for s in ("mean", "low", "high"))
                half = (high - low) / 2
                visible = math.isfinite(half) and half > 1e-9 * abs(mean)  # less is rounding
                shown = "–" if math.isnan(mean) else number(mean, 4)
                cells.append(f"{shown} {spread(half)}" if visible else shown)
            table.add_row(str(layer), *cells)
        console.print(table)
    for line in conclusions(summary):
        console.print(Text(f"→ {line}", style="bold green"))
    lost = [int(layer) for layer in dataset.attrs["first_nonfinite_layer"] if layer >= 0]
    if lost:
        share = f"{len(lost)} of {dataset.sizes['run']} runs"
        console.print(Text(f"! {share} overflowed, the first at layer {min(lost)}", style="bold red"))


def conclusions(summary: xarray.Dataset) -> list[str]:
    """What the numbers say, in words; only what the intervals support."""
    lines = []
    last = int(summary["layer"].values[-1])
    if "mean_abs_cosine" in summary:
        cosine = summary["mean_abs_cosine"]
        start = float(cosine.sel(statistic="mean", layer=0))
        end, low, high = (float(cosine.sel(statistic=s, layer=last)) for s in ("mean", "low", "high"))
        if low > 0.99:
            lines.append(f"Rank collapse: the samples are nearly parallel at layer {last} (mean |cos| {end:.4f}).")
        elif high < start - 0.02:
            lines.append(f"The samples move apart: mean |cos| falls from {start:.3g} to {end:.3g}.")
        elif low > start + 0.02:
            lines.append(f"The samples move together: mean |cos| rises from {start:.3g} to {end:.3g}.")
        elif max(abs(low - start), abs(high - start)) < _CLOSE:
            lines.append(f"Cosines stay as they were (mean |cos| {start:.3g} at the input, {end:.3g} at the output).")
        else:
            lines.append(
                f"Mean |cos| is {start:.3g} at the input and {end:.3g} at the output; so few runs do not show whether "
                "that is more than chance (--runs)."
            )
    if "gradient_log_norm" in summary and last >= 2:
        log = summary["gradient_log_norm"].sel(statistic="mean")
        # Layer 0 has the gradient by the input, which is another quantity.
        first, final = float(log.sel(layer=1)), float(log.sel(layer=last))
        if math.isfinite(first - final):
            total = first - final
            rate = total / (last - 1)
            word = gradient_fate(total)
            whole = f"×{math.exp(total):.3g}" if abs(total) < 9 else f"×10^{total / math.log(10):.0f}"
            lines.append(
                f"Gradients {word} toward the input: ×{math.exp(rate):.4g} per layer, "
                f"{whole} over {last} layers.".replace("^-", "^−")
            )
    return lines


def gradient_fate(log_factor: float) -> str:
    """What gradients do toward the input, given the logarithm of the factor over the whole depth.

    Example:
        >>> gradient_fate(0.0), gradient_fate(1.0), gradient_fate(5.0)
        ('keep their size', 'stay within a factor of ten', 'explode')
    """
    if abs(log_factor) > _MATTERS:
        return "explode" if log_factor > 0 else "vanish"
    return "keep their size" if abs(log_factor) < _SAME else "stay within a factor of ten"


def trajectory_picture(dataset: xarray.Dataset) -> Figure:
    """One panel per metric: mean over runs with the 95 % interval of the mean, against the layer.

    Example:
        >>> from isometer.report import trajectory_picture
        >>> from isometer.data import make_batch
        >>> from isometer.simulate import simulate
        >>> from isometer.spec import Spec
        >>> data = simulate(Spec(width=20, depth=3), make_batch("gaussian", 4, 20), runs=2, metrics=["rank"])
        >>> len(trajectory_picture(data).axes)
        1
    """
    summary = summarize(dataset)
    names = [str(name) for name in summary.data_vars]
    columns = min(3, len(names))
    figure, axes = new_figure(columns, math.ceil(len(names) / columns), width=4.2, height=2.9)
    layers = summary["layer"].values
    for axis, name in zip(axes.ravel(), names, strict=False):
        mean, low, high = (summary[name].sel(statistic=s).values for s in ("mean", "low", "high"))
        finite = np.isfinite(mean)
        axis.plot(layers[finite], mean[finite], color=PALETTE[0])
        band = finite & np.isfinite(low) & np.isfinite(high)
        axis.fill_between(
            layers, np.where(band, low, np.nan), np.where(band, high, np.nan), color=PALETTE[0], alpha=0.25
        )
        if not finite.any():
            axis.text(0.5, 0.5, "infinite or undefined\nat every layer", ha="center", transform=axis.transAxes)
        positive = mean[finite & (mean > 0)]
        if len(positive) == finite.sum() > 1 and describe(name).log_axis(positive):
            axis.set_yscale("log")
        axis.set_title(describe(name).heading, fontsize=10)
        axis.set_xlabel("layer")
    for axis in axes.ravel()[len(names) :]:
        axis.set_axis_off()
    figure.suptitle(setting(dataset) + "; bands: 95 % of the mean", fontsize=9, x=0.01, ha="left")
    return figure


def theory_over_simulation(
    predicted: Mapping[str, NDArray[np.float64]], simulated: Mapping[str, xarray.Dataset], *, title: str
) -> Figure:
    """Mean cosine over layers: theory as a line, simulated runs as the band of their 5th to 95th percentile.

    Args:
        predicted: cosines over layers, by name.
        simulated: trajectories with `mean_cosine`, by the same names.
        title: what was simulated.

    Returns:
        The figure, one colour per name.

    Example:
        >>> from isometer import Spec, kernel_map
        >>> from isometer.report import theory_over_simulation
        >>> from isometer.data import make_batch
        >>> from isometer.simulate import simulate
        >>> data = simulate(Spec(width=50, depth=3, activation="unit(relu)"), make_batch("correlated:0.5", 3, 50),
        ...                 runs=2, metrics=["mean_cosine"])
        >>> line = kernel_map("relu").iterate(0.5, 3).cosine
        >>> len(theory_over_simulation({"relu": line}, {"relu": data}, title="tiny").axes)
        1
    """
    figure, axes = new_figure(1, width=7.5, height=4.5)
    axis = axes[0, 0]
    for (name, line), color in zip(predicted.items(), PALETTE, strict=False):
        layers = simulated[name]["layer"].values
        low, high = np.quantile(simulated[name]["mean_cosine"].values, (0.05, 0.95), axis=0)
        axis.fill_between(layers, low, high, color=color, alpha=0.25, linewidth=0)
        axis.plot(layers, line, color=color, label=name)
    axis.set_xlabel("layer")
    axis.set_ylabel(describe("mean_cosine").title)
    axis.set_ylim(-0.1, 1.05)
    legend_below(axis, columns=4, size=9, title="line: theory (infinite width); band: simulated runs")
    axis.set_title(title, fontsize=10)
    return figure
