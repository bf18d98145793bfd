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
    assert "--model already names a network; expected only one — drop --activation" in error(
        *model, "--activation", "relu"
    )
    assert "drop --depths" in error(*model, "--depths", "1,2")
    assert "expected gaussian, data:NAME or a file" in error(*model, "--input", "orthogonal")
    assert "--eval applies to a --model" in error("kernel", "--eval")


def test_drift_sketches_and_the_limit(source: Path, tmp_path: Path) -> None:
    """Doubling the readout makes its own part stay, and those of the layers below four times as large."""
    import torch

    from isometer.doctor._loading import load_target

    model = load_target(f"{source}:with_labels").model
    torch.save(model.state_dict(), tmp_path / "first.pt")
    model[3].weight.data *= 2
    torch.save(model.state_dict(), tmp_path / "last.pt")
    given = ("kernel", "--model", f"{source}:with_labels", "--since", str(tmp_path / "first.pt"))
    found = as_json(*given, "--checkpoint", str(tmp_path / "last.pt"))["drift"]
    assert set(found) == {"total", "0", "1", "3"}
    assert found["0"]["growth"] == pytest.approx(4.0)
    assert found["0"]["turned"] == pytest.approx(0.0, abs=1e-12)
    assert found["3"]["relative"] == pytest.approx(0.0, abs=1e-12)
    assert "moved since the earlier checkpoint" in printed(*given)
    sketch = as_json("kernel", "--model", f"{source}:make", "--batch", "4", "--sketch", "16")
    assert sketch["method"] == "sketch"
    assert 0.0 < sketch["error_estimate"] < 1.0
    assert "16 random combinations of the 2 outputs" in sketch["note"]
    chain = tmp_path / "chain.py"
    chain.write_text(
        "from torch import nn\n"
        "def make():\n"
        "    layers = [one for a in (4, 300, 300) for one in (nn.Linear(a, 300, bias=False), nn.Tanh())]\n"
        "    return nn.Sequential(*layers, nn.Linear(300, 2, bias=False))\n"
    )
    limit = as_json("kernel", "--model", f"{chain}:make", "--limit", "--batch", "4")["limit"]
    assert 0.0 < limit["turned"] <= limit["distance"] < 0.5
    assert "--limit applies to a --model" in error("kernel", "--limit")
    assert "--site applies to the conjugate kernel" in error("kernel", "--model", f"{chain}:make", "--site", "0")
