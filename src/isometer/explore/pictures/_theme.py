"""Colours and the frame that all pictures share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from isometer.serialize import json_data

Figure = dict[str, Any]
"""A Plotly figure as plain data."""

_LIGHT = {
    "surface": "#ffffff",
    "text": "#171b22",
    "soft": "#535c6b",
    "grid": "#e4e7ed",
    "line": "#b9c0cc",
    "measured": "#0072b2",
    "predicted": "#b34a00",
    "own": "#6b4ba1",
    "other": "#00805c",
    "zero": "#f7f7f7",
    "cold": "#b35806",
    "warm": "#1f5b94",
}
_DARK = {
    "surface": "#191d24",
    "text": "#e8ebf0",
    "soft": "#a4adbb",
    "grid": "#2a303c",
    "line": "#4b5464",
    "measured": "#56b4e9",
    "predicted": "#f0954a",
    "own": "#b9a1ea",
    "other": "#4fd0a8",
    "zero": "#1d222b",
    "cold": "#f0954a",
    "warm": "#6cb6f0",
}
_SERIES = {
    "light": ("#0072B2", "#D55E00", "#009E73", "#B5568C", "#B98000", "#3B93C4"),
    "dark": ("#56B4E9", "#F0954A", "#4FD0A8", "#E6A0CA", "#F0C850", "#A7B8FF"),
}
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def colours(theme: str) -> Mapping[str, str]:
    """The named colours of a theme; anything but `dark` is light.

    Example:
        >>> colours("dark")["surface"], colours("?")["surface"]
        ('#191d24', '#ffffff')
    """
    return _DARK if theme == "dark" else _LIGHT


def series(theme: str, index: int) -> str:
    """The colour of the index-th curve, distinguishable with any colour vision."""
    palette = _SERIES["dark" if theme == "dark" else "light"]
    return palette[index % len(palette)]


def dash(index: int) -> str:
    """The stroke of the index-th curve, so that colour is never the only difference."""
    return _DASHES[index % len(_DASHES)]


def faded(colour: str, share: float) -> str:
    """A hexadecimal colour with an opacity.

    Example:
        >>> faded("#0072b2", 0.2)
        'rgba(0, 114, 178, 0.2)'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {share:g})"


def frame(theme: str, across: str, up: str, **layout: Any) -> dict[str, Any]:
    """The layout of a picture: axes with titles, a legend above, the page's colours."""
    c = colours(theme)
    axis: dict[str, Any] = {
        "gridcolor": c["grid"],
        "linecolor": c["line"],
        "zerolinecolor": c["line"],
        "zerolinewidth": 1,
        "automargin": True,
        "title": {"standoff": 8, "font": {"size": 13}},
        "exponentformat": "power",
    }
    settings: dict[str, Any] = {
        "paper_bgcolor": c["surface"],
        "plot_bgcolor": c["surface"],
        "font": {
            "color": c["text"],
            "size": 12.5,
            "family": "system-ui, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif",
        },
        "margin": {"l": 56, "r": 14, "t": 34, "b": 46},
        "xaxis": {**axis, "title": {**axis["title"], "text": across}},
        "yaxis": {**axis, "title": {**axis["title"], "text": up}},
        "legend": {"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom", "font": {"size": 12}},
        "hoverlabel": {"bgcolor": c["surface"], "font": {"color": c["text"]}},
        "hovermode": "closest",
        "showlegend": True,
        "uirevision": "kept",  # zoom and hidden curves survive new data
    }
    for name, value in layout.items():
        settings[name] = {**settings[name], **value} if isinstance(value, dict) and name in settings else value
    return settings


def finite(values: Iterable[float | None]) -> list[float | None]:
    """Numbers as JSON has them; what is infinite or undefined leaves a gap.

    Example:
        >>> finite([1.0, float("inf"), float("nan"), None])
        [1.0, None, None, None]
    """
    gaps: list[float | None] = json_data(list(values), nonfinite="null")
    return gaps


def positive(values: Iterable[float | None]) -> list[float | None]:
    """As `finite`, for logarithmic axes: zeros leave a gap too.

    Example:
        >>> positive([1.0, 0.0])
        [1.0, None]
    """
    return [value if value is not None and value > 0 else None for value in finite(values)]
