"""A model with its task as it is trained: what a fault changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from isometer.trial._tasks import Task

Tensor = torch.Tensor
Batch = tuple[Tensor, Tensor]


@dataclass
class Specimen:
    """A model, the batches it gets and the loss it is trained on. Faults change it in place.

    What counts is `score`, the task's own loss on the true targets; what training minimises is `loss` on the targets
    as a fault left them.

    Attributes:
        model: the model, in the mode it is trained in.
        task: what it is meant to learn.
        samples: per step.
        feeds: what happens to a batch on its way to the model, in order.
        units: mean and scale that a fault gave the targets of a regression.
        objectives: what happens to the loss on its way to the optimizer, in order.
        different: how many different samples a batch has, all unless given.
    """

    model: nn.Module
    task: Task
    samples: int
    feeds: list[Callable[[Tensor, Tensor], Batch]] = field(default_factory=list)
    units: tuple[float, float] = (0.0, 1.0)
    objectives: list[Callable[[Tensor], Tensor]] = field(default_factory=list)
    different: int | None = None

    def batch(self, *, seed: int, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs, the targets to train on, and the true targets of a step."""
        inputs, truth = self.task.batch(self.samples, seed=seed, step=step)
        if self.units != (0.0, 1.0):
            truth = self.units[0] + self.units[1] * truth
        if self.different is not None:
            order = torch.arange(self.samples) % self.different
            inputs, truth = inputs[order], truth[order]
        targets = truth
        for feed in self.feeds:
            inputs, targets = feed(inputs, targets)
        return inputs, targets, truth

    def loss(self, output: Tensor, targets: Tensor) -> Tensor:
        """What the optimizer minimises."""
        value = self.task.loss(output, targets)
        for objective in self.objectives:
            value = objective(value)
        return value

    def score(self, output: Tensor, truth: Tensor) -> float:
        """The task's own loss as a share of chance: 1 is chance, 0 is perfect."""
        return float(self.task.loss(output, truth)) / (self.task.chance() * self.units[1] ** 2)


def called(specimen: Specimen, *kinds: type[nn.Module]) -> list[nn.Module]:
    """The modules without children that a forward pass calls and that return one tensor, in the order of calls."""
    found: list[nn.Module] = []

    def note(module: nn.Module, _: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.is_floating_point() and module not in found:
            found.append(module)

    leaves = [m for m in specimen.model.modules() if not any(m.children()) and (not kinds or isinstance(m, kinds))]
    handles = [module.register_forward_hook(note) for module in leaves]
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            specimen.model(specimen.batch(seed=0, step=0)[0])
    finally:
        for handle in handles:
            handle.remove()
    return found


class After:
    """A forward hook that passes the output of a module through a function of this file.

    An object rather than a closure, so that a copy of the model has a hook of its own.
    """

    def __init__(self, change: nn.Module) -> None:
        self.change = change

    def __call__(self, module: nn.Module, inputs: Any, output: Any) -> Any:
        return self.change(output) if isinstance(output, Tensor) else output
