"""Interrupting a function in the middle: by a timer, at a line, or at an operation of torch.

What an owner does is `signal`: Ctrl-C at a random moment. `line` is the same at a chosen line of Python, anywhere in
the model, in torch or in the code that probes, so that a run can be repeated; both deliver SIGINT, so that code which
defers it is respected. `operation` raises at a chosen call of a torch function, as running out of memory does.
`exception` raises at a chosen line without a signal, as a timeout of another thread does; nothing can defer it.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

KINDS = ("signal", "line", "operation", "exception")
_SEEN_BY_NOBODY = 64  # frames of a run that are not lines of it


class Interrupted(KeyboardInterrupt):
    """Raised without a signal."""


class _Lines:
    """Counts lines and does something at one of them."""

    def __init__(self, at: int | None, act: Callable[[], None]) -> None:
        self.count, self._at, self._act = 0, at, act

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count == self._at:
                self._act()
        return self


class _Operations(TorchFunctionMode):
    """Counts calls of torch functions and raises at one of them."""

    def __init__(self, at: int | None) -> None:
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


def _traced(function: Callable[[], Any], lines: _Lines) -> Any:
    before = sys.gettrace()
    sys.settrace(lines)
    try:
        return function()
    finally:
        sys.settrace(before)


def length(function: Callable[[], Any], kind: str) -> float:
    """How long a run is: seconds, lines or operations, whatever it ends with."""
    if kind == "operation":
        with _Operations(None) as operations, suppress(BaseException):
            function()
        return operations.count
    if kind == "signal":
        start = time.perf_counter()
        with suppress(BaseException):
            function()
        return time.perf_counter() - start
    lines = _Lines(None, _send)
    with suppress(BaseException):
        _traced(function, lines)
    return lines.count


@contextmanager
def _timer(seconds: float) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, lambda *_: _send())
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-5))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupted(function: Callable[[], Any], kind: str, at: float) -> Any:
    """Run a function and interrupt it after so many seconds, lines or operations.

    Args:
        function: what to run.
        kind: one of `KINDS`.
        at: when, in the unit of `length`.

    Returns:
        What the function returns, if it ended before or caught the interruption.
    """
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if kind == "signal":
            with _timer(at):
                return function()
        if kind == "operation":
            with _Operations(max(1, round(at))):
                return function()
        return _traced(function, _Lines(max(1, round(at)), _send if kind == "line" else _throw))
    finally:
        signal.signal(signal.SIGINT, handler)


def modes() -> int:
    """How many torch function modes are entered."""
    return int(torch._C._len_torch_function_stack())
