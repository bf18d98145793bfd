"""Optimizers that are made again: groups, rates, schedules, and what cannot be constructed again."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import pytest
import torch
from torch import nn, optim
from torch.optim import lr_scheduler

from isometer.doctor.probe._subject import Subject
from isometer.doctor.stress._optimizers import optimizer_choices
from isometer.errors import IsometerError
from support.stressing import choice, classes, mlp, track


def test_adam_and_sgd_unless_something_is_named() -> None:
    model = mlp()
    adam, sgd = optimizer_choices(None, None, None, Subject(model))
    assert (adam.name, sgd.name) == ("adam", "sgd")
    assert type(adam.make(model, 0.1)) is optim.Adam
    made = sgd.make(model, 0.1)
    assert type(made) is optim.SGD
    assert (made.defaults["momentum"], made.defaults["lr"]) == (0.9, 0.1)
    assert {one.rate for one in optimizer_choices(None, 0.5, None, Subject(model))} == {0.5}


@pytest.mark.parametrize("name", ["adam", "sgd", "adamw"])
def test_rates_span_at_least_two_decades(name: str) -> None:
    rates = choice(mlp(), name).rates(5)
    assert len(rates) == 5
    assert rates[-1] / rates[0] > 100
    steps = [b / a for a, b in itertools.pairwise(rates)]
    assert steps == pytest.approx([steps[0]] * 4, rel=1e-2)


@pytest.mark.parametrize("given", ["AdamW", optim.AdamW, functools.partial(optim.AdamW, lr=1e-3)])
def test_by_name_class_and_factory(given: Any) -> None:
    model = mlp()
    found = choice(model, given)
    made = found.make(model, 0.25)
    assert (found.name, type(made), found.middle) == ("adamw", optim.AdamW, 1e-3)
    assert [group["lr"] for group in made.param_groups] == [0.25]
    assert sum(len(group["params"]) for group in made.param_groups) == len(list(model.parameters()))


def test_an_instance_is_made_again_with_its_groups() -> None:
    model = mlp()
    first, *rest = model.parameters()
    groups: list[Any] = [{"params": [first], "lr": 1e-2, "weight_decay": 0.3}, {"params": rest, "betas": (0.5, 0.6)}]
    mine = optim.AdamW(groups, lr=1e-3, eps=1e-6, amsgrad=True)
    found = choice(model, mine)
    copy = mlp(seed=5)
    made = found.make(copy, 2e-2)
    assert (type(made), found.rate, found.middle) == (optim.AdamW, 1e-2, 1e-2)
    assert [group["lr"] for group in made.param_groups] == pytest.approx([2e-2, 2e-3])
    assert [group["weight_decay"] for group in made.param_groups] == [0.3, 0.01]
    assert [group["betas"] for group in made.param_groups] == [(0.9, 0.999), (0.5, 0.6)]
    assert all(group["eps"] == 1e-6 and group["amsgrad"] for group in made.param_groups)
    own = [[id(p) for p in group["params"]] for group in made.param_groups]
    assert own == [[id(p) for p in list(copy.parameters())[:1]], [id(p) for p in list(copy.parameters())[1:]]]


def test_an_instance_of_some_parameters_trains_only_those() -> None:
    model = mlp()
    mine = optim.SGD(model[-1].parameters(), lr=0.1)
    place = track(model, classes(2))
    found = choice(model, mine)

    def moved(copy: nn.Module) -> list[bool]:
        before = [p.clone() for p in copy.parameters()]
        place.steps(copy, found, 0.1, 3)
        return [not torch.equal(a, b) for a, b in zip(before, copy.parameters(), strict=True)]

    assert place.subject.run(moved, seed=0, mode="train") == [False] * 4 + [True] * 2
    assert (len(mine.state), mine.param_groups[0]["lr"]) == (0, 0.1)


def test_a_parameter_with_two_names_is_found() -> None:
    model = mlp()
    model.extra = model[0]
    made = choice(model, optim.SGD(model.parameters(), lr=0.1)).make(model, 0.1)
    assert {id(p) for p in made.param_groups[0]["params"]} == {id(p) for p in model.parameters()}


def test_before_the_first_step_of_a_warm_up_the_rate_is_the_one_it_leads_to() -> None:
    model = mlp()
    mine = optim.SGD(model.parameters(), lr=0.1)
    lr_scheduler.LambdaLR(mine, lambda step: step / 10)
    assert mine.param_groups[0]["lr"] == 0
    found = choice(model, mine, schedule=lambda one: lr_scheduler.ExponentialLR(one, 0.5))
    made = found.make(model, 0.4)
    assert (found.rate, made.param_groups[0]["lr"]) == (0.1, 0.4)
    # What the caller's schedule left behind is not taken for the rate.
    assert lr_scheduler.ExponentialLR(made, 0.5).base_lrs == [0.4]


def test_a_group_at_rate_zero_stays_at_rest() -> None:
    model = mlp()
    mine = optim.SGD([{"params": model[0].parameters(), "lr": 0.0}, {"params": model[2].parameters()}], lr=0.1)
    made = choice(model, mine).make(model, 0.4)
    assert [group["lr"] for group in made.param_groups] == [0.0, 0.4]


class _Wants(optim.SGD):
    def __init__(self, params: Any, lr: float, other: int) -> None:
        super().__init__(params, lr=lr)


REFUSED: dict[str, tuple[Any, str]] = {
    "unknown name": ("adma", "did you mean|expected one of"),
    "lbfgs by name": ("lbfgs", "expected one of"),
    "lbfgs": (optim.LBFGS, "several times"),
    "instance of lbfgs": (optim.LBFGS(mlp().parameters()), "several times"),
    "function for lbfgs": (lambda parameters: optim.LBFGS(parameters), "several times"),
    "number": (3, "is a int"),
    "abstract class": (optim.Optimizer, "no default rate"),
    "class that wants more": (_Wants, "no default rate"),
    "function of the model": (lambda model: optim.SGD(model.parameters(), lr=1), "does not take parameters"),
    "function that makes none": (lambda parameters: 3, "returns a int"),
    "rate zero": (lambda parameters: optim.SGD(parameters, lr=0.0), "rate 0"),
    "another model's": (optim.SGD(mlp().parameters(), lr=0.1), "does not have"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_made_is_refused_in_one_line(name: str) -> None:
    given, words = REFUSED[name]
    with pytest.raises(IsometerError, match=words) as caught:
        choice(mlp(), given)
    assert "\n" not in str(caught.value)


def test_an_instance_that_cannot_be_made_again_is_refused_in_one_line() -> None:
    model = mlp()
    with pytest.raises(IsometerError, match=r"cannot be constructed again .*lambda parameters: _Wants"):
        choice(model, _Wants(model.parameters(), 0.1, 3)).make(model, 0.1)


@pytest.mark.parametrize("rate", [0, -1.0, math.nan, math.inf, "0.1"])
def test_rates_are_positive_numbers(rate: Any) -> None:
    with pytest.raises(IsometerError, match="positive number"):
        choice(mlp(), "adam", rate)


@pytest.mark.parametrize(("name", "lr", "words"), [(None, 0.1, "without optimizer"), ("adam", None, "without a rate")])
def test_a_schedule_needs_an_optimizer_and_a_rate(name: Any, lr: Any, words: str) -> None:
    with pytest.raises(IsometerError, match=words):
        choice(mlp(), name, lr, lambda one: lr_scheduler.StepLR(one, 1))


def test_a_schedule_that_was_made_already_is_refused() -> None:
    made = lr_scheduler.StepLR(optim.SGD(mlp().parameters(), lr=0.1), 1)
    with pytest.raises(IsometerError, match="schedule is a StepLR"):
        choice(mlp(), "adam", 0.1, made)
