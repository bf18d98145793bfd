"""Budgets count work: waiting for other programs does not shorten what is run, unless it takes very long."""

from __future__ import annotations

import math
import time

import pytest
import torch
from torch import nn

from isometer.doctor import diagnose
from isometer.doctor.probe._subject import Subject
from isometer.doctor.stress._budget import ENDLESS, USUAL, Budget, clock_of
from isometer.doctor.stress._plans import PLANS, Cost, measured
from support.stressing import classes, drawn, mlp


class _Waits(nn.Module):
    """A model whose steps take long on the wall, as they do while other programs have the processor."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.layer, self.seconds = nn.Linear(8, 3), seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds)
        found: torch.Tensor = self.layer(x)
        return found


def test_waiting_does_not_count_as_work() -> None:
    budget = Budget(1.0)
    time.sleep(0.1)
    assert budget.spent < 0.05
    assert 0.95 < budget.left < 1.0


def test_work_counts() -> None:
    budget = Budget(0.05)
    until = time.thread_time() + 0.06
    while time.thread_time() < until:
        pass
    assert budget.spent >= 0.06
    assert budget.late


def test_waiting_for_very_long_ends_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    wall = [0.0]
    monkeypatch.setattr("isometer.doctor.stress._budget.time.perf_counter", lambda: wall[0])
    budget = Budget(10.0, lambda: 0.0)
    wall[0] = 49.0
    assert (budget.left, budget.late) == (1.0, False)
    wall[0] = 51.0
    assert budget.late


def test_a_part_begins_anew_by_the_same_clock() -> None:
    now = [0.0]
    budget = Budget(None, lambda: now[0])
    assert (budget.given, budget.seconds) == (False, USUAL)
    now[0] = 50.0
    part = budget.part(20.0)
    now[0] = 60.0
    assert (budget.spent, part.spent, part.left) == (60.0, 10.0, 10.0)
    assert part.given


def test_without_end() -> None:
    assert ENDLESS.left == math.inf
    assert not ENDLESS.late


def test_the_clock_of_a_model() -> None:
    assert clock_of(mlp()) is time.thread_time
    assert clock_of(nn.Identity()) is time.thread_time
    with torch.device("meta"):
        assert clock_of(nn.Linear(2, 2)) is time.thread_time


def test_on_an_accelerator_the_clock_on_the_wall_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[bool] = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: waited.append(True))

    class Elsewhere(nn.Module):
        def parameters(self, recurse: bool = True) -> object:  # type: ignore[override]
            return iter([type("", (), {"device": torch.device("cuda")})()])

    clock = clock_of(Elsewhere())
    before = clock()
    time.sleep(0.02)
    assert clock() - before >= 0.02
    assert len(waited) == 2


def test_a_step_costs_what_it_works() -> None:
    cost = Subject(_Waits(0.05)).run(lambda one: measured(one, lambda m: m(drawn(4, 8)).sum()), seed=0)
    assert 0 < cost.seconds < 0.025


@pytest.mark.parametrize(("budget", "name"), [(None, "full"), (60.0, PLANS[1].name)])
def test_only_a_budget_that_is_given_shortens_the_plan(
    monkeypatch: pytest.MonkeyPatch, budget: float | None, name: str
) -> None:
    """A step of 60 ms: the whole plan takes up to 84 s, one without long runs 53 s."""
    slow = Cost(0.06, 1, 1, 1, 1)
    monkeypatch.setattr("isometer.doctor.stress._stress.measured", lambda *_: slow)
    report = diagnose(mlp(), classes(), optimizer="adam", predict=False, budget=budget)
    stress = report.stress
    assert stress is not None
    assert stress.plan is not None
    assert stress.plan.name == name
    assert stress.whole is (budget is None)
    assert any("less certain" in line for line in stress.notes) is (budget is not None)
    assert stress.most_seconds == pytest.approx(0.06 * stress.plan.most)
