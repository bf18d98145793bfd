"""What the models of the trial learn."""

from __future__ import annotations

import math

import pytest
import torch

from isometer.trial._tasks import TASKS, graph

MADE = [name for name in TASKS if name not in ("fashion-mnist", "mnist", "cifar10", "rows", "denoise")]
"""Tasks that need no data set."""


@pytest.mark.parametrize("name", MADE)
def test_batch_follows_from_seed_and_step(name: str) -> None:
    task = TASKS[name]
    first, again = task.batch(8, seed=3, step=5), task.batch(8, seed=3, step=5)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    for other in (task.batch(8, seed=4, step=5), task.batch(8, seed=3, step=6)):
        assert not torch.equal(first[0], other[0])
    assert first[0].shape == (8, *task.shape)
    assert task.vocabulary == 0 or int(first[0].max()) < task.vocabulary


@pytest.mark.parametrize("name", MADE)
def test_chance_is_the_loss_of_the_best_constant(name: str) -> None:
    """Gradient descent on a constant answer comes to the same number, on other samples."""
    task = TASKS[name]
    _, target = task.batch(2000, seed=9, step=1)
    shape = (task.outputs,) if task.objective == "classes" else tuple(target.shape[1:])
    constant = torch.zeros(shape, requires_grad=True)
    optimizer = torch.optim.LBFGS([constant], max_iter=60)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        rows = target.shape if task.objective == "classes" else target.shape[:1]
        loss = task.loss(constant.expand(*rows, *shape), target)
        loss.backward()
        return loss

    optimizer.step(closure)
    # The standard error of a mean over 2000 samples whose spread is about the mean, four times.
    assert float(closure().detach()) == pytest.approx(task.chance(), rel=4 * 2 / math.sqrt(2000))


def test_targets_of_regression_have_unit_scale() -> None:
    for name in MADE:
        if TASKS[name].objective == "values":
            assert 0.7 < TASKS[name].chance() < 1.4, name


def test_graph_is_symmetric_and_connected() -> None:
    adjacency = graph()
    assert torch.equal(adjacency, adjacency.T)
    assert bool((torch.linalg.matrix_power(adjacency, len(adjacency)) > 0).all())
