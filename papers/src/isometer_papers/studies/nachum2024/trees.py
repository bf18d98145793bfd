"""Studies of 000 on the tree model: figures 4, 7 and 8."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray

from isometer_papers.studies._drawing import PALETTE, Figure, new_figure
from isometer_papers.studies._study import Choice, Measured, Reading, Scale, Settings, Study
from isometer_papers.studies.cells.odd_points import tree_cell

_SHAPES = ("o", "s", "^", "D", "v", "P", "X")


def _start(settings: Settings) -> Any:
    return np.array([float(value) for value in str(settings["start"][0]).split(",")])


def _nodes(result: xarray.Dataset, settings: Settings) -> list[tuple[int, int, Any]]:
    """Level, position and row of every node, the root included."""
    nodes = [(0, 0, _start(settings))]
    rows = result["row"].isel(start=0).values
    at = 0
    for level in range(1, settings["levels"] + 1):
        for position in range(2**level):
            nodes.append((level, position, rows[at]))
            at += 1
    return nodes


def draw_tree(result: xarray.Dataset, settings: Settings) -> Figure:
    """Each node is a small axis from 0 to the largest value of its level, with the points of the batch one above the
    other; edges join parent and children."""
    levels = settings["levels"]
    figure, axes = new_figure(1, width=10.0, height=1.5 + 1.25 * levels)
    figure.set_layout_engine("none")  # texts between the nodes are no margins
    axis = axes[0, 0]
    axis.set_position((0.01, 0.07, 0.98, 0.92))
    axis.set(xlim=(0, 1), ylim=(-levels - 0.1, 0.45))
    axis.axis("off")
    nodes = _nodes(result, settings)
    scales = [max(row.max() for at, _, row in nodes if at == level) or 1.0 for level in range(levels + 1)]
    width = 0.8 / 2**levels
    for level, position, row in nodes:
        x, y = (position + 0.5) / 2**level, -float(level)
        if level:
            axis.plot([(position // 2 + 0.5) / 2 ** (level - 1), x], [y + 0.97, y + 0.36], color="#999999", linewidth=1)
            side = "+" if position % 2 == 0 else "−"
            axis.text(x, y + 0.45, f"  {side}  ", ha="left" if side == "−" else "right", fontsize=11, color="#444444")
        axis.plot([x - width / 2, x + width / 2], [y, y], color="#444444", linewidth=1)
        for i, value in enumerate(row):
            place = x - width / 2 + width * value / scales[level]
            height = y + 0.05 + 0.055 * i
            axis.plot(place, height, _SHAPES[i % len(_SHAPES)], color=PALETTE[i % 7], markersize=5)
    handles = [
        axis.plot([], [], _SHAPES[i % len(_SHAPES)], color=PALETTE[i % 7], label=f"x{i + 1}")[0]
        for i in range(len(_start(settings)))
    ]
    axis.legend(handles=handles, loc="upper left", frameon=False)
    return figure


def _clusters(row: Any) -> int:
    from isometer_papers.simulate.tree import cluster_values

    return len(cluster_values(row, tolerance=1e-12))


def _ordered(parent: Any, child: Any, sign: int) -> bool:
    """Whether a positive (negative) transformation keeps (reverses) the order."""
    steps = np.subtract.outer(parent, parent) * np.subtract.outer(child, child) * sign
    return bool((steps >= -1e-12).all())


def read_tree(result: xarray.Dataset, settings: Settings) -> Reading:
    nodes = _nodes(result, settings)
    by_place = {(level, position): row for level, position, row in nodes}
    pairs = [
        (by_place[level - 1, position // 2], row, 1 if position % 2 == 0 else -1)
        for level, position, row in nodes
        if level
    ]
    counts = [_clusters(row) for level, _, row in nodes if level == settings["levels"]]
    return Reading(
        {
            "clusters of the root": Measured(_clusters(nodes[0][2])),
            "most clusters in the last level": Measured(max(counts)),
        },
        {
            "the smallest value of every row is 0": all(abs(row.min()) < 1e-12 for level, _, row in nodes if level),
            "+ keeps the order and − reverses it": all(_ordered(*pair) for pair in pairs),
            "no child has more clusters than its parent": all(_clusters(b) <= _clusters(a) for a, b, _ in pairs),
        },
    )


_VALUES = Choice("(0, 1, 2, 5, 9)", "the figure has no numbers", {"(0, 2, 3, 4, 11)": {"start": ["0,2,3,4,11"]}})
FIGURE_4 = Study(
    "000/fig-4",
    "first three levels of the tree of a batch of five",
    "Each row has a child with the order kept and one with it reversed, cut off at zero.",
    {"rows": "1 + 2 + 4 + 8"},
    tree_cell,
    Scale({"start": ["0,1,2,5,9"]}, {"levels": 3}),
    Scale({"start": ["0,1,2,5,9"]}, {"levels": 3}),
    draw_tree,
    read_tree,
    choices={"values": _VALUES},
    seconds=(2, 2),
)


def read_two(result: xarray.Dataset, settings: Settings) -> Reading:
    """After a step the height is that before times the share of points that are not in the new zero cluster's place."""
    nodes = _nodes(result, settings)
    by_place = {(level, position): row for level, position, row in nodes}
    right, two = True, True
    for level, position, row in nodes:
        if not level:
            continue
        parent = by_place[level - 1, position // 2]
        zeros = int((row < 1e-12).sum())
        right &= bool(np.isclose(row.max(), parent.max() * zeros / len(row)))
        two &= _clusters(row) == 2
    return Reading(
        {"largest value of the last level over the first": Measured(float(nodes[-1][2].max() / nodes[0][2].max()))},
        {
            "two clusters stay two": two,
            "the new height is the old one times the share of points at zero": right,
        },
    )


FIGURE_7 = Study(
    "000/fig-7",
    "evolution of rows with two clusters",
    "The height of the positive cluster is multiplied by the share of points in the zero cluster after each step.",
    {"factor": "points at zero after the step, over n"},
    tree_cell,
    Scale({"start": ["0,0,0,3,3"]}, {"levels": 3}),
    Scale({"start": ["0,0,0,3,3"]}, {"levels": 3}),
    draw_tree,
    read_two,
    choices={"values": Choice("(0, 0, 0, 3, 3)", "n₀ and n₁ are letters", {"n₀ = 1": {"start": ["0,3,3,3,3"]}})},
    seconds=(2, 2),
)


def read_three(result: xarray.Dataset, settings: Settings) -> Reading:
    nodes = _nodes(result, settings)
    by_place = {(level, position): row for level, position, row in nodes}
    kinds = []
    for level, position, row in nodes:
        if level < settings["levels"] and _clusters(row) == 3:
            children = [_clusters(by_place[level + 1, 2 * position + side]) for side in (0, 1)]
            kinds.append(sorted(children))
    return Reading(
        {"rows with three clusters that were followed": Measured(len(kinds))},
        {"three clusters give one row with three and one with two": bool(kinds) and all(k == [2, 3] for k in kinds)},
    )


FIGURE_8 = Study(
    "000/fig-8",
    "evolution of rows with three clusters",
    "A row with three clusters always has one child with three and one with two.",
    {"children": "one with three clusters, one with two"},
    tree_cell,
    Scale({"start": ["0,2,6,6,6"]}, {"levels": 3}),
    Scale({"start": ["0,2,6,6,6"]}, {"levels": 3}),
    draw_tree,
    read_three,
    choices={
        "values": Choice(
            "(0, 2, 6, 6, 6)",
            "the figure has no numbers; the middle cluster is one point",
            {"(0, 0, 0, 1, 4)": {"start": ["0,0,0,1,4"]}, "(0, 1, 1, 1, 5)": {"start": ["0,1,1,1,5"]}},
        )
    },
    seconds=(2, 2),
)
