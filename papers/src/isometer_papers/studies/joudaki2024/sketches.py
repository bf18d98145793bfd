"""The sketches of figure 4.1 of the thesis: parallelograms and parallelepipeds with their isometry."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import xarray

from isometer.metrics import isometry
from isometer_papers.studies._drawing import PALETTE, Figure, new_figure

Floats = np.ndarray[Any, Any]


def examples(count: int) -> list[Floats]:
    """Three sets of vectors of the same scale: orthogonal and equal, of unequal length, and at small angles.

    Example:
        >>> [round(float(isometry(one)), 3) for one in examples(2)]
        [1.0, 0.753, 0.5]
    """
    unequal = np.diag([2.2, *[1.0] * (count - 1)])
    cosine = np.sqrt(0.75)
    close = np.linalg.cholesky(np.full((count, count), cosine) + (1 - cosine) * np.eye(count))
    return [one * np.sqrt(count / (one**2).sum()) for one in (np.eye(count), unequal, close)]


def draw_parallelepipeds(result: xarray.Dataset, settings: Mapping[str, Any]) -> Figure:
    """A row of sketches for each number of vectors, then isometry over volume for random vectors."""
    counts = settings["vectors"]
    figure, axes = new_figure(4, len(counts), width=2.7, height=2.4)
    for row, count in zip(axes, counts, strict=True):
        reach = np.max([_sketch(axis, vectors) for axis, vectors in zip(row[:3], examples(count), strict=True)], axis=0)
        for axis, vectors in zip(row[:3], examples(count), strict=True):
            axis.set(xlim=(-0.1, reach[0] + 0.1), ylim=(-0.1, reach[1] + 0.1))
            axis.set_title(f"isometry {float(isometry(vectors)):.2f}", fontsize=9)
        one = result.sel(vectors=count)
        row[3].plot(one["volume"], one["isometry"], ".", color=PALETTE[1], markersize=3)
        row[3].set(xlabel="volume at unit scale", ylabel="isometry", xlim=(0, 1.03), ylim=(0, 1.03))
        row[3].set_title(f"{count} random vectors", fontsize=9)
    return figure


def _sketch(axis: Any, vectors: Floats) -> Floats:
    """Edges of the parallelepiped in an oblique projection of three coordinates; returns how far it reaches."""
    count = len(vectors)
    projection = np.zeros((count, 2))
    projection[:3] = np.array([[1.0, 0.0], [0.0, 1.0], [-0.45, -0.4]])[:count]
    if count == 3:  # the first vector to the viewer's left, the third up
        projection = np.array([[1.0, 0.0], [0.42, 0.38], [0.0, 1.0]])
    corners = {bits: np.asarray(bits) @ vectors @ projection for bits in product((0, 1), repeat=count)}
    for bits, place in corners.items():
        for i in range(count):
            if bits[i] == 0:
                other = corners[(*bits[:i], 1, *bits[i + 1 :])]
                axis.plot([place[0], other[0]], [place[1], other[1]], color="#999999", linewidth=1)
    if count == 2:
        order = [corners[bits] for bits in ((0, 0), (1, 0), (1, 1), (0, 1))]
        axis.fill(*np.array(order).T, color=PALETTE[5], alpha=0.3, linewidth=0)
    for i, vector in enumerate(vectors @ projection):
        axis.annotate("", vector, (0, 0), arrowprops={"arrowstyle": "-|>", "color": PALETTE[i], "lw": 1.8})
    axis.set_aspect("equal")
    axis.set_axis_off()
    return np.asarray(np.max(list(corners.values()), axis=0))
