"""Values that show themselves: `.plot()`, and what notebooks display.

The pictures and cards are in `isometer.report`, which imports everything that it shows. It is found by name when
something is first shown, so that no value imports its own picture.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from isometer._observing import observes

if TYPE_CHECKING:
    from os import PathLike

    from matplotlib.figure import Figure


@observes()
def _displays() -> Any:
    return import_module("isometer.report._displays")


def draw(value: Any, path: str | PathLike[str] | None = None) -> Figure:
    """The picture of a value, also written to `path` if given (.png, .pdf or .svg)."""
    figure: Figure = _displays().picture(value, path)
    return figure


def html(value: Any) -> str:
    """The card of a value, for notebooks."""
    text: str = _displays().html(value)
    return text


class Displayed:
    """A value that notebooks display as a card."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return html(self)


class Drawn(Displayed):
    """A value that has a picture, too."""

    __slots__ = ()

    def plot(self, path: str | PathLike[str] | None = None) -> Figure:
        """Draw it.

        Args:
            path: also write the picture to this file, .png, .pdf or .svg.

        Returns:
            A matplotlib figure, which notebooks display.
        """
        return draw(self, path)
