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
        sick, well = max(tuple(row["models"]) for row in rows)
        axis.set_title(f"{optimizer}: {sick} sick models, {well} that train", fontsize=10)
        axis.set_xlabel("area under the curve; ½ is a coin" if place == 0 else "area under the curve")
    return figure


def reliability_picture(found: Mapping[str, Any]) -> Figure:
    """Share of models that train against the probability the doctor gave them, one panel per kind of batches.

    Args:
        found: what `isometer trial fit --json` prints.
    """
    figure, axes = new_figure(max(1, len(found)), width=4.2, height=3.6)
    for axis, (kind, one) in zip(axes[0], found.items(), strict=False):
        axis.plot([0, 1], [0, 1], color="#888888", linestyle=":")
        for row in one["reliability"]:
            low, high = row["interval"]
            axis.plot([row["expected"]] * 2, [low, high], color=PALETTE[0], linewidth=2, alpha=0.6)
            axis.plot(row["expected"], row["trains"] / row["models"], "o", color=PALETTE[0])
            axis.annotate(str(row["models"]), (row["expected"], high), fontsize=7, ha="center", va="bottom")
        axis.set_title(f"{kind}: {sum(one['cases'])} cases", fontsize=10)
        axis.set_xlabel("probability of training")
        axis.set_ylabel("share that trains")
        axis.set_xlim(-0.03, 1.03)
        axis.set_ylim(-0.03, 1.12)
    return figure
