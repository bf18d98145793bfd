"""The losses of a model that is trained for some steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from isometer.doctor.probe._calling import call
from isometer.errors import unknown_name

Tensor = torch.Tensor
Sampler = Callable[[int], tuple[Any, Any]]
Stepper = Callable[[nn.Module, float], torch.optim.Optimizer]
WINDOW = 40
LEARNING_RATES = {"sgd": (1e-3, 1e-2, 1e-1), "adam": (1e-4, 1e-3, 1e-2)}
"""The three learning rates that a model is tried with for each optimizer; sgd has momentum 0.9."""


@dataclass(frozen=True)
class TrainingCurve:
    """The losses of one run, step by step.

    Example:
        >>> TrainingCurve((2.3, 1.0, float("inf")), 4).diverged
        True

    Attributes:
        losses: losses of every batch before the step that uses it; a run ends at the first that is not finite, which is
            kept as nan or as infinity.
        steps: how many were requested.
    """

    losses: tuple[float, ...]
    steps: int

    @property
    def diverged(self) -> bool:
        """Whether a loss was not finite."""
        return not math.isfinite(self.losses[-1])

    @property
    def final(self) -> float:
        """Mean loss of the last `WINDOW` steps, infinite if the run diverged."""
        return math.inf if self.diverged else float(np.mean(self.losses[-WINDOW:]))


def stepper(name: str) -> Stepper:
    """The optimizer of that name, as a function of model and rate.

    Raises:
        IsometerError: it is neither of the two.

    Example:
        >>> stepper("adam")(nn.Linear(1, 1), 0.1).defaults["lr"]
        0.1
    """
    if name not in LEARNING_RATES:
        raise unknown_name("optimizer", name, LEARNING_RATES)
    if name == "sgd":
        return lambda model, rate: torch.optim.SGD(trained(model), rate, momentum=0.9)
    return lambda model, rate: torch.optim.Adam(trained(model), rate)


def trained(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that are not frozen."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def train(
    model: nn.Module,
    sampler: Sampler,
    *,
    loss: Callable[[Any, Any], Tensor],
    optimizer: str | Stepper = "sgd",
    learning_rate: float,
    steps: int = 200,
    seed: int = 0,
    score: Callable[[Tensor, int], float] | None = None,
    after: Callable[[int], None] | None = None,
) -> TrainingCurve:
    """Train a model for some steps, in place.

    Args:
        model: the model; it is trained in the mode it is in.
        sampler: gives inputs and targets of a step.
        loss: a function of output and targets.
        optimizer: `sgd` (momentum 0.9), `adam`, or a function of model and rate that makes one.
        learning_rate: constant.
        steps: number of steps.
        seed: seed of dropout; the global generator is left as it was.
        score: what to record instead of the loss, from the output and the number of the step.
        after: called with the number of each step after it.

    Returns:
        The losses.

    Raises:
        IsometerError: the optimizer is neither of the two.

    Example:
        >>> from isometer.doctor.patients import patient
        >>> healthy = patient("mlp-relu-10")
        >>> batch = healthy.example()
        >>> curve = train(healthy.model(), lambda step: batch, loss=healthy.loss, learning_rate=0.01, steps=20)
        >>> curve.losses[-1] < curve.losses[0]
        True
    """
    make = stepper(optimizer) if isinstance(optimizer, str) else optimizer
    steps_of = make(model, learning_rate) if trained(model) else None  # otherwise there is nothing to step
    losses = []
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        for step in range(steps):
            inputs, targets = sampler(step)
            output = call(model, inputs)
            value = loss(output, targets)
            losses.append(value.item() if score is None else score(output.detach(), step))
            if not (math.isfinite(losses[-1]) and math.isfinite(value.item())):
                losses[-1] = math.nan if math.isnan(losses[-1]) or math.isnan(value.item()) else math.inf
                break
            if steps_of is not None and value.requires_grad:
                steps_of.zero_grad()
                value.backward()  # type: ignore[no-untyped-call]
                steps_of.step()
            if after is not None:
                after(step)
    return TrainingCurve(tuple(losses), steps)
