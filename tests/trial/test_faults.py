"""Every fault changes what it says, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from isometer.trial._faults import FAULTS, NotApplicable
from isometer.trial._specimen import Specimen
from isometer.trial._tasks import TASKS

HARMLESS = {"unused", "frozen"}
"""These leave the output as it is: parameters that are not used, or not trained."""


def picture_model() -> Specimen:
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
    ]
    model = nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 16), nn.GELU(), nn.Linear(16, 8)
    )
    return Specimen(model, TASKS["gratings"], samples=16)


def token_model() -> Specimen:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(16, 12), nn.Linear(12, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 6))
    return Specimen(model, TASKS["tags"], samples=16)


def table_model() -> Specimen:
    torch.manual_seed(0)
    layers = [nn.Linear(10, 16), nn.LayerNorm(16), nn.SiLU(), nn.Linear(16, 16), nn.SiLU()]
    return Specimen(nn.Sequential(*layers, nn.Linear(16, 1)), TASKS["friedman"], samples=16)


def observed(specimen: Specimen) -> tuple[torch.Tensor, float, list[torch.Tensor], int]:
    """Loss, score, gradients, and how many parameters are trained."""
    torch.manual_seed(1)
    inputs, targets, truth = specimen.batch(seed=1, step=1)
    output = specimen.model(inputs)
    loss = specimen.loss(output, targets)
    trained = [p for p in specimen.model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss, trained, allow_unused=True)
    return loss.detach(), specimen.score(output.detach(), truth), [g for g in gradients if g is not None], len(trained)


@cache
def observed_without_a_fault(build: Callable[[], Specimen]) -> tuple[torch.Tensor, float, list[torch.Tensor], int]:
    return observed(build())


@pytest.mark.parametrize("name", FAULTS)
def test_fault_changes_training(name: str) -> None:
    fault, made = FAULTS[name], 0
    for build in (picture_model, token_model, table_model):
        for seed in range(3):
            faulty = build()
            severity = fault.draw(np.random.default_rng(seed))
            torch.manual_seed(2)
            try:
                with torch.no_grad():
                    fault.apply(faulty, severity)
            except NotApplicable:
                continue
            made += 1
            before, after = observed_without_a_fault(build), observed(faulty)
            same = torch.equal(before[0], after[0]) and before[3] == after[3] and len(before[2]) == len(after[2])
            same = same and all(torch.equal(a, b) for a, b in zip(before[2], after[2], strict=True))
            assert not same, (build.__name__, severity)
            if name in HARMLESS:
                assert torch.equal(before[0], after[0])
    assert made


def test_severity_is_json_data() -> None:
    import json

    for fault in FAULTS.values():
        severity = fault.draw(np.random.default_rng(5))
        assert json.loads(json.dumps(severity)) == severity


def test_most_faults_apply_to_most_models() -> None:
    counts = []
    for fault in FAULTS.values():
        for build in (picture_model, token_model, table_model):
            try:
                with torch.no_grad():
                    fault.apply(build(), fault.draw(np.random.default_rng(0)))
                counts.append(True)
            except NotApplicable:
                counts.append(False)
    assert np.mean(counts) > 0.75


def test_true_targets_survive_wrong_ones() -> None:
    made = table_model()
    FAULTS["targets-shuffled"].apply(made, {"share": 1.0})
    _, targets, truth = made.batch(seed=0, step=0)
    assert not torch.equal(targets, truth)
    assert torch.equal(truth, made.task.batch(16, seed=0, step=0)[1])


def test_units_do_not_change_the_score_of_the_mean() -> None:
    """Predicting the mean is chance, whatever the units."""
    for severity in ({"scale": 1.0, "mean": 0.0}, {"scale": 1000.0, "mean": 30.0}):
        made = Specimen(nn.Linear(10, 1), TASKS["friedman"], samples=4000)
        FAULTS["targets-unscaled"].apply(made, severity)
        truth = made.batch(seed=0, step=0)[2]
        assert made.score(truth.mean(0).expand_as(truth), truth) == pytest.approx(1.0, rel=0.08)
