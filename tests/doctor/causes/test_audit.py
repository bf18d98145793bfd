"""What is said about causes is true: of parts that stand in several places, of what was not tried, of what learns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

from isometer.doctor import diagnose
from isometer.doctor.causes._activations import activation_repairs
from isometer.doctor.causes._explanation import _left_over
from isometer.doctor.causes._repair import Repair, RepairKind
from isometer.doctor.causes._search import SearchOutcome, search

Pair = tuple[torch.Tensor, torch.Tensor]


def batches(number: int) -> list[Pair]:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(number, 32, 20, generator=generator)
    return [(x, x[:, :1] * x[:, 1:2] + x[:, 2:3]) for x in inputs]


def test_an_activation_in_several_places_is_exchanged_in_all_of_them() -> None:
    same = nn.Sigmoid()
    model = nn.Sequential(nn.Linear(4, 4), same, nn.Linear(4, 4), same, nn.Linear(4, 1))
    [repair] = activation_repairs(model)
    repair.change(model)
    assert repair.modules == ("1", "3")
    assert not any(isinstance(module, nn.Sigmoid) for module in model.modules())


class Blind(nn.Module):
    """Gives every sample the same answer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(20, 32), nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).new_ones(len(x), 32))


@pytest.mark.parametrize("number", [1, 60])
def test_no_learner_is_spoken_of_that_did_not_run(number: int) -> None:
    torch.manual_seed(0)
    report = diagnose(Blind(), batches(number), optimizer="adam", predict=False)
    assert report.explanation is not None
    told = report.explanation.unexplained
    assert "neither the model" in told if number == 1 else "loses what matters" in told
    assert ("simple learner" in told) == (number > 1)


def test_noise_is_not_blamed_on_the_architecture() -> None:
    """Some batches have targets of smaller size, so that after forty steps the simple learner seems to have learned."""
    generator = torch.Generator().manual_seed(2)
    noise = [
        (x, (0.85 if 30 <= step < 40 else 1.0) * torch.randn(32, 1, generator=generator))
        for step, (x, _) in enumerate(batches(170))
    ]
    torch.manual_seed(0)
    explained = diagnose(Blind(), noise, optimizer="adam", predict=False).explanation
    assert explained is not None
    assert "architecture" not in explained.unexplained


def outcome(repaired: float, *, complete: bool = True) -> SearchOutcome:
    return SearchOutcome("adam", 0.0, repaired, (), (), 3, complete)


def test_data_are_not_blamed_where_longer_runs_learn() -> None:
    assert _left_over(outcome(0.01), 0.02, 0.02, "yours")[1]
    text, blamed = _left_over(outcome(0.01), 0.02, 0.2, "yours")
    assert text.startswith("no repair of a part helps")
    assert blamed == []


def test_what_was_not_tried_is_not_said_to_be_of_no_help() -> None:
    text, blamed = _left_over(outcome(0.0, complete=False), 0.9, 0.9, "yours")
    assert "the budget ran out" in text
    assert not blamed


KINDS: tuple[RepairKind, ...] = ("weights", "norm")


class Late:
    """Trainings that learn nothing, with no time for a second one."""

    before, tried, late = 0.0, 0, False
    steps, rates = 40, ()

    def race(self, repairs: Sequence[Repair]) -> float:
        self.late = True
        self.tried += 1
        return 0.0

    def helps(self, progress: float) -> bool:
        return False

    def longer(self) -> bool:
        return False


def repair(kind: Any) -> Repair:
    return Repair(kind, ("0",), "", "", 0.0, lambda model: None)


def test_a_search_that_was_cut_short_says_so() -> None:
    runs: Any = Late()
    assert not search(runs, "adam", [repair("weights"), repair("activation")]).complete
    assert runs.tried == 1
    runs = Late()
    assert search(runs, "adam", [repair("weights")]).complete  # everything was tried


class OnPurpose:
    """Trainings in which the repair of the norm helps, unless a kernel that is odd on purpose is redrawn as well."""

    before, tried, late = 0.0, 0, False
    steps, rates = 160, (0.1,)

    def race(self, repairs: Sequence[Repair]) -> float:
        self.tried += 1
        kinds = {one.kind for one in repairs}
        return 0.6 if kinds == {"norm"} else 0.0

    def progress(self, repairs: Sequence[Repair], goal: float = math.inf) -> float:
        return self.race(repairs)

    best = 0.6

    def helps(self, progress: float) -> bool:
        return progress > 0.1

    def longer(self) -> bool:
        return False


def test_a_part_that_is_odd_on_purpose_does_not_hide_a_cause() -> None:
    odd = [
        Repair(kind, (str(place),), "", f"it is {kind}", 3.0, lambda model: None) for place, kind in enumerate(KINDS)
    ]
    runs: Any = OnPurpose()
    found = search(runs, "sgd", odd)
    assert [[one.kind for one in group] for group, _ in found.needed] == [["norm"]]
    assert (found.repaired, found.complete) == (0.6, True)


class LearnsLate:
    """Trainings that learn nothing in a few steps, and with anything redrawn a lot in many."""

    before, tried, late, best = 0.0, 0, False, 0.6
    steps, rates = 40, (0.1,)

    def race(self, repairs: Sequence[Repair]) -> float:
        self.tried += 1
        return 0.6 if self.steps == 160 else 0.01

    def progress(self, repairs: Sequence[Repair], goal: float = math.inf) -> float:
        return self.race(repairs)

    def helps(self, progress: float) -> bool:
        return progress > 0.1

    def longer(self) -> bool:
        more, self.steps = self.steps < 160, 160
        return more


def test_many_steps_are_tried_where_nothing_is_odd_and_few_teach_nothing() -> None:
    runs: Any = LearnsLate()
    found = search(runs, "sgd", [repair("weights")])
    assert (found.steps, found.repaired) == (160, 0.6)
    assert [[one.kind for one in group] for group, _ in found.needed] == [["weights"]]


def test_time_that_runs_out_among_odd_parts_is_told() -> None:
    odd = [Repair(kind, ("0",), "", f"it is {kind}", 3.0, lambda model: None) for kind in KINDS]
    runs: Any = Late()
    assert not search(runs, "sgd", odd).complete


def test_no_effect_is_larger_than_the_best_that_was_reached() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    for layer in (model[0], model[2]):
        layer.weight.data.zero_()
        layer.bias.data.zero_()
    explained = diagnose(model, batches(170), optimizer="sgd", predict=False).explanation
    assert explained is not None
    effects = [one.effect for one in (*explained.causes, *explained.treatments)]
    assert effects
    assert all(math.isnan(effect) or explained.before + effect <= explained.after + 1e-9 for effect in effects)
