"""The README does what it says: its Python runs, its commands run, and it opens with what a reader came for."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

from isometer.doctor.stress._plans import PLANS
from support import ROOT
from support.command import invoke
from support.site import blocks

README = (ROOT / "README.md").read_text(encoding="utf-8")
MODEL = """
from torch import nn

def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 10))
"""
ELSEWHERE = {  # commands that take long, open a page or load from the network, and the tests that run them
    "isometer doctor": "tests/cli/test_doctor.py",
    "isometer explore": "tests/explore",
    "isometer data get": "tests/data/test_obtain.py",
    "isometer reproduce": "papers/tests/cli/test_reproduce.py",
}


def plain_blocks(text: str) -> list[list[str]]:
    """The lines of fenced blocks without a language."""
    found: list[list[str]] = []
    fence: str | None = None
    for line in text.splitlines():
        if line.startswith("```"):
            if fence is None and line == "```":
                found.append([])
            fence = line if fence is None else None
        elif fence == "```":
            found[-1].append(line)
    return found


def commands() -> list[str]:
    """Every line of the README's blocks that calls the command."""
    lines = [line for block in plain_blocks(README) for line in block if line.startswith("isometer ")]
    return [re.split(r"\s+# ", line)[0].rstrip() for line in lines]


def runs_elsewhere(command: str) -> bool:
    """Whether another test runs it; `isometer doctor` alone is the gallery."""
    return any(command == one or (one != "isometer doctor" and command.startswith(one)) for one in ELSEWHERE)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder with a model and a batch in it, and stress tests of few steps."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("isometer.doctor.stress._plans.PLANS", PLANS[-1:])
    monkeypatch.setenv("COLUMNS", "80")
    Path("my_model.py").write_text(MODEL, encoding="utf-8")
    np.save("x.npy", np.random.default_rng(0).normal(size=(6, 12)))
    return tmp_path


def test_the_python_of_the_readme_runs(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    space: dict[str, object] = {"__name__": "readme"}
    for source, _ in blocks(README, "python"):
        exec(compile(source, "README.md", "exec"), space)
    printed = capsys.readouterr().out
    assert "Slow rank collapse: all inputs become alike, 1 − cos ≈ 44.41/depth²." in printed
    made = {path.name for path in quick.iterdir()}
    assert {"before-and-after.png", "report.html", "phase.png", "theory.png", "simulation.png"} <= made
    first = space["treatment"]
    assert first.before.healthy is False  # type: ignore[attr-defined]
    findings = {finding.id for finding in first.before.findings}  # type: ignore[attr-defined]
    assert {"rank-collapse", "gradient-vanishing", "wrong-gain"} <= findings
    assert first.code.startswith("from isometer")  # type: ignore[attr-defined]


def cases() -> list[object]:
    """Commands to run; those that train on real images take longest."""
    chosen = [one for one in commands() if not runs_elsewhere(one)]
    return [pytest.param(one, marks=pytest.mark.slow if "fashion-mnist" in one else ()) for one in chosen]


@pytest.mark.parametrize("command", cases())
@pytest.mark.torch
def test_a_command_of_the_readme_runs(command: str, quick: Path) -> None:
    if "claims" in command:
        pytest.importorskip("isometer_papers")
    if "fashion-mnist" in command:
        from isometer.data import find

        if find("fashion-mnist") is None:
            pytest.skip("Fashion-MNIST is not on this computer: isometer data get fashion-mnist")
    arguments = shlex.split(command)[1:]
    done = invoke(*arguments, code=None)
    assert done.exit_code == 0 or (arguments[0] == "doctor" and done.exit_code in (1, 3)), done.output
    written = [arguments[i + 1] for i, one in enumerate(arguments) if one in ("--plot", "--html")]
    assert all((quick / name).stat().st_size > 1000 for name in written)


def test_what_runs_elsewhere_is_tested_there() -> None:
    for prefix, where in ELSEWHERE.items():
        assert any(command.startswith(prefix) for command in commands()), prefix
        assert (ROOT / where).exists(), where


def test_the_readme_opens_with_a_problem_and_its_solution() -> None:
    opening = README.split("\n## ")[0]
    [(code, _)] = blocks(opening, "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    assert len(re.findall(r"^!\[", opening, flags=re.M)) == 1
    setup = README.split("\n## ")[1]
    assert len(plain_blocks(setup)[0]) <= 3, "three commands to a diagnosed model of one's own"
    for other in ("torchinfo", "TensorBoard", "muP", "neural-tangents"):
        assert other in README
