"""`isometer doctor --treat` and `isometer patients` as a user runs them."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file

from isometer.doctor.patients import PATIENTS, patient
from support.command import as_json, error, invoke, printed
from support.quick_look import quick_look

# --- trials, report, command ------------------------------------------------------------------------------------------


def test_command_treats_tries_and_saves(tmp_path: Path) -> None:
    weights, page = tmp_path / "treated.safetensors", tmp_path / "report.html"
    files = ["--save", str(weights), "--html", str(page)]
    treatment = as_json(
        "doctor", "mlp-relu-default-10", "--no-stress", "--input", "digits", "--treat", "--trial", "3", *files
    )["treatment"]
    assert {"applied", "before", "after", "code", "trial"} <= set(treatment)
    assert treatment["applied"] == ["principled-gain"]
    assert treatment["before"]["findings"]
    assert treatment["after"]["healthy"]
    assert treatment["trial"]["steps"] == 3
    model = patient("mlp-relu-default-10").model()
    model.load_state_dict(load_file(weights))
    assert quick_look(model, patient("mlp-relu-default-10").example()[0]).healthy
    assert "In your own code" in page.read_text(encoding="utf-8")


def test_command_on_a_terminal_and_its_errors(tmp_path: Path) -> None:
    arguments = ["doctor", "mlp-relu-default-10", "--no-stress", "--treat", "zero-bias,pre-norm", "--layers", "2"]
    assert "refused pre-norm" in invoke(*arguments, code=None).stdout
    for arguments, words in (
        (["--trial", "5"], "need --treat"),
        (["--treat", "--save", "x.pt"], "safetensors"),
        (["--treat", "nonsense"], "unknown prescription"),
        (["--treat", "--trial", "0"], "a whole number from 1"),
    ):
        assert words in error("doctor", "mlp-relu-default-10", *arguments)


SOFTMAX = """
import torch
from torch import nn


def make():
    torch.manual_seed(0)
    hidden = [module for _ in range(4) for module in (nn.Linear(16, 16), nn.Softmax(-1))]
    inputs = torch.randn(64, 16)
    return nn.Sequential(*hidden, nn.Linear(16, 2)), inputs, (inputs[:, 0] > 0).long()
"""


def test_command_treats_by_short_trainings(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SOFTMAX)
    arguments = ["doctor", f"{tmp_path / 'model.py'}:make", "--treat", "--optimizer", "sgd"]
    document = as_json(*arguments)
    treatment = document["treatment"]
    assert document["causes"][0]["kind"] == "activation"
    assert treatment["cured"]
    assert treatment["applied"][0] == "exchange-activation"
    first = treatment["steps"][0]
    assert first["effect"] > 0.05
    assert first["progress"] == [pytest.approx(0.0, abs=0.02), pytest.approx(first["effect"], abs=0.02)]
    assert treatment["trains"]["sgd"]["verdict"] == "trains"
    text = " ".join(invoke(*arguments, "--layers", "1").stdout.split())
    assert "Causes 1 `1`, `3`, `5` and 1 more — a softmax between layers" in text
    assert "✓ applied exchange-activation (architecture): progress 0.00 →" in text


def test_patients_are_listed_with_condition_and_outcome() -> None:
    rows = {row["name"]: row for row in as_json("patients")["patients"]}
    assert set(rows) == set(PATIENTS)
    assert rows["mlp-dead-10"]["condition"] == list(PATIENTS["mlp-dead-10"].findings)
    assert rows["mlp-dead-10"]["treatment"]["applied"] == ["redraw"]
    assert "mlp-dead-10" in printed("patients", "--family", "mlp")
    assert error("patients", "--family", "x")
