"""All papers: the shipped verdicts are what the checks give, and the checks have teeth."""

from __future__ import annotations

import pytest

from isometer.data import load
from isometer.errors import IsometerError
from isometer_papers.claims import check, ledger, tightened
from isometer_papers.claims._registry import all_claims

# cheap claims of every paper and verdict; the rest is checked under `slow`
SAMPLE = [
    "000/example-circle:gamma",
    "000/lem-2",
    "000/fig-8",
    "000/thm-10:eq-31-mixed",
    "000/thm-13:item-1",
    "000/thm-14:item-4",
    "000/K-gt-ip#corrected",
    "000/eq-61-62:61",
    "001/thm-5.11:case-4",
    "001/thm-5.11:case-4#corrected",
    "001/cor-4.4",
    "001/thm-4.3",
    "001/thm-3.2",
    "001/lem-B.1",
    "001/lem-5.6:pairing",
    "001/lem-3.3#corrected",
    "001/lem-A.8:eq-A.13",
    "001/claim-2.minsv",
    "001/cor-6.4",
    "001/cor-6.4#corrected",
    "001/lem-C.8",
    "001/lem-C.9:eq-C.49",
    "001/lem-C.15:eq-C.111",
    "001/weingarten:E1",
    "001/lem-C.21",
    "001/cor-C.19:multiplicity",
    "003/thm-1",
    "003/thm-1#corrected",
    "003/lem-8",
    "003/alg-iter-mlp:gap",
    "003/lem-10:expansion",
    "003/lem-7",
    "004/lem-21:right",
    "004/lem-26:sharp",
    "004/eq-7",
    "004/thm-37#corrected",
    "004/lem-40",
    "004/thm-16",
    "004/lem-54#corrected",
    "004/fact-1:rate-below",
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
TEETH = [
    "000/lem-2",
    "001/thm-4.3",
    "001/thm-5.8:rate",
    "002/lem-2",
    "002/lem-15#corrected",
    "002/prop-13:drift",
    "003/lem-8",
    "004/lem-21:right",
]
NEEDS_DATA = "001/tab-C.1"  # Fashion-MNIST
BY_ID = {claim.id: claim for claim in all_claims()}
SHIPPED = {row.id: row.verdict for row in ledger()}


def skip_without_data(identifier: str) -> None:
    if identifier.startswith(NEEDS_DATA):
        try:
            load("fashion-mnist")
        except IsometerError as problem:
            pytest.skip(str(problem))


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
    skip_without_data(identifier)
    assert check(BY_ID[identifier]).verdict == SHIPPED[identifier]


@pytest.mark.slow
@pytest.mark.parametrize("identifier", sorted(BY_ID))
def test_checks_have_teeth(identifier: str) -> None:
    """Tightened past the truth every claim that holds is refuted; statistical ones state their power."""
    skip_without_data(identifier)
    claim = BY_ID[identifier]
    result = check(claim)
    if result.verdict != "holds":
        pytest.skip(f"the claim is {result.verdict}")
    if claim.statistical:
        assert result.power is not None
        assert result.power > 0.99
    assert check(tightened(claim, result, by=0.5 if claim.statistical else 0.02)).verdict == "refuted"
