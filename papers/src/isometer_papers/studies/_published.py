"""Curves that a paper or its authors' public notebooks show, as numbers: drawn thin behind ours, with the distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from isometer.errors import IsometerError
from isometer.report import PALETTE
from isometer_papers.studies._study import Measured


@dataclass(frozen=True)
class PublishedCurve:
    """Points of a published curve.

    Args:
        first: the abscissa of the first point; the others follow at steps of one.
        values: the ordinates; NaN where they cannot be read.
        accuracy: of the values, half a pixel of the picture that they are read from.

    Example:
        >>> curve = PublishedCurve(1, (2.0, 1.0, math.nan), 0.01)
        >>> curve.distance([1, 2, 3], [2.5, 1.0, 0.0]).value
        0.25
    """

    first: int
    values: Sequence[float]
    accuracy: float

    def __post_init__(self) -> None:
        if not np.isfinite(self.values).any():
            raise IsometerError("a published curve has no values; expected at least one number")

    @property
    def abscissae(self) -> np.ndarray[Any, Any]:
        """Of all points."""
        return np.arange(self.first, self.first + len(self.values))

    def distance(self, abscissae: ArrayLike, values: ArrayLike) -> Measured:
        """Mean absolute difference where both have a point; its interval is the accuracy of reading."""
        ours = dict(zip(np.asarray(abscissae).tolist(), np.asarray(values, dtype=float).tolist(), strict=True))
        theirs = zip(self.abscissae.tolist(), self.values, strict=True)
        apart = [abs(ours[x] - y) for x, y in theirs if x in ours and math.isfinite(y) and math.isfinite(ours[x])]
        if not apart:
            raise IsometerError("the measured and the published curve share no point; expected the same abscissae")
        return Measured(float(np.mean(apart)), self.accuracy)

    def draw(self, axis: Any, index: int) -> None:
        """A thin line of the colour of ours, behind it, without an entry of its own in the legend."""
        axis.plot(self.abscissae, self.values, color=PALETTE[index % len(PALETTE)], **THIN)


THIN: dict[str, Any] = {"linewidth": 0.8, "linestyle": (0, (4, 2)), "alpha": 0.9, "zorder": 1, "label": "_published"}


def told_by(axis: Any) -> None:
    """An entry of the legend for the thin lines.

    Example:
        >>> from isometer.report import new_figure
        >>> _, axes = new_figure(1)
        >>> told_by(axes[0, 0])
        >>> axes[0, 0].get_legend_handles_labels()[1]
        ['published']
    """
    axis.plot([], [], color="#555555", **{**THIN, "label": "published"})
