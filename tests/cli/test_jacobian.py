"""`isometer jacobian`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import as_json, error, printed


def test_the_law_of_a_network(tmp_path: Path) -> None:
    network = "input(8) > repeat(dense(weights='orthogonal') > act('relu'), 2)"
    found = as_json("jacobian", "--network", network, "--plot", str(tmp_path / "j.png"))
    assert found["isometry"] == pytest.approx(1 / 3)
    assert found["zeros"] == pytest.approx(0.5)
    assert (tmp_path / "j.png").stat().st_size > 1000
    card = printed("jacobian", "--activation", "tanh", "--depth", "3", "--weights", "orthogonal")
    assert "singular values by share" in card
    assert "relu after a skip" in error("jacobian", "--network", "input(8) > repeat(residual(act('relu') > dense), 2)")
    assert "--eval applies to a --model" in error("jacobian", "--eval")


def test_the_size_of_the_inputs_counts(tmp_path: Path) -> None:
    small, large = (
        as_json("jacobian", "--network", "input(3) > dense > norm('batch') > act('tanh')", "--input", f"cosine:{c}")
        for c in (0.0, 0.75)
    )
    assert large["log_mean_square"] - small["log_mean_square"] == pytest.approx(1.3862943611, rel=1e-9)  # log 4


def test_the_jacobian_of_a_model(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "mine.py"
    path.write_text(
        "from torch import nn\n"
        "def make():\n"
        "    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).double()\n"
    )
    model = ("jacobian", "--model", f"{path}:make", "--batch", "4")
    found = as_json(*model, "--plot", str(tmp_path / "j.png"))
    assert (found["shape"], found["separate"], found["method"]) == ([8, 12], False, "dense")
    assert list(found["layers"]) == ["0", "1", "2", "3"]
    assert (tmp_path / "j.png").stat().st_size > 1000
    assert as_json(*model, "--eval", "--from", "0", "--to", "2")["shape"] == [8, 8]
    assert "partial Jacobian norm" in printed(*model)
    assert "drop --activation" in error(*model, "--activation", "relu")
