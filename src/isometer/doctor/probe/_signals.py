"""Signals that wait: an interruption arrives before or after a piece of work, never in the middle of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")
_NAMES = ("INT", "TERM", "ALRM", "HUP", "QUIT", "USR1", "USR2", "VTALRM", "PROF", "XCPU", "CHLD", "TSTP", "BREAK")
_NUMBERS = [int(getattr(signal, f"SIG{name}")) for name in _NAMES if hasattr(signal, f"SIG{name}")]
_LEVELS = 3  # of `finally` around the work


class SignalGate:
    """Holds back every signal that Python handles, except while it is open.

    Installed it is shut: what arrives is remembered, and delivered when the handlers are back. Open, it hands a signal
    to the handler that was there before. If that handler raises, as the one of Ctrl-C does, the gate shuts behind it:
    the exception is on its way to a `finally` that must not be interrupted again. Handlers belong to the main thread;
    in other threads there is nothing to hold back, and nothing is done.

    Example:
        >>> gate = SignalGate()
        >>> gate.install()
        >>> signal.raise_signal(signal.SIGINT)  # waits
        >>> gate.put_back()
        >>> try:
        ...     gate.deliver()
        ... except KeyboardInterrupt:
        ...     print("delivered")
        delivered
    """

    def __init__(self) -> None:
        self._open = self._removed = False
        self._before: dict[int, Any] = {}
        self._left: list[int] = []  # whose handlers are to be put back
        self._waiting: list[int] = []

    def install(self) -> None:
        """Take over the handlers that are Python functions; the system's own end the process or do nothing."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _handled():
            self._before[number] = signal.getsignal(number)
            self._left.append(number)
            signal.signal(number, self._handle)

    def open(self) -> None:
        """Let signals through; those that waited are delivered now."""
        self._open = True
        if self._waiting:
            self._open = False
            self._deliver()
            self._open = True

    def shut(self) -> None:
        """Hold signals back again."""
        self._open = False

    def put_back(self) -> None:
        """Put the handlers back; those that an interruption left are put back by the next call."""
        self._open, problem = False, None
        while self._left:
            try:
                while self._left:
                    signal.signal(self._left[-1], self._before[self._left[-1]])
                    self._left.pop()
            except BaseException as interruption:  # by a handler that is back already; the others must follow
                problem = interruption
        if problem is not None:
            raise problem

    def deliver(self) -> None:
        """Deliver what waited, with the handlers back in their places."""
        self._removed = True
        self._deliver()

    def _deliver(self) -> None:
        waiting, self._waiting = self._waiting, []
        for number in waiting:
            if self._removed:
                signal.raise_signal(number)
            else:
                self._before[number](number, None)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._removed:  # left in place by a second interruption while handlers were put back
            signal.signal(number, self._before[number])
            signal.raise_signal(number)
            return
        if not self._open:
            self._waiting.append(number)
            return
        self._open = False
        self._before[number](number, frame)
        self._open = True  # the handler returned: nothing is being undone


def guarded(
    work: Callable[[], Result], undo: Callable[[], object], start: Callable[[], object] | None = None
) -> Result:
    """Call a function, and then another one whatever happened; only the first can be interrupted.

    Signals wait while it is undone. What no handler holds back, such as an exception from another thread, may arrive
    after a `finally` was entered and before it has begun, or in the middle of it: then the next level of `finally`
    around it does everything again.

    Args:
        work: what is done; signals are let through.
        undo: comes after it in any case, again if something interrupts it; signals wait.
        start: comes before it; signals wait.

    Example:
        >>> def work() -> None:
        ...     signal.raise_signal(signal.SIGINT)
        ...     print("not reached")
        >>> def undo() -> None:
        ...     signal.raise_signal(signal.SIGINT)
        ...     print("undone")
        >>> try:
        ...     guarded(work, undo)
        ... except KeyboardInterrupt:
        ...     print("interrupted")
        undone
        interrupted
    """
    gate, undone = SignalGate(), list[object]()

    def begin() -> Result:
        gate.install()
        if start is not None:
            start()
        gate.open()
        return work()

    def end() -> None:
        gate.shut()  # whoever raised, a signal too
        try:
            if not undone:
                undone.append(undo())
        finally:
            gate.put_back()

    try:
        return _ensured(begin, end, [], _LEVELS)
    finally:
        gate.deliver()


def _ensured(work: Callable[[], Result], end: Callable[[], object], ended: list[object], levels: int) -> Result:
    """Call a function, and then another one until it has come to its end, at most once per level."""
    try:
        return work() if levels == 1 else _ensured(work, end, ended, levels - 1)
    finally:
        if not ended:
            ended.append(end())


def uninterrupted(work: Callable[[], Result]) -> Result:
    """Call a function; signals that arrive meanwhile are delivered behind it.

    The handlers come back whatever happened, as with `guarded`.

    Example:
        >>> def work() -> None:
        ...     signal.raise_signal(signal.SIGINT)
        ...     print("whole")
        >>> try:
        ...     uninterrupted(work)
        ... except KeyboardInterrupt:
        ...     print("then interrupted")
        whole
        then interrupted
    """
    gate = SignalGate()

    def begin() -> Result:
        gate.install()
        return work()

    try:
        return _ensured(begin, gate.put_back, [], _LEVELS)
    finally:
        gate.deliver()


def _handled() -> list[int]:
    """Signals with a handler in Python, Ctrl-C first."""
    return [number for number in _NUMBERS if callable(signal.getsignal(number))]
