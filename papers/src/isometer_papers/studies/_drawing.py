"""What figures share: curves with bands, and a caption with the paper's ID."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from isometer.report import PALETTE, new_figure
from isometer_papers.studies._readings import LEVEL, mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure
else:
    Figure = Any  # studies name the type; matplotlib is loaded with the first picture

__all__ = ["LINES", "PALETTE", "Figure", "band", "captioned", "new_figure", "plain_logs", "single_panel"]

LINES = ("-", "--", "-.", ":")


def single_panel(*, width: float = 4.6, height: float = 4.0) -> tuple[Figure, Any]:
    """A figure of one panel, and its axis.

    Example:
        >>> figure, axis = single_panel(width=5.2)
        >>> figure.axes == [axis]
        True
    """
    figure, axes = new_figure(1, width=width, height=height)
    return figure, axes[0, 0]


def band(
    axis: Any, x: ArrayLike, runs: ArrayLike, *, label: str, index: int = 0, log: bool = False, level: float = LEVEL
) -> None:
    """The mean over runs (first dimension) as a line, its interval as a band.

    Args:
        axis: of matplotlib.
        x: abscissae.
        runs: runs by abscissae.
        label: for the legend.
        index: which colour and line style.
        log: take the mean of the logarithms, for logarithmic axes.
        level: of the interval, 95 % unless told.

    Example:
        >>> figure, axes = new_figure(1)
        >>> band(axes[0, 0], [0, 1], [[1.0, 2.0], [2.0, 3.0]], label="runs")
    """
    data = np.asarray(runs, dtype=float)
    # intervals of logarithms are symmetric on the axis; 1e-300 keeps zeros finite
    mean, half = mean_interval(np.log(np.maximum(data, 1e-300)) if log else data, level=level)
    low, middle, high = (f(mean + s * half) for s, f in ((s, np.exp if log else np.asarray) for s in (-1, 0, 1)))
    color = PALETTE[index % len(PALETTE)]
    axis.plot(x, middle, color=color, linestyle=LINES[(index // len(PALETTE)) % len(LINES)], label=label)
    if data.shape[0] > 1:
        axis.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)


def captioned(figure: Figure, text: str) -> Figure:
    """Put a caption under a figure.

    Example:
        >>> figure, _ = new_figure(1)
        >>> captioned(figure, "003/fig-1") is figure
        True
    """
    for axis in figure.axes:
        legend = axis.get_legend()
        entries = legend.get_texts() if legend is not None else []
        for one in (axis.title, axis.xaxis.label, axis.yaxis.label, *entries):
            one.set_text(typeset(one.get_text()))
    width = int(14 * figure.get_size_inches()[0])
    figure.supxlabel("\n".join(textwrap.wrap(text, max(width, 40))), fontsize=8, color="#444444", x=0.01, ha="left")
    return figure


def typeset(text: str) -> str:
    r"""Subscripts of symbols as matplotlib sets them; words with underscores are left alone.

    Example:
        >>> typeset("log V(H_ℓ)"), typeset("‖G_ℓ − G*‖_F"), typeset("train_accuracy")
        ('log V($\\mathrm{H}_{\\ell}$)', '‖$\\mathrm{G}_{\\ell}$ − G*‖$_{F}$', 'train_accuracy')
    """
    return re.sub(
        r"([^\W\d_]?)(?<![^\W\d_]{2})_(ℓ|F|\d+)(?!\w)",
        lambda found: "$" + (f"\\mathrm{{{found[1]}}}" if found[1] else "") + f"_{{{found[2]}}}$".replace("ℓ", "\\ell"),
        text,
    )


def plain_logs(*axes: Any) -> None:
    """Plain numbers at 1, 2 and 5 times powers of ten on logarithmic axes that span less than three decades.

    Example:
        >>> figure, axes = new_figure(1)
        >>> axes[0, 0].set(yscale="log", ylim=(0.03, 0.6))
        [...]
        >>> plain_logs(axes[0, 0].yaxis)
    """
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    for axis in axes:
        low, high = sorted(axis.get_view_interval())
        if low > 0 and high / low < 1e3:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FormatStrFormatter("%g"))
            axis.set_minor_formatter(NullFormatter())
