"""The baselines against the definitions of their papers, and where a number does not exist."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from isometer.trial._baselines import at_initialization, gradient_norms, jacobian_covariance, naswot, synflow
from isometer.trial._faults import FAULTS
from isometer.trial._specimen import Specimen
from isometer.trial._tasks import TASKS


def plain() -> Specimen:
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 8)]
    return Specimen(nn.Sequential(*layers), TASKS["gratings"], samples=16)


def test_scores_are_those_of_the_papers() -> None:
    made = plain()
    inputs, targets, _ = made.batch(seed=1, step=0)
    model = plain().model
    made.loss(model(inputs), targets).backward()
    norm = math.sqrt(sum(float(p.grad.double().square().sum()) for p in model.parameters() if p.grad is not None))
    assert gradient_norms(made, (inputs, targets))[0] == pytest.approx(math.log10(norm))

    positive = plain().model.double()
    for parameter in positive.parameters():
        parameter.data.abs_()
    positive(torch.ones(1, 1, 12, 12, dtype=torch.float64)).sum().backward()
    flow = sum(float((p.detach() * p.grad).sum()) for p in positive.parameters() if p.grad is not None)
    assert synflow(made, (inputs, targets)) == pytest.approx(math.log10(flow))

    first = made.model[1](made.model[0](inputs))
    second = made.model[3](made.model[2](first))
    codes = [(x.detach().flatten(1) > 0).double().numpy() for x in (first, second)]
    kernel = sum((c @ c.T + (1 - c) @ (1 - c).T) / c.shape[1] for c in codes)
    assert naswot(made, (inputs, targets)) == pytest.approx(np.linalg.slogdet(kernel)[1] / 16)

    leaf = inputs.clone().requires_grad_()
    made.model(leaf).sum().backward()
    values = np.linalg.eigvalsh(np.corrcoef(leaf.grad.flatten(1).double().numpy())) + 1e-5
    assert jacobian_covariance(made, (inputs, targets)) == pytest.approx(-np.mean(np.log(values) + 1 / values))


def test_infinite_gradient_is_no_number() -> None:
    made = plain()
    made.objectives.append(lambda value: value * torch.tensor(1e38) * 1e3)
    assert math.isnan(at_initialization(made, seed=0)["gradient norm"])


@pytest.mark.parametrize("fault", ["input-drowned", "input-blank", "targets-shuffled"])
def test_numbers_follow_from_the_seed_alone(fault: str) -> None:
    """Also where a fault draws noise of its own."""
    found = []
    for state in (1, 2):
        made = plain()
        FAULTS[fault].apply(made, FAULTS[fault].draw(np.random.default_rng(1)))
        torch.manual_seed(state)
        found.append(at_initialization(made, seed=7))
    assert found[0] == found[1]
