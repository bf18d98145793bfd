"""The explorer's numbers: CSV files and pictures against closed forms and what is drawn."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")

import plotly.graph_objects as go

from isometer.explore import Desk
from isometer.explore._reports import parsed
from isometer.explore._requests import (
    card_jobs,
    geometry_job,
    own_width_job,
    path_jobs,
    phase_jobs,
    prediction_job,
    simulation_job,
)
from isometer.explore._state import ActivationState, DepthState
from isometer.explore.pictures import _activation as activation_pictures
from isometer.explore.pictures import _clinic as clinic_pictures
from isometer.explore.pictures import _depth as depth_pictures
from support.doctor_reports import long_report


def columns_of(text: str) -> dict[str, list[str]]:
    head, *rows = csv.reader(io.StringIO(text))
    return {name: [row[i] for row in rows] for i, name in enumerate(head)}


def test_kernel_csv_is_the_closed_form(client: Any) -> None:
    answer = client.get("/csv/activation/kernel?activations=relu,exp(x)")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="isometer-activation-kernel.csv"'
    columns = columns_of(answer.text)
    rho = np.array(columns["rho"], dtype=float)
    relu = (np.sqrt(1 - rho**2) + rho * (np.pi - np.arccos(rho))) / np.pi  # the arc-cosine kernel of degree 1
    np.testing.assert_allclose(np.array(columns["relu"], dtype=float), relu, atol=2e-8)
    np.testing.assert_allclose(np.array(columns["exp(x)"], dtype=float), np.exp(rho - 1), atol=1e-12)


def test_other_csvs_equal_what_is_drawn(client: Any, desk: Desk) -> None:
    state = ActivationState(activations=("relu", "tanh"), rho=-0.4, layers=7, gain=0.5)
    cards = desk.ask("t", "cards", card_jobs(state))
    paths = desk.ask("t", "path", path_jobs(state))
    names = list(zip(state.activations, cards, strict=True))
    drawn = {
        "function": activation_pictures.function_picture(names, "layer", "light"),
        "kernel": activation_pictures.kernel_picture(names, "dark"),
        "path": activation_pictures.distance_picture(list(zip(state.activations, paths, strict=True)), "light"),
    }
    for curve, column in (("function", "{}"), ("kernel", "{}"), ("path", "distance of {}")):
        columns = columns_of(client.get(f"/csv/activation/{curve}?{state.query()}").text)
        for name in state.activations:
            trace = next(one for one in drawn[curve]["data"] if one.get("name") == name)
            assert [float(v) for v in columns[column.format(name)]] == list(trace["y"])
    hermite = columns_of(client.get(f"/csv/activation/hermite?{state.query()}").text)
    assert [float(v) for v in hermite["tanh"]] == cards[1]["hermite"]
    facts = columns_of(client.get(f"/csv/activation/facts?{state.query()}").text)
    assert facts["activation"] == ["relu", "tanh"]
    assert client.get("/csv/activation/nothing").status_code == 400
    assert client.get("/csv/nowhere/kernel").status_code == 404
    assert "unknown activation" in client.get("/csv/activation/kernel?activations=relo").text


def test_plane_keeps_lengths_and_angles() -> None:
    """In two dimensions the plane is everything: an isometry of the batch, up to scale."""
    from isometer.explore.jobs._depth import plane

    state = np.random.default_rng(0).standard_normal((6, 2))
    odd = int(np.argmax(np.linalg.norm(state, axis=1)))
    along, across, kept = plane(state, odd)
    drawn = np.stack([along, across], 1) * np.linalg.norm(state[odd])
    np.testing.assert_allclose(drawn @ drawn.T, state @ state.T, atol=1e-12)
    np.testing.assert_allclose(kept, 1.0)


def test_pictures_are_valid_figures(desk: Desk) -> None:
    state, net = ActivationState(("sign", "identity", "relu")), DepthState(depth=3, width=10, batch=4, runs=2, layer=2)
    cards = list(zip(state.activations, desk.ask("p", "c", card_jobs(state)), strict=True))
    diagram, _ = desk.ask("p", "f", phase_jobs(state))
    jobs = [simulation_job(net), prediction_job(net), own_width_job(net), geometry_job(net)]
    simulated, predicted, own, geometry = desk.ask("p", "d", jobs)
    report = parsed(json.dumps(long_report(50)).encode())
    for theme in ("light", "dark"):
        for figure in (
            activation_pictures.function_picture(cards, "itself", theme),
            activation_pictures.hermite_picture(cards, theme),
            activation_pictures.kernel_picture(cards, theme),
            activation_pictures.phase_picture(diagram, 1.0, 0.2, theme),
            *(depth_pictures.trajectory_picture(m, simulated, predicted, own, theme) for m in simulated["metrics"]),
            depth_pictures.trajectory_picture("isometry_gap", None, None, None, theme),
            depth_pictures.gram_picture(geometry["cosines"], theme),
            depth_pictures.plane_picture(geometry, theme),
            clinic_pictures.metric_picture([("a", report), ("b", report)], "rms", "depth", 4, [1, 2], theme),
        ):
            go.Figure(figure)  # refuses what Plotly does not know
            json.dumps(figure, allow_nan=False)


def test_numbers_of_infinite_spread_are_drawn_without_nan() -> None:
    rows = {key: [1.0, math.inf] for key in ("mean", "low", "high", "bottom", "top")}
    result = {"layer": [0, 1], "metrics": {"isometry_gap": rows}}
    figure = depth_pictures.trajectory_picture("isometry_gap", result, None, None, "light")
    assert all(None in trace["y"] for trace in figure["data"])
