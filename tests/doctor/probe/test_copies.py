"""Probing examines a copy, or the model itself where no copy is faithful; neither shows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from isometer.doctor import SignalMonitor, diagnose, probe, treat
from isometer.doctor.probe._subject import Subject
from isometer.errors import IsometerError
from support.restoration import (
    Forward,
    check_probe_and_diagnosis,
    hook_over_the_model,
    norms,
    prepare,
    scripted,
    short_trainings,
    state,
)


class ItsOwnCopy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def __deepcopy__(self, memo):
        return self

    def forward(self, x):
        self.linear.weight.data.mul_(0.5)
        return self.linear(x)


NOT_COPIED: dict[str, Callable[[], nn.Module]] = {
    "its own copy": ItsOwnCopy,
    "scripted": scripted,
    "scripted part": lambda: nn.Sequential(torch.jit.script(norms()), nn.Linear(2, 2)),
    "traced": lambda: torch.jit.trace(norms().eval(), torch.ones(2, 6)),
}


@pytest.mark.filterwarnings("ignore:.*(script|trace).*:Warning")
@pytest.mark.parametrize("name", NOT_COPIED)
def test_difficult_models_are_unchanged(name: str) -> None:
    check_probe_and_diagnosis(NOT_COPIED[name], copied=False)


def _normalises_itself(m, x):
    with torch.no_grad():
        m.linear.weight.div_(m.linear.weight.norm())
        torch._foreach_mul_(list(m.other.parameters()), 0.5)
    return m.other(m.linear(x))


def test_passes_on_a_copy_start_from_the_same_state() -> None:
    subject = Subject(Forward(_normalises_itself))
    assert subject.reason == ""
    x = torch.ones(2, 6)
    outputs = [subject.run(lambda model: model(x).detach(), seed=0) for _ in range(3)]
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])


def test_a_loss_that_holds_the_model() -> None:
    model, x = prepare(norms)

    def loss(output):
        model[0].weight.data.mul_(0.5)
        return output.square().sum() + model[0].weight.square().sum()

    before = state(model)
    assert Subject(model, (loss,)).reason
    found = probe(model, x, loss=loss)
    assert state(model) == before
    alone = probe(model, x, loss=lambda output: output.square().sum())
    # The penalty reaches the weights: the loss was given the model that ran.
    assert found.values["gradient_log_norm"][1] != alone.values["gradient_log_norm"][1]


def test_a_loss_with_a_state_of_its_own() -> None:
    model, x = prepare(norms)
    norm = nn.BatchNorm1d(2)
    assert Subject(model, (norm,)).reason == ""
    probe(model, x, loss=lambda output: norm(output).square().sum())
    assert norm.num_batches_tracked.item() == 0


def test_treatment_and_monitor_leave_the_model_alone() -> None:
    model, x = prepare(lambda: nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(6, 6), nn.Tanh())]))
    model[0].weight.data.mul_(100)
    before = state(model)
    with short_trainings():
        assert treat(model, diagnose(model, x), batch=x).steps
    with SignalMonitor(model, when=1, budget=None) as monitor:
        monitor.step(batch=x)
    assert len(monitor.observations) == 1
    assert state(model) == before


def test_treatment_refuses_a_copy_that_leads_back() -> None:
    model, x = prepare(hook_over_the_model)
    before = state(model)
    with short_trainings(), pytest.raises(IsometerError, match="refers to the model itself"):
        treat(model, diagnose(model, x, redraws=3), batch=x)
    assert state(model) == before
