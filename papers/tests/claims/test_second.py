"""Second formulas agree with the first, share nothing with them, and can say no; wrong laws do not pass."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isometer_papers.claims as package
from isometer_papers.claims import Claim, Estimate, all_claims, check, ledger
from isometer_papers.claims._claim import SecondFormula
from isometer_papers.claims._fits import beyond_power_law
from isometer_papers.claims._ledger import shipped
from isometer_papers.claims.joudaki2024.isometry import networks

BY_ID = {claim.id: claim for claim in all_claims()}
CERTIFIED = [claim for claim in BY_ID.values() if claim.second is not None]
SAME_NUMBERS = [  # the second formula computes the same two numbers; the others show the failure by another quantity
    "000/thm-14:scale",
    "001/thm-2.1",
    "001/cor-2.3",
    "001/alg-2.6:gap",
    "001/cor-4.4",
    "001/thm-5.11:case-1",
    "001/thm-5.11:case-4",
    "001/thm-5.15:pre-ln",
    "001/lem-C.8",
    "004/thm-16",
]
MODULES = sorted(Path(package.__file__ or "").parent.glob("*/second.py"))
CODE = {"__future__", "collections", "math", "numpy", "scipy"}
OWN = {"isometer_papers.claims._claim", "isometer_papers.claims.daneshmand2021.second"}


def instance_of(identifier: str) -> dict[str, Any]:
    """The shipped counterexample, as the check had it."""
    found = shipped(identifier.partition("/")[0])[identifier].counterexample
    assert found is not None
    return {key: np.array(value) if isinstance(value, list) else value for key, value in found["instance"].items()}


def test_each_belongs_to_a_statement_that_fails_as_intended() -> None:
    """All results have one; where a reader may reject the reading, it does no harm."""
    rows = {row.id: row for row in ledger()}
    assert {rows[claim.id].failure for claim in CERTIFIED} == {"result", "contestable"}
    assert {rows[claim.id].as_intended for claim in CERTIFIED} == {"refuted"}


@pytest.mark.parametrize("identifier", SAME_NUMBERS)
def test_both_formulas_give_the_same_numbers(identifier: str) -> None:
    claim, instance = BY_ID[identifier], instance_of(identifier)
    assert claim.second is not None
    assert claim.quantity is not None
    value, bound = claim.second.sides(instance)
    assert value == pytest.approx(float(claim.quantity(instance)), rel=1e-5, abs=1e-9)
    assert bound == pytest.approx(float(claim.bound(instance)), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.parent.name)
def test_they_share_nothing_with_the_theory(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
        assert {name for name in names if name not in OWN and name.partition(".")[0] not in CODE} == set()


@pytest.mark.parametrize("claim", CERTIFIED, ids=lambda claim: claim.id)
def test_without_consent_nothing_is_refuted(claim: Claim) -> None:
    fine = {"<=": 0.5, "<": 0.5, ">=": 2.0, ">": 2.0, "==": 1.0}[claim.relation]
    agreeing = replace(claim, second=SecondFormula(lambda i: (fine, 1.0), "says that all is well"), counts=(1, 1))
    assert check(agreeing).verdict != "refuted"


# --- wrong laws ------------------------------------------------------------

LAWS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "exponential": (lambda x: 0.05 * x, "holds"),
    "cube": (lambda x: 3 * np.log(x), "not"),
    "root": (lambda x: 0.5 * np.log(x), "not"),
    "level": (lambda x: 0 * x, "not"),
    "decay": (lambda x: -0.05 * x, "refuted"),
}
EXPLODING = [
    "001/claim-6.degen",
    "001/claim-6.gauss",
    "001/fig-6.2:degenerate",
    "001/fig-6.3:gaussian",
    "001/fig-6.5:without-gain",
    "001/fig-C.9:explosion",
]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("identifier", EXPLODING)
def test_exponential_growth_is_told_from_other_laws(identifier: str, law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients made by a law, with noise as the networks have it, take the place of simulated ones."""
    claim, (make, expected) = BY_ID[identifier], LAWS[law]

    def made(i: Any, depth: int, *, engine: str = "auto", shift: int = 0) -> networks.GradientRecord:
        rng = np.random.default_rng(shift)
        distance = np.maximum(depth - np.arange(depth + 1.0), 1.0)  # from the output
        noise = np.cumsum(rng.normal(0, 0.02, (i.get("runs", 32), depth + 1)), axis=1)
        return networks.GradientRecord(make(distance) + noise, None)

    monkeypatch.setattr(networks, "measured", made)
    verdict = check(claim, effort="thorough").verdict
    assert verdict == expected if expected != "not" else verdict != "holds"


@pytest.mark.parametrize("power", [-2.0, 0.5, 1.0, 4.0])
def test_a_power_law_has_no_excess(power: float) -> None:
    places = np.array([7.0, 30.0, 110.0])
    assert beyond_power_law(list(places), 3 + power * np.log(places)) == pytest.approx(0, abs=1e-14)
    assert beyond_power_law(list(places), 3 + 0.1 * places) > 0.05


def test_a_decaying_singular_value_does_not_count_as_kept() -> None:
    """σ_n that falls by a power or exponentially over 1000 layers ends below a tenth of the input's."""
    for claim in (BY_ID["001/ass-2.A1:rank"], BY_ID["003/claim-rank-preserved:rank"]):
        for last in (1000.0**-0.5, 1e-30):
            decayed = replace(claim, estimate=lambda i, rng, last=last: Estimate.of(last * rng.uniform(0.9, 1.1, 20)))
            assert check(decayed).verdict != "holds"


@pytest.mark.parametrize("identifier", ["001/lem-A.8", "001/lem-A.8:eq-A.14"])
def test_an_approach_by_a_power_is_not_exponential(identifier: str) -> None:
    """ℓ^{−2} has the logarithm −2 log ℓ: over ℓ = 400 a slope of −0.03, which is negative."""
    claim = BY_ID[identifier]
    slow = replace(claim, estimate=lambda i, rng: Estimate.of(-0.015 + 1e-4 * rng.standard_normal(48)))
    assert check(slow).verdict != "holds"
