"""A training run from its checkpoints: the numbers of a monitor, findings over time, two runs side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from isometer.doctor._checkpoint_files import checkpoint_files
from isometer.doctor.watch import SignalMonitor, watch_checkpoints
from isometer.errors import IsometerError
from support.command import as_json, error, invoke

MODEL = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    x = torch.randn(16, 8)
    return model, x, (x[:, 0] > 0).long()
"""


@pytest.fixture
def model_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(MODEL)
    return path


def make() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))


def saved(folder: Path, *, dying: bool) -> None:
    """Four checkpoints, of a compiled model; the units of the first layer die."""
    folder.mkdir()
    model = make()
    for step in (20, 100, 180, 260):
        with torch.no_grad():
            model[0].weight.add_(0.01)
            model[0].bias.sub_(5.0 if dying and step > 100 else 0.0)
        state = {f"_orig_mod.{name}": tensor for name, tensor in model.state_dict().items()}
        torch.save({"model_state_dict": state, "step": step}, folder / f"step_{step}.pt")


def test_numbers_are_those_of_a_monitor() -> None:
    model, x = make(), torch.randn(16, 8)
    monitor = SignalMonitor(model, budget=None, metrics=["rms", "stable_rank"])
    states = {}
    for step in (1, 2, 3):
        with torch.no_grad():
            model[2].weight.mul_(1.5)
        model(x)
        monitor.step()
        states[step] = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    run = watch_checkpoints(model, states, x, metrics=["rms", "stable_rank"])
    for name in ("rms", "stable_rank"):
        np.testing.assert_array_equal(run.history[name].values, monitor.history[name].values)
    np.testing.assert_allclose(run.history["weight_change"].values[1:, 2], 0.5, rtol=1e-6)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_the_command(model_file: Path, tmp_path: Path) -> None:
    saved(tmp_path / "run", dying=True)
    saved(tmp_path / "other", dying=False)
    target = f"{model_file}:make"
    told = as_json("doctor", target, "--checkpoints", "run/*.pt", "--compare", "other", code=1)
    first, second = told["runs"]
    assert first["steps"] == second["steps"] == [20, 100, 180, 260]
    dead = next(row for row in first["over_time"] if row["id"] == "dead-units")
    assert dead["steps"] == [180, 260]
    assert all(row["id"] != "dead-units" for row in second["over_time"])
    assert first["history"]["rms"]["over"] == ["step", "layer"]
    page = tmp_path / "page.html"
    shown = invoke("doctor", target, "--checkpoints", "run/*.pt", "--html", str(page), code=1)
    assert "new since the first: " in shown.output
    text = page.read_text()
    assert "Findings of the doctor over time" in text
    assert "180 to 260" in text


def test_bad_files_are_one_line(model_file: Path, tmp_path: Path) -> None:
    target = f"{model_file}:make"
    assert "names no checkpoints" in error("doctor", target, "--checkpoints", "nothing/*.pt")
    (tmp_path / "junk_1.pt").write_text("junk")
    assert "junk_1.pt" in error("doctor", target, "--checkpoints", "junk*.pt")
    torch.save(nn.Linear(3, 3).state_dict(), tmp_path / "wrong_1.pt")
    assert "do not fit the model" in error("doctor", target, "--checkpoints", "wrong*.pt")
    assert "--lr applies to one state" in error("doctor", target, "--checkpoints", "wrong*.pt", "--lr", "1")


def test_steps_of_files(tmp_path: Path) -> None:
    def steps(*names: str) -> list[int]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        return list(checkpoint_files(f"{folder}/**/*.*"))

    assert steps("epoch=9-step=90-loss=0.5.ckpt", "epoch=10-step=100-loss=0.5.ckpt") == [90, 100]
    assert steps("checkpoint-500/model.bin", "checkpoint-1000/model.bin") == [500, 1000]
    assert steps("v2_9.pt", "v2_10.pt") == [9, 10]
    assert steps("first.pt", "last.pt") == [1, 2]
    with pytest.raises(IsometerError, match="names no checkpoints"):
        checkpoint_files(str(tmp_path))
