"""Rates: which are tried, which is best, and what a run is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import optim
from torch.nn import functional
from torch.optim import lr_scheduler

from isometer.doctor.stress._race import StressRun, Track, progress
from isometer.doctor.stress._stress import _promising
from isometer.errors import IsometerError
from support.stressing import choice, classes, mlp, run_of, track, wrong_sign


class _Rates(Track):
    """A race in which the last loss is a function of the rate."""

    def __init__(self, end: Callable[[float], float]) -> None:
        self.end, self.tried = end, list[float]()

    def run(self, choice: Any, rate: float, steps: int, *, who: Any, on: Any, **how: Any) -> StressRun:
        self.tried.append(rate)
        return run_of(rate, [1.0, self.end(rate)], on=on, who=who)


def _raced(end: Callable[[float], float], beyond: int = 4) -> tuple[list[float], list[float]]:
    """The rates in the order of the race, and in that of success, both as places around the middle."""
    adam = choice(mlp(), "adam")
    rates = _Rates(end)
    found = rates.race(adam, who="model", on="one batch", rates=5, steps=2, beyond=beyond)

    def place(rate: float) -> float:
        return round(math.log(rate / adam.middle) / math.log(adam.factor))

    return [place(rate) for rate in rates.tried], [place(run.rate) for run in found]


def _valley(place: float) -> Callable[[float], float]:
    """A loss that is least at a rate."""
    adam = choice(mlp(), "adam")
    return lambda rate: 0.1 + 0.01 * abs(math.log(rate / adam.middle) / math.log(adam.factor) - place)


def test_a_best_rate_within_ends_the_search() -> None:
    tried, ranked = _raced(_valley(1))
    assert sorted(tried) == [-2, -1, 0, 1, 2]
    assert ranked[0] == 1


@pytest.mark.parametrize("best", [4, -4])
def test_a_best_rate_beyond_the_grid_is_found(best: int) -> None:
    tried, ranked = _raced(_valley(best))
    assert ranked[0] == best
    assert len(tried) == 5 + 3


def test_the_search_beyond_is_limited() -> None:
    tried, ranked = _raced(_valley(50), beyond=3)
    assert max(tried) == ranked[0] == 5


def test_equal_losses_are_no_reason_to_search_and_the_middle_comes_first() -> None:
    tried, ranked = _raced(lambda rate: 0.5)
    assert len(tried) == 5
    assert ranked[0] == 0


def test_where_every_rate_diverges_much_smaller_ones_are_tried() -> None:
    adam = choice(mlp(), "adam")
    tried, ranked = _raced(lambda rate: 0.5 if rate < adam.at(-5) * 1.01 else math.inf, beyond=6)
    assert ranked[0] <= -5
    assert min(tried) < -5


def test_where_all_of_them_diverge_the_race_ends() -> None:
    tried, ranked = _raced(lambda rate: math.inf, beyond=6)
    assert len(tried) == 11
    assert len(ranked) == 11


# --- progress ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("losses", "chance", "expected"),
    [
        ((2.0, 1.0, 0.5), 1.0, 0.5),  # of chance, since the start is worse
        ((0.8, 0.6, 0.4), 1.0, 0.5),  # of the start, since it is better than chance
        ((2.0, 1.5, 1.0), 1.0, 0.0),  # down to chance is nothing
        ((2.0, 3.0, 4.0), 1.0, 0.0),
        ((2.0, 0.0), 1.0, 1.0),
        ((2.0, 1.0), math.nan, 0.5),  # unknown chance: of the start
        ((2.0, -900.0), -math.inf, 0.0),  # lower is not better
        ((2.0, math.inf), 1.0, 0.0),
        ((0.0, 0.0), 0.0, 0.0),
        ((3.0, -2.0), -1.0, 0.25),  # negative chance: of the distance from start to chance
    ],
)
def test_progress_is_the_share_of_the_lower_of_chance_and_start(
    losses: tuple[float, ...], chance: float, expected: float
) -> None:
    assert progress(losses, "one batch", chance) == pytest.approx(expected)


def test_on_fresh_batches_the_last_quarter_counts() -> None:
    losses = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.3)
    assert progress(losses, "fresh batches", 1.0) == pytest.approx(0.6)
    assert progress(losses, "one batch", 1.0) == pytest.approx(0.7)


# --- runs -------------------------------------------------------------------------------------------------------------


def test_a_run_is_what_a_loop_by_hand_makes_of_it() -> None:
    model, pairs = mlp(), classes(3)
    place = track(model, pairs)
    found = place.run(choice(model, "adam"), 0.01, 5, who="model", on="fresh batches")
    copy = mlp()
    optimizer = optim.Adam(copy.parameters(), lr=0.01)
    losses = []
    for step in range(5):
        x, y = pairs[step % 3]
        loss = functional.cross_entropy(copy(x), y)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert found.losses == pytest.approx(losses, rel=1e-5)
    assert place.diary == [found]


def test_on_one_batch_it_is_the_first_and_chance_is_its_own() -> None:
    model, pairs = mlp(), classes(3)
    place = track(model, pairs)
    both = place.run(choice(model, "sgd"), 0.1, 3, who="model", on="one batch")
    alone = track(model, pairs[:1])
    assert both.losses == alone.run(choice(model, "sgd"), 0.1, 3, who="model", on="one batch").losses
    assert place.material.chance_of_one == pytest.approx(alone.material.chance)
    assert place.material.chance != pytest.approx(alone.material.chance)


def test_every_run_begins_anew_and_the_same() -> None:
    model = mlp()
    model.insert(1, torch.nn.Dropout(0.5))
    place = track(model, classes(3))
    adam = choice(model, "adam")
    first, other, again = (
        place.run(adam, 0.01, 4, who=who, on="fresh batches") for who in ("model", "reference", "model")
    )
    assert first == again
    assert other.losses != first.losses


def test_a_run_ends_where_the_loss_is_not_finite() -> None:
    model = mlp()
    place = track(model, classes(3), lambda y, t: wrong_sign(y, t).exp() * 1e30 * y.square().sum())
    found = place.run(choice(model, "sgd"), 1e6, 9, who="model", on="one batch")
    assert found.diverged
    assert len(found.losses) < 9
    assert not math.isfinite(found.losses[-1])
    assert (found.end, found.progress) == (math.inf, 0.0)


def test_a_loss_that_is_not_a_number_is_kept_as_it_is_and_counts_as_infinite() -> None:
    model = mlp()
    place = track(model, classes(3), lambda y, t: y.square().sum() * math.nan)
    found = place.run(choice(model, "sgd"), 0.1, 9, who="model", on="one batch")
    assert math.isnan(found.losses[0])
    assert (len(found.losses), found.diverged, found.end, found.progress) == (1, True, math.inf, 0.0)


def test_the_schedule_holds_at_the_caller_s_rate_only() -> None:
    model = mlp()
    frozen = choice(model, "sgd", 0.5, lambda one: lr_scheduler.LambdaLR(one, lambda step: float(step < 1)))
    place = track(model, classes(1))
    held = place.run(frozen, 0.5, 6, who="model", on="one batch", own=True).losses
    free = place.run(frozen, 0.5, 6, who="model", on="one batch").losses
    assert held[:2] == free[:2]
    assert held[2:] == (held[1],) * 4
    assert len(set(free)) == 6


def test_a_schedule_that_ends_early_keeps_its_last_rate() -> None:
    model = mlp()
    short = choice(model, "sgd", 0.5, lambda one: lr_scheduler.OneCycleLR(one, 0.5, total_steps=3))
    found = track(model, classes(1)).run(short, 0.5, 8, who="model", on="one batch", own=True)
    assert len(found.losses) == 8


@pytest.mark.parametrize(
    ("schedule", "words"), [(lr_scheduler.ReduceLROnPlateau, "needs validation losses"), (lambda one: 3, "makes a int")]
)
def test_what_is_no_schedule_by_steps_is_refused_in_one_line(schedule: Any, words: str) -> None:
    model = mlp()
    made = choice(model, "sgd", 0.5, schedule)
    with pytest.raises(IsometerError, match=words):
        track(model, classes(1)).run(made, 0.5, 3, who="model", on="one batch", own=True)


def test_a_first_loss_far_above_chance_is_no_progress_by_itself() -> None:
    """A readout a thousand times too large falls from 10⁶ to 10³ and has learned nothing while chance is 1."""
    assert progress((1e6, 1e5, 1e4, 1e3), "fresh batches", 1.0) == 0
    assert progress((1e6, 1e5, 1e4, 0.5), "one batch", 1.0) == 0.5


def test_where_nothing_was_learned_the_largest_rate_that_does_no_harm_goes_on_too() -> None:
    runs = [run_of(rate, [1.0, end]) for rate, end in ((0.005, 0.999), (0.03, 1.001), (0.18, 1.0), (1.08, 3.0))]
    assert _promising(runs) == [0.005, 0.18]
    learned = [run_of(rate, [1.0, end]) for rate, end in ((0.03, 0.5), (0.005, 0.6), (0.18, 0.9))]
    assert _promising(learned) == [0.03, 0.005]
