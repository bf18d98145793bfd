"""Areas under the curve, their intervals and the seal."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from isometer.trial._family import Blueprint
from isometer.trial._members import Member
from isometer.trial._table import _interval, _resampled, area, areas, distinct, doctor_score


def test_area_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    for size in (4, 30, 200):
        sick = rng.uniform(size=size) < 0.4
        sick[:2] = True, False
        scores = np.round(rng.normal(size=size) + sick, 1)  # rounded: with ties
        assert area(scores, sick) == pytest.approx(roc_auc_score(sick, scores), abs=1e-12)


def test_no_number_is_sickest() -> None:
    sick = np.array([True, False, False])
    assert area(np.array([math.nan, 5.0, 1.0]), sick) == 1.0
    assert math.isnan(area(np.array([1.0, 2.0]), np.array([True, True])))


def test_interval_over_families_covers() -> None:
    """95 % intervals of an area over 20 families of 10 models that share an effect cover in 85 to 99 % of 100 draws."""
    rng, covered = np.random.default_rng(1), 0
    families = [str(k) for k in range(20) for _ in range(10)]
    truth = 0.7602  # Φ(1/√2): two Gaussians of variance 1, one shifted by 1
    for draw in range(100):
        sick = np.tile(np.arange(10) % 2 == 0, 20)
        shared = np.repeat(rng.normal(size=20) * 0.5, 10)
        scores = shared + rng.normal(size=200) * math.sqrt(0.75) + sick
        low, high = _interval(areas(scores, sick, _resampled(families, draw, 120)))
        covered += low <= truth <= high
    assert 0.85 <= covered / 100 <= 0.99


def test_families_are_resampled_whole() -> None:
    draws = _resampled(["a", "a", "a", "b", "c", "c"], 0, 50)
    assert (draws[:, 0] == draws[:, 1]).all()
    assert (draws[:, 0] == draws[:, 2]).all()
    assert (draws[:, 4] == draws[:, 5]).all()
    assert (draws[:, 0] + draws[:, 3] + draws[:, 4] == 3).all()


def test_weights_are_copies() -> None:
    """A model with weight k counts as k copies of it."""
    rng = np.random.default_rng(2)
    scores, sick = rng.normal(size=20).round(1), rng.uniform(size=20) < 0.5
    weights = rng.integers(0, 3, size=(5, 20))
    for row, found in zip(weights, areas(scores, sick, weights.astype(float)), strict=True):
        copies = np.repeat(np.arange(20), row)
        assert found == pytest.approx(roc_auc_score(sick[copies], scores[copies]), abs=1e-12)


def test_severe_findings_outweigh_any_number_of_others() -> None:
    def record(*severities: str) -> dict[str, object]:
        return {"error": None, "findings": [{"id": "x", "severity": one} for one in severities]}

    ladder = [record(), record("moderate"), record(*["moderate"] * 9), record("severe"), record("severe", "moderate")]
    scores = [doctor_score(one) for one in ladder]
    assert scores == sorted(scores)
    assert len(set(scores)) == len(scores)
    assert doctor_score({"error": "RuntimeError: no", "findings": []}) == math.inf


def test_a_model_that_was_drawn_twice_counts_once() -> None:
    def member(place: int, fault: str | None, severity: dict[str, float]) -> Member:
        blueprint = Blueprint("friedman", 16, 2)
        return Member(f"moe-mlp/{place}", "moe-mlp", "0", blueprint, blueprint, fault, severity, False, 0.01)

    drawn = [
        member(0, None, {}),
        member(1, "one-zero", {"place": 0.5}),
        member(2, "one-zero", {"place": 0.5}),
        member(3, "one-zero", {"place": 0.6}),
        member(4, None, {}),  # sound, with weights of its own
    ]
    assert [one.name for one in distinct(drawn)] == [f"moe-mlp/{place}" for place in (0, 1, 3, 4)]
