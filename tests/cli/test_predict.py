"""`isometer predict` as a user runs it, in a sweep, and without torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray

from isometer import Spec, activation
from isometer.data import make_batch
from isometer.errors import IsometerError
from isometer.theory.prediction import finite_width
from isometer.theory.prediction import predict as theory
from support.command import invoke, printed
from support.missing import commands, refusing_torch

SMALL = ["predict", "--width", "40", "--depth", "4", "--batch", "5"]
KEYS = {"engine", "spec", "layers", "metrics", "runs", "seed", "at", "first_nonfinite_layer"}
OWN = {"fixed_point", "local_rate", "gradient_growth_per_layer", "depth_scale"}


@pytest.mark.torch
def test_json_has_the_keys_of_simulate_and_its_own() -> None:
    options = ["--norm", "batch", "--metric", "orthogonality_gap", "--backward", "--seed", "7", "--json"]
    record = json.loads(printed(*SMALL, *options))
    assert set(record) >= KEYS | OWN
    simulated = json.loads(printed("simulate", *SMALL[1:], *options, "--runs", "2"))
    assert set(simulated) <= set(record)
    assert record["engine"] == "theory"
    assert record["layers"] == simulated["layers"]
    assert set(record["metrics"]) == set(simulated["metrics"]) == {"orthogonality_gap", "gradient_log_norm"}
    assert set(record["fixed_point"]) == {"diagonal", "off_diagonal", "condition_number"}
    batch, spec = (
        make_batch("gaussian", 5, 40, seed=7),
        Spec(width=40, depth=4, norm="batch", gain=activation("relu").gain_forward),
    )
    expected = theory(spec, batch, metrics=["orthogonality_gap"])["orthogonality_gap"].values[0]
    np.testing.assert_array_equal(record["metrics"]["orthogonality_gap"]["mean"], expected)
    band = finite_width(spec, batch, metrics=["orthogonality_gap"])["orthogonality_gap"]
    for key, statistic in (("low", "low"), ("high", "high"), ("finite_width_mean", "mean")):
        np.testing.assert_array_equal(record["metrics"]["orthogonality_gap"][key], band.sel(statistic=statistic).values)
    assert record["metrics"]["orthogonality_gap"]["band"] == 0.95
    gradient = record["metrics"]["gradient_log_norm"]
    assert gradient["band_from"] == "simulation"
    assert gradient["draws"] == 100
    assert gradient["low"][-1] < gradient["finite_width_mean"][-1] < gradient["high"][-1]


@pytest.mark.torch
def test_against_simulation_says_where_theory_leaves(tmp_path: Path) -> None:
    picture, data = tmp_path / "net.png", tmp_path / "net.nc"
    options = ["--norm", "batch", "--metric", "orthogonality_gap", "--against-simulation", "--runs", "40"]
    out = printed(*SMALL, *options, "--plot", str(picture), "--out", str(data))
    assert "infinite width leaves the 99.9 % interval of the simulated" in out
    assert "theory of this width stays inside" in " ".join(out.split())
    assert picture.read_bytes().startswith(b"\x89PNG")
    with xarray.open_dataset(data, engine="h5netcdf") as saved:
        assert saved.attrs["engine"] == "theory"
        assert json.loads(saved.attrs["fixed_point"])["diagonal"] == pytest.approx(0.5)
    record = json.loads(printed(*SMALL, *options, "--json"))
    assert record["outside"]["orthogonality_gap"]["infinite_width"]
    assert record["simulation"]["orthogonality_gap"]["mean"][0] == pytest.approx(
        record["metrics"]["orthogonality_gap"]["mean"][0]
    )


@pytest.mark.torch
def test_what_theory_has_no_band_of_is_simulated() -> None:
    out = " ".join(printed(*SMALL, "--gamma", "0.5", "--norm", "layer", "--metric", "rank").split())
    assert "this width: simulated, 100 networks, not theory, for rank" in out
    block = "repeat(residual(norm('layer') > dense > act('gelu') > dense, scale=0.3), 3)"
    for options in (["--width", "30", "--depth", "2", "--batch", "40"], ["--network", block, "--batch", "4"]):
        own = printed("predict", *options, "--metric", "log_norm", "--json")
        found = json.loads(own)["metrics"]["log_norm"]
        assert (found["band_from"], found["draws"], found["no_band_because"]) == ("simulation", 100, None)
        assert found["low"][-1] < found["finite_width_mean"][-1] < found["high"][-1]


def test_what_has_no_band_says_why() -> None:
    wide = ["predict", "--input", "cosine:0.5", "--depth", "2", "--batch", "40", "--metric", "rank"]
    assert "no band of this width for rank: the batch has 40 samples" in " ".join(printed(*wide).split())
    found = json.loads(printed(*wide, "--json"))["metrics"]["rank"]
    assert "followed up to 24" in found["no_band_because"]
    assert (found["band"], found["band_from"]) == (None, None)


def test_bands_before_activations() -> None:
    pre = json.loads(printed(*SMALL, "--metric", "mean_cosine", "--at", "pre", "--json"))["metrics"]["mean_cosine"]
    assert pre["low"][-1] < pre["finite_width_mean"][-1] < pre["high"][-1]


def test_an_unstable_fixed_point_is_said() -> None:
    options = ["--depth", "2", "--batch", "60", "--norm", "batch", "--activation", "gelu", "--metric", "rank"]
    assert "unstable" in printed("predict", "--width", "30", *options)
    record = json.loads(printed("predict", "--width", "30", *options, "--json"))
    assert record["local_rate"] > 1
    assert "single samples parting from the others" in record["note"]


@pytest.mark.torch
def test_compare_draws_one_panel_per_activation(tmp_path: Path) -> None:
    picture = tmp_path / "both.png"
    out = printed(
        *SMALL, "--norm", "layer", "--compare", "relu, leaky_relu(0.2)", "--runs", "4", "--plot", str(picture)
    )
    assert "leaky_relu(0.2)" in out
    assert picture.stat().st_size > 10_000
    record = json.loads(printed(*SMALL, "--compare", "tanh,sin", "--runs", "2", "--json"))
    assert list(record["compare"]) == ["tanh", "sin"]


def test_the_table_has_every_metric() -> None:
    out = " ".join(printed(*SMALL, "--backward").split())
    for title in (
        "orthogonality",
        "gap, ∞",
        "mean |cos|",
        "log ‖gradient‖",
        "this width",
        "per layer at great depth",
    ):
        assert title in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--norm", "whiten"], "no theory covers this network: whitening ties"),
        (["--norm", "batch", "--gamma", "0.5", "--norm-position", "sum"], "the nearest covered network has"),
        (["--backward", "--loss", "squared"], "expected gaussian"),
        (["--metric", "kurtosis"], "metric is 'kurtosis'; expected one that depends on the Gram matrix"),
        (["--compare", ","], "expected activations"),
        (["--plot", "no/such/folder/x.png"], "does not exist"),
    ],
)
def test_errors_are_about_input(options: list[str], message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        invoke(*SMALL, *options)


@pytest.mark.slow
def test_predictions_can_be_swept(tmp_path: Path) -> None:
    out = printed(
        "sweep", "predict", "--grid", "activation=relu,tanh", "--width", "20", "--depth", "3", "--batch", "4",
        "--norm", "batch", "--metric", "orthogonality_gap", "--out", str(tmp_path / "sweep"), "--json",
    )  # fmt: skip
    assert '"done"' in out or "cells" in out


@pytest.mark.slow
def test_predict_runs_without_torch(tmp_path: Path) -> None:
    options = ["--width", "20", "--depth", "3", "--batch", "4", "--backward", "--norm", "batch", "--plot", "net.png"]
    done = refusing_torch(commands(["predict", *options]), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Fixed point" in done.stdout
    assert (tmp_path / "net.png").stat().st_size > 10_000
    simulating = refusing_torch(commands(["predict", *options, "--against-simulation"]), tmp_path)
    assert "torch was imported" in simulating.stderr  # the check can fail
