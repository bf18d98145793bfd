"""A repair: what returns one part of a model to its reference, and how far that part is from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import nn

RepairKind = Literal["weights", "norm", "frozen", "operation", "activation", "input", "targets", "loss"]
INPUT, TARGETS, LOSS = "input", "targets", "loss"
"""What is named where the part is no module of the model."""


@dataclass(frozen=True, eq=False)
class Repair:
    """A change of a model, in place, that returns one part of it to its reference.

    Example:
        >>> zero = Repair("weights", ("0",), "Draw the weights of `0` anew.", "all of them are zero", 5.0,
        ...               lambda model: nn.init.orthogonal_(model[0].weight))
        >>> model = nn.Sequential(nn.Linear(2, 2))
        >>> _ = zero.change(model)
        >>> round(model[0].weight.square().sum().item(), 3)
        2.0

    Attributes:
        kind: what is changed.
        modules: names of the modules that are changed; `input`, `targets` or `loss` for what is outside.
        advice: what to change, one sentence in the imperative.
        evidence: what is unusual about the part, a clause for people; empty if nothing is.
        deviation: how far the part is from its reference: 0 is by the book, 1 deserves a look, 3 is surely wrong.
        change: makes the repair in a model of the same structure; modules are found by their names, so that it works on
            any copy.
        where: file and line of what is changed, `model.py:42`; empty if it is a module.
    """

    kind: RepairKind
    modules: tuple[str, ...]
    advice: str
    evidence: str
    deviation: float
    change: Callable[[nn.Module], object]
    where: str = ""
