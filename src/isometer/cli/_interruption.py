"""Ctrl-C: at once, with one line that says what is kept, whatever the process is busy with."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

INTERRUPTED = 128 + int(signal.SIGINT)
"""Exit code of an interrupted command, as shells report it."""
_UNHEARD = 1.0  # seconds for the main thread to notice a signal; inside a library's call it does not
_TIDYING = 5.0  # seconds for files, locks and workers to be put away
_NOTHING = "nothing is kept — run the command again"

_kept: list[Callable[[], str]] = []
_told: threading.Lock | None = None  # held once the line is printed


@contextlib.contextmanager
def keeps(told: str | Callable[[], str]) -> Iterator[None]:
    """What an interruption inside leaves behind, for the line that reports it.

    Example:
        >>> with keeps("the pictures in demo are whole"):
        ...     what_is_kept()
        'the pictures in demo are whole'
        >>> what_is_kept()
        'nothing is kept — run the command again'
    """
    one = told if callable(told) else lambda: told
    _kept.append(one)
    try:
        yield
    finally:
        # After an interruption `main` still asks.
        if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
            _kept.remove(one)


def what_is_kept() -> str:
    """The innermost `keeps`, in words."""
    return _kept[-1]() if _kept else _NOTHING


def tell_interruption(kept: str | None = None) -> None:
    """The line about it, once in a command.

    Args:
        kept: what is; as `keeps` says by default.
    """
    if _told is None or _told.acquire(blocking=False):
        with contextlib.suppress(OSError, ValueError):
            # A display that is still there would print the line and then itself once more.
            stream = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
            # In place of what it has left on the line, and with the cursor that it hides.
            start = "\r\x1b[K\x1b[?25h" if stream.isatty() else ""
            stream.write(f"{start}interrupted: {kept or what_is_kept()}\n")
            stream.flush()


def _quiet(problem: Any) -> None:
    """Nothing about an interruption that came where Python cannot raise; the process ends all the same."""
    if problem.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(problem)


class Interruption:
    """While it lasts Ctrl-C raises `KeyboardInterrupt`, and a thread sees to it that the process ends.

    Python hands a signal to its main thread between two of its own instructions. Within a long call of a library, or
    where someone catches everything, nothing happens for long. The thread notices the signal at once: it ends the
    process one second later if the main thread has not noticed, five seconds later if it has not ended, and on a second
    Ctrl-C immediately. Files are written whole or not at all and workers do not outlive their client, so nothing is
    damaged.

    Args:
        whole_process: end the process. Otherwise, in someone else's process, only raise.
    """

    def __init__(self, *, whole_process: bool) -> None:
        self.arrived = False
        self._whole = whole_process
        self._noticed = threading.Event()
        self._before: Any = None
        self._pipe: tuple[int, int] | None = None
        self._wakeup = -1

    def __enter__(self) -> Interruption:
        global _told
        _kept.clear()
        _told = threading.Lock()
        # Started in the background, as shells without job control do it, a process ignores Ctrl-C for good.
        main = threading.current_thread() is threading.main_thread()
        if main and callable(signal.getsignal(signal.SIGINT)):
            self._before = signal.signal(signal.SIGINT, self._handle)
            if self._whole:
                sys.unraisablehook = _quiet
                self._watch()
        return self

    def __exit__(self, *problem: object) -> None:
        global _told
        if self._whole and self.arrived:
            return  # the process is about to end, and the thread makes sure of it
        _told = None
        if self._before is None:
            return
        if self._pipe is not None:
            sys.unraisablehook = sys.__unraisablehook__
            signal.set_wakeup_fd(self._wakeup)
            os.close(self._pipe[1])  # ends the thread
        signal.signal(signal.SIGINT, self._before)

    def leave(self) -> None:
        """End the process if it was interrupted, without the time that libraries take to go."""
        if self._whole and self.arrived:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError, AttributeError):
                    stream.flush()
            os._exit(INTERRUPTED)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.arrived = True
        self._noticed.set()
        raise KeyboardInterrupt

    def _watch(self) -> None:
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[1], False)
        self._wakeup = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        threading.Thread(target=self._listen, args=self._pipe[:1], daemon=True, name="isometer-interruption").start()

    def _listen(self, source: int) -> None:
        with os.fdopen(source, "rb", buffering=0) as signals:
            while (arrived := signals.read(64)) and signal.SIGINT not in arrived:
                pass
            if not arrived:
                return
            self.arrived = True
            if arrived.count(signal.SIGINT) == 1:
                threading.Thread(target=self._after_patience, daemon=True).start()
                while signal.SIGINT not in (again := signals.read(64)) and again:
                    pass
            self._end()

    def _after_patience(self) -> None:
        begun = time.monotonic()
        if self._noticed.wait(_UNHEARD):
            time.sleep(max(0.0, begun + _TIDYING - time.monotonic()))
        self._end()

    def _end(self) -> None:
        tell_interruption()
        os._exit(INTERRUPTED)
