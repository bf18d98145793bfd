"""What a budget counts: seconds in which the processor works for us, so that a busy machine changes no verdict."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
from torch import nn

Clock = Callable[[], float]
USUAL, WHOLE = 60.0, 600.0
"""Seconds for what has no end of its own, and for the whole plan of a stress test, unless a budget is given."""
_PATIENCE = 5.0  # times the budget, on the wall: other programs and slow batches count too, but not as much


class Budget:
    """Seconds of work that may be spent from now on.

    Only the work of this thread counts, not its waiting while other programs run: what is tried would otherwise depend
    on them. Waiting ends a budget too, but only at five times its seconds.

    Args:
        seconds: the caller's, `None` if the caller gave none.
        clock: that counts them, as `clock_of` gives it.

    Example:
        >>> ticks = iter([0.0, 4.0, 12.0])
        >>> budget = Budget(10.0, lambda: next(ticks))
        >>> round(budget.left), budget.late
        (6, True)

    Attributes:
        given: whether the caller gave it.
        seconds: how many there are in all.
    """

    def __init__(self, seconds: float | None, clock: Clock = time.thread_time) -> None:
        self.given, self.seconds = seconds is not None, USUAL if seconds is None else seconds
        self._clock, self._begun, self._wall = clock, clock(), time.perf_counter()

    @property
    def spent(self) -> float:
        """Seconds of work so far."""
        return self._clock() - self._begun

    @property
    def left(self) -> float:
        """Seconds of work that are left, below zero if there are none."""
        waited = time.perf_counter() - self._wall
        return min(self.seconds - self.spent, _PATIENCE * self.seconds - waited)

    @property
    def late(self) -> bool:
        """Whether nothing new may be begun."""
        return self.left < 0

    def part(self, seconds: float) -> Budget:
        """Another budget, by the same clock, that begins now."""
        return Budget(seconds, self._clock)


ENDLESS = Budget(math.inf)


def clock_of(model: nn.Module) -> Clock:
    """The clock that counts what a model costs: the work of this thread, on an accelerator the time on the wall."""
    places = {tensor.device.type for tensor in (*model.parameters(), *model.buffers())}
    return _synchronised if places - {"cpu", "meta"} else time.thread_time


def _synchronised() -> float:
    """The time on the wall when everything that was begun on the accelerator is done."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
    return time.perf_counter()
