"""The class of trajectories: a dataset of xarray that draws itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import xarray
from xarray.plot.accessor import DatasetPlotAccessor

from isometer._display import draw, html

if TYPE_CHECKING:
    from os import PathLike

    from matplotlib.figure import Figure


class TrajectoryPlots(DatasetPlotAccessor):
    """`data.plot()` draws the whole trajectory; `data.plot.scatter(…)` and the others are xarray's."""

    def __call__(self, path: str | PathLike[str] | None = None) -> Figure:  # type: ignore[override]
        """One panel per metric over the layers.

        Args:
            path: also write the picture to this file, .png, .pdf or .svg.

        Returns:
            A matplotlib figure, which notebooks display.
        """
        return draw(self._ds, path)


class Trajectory(xarray.Dataset):  # type: ignore[no-untyped-call]
    """A trajectory: metrics over runs and layers.

    It is an `xarray.Dataset` with two additions: `plot()` draws all metrics over the layers, and notebooks show that
    picture above the table.
    """

    __slots__ = ()

    @property
    def plot(self) -> TrajectoryPlots:  # type: ignore[override]
        """Draw the trajectory: `data.plot()` or `data.plot("net.png")`."""
        return TrajectoryPlots(self)

    def _repr_html_(self) -> str:
        return html(self)

    def xarray_html(self) -> str:
        """The table that xarray shows."""
        text: Any = super()._repr_html_()
        return str(text)
