"""The guilty part of a faulty model is found by comparison, and what counts as naming it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from isometer.trial import Blueprint, family_named
from isometer.trial._culprits import Culprits, compared, culprits, named
from isometer.trial._faults import FAULTS, NotApplicable
from isometer.trial._members import Member
from isometer.trial._specimen import After, Specimen
from isometer.trial._tasks import TASKS

PUBLISHED = {"fashion-mnist", "mnist", "cifar10"}
BLUEPRINT = Blueprint("friedman", 16, 2, options={"activation": "ReLU"})
OUTSIDE = {"input": "input", "target": "targets", "loss": "loss", "size": "input"}
"""What is guilty, by group of faults that leave the model alone."""
ONE_PLACE = {
    "one-too-large",
    "one-too-small",
    "one-zero",
    "outlier-unit",
    "negated",
    "detached",
    "rounded",
    "clamped",
    "rescaled",
    "samples-mixed",
    "averaged",
    "softmax-inside",
    "readout-activated",
    "readout-scaled",
    "readout-biased",
    "unused",
}
"""Faults of the model that are at one place in every model."""


def member(fault: str | None, severity: dict[str, object] | None = None, blueprint: Blueprint = BLUEPRINT) -> Member:
    return Member("mlp-relu/0", "mlp-relu", "0", BLUEPRINT, blueprint, fault, severity or {}, False, 0.01)


class Squeezed(nn.Module):
    """Children that a container hands on, a weight in two places, and a module under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True))
        self.tail = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Tanh(), nn.Linear(8, 8)))
        self.again = nn.Linear(8, 8)
        self.again.weight = self.tail[0].weight
        self.act = nn.Tanh()
        self.same_act = self.act
        self.head = nn.Linear(8, 1)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        x = self.tail(self.body(x))
        return self.head(self.act(self.same_act(self.again(x)))) + 0.0


def made(change: Callable[[Specimen], object] = lambda specimen: None) -> Specimen:
    torch.manual_seed(0)
    specimen = Specimen(Squeezed().train(), TASKS["friedman"], samples=16)
    with torch.no_grad():
        change(specimen)
    return specimen


def found(change: Callable[[Squeezed], object]) -> Culprits:
    return compared(made(), made(lambda specimen: change(specimen.model)))  # type: ignore[arg-type]


def test_nothing_differs_between_a_model_and_itself() -> None:
    assert compared(made(), made()) == Culprits(frozenset(), "none")
    assert culprits(member(None)).part == "none"


def test_another_architecture_is_no_single_part() -> None:
    assert culprits(member("too-deep", blueprint=BLUEPRINT.changed(depth=8))) == Culprits(frozenset(), "structure")


@pytest.mark.parametrize(
    ("fault", "severity", "modules"),
    [
        ("one-zero", {"place": 0.0}, {"1"}),
        ("outlier-unit", {"place": 0.99, "factor": 50.0}, {"5"}),
        ("readout-biased", {"factor": 10.0}, {"5"}),
        ("frozen", {"which": "readout"}, {"5"}),
        ("clamped", {"place": 0.3, "factor": 0.1}, {"2"}),
        ("readout-activated", {"which": "relu"}, {""}),
    ],
)
def test_one_module_of_a_perceptron(fault: str, severity: dict[str, object], modules: set[str]) -> None:
    """Its layers are 1, 3 and 5 (0 flattens), its activations 2 and 4."""
    guilty = culprits(member(fault, severity))
    assert (guilty.part, guilty.modules) == ("module", modules)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_has_the_part_of_its_group(fault: str) -> None:
    """In a family whose batch norm changes when it runs, and one whose builder makes new classes."""
    for name in ("pointnet", "mlp-mixer"):
        family, rng = family_named(name), np.random.default_rng(0)
        blueprint = family.draw(rng, False)
        while blueprint.task in PUBLISHED:  # pictures that are not on every machine
            blueprint = family.draw(rng, False)
        severity = FAULTS[fault].draw(rng)
        one = Member(f"{name}/0", name, "0", blueprint, blueprint, fault, severity, False, 0.01)
        try:
            guilty = culprits(one)
        except NotApplicable:
            continue
        expected = OUTSIDE.get(FAULTS[fault].group)
        if expected is not None:
            assert guilty == Culprits(frozenset(), expected)  # type: ignore[arg-type]
        elif fault in ONE_PLACE:
            assert guilty.part == "module"
            assert len(guilty.modules) == 1
        else:
            assert guilty.part in ("module", "modules")


def test_a_forward_pass_is_not_guilty() -> None:
    """A fault may run the model to find its place, which moves running statistics and counts calls."""

    def change(specimen: Specimen) -> None:
        specimen.model(torch.ones(4, 10))
        specimen.model.head.weight.zero_()  # type: ignore[union-attr]

    assert compared(made(), made(change)).modules == {"head"}


@pytest.mark.parametrize(
    ("change", "modules"),
    [
        (lambda model: model.body[1].eval(), {"body.1"}),
        (lambda model: setattr(model.body[1], "eps", 1.0), {"body.1"}),
        (lambda model: model.body[1].running_var.fill_(9.0), set()),  # what a pass changes anyway is overlooked
        (lambda model: model.head.bias.requires_grad_(False), {"head"}),
        (lambda model: setattr(model, "act", nn.Identity()), {"act"}),
        (lambda model: model.act.register_forward_hook(After(nn.ReLU())), {"act", "same_act"}),
        (lambda model: model.again.weight.zero_(), {"again", "tail.0"}),
        (lambda model: model.head.weight[0, 0].fill_(float("nan")), {"head"}),
        (lambda model: model.add_module("extra", nn.Sequential(nn.Linear(2, 2))), {"extra"}),
    ],
)
def test_kinds_of_change(change: Callable[[Squeezed], object], modules: set[str]) -> None:
    guilty = found(change)
    assert guilty.modules == modules
    assert guilty.part == ("module" if modules else "none")


def test_changes_of_two_modules_are_two() -> None:
    def change(model: Squeezed) -> None:
        model.head.weight.zero_()
        model.body[0].weight.zero_()

    assert (found(change).part, found(change).modules) == ("modules", {"head", "body.0"})


@pytest.mark.parametrize(
    ("place", "also"),
    [
        ("tail.1.1", {"tail", "tail.1"}),  # handed on twice
        ("tail", {"tail.1", "tail.1.1"}),
        ("tail.1.0", set()),  # not what the container returns
        ("body.2", {"body"}),
        ("body.1", set()),  # the same tensor object, but changed in place since
        ("head", set()),  # the model adds something
        ("", {"head"}),  # of the model itself: its last layer
    ],
)
def test_a_hook_counts_where_it_would_do_the_same(place: str, also: set[str]) -> None:
    guilty = found(lambda model: model.get_submodule(place).register_forward_hook(After(nn.Sigmoid())))
    assert (guilty.part, guilty.modules, guilty.also) == ("module", {place}, also)


def test_a_weight_is_not_named_by_its_container() -> None:
    guilty = found(lambda model: model.tail[1][1].bias.fill_(3.0))
    assert guilty.also == {"tail.1.1.bias"}
    assert not named(guilty, [["tail.1"], ["tail"]])


@pytest.mark.parametrize(
    ("causes", "first", "expected"),
    [
        ([["4"]], 1, True),
        ([["0"], ["4"]], 1, False),
        ([["0"], ["4"]], 2, True),
        ([["0"], ["2"], ["4"]], 2, False),
        ([["4", "4.weight"]], 1, True),
        ([["0", "4"]], 2, False),  # a cause that names everything would always be right
        ([[]], 2, False),
        ([], 2, False),
        ([["module"]], 2, False),
    ],
)
def test_naming_a_module(causes: list[list[str]], first: int, expected: bool) -> None:
    guilty = Culprits(frozenset({"4"}), "module", frozenset({"4.weight"}))
    assert named(guilty, causes, first) is expected


def test_naming_what_is_no_module() -> None:
    assert named(Culprits(frozenset(), "input"), [["loss"], ["input"]])
    assert not named(Culprits(frozenset(), "targets"), [["loss"], ["input"]])
    assert not named(Culprits(frozenset(), "structure"), [["structure"]])
    assert not named(Culprits(frozenset(), "none"), [["none"]])
