"""Comparisons of runs: their power against simulation, their decisions, and verdicts that do not hang on a draw."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import xarray

from isometer_papers.studies import Compared, Reading, all_studies, find
from isometer_papers.studies._comparisons import (
    above,
    all_of,
    by_reading,
    not_below,
    ordered,
    plain,
    rising,
    similar,
    surely_less,
)
from isometer_papers.studies._two_draws import Effort, decided_by, not_decidable, read_twice

# --- power ------------------------------------------------------------------


def samples(deviations: tuple[float, float], runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Two samples whose deviations are exactly these."""
    base = np.arange(runs) - (runs - 1) / 2
    base /= base.std(ddof=1)
    return base * deviations[0], base * deviations[1]


@pytest.mark.parametrize(("runs", "gap"), [(4, 3.0), (8, 1.5), (20, 0.8)])
def test_power_of_an_order_is_that_of_simulated_tests(runs: int, gap: float) -> None:
    told = ordered(*samples((1.0, 1.0), runs), gap=gap).power
    rng = np.random.default_rng(runs)
    draws = rng.standard_normal((2000, 2, runs))
    seen = np.mean([surely_less(a, b + gap) for a, b in draws])
    # 2000 draws: a standard deviation of at most 0.011; 4 of them, and Welch's degrees of freedom vary with the draw
    assert told == pytest.approx(seen, abs=0.045 if runs > 4 else 0.09)


def test_power_of_a_similarity_is_that_of_simulated_tests() -> None:
    told = similar(*samples((1.0, 1.0), 10), 2.0).power
    draws = np.random.default_rng(5).standard_normal((2000, 2, 10))
    assert told == pytest.approx(np.mean([similar(a, b, 2.0).seen is True for a, b in draws]), abs=0.05)


@pytest.mark.parametrize("gap", [0.5, 1.0, 3.0])
def test_the_runs_that_are_needed_are_the_least_with_enough_power(gap: float) -> None:
    needed = ordered(*samples((1.0, 1.0), 4), gap=gap).needed
    assert needed is not None
    powers = [ordered(*samples((1.0, 1.0), runs), gap=gap).power for runs in (needed - 1, needed)]
    assert powers[0] < 0.9 <= powers[1]


def test_no_number_of_runs_is_told_where_none_will_do() -> None:
    assert ordered(*samples((1.0, 1.0), 4), gap=1e-4).needed is None


def test_runs_without_deviation_see_everything() -> None:
    found = ordered([1.0, 1.0], [1.0, 1.0], gap=0.1)
    assert (found.seen, found.power, found.needed) == (False, 1.0, 2)


# --- decisions --------------------------------------------------------------


def test_false_positives_are_as_rare_as_the_level() -> None:
    draws = np.random.default_rng(1).standard_normal((3000, 2, 8))
    decided = [ordered(a, b).seen is not None for a, b in draws]
    assert np.mean(decided) < 0.03  # two tests at 1 %: 0.02, with a deviation of 0.0026


def test_a_difference_surely_below_the_gap_is_not_seen() -> None:
    a, b = np.array([0.50, 0.51, 0.49, 0.50]), np.array([0.501, 0.511, 0.489, 0.505])
    assert ordered(a, b).seen is None
    assert ordered(a, b, gap=0.05).seen is False
    assert ordered(a, b, gap=0.005).seen is None


def test_similar_needs_more_than_near_means() -> None:
    wide = np.array([0.2, 0.6, 0.4, 0.5]), np.array([0.3, 0.5, 0.45, 0.44])
    assert abs(wide[0].mean() - wide[1].mean()) < 0.03
    assert similar(*wide, 0.03).seen is None


def test_what_may_be_at_the_floor_is_undecided() -> None:
    floor, near = np.array([0.45, 0.46, 0.44, 0.45]), np.array([0.452, 0.46, 0.442, 0.456])
    assert not_below(floor, near, gap=0.05).seen is None
    assert not_below(floor, near + 0.05, gap=0.05).seen is True
    assert not_below(floor, near - 0.05, gap=0.05).seen is False


def test_all_of_keeps_the_weakest_comparison() -> None:
    strong, weak = Compared(None, 0.1, 0.1, 4, 0.8, 5), Compared(None, 0.1, 0.5, 4, 0.1, 90)
    assert all_of([strong, weak, True]) is weak
    assert plain(all_of([weak, False])) is False


def test_above_a_threshold() -> None:
    assert above([0.3, 0.31, 0.3], 0.2, gap=0.1).seen is True
    assert above([0.1, 0.11, 0.1], 0.2, gap=0.1).seen is False
    assert above([0.2, 0.2], 0.2, gap=0.1).seen is None


def test_readings_are_judged_apart() -> None:
    seen = {"shared": True, "in words a": False, "in words b": True}
    assert by_reading(seen, {"a": "words a", "b": "words b"}) == "By reading: partly (words a), agree (words b)."


# --- two draws --------------------------------------------------------------


def twice(values: list[float]) -> tuple[Reading, dict]:
    def read(result: xarray.Dataset, settings: dict) -> Reading:
        return Reading({}, {"it is above": above(result["x"], 0.0, gap=1.0)})

    study = dataclasses.replace(find("001/fig-2.5"), read=read)
    return read_twice(study, xarray.Dataset({"x": ("run", values)}), {"run": list(range(len(values)))})


def test_halves_that_agree_leave_the_verdict() -> None:
    reading, halves = twice([1.0, 1.1, 0.9, 1.0, 1.05, 0.95])
    assert reading.verdict == "agree"
    assert halves["verdicts"] == ["agree", "agree"]
    assert halves["statements"] == {"it is above": [True, True]}


def test_a_statement_that_hangs_on_the_draw_is_undecided() -> None:
    def read(result: xarray.Dataset, settings: dict) -> Reading:
        return Reading({}, {"it is above": bool(result["x"].mean() > 0)})

    study = dataclasses.replace(find("001/fig-2.5"), read=read)
    result = xarray.Dataset({"x": ("run", [3.0, -1.0, 3.0, -1.0])})
    reading, halves = read_twice(study, result, {"run": [0, 1, 2, 3]})
    assert halves["statements"]["it is above"] == [True, False]
    assert reading.verdict == "unclear"
    assert "hangs on the draw" in reading.remark


def test_too_few_runs_are_read_once() -> None:
    assert twice([1.0, 1.1, 0.9])[1] == {}


def test_what_would_decide_is_told() -> None:
    reading, _ = twice([1.0, -3.0, 4.0, -2.0])
    text = not_decidable(reading, Effort(2.0, 300))
    assert text.startswith("Not decidable below ")
    assert "runs of 2 minutes (300 steps): it is above (the gap, 1, is" in text
    assert decided_by(reading, Effort(2.0, 300)) == text.partition(":")[0].replace("Not", "not")


def test_decided_statements_need_nothing_more() -> None:
    reading = twice([1.0, 1.1, 0.9, 1.0])[0]
    assert not_decidable(reading, Effort(2.0, 300)) == decided_by(reading, Effort(2.0, 300)) == ""


def test_a_rise_is_seen_at_the_rate_that_is_told() -> None:
    """Power and errors of the test of a line against simulated runs; a rise surely below the gap is not seen."""
    rng, x = np.random.default_rng(3), np.array([15.0, 30.0, 45.0])
    draws = rng.standard_normal((1500, 4, 3))
    flat = [rising(x, one) for one in draws]
    assert np.mean([one.seen is True for one in flat]) < 0.02  # at 1 %, with a deviation of 0.0026
    steep = np.mean([rising(x, one + x / 15).seen is True for one in draws])
    told = np.mean([rising(x, one, gap=2.0).power for one in draws])  # power at the deviation of each draw
    assert told == pytest.approx(steep, abs=0.06)
    assert rising(x, 0.01 * draws[0], gap=1.0).seen is False
    assert rising(x, -draws[0] - x).seen is False


# --- studies ----------------------------------------------------------------


def test_every_study_that_trains_says_what_is_decisive() -> None:
    tables = {"003/table-3", "004/tab-I3"}
    silent = [one.id for one in all_studies() if one.medium is not None and one.decisive is None]
    assert set(silent) <= tables
