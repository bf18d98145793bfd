"""`isometer kernel --model`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.command import as_json, error, printed

pytest.importorskip("torch")

SOURCE = """
import torch
from torch import nn

def make():
    print("building")
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).double()

def with_labels():
    return make(), torch.randn(6, 3).double(), torch.tensor([0, 1, 0, 1, 1, 0])
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


def test_the_kernel_of_a_model_in_a_file(source: Path, tmp_path: Path) -> None:
    import torch

    from isometer import empirical_kernel
    from isometer.doctor._loading import load_target

    found = as_json("kernel", "--model", f"{source}:with_labels", "--out", str(tmp_path / "k.npz"))
    target = load_target(f"{source}:with_labels")
    kernel = empirical_kernel(target.model, target.batch)
    np.testing.assert_allclose(found["kernel"], kernel.matrix, rtol=1e-12)
    assert found["kind"] == "ntk"
    assert found["condition_number"] == pytest.approx(kernel.condition_number)
    assert set(found["alignment"]) == {"inputs", "labels"}
    assert found["alignment"]["labels"] == pytest.approx(kernel.alignment(target.target.numpy()))
    assert found["rates"]["sgd_momentum"]["rate"] == pytest.approx(1.9 * found["rates"]["sgd"]["rate"], rel=1e-3)
    assert found["rates"]["adam"]["rate"] > 0
    assert sum(found["shares"].values()) == pytest.approx(1.0)
    with np.load(tmp_path / "k.npz") as saved:
        np.testing.assert_allclose(saved["kernel"], kernel.matrix, rtol=1e-12)
        np.testing.assert_allclose(sum(saved[name] for name in saved if name.startswith("part:")), saved["kernel"])
    assert torch.is_tensor(target.batch)


def test_batches_files_modes_and_pictures(source: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(5, 3)))
    given = ("kernel", "--model", f"{source}:make", "--input", str(tmp_path / "x.npy"))
    trained = as_json(*given, "--plot", str(tmp_path / "k.png"))
    assert (trained["inputs"], trained["mode"], trained["batch"]) == (5, "train", "x.npy")
    assert "adam" not in trained["rates"]
    assert (tmp_path / "k.png").stat().st_size > 1000
    evaluated = as_json(*given, "--eval")
    assert evaluated["mode"] == "eval"
    assert evaluated["kernel"] != trained["kernel"]
    features = as_json(*given, "--kind", "nngp")
    assert (features["kind"], features["rates"]) == ("nngp", {})
    card = printed("kernel", "--model", f"{source}:make", "--batch", "4")
    assert "gradient descent" in card
    assert "with momentum 0.9" in card
    assert "share of the trace" in card


def test_what_does_not_go_together(source: Path) -> None:
    model = ("kernel", "--model", f"{source}:make")
    assert "--model brings its own network; expected no other — drop --activation" in error(
        *model, "--activation", "relu"
    )
    assert "drop --depths" in error(*model, "--depths", "1,2")
    assert "expected gaussian, data:NAME or a file" in error(*model, "--input", "orthogonal")
    assert "are about a --model" in error("kernel", "--eval")
