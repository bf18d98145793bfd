"""From evidence to verdicts, in the cases that leave no doubt."""

from __future__ import annotations

import json
import math

import pytest

from isometer.doctor.stress import Evidence, Outlook
from isometer.doctor.stress._outlook import judged, outlook

NAN = math.nan


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        (Evidence(0.9, 0.95, 0.9, 0.95), "trains"),
        (Evidence(NAN, 0.95, NAN, 0.9), "trains"),
        (Evidence(0.0, 0.0, 0.8, 0.9), "sick"),
        (Evidence(NAN, 0.0, NAN, 0.9), "sick"),
        (Evidence(0.01, 0.9, 0.01, 0.9), "sick"),  # nobody learns from fresh batches
        (Evidence(NAN, 0.0, NAN, 0.01), "sick"),
        (Evidence(0.0, 0.0, 0.0, 0.0, broken=True), "sick"),
    ],
)
def test_clear_evidence(evidence: Evidence, verdict: str) -> None:
    found, probability = judged(evidence)
    assert found == verdict
    assert 0 <= probability <= 1


def test_more_progress_never_makes_it_worse() -> None:
    order = ["sick", "slow", "trains"]
    found = [judged(Evidence(k / 400, k / 400, 0.9, 0.9)) for k in range(401)]
    assert [p for _, p in found] == sorted(p for _, p in found)
    places = [order.index(verdict) for verdict, _ in found]
    assert places == sorted(places)
    assert set(places) == {0, 1, 2}


def test_the_share_is_of_the_better_of_model_and_reference() -> None:
    assert Evidence(0.4, 0.9, 0.8, 0.9).share == pytest.approx(0.5)
    assert Evidence(0.8, 0.9, 0.4, 0.9).share == 1.0
    assert Evidence(NAN, 0.3, NAN, 0.6).share == pytest.approx(0.5)
    assert Evidence(0.001, 0.0, 0.002, 0.0).share < 0.1  # of nothing, a half is nothing


def test_what_the_model_could_learn_counts_against_it() -> None:
    """The same progress is less where the repaired model or a simple learner makes more of the same batches."""
    alone = judged(Evidence(0.2, 0.3, 0.2, 0.3, early=0.1))[1]
    for beside in ({"repaired": 0.9}, {"yardstick": 0.9}):
        behind, level = (judged(Evidence(0.2, 0.3, 0.2, 0.3, early=0.1, **one)) for one in (beside, {"repaired": 0.1}))
        assert behind[1] < alone
        assert level[1] == pytest.approx(alone), "what learns less says nothing"
    both = judged(Evidence(0.1, 0.3, 0.2, 0.3, early=0.05, repaired=0.9, yardstick=0.9))
    assert both[0] == "sick"


@pytest.mark.parametrize(("repaired", "verdict"), [(NAN, "trains"), (0.6, "trains"), (0.8, "slow"), (0.2, "trains")])
def test_what_learns_less_than_half_of_what_it_could_is_slow(repaired: float, verdict: str) -> None:
    """However likely it is to train: what is odd about it costs the other half."""
    seen = Evidence(0.35, 0.9, 0.4, 0.9, early=0.3, repaired=repaired)
    found, probability = judged(seen)
    assert probability > 0.9
    assert (found, seen.held_back) == (verdict, verdict == "slow")


def test_what_is_held_back_and_learns_nothing_is_sick() -> None:
    assert judged(Evidence(0.01, 0.0, 0.0, 0.0, early=0.0, repaired=0.9))[0] == "sick"


GOOD, BAD, NONE = Evidence(0.9, 0.9, 0.9, 0.9), Evidence(0.0, 0.0, 0.9, 0.9), Evidence(0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("best", "own", "verdict"),
    [
        (GOOD, GOOD, "trains"),
        (GOOD, NONE, "sick"),  # a rate at which nothing is learned, where another works
        (GOOD, Evidence(0.2, 0.3, 0.2, 0.3), "slow"),  # less than half of what is possible
        (BAD, NONE, "sick"),  # sick at every rate
        (NONE, NONE, "sick"),
    ],
)
def test_at_the_caller_s_rate(best: Evidence, own: Evidence, verdict: str) -> None:
    found = outlook("adam", best, 0.1, (0.1,), (0.5, own)).at_rate
    assert found is not None
    assert (found.rate, found.verdict) == (0.5, verdict)


def test_it_can_be_written_as_json() -> None:
    for one in (Outlook.unknown("adam"), outlook("sgd", GOOD, 0.1, (0.1,), (0.5, NONE))):
        assert json.loads(json.dumps(one.to_dict(), allow_nan=False))["optimizer"] == one.optimizer
