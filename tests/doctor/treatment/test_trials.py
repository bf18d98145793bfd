"""Trials of a treatment: what learns, what diverges, and the section that reports it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from isometer.doctor.treatment import Arm, TreatmentTrial, treat, trial
from isometer.errors import IsometerError
from isometer.report._treatment import loss_curves, treatment_section
from support.models import batch, chain, same, state
from support.quick_look import quick_look

# --- trials, report, command ------------------------------------------------------------------------------------------


def test_trial_sees_what_learns_and_leaves_the_models_alone() -> None:
    x = torch.randn(256, 32, generator=torch.Generator().manual_seed(1))
    y = (x[:, 0] > 0).long()
    sick = chain(10, gain=0.2)
    well = treat(sick, quick_look(sick, x[:32]), batch=x[:32], stress=False).model
    before = [state(sick), state(well)]
    done = trial(sick, well, x, target=y, loss=functional.cross_entropy, steps=60, seeds=[0, 1], samples=32)
    assert same(before[0], state(sick))
    assert same(before[1], state(well))
    assert done.better
    assert np.shape(done.before.final) == (2, 3)
    assert min(done.before.best_losses) > 0.65, "an untreated one stays at log 2"
    document = done.to_dict()
    json.dumps(document, allow_nan=False)
    assert loss_curves(document).count("<polygon") == 2


def test_trial_sees_divergence_and_checks_its_input() -> None:
    def explode(output: Tensor, target: Tensor) -> Tensor:
        return output.square().sum() * 1e30

    model = chain(2)
    done = trial(model, model, batch(), target=torch.zeros(24), loss=explode, steps=5, seeds=[0])
    assert not any(map(math.isfinite, done.after.best_losses))
    assert not done.better
    loss_curves(done.to_dict())
    for wrong in ({}, {"batch": batch(), "target": None}, {"batch": batch(), "target": 1, "steps": 0}):
        with pytest.raises(IsometerError):
            trial(model, model, loss=explode, **wrong)


def test_section_escapes_texts() -> None:
    treatment = {
        "summary": "<b>",
        "steps": [{"id": "<x>", "kind": "weights", "status": "applied", "reason": "&"}],
        "numbers": [],
        "code": "<script>",
        "trial": None,
    }
    section = treatment_section(treatment)
    assert "<script>" not in section
    assert "&lt;x&gt;" in section


def test_a_loss_that_is_no_number_is_not_written_as_infinite() -> None:
    arm = Arm(((math.nan, math.inf),), 0, ((2.0, math.nan),))
    record = TreatmentTrial(2, (0.1, 0.2), (0,), arm, arm, 2.0).to_dict()
    assert record["before"]["final"] == [[None, "inf"]]
    assert record["after"]["curve"]["mean"] == [2.0, None]
    assert "nan" not in loss_curves(record)


def test_not_a_number_and_divergence_are_told_apart_and_both_are_worst() -> None:
    x = torch.randn(24, 32, generator=torch.Generator().manual_seed(1))

    def none(output: Tensor, target: Tensor) -> Tensor:
        return output.square().mean() * math.nan

    def explode(output: Tensor, target: Tensor) -> Tensor:
        return output.square().mean() * 1e39

    def runs(loss: Callable[[Tensor, Tensor], Tensor]) -> Arm:
        return trial(chain(2), chain(2), x, target=x, loss=loss, steps=5, seeds=[0, 1]).before

    lost, diverged = runs(none), runs(explode)
    well = Arm(((0.5,), (0.6,)), 0, ((0.5,) * 5,) * 2)
    assert all(map(math.isnan, [*lost.best_losses, *(loss for row in lost.curves for loss in row)]))
    assert all(map(math.isinf, [*diverged.best_losses, *(loss for row in diverged.curves for loss in row)]))
    words = {"is not a number": lost, "diverges": diverged}
    for word, arm in words.items():
        cured, hurt = (TreatmentTrial(5, (0.1,) * 3, (0, 1), *arms, 1.0) for arms in ((arm, well), (well, arm)))
        assert cured.better
        assert not hurt.better
        assert f"the loss {word} untreated and is 0.55 treated" in cured.summary
        assert f"the loss is 0.55 untreated and {word} treated; the treated model is worse" in hurt.summary
        json.dumps(hurt.to_dict(), allow_nan=False)
    assert not TreatmentTrial(5, (0.1,) * 3, (0, 1), diverged, lost, 1.0).better


def test_one_seed_without_a_number_leaves_the_best_of_the_others() -> None:
    arm = Arm(((0.5,), (math.nan,)), 0, ((2.0, 0.5), (2.0, math.nan)))
    curve = TreatmentTrial(2, (0.1,), (0, 1), arm, arm, 2.0).to_dict()["after"]["curve"]
    assert (curve["low"], curve["mean"], curve["high"]) == ([2.0, 0.5], [2.0, None], [2.0, None])
