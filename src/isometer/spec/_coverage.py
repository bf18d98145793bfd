"""Which interpreter covers which step: one table.

A step that stands here is refused wherever it stands. Theory refuses some others where they stand among steps that it
cannot follow them behind; `isometer.theory.networks.coverage` finds those too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from isometer.spec._language import word_of
from isometer.spec._norm import Norm
from isometer.spec._spec import Spec
from isometer.spec._steps import Attention, Dense, Embedding, Positions, Step, walk

GRAM_LAWS = ("gaussian", "orthogonal", "he", "xavier-normal")


class Uncovered(NamedTuple):
    """A step that an interpreter does not cover: its type, which of that type, and why."""

    step: type
    reason: str
    which: Callable[[Any], bool] = lambda step: True


_TOKENS = (
    Uncovered(Embedding, "tokens are described, but not interpreted yet: pass embedded ones as the batch"),
    Uncovered(Positions, "vectors of positions are described, but not interpreted yet: add them to the batch"),
)
_THEORY = (
    *_TOKENS,
    Uncovered(Dense, "weights of the law asymmetric have a mean", lambda step: step.weights == "asymmetric"),
    Uncovered(Norm, "whitening ties the features of a layer to each other", lambda step: step.whiten),
)
TABLE: dict[str, tuple[Uncovered, ...]] = {
    "theory": _THEORY,
    "kernels": (*_THEORY, Uncovered(Attention, "its tangent kernel is not derived here")),
    "simulation gram": (
        *_TOKENS,
        Uncovered(Dense, "its law is not invariant under rotations", lambda step: step.weights not in GRAM_LAWS),
    ),
    "simulation dense": _TOKENS,
    "nn.build": _TOKENS,
}
"""By interpreter, what it does not cover."""


def gap_of(step: Step, interpreter: str) -> str | None:
    """Why an interpreter does not cover a step wherever it stands; None if it does.

    Example:
        >>> gap_of(Norm.named("whiten"), "theory"), gap_of(Norm.named("whiten"), "nn.build")
        ('whitening ties the features of a layer to each other', None)
    """
    for row in TABLE[interpreter]:
        if isinstance(step, row.step) and row.which(step):
            return row.reason
    return None


def table_gap(spec: Spec, interpreter: str) -> str | None:
    """The first step of a network that an interpreter does not cover, and why; None if there is none.

    Example:
        >>> table_gap(Spec("input(8) > dense > norm('whiten') > dense"), "theory")
        'norm: whitening ties the features of a layer to each other'
    """
    for step in walk(spec.composition):
        reason = gap_of(step, interpreter)
        if reason is not None:
            return f"{word_of(step)}: {reason}"
    return None


def others_that_cover(step: Step, interpreter: str) -> list[str]:
    """The other interpreters that cover a step.

    Example:
        >>> others_that_cover(Norm.named("whiten"), "theory")
        ['simulation gram', 'simulation dense', 'nn.build']
    """
    return [name for name in TABLE if name != interpreter and gap_of(step, name) is None]
