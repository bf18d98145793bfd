"""Every family keeps the contract: blueprints are JSON, models fit their task, faults change something."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from isometer.trial import Blueprint, Family, families, family_named
from isometer.trial._faults import FAULTS, NotApplicable
from isometer.trial._members import specimen
from isometer.trial._tasks import Task, task_named

# Some architectures of the library are compiled when they are imported.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

DATA = {"fashion-mnist", "mnist", "cifar10", "denoise", "rows"}  # tasks that load a data set


def _drawn(family: Family) -> Blueprint:
    """The first blueprint whose task needs no data set, otherwise the first."""
    drawn = [family.draw(np.random.default_rng(seed), False) for seed in range(12)]
    return next((blueprint for blueprint in drawn if blueprint.task not in DATA), drawn[0])


def _inputs(task: Task, samples: int) -> torch.Tensor:
    if task.vocabulary:
        return torch.randint(task.vocabulary, (samples, *task.shape), generator=torch.Generator().manual_seed(0))
    return torch.randn(samples, *task.shape, generator=torch.Generator().manual_seed(0))


def _outputs(task: Task, samples: int) -> tuple[int, ...]:
    if task.name == "denoise":
        return (samples, *task.shape)
    return (samples, *task.shape[:1], task.outputs) if task.per_position else (samples, task.outputs)


@pytest.mark.parametrize("name", families())
def test_blueprints_survive_json_and_have_the_sizes_of_the_trial(name: str) -> None:
    for seed in range(6):
        for large in (False, True):
            blueprint = family_named(name).draw(np.random.default_rng(seed), large)
            assert Blueprint(**json.loads(json.dumps(asdict(blueprint)))) == blueprint
            assert 8 <= blueprint.batch <= 64
            assert task_named(blueprint.task)


@pytest.mark.parametrize("name", families())
def test_a_sound_model_answers_the_task_and_all_its_parameters_matter(name: str) -> None:
    family = family_named(name)
    blueprint = _drawn(family)
    task, model = task_named(blueprint.task), family.model(blueprint, 3)
    output = model(_inputs(task, blueprint.batch))
    assert output.shape == _outputs(task, blueprint.batch)
    assert output.isfinite().all()
    output.square().sum().backward()
    unused = [path for path, p in model.named_parameters() if p.requires_grad and p.grad is None]
    # As published, the last block of these has an output that nothing reads.
    assert not unused or name in ("nbeats", "wavenet"), unused


@pytest.mark.slow
@pytest.mark.parametrize("name", families())
def test_the_seed_decides_the_weights(name: str) -> None:
    family = family_named(name)
    blueprint = _drawn(family)
    first, again, other = (
        torch.cat([p.detach().flatten() for p in family.model(blueprint, seed).parameters()]) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fault"), [(family.name, fault) for family in families().values() for fault in family.structural]
)
def test_a_structural_fault_changes_the_answer_or_the_gradients(name: str, fault: str) -> None:
    family, change = family_named(name), family_named(name).structural[fault]
    blueprint = _drawn(family)
    faulty = change(blueprint, np.random.default_rng(0)) if callable(change) else blueprint.changed(**change)
    assert faulty != blueprint
    inputs = _inputs(task_named(blueprint.task), blueprint.batch)
    answers, gradients = [], []
    for each in (blueprint, faulty):
        model = family.model(each, 3)  # in training: some faults concern dropout
        torch.manual_seed(0)
        output = model(inputs)
        output.square().sum().backward()
        answers.append(output.detach())
        gradients.append([None if p.grad is None else p.grad.clone() for p in model.parameters()])
    assert answers[0].shape == answers[1].shape
    same = torch.equal(*answers) and [g is None for g in gradients[0]] == [g is None for g in gradients[1]]
    same = same and all(torch.equal(a, b) for a, b in zip(*gradients, strict=True) if a is not None)
    assert not same


@pytest.mark.slow
@pytest.mark.parametrize("name", [family.name for family in families().values() if family.round > 1])
def test_every_fault_of_any_family_can_be_made_and_trained_or_says_that_it_does_not_apply(name: str) -> None:
    """A size that an architecture cannot have is rejected by the draw; these faults must not fail in any other way."""
    family = family_named(name)
    blueprint, made = _drawn(family), 0
    for fault in FAULTS:
        try:
            faulty = specimen(name, blueprint, fault, FAULTS[fault].draw(np.random.default_rng(0)), 0)
        except NotApplicable:
            continue
        inputs, targets, _ = faulty.batch(seed=0, step=0)
        loss = faulty.loss(faulty.model(inputs), targets)
        if loss.requires_grad:  # nothing is left to train if all is frozen that is no bias, and there are no biases
            loss.backward()
        made += 1
    assert made > 0.6 * len(FAULTS)
