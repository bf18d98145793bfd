"""What a step does, against the calculus of a linear model and against what is known of others."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from isometer.doctor.stress._effects import StepEffects, effects
from support.stressing import choice, classes, drawn, mlp, track


def _effects(model: nn.Module, batches: Any, rate: float, *, name: Any = "sgd", steps: int = 1) -> StepEffects:
    return effects(track(model, batches), choice(model, name), rate, steps)


def _linear() -> tuple[nn.Linear, torch.Tensor, torch.Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Linear(4, 2, bias=False).double()
    return model, drawn(10, 4).double(), drawn(10, 2, seed=1).double()


def test_of_a_linear_model_they_are_known() -> None:
    model, x, y = _linear()
    rate = 1e-3
    weight = model.weight.detach()
    gradient = 2 * (x @ weight.T - y).T @ x / y.numel()
    found = _effects(model, [(x, y)], rate)
    assert found.predicted == pytest.approx(-rate * gradient.square().sum().item(), rel=1e-9)
    after = weight - rate * gradient
    actual = (x @ after.T - y).square().mean() - (x @ weight.T - y).square().mean()
    assert found.actual == pytest.approx(actual.item(), rel=1e-6)
    change = rate * (x @ gradient.T).norm() / (x @ weight.T).norm()
    assert found.output_change == pytest.approx(change.item(), rel=1e-6)
    assert found.moved == (("", pytest.approx((rate * gradient.norm() / weight.norm()).item(), rel=1e-9)),)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_small_steps_change_the_loss_as_the_gradient_predicts(name: str) -> None:
    model = mlp().double()
    batches = [(x.double(), y) for x, y in classes(1)]
    errors = []
    for rate in (1e-4, 1e-5):
        found = _effects(model, batches, rate, name=name)
        assert found.predicted < 0
        errors.append(abs(found.actual - found.predicted))
    # What remains is of second order.
    assert errors[1] < 0.03 * errors[0]
    assert errors[1] < 1e-2 * abs(found.predicted)


def test_dropout_is_the_same_before_and_after() -> None:
    model = nn.Sequential(mlp(), nn.Dropout(0.5)).double()
    found = _effects(model, [(x.double(), y) for x, y in classes(1)], 1e-6)
    assert found.actual == pytest.approx(found.predicted, rel=1e-3)


class _Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.cut, self.frozen, self.head = (nn.Linear(8, 8) for _ in range(4))
        self.frozen.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.used(x) + self.cut(x).detach() + self.frozen(x))
        return found


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_modules_that_do_not_move_and_those_that_are_frozen_are_named(name: str) -> None:
    found = _effects(_Branches(), [drawn(16, 8)], 0.01, name=name, steps=3)
    assert found.unmoved == ("cut",)
    assert found.frozen == ("frozen",)
    assert {module for module, _ in found.moved} == {"used", "head"}


def test_values_that_grow_are_named_largest_first() -> None:
    found = _effects(mlp(), classes(1), 1e3, steps=3)
    assert found.grown
    assert all(factor > 10 for _, factor in found.grown)
    factors = [factor for _, factor in found.grown]
    assert factors == sorted(factors, reverse=True)
    assert _effects(mlp(), classes(1), 1e-4, steps=3).grown == ()


def test_a_model_that_diverges_has_effects() -> None:
    found = _effects(mlp(), classes(2), 1e30, steps=5)
    assert not found.actual < 1e6
    assert found.steps == 5


class _Logarithm(nn.Module):
    """Not a number as soon as its weight is negative."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.scale, self.last = nn.Identity(), nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.last(self.weight.log() + self.scale(1 + 1e3 * (self.weight - 1)) + 0 * x))


def test_values_that_are_not_numbers_are_told_as_such_and_come_first() -> None:
    found = _effects(_Logarithm(), [(drawn(4, 1), drawn(4, 1) - 9)], 0.1, steps=1)
    (first, worst), (second, factor) = found.grown
    assert (first, math.isnan(worst)) == ("last", True)
    assert second == "scale"
    assert 1e5 < factor < math.inf


def test_a_model_without_trained_parameters_does_not_move() -> None:
    model = mlp().requires_grad_(False)
    found = _effects(model, classes(1), 0.1, steps=2)
    assert (found.predicted, found.actual, found.output_change, found.moved) == (0.0, 0.0, 0.0, ())
    assert found.frozen == ("0", "2", "4")


def test_in_place_they_are_the_same() -> None:
    """A hook over the model keeps it from being copied."""
    plain, held = mlp(), mlp()
    held.register_forward_hook(lambda *_: held.training and None)
    place = track(held, classes(1))
    assert place.subject.model is held
    before = [p.clone() for p in held.parameters()]
    found = effects(place, choice(held, "sgd"), 0.1, 3)
    expected = _effects(plain, classes(1), 0.1, steps=3)
    assert (found.predicted, found.actual) == pytest.approx((expected.predicted, expected.actual), rel=1e-5)
    assert [name for name, _ in found.moved] == [name for name, _ in expected.moved]
    assert all(torch.equal(a, b) for a, b in zip(before, held.parameters(), strict=True))
    assert not math.isnan(found.output_change)
