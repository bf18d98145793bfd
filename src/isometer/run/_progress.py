"""How far a run is: counts, pace, time remaining, and what runs now."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Clock = Callable[[], float]


@dataclass(frozen=True)
class Status:
    """A moment of a run.

    Args:
        total: cells of the job.
        done: cells that have a result, those found in the store included.
        reused: cells whose result was in the store already.
        failed: cells that failed.
        running: labels of the cells that run now, with the seconds they have run.
        waiting: cells that another process computes.
        seconds: since the run began.
        notes: what a person should know, such as files that were damaged and are redone.
        said: what running cells say of themselves, by label.

    Example:
        >>> status = Status(total=10, done=6, reused=2, failed=0, running=(), waiting=0, seconds=8.0, notes=())
        >>> status.rate, status.remaining_seconds
        (0.5, 8.0)
    """

    total: int
    done: int
    reused: int
    failed: int
    running: Sequence[tuple[str, float]]
    waiting: int
    seconds: float
    notes: Sequence[str]
    said: Mapping[str, str] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Cells per second in this run."""
        computed = self.done - self.reused + self.failed
        return computed / self.seconds if self.seconds > 0 else 0.0

    @property
    def remaining_seconds(self) -> float | None:
        """At the pace so far; None before there is one."""
        left = self.total - self.done - self.failed
        if left == 0:
            return 0.0
        return left / self.rate if self.rate > 0 else None


Observer = Callable[[Status], None]


class Meter:
    """Counts what the driver does and tells an observer.

    Args:
        total: cells of the job.
        observer: called with a `Status` at every change.
        clock: seconds, for tests.

    Example:
        >>> seen = []
        >>> meter = Meter(2, seen.append)
        >>> meter.finished(1)
        >>> seen[-1].done
        1
    """

    def __init__(self, total: int, observer: Observer | None = None, clock: Clock = time.monotonic) -> None:
        self._total = total
        self._observer = observer
        self._clock = clock
        self._start = clock()
        self._started: dict[str, float] = {}
        self._said: dict[str, str] = {}
        self._slots = 1
        self.done = self.reused = self.failed = self.waiting = 0
        self.notes: list[str] = []

    @property
    def seconds(self) -> float:
        """Since the meter was made."""
        return self._clock() - self._start

    def found(self, cells: int) -> None:
        """Cells whose result is in the store."""
        self.done += cells
        self.reused += cells

    def note(self, text: str) -> None:
        """Something to tell a person."""
        self.notes.append(text)
        self.tell()

    def handed_out(self, label: str, slots: int) -> None:
        """A cell went to the workers."""
        self._started[label] = self._clock()
        self._slots = slots
        self.tell()

    def came_back(self, label: str) -> None:
        """A cell is with the workers no more; the next in line starts about now."""
        place = list(self._started).index(label)
        del self._started[label]
        self._said.pop(label, None)
        # more cells are out than run: the first `slots` run, and the clock of the one that moves up starts now
        for late in list(self._started)[max(place, self._slots - 1) : self._slots]:
            self._started[late] = self._clock()

    def heard(self, label: str, text: str) -> None:
        """A running cell says how it is doing."""
        if label in self._started:
            self._said[label] = text

    def finished(self, cells: int) -> None:
        """Cells got their result."""
        self.done += cells
        self.tell()

    def broke(self, cells: int) -> None:
        """Cells failed."""
        self.failed += cells
        self.tell()

    def tell(self) -> None:
        """Report to the observer."""
        if self._observer is not None:
            now = self._clock()
            running = tuple((label, now - start) for label, start in list(self._started.items())[: self._slots])
            self._observer(
                Status(
                    self._total, self.done, self.reused, self.failed, running, self.waiting, self.seconds,
                    tuple(self.notes), dict(self._said),
                )
            )  # fmt: skip
