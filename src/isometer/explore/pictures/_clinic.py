"""Pictures of the clinic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isometer.explore.pictures._theme import Figure, colours, faded, finite, frame, positive
from isometer.metrics._catalogue import describe
from isometer.report._doctor_metrics import columns, shown

Report = Mapping[str, Any]


def metric_picture(
    reports: Sequence[tuple[str, Report]], metric: str, axis: str, layer: int, marked: Sequence[int], theme: str
) -> Figure:
    """One metric of one or two reports over layers or depth, with the first one's predicted band.

    Args:
        reports: names and reports.
        metric: which.
        axis: `layer` or `depth`.
        layer: marked by a line.
        marked: layers with findings, marked by a ring.
        theme: light or dark.

    Returns:
        The figure.
    """
    c = colours(theme)
    known = describe(metric)
    data: list[dict[str, Any]] = []
    for index, (name, report) in enumerate(reports):
        values = columns(report).get(metric)
        if values is None:
            continue
        rows = report["layers"]
        points = [(row[axis], value, row) for row, value in zip(rows, values, strict=True) if value == value]
        if index == 0:
            data += _predicted(report, metric, axis, c)
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(points) < 120 else "lines",
                "name": name,
                "x": [x for x, _, _ in points],
                "y": finite(value for _, value, _ in points),
                "line": {"color": c["measured" if index == 0 else "other"], "width": 2 if index == 0 else 1.3},
                "marker": {"size": 4},
                "customdata": [[row["layer"], _plain(row["name"]), _plain(row["op"])] for _, _, row in points],
                "hovertemplate": "layer %{customdata[0]} · %{customdata[1]} · %{customdata[2]}<br>%{y:.4g}",
            }
        )
    if reports:
        data += _marks(reports[0][1], metric, axis, marked, c)
    values = [v for one in data for v in one["y"] if v is not None]
    scaled = known.log_axis(values)
    if scaled:
        for one in data:
            one["y"] = positive(one["y"])
    layout = frame(theme, axis, _plain(known.label), yaxis={"type": "log" if scaled else "linear"})
    at = _position(reports, layer, axis)
    if at is not None:
        line = {"color": c["soft"], "width": 1.5, "dash": "dot"}
        layout["shapes"] = [{"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": line}]
    return {"data": data, "layout": layout}


def _plain(text: Any) -> str:
    """Text in a picture: Plotly reads a little HTML, and this leaves it none."""
    return str(text)[:80].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "% {")


def _position(reports: Sequence[tuple[str, Report]], layer: int, axis: str) -> int | None:
    if not reports or layer >= len(reports[0][1]["layers"]):
        return None
    return int(reports[0][1]["layers"][layer][axis])


def _predicted(report: Report, metric: str, axis: str, c: Mapping[str, str]) -> list[dict[str, Any]]:
    prediction = report["prediction"]
    band = None if prediction is None else prediction["metrics"].get(metric)
    if band is None:
        return []
    x = [report["layers"][layer][axis] for layer in prediction["layers"]]
    base = {"type": "scatter", "mode": "lines", "x": x, "hoverinfo": "skip"}
    low, mean, high = (finite(shown(metric, band[key])) for key in ("low", "mean", "high"))
    none = {"width": 0, "color": c["predicted"]}
    # `tonexty` fills down to the trace before it, so the lower edge comes first.
    return [
        {**base, "y": low, "line": none, "showlegend": False},
        {
            **base,
            "y": high,
            "line": none,
            "fill": "tonexty",
            "fillcolor": faded(c["predicted"], 0.15),
            "name": "95 % band",
        },
        {**base, "y": mean, "line": {"color": c["predicted"], "width": 1.5, "dash": "dashdot"}, "name": "predicted"},
    ]


def _marks(report: Report, metric: str, axis: str, marked: Sequence[int], c: Mapping[str, str]) -> list[dict[str, Any]]:
    values = columns(report).get(metric)
    if values is None or not marked:
        return []
    chosen = [layer for layer in marked if values[layer] == values[layer]]
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "layers with findings",
            "x": [report["layers"][layer][axis] for layer in chosen],
            "y": finite(values[layer] for layer in chosen),
            "marker": {"symbol": "circle-open", "size": 8, "color": c["predicted"]},
            "hoverinfo": "skip",
        }
    ]
