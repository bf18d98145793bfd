"""Pictures of the transformer lab."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from isometer.explore.pictures._theme import Figure, colours, dash, faded, finite, frame, series

Found = Mapping[str, Any]
AXIS_NAMES = {"qk_gain": "query–key gain", "branch": "branch factor", "mlp_gain": "MLP gain"}
_LOGARITHMIC = ("qk_gain", "mlp_gain")
_KINDS = {
    "query": "query weights",
    "key": "key weights",
    "value": "value weights",
    "output": "output weights",
    "dense": "MLP weights",
}


def _curve(theme: str, index: int, name: str, x: Sequence[Any], y: Sequence[Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(x),
        "y": finite(y),
        "line": {"color": series(theme, index), "dash": dash(index), "width": 2},
        "hovertemplate": "block %{x}: %{y:.4g}",
        "connectgaps": True,
        **more,
    }


def cosine_picture(found: Found, theme: str) -> Figure:
    """Cosines of tokens within a sample and across samples."""
    pairs = (("within a sample", "token_cosine"), ("across samples", "sample_cosine"))
    data = [_curve(theme, i, name, found["layer"], found[key]) for i, (name, key) in enumerate(pairs)]
    return {"data": data, "layout": frame(theme, "block", "cosine of two tokens", yaxis={"range": [-0.03, 1.03]})}


def entropy_picture(found: Found, theme: str) -> Figure:
    """Entropy of attention by block, with the most that it can be."""
    layers, most = found["layer"], found["most_entropy"]
    known = [(n, v) for n, v in zip(layers, found["attention_entropy"], strict=True) if v is not None and n > 0]
    data = [_curve(theme, 0, "entropy", [n for n, _ in known], [v for _, v in known])]
    limit = _curve(theme, 1, "all tokens alike: log T", [layers[0], layers[-1]], [most, most], hoverinfo="skip")
    layout = frame(theme, "block", "entropy of attention, nats", yaxis={"range": [-0.03 * most, 1.08 * most]})
    return {"data": [*data, limit], "layout": layout}


def gradient_picture(found: Found, theme: str) -> Figure:
    """log₁₀ of gradient norms by block, of representations and of weights by kind."""
    unit = math.log(10.0)
    halves = [None if v is None else v / (2 * unit) for v in finite(found["log_jacobian"])]
    data = [_curve(theme, 0, "representation", found["layer"], halves)]
    for index, (kind, row) in enumerate(found["weights"].items(), start=1):
        values = [None if v is None else v / unit for v in finite(row)]
        data.append(_curve(theme, index, _KINDS.get(kind, kind), found["layer"], values))
    return {"data": data, "layout": frame(theme, "block", "log₁₀ of the gradient norm")}


def diagram_picture(found: Found, across: str, up: str, here: tuple[float, float], theme: str) -> Figure:
    """Phases over the plane, where many tokens condense, and the present point."""
    c = colours(theme)
    names = found["names"]
    present = sorted({k for row in found["phase"] for k in row})
    steps = len(present)  # a bar with colours that the picture does not have would need names for them
    shades = {k: c["zero"] if k == 0 else faded(series(theme, k - 1), 0.75) for k in present}
    scale = [[(place + edge) / steps, shades[k]] for place, k in enumerate(present) for edge in (0, 1)]
    told = [
        [
            f"{names[phase]}<br>token cosine {_shown(cosine)}<br>entropy {_shown(entropy)}<br>log E‖J‖² {_shown(log)}"
            for phase, cosine, entropy, log in zip(*rows, strict=True)
        ]
        for rows in zip(
            found["phase"], found["token_cosine"], found["attention_entropy"], found["log_jacobian"], strict=True
        )
    ]
    data: list[dict[str, Any]] = [
        {
            "type": "heatmap",
            "x": found["x"],
            "y": found["y"],
            "z": [[present.index(k) for k in row] for row in found["phase"]],
            "zmin": -0.5,
            "zmax": steps - 0.5,
            "colorscale": scale,
            "colorbar": {
                "thickness": 12,
                "tickvals": list(range(steps)),
                "ticktext": [names[k] for k in present],
                "outlinewidth": 0,
            },
            "text": told,
            "hovertemplate": "%{x:.3g}, %{y:.3g}<br>%{text}<extra></extra>",
            "showlegend": False,
        },
        {
            "type": "contour",
            "name": "condensation, β = √2",
            "x": found["x"],
            "y": found["y"],
            "z": [finite(row) for row in found["score_strength"]],
            "contours": {"coloring": "none", "start": found["critical"], "end": found["critical"], "size": 1},
            "line": {"color": c["text"], "dash": "dash", "width": 1.5},
            "showscale": False,
            "hoverinfo": "skip",
            "showlegend": True,
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": "you are here",
            "x": [here[0]],
            "y": [here[1]],
            "marker": {"size": 15, "symbol": "x-thin", "color": c["text"], "line": {"width": 3.5, "color": c["text"]}},
            "hovertemplate": "%{x:.3g}, %{y:.3g}<extra>you are here</extra>",
        },
    ]
    layout = frame(
        theme,
        AXIS_NAMES[across],
        AXIS_NAMES[up],
        xaxis=_axis(across, found["x"]),
        yaxis=_axis(up, found["y"]),
        dragmode=False,
    )
    return {"data": data, "layout": layout}


def _axis(name: str, values: Sequence[float]) -> dict[str, Any]:
    ends = [values[0], values[-1]]
    if name not in _LOGARITHMIC:
        return {"range": ends, "fixedrange": True}
    return {"type": "log", "range": [math.log10(one) for one in ends], "fixedrange": True, "exponentformat": "none"}


def _shown(value: Any) -> str:
    return "–" if value is None or isinstance(value, str) or not math.isfinite(value) else f"{value:.3g}"
