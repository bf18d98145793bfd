"""`isometer doctor` as a user calls it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from isometer.doctor._loading import load_target
from isometer.doctor.patients import PATIENTS
from isometer.spec import Spec
from support.command import as_json, error, invoke

MODEL = """
import torch
from torch import nn

def make():
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3))

def with_batch():
    return make(), torch.randn(6, 12)

def needs(width):
    return nn.Linear(width, 2)

def nothing():
    return 3

def small_images():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 26 * 26, 3))

def tokens():
    return nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 4))

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
    def forward(self, one, other):
        return self.first(one) + other

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
    def forward(self, x):
        return torch.relu(self.conv(x)).mean((2, 3))
"""


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "my_model.py"
    path.write_text(MODEL)
    return path


def test_a_file(model_file: Path) -> None:
    document = as_json("doctor", "--no-stress", f"{model_file}:make", "--batch", "8")
    assert document["healthy"] is True
    assert document["findings"] == []
    assert {"layers", "metrics", "prediction"} <= set(document)
    assert document["batch"]["samples"] == 8
    assert as_json("doctor", "--no-stress", f"{model_file}:with_batch")["batch"]["samples"] == 6
    assert as_json("doctor", "--no-stress", f"{model_file}:Net", "--shape", "3,16,16")["healthy"] is True


def test_shapes_are_guessed(model_file: Path) -> None:
    """Images of 28 × 28 where those of 32 × 32 do not fit; tokens for an embedding, whatever the length."""
    assert as_json("doctor", "--no-stress", f"{model_file}:small_images", "--batch", "8")["healthy"] is True
    assert "random tokens" in invoke("doctor", "--no-stress", f"{model_file}:tokens", "--shape", "5", code=None).output


def test_a_model_that_does_not_take_the_batch(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = error("doctor", f"{model_file}:Two")
    assert "'other'" in told
    assert "--input FILE.npz" in told
    assert "(32, 1, 9, 9)" in error("doctor", f"{model_file}:small_images", "--shape", "1,9,9")

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr("isometer.doctor.diagnose", broken)
    with pytest.raises(RuntimeError, match="ours"):  # what is not the model's doing is not put down to it
        invoke("doctor", "--no-stress", f"{model_file}:make")


def test_it_says_that_code_is_executed(model_file: Path) -> None:
    assert "executing" in invoke("doctor", "--no-stress", f"{model_file}:make").stderr
    assert "executed" in " ".join(invoke("doctor", "--help", code=None).output.split())


def test_exit_code_and_findings_of_a_patient(tmp_path: Path) -> None:
    document = as_json("doctor", "--no-stress", "mlp-sigmoid-20", code=1)
    assert document["healthy"] is False
    finding = document["findings"][0]
    assert set(finding) == {
        "id",
        "severity",
        "layers",
        "evidence",
        "explanation",
        "references",
        "prescriptions",
    }
    baseline = tmp_path / "before.json"
    baseline.write_text(json.dumps(document))
    better = as_json("doctor", "--no-stress", "mlp-tanh-20", "--compare", str(baseline))["comparison"]
    assert better["better"]
    assert not better["worse"]
    text = invoke("doctor", "--no-stress", "mlp-tanh-20", "--compare", str(baseline), code=None).output
    assert "gone" in text


def test_html(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = invoke("doctor", "--no-stress", "mlp-relu-5", "--html", str(page))
    assert page.read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    assert "nothing found" in result.output


def test_spec_file(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(Spec(width=32, depth=4, activation="unit(relu)").to_json())
    document = as_json("doctor", "--no-stress", str(path))
    assert document["healthy"] is True
    assert document["model"] == "net"


def test_batches_from_files(model_file: Path, tmp_path: Path) -> None:
    array = np.random.default_rng(0).normal(size=(7, 12))
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", array)
    torch.save(torch.from_numpy(array).float(), tmp_path / "x.pt")
    for name in ("x.npy", "x.npz", "x.pt"):
        assert (
            as_json("doctor", "--no-stress", f"{model_file}:make", "--input", str(tmp_path / name))["batch"]["samples"]
            == 7
        )
    save_file({"input": torch.from_numpy(array).float()}, tmp_path / "x.safetensors")
    assert (
        as_json("doctor", "--no-stress", f"{model_file}:make", "--input", str(tmp_path / "x.safetensors"))["batch"][
            "samples"
        ]
        == 7
    )


def test_checkpoints(model_file: Path, tmp_path: Path) -> None:
    model = load_target(f"{model_file}:make", seed=5).model
    with torch.no_grad():
        model[0].weight.fill_(0.5)
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    torch.save({"state_dict": model.state_dict()}, tmp_path / "w.pt")
    for name in ("w.safetensors", "w.pt"):
        document = as_json("doctor", "--no-stress", f"{model_file}:make", "--checkpoint", str(tmp_path / name), code=1)
        assert "asymmetric-init" in {finding["id"] for finding in document["findings"]}
    torch.save({"0.weight": torch.zeros(2, 2)}, tmp_path / "other.pt")
    assert "do not fit" in error("doctor", f"{model_file}:make", "--checkpoint", str(tmp_path / "other.pt"))


class _Bomb:
    def __reduce__(self) -> tuple:
        return (Path.touch, (Path("exploded"),))


def test_hostile_files_run_nothing(model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bomb.pt").write_bytes(pickle.dumps(_Bomb()))
    np.save(tmp_path / "bomb.npy", np.array([_Bomb()], dtype=object), allow_pickle=True)
    assert "data only" in error("doctor", f"{model_file}:make", "--checkpoint", "bomb.pt")
    assert "data only" in error("doctor", f"{model_file}:make", "--input", "bomb.pt")
    assert "never unpickled" in error("doctor", f"{model_file}:make", "--input", "bomb.npy")
    assert not (tmp_path / "exploded").exists()


def test_errors_name_what_to_do(model_file: Path, tmp_path: Path) -> None:
    assert "did you mean" in error("doctor", "mlp-relu-55")
    assert "no file" in error("doctor", "nowhere.py:make")
    assert "no module" in error("doctor", "nowhere.at.all:make")
    assert "make" in error("doctor", f"{model_file}:mak")
    assert f"{model_file}:NAME" in error("doctor", str(model_file))
    assert "width" in error("doctor", f"{model_file}:needs")
    assert "expected a torch.nn.Module" in error("doctor", f"{model_file}:nothing")
    assert "positive whole numbers" in error("doctor", f"{model_file}:make", "--shape", "3,x")
    assert "a whole number from 1" in error("doctor", f"{model_file}:make", "--batch", "0")
    assert "need a TARGET" in error("doctor", "--html", "x.html")
    (tmp_path / "broken.py").write_text("def make(:\n")
    assert "not valid Python" in error("doctor", f"{tmp_path / 'broken.py'}:make")
    (tmp_path / "other.json").write_text('{"a": 1}')
    assert "isometer doctor MODEL --json" in error("doctor", "mlp-relu-5", "--compare", str(tmp_path / "other.json"))
    assert "does not exist" in error("doctor", "mlp-relu-5", "--html", str(tmp_path / "missing" / "r.html"))


def test_gallery(monkeypatch: pytest.MonkeyPatch) -> None:
    from isometer.cli import doctor

    monkeypatch.setattr(doctor, "GALLERY", ("mlp-relu-5", "mlp-dead-10"))
    document = as_json("doctor")
    assert [row["healthy"] for row in document["gallery"]] == [True, False]
    text = invoke("doctor", "--no-stress", code=None).output
    assert "mlp-dead-10" in text
    assert "nothing found" in text


def test_the_real_gallery_is_made_of_patients() -> None:
    from isometer.cli.doctor import GALLERY

    assert set(GALLERY) <= set(PATIENTS)
