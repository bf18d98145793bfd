"""Which records of a trial count as of the present code."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from isometer.run import code_version
from isometer.trial._records import TrialStage, read_records, write_records
from isometer.trial._truth import truth_cell

CELL = {
    "family": "mlp-relu",
    "blueprint": {"task": "friedman", "width": 8, "depth": 2, "batch": 16, "options": {"activation": "ReLU"}},
    "fault": None,
    "severity": {},
    "optimizer": "adam",
    "seeds": [0],
    "steps": [1, 2],
}


@pytest.fixture
def stage(tmp_path: Path) -> TrialStage:
    """One cell that was computed by the present code, of a kind that other code has to compute again."""
    made = TrialStage(tmp_path, "opinions.json", truth_cell, {"one": CELL}, renew=True)
    with ThreadPoolExecutor(1) as pool:
        assert not made.run(executor=pool)
    return made


def _as_of(stage: TrialStage, code: str) -> None:
    write_records(stage.path, {"one": {**stage.records()["one"], "code": code}})


def test_a_record_names_the_version_and_at_least_twelve_digits_of_the_code(stage: TrialStage) -> None:
    code = read_records(stage.path)["one"]["code"]
    assert re.fullmatch(r"[\w.]+\+[0-9a-f]{12,}", code)
    assert code == code_version(truth_cell)
    assert stage.outdated() == []


def test_a_short_record_of_the_present_code_still_counts(stage: TrialStage) -> None:
    """As in files that were written when twelve characters were kept."""
    _as_of(stage, code_version(truth_cell)[:12])
    assert stage.outdated() == []


@pytest.mark.parametrize("kept", [12, None])
def test_a_record_that_differs_in_its_last_digit_is_of_other_code(stage: TrialStage, kept: int | None) -> None:
    code = code_version(truth_cell)[:kept]
    _as_of(stage, code[:-1] + ("0" if code[-1] != "0" else "1"))
    assert stage.outdated() == ["one"]
