"""The truth by training: rates, rounds, verdicts and their intervals."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from isometer.trial import _truth
from isometer.trial._truth import RATES, compare, truth_cell

CELL: dict[str, Any] = {
    "family": "moe-mlp",
    "blueprint": {
        "task": "friedman",
        "width": 32,
        "depth": 2,
        "batch": 64,
        "options": {"experts": 4, "top": 1, "skip": 1.0, "norm": True, "sharp": 1.0},
    },
    "fault": None,
    "severity": {},
    "optimizer": "adam",
    "seeds": [0, 1, 2],
    "steps": [40, 160],
}


def with_scores(
    monkeypatch: pytest.MonkeyPatch, score: Any, **more: Any
) -> tuple[dict[str, Any], list[tuple[float, int, int]]]:
    """The record of a cell whose runs end as `score(rate)` says, and which runs there were."""
    runs: list[tuple[float, int, int]] = []

    def pretend(cell: Any, optimizer: str, rate: float, *, seed: int, steps: int) -> float:
        runs.append((rate, seed, steps))
        return float(score(rate))

    monkeypatch.setattr(_truth, "final_score", pretend)
    return json.loads(truth_cell({**CELL, **more}, 0)["record"].item()), runs


def test_rounds_are_those_of_successive_halving(monkeypatch: pytest.MonkeyPatch) -> None:
    record, runs = with_scores(monkeypatch, lambda rate: 0.2 + 0.1 * abs(math.log(rate / 1.6e-3)))
    assert [steps for *_, steps in runs] == [40] * 5 + [160] * 6
    assert {seed for _, seed, steps in runs if steps == 160} == {0, 1, 2}
    assert record["second"][0]["rate"] == pytest.approx(1.6e-3)
    assert compare(record, record).inside


@pytest.mark.parametrize(
    ("early", "good"),
    [
        ({0.0064: 0.9, 0.0256: 0.8}, 0.0064),  # the best is unstable later, and was first by far
        ({0.0001: 0.96, 0.0004: 0.97, 0.0016: 0.95}, 0.0004),  # the lower neighbour is third
        ({0.0001: 0.96, 0.0004: 0.95, 0.0016: 1.05}, 0.0016),  # nothing is learned yet; the upper neighbour is last
    ],
)
def test_three_rates_are_the_best_and_its_neighbours(
    monkeypatch: pytest.MonkeyPatch, early: dict[float, float], good: float
) -> None:
    """One rate is good in the end; of two rates it is missed where it is not among the best two early on."""

    def pretend(cell: Any, optimizer: str, rate: float, *, seed: int, steps: int) -> float:
        if steps == 40:
            return early.get(rate, 1.3)
        return 0.3 if rate == good else 1.0

    monkeypatch.setattr(_truth, "final_score", pretend)
    found = {}
    for rates in (2, 3):
        record = json.loads(truth_cell({**CELL, "rates": rates}, 0)["record"].item())
        assert len(record["second"]) == rates
        found[rates] = record["second"][0]["scores"]
    assert found[3] == [0.3, 0.3, 0.3]
    assert (found[2] == [0.3, 0.3, 0.3]) == (good == 0.0064)


def test_a_rate_above_the_best_that_is_clearly_behind_makes_way_for_the_second_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    early = {0.0001: 0.7, 0.0004: 0.6, 0.0016: 0.5, 0.0064: 0.9}
    runs: list[tuple[float, int]] = []

    def pretend(cell: Any, optimizer: str, rate: float, *, seed: int, steps: int) -> float:
        runs.append((rate, steps))
        return early.get(rate, math.inf)

    monkeypatch.setattr(_truth, "final_score", pretend)
    truth_cell({**CELL, "rates": 3}, 0)
    assert {rate for rate, steps in runs if steps == 160} == {0.0001, 0.0004, 0.0016}


def test_rate_below_the_grid_is_trained_where_no_rate_makes_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    record, _ = with_scores(monkeypatch, lambda rate: 1.0, rates=3)
    assert len(record["second"]) == 3
    assert compare(record, record_of(0.3, 0.31, 0.32)).verdict == "sick"


@pytest.mark.parametrize("optimizer_rate", [1e-6, 1e-5, 0.3, 1.0])
def test_grid_follows_the_best_rate_outwards(monkeypatch: pytest.MonkeyPatch, optimizer_rate: float) -> None:
    """A best rate up to three factors beyond the five is found, with neighbours on both sides."""
    record, _ = with_scores(monkeypatch, lambda rate: 0.2 + 0.05 * abs(math.log(rate / optimizer_rate)))
    factor = RATES["adam"][1]
    assert abs(math.log(record["second"][0]["rate"] / optimizer_rate)) <= math.log(factor)
    assert compare(record, record).inside


def test_best_rate_at_the_end_of_the_grid_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    record, _ = with_scores(monkeypatch, lambda rate: 0.5 - 0.01 * math.log(rate))
    assert not compare(record, record).inside


def test_runs_that_diverge_and_runs_at_chance_are_no_improvement(monkeypatch: pytest.MonkeyPatch) -> None:
    record, _ = with_scores(monkeypatch, lambda rate: math.inf if rate > 1e-3 else 1.7)
    assert record["second"][0]["scores"] == [1.0, 1.0, 1.0]
    sound = {"second": [{"rate": 1e-3, "scores": [0.3, 0.31, 0.32]}]}
    verdict = compare(record, sound)
    assert (verdict.verdict, verdict.share) == ("sick", 0.0)


def record_of(*scores: float) -> dict[str, Any]:
    return {"second": [{"rate": 1.0, "scores": list(scores)}]}


@pytest.mark.parametrize(
    ("own", "sound", "expected"),
    [
        ((0.40, 0.41, 0.42), (0.40, 0.41, 0.42), "trains"),
        ((0.95, 0.96, 0.97), (0.40, 0.41, 0.42), "sick"),
        ((0.70, 0.71, 0.72), (0.40, 0.41, 0.42), "slow"),
        ((0.40, 0.99, 0.41), (0.40, 0.41, 0.42), "slow"),  # two of three seeds train
        ((0.99, 0.55, 0.99), (0.40, 0.41, 0.42), "slow"),  # one of three seeds trains
        ((0.50, 0.50, 0.50), (0.97, 0.98, 0.99), "unknown"),
        ((1.0, 1.0, 1.0), (0.07, 1.0, 1.0), "unknown"),  # the sibling itself trains from one of three seeds
    ],
)
def test_verdicts(own: tuple[float, ...], sound: tuple[float, ...], expected: str) -> None:
    assert compare(record_of(*own), record_of(*sound)).verdict == expected


def test_interval_of_a_share_covers() -> None:
    """Of 2000 intervals of 90 % of a ratio of two means of three, 85 to 99 % cover; t with 2 degrees is careful."""
    rng, covered = np.random.default_rng(0), 0
    for _ in range(2000):
        own, sound = rng.normal(0.7, 0.03, 3), rng.normal(0.4, 0.03, 3)
        found = compare(record_of(*own), record_of(*sound))
        covered += found.low <= 0.3 / 0.6 <= found.high
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], 2000, 0.9) / 2000
    assert low - 0.02 < covered / 2000 < high + 0.06


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_training_tells_a_broken_model_from_its_sibling(optimizer: str) -> None:
    short = {**CELL, "optimizer": optimizer, "steps": [3, 12], "seeds": [0, 1]}
    sound = json.loads(truth_cell(short, 0)["record"].item())
    broken = json.loads(truth_cell({**short, "fault": "input-lost"}, 0)["record"].item())
    assert compare(sound, sound).verdict == "trains"
    assert compare(broken, sound).verdict == "sick"


def test_all_randomness_comes_from_the_seeds_of_the_cell() -> None:
    short = {**CELL, "fault": "input-drowned", "severity": {"factor": 1.0}, "steps": [2, 4], "seeds": [0]}
    assert truth_cell(short, 0)["record"].item() == truth_cell(short, 1)["record"].item()
