"""A patient: a model built on purpose, with a known condition or none."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from isometer.doctor.conditions._conditions import CONDITIONS
from isometer.doctor.patients._inputs import CLASSES, INPUTS, Images, Shape, gaussian, pick
from isometer.errors import IsometerError, unknown_name

Tensor = torch.Tensor
Build = Callable[[int, Shape, int], nn.Module]
Defect = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def seeded(factory: Callable[[Shape, int], nn.Module]) -> Build:
    """A build function that draws from its seed alone and leaves the global generator as it was.

    Args:
        factory: makes a module from the shape of a sample and the number of classes.

    Returns:
        A function of seed, shape and classes.

    Example:
        >>> build = seeded(lambda shape, classes: nn.Linear(shape[0], classes))
        >>> bool(torch.equal(build(3, (5,), 2).weight, build(3, (5,), 2).weight))
        True
    """

    def build(seed: int, shape: Shape, classes: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return factory(shape, classes).train()

    return build


@dataclass(frozen=True)
class Patient:
    """A model with a known condition, or a healthy one, and the batches it is examined and trained with.

    Example:
        >>> from isometer.doctor.patients import patient
        >>> sick = patient("mlp-relu-50")
        >>> sick.findings, sick.sibling
        (('rank-collapse', 'gradient-alignment'), 'mlp-residual-50')
        >>> inputs, targets = sick.example()
        >>> inputs.shape, sick.loss(sick.model()(inputs), targets).shape
        (torch.Size([32, 784]), torch.Size([]))

    Attributes:
        name: its name.
        description: what it is, one sentence.
        findings: ids of the findings that a diagnosis must contain; none for a healthy one.
        family: `mlp`, `convnet`, `transformer`, `recurrent` or `mixer`.
        build: makes the model from a seed, the shape of one sample and the number of classes.
        input: what a sample is: `flat`, `image`, `bands` (7 tokens of 4 image rows) or `tokens` (49 grey levels).
        sibling: the healthy patient that a sick one is compared with.
        optimizer: what it is trained with, `sgd` (with momentum) or `adam`.
        defect: what is wrong with its batches, a function of inputs and targets.
        samples: size of its batches.
        requires: a package it needs beyond those of Isometer.
    """

    name: str
    description: str
    findings: tuple[str, ...]
    family: str
    build: Build
    input: str
    sibling: str | None = None
    optimizer: str = "sgd"
    defect: Defect | None = None
    samples: int = 32
    requires: str | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in self.findings if name not in CONDITIONS]
        if unknown:
            raise unknown_name(f"finding of the patient {self.name}:", unknown[0], CONDITIONS)
        if self.input not in INPUTS:
            raise unknown_name(f"input of the patient {self.name}:", self.input, INPUTS)

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.findings

    @property
    def available(self) -> bool:
        """Whether what it requires is installed."""
        return self.requires is None or importlib.util.find_spec(self.requires) is not None

    def model(self, seed: int = 0) -> nn.Module:
        """The model, in training mode, a function of the seed alone.

        Args:
            seed: seed of all its random numbers; the global generators are left alone.

        Raises:
            IsometerError: it needs a package that is not installed.
        """
        if not self.available:
            raise IsometerError(
                f"patient {self.name!r} needs the package {self.requires!r}, which is not installed — "
                f"pip install {self.requires}"
            )
        return self.build(seed, INPUTS[self.input].shape, CLASSES)

    def example(self, n: int | None = None, seed: int = 0, data: str | Images = "gaussian") -> tuple[Tensor, Tensor]:
        """A batch as the patient meets it, its defect included.

        Args:
            n: number of samples, `samples` of the patient by default.
            seed: seed of the draw.
            data: `"gaussian"` (standard Gaussian inputs or uniform tokens, random labels) or `Images` to draw from.

        Returns:
            Inputs and targets.

        Raises:
            IsometerError: n is not positive, or data is neither of the two.
        """
        size = self.samples if n is None else n
        if size < 1:
            raise IsometerError(f"n is {size}; expected at least one sample — pass n=None for {self.samples}")
        if isinstance(data, str):
            if data != "gaussian":
                raise IsometerError(f"data is {data!r}; expected 'gaussian' or Images — pass Images(images, labels)")
            batch = gaussian(self.input, size, seed)
        else:
            order = torch.randperm(len(data.labels), generator=torch.Generator().manual_seed(seed))[:size]
            batch = pick(self.input, data, order)
        return batch if self.defect is None else self.defect(*batch)

    def loss(self, output: Any, targets: Tensor) -> Tensor:
        """Mean cross-entropy, of logits or of an output that has them as `logits`."""
        return functional.cross_entropy(getattr(output, "logits", output), targets)
