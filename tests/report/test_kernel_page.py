"""The tangent kernel in the doctor's report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isometer.report._kernel_page import kernel_section
from support.command import invoke, printed

pytest.importorskip("torch")

SOURCE = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)), torch.randn(6, 3)
"""


def test_the_panel_of_a_page_and_on_request(tmp_path: Path) -> None:
    """Only a page or --kernel brings it; its numbers are those of `empirical_kernel`."""
    from isometer import empirical_kernel
    from isometer.doctor._loading import load_target

    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    given = ("doctor", f"{path}:make", "--no-stress")
    assert "Tangent kernel" not in printed(*given)
    assert "Tangent kernel of the batch" in printed(*given, "--html", str(tmp_path / "r.html"))
    assert '<section id="kernel"' in (tmp_path / "r.html").read_text()
    found = json.loads(invoke(*given, "--kernel", "--json").stdout)["kernel"]
    target = load_target(f"{path}:make")
    expected = empirical_kernel(target.model, target.batch)
    assert found["condition_number"] == pytest.approx(expected.condition_number, rel=1e-3)
    assert found["rates"]["loss"] == "mean squared error"
    assert found["rates"]["sgd_momentum"]["rate"] == pytest.approx(1.9 * found["rates"]["sgd"]["rate"])


def test_a_long_kernel_that_nobody_asked_for_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isometer.empirical._assembly._FLOPS", 1.0)  # a slow computer
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    told = printed("doctor", f"{path}:make", "--no-stress", "--html", str(tmp_path / "r.html"))
    assert "not calculated" in told
    assert "--kernel" in told


def test_names_are_escaped_and_infinite_numbers_shown() -> None:
    numbers = {"condition_number": "inf", "effective_rank": 1.0, "inputs": 2, "largest_eigenvalue": 1.0}
    page = kernel_section({**numbers, "spectrum": [0.0, 1.0], "shares": {"<b>": 1.0}, "alignment": {}, "rates": {}})
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "∞" in page
