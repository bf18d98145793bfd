"""The machinery of the ledger: verdict rules, certification, statistics, mutations and storage."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from isometer.errors import IsometerError
from isometer.serialize import json_data
from isometer_papers.claims import Claim, ClaimText, Estimate, Result, Search, check, find, inventory, ledger, tightened
from isometer_papers.claims._fits import combined, exponent, intercept
from isometer_papers.claims._ledger import parsed, save, shipped, written
from isometer_papers.claims._precise import certified, eigenvalues, elementwise, lifted, numerical_rank
from isometer_papers.claims._registry import all_claims, check_consistent, claims_of, papers
from isometer_papers.claims._verdict import LEVEL, lacks_power


def numbers(low: float, high: float) -> Any:
    def generator(rng: np.random.Generator, count: int) -> Iterator[dict[str, float]]:
        return ({"x": float(x)} for x in rng.uniform(low, high, count))

    return generator


def square(low: float, high: float, relation: Any = ">=", **more: Any) -> Claim:
    """x² against x on an interval: true on [1, 2], false on [0, 1)."""
    fields: dict[str, Any] = {"quantity": lambda i: i["x"] ** 2, **more}
    return Claim("000/t", "deterministic", relation, lambda i: i["x"], {"random": numbers(low, high)}, **fields)


def noisy(mean: float, deviation: float, draws: int, relation: Any, bound: float, **more: Any) -> Claim:
    def estimate(i: Any, rng: np.random.Generator) -> Estimate:
        return Estimate.of(mean + deviation * rng.standard_normal(draws))

    fields: dict[str, Any] = {"estimate": estimate, "again": estimate, **more}
    one = {"one": lambda rng, count: iter([{"n": 1}])}
    return Claim("000/n", "expectation", relation, lambda i: bound, one, **fields)


# --- verdicts of deterministic claims ------------------------------------------------------------


def test_true_statement_holds_and_reports_its_tightness() -> None:
    result = check(square(1.25, 2))
    assert (result.verdict, result.counterexample, dict(result.instances)) == ("holds", None, {"random": 100})
    least = 1 - 1 / min(value / bound for _, value, bound in result.points)
    assert result.margin == pytest.approx(least)
    assert 1 - 1 / 1.25 <= least < 0.22


def test_false_statement_is_refuted_with_a_certificate_that_can_be_recomputed() -> None:
    result = check(square(0.5, 2))
    assert result.verdict == "refuted"
    assert result.certified_by == "mpmath, 50 digits"
    assert result.counterexample is not None
    x = result.counterexample["instance"]["x"]
    assert mpmath.mpf(x) ** 2 < mpmath.mpf(x)


def test_strict_statement_is_refuted_by_equality_only() -> None:
    at_one = {"random": lambda rng, count: iter([{"x": 1.0}])}
    assert check(replace(square(1, 2, ">"), generators=at_one)).verdict == "refuted"
    assert check(replace(square(1, 2, ">="), generators=at_one)).verdict == "holds"
    near = {"random": lambda rng, count: iter([{"x": 1.0 + 1e-12}])}
    assert check(replace(square(1, 2, ">"), generators=near)).verdict == "holds"


def test_rounding_is_no_refutation() -> None:
    """(x + 1e16) − 1e16 differs from x in float64 and not in 50 digits."""
    claim = square(0.1, 0.4, "==", quantity=lambda i: (i["x"] + 1e16) - 1e16, tolerance=1e-6)
    result = check(claim)
    assert result.verdict == "inconclusive"
    assert "not confirmed" in result.note


def test_hypotheses_select_instances() -> None:
    result = check(square(0, 2, hypotheses=lambda i: i["x"] >= 1))
    assert result.verdict == "holds"
    assert result.instances["rejected"] + result.instances["random"] == 100


def test_empty_hypotheses_need_a_witness() -> None:
    empty = square(1, 2, hypotheses=lambda i: False)
    assert check(empty).verdict == "inconclusive"
    result = check(replace(empty, witness=lambda i: "no such x"))
    assert (result.verdict, result.margin) == ("vacuous", None)
    assert "no such x" in result.note


def test_trivial_bounds_are_vacuous_unless_somewhere_better_or_refuted() -> None:
    assert check(square(1, 2, trivial=lambda i: i["x"] + 0.5)).verdict == "vacuous"
    assert check(square(1, 2, trivial=lambda i: 1.5)).verdict == "holds"
    assert check(square(0.5, 2, trivial=lambda i: i["x"] + 0.5)).verdict == "refuted"


def test_adversary_finds_what_random_instances_miss() -> None:
    """(x − 0.3)² ≥ 1e-6 fails on 0.2 % of [0, 1], far from the random instances."""
    quiet = replace(square(0.5, 1, quantity=lambda i: (i["x"] - 0.3) ** 2), bound=lambda i: 1e-6)
    assert check(quiet).verdict == "holds"
    result = check(replace(quiet, search=Search(lambda p: {"x": float(p[0])}, 1)))
    assert result.verdict == "refuted"
    assert result.counterexample is not None
    assert abs(result.counterexample["instance"]["x"] - 0.3) < 1e-3


def test_the_smallest_counterexample_is_kept() -> None:
    families = {"big": numbers(0.1, 0.9), "small": lambda rng, count: iter([{"x": 0.5}])}
    result = check(replace(square(0, 1), generators=families))
    assert result.counterexample is not None
    assert result.counterexample["instance"] == {"x": 0.5}


def test_same_claim_same_result() -> None:
    first, second = check(square(0.5, 2)), check(square(0.5, 2))
    assert replace(first, seconds=0) == replace(second, seconds=0)
    other = check(square(0.5, 2), seed=7)
    assert other.points != first.points


def test_nan_is_an_error() -> None:
    with pytest.raises(ArithmeticError, match="NaN"):
        check(square(1, 2, quantity=lambda i: math.nan))


# --- verdicts of statistical claims ------------------------------------------------------------


def test_statistical_equality_needs_power() -> None:
    sharp = check(noisy(1.0, 1.0, 40_000, "==", 1.0, resolution=0.1))
    assert sharp.verdict == "holds"
    assert sharp.power is not None
    assert sharp.power > 0.99
    blunt = check(noisy(1.0, 1.0, 400, "==", 1.0, resolution=0.1))
    assert blunt.verdict == "inconclusive"
    assert blunt.power is not None
    assert blunt.power < 0.5


def test_coarse_resolution_is_no_power() -> None:
    """However sharp the estimate: a claim that names no telling violation is not tested."""
    assert check(noisy(1.0, 1.0, 40_000, "<=", 2.0, resolution=0.5)).verdict == "holds"
    empty = check(noisy(1.0, 1.0, 40_000, "<=", 2.0, resolution=0.6))
    assert empty.verdict == "inconclusive"
    assert "too little power" in empty.note
    cases = ((1.0, 0.3, "=="), (1.0, 0.5, "<="), (1.0, 0.4, "=="), (0.98, 0.1, "=="), (0.98, 0.1, "<="))
    assert [lacks_power(*case) for case in cases] == [False, False, True, True, True]
    assert not lacks_power(None, None, "==")


@pytest.mark.parametrize(("draws", "verdict"), [(3, "inconclusive"), (16, "holds")])
def test_equal_draws_have_the_power_of_their_number(draws: int, verdict: str) -> None:
    """Three equal ranks do not exclude that one network in five has another one."""
    claim = noisy(1.0, 1.0, 10, "==", 1.0, resolution=0.3)
    result = check(replace(claim, estimate=lambda i, rng: Estimate.of([1.0] * draws)))
    assert result.verdict == verdict
    assert result.power == pytest.approx(1 - 0.7**draws)
    assert result.sees == pytest.approx(1 - 0.01 ** (1 / draws))


def test_seen_violation_is_seen_with_the_stated_chance() -> None:
    """A check with `resolution = sees` has the power 0.99."""
    blunt = check(noisy(1.0, 1.0, 400, "==", 1.0, resolution=0.1), seed=0)
    assert blunt.sees is not None
    assert blunt.sees > 0.1
    again = check(noisy(1.0, 1.0, 400, "==", 1.0, resolution=blunt.sees), seed=0)
    assert again.power == pytest.approx(0.99, abs=1e-9)


def test_statistical_inequality_that_meets_its_bound_is_inconclusive() -> None:
    assert check(noisy(1.0, 1.0, 1000, "<=", 2.0, resolution=0.2)).verdict == "holds"
    assert check(noisy(1.0, 1.0, 1000, "<=", 1.0)).verdict == "inconclusive"
    assert check(noisy(1.0, 1.0, 1000, ">=", 2.0)).verdict == "refuted"


def test_statistical_refutation_needs_a_second_estimator() -> None:
    false = noisy(1.0, 1.0, 1000, "<=", 0.0)
    result = check(replace(false, independence="other draws"))
    assert result.verdict == "refuted"
    assert "other draws" in (result.certified_by or "")
    assert check(replace(false, again=None)).verdict == "inconclusive"
    honest = replace(false, again=lambda i, rng: Estimate.of(rng.standard_normal(1000) - 1.0))
    assert check(honest).verdict == "inconclusive"


def test_true_statistical_statements_are_not_refuted() -> None:
    """2000 tests of a true equality with small samples; at 1e-6 each, one refutation has probability 2e-3."""
    claim = noisy(0.0, 1.0, 8, "==", 0.0, scale=lambda i: 1)
    assert not any(check(claim, seed=seed).verdict == "refuted" for seed in range(2000))


def test_stated_power_is_the_rate_of_refutation() -> None:
    """A violation of `resolution` is seen as often as the power says: 300 trials, 99.9 % binomial band."""
    truth, draws = 0.1, 3000
    claim = noisy(truth, 1.0, draws, "==", 0.0, scale=lambda i: 1, resolution=truth)
    power = check(claim, seed=0).power
    assert power is not None
    seen = sum(abs(_refuted_once(claim, seed)) for seed in range(300))
    low, high = stats.binom.ppf([5e-4, 1 - 5e-4], 300, power)
    assert low <= seen <= high
    assert 0.2 < power < 0.9


def _refuted_once(claim: Claim, seed: int) -> int:
    """Whether one estimate alone lies beyond the limit, as the first stage of a refutation has it."""
    assert claim.estimate is not None
    estimate = claim.estimate({}, np.random.default_rng(seed))
    return int(abs(estimate.value) > stats.t.isf(LEVEL / 2, estimate.freedom) * estimate.error)


# --- precision, fits ------------------------------------------------------------


def test_lifted_numbers_are_exact() -> None:
    high = lifted({"x": 0.1, "n": 3, "F": "tanh", "h": np.array([[0.1]])})
    assert high["x"] == mpmath.mpf(0.1)
    assert (high["n"], high["F"]) == (3, "tanh")
    assert high["h"][0, 0] == mpmath.mpf(0.1)


def test_precise_eigenvalues_and_ranks() -> None:
    with mpmath.workdps(50):
        values = eigenvalues(lifted(np.array([[2.0, 1.0], [1.0, 2.0]])))
        assert [abs(v - k) < mpmath.mpf(10) ** -45 for v, k in zip(values, (1, 3), strict=True)] == [True, True]
        nearly = lifted(np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-45]]))
        assert numerical_rank(nearly) == 2
    assert numerical_rank(np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-45]])) == 1
    assert numerical_rank(np.zeros((2, 2))) == 0


@pytest.mark.parametrize("name", ["identity", "tanh", "sin", "arctan", "relu", "hardtanh", "double"])
def test_functions_agree_in_both_precisions(name: str) -> None:
    x = np.linspace(-3, 3, 7)
    high = [float(v) for v in elementwise(name)(lifted(x))]
    assert np.allclose(elementwise(name)(x), high, rtol=1e-15, atol=1e-15)


def test_certificate_respects_the_tolerance_of_limits() -> None:
    claim = square(1, 2, "==", quantity=lambda i: i["x"] * (1 + 1e-7), tolerance=1e-4)
    assert certified(claim, {"x": 1.5}) is None


def test_fits_against_closed_forms() -> None:
    x, errors = np.array([1.0, 2.0, 4.0]), np.array([0.1, 0.2, 0.1])
    values = [Estimate(2 + 3 * a, e) for a, e in zip(x, errors, strict=True)]
    line = intercept(x.tolist(), values)
    weights = 1 / errors**2
    s, sx, sxx = weights.sum(), (weights * x).sum(), (weights * x * x).sum()
    assert line.value == pytest.approx(2)
    assert line.error == pytest.approx(math.sqrt(sxx / (s * sxx - sx**2)))
    assert exponent([1, 10], [Estimate(1, 0.1), Estimate(1000, 1)]).value == pytest.approx(3)
    assert combined([(2, Estimate(0, 0.5)), (-4, Estimate(0, 0.25))], 1.0).error == 2.0
    with pytest.raises(IsometerError, match="positive"):
        exponent([1, 2], [Estimate(-1, 0.1), Estimate(1, 0.1)])
    with pytest.raises(IsometerError, match="two estimates"):
        intercept([1.0], [Estimate(1, 0.1)])


# --- mutations ------------------------------------------------------------


@pytest.mark.parametrize("relation", ["<=", "<", "==", ">=", ">"])
def test_tightened_claims_are_refuted(relation: Any) -> None:
    quantity = {"<": 0.5, "<=": 1.0, "==": 1.0, ">=": 1.0, ">": 2.0}[relation]
    claim = square(1, 2, relation, quantity=lambda i: quantity * i["x"])
    result = check(claim)
    assert result.verdict == "holds"
    assert check(tightened(claim, result)).verdict == "refuted"


def test_tightened_statistical_claim_is_refuted() -> None:
    claim = noisy(1.0, 1.0, 40_000, "==", 1.0, resolution=0.1)
    assert check(tightened(claim, check(claim), by=0.1)).verdict == "refuted"


# --- results, registry, storage ------------------------------------------------------------


def test_results_are_json_and_round_trip() -> None:
    result = check(square(0.5, 2))
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert Result.from_dict(data) == result
    assert json_data({"a": np.float64(1.0), "b": -math.inf, "c": (1, np.ones(1))}, nonfinite="text") == {
        "a": 1.0,
        "b": "-inf",
        "c": [1, [1.0]],
    }


def test_ledger_files(tmp_path: Path) -> None:
    rows = [check(square(0.5, 2)), check(square(1.25, 2))]
    save(rows, tmp_path / "l.json")
    assert parsed((tmp_path / "l.json").read_text(encoding="utf-8")) == rows
    assert len(written(rows).splitlines()) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["l.json"]


def test_claims_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(IsometerError, match="both or neither"):
        square(1, 2, estimate=lambda i, rng: Estimate(1, 1))
    with pytest.raises(IsometerError, match="no generators"):
        replace(square(1, 2), generators={})
    one = square(1, 2)
    text = ClaimText("000/t", "I", "eq. 1", "x² ≥ x")
    other = replace(text, id="000/t#corrected")
    with pytest.raises(IsometerError, match="two claims have the ID '000/t'"):
        check_consistent([one, one], {"000/t": text})
    with pytest.raises(IsometerError, match="has no text"):
        check_consistent([one], {})
    with pytest.raises(IsometerError, match="has no check"):
        check_consistent([one], {"000/t": text, "000/u": text})
    with pytest.raises(IsometerError, match="named but does not exist"):
        check_consistent([one], {"000/t": replace(text, corrected="000/t#corrected")})
    with pytest.raises(IsometerError, match="no claim names"):
        check_consistent([one, replace(one, id=other.id)], {"000/t": text, other.id: other})
    with pytest.raises(IsometerError, match="effort is 'hard'"):
        check(one, effort="hard")  # type: ignore[arg-type]


def test_unknown_ids_get_a_hint() -> None:
    with pytest.raises(IsometerError, match="did you mean '002/lem-1'"):
        find("002/lem1")
    with pytest.raises(IsometerError, match="unknown paper '999'"):
        claims_of("999")


@pytest.mark.parametrize("paper", papers())
def test_every_inventory_id_is_answered(paper: str) -> None:
    """Present as a claim, or listed with the reason why it cannot be checked; nothing else is claimed."""
    entries = {entry.id: entry for entry in inventory(paper)}
    answered = {claim.inventory for claim in claims_of(paper)}
    assert len(entries) == len(inventory(paper))
    assert {i for i, entry in entries.items() if entry.checkable} == answered
    assert all(entry.reason for entry in entries.values() if not entry.checkable)


@pytest.mark.parametrize("paper", papers())
def test_ledger_has_every_claim_as_it_stands(paper: str) -> None:
    results = shipped(paper)
    assert list(results) == [claim.id for claim in claims_of(paper)]
    for claim in claims_of(paper):
        row = results[claim.id]
        assert (row.kind, row.relation) == (claim.kind, claim.relation)
        assert row.resolution == (claim.resolution if claim.statistical else None)
        assert (row.verdict == "refuted") == (row.counterexample is not None) == (row.certified_by is not None)


def test_failing_statements_have_corrections_that_hold() -> None:
    """Or would hold, if their checks had more power: `tools/missing_evidence.py` lists those."""
    rows = {row.id: row for row in ledger()}
    for row in rows.values():
        if row.verdict in ("refuted", "vacuous"):
            assert row.corrected is not None, row.id
            other = rows[row.corrected]
            assert other.verdict == "holds" or lacks_power(other.power, other.resolution, other.relation), row.id


def test_deterministic_claims_have_no_statistics() -> None:
    """Statements in expectation may have either: some expectations are known in closed form."""
    for claim in all_claims():
        if claim.kind == "deterministic":
            assert not claim.statistical, claim.id


# --- command and page ------------------------------------------------------------


@pytest.mark.slow
def test_workers_and_store_give_the_same_and_resume(tmp_path: Path) -> None:
    from isometer_papers.claims import check_here, check_many

    chosen = [claim for name in ("002/lem-1", "002/prop-8", "002/lem-4") for claim in find(name)]
    alone = [replace(row, seconds=0) for row in check_here(chosen)]
    found, failures = check_many(chosen, tmp_path / "store", workers=2)
    assert not failures
    assert [replace(row, seconds=0) for row in found] == alone
    again, _ = check_many(chosen, tmp_path / "store", workers=2)
    assert again == found  # seconds too: nothing was computed again
