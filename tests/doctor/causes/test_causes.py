"""Causes by counterfactual: a part is broken by hand, and the search must name it and nothing else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from isometer.doctor import diagnose
from isometer.doctor.diagnosis._report import Report

Tensor = torch.Tensor
Batch = tuple[Tensor, Tensor]


def batches(change: Callable[[Tensor, Tensor], Batch] = lambda x, y: (x, y), number: int = 170) -> Iterator[Batch]:
    generator = torch.Generator().manual_seed(1)
    teacher = torch.randn(20, 5, generator=generator)
    for _ in range(number):
        x = torch.randn(32, 20, generator=generator)
        yield change(x, (x @ teacher).argmax(1))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    sizes = [20, 64, 64, 64, 64]
    layers = [m for a, b in itertools.pairwise(sizes) for m in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(64, 5))


examined = partial(diagnose, optimizer="adam", predict=False)


def explained(model: nn.Module, given: Iterator[Batch] | None = None, **how: Any) -> Report:
    return examined(model, list(given or batches()), **how)


BROKEN: dict[str, tuple[tuple[str, ...], Callable[[nn.Sequential], object]]] = {
    "large": (("4",), lambda m: m[4].weight.data.mul_(1e5)),
    "zero": (("6",), lambda m: (m[6].weight.data.zero_(), m[6].bias.data.zero_())),
    "biases": (("0", "2", "4", "6"), lambda m: [m[k].bias.data.fill_(-20) for k in (0, 2, 4, 6)]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_broken_part_is_the_first_cause(name: str) -> None:
    guilty, break_ = BROKEN[name]
    model = network()
    break_(model)
    report = explained(model)
    assert report.trains["adam"].verdict == "sick"
    assert set(report.causes[0].modules) <= set(guilty)
    assert report.causes[0].effect > 0.2
    assert report.causes[0].evidence
    kept = report.to_dict()
    assert {"modules", "repair", "effect"} <= set(kept["causes"][0])


def test_odd_inputs_are_the_cause() -> None:
    report = explained(network(), batches(lambda x, y: (x + 2000, y)))
    assert report.causes[0].modules == ("input",)
    assert report.causes[0].effect > 0.1


def test_targets_that_belong_to_other_samples_are_blamed_on_the_data() -> None:
    report = explained(network(), batches(lambda x, y: (x, y.roll(7))))
    assert "targets" in report.causes[0].modules
    assert math.isnan(report.causes[0].effect)
    assert report.explanation is not None
    assert "nor a simple learner" in report.explanation.unexplained


def test_equal_samples_are_told() -> None:
    report = explained(network(), batches(lambda x, y: (x[:1].expand_as(x), y)))
    assert report.causes[0].modules == ("input",)
    assert "same input" in report.causes[0].evidence


def test_a_loss_without_a_bottom_is_the_cause() -> None:
    report = explained(network(), loss=lambda output, target: -nn.functional.cross_entropy(output, target))
    assert report.causes[0].modules == ("loss",)
    assert report.causes[0].effect > 0.2


def test_what_trains_has_no_causes() -> None:
    report = explained(network())
    assert report.trains["adam"].verdict == "trains"
    assert report.causes == ()
    assert report.explanation is None


def test_an_architecture_that_loses_the_input_stays_unexplained() -> None:
    class Forgets(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.readout = nn.Linear(1, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.readout(x[:, :1] * 0)

    report = explained(Forgets())
    assert report.trains["adam"].verdict in ("sick", "unknown")
    assert report.explanation is not None
    assert "simple learner" in report.explanation.unexplained


def test_a_search_leaves_the_model_as_it_was() -> None:
    model = network()
    model[4].weight.data.mul_(1e5)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    explained(model)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert not model._forward_hooks
    assert not model._forward_pre_hooks
