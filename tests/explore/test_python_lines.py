"""The Python lines beside a lab give the numbers that it shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from isometer.errors import IsometerError

pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")


from isometer.explore._python_lines import activation_lines, depth_lines
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
from isometer.explore.jobs import job


def run_lines(lines: str) -> dict[str, Any]:
    space: dict[str, Any] = {}
    exec(compile(lines, "lines", "exec"), space)
    return space


@pytest.mark.parametrize(
    "state",
    [
        ActivationState(("relu", "sin")),
        ActivationState(("abs", "x*sigmoid(x)"), "layer", "post", 0.5, 1.3, -0.2, 9, "layer", "", 1.1, 0.0),
    ],
)
def test_python_lines_of_activations(state: ActivationState, capsys: pytest.CaptureFixture[str]) -> None:
    space = run_lines(activation_lines(state))
    assert space["point"].verdict in capsys.readouterr().out
    for one, kernel, way in zip(state.activations, card_jobs(state), path_jobs(state), strict=True):
        card, path = job("card")(**kernel.arguments), job("path")(**way.arguments)
        assert space["cards"][one].kernel(np.array(card["rho"])).tolist() == card["kappa"]
        assert space["cards"][one].to_dict()["fixed_point"] == card["fixed_point"]
        assert space["paths"][one].tolist() == path["cosine"]
    plane, point = (job(one.name)(**one.arguments) for one in phase_jobs(state))
    assert space["diagram"].to_dict()["chi"] == plane["chi"]
    assert space["point"].chi == point["chi"]


@pytest.mark.parametrize(
    "state",
    [
        DepthState(depth=4, width=20, batch=5, runs=3, layer=2),
        DepthState("tanh", "layer", "pre", "orthogonal", "1", None, 5, 12, 4, 2, "correlated:0.9", 7, 5, "stable_rank"),
    ],
)
def test_python_lines_of_depth(state: DepthState) -> None:
    space = run_lines(depth_lines(state))
    simulated = job("simulated")(**simulation_job(state).arguments)
    predicted = job("predicted")(**prediction_job(state).arguments)
    own = job("own_width")(**own_width_job(state).arguments)
    for name, rows in simulated["metrics"].items():
        for key in ("mean", "low", "high"):
            np.testing.assert_array_equal(space["simulated"][name].sel(statistic=key).values, rows[key])
        np.testing.assert_array_equal(space["predicted"][name].values[0], predicted["metrics"][name])
        runs = space["runs"][name].values
        assert (np.array(rows["bottom"]) <= runs.mean(0) + 1e-12).all() or not np.isfinite(runs).all()
        np.testing.assert_array_equal(rows["top"], runs.max(0))  # of few runs the outermost one
    for name, rows in own["metrics"].items():
        np.testing.assert_array_equal(space["band"][name].sel(statistic="low").values, rows["low"])
    found = job("geometry")(**geometry_job(state).arguments)
    np.testing.assert_array_equal(space["gram"], found["cosines"])


def test_depth_of_a_network_that_is_written_out() -> None:
    """The same words as `--network`, and the Python lines beside it give the same numbers."""
    text = "repeat(residual(norm('layer') > dense(24) > act('gelu') > dense(12), 0.5), 3) > norm('rms')"
    state, notes = DepthState.read({"network": text, "width": "12", "batch": "4", "runs": "3"})
    assert notes == []
    assert DepthState.read(state.query())[0] == state
    space = run_lines(depth_lines(state))
    simulated = job("simulated")(**simulation_job(state).arguments)
    predicted = job("predicted")(**prediction_job(state).arguments)
    assert simulated["layer"] == predicted["layer"] == [0, 1, 2, 3, 4]
    for name, rows in simulated["metrics"].items():
        np.testing.assert_array_equal(space["simulated"][name].sel(statistic="mean").values, rows["mean"])
        np.testing.assert_array_equal(space["predicted"][name].values[0], predicted["metrics"][name])
    assert job("own_width")(**own_width_job(state).arguments)["metrics"] == {}
    with pytest.raises(IsometerError, match="one layer repeated"):
        job("geometry")(**geometry_job(state).arguments)
    image = replace(state, network="input(2, [4, 4]) > conv(3, 6) > act('relu') > pool > dense(3)")
    assert job("predicted")(**prediction_job(image).arguments)["layer"] == [0, 1, 2]
    chain = replace(state, network="repeat(dense > act('relu'), 2)", layer=9)
    assert len(job("geometry")(**geometry_job(chain).arguments)["cosines"]) == 4  # of its last layer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("repeat(repeat(repeat(dense, 100000), 100000), 100000)", "this page takes at most 2000"),
        ("dense(1000000)", "this page takes at most 2048"),
        ("input(100, [100, 100]) > pool", "this page takes at most 2048"),
        ("act('import:os:getcwd')", "imports nothing"),
        ("__import__('os')", "unknown step"),
        ("repeat(dense", "cannot be read"),
    ],
)
def test_networks_that_are_written_out_stay_within_the_limits(text: str, message: str) -> None:
    state, _ = DepthState.read({"network": text})
    with pytest.raises(IsometerError, match=message):
        job("predicted")(**prediction_job(state).arguments)
    assert "spec = Spec(" in depth_lines(state)


def test_depth_with_a_skip_and_without_theory() -> None:
    state = DepthState(norm="batch", position="post", residual=0.5, depth=3, width=10, batch=4, runs=2)
    assert job("simulated")(**simulation_job(state).arguments)["layer"] == [0, 1, 2, 3]
    uncovered = DepthState(weights="asymmetric", depth=3, width=10, batch=4)
    with pytest.raises(IsometerError, match="no theory covers this network"):
        job("predicted")(**prediction_job(uncovered).arguments)
