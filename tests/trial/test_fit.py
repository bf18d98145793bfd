"""The fit of the doctor's probability, against scikit-learn, and what it may look at."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from isometer.doctor.stress._outlook import Evidence, judged, verdict_at
from isometer.trial._doubtful import doubtful
from isometer.trial._fit import (
    _PENALTY,
    THRESHOLDS,
    Cases,
    held_out,
    logistic,
    probability,
    reliability_curve,
)
from isometer.trial._records import MEMBERS, STRESS, TRUTHS, read_members, read_records, stresses, truths, write_records
from isometer.trial._seal import development
from isometer.trial._table import DOCTOR, summary, verdicts
from isometer.trial._verdict_table import verdict_counts
from support.command import as_json, error, printed


def drawn(count: int, seed: int, *, weights: tuple[float, ...] = (2.0, 1.0)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, len(weights)))
    return features, rng.uniform(size=count) < 1 / (1 + np.exp(-(features @ np.array(weights) + 1)))


def test_weights_are_those_of_scikit_learn() -> None:
    features, trains = drawn(400, 0)
    other = LogisticRegression(C=1 / (_PENALTY * len(trains)), tol=1e-10, max_iter=1000).fit(features, trains)
    np.testing.assert_allclose(logistic(features, trains), [*other.intercept_, *other.coef_[0]], rtol=1e-4)


def test_no_weight_is_negative() -> None:
    features, trains = drawn(400, 1, weights=(2.0, -1.0))
    assert logistic(features, trains)[2] == 0


def test_a_probability_does_not_see_its_own_group() -> None:
    """Flipping the truth of a group leaves its own probabilities as they are and moves those of others."""
    features, trains = drawn(90, 2)
    kin = tuple("abc"[k % 3] for k in range(90))
    names = tuple((str(k), "adam") for k in range(90))
    mine = np.array(kin) == "a"
    first = held_out(Cases(names, features, trains, kin))
    second = held_out(Cases(names, features, np.where(mine, ~trains, trains), kin))
    np.testing.assert_array_equal(first[mine], second[mine])
    assert (first[~mine] != second[~mine]).all()


def test_probabilities_that_are_right_lie_on_the_diagonal() -> None:
    rng = np.random.default_rng(3)
    chances = rng.uniform(size=20000)
    for one in reliability_curve(chances, rng.uniform(size=20000) < chances):
        assert one.low <= one.expected <= one.high
        assert abs(one.trains / one.models - one.expected) < 4 * math.sqrt(0.25 / one.models)
        assert one.interval[0] < one.trains / one.models < one.interval[1]


def test_the_doctor_says_what_the_fit_says() -> None:
    """The verdict in a report and that in the table follow from the same numbers."""
    found = json.loads((Path(__file__).parents[2] / "src/isometer/doctor/stress/fitted.json").read_text())[
        "fresh batches"
    ]
    weights = np.array([found["constant"], *found["weights"]])
    limits = THRESHOLDS["fresh batches"]
    assert {key: found[key] for key in limits} == limits
    for k in range(11):
        seen = Evidence(k / 10, 1 - k / 20, 0.5, 0.9, early=k / 20, repaired=0.6, yardstick=0.5)
        expected = float(probability(weights, np.array([seen.features()]))[0])
        assert judged(seen) == (verdict_at(expected, seen, limits), pytest.approx(expected, rel=1e-9))


def test_a_late_start_alone_is_not_sick() -> None:
    """What it learned in the end counts: beside its reference, and beside what can be learned at all."""
    late = Evidence(0.18, 0.08, 0.27, 0.6, early=0.001, repaired=0.28, yardstick=0.39)
    verdict, chance = judged(late)
    assert verdict == "slow"
    assert chance < THRESHOLDS["fresh batches"]["sick"]
    for worse in ({"fresh": 0.15}, {"yardstick": 0.9}, {"fresh": 0.07, "reference_fresh": 0.1, "repaired": math.nan}):
        assert judged(replace(late, **worse))[0] == "sick", worse


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The development half of the repository's trial, with made-up stress tests: sick models learn nothing."""
    source = Path(__file__).parents[2] / "docs" / "trial"
    for name in (MEMBERS, TRUTHS, "opinions.json", "baselines.json"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    members = development(read_members(tmp_path))[:120]
    records = {}
    known = truths(tmp_path, members).records()
    stage = stresses(tmp_path, members, ["fresh"])
    rng = np.random.default_rng(0)
    for member in members:
        one = {}
        for optimizer in ("adam", "sgd"):
            record = known.get(f"{member.name} {optimizer}")
            best = 1.0 if record is None else min(1.0, float(np.mean(record["second"][0]["scores"])))
            progress = max(0.0, 1 - best + 0.02 * rng.normal())
            one[optimizer] = {"fresh": progress, "fit": 0.5, "reference_fresh": 0.5, "reference_fit": 0.9}
            one[optimizer] |= {"broken": False, "early": progress / 2, "repaired": None, "yardstick": 0.6}
        label = f"{member.name} fresh"
        records[label] = {"of": stage._digests[label], "code": "", "error": None, **one}
    write_records(tmp_path / STRESS, records)
    return tmp_path


def test_fit_table_and_counts_from_records(folder: Path) -> None:
    found = as_json("trial", "fit", str(folder), "--out", str(folder / "fitted.json"))
    assert json.loads((folder / "fitted.json").read_text()) == found
    assert found["fresh batches"]["brier"] < 0.1
    assert min(found["fresh batches"]["weights"]) >= 0
    assert "one batch" not in found  # none of those was run
    members = development(read_members(folder))
    for one in verdict_counts(folder, members):
        assert one.sick.get("sick", 0) > 0.6 * sum(one.sick.values())
        assert one.trains.get("sick", 0) < 0.1 * sum(one.trains.values())
        known = verdicts(folder, members)[one.optimizer]
        assert {known[name].verdict for name in one.missed} <= {"sick"}
        assert {known[name].verdict for name in one.alarmed} <= {"trains"}
        assert (one.found.of - one.found.found, one.alarms.found) == (len(one.missed), len(one.alarmed))
        library = [name for name in one.alarmed if name.startswith("library-")]
        assert one.library.found == len(library) >= one.library_sound.found
        assert 0 < one.library_sound.of < one.library.of < one.alarms.of
    rows = {(row["opinion"], row["optimizer"]): row for row in summary(folder, members)["rows"]}
    assert rows[DOCTOR, "adam"]["auc"] > 0.9
    assert math.isnan(rows[DOCTOR, "adam"]["difference"])
    assert rows["NASWOT", "adam"]["difference"] < 0
    assert "Brier score" in printed("trial", "fit", str(folder))


def test_fit_needs_stress_tests(folder: Path) -> None:
    (folder / STRESS).unlink()
    assert "isometer trial examine" in error("trial", "fit", str(folder))


def test_a_model_that_could_not_be_tested_counts_as_unknown(folder: Path) -> None:
    members = development(read_members(folder))[:120]
    before = {one.optimizer: one for one in verdict_counts(folder, members)}
    records = read_records(folder / STRESS)
    known = verdicts(folder, members)["adam"]
    failed = [name for name, one in known.items() if one.verdict == "trains"][:2]
    nothing = dict.fromkeys(("fresh", "fit", "reference_fresh", "reference_fit", "early", "repaired", "yardstick"))
    records[f"{failed[0]} fresh"]["adam"] = {**nothing, "broken": False}  # nothing could be run
    del records[f"{failed[1]} fresh"]["adam"]
    write_records(folder / STRESS, records)
    after = {one.optimizer: one for one in verdict_counts(folder, members)}
    assert after["adam"].trains["unknown"] == 2
    assert sum(after["adam"].trains.values()) == sum(before["adam"].trains.values())
    assert {(name, "adam") for name in failed} <= doubtful(folder, members)
    rows = [row for row in summary(folder, members)["rows"] if row["optimizer"] == "adam"]
    assert {tuple(row["models"]) for row in rows} == {
        (sum(after["adam"].sick.values()), sum(after["adam"].trains.values()))
    }
