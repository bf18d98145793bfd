"""How much is run: more for small batches, less for slow models, and what a step costs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from isometer.doctor.probe._subject import Subject
from isometer.doctor.stress._plans import PLANS, measured, more_for_small_batches, plan_within
from support.stressing import drawn, mlp


def test_small_batches_get_more_steps() -> None:
    assert [more_for_small_batches(n) for n in (1, 4, 8, 15, 16, 1000)] == [4, 4, 2, 1, 1, 1]


def test_every_plan_has_three_rates_or_more() -> None:
    assert all(plan.rates >= 3 for plan in PLANS)


def test_slower_models_get_shorter_plans_and_at_last_none() -> None:
    def name(per_step: float, samples: int = 16) -> str | None:
        plan = plan_within(60.0, per_step, optimizers=2, samples=samples)
        return None if plan is None else plan.name

    found = [name(10.0**k / 1e4) for k in range(6)]
    names = [plan.name for plan in PLANS]
    assert (found[0], found[-1]) == ("full", None)
    known = [names.index(one) for one in found if one is not None]
    assert known == sorted(known)
    assert len(set(known)) > 1
    assert name(0.02, samples=2) != name(0.02)


def test_a_plan_keeps_within_its_seconds() -> None:
    """Every step of the plan that was chosen, at the cost it was chosen by, fits; those of the one before do not."""
    for per_step in (0.01, 0.03, 0.1, 0.15):
        plan = plan_within(60.0, per_step, optimizers=2, samples=16)
        assert plan is not None
        place = [one.name for one in PLANS].index(plan.name)
        longer = PLANS[:place]
        assert all(plan_within(60.0, per_step, optimizers=2, samples=16) != one for one in longer)
        again = plan_within(60.0, per_step / 8, optimizers=2, samples=16)
        assert again is not None
        assert [one.name for one in PLANS].index(again.name) <= place


def test_the_cost_of_a_step() -> None:
    model, x = mlp(), drawn(32, 8)
    model[0].weight.requires_grad_(False)
    threads = torch.get_num_threads()
    cost = Subject(model).run(lambda one: measured(one, lambda m: m(x).square().mean()), seed=0)
    assert torch.get_num_threads() == threads
    count = sum(p.numel() for p in model.parameters())
    assert cost.weights == 4 * count
    assert cost.training == 3 * 4 * (count - 8 * 16)
    # At least what the two rectifiers return, at most every value and some masks.
    assert 2 * 32 * 16 * 4 <= cost.activations <= 4 * 32 * (8 + 4 * 16 + 3) + 100
    assert 0 < cost.seconds < 5
    assert all(p.grad is None for p in model.parameters())


def test_more_values_cost_more() -> None:
    def activations(samples: int) -> int:
        x = drawn(samples, 8)
        return Subject(mlp()).run(lambda one: measured(one, lambda m: m(x).square().mean()), seed=0).activations

    assert activations(64) == pytest.approx(2 * activations(32), rel=0.05)


class _Sparse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.graph = torch.eye(4).to_sparse()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(self.graph, self.layer(x))


class _Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layer(torch.func.grad(lambda v: (v**2).sum())(x))
        return found


@pytest.mark.parametrize("kind", [_Sparse, _Functional])
def test_models_whose_values_cannot_be_counted_have_a_cost_all_the_same(kind: type[nn.Module]) -> None:
    cost = Subject(kind()).run(lambda one: measured(one, lambda m: m(drawn(4, 8)).sum()), seed=0)
    assert cost.weights == 4 * 27
    assert cost.activations >= 0


def test_problems_of_the_model_come_through() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        Subject(mlp()).run(lambda one: measured(one, lambda m: m(drawn(4, 9)).sum()), seed=0)
