"""Pictures of the depth lab."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from isometer.explore.pictures._theme import Figure, colours, faded, finite, frame, positive, series
from isometer.metrics._catalogue import describe

Result = Mapping[str, Any] | None


def trajectory_picture(metric: str, simulated: Result, predicted: Result, own: Result, theme: str) -> Figure:
    """One quantity over depth: simulated with the band of the runs, predicted at infinite width and at this width.

    Args:
        metric: which.
        simulated, predicted, own: results of the jobs of these names; None where there is none yet.
        theme: light or dark.

    Returns:
        The figure.
    """
    c = colours(theme)
    data: list[dict[str, Any]] = []
    rows = _rows(simulated, metric)
    layers = (simulated or predicted or {}).get("layer", [])
    if rows is not None:
        data += _band(layers, _unit(metric, rows["bottom"]), _unit(metric, rows["top"]), c["measured"], "95 % of runs")
        data.append(_line(layers, _unit(metric, rows["mean"]), c["measured"], "simulated", "solid", 2.4))
    bands = _rows(own, metric)
    if bands is not None:
        for key in ("low", "high"):
            line = _line(layers, _unit(metric, bands[key]), c["own"], f"theory, this width, {key}", "dot", 1.2)
            data.append({**line, "showlegend": False, "hoverinfo": "skip", "hovertemplate": None})
        data.append(_line(layers, _unit(metric, bands["mean"]), c["own"], "theory, this width", "dash", 1.8))
    curve = _rows(predicted, metric)
    if curve is not None:
        data.append(_line(layers, _unit(metric, curve), c["predicted"], "theory, ∞ width", "dashdot", 2))
    return _framed(metric, data, theme)


def compared_picture(metric: str, curves: Sequence[tuple[str, Result, Result]], theme: str) -> Figure:
    """One quantity of several networks over depth, each simulated and predicted at infinite width.

    Args:
        metric: which.
        curves: name, simulation and prediction of each; None where there is none yet.
        theme: light or dark.

    Returns:
        The figure; a colour a network, solid for simulation and dashed for theory.
    """
    data: list[dict[str, Any]] = []
    for index, (name, simulated, predicted) in enumerate(curves):
        colour = series(theme, index)
        rows = _rows(simulated, metric)
        if simulated is not None and rows is not None:
            x = simulated["layer"]
            low, high = (_unit(metric, rows[key]) for key in ("bottom", "top"))
            data += [{**one, "showlegend": False} for one in _band(x, low, high, colour, f"{name}, 95 % of runs")]
            data.append(_line(x, _unit(metric, rows["mean"]), colour, name, "solid", 2.4))
        curve = _rows(predicted, metric)
        if predicted is not None and curve is not None:
            data.append(_line(predicted["layer"], _unit(metric, curve), colour, f"{name}, theory", "dash", 1.8))
    return _framed(metric, data, theme)


def _framed(metric: str, data: list[dict[str, Any]], theme: str) -> Figure:
    """Curves of one quantity with the axes that suit it."""
    entry = describe(metric)
    if entry.reads == "gradient":  # layer 0 is the gradient by the input, another quantity
        data = [{**one, "x": one["x"][1:], "y": one["y"][1:]} for one in data]
    scaled = entry.log_axis(_values(data))
    if scaled:
        for one in data:
            one["y"] = positive(one["y"])
    layout = frame(
        theme, "layer", entry.label, hovermode="x unified", legend={"font": {"size": 11}, "traceorder": "normal"}
    )
    if scaled:
        layout["yaxis"] |= {"type": "log", "dtick": "D2" if _spread(data) < 1e3 else max(1, round(_decades(data) / 5))}
    elif entry.lower is not None and entry.lower >= 0:
        layout["yaxis"]["rangemode"] = "tozero"
    return {"data": data, "layout": layout}


def _rows(result: Result, metric: str) -> Any:
    return None if result is None else result["metrics"].get(metric)


def _unit(metric: str, values: Sequence[float]) -> list[float | None]:
    """As reports show it: logarithms of norms in powers of ten."""
    factor = describe(metric).factor
    return finite([value * factor for value in values])


def _line(x: Sequence[int], y: list[Any], colour: str, name: str, dash: str, width: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(x),
        "y": y,
        "line": {"color": colour, "dash": dash, "width": width},
        "hovertemplate": "%{y:.4g}",
    }


def _band(x: Sequence[int], low: list[Any], high: list[Any], colour: str, name: str) -> list[dict[str, Any]]:
    edge = {
        "type": "scatter",
        "mode": "lines",
        "x": list(x),
        "line": {"width": 0, "color": colour},
        "hoverinfo": "skip",
    }
    # `tonexty` fills down to the trace before it, so the lower edge comes first.
    return [
        {**edge, "y": low, "showlegend": False, "name": f"{name}, low"},
        {**edge, "y": high, "fill": "tonexty", "fillcolor": faded(colour, 0.2), "name": name},
    ]


def _values(data: Sequence[Mapping[str, Any]]) -> list[float]:
    return [v for one in data for v in one["y"] if v is not None and v > 0]


def _spread(data: Sequence[Mapping[str, Any]]) -> float:
    """Largest over smallest positive value."""
    found = _values(data)
    return max(found) / max(min(found), 1e-300) if found else 1.0


def _decades(data: Sequence[Mapping[str, Any]]) -> float:
    return math.log10(max(_spread(data), 10.0))


def gram_picture(cosines: Sequence[Sequence[float | None]], theme: str, title: str = "") -> Figure:
    """Cosines between the samples of a batch."""
    c = colours(theme)
    heat = {
        "type": "heatmap",
        "z": [finite(row) for row in cosines],
        "zmin": -1,
        "zmax": 1,
        "colorscale": [[0, c["cold"]], [0.5, c["zero"]], [1, c["warm"]]],
        "colorbar": {"thickness": 12, "tickvals": [-1, -0.5, 0, 0.5, 1], "outlinewidth": 0, "title": {"text": "cos"}},
        "hovertemplate": "samples %{y}, %{x}<br>cosine %{z:.4f}<extra></extra>",
    }
    axis = {"constrain": "domain", "showgrid": False, "zeroline": False}
    layout = frame(
        theme,
        "sample",
        "sample",
        xaxis=axis,
        yaxis={**axis, "autorange": "reversed", "scaleanchor": "x"},
        margin={"l": 50, "r": 10, "t": 34 if title else 12, "b": 44},
        showlegend=False,
        title={"text": title, "font": {"size": 13}, "x": 0.5},
    )
    return {"data": [heat], "layout": layout}


def plane_picture(found: Mapping[str, Any], theme: str) -> Figure:
    """The batch in the plane of the longest sample and the mean of the others, as arrows from the origin's view."""
    c = colours(theme)
    odd = int(found["odd"]["index"])
    along, across, kept = found["along"], found["across"], found["kept"]
    rays: dict[str, list[float | None]] = {"x": [], "y": []}
    for x, y in zip(along, across, strict=True):
        rays["x"] += [0.0, x, None]
        rays["y"] += [0.0, y, None]
    place = "sample %{customdata[0]}<br>along %{x:.3f}, across %{y:.3f}"
    hover = f"{place}<br>%{{customdata[1]:.0%}} in this plane<extra></extra>"

    def points(which: list[int], name: str, colour: str, symbol: str, size: int) -> dict[str, Any]:
        return {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [along[i] for i in which],
            "y": [across[i] for i in which],
            "customdata": [[i, kept[i]] for i in which],
            "marker": {"color": colour, "size": size, "symbol": symbol, "line": {"color": c["surface"], "width": 1}},
            "hovertemplate": hover,
        }

    lines = {"type": "scatter", "mode": "lines", "hoverinfo": "skip", "showlegend": False, **rays}
    data = [
        {**lines, "line": {"color": c["line"], "width": 1}},
        points([i for i in range(len(along)) if i != odd], "the others", c["measured"], "circle", 9),
        points([odd], f"the longest, sample {odd}", c["predicted"], "diamond", 13),
    ]
    layout = frame(
        theme,
        "along the longest sample",
        "across, toward the mean of the others",
        xaxis={"constrain": "domain"},
        yaxis={"scaleanchor": "x", "scaleratio": 1},
    )
    return {"data": data, "layout": layout}
