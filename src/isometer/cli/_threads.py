"""Threads of libraries: one for small work, since many would wait for each other; all idle cores for large work."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from isometer.threads import THREAD_VARIABLES, available_cores, thread_variables

OPTION = "--threads"
MOST = 1024

_ours = False  # the variables are not the user's


@contextlib.contextmanager
def few_at_the_start(arguments: list[str]) -> Iterator[None]:
    """Libraries that load inside start the threads that the command line asks for, or the user's variables, or one.

    They read these variables as they load, before any option is parsed.

    Example:
        >>> before = dict(os.environ)
        >>> with few_at_the_start(["doctor", "--threads", "3"]):
        ...     os.environ["OMP_NUM_THREADS"]
        '3'
        >>> dict(os.environ) == before
        True
    """
    global _ours
    asked = _asked(arguments)
    _ours = asked is None and not any(map(os.environ.get, THREAD_VARIABLES))
    try:
        with thread_variables(1 if _ours else asked):
            yield
    finally:
        _ours = False


def _asked(arguments: list[str]) -> int | None:
    """What `--threads` says; what is wrong with it is told when it is parsed."""
    for one, following in zip(arguments, [*arguments, ""][1:], strict=True):
        text = following if one == OPTION else one.removeprefix(f"{OPTION}=") if one.startswith(f"{OPTION}=") else ""
        if text.isdecimal() and 1 <= int(text[:9]) <= MOST:
            return int(text)
    return None


@contextlib.contextmanager
def threads(asked: int | None = None, *, large: bool = False) -> Iterator[None]:
    """As many threads as work needs, and as before afterwards: for libraries that are loaded already.

    Args:
        asked: what the user wants; nothing else counts then.
        large: whether all idle cores are worth it. The user's own variables are a limit that this does not exceed.

    Example:
        >>> import torch
        >>> with threads(2):
        ...     torch.get_num_threads()
        2
    """
    count = asked if asked is not None else _by_itself(large)
    if count is None:
        yield
        return
    with contextlib.ExitStack() as undo:
        with contextlib.suppress(ImportError):
            from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

            undo.enter_context(threadpool_limits(count))
        if "torch" in sys.modules:
            torch: Any = importlib.import_module("torch")
            undo.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(count)
        yield


def _by_itself(large: bool) -> int | None:
    """None to leave everything as it is: as the user's variables, or whoever called this, have set it."""
    if not _ours:
        return None
    return idle_cores() if large else 1


def idle_cores() -> int:
    """Cores that nobody uses at the moment, at least one: threads of libraries that share a core wait for each other.

    Example:
        >>> 1 <= idle_cores() <= available_cores()
        True
    """
    busy = int(os.getloadavg()[0]) if hasattr(os, "getloadavg") else 0
    return max(1, available_cores() - busy)
