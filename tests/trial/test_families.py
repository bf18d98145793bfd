"""The families: what they draw can be built, and the seal follows from their names."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

from isometer.trial._family import Blueprint, Family, families
from isometer.trial._faults import FAULTS, SIZES
from isometer.trial._tasks import TASKS

KNOWN = families()
NEEDS_DATA = {"fashion-mnist", "mnist", "cifar10", "rows", "denoise"}


def output_of(family: Family, blueprint: Blueprint) -> torch.Tensor:
    """What the model says to a made-up batch of two, with a backward pass."""
    task = TASKS[blueprint.task]
    model = family.model(blueprint, seed=0).train()
    generator = torch.Generator().manual_seed(0)
    if task.vocabulary:
        inputs = torch.randint(task.vocabulary, (4, *task.shape), generator=generator)
    else:
        inputs = torch.randn(4, *task.shape, generator=generator)
    output = model(inputs)
    output.square().mean().backward()
    assert any(p.grad is not None and bool(p.grad.any()) for p in model.parameters())
    return output.detach()


def expected_shape(blueprint: Blueprint) -> tuple[int, ...]:
    task = TASKS[blueprint.task]
    if task.name == "denoise":
        return (4, *task.shape)
    return (4, *task.shape[:1], task.outputs) if task.per_position else (4, task.outputs)


@pytest.mark.parametrize("name", KNOWN)
def test_family_builds_what_it_draws(name: str) -> None:
    family = KNOWN[name]
    drawn = [family.draw(np.random.default_rng(seed), False) for seed in range(12)]
    assert drawn[0] == family.draw(np.random.default_rng(0), False)
    assert len({(one.task, one.width, one.depth) for one in drawn}) > 1
    smallest = min(drawn, key=lambda one: one.depth * one.width)
    assert output_of(family, smallest).shape == expected_shape(smallest)


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_structural_faults_build(name: str) -> None:
    family = KNOWN[name]
    for fault, change in family.structural.items():
        for seed in range(3):
            rng = np.random.default_rng(seed)
            sound = family.draw(rng, False)
            blueprint = change(sound, rng) if callable(change) else sound.changed(**change)
            assert blueprint != sound, fault
            with torch.no_grad():
                task = TASKS[blueprint.task]
                shape = (2, *task.shape)
                inputs = torch.zeros(shape, dtype=torch.long) if task.vocabulary else torch.randn(shape)
                family.model(blueprint, seed=0).train()(inputs)


def test_seal_is_the_hash_of_the_name() -> None:
    for name, family in KNOWN.items():
        assert family.sealed == (int(hashlib.sha256(name.encode()).hexdigest()[0], 16) >= 8)
    sealed = sum(family.sealed for family in KNOWN.values())
    assert len(KNOWN) >= 30
    assert min(sealed, len(KNOWN) - sealed) >= 12


def test_there_are_many_faults() -> None:
    assert len(FAULTS) + len(SIZES) >= 25
    assert sum(bool(family.structural) for family in KNOWN.values()) > 0.9 * len(KNOWN)
    kinds = {TASKS[family.draw(np.random.default_rng(0), False).task].kind for family in KNOWN.values()}
    assert kinds == {"images", "sequences", "regression"}


def test_weights_follow_from_the_seed_and_leave_the_generator_alone() -> None:
    family = next(iter(KNOWN.values()))
    blueprint = family.draw(np.random.default_rng(0), False)
    before = torch.get_rng_state()
    first, again, other = (family.model(blueprint, seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    same = [torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True)]
    assert all(same)
    assert not all(torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))
