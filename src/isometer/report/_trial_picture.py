"""The table of a trial as a picture: who separates the sick from those that train, and how surely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from isometer.report._pictures import PALETTE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def trial_picture(found: Mapping[str, Any]) -> Figure:
    """Areas under the curve with their intervals, one panel per optimizer, the doctor in another colour.

    Args:
        found: what `isometer trial table --json` prints.
    """
    optimizers = list(dict.fromkeys(row["optimizer"] for row in found["rows"]))
    figure, axes = new_figure(max(1, len(optimizers)), width=5.6, height=4.6)
    for place, (axis, optimizer) in enumerate(zip(axes[0], optimizers, strict=False)):
        rows = sorted((row for row in found["rows"] if row["optimizer"] == optimizer), key=lambda row: row["auc"])
        for height, row in enumerate(rows):
            color = PALETTE[1] if row["opinion"].startswith("doctor") else PALETTE[0]
            axis.plot([row["low"], row["high"]], [height, height], color=color, linewidth=2, alpha=0.6)
            axis.plot(row["auc"], height, "o", color=color)
        axis.set_yticks(range(len(rows)), [row["opinion"] for row in rows], fontsize=8)
        axis.axvline(0.5, color="#888888", linestyle=":")
        axis.set_xlim(0.2 if any(row["low"] < 0.4 for row in rows) else 0.4, 1.0)
        sick, well = rows[0]["models"]
        axis.set_title(f"{optimizer}: {sick} sick models, {well} that train", fontsize=10)
        axis.set_xlabel("area under the curve; ½ is a coin" if place == 0 else "area under the curve")
    return figure
