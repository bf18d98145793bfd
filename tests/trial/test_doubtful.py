"""Who is asked about causes and treatment: everyone who is sick, and everyone whom the doctor does not trust."""

from __future__ import annotations

from pathlib import Path

import pytest

from isometer.doctor.stress._outlook import judged
from isometer.trial._doubtful import doubtful, worth_treating
from isometer.trial._fit import evidence
from isometer.trial._members import Member
from isometer.trial._records import OPTIMIZERS, read_members, stresses
from isometer.trial._seal import development
from isometer.trial._table import verdicts
from isometer.trial._treated_table import UNTREATABLE

FOLDER = Path(__file__).parents[2] / "docs" / "trial"


@pytest.fixture(scope="module")
def members() -> list[Member]:
    return development(read_members(FOLDER))


def test_the_sick_and_the_distrusted_are_doubtful_and_nobody_else(members: list[Member]) -> None:
    found, truth = doubtful(FOLDER, members), verdicts(FOLDER, members)
    seen = stresses(FOLDER, members, ["fresh"]).records()
    for member in members:
        for optimizer in OPTIMIZERS:
            known = truth[optimizer].get(member.name)
            sick = known is not None and known.verdict == "sick"
            one = evidence(seen.get(f"{member.name} fresh", {}), optimizer)
            distrusted = one is not None and judged(one)[0] != "trains"
            assert ((member.name, optimizer) in found) == (sick or distrusted)
    assert 20 < len(found) < len(members), "most models train, and the doctor says so"


def test_what_no_treatment_can_undo_is_not_treated(members: list[Member]) -> None:
    members = members[:60]  # their models are built
    faults = {member.name: member.fault for member in members}
    chosen, truth = worth_treating(FOLDER, members), verdicts(FOLDER, members)
    assert chosen < doubtful(FOLDER, members)
    for name, optimizer in chosen:
        verdict = truth[optimizer][name].verdict
        assert verdict == "trains" or (verdict == "sick" and faults[name] not in UNTREATABLE)
