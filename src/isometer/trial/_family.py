"""A family: a generator of models. From a seed it draws an architecture, a task, a width and a depth."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from isometer.errors import IsometerError
from isometer.trial._tasks import Task, task_named

Options = dict[str, Any]


@dataclass(frozen=True)
class Blueprint:
    """What a family drew: enough to build the model again, ready for JSON.

    Example:
        >>> Blueprint("friedman", width=32, depth=4).changed(depth=8).depth
        8

    Attributes:
        task: name of what it learns.
        width: of its hidden layers.
        depth: layers or blocks.
        batch: samples per step.
        options: everything else that `build` reads.
    """

    task: str
    width: int
    depth: int
    batch: int = 32
    options: Options = field(default_factory=dict)

    def changed(self, *, width: int | None = None, depth: int | None = None, **options: Any) -> Blueprint:
        """The same with another size, or with other options."""
        return replace(self, width=width or self.width, depth=depth or self.depth, options={**self.options, **options})


@dataclass(frozen=True)
class Family:
    """A generator of models of one architecture.

    Attributes:
        name: what it is called; in the first round its hash decides which half of the trial it belongs to.
        source: where the architecture comes from.
        draw: draws a blueprint. `large` requests a model of the largest size people would try on a laptop.
        build: makes the model for a blueprint and its task, initialised from torch's generator. The model takes one
            tensor and returns one.
        structural: faults that need another blueprint, by name of the fault: the options it changes, or a function of
            blueprint and generator. The others are made on the finished model.
        round: of the trial it was written for; rules are fitted to earlier rounds.
    """

    name: str
    source: str
    draw: Callable[[np.random.Generator, bool], Blueprint]
    build: Callable[[Blueprint, Task], nn.Module]
    structural: Mapping[str, Options | Callable[[Blueprint, np.random.Generator], Blueprint]] = field(
        default_factory=dict
    )
    round: int = 1

    @property
    def sealed(self) -> bool:
        """Whether its diagnoses stay unopened until the rules are final: half of the first round, all later ones.

        Example:
            >>> from isometer.trial import families
            >>> sorted({family.sealed for family in families().values()})
            [False, True]
        """
        return self.round > 1 or hashlib.sha256(self.name.encode()).digest()[0] >= 128

    @property
    def kin(self) -> str:
        """The group of architectures it belongs to, which share code or ideas: the module that defines it.

        Example:
            >>> from isometer.trial import family_named
            >>> family_named("llama-like").kin
            'modern_transformers'
        """
        return self.build.__module__.rsplit(".", 1)[-1].lstrip("_")

    def model(self, blueprint: Blueprint, seed: int) -> nn.Module:
        """The model of a blueprint with weights from a seed; torch's generator is left as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return self.build(blueprint, task_named(blueprint.task))


FAMILIES: dict[str, Family] = {}
"""What was registered so far; `isometer.trial.families()` registers all of them first."""


def family(
    name: str,
    *,
    source: str,
    draw: Callable[[np.random.Generator, bool], Blueprint],
    structural: Mapping[str, Options | Callable[[Blueprint, np.random.Generator], Blueprint]] | None = None,
    round: int = 1,
) -> Callable[[Callable[[Blueprint, Task], nn.Module]], Callable[[Blueprint, Task], nn.Module]]:
    """Register the decorated builder as a family."""

    def register(build: Callable[[Blueprint, Task], nn.Module]) -> Callable[[Blueprint, Task], nn.Module]:
        if name in FAMILIES:
            raise IsometerError(f"there is a family {name!r} already; expected a new name — choose another")
        FAMILIES[name] = Family(name, source, draw, build, structural or {}, round)
        return build

    return register


def pick(rng: np.random.Generator, *choices: Any) -> Any:
    """One of several choices, as the very object that was passed.

    Example:
        >>> pick(np.random.default_rng(0), 16)
        16
    """
    return choices[int(rng.integers(len(choices)))]
