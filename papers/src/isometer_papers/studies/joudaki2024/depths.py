"""Gradients of the first layer against the depth of the network: curves, growth, and what counts as bounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray
from numpy.typing import ArrayLike

from isometer_papers.studies._drawing import PALETTE, Figure, new_figure
from isometer_papers.studies._readings import line_slope, mean_interval, straightness
from isometer_papers.studies._study import Measured, Settings

MARKERS = ("o", "s", "^", "D", "v", "P")
TRANSIENT = 50  # depths below show how the inputs are brought into shape, not growth
DEEPEST = 3  # depths over which growth is read; images come close to isometry within some 300 layers of width 100
BOUNDED = 0.1  # growth below this fraction of an explosion is none


def curve(result: xarray.Dataset, settings: Settings, **at: Any) -> np.ndarray[Any, Any]:
    """Log-gradients of the chosen layer at a place of the grid, runs by depths.

    Example:
        >>> result = xarray.Dataset({"gradient": (("depth", "run", "layer"), np.zeros((2, 3, 1)))}, {"layer": [2]})
        >>> curve(result, {"layer": 2}).shape
        (3, 2)
    """
    values: np.ndarray[Any, Any] = (
        result["gradient"].sel(layer=settings["layer"], **at).transpose("run", "depth").values
    )
    return values


def growth(result: xarray.Dataset, settings: Settings, **at: Any) -> Measured:
    """Growth of the log-gradient per layer, over the three deepest networks."""
    deepest = np.argsort(settings["depth"])[-DEEPEST:]
    return line_slope(np.asarray(settings["depth"])[deepest], curve(result, settings, **at)[:, deepest])


def explodes(result: xarray.Dataset, settings: Settings, **at: Any) -> bool:
    """Whether the gradient grows exponentially: beyond chance, and along a straight line in log scale."""
    found, depths = growth(result, settings, **at), np.asarray(settings["depth"])
    line = straightness(depths[depths >= TRANSIENT], curve(result, settings, **at)[:, depths >= TRANSIENT])
    return bool(found.value - found.uncertainty > 0 and line > 0.9)


def flat(one: Measured, explosion: Measured) -> bool:
    """Whether a growth is none: its interval ends below a tenth of that of an explosion.

    Example:
        >>> flat(Measured(0.0001, 0.0001), Measured(0.005)), flat(Measured(0.004), Measured(0.005))
        (True, False)
    """
    return bool(explosion.value > 0 and one.value + one.uncertainty < BOUNDED * explosion.value)


def draw_depths(result: xarray.Dataset, settings: Settings, name: str, labels: Mapping[Any, str]) -> Figure:
    """Log-gradients over depth, one curve per value of an axis of the grid.

    Args:
        result: of `first_gradient_cell`.
        settings: of the study.
        name: the axis.
        labels: its values and their names.
    """
    figure, axes = new_figure(1, width=5.4)
    for i, (value, label) in enumerate(labels.items()):
        draw_curve(axes[0, 0], settings["depth"], curve(result, settings, **{name: value}), label, i)
    depth_axis(axes[0, 0], settings)
    axes[0, 0].legend()
    return figure


def depth_axis(axis: Any, settings: Settings) -> None:
    """Names of the axes."""
    axis.set(xlabel="depth L", ylabel=f"log ‖∂loss/∂W_{settings['layer']}‖_F")


def draw_curve(
    axis: Any, x: ArrayLike, runs: np.ndarray[Any, Any], label: str, index: int, *, log: bool = False
) -> None:
    """Means with markers, and the band of their 95 % intervals; `log` takes means of logarithms."""
    mean, half = mean_interval(np.log(runs) if log else runs)
    low, middle, high = (np.exp(one) if log else one for one in (mean - half, mean, mean + half))
    color = PALETTE[index]
    axis.plot(x, middle, color=color, marker=MARKERS[index], markersize=4, label=label)
    if len(runs) > 1:
        axis.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
