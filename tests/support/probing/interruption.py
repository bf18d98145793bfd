"""Interrupting a function in the middle: by a timer, at a line, or at an operation of torch.

What an owner does is `signal`, Ctrl-C at a random moment, and `repeated`, because it takes too long. `line` is the same
at a chosen line of Python, anywhere in the model, in torch or in the code that probes, so that a run can be repeated.
These deliver SIGINT, so that code which defers it is respected. `operation` raises at a chosen call of torch,
as running out of memory does. `exception` raises at a chosen line without a signal, as a timeout from another thread
does; nothing can defer it.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.overrides import TorchFunctionMode

KINDS = ("signal", "repeated", "line", "operation", "exception")
_TIMES, _APART = 3, 0.001  # how often, and seconds between
_OWN = f"{os.sep}isometer{os.sep}"


class Interrupted(KeyboardInterrupt):
    """Raised without a signal."""


class _Lines:
    """Counts lines and does something at one of them."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self.count, self.where, self._at, self._act = 0, "", at, act

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count == self._at:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                self._act()
        return self


class _Places:
    """Counts lines, and notes when each line of Isometer ran first and last."""

    def __init__(self) -> None:
        self.count = 0
        self.places: dict[tuple[str, int], tuple[int, int]] = {}

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            self.count += 1
            if _OWN in frame.f_code.co_filename:
                place = frame.f_code.co_filename, frame.f_lineno
                self.places[place] = self.places.get(place, (self.count, 0))[0], self.count
        return self


@dataclass(frozen=True)
class Survey:
    """How long a run is: seconds, lines or operations; and when the lines of Isometer's own code ran."""

    length: float
    places: tuple[tuple[int, int], ...] = ()

    def moment(self, draw: random.Random) -> float:
        """A random one; half of them at a line of Isometer, all of which are equally likely, however often they run."""
        if self.places and draw.random() < 0.5:
            return draw.choice(draw.choice(self.places))
        return self.length * draw.random()


class _Operations(TorchFunctionMode):
    """Counts calls of torch functions and raises at one of them."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.count, self._at = 0, at

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        if self.count == self._at:
            raise Interrupted("at an operation")
        return function(*args, **(kwargs or {}))


def _send() -> None:
    signal.raise_signal(signal.SIGINT)


def _throw() -> None:
    raise Interrupted("at a line")


def _traced(function: Callable[[], Any], lines: Any) -> Any:
    before = sys.gettrace()
    sys.settrace(lines)
    try:
        return function()
    finally:
        sys.settrace(before)


def survey(function: Callable[[], Any], kind: str) -> dict[str, Survey]:
    """Run a function to its end, whatever that is: its length for this kind and for those that the same run tells."""
    if kind in ("line", "exception"):
        lines = _Places()
        with suppress(BaseException):
            _traced(function, lines)
        return dict.fromkeys(("line", "exception"), Survey(lines.count, tuple(lines.places.values())))
    start = time.perf_counter()
    with _Operations(0) as operations, suppress(BaseException):
        function()
    seconds = Survey(time.perf_counter() - start)
    return {"signal": seconds, "repeated": seconds, "operation": Survey(operations.count)}


class _Alarm:
    """Passes the alarms of a timer on as SIGINT, so many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self, *_: Any) -> None:
        if self.left:
            self.left -= 1
            _send()


@contextmanager
def _timer(seconds: float, times: int) -> Iterator[None]:
    alarm = _Alarm(times)
    signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-5), _APART if times > 1 else 0)
    try:
        yield
    finally:
        alarm.left = 0
        calm()


def calm() -> None:
    """No more alarms, even if one comes in between."""
    while True:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            return
        except KeyboardInterrupt:
            continue


def interrupted(function: Callable[[], Any], kind: str, at: float, where: list[str]) -> Any:
    """Run a function and interrupt it after so many seconds, lines or operations.

    Args:
        function: what to run.
        kind: one of `KINDS`.
        at: when, in the unit of the survey. The handler of SIGINT has to be Python's own.
        where: the line that was interrupted is added to it, if a line was chosen.

    Returns:
        What the function returns, if it ended before or caught the interruption.
    """
    alarms = signal.getsignal(signal.SIGALRM)
    lines = _Lines(max(1, round(at)), _send if kind == "line" else _throw)
    try:
        if kind in ("signal", "repeated"):
            with _timer(at, _TIMES if kind == "repeated" else 1):
                return function()
        if kind == "operation":
            with _Operations(max(1, round(at))):
                return function()
        return _traced(function, lines)
    finally:
        calm()
        where.append(lines.where)
        signal.signal(signal.SIGALRM, alarms)
