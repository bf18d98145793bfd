"""`isometer scaling` as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import as_json, error, invoke

MODEL = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def make(width, depth):
    print("made")
    blocks = [Block(width) for _ in range(depth)]
    return nn.Sequential(nn.Linear(8, width), *blocks, nn.LayerNorm(width), nn.Linear(width, 4))


def wide(width):
    return nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, width))


number = 3
"""
QUICK = ("--widths", "16,32,64", "--seeds", "2", "--steps", "1")


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "model.py").write_text(MODEL)
    return str(tmp_path / "model.py")


def test_scaling_command(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    picture, code = tmp_path / "s.png", tmp_path / "s.py"
    options = (*QUICK, "--depths", "2,4,8", "--rates", "1e-3,1e-2,1e-1", "--sweep-steps", "4")
    result = invoke("scaling", f"{model}:make", *options, "--plot", str(picture), "--code", str(code), code=1)
    text = result.stdout
    for words in ("exponents of the width", "updates: hidden", "CompleteP", "too high", "loss after 4 steps", "next:"):
        assert words in text
    conclusion = [line for line in text.splitlines() if line.startswith("→")]
    assert len(conclusion) == 1
    assert "Resembles standard" in conclusion[0]
    tables = text[: text.index("→")]
    assert max(map(len, tables.splitlines())) <= 80
    assert picture.stat().st_size > 10_000
    assert "def scaled_groups(model, width, depth, lr" in code.read_text()
    assert "def branch_multiplier(depth)" in text


def test_scaling_as_json(model: str) -> None:
    found = as_json("scaling", f"{model}:wide", *QUICK[:-1], "0", "--rates", "none")
    assert found["depths"] == []
    assert found["sweep"] is None
    assert found["scales"] is True  # initial activations of torch keep their size
    assert {one["group"] for one in found["verdicts"]} == {"input", "hidden"}


def test_scaling_refuses(model: str) -> None:
    assert "whole numbers" in error("scaling", f"{model}:make", "--widths", "big")
    assert "at least two" in error("scaling", f"{model}:make", "--widths", "16", "--depths", "2")
    assert "names no factory" in error("scaling", model)
    assert "is a int" in error("scaling", f"{model}:number")
    assert "there is no 'other'" in error("scaling", f"{model}:other")
    assert "takes width" in error("scaling", f"{model}:wide", *QUICK, "--depths", "2,4")
    assert "--seeds is 0" in error("scaling", f"{model}:make", "--seeds", "0")
    assert "unknown optimizer" in error("scaling", f"{model}:wide", *QUICK, "--optimizer", "adamm")
