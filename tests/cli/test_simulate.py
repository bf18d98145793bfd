"""`isometer simulate` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray

from isometer import Spec, activation
from isometer.data import make_batch
from isometer.errors import IsometerError
from isometer.simulate import simulate
from isometer.trajectory import summarize
from support.command import invoke, printed

SMALL = ["simulate", "--width", "30", "--depth", "4", "--batch", "5", "--runs", "3"]


def test_json_has_the_promised_keys_and_the_numbers_of_the_library() -> None:
    record = json.loads(printed(*SMALL, "--metric", "orthogonality_gap", "--backward", "--seed", "7", "--json"))
    assert set(record) >= {"engine", "spec", "layers", "metrics", "runs", "seed"}
    assert record["engine"] == "gram"
    assert record["layers"] == [0, 1, 2, 3, 4]
    assert (record["runs"], record["seed"]) == (3, 7)
    assert set(record["metrics"]) == {"orthogonality_gap", "gradient_log_norm"}
    spec = Spec(width=30, depth=4, gain=activation("relu").gain_forward)
    data = simulate(spec, make_batch("gaussian", 5, 30, seed=7), runs=3, metrics=["orthogonality_gap"], seed=7)
    expected = summarize(data)["orthogonality_gap"]
    for statistic in ("mean", "low", "high"):
        found = record["metrics"]["orthogonality_gap"][statistic]
        np.testing.assert_array_equal(found, expected.sel(statistic=statistic).values)


def test_infinite_values_are_strings() -> None:
    record = json.loads(printed(*SMALL, "--input", "degenerate:2", "--metric", "isometry_gap", "--json"))
    assert record["metrics"]["isometry_gap"]["mean"] == ["inf"] * 5


@pytest.mark.parametrize(
    ("options", "order", "over"),
    [
        (["--norm", "batch"], ["weights", "norm", "activation"], "batch"),
        (["--norm", "layer", "--norm-position", "post"], ["weights", "activation", "norm"], "features"),
        (["--norm", "layer", "--gamma", "0.1"], ["norm", "activation", "weights", "residual"], "features"),
        (
            ["--norm", "rms", "--gamma", "1", "--norm-position", "post"],
            ["activation", "norm", "weights", "residual"],
            "features",
        ),
        (
            ["--norm", "batch-rescale", "--gamma", "0.1", "--norm-position", "sum"],
            ["activation", "weights", "residual", "norm"],
            "batch",
        ),
    ],
)
def test_options_become_the_spec(options: list[str], order: list[str], over: str) -> None:
    record = json.loads(printed(*SMALL, *options, "--weights", "orthogonal", "--metric", "rank", "--json"))
    assert record["spec"]["order"] == order
    assert record["spec"]["norm"]["over"] == over
    assert record["spec"]["weights"] == "orthogonal"


def test_a_principled_gain_and_a_spec_file(tmp_path: Path) -> None:
    for options, gain in (
        ([], 2**0.5),
        (["--gain", "forward"], 2**0.5),
        (["--gain", "1"], 1.0),
        (["--weights", "he"], 1.0),
        (["--norm", "rms", "--norm-position", "post"], 1.0),
    ):
        record = json.loads(printed(*SMALL, *options, "--metric", "rank", "--json"))
        assert record["spec"]["gain"] == pytest.approx(gain), options
    path = tmp_path / "net.json"
    path.write_text(Spec(width=(8, 6), input_width=4, activation="tanh").to_json())
    record = json.loads(printed("simulate", "--network", str(path), "--runs", "2", "--metric", "rank", "--json"))
    assert record["layers"] == [0, 1, 2]
    assert record["spec"]["width"] == [8, 6]


def test_a_network_by_text_file_and_preset(tmp_path: Path) -> None:
    text = "input(8) > repeat(residual(norm('layer') > act('tanh') > dense, 0.5), 3)"
    path = tmp_path / "net.json"
    path.write_text(json.dumps({"network": text}))
    several = [["--network", text], ["--network", str(path)], ["--network", "repeat(" + text.partition("repeat(")[2]]]
    several[-1] += ["--width", "8"]
    options = ["--runs", "2", "--batch", "3", "--metric", "log_norm", "--json"]
    first, *others = [json.loads(printed("simulate", *one, *options)) for one in several]
    assert all(one["metrics"] == first["metrics"] for one in others)
    assert Spec.from_json(json.dumps(first["spec"])) == Spec(text)
    preset = json.loads(printed("simulate", "--network", "chain(width=8, depth=3, norm='batch')", *options))
    assert preset["spec"]["norm"]["over"] == "batch"


def test_what_a_network_leaves_no_room_for(tmp_path: Path) -> None:
    text = "repeat(dense > act('tanh'), 3)"
    np.save(tmp_path / "x.npy", np.ones((3, 5)))
    for options, message in (
        (["--network", text, "--depth", "3"], "--network already sets the depth"),
        (["--network", text, "--norm-position", "post"], "already sets the norm-position"),
        (["--network", "missing.json"], "cannot read the spec"),
        (["--network", "repeat(dens, 3)"], "did you mean 'dense'"),
        (["--network", "__import__('os')"], "unknown step"),
        (["--network", "input(7) > " + text, "--input", str(tmp_path / "x.npy")], "the network takes 7"),
        (["--gamma", "0.5", "--input", str(tmp_path / "x.npy")], r"pass --width 5, or --network .input\(5\) > dense"),
    ):
        with pytest.raises(IsometerError, match=message):
            invoke("simulate", *options)


def test_notes_about_older_words(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(Spec(width=4, depth=2).to_json())
    told = invoke("simulate", "--network", str(path), "--runs", "2", "--batch", "3", "--metric", "rank").stderr
    assert "as a network it reads input(4) > repeat(dense > act('relu'), 2)" in told
    path.write_text(json.dumps({"network": "input(4) > repeat(dense > act('relu'), 2)"}))
    assert not invoke("simulate", "--network", str(path), "--runs", "2", "--batch", "3", "--metric", "rank").stderr


def test_a_file_of_inputs_pictures_and_netcdf(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(6, 11)))
    picture, data = tmp_path / "net.png", tmp_path / "net.nc"
    out = printed(
        *SMALL[:5], "--input", str(tmp_path / "x.npy"), "--runs", "2", "--plot", str(picture), "--out", str(data)
    )
    assert "mean |cos|" in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    with xarray.open_dataset(data, engine="h5netcdf") as saved:
        assert dict(saved.sizes) == {"run": 2, "layer": 5}
        assert json.loads(saved.attrs["spec"])["input_width"] == 11
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.nc", "net.png", "x.npy"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--norm", "btch"], "expected one of none"),
        (["--input", "correlated:2"], "can have"),
        (["--metric", "orthogonality_gep"], "did you mean 'orthogonality_gap'"),
        (["--batch", "1", "--norm", "batch"], "need at least 2"),
        (["--gain", "lots"], "a number or 'forward'"),
        (["--norm", "rms", "--norm-position", "sum"], "there is no skip connection"),
        (["--input", "cosine:0.5"], "correlated:0.5, for example"),
        (["--plot", "no/such/folder/x.png"], "does not exist"),
        (["--weights", "uniform", "--engine", "gram"], "pass engine='dense'"),
    ],
)
def test_bad_options_are_explained(options: list[str], message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        invoke(*SMALL, *options)


def test_the_table_concludes() -> None:
    out = printed(
        "simulate", "--width", "50", "--depth", "60", "--batch", "4", "--runs", "4", "--gain", "forward", "--backward"
    )
    assert "→" in out
    assert "Gradients" in out
