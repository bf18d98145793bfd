"""Pictures of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isometer.explore import Figure, colours, frame, series


def claim_picture(points: Sequence[Sequence[Any]], relation: str, theme: str) -> Figure:
    """The bound against the value for a sample of the instances that were tried; the diagonal is equality."""
    c = colours(theme)
    usable = [
        (str(family), float(value), float(bound))
        for family, value, bound in points
        if isinstance(value, int | float) and isinstance(bound, int | float)
    ]
    data: list[dict[str, Any]] = []
    positive = bool(usable) and all(value > 0 and bound > 0 for _, value, bound in usable)
    numbers = [number for _, value, bound in usable for number in (value, bound)]
    if numbers:
        ends = [min(numbers), max(numbers)]
        line = {"color": c["soft"], "dash": "dot", "width": 1}
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": ends,
                "y": ends,
                "line": line,
                "name": "equal",
                "hoverinfo": "skip",
            }
        )
    for index, family in enumerate(dict.fromkeys(one for one, _, _ in usable)):
        rows = [(value, bound) for one, value, bound in usable if one == family]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": family,
                "x": [value for value, _ in rows],
                "y": [bound for _, bound in rows],
                "marker": {"color": series(theme, index), "size": 8, "opacity": 0.8},
                "hovertemplate": "value %{x:.6g}<br>bound %{y:.6g}",
            }
        )
    wide = positive and max(numbers) > 30 * min(numbers)
    kind = {"type": "log" if wide else "linear"}
    return {"data": data, "layout": frame(theme, f"value (claimed {relation} bound)", "bound", xaxis=kind, yaxis=kind)}
