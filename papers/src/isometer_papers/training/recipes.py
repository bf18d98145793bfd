"""How a network is trained, and whether it is watched: optimiser, learning rate, schedule, batch size, epochs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import nn

from isometer.errors import IsometerError, unknown_name

OPTIMIZERS = ("sgd", "momentum", "adam")


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Args:
        learning_rate: at the start.
        epochs: passes over the training set.
        batch: samples of a step.
        optimizer: `sgd`, `momentum` (0.9) or `adam`.
        milestones: epochs after which the learning rate is multiplied by `factor`.
        factor: see there.
        weight_decay: of the optimiser.
        clip: λ of adaptive gradient clipping; None for none.
        clip_units: whether it compares norms unit by unit instead of by matrix.
        steps: ends a run early, inside an epoch if need be; None for all.
        augment: whether training images are shifted by up to 4 pixels and mirrored at random.
        bias_factor: learning rate of parameters of fewer than two axes (biases, factors), over that of the others.
        fast: on a CPU, dense networks take written-out steps and convolutions have their channels last; without,
            autograd and torch's own layout. Each way gives its own numbers every time; they agree to rounding.
        watch: whether the doctor's monitor looks at the network whenever it is measured.

    Example:
        >>> Recipe(0.1, epochs=3, milestones=(2,)).rate(2)
        0.010000000000000002
    """

    learning_rate: float
    epochs: int
    batch: int = 100
    optimizer: str = "sgd"
    milestones: tuple[int, ...] = ()
    factor: float = 0.1
    weight_decay: float = 0.0
    clip: float | None = None
    clip_units: bool = False
    steps: int | None = None
    augment: bool = False
    bias_factor: float = 1.0
    fast: bool = True
    watch: bool = False

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise unknown_name("optimizer", self.optimizer, OPTIMIZERS)
        if not (self.learning_rate > 0 and self.epochs >= 1 and self.batch >= 1):
            given = f"learning_rate is {self.learning_rate}, epochs {self.epochs} and batch {self.batch}"
            raise IsometerError(f"{given}; expected positive numbers")

    @classmethod
    def of(cls, settings: Mapping[str, Any], **changes: Any) -> Recipe:
        """The recipe among the settings of a study; `changes` win.

        Example:
            >>> Recipe.of({"learning_rate": 0.1, "epochs": 2, "width": 64}, batch=32).batch
            32
        """
        known = {field.name for field in fields(cls)}
        chosen = {name: value for name, value in {**settings, **changes}.items() if name in known}
        if "milestones" in chosen:
            chosen["milestones"] = tuple(chosen["milestones"])
        return cls(**chosen)

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, the first being 0."""
        return self.learning_rate * self.factor ** sum(epoch >= milestone for milestone in self.milestones)

    def stepper(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser of parameters, without clipping."""
        parts: list[list[nn.Parameter]] = [[], []]
        for parameter in parameters:
            if parameter.requires_grad:
                # a bool as an index: weights first, biases and factors second
                parts[parameter.dim() < 2].append(parameter)
        factors = (1.0, self.bias_factor)
        groups = [{"params": part, "factor": by} for part, by in zip(parts, factors, strict=True) if part]
        options: dict[str, Any] = {"lr": self.learning_rate, "weight_decay": self.weight_decay}
        inner: torch.optim.Optimizer
        if self.optimizer == "adam":
            inner = torch.optim.Adam(groups, foreach=True, **options)
        else:
            inner = torch.optim.SGD(
                groups, momentum=0.9 if self.optimizer == "momentum" else 0.0, foreach=True, **options
            )
        return inner
