"""A mark for functions that observe a computation: displays, remarks, monitors. `isometer.run` leaves their code out of
the version of what it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F")


def observes(setting: str | None = None) -> Callable[[F], F]:
    """Marks a function that observes a computation, and from which none of its numbers follow.

    Its code is not part of the version of a cell that calls it, unless the cell's configuration sets `setting`.

    Args:
        setting: a name in configurations; without, the code never counts.

    Example:
        >>> @observes()
        ... def told(loss: float) -> str:
        ...     return f"the loss is {loss:g}"
        >>> told(0.5)
        'the loss is 0.5'
    """

    def same(function: F) -> F:
        return function

    return same
