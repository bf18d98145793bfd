"""Every curve as numbers: the columns behind a picture, and their CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from isometer.errors import IsometerError, unknown_name
from isometer.explore import _requests as requests
from isometer.explore._desk import Desk
from isometer.explore._labs import read_state
from isometer.explore._state import ActivationState, DepthState

__all__ = ["CURVES", "csv_text", "table"]

Columns = dict[str, Sequence[Any]]
CURVES: dict[str, tuple[str, ...]] = {
    "activation": ("function", "hermite", "kernel", "path", "phase", "facts"),
    "depth": ("trajectories", "gram", "plane"),
}
"""What can be downloaded, lab by lab; reports and the ledger are files already."""


def table(lab: str, curve: str, query: str, desk: Desk, tab: str) -> Columns:
    """The columns behind a picture.

    Args:
        lab: of the picture.
        curve: one of `CURVES`.
        query: the lab's state.
        desk: what computes.
        tab: who asks.

    Returns:
        Columns by name, all of one length.

    Raises:
        IsometerError: there is no such curve, or it cannot be computed.
    """
    if curve not in CURVES.get(lab, ()):
        raise unknown_name(f"curve of the lab {lab!r}:", curve, CURVES.get(lab, ()))
    state, _ = read_state(lab, query)
    if isinstance(state, ActivationState):
        return _activation(state, curve, desk, tab)
    assert isinstance(state, DepthState)
    return _depth(state, curve, desk, tab)


def csv_text(columns: Columns) -> str:
    """Comma-separated values with a line of names; numbers to the last bit, infinities as `inf`, nothing for nan.

    Example:
        >>> csv_text({"layer": [0, 1], "gap": [0.5, math.nan]})
        'layer,gap\\r\\n0,0.5\\r\\n1,\\r\\n'
    """
    page = io.StringIO()
    writer = csv.writer(page)
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([_written(value) for value in row])
    return page.getvalue()


def _written(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def _asked(desk: Desk, tab: str, jobs: list[Any]) -> list[Any]:
    found = desk.ask(tab, "csv", jobs)
    for one in found:
        if isinstance(one, IsometerError):
            raise one
    return found


def _activation(state: ActivationState, curve: str, desk: Desk, tab: str) -> Columns:
    names = state.activations
    if curve == "path":
        paths = _asked(desk, tab, requests.path_jobs(state))
        columns: Columns = {"layer": paths[0]["layer"]}
        for name, path in zip(names, paths, strict=True):
            columns |= {f"cosine of {name}": path["cosine"], f"distance of {name}": path["distance"]}
        return columns
    if curve == "phase":
        diagram, _ = _asked(desk, tab, requests.phase_jobs(state))
        return _plane(diagram)
    cards = _asked(desk, tab, requests.card_jobs(state))
    if curve == "facts":
        keys = ("case", "fixed_point", "rate", "depth_scale", "kernel_slope_at_one", "gain_forward", "gain_backward")
        return {"activation": names, **{key: [card[key] for card in cards] for key in keys}}
    if curve == "hermite":
        return {
            "degree": list(range(len(cards[0]["hermite"]))),
            **{name: card["hermite"] for name, card in zip(names, cards, strict=True)},
        }
    across, up = ("rho", "kappa") if curve == "kernel" else ("x", state.shown)
    return {across: cards[0][across], **{name: card[up] for name, card in zip(names, cards, strict=True)}}


def _plane(diagram: Mapping[str, Any]) -> Columns:
    weights, biases = diagram["weight_variances"], diagram["bias_variances"]
    return {
        "weight variance": [w for _ in biases for w in weights],
        "bias variance": [b for b in biases for _ in weights],
        "chi": [value for row in diagram["chi"] for value in row],
        "variance": [value for row in diagram["variance"] for value in row],
    }


def _depth(state: DepthState, curve: str, desk: Desk, tab: str) -> Columns:
    if curve in ("gram", "plane"):
        [found] = _asked(desk, tab, [requests.geometry_job(state)])
        if curve == "gram":
            return {f"sample {i}": column for i, column in enumerate(zip(*found["cosines"], strict=True))}
        return {key: found[key] for key in ("along", "across", "kept", "lengths")}
    jobs = [requests.simulation_job(state), requests.prediction_job(state), requests.own_width_job(state)]
    # Without the theory of this width its place is filled by the prediction, and not read.
    simulated, predicted, own = desk.ask(tab, "csv", jobs if state.own_width == "on" else jobs[:2] + jobs[1:2])
    if isinstance(simulated, IsometerError):
        raise simulated
    columns: Columns = {"layer": simulated["layer"]}
    for name, rows in simulated["metrics"].items():
        columns |= {f"{name} simulated {key}": rows[key] for key in ("mean", "low", "high", "bottom", "top")}
        if not isinstance(predicted, IsometerError) and name in predicted["metrics"]:
            columns[f"{name} predicted"] = predicted["metrics"][name]
        if state.own_width == "on" and not isinstance(own, IsometerError) and name in own["metrics"]:
            columns |= {f"{name} own width {key}": values for key, values in own["metrics"][name].items()}
    if state.other is None:
        return columns
    pinned = _depth(state.other, curve, desk, tab)
    return _beside(columns, {f"A: {name}": values for name, values in pinned.items() if name != "layer"})


def _beside(columns: Columns, more: Columns) -> Columns:
    """Columns of two networks, the shorter ones with gaps at their end; layers as many as the deeper one has."""
    longest = max(len(values) for values in (*columns.values(), *more.values()))
    padded: Columns = {name: [*values, *[None] * (longest - len(values))] for name, values in (columns | more).items()}
    return padded | {"layer": list(range(longest))}
