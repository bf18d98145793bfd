"""A fault, the group that it belongs to, and how its severity is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isometer.trial._family import pick
from isometer.trial._specimen import Specimen

Rng = np.random.Generator
Severity = dict[str, Any]
Draw = Callable[[Rng], Severity]
Apply = Callable[[Specimen, Severity], None]


class NotApplicable(Exception):
    """The fault cannot be made in this model."""


@dataclass(frozen=True)
class Fault:
    """A mistake.

    Attributes:
        name: what it is called.
        about: one line for people.
        group: weights, path, norm, activation, input, target, loss, readout or size.
        draw: how severe, as JSON data.
        apply: makes it, in place; raises `NotApplicable` where it cannot be made.
    """

    name: str
    about: str
    group: str
    draw: Draw
    apply: Apply


def nothing(rng: Rng) -> Severity:
    """The severity of a fault that has no degrees."""
    return {}


def factor_between(low: float, high: float, **more: Callable[[Rng], Any]) -> Draw:
    """A factor, uniform in its logarithm."""

    def draw(rng: Rng) -> Severity:
        value = math.exp(rng.uniform(math.log(low), math.log(high)))
        return {"factor": float(f"{value:.3g}"), **{key: one(rng) for key, one in more.items()}}

    return draw


def one_of(**choices: Sequence[Any]) -> Draw:
    """One of several values for every key."""
    return lambda rng: {key: pick(rng, *values) for key, values in choices.items()}


def anywhere(rng: Rng) -> float:
    """A place in the model, as a share of the way through it."""
    return round(float(rng.uniform()), 3)


class FaultGroup:
    """Faults of one kind, in the order in which they are written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.faults: dict[str, Fault] = {}

    def fault(self, name: str, about: str, draw: Draw = nothing) -> Callable[[Apply], Apply]:
        """Register the decorated function as what the fault does."""

        def register(apply: Apply) -> Apply:
            self.faults[name] = Fault(name, about, self.name, draw, apply)
            return apply

        return register
