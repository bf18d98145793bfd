"""All papers: the shipped verdicts are what the checks give, and the checks have teeth."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from isometer.claims import check, ledger, tightened
from isometer.claims.registry import all_claims

# cheap claims of every paper and verdict; the rest is checked under `slow`
SAMPLE = [
    "002/def-bn:unit-variance",
    "002/lem-1",
    "002/lem-2",
    "002/lem-12",
    "002/lem-12-steps:eq-78",
    "002/lem-15",
    "002/lem-15#corrected",
    "002/lem-20",
    "002/lem-20:expansion",
    "002/lem-21#corrected",
    "002/lem-18:eq-58",
    "002/prop-8:relu",
    "002/prop-13:drift",
    "002/ex-17",
    "002/thm-5",
    "002/claim-3.4:many-laws",
]
TEETH = ["002/lem-2", "002/lem-20", "002/lem-15#corrected", "002/prop-13:drift"]
BY_ID = {claim.id: claim for claim in all_claims()}
SHIPPED = {row.id: row.verdict for row in ledger()}


@pytest.mark.parametrize("identifier", SAMPLE)
def test_sample_of_checks_reproduces_the_ledger(identifier: str) -> None:
    assert check(BY_ID[identifier]).verdict == SHIPPED[identifier]


@pytest.mark.parametrize("identifier", TEETH)
def test_sample_of_mutations(identifier: str) -> None:
    claim = BY_ID[identifier]
    assert check(tightened(claim, check(claim))).verdict == "refuted"


@pytest.mark.slow
@pytest.mark.parametrize("identifier", sorted(set(BY_ID) - set(SAMPLE)))
def test_quick_checks_reproduce_the_ledger(identifier: str) -> None:
    assert check(BY_ID[identifier]).verdict == SHIPPED[identifier]


@pytest.mark.slow
@pytest.mark.parametrize("identifier", sorted(BY_ID))
def test_checks_have_teeth(identifier: str) -> None:
    """Tightened past the truth every claim that holds is refuted; statistical ones state their power."""
    claim = BY_ID[identifier]
    result = check(claim)
    if result.verdict != "holds":
        pytest.skip(f"the claim is {result.verdict}")
    if claim.statistical:
        assert result.power is not None
        assert result.power > 0.99
    assert check(tightened(claim, result, by=0.5 if claim.statistical else 0.02)).verdict == "refuted"


def test_readme_states_the_counts_of_the_ledger() -> None:
    root = Path(__file__).parent.parent
    call = [sys.executable, str(root / "docs" / "make_readme.py"), "--check"]
    assert subprocess.run(call, check=False).returncode == 0, "run python docs/make_readme.py"
