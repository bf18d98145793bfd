"""Pictures of the activation lab."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from isometer.explore.pictures._theme import Figure, colours, dash, faded, finite, frame, positive, series

Card = Mapping[str, Any]
Cards = Sequence[tuple[str, Card]]
"""Names and cards, in the order of their colours."""


def function_picture(cards: Cards, shown: str, theme: str) -> Figure:
    """The functions themselves, or what the layer makes of them (`shown` is `itself` or `layer`)."""
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": card["x"],
            "y": finite(card[shown]),
            "line": {"color": series(theme, i), "dash": dash(i), "width": 2},
        }
        for i, (name, card) in enumerate(cards)
    ]
    values = [value for _, card in cards for value in card[shown] if math.isfinite(value)]
    low, high = max(min(values, default=-1.0), -5.0), min(max(values, default=1.0), 5.0)
    pad = 0.06 * max(high - low, 1e-6)
    return {"data": data, "layout": frame(theme, "x", "φ(x)", yaxis={"range": [low - pad, high + pad]})}


def hermite_picture(cards: Cards, theme: str) -> Figure:
    """Shares of the Hermite coefficients: c_k² of the function with unit second moment."""
    data = [
        {
            "type": "bar",
            "name": name,
            "x": list(range(len(card["hermite"]))),
            "y": [value**2 for value in card["hermite"]],
            "marker": {"color": series(theme, i)},
            "hovertemplate": "c<sub>%{x}</sub>² = %{y:.4g}",
        }
        for i, (name, card) in enumerate(cards)
    ]
    layout = frame(
        theme, "degree k", "c<sub>k</sub>²", barmode="group", xaxis={"dtick": 1}, yaxis={"rangemode": "tozero"}
    )
    return {"data": data, "layout": layout}


def kernel_picture(cards: Cards, theme: str) -> Figure:
    """Kernel maps with their fixed points, and empty traces into which the page draws cobwebs.

    Traces: the diagonal, then map, fixed point and cobweb of each activation.
    """
    c = colours(theme)
    diagonal = {
        "type": "scatter",
        "mode": "lines",
        "x": [-1, 1],
        "y": [-1, 1],
        "hoverinfo": "skip",
        "showlegend": False,
    }
    data: list[dict[str, Any]] = [{**diagonal, "line": {"color": c["soft"], "dash": "dot", "width": 1}}]
    for i, (name, card) in enumerate(cards):
        colour = series(theme, i)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": card["rho"],
                "y": finite(card["kappa"]),
                "line": {"color": colour, "dash": dash(i), "width": 2},
                "hovertemplate": "ρ = %{x:.4f}<br>κ(ρ) = %{y:.4f}",
            }
        )
        point = card["fixed_point"]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"ρ* of {name}",
                "x": [] if point is None else [point],
                "y": [] if point is None else [point],
                "marker": {"color": colour, "size": 13, "symbol": "star", "line": {"color": c["surface"], "width": 1}},
                "showlegend": False,
            }
        )
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"path of {name}",
                "x": [],
                "y": [],
                "line": {"color": colour, "width": 1.2},
                "marker": {"color": colour, "size": [], "opacity": 0.9},
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
    layout = frame(
        theme,
        "cosine before the layer, ρ",
        "cosine after it, κ(ρ)",
        xaxis={"range": [-1.04, 1.04], "fixedrange": True},
        yaxis={"range": [-1.04, 1.04], "fixedrange": True},
        dragmode=False,
    )
    return {"data": data, "layout": layout}


def distance_picture(paths: Sequence[tuple[str, Mapping[str, Any]]], theme: str) -> Figure:
    """Distance to the fixed point, layer by layer."""
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": path["layer"],
            "y": positive(path["distance"]),
            "line": {"color": series(theme, i), "dash": dash(i), "width": 2},
            "customdata": finite(path["cosine"]),
            "hovertemplate": "layer %{x}<br>|ρ − ρ*| = %{y:.4g}<br>ρ = %{customdata:.6f}",
        }
        for i, (name, path) in enumerate(paths)
    ]
    least = min((v for one in data for v in one["y"] if v is not None), default=1e-6)
    most = max((v for one in data for v in one["y"] if v is not None), default=1.0)
    low = max(math.log10(least), -18.0)
    layout = frame(
        theme,
        "layer",
        "distance to the fixed point, |ρ − ρ*|",
        yaxis={"type": "log", "range": [low - 0.3, math.log10(most) + 0.3], "dtick": max(1, round((2 - low) / 7))},
    )
    return {"data": data, "layout": layout}


def phase_picture(diagram: Mapping[str, Any], sigma_w: float, sigma_b: float, theme: str) -> Figure:
    """log₁₀ χ over (σ_w, σ_b), the edge of chaos, and the present point."""
    c = colours(theme)
    rows = [[_log10(value) for value in row] for row in diagram["chi"]]
    edge = diagram["edge_of_chaos"]
    weights = [math.sqrt(v) for v in diagram["weight_variances"]]
    biases = [math.sqrt(v) for v in diagram["bias_variances"]]
    points = sorted(
        (math.sqrt(b), math.sqrt(w))
        for w, b in zip(edge["weight_variance"], edge["bias_variance"], strict=True)
        if w <= weights[-1] ** 2 and b <= 1.02 * biases[-1] ** 2
    )
    data: list[dict[str, Any]] = [
        {
            "type": "heatmap",
            "x": weights,
            "y": biases,
            "z": rows,
            "zmin": -0.8,
            "zmax": 0.8,
            "colorscale": [[0, c["warm"]], [0.5, c["zero"]], [1, c["cold"]]],
            "zsmooth": "best",
            "colorbar": {
                "title": {"text": "χ", "side": "top"},
                "thickness": 12,
                "tickvals": [-0.699, -0.301, 0, 0.301, 0.699],
                "ticktext": ["0.2", "0.5", "1", "2", "5"],
                "outlinewidth": 0,
            },
            "customdata": [[None if v is None else 10**v for v in row] for row in rows],
            "hovertemplate": "σ_w = %{x:.3f}, σ_b = %{y:.3f}<br>χ = %{customdata:.3f}<extra></extra>",
            "showlegend": False,
        },
        {
            "type": "scatter",
            "mode": "lines+markers" if len(points) == 1 else "lines",
            "name": "edge of chaos (χ = 1)",
            "x": [w for _, w in points],
            "y": [b for b, _ in points],
            "line": {"color": c["text"], "width": 2},
            "marker": {"size": 9, "symbol": "diamond"},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": "here",
            "x": [sigma_w],
            "y": [sigma_b],
            "marker": {
                "size": 15,
                "symbol": "x-thin",
                "color": c["text"],
                "line": {"width": 3.5, "color": c["text"]},
            },
            "hovertemplate": "σ_w = %{x:.3f}, σ_b = %{y:.3f}<extra>here</extra>",
        },
    ]
    layout = frame(
        theme,
        "σ<sub>w</sub>, weights",
        "σ<sub>b</sub>, biases",
        xaxis={"range": [weights[0], weights[-1]], "fixedrange": True},
        yaxis={"range": [-0.03, biases[-1]], "fixedrange": True},
        dragmode=False,
        plot_bgcolor=faded(c["soft"], 0.15),
    )
    return {"data": data, "layout": layout}


def _log10(value: Any) -> float | None:
    """Of a number that JSON may have written as text."""
    if value is None or value == "inf" or value == "-inf" or value <= 0:
        return None
    return math.log10(value)
