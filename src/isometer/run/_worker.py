"""What happens in a worker: one cell, one thread, one file's worth of bytes."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray

from isometer.errors import IsometerError
from isometer.files import write_whole
from isometer.run._cells import recorded
from isometer.run._checkpoints import NOTE, Checkpoint
from isometer.run._code import code_version, function_named, library_versions
from isometer.run._files import Header, encoded
from isometer.threads import THREAD_VARIABLES
from isometer.work import allow


@dataclass(frozen=True)
class WorkOrder:
    """What a worker gets.

    Args:
        key: content key of the cell.
        function: `module:name`.
        code: version of the code that the client has.
        configuration: of the cell.
        seed: seed of the cell.
        saved: its checkpoint, if there is one.
        keep: where a checkpoint goes: a function of key and bytes that can be sent to a worker.

    Example:
        >>> WorkOrder("ab" * 32, "isometer.run.example:power", "1", {"base": 2}, 0).keep is None
        True
    """

    key: str
    function: str
    code: str
    configuration: Mapping[str, Any]
    seed: int
    saved: bytes | None = None
    keep: Callable[[str, bytes], None] | None = None


@dataclass(frozen=True)
class Raised:
    """A cell that raised, in text: exceptions need not survive the way back.

    Example:
        >>> Raised("ValueError: no", "…").error
        'ValueError: no'
    """

    error: str
    traceback: str


def compute(task: WorkOrder) -> bytes | Raised:
    """The file of a cell, or what went wrong.

    Example:
        >>> outcome = compute(WorkOrder("ab" * 32, "isometer.run.example:power", "1", {"base": "x"}, 0))
        >>> print(outcome.error)
        the worker has version ... of the code, the client 1 — install the same on both
    """
    try:
        function = function_named(task.function)
        _one_thread()  # after the import, whose libraries it limits
        here = code_version(function, task.configuration)
        if here != task.code:
            raise IsometerError(
                f"the worker has version {here} of the code, the client {task.code} — install the same on both"
            )
        arguments: dict[str, Any] = {}
        if wants_checkpoint(function):
            arguments["checkpoint"] = _checkpoint(task)
        # long work was asked for, and a sweep has estimated its cells; what is free remains the limit
        with allow(memory=1e15, seconds=1e12):
            result = function(task.configuration, task.seed, **arguments)
        if not isinstance(result, xarray.Dataset):
            raise IsometerError(f"{task.function} returned a {type(result).__name__}; expected an xarray.Dataset")
        libraries = json.loads(library_versions())
        configuration = recorded(task.configuration)
        return encoded(result, Header(task.key, task.function, task.code, configuration, task.seed, libraries))
    except IsometerError as problem:  # a sentence that says what to change, so that nobody needs the lines
        return Raised(str(problem), "")
    except (Exception, SystemExit) as problem:  # SystemExit would end the worker
        error = "".join(traceback.format_exception_only(problem)).strip()
        return Raised(error, traceback.format_exc())


def _checkpoint(task: WorkOrder) -> Checkpoint:
    keep, key = task.keep, task.key
    if keep is None:
        return Checkpoint(task.saved)
    return Checkpoint(task.saved, lambda saved: keep(key, saved), lambda text: keep(key + NOTE, text.encode()))


def wants_checkpoint(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter `checkpoint`.

    Example:
        >>> from isometer.run.example import power
        >>> wants_checkpoint(power), wants_checkpoint(lambda cell, seed, checkpoint: None)
        (False, True)
    """
    return "checkpoint" in inspect.signature(function).parameters


@dataclass(frozen=True)
class KeepInFolder:
    """Checkpoints of a worker that shares the disk of the store.

    Example:
        >>> KeepInFolder("runs/checkpoints").folder
        'runs/checkpoints'
    """

    folder: str

    def __call__(self, key: str, saved: bytes) -> None:
        from isometer.run._store import StoreError

        write_whole(Path(self.folder) / key, saved, error=StoreError)


def prepare() -> None:
    """First thing in a process of the pool: leave Ctrl-C to the client, and do not outlive it."""
    import multiprocessing
    import signal
    from multiprocessing.connection import wait

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        sentinel = parent.sentinel

        def watch() -> None:
            wait([sentinel])
            os._exit(1)  # the client is gone, by kill -9 perhaps: nobody wants the result

        threading.Thread(target=watch, daemon=True, name="isometer-parent").start()


_limited = False


def _one_thread() -> None:
    """One thread for everything that is loaded, whatever the worker's own settings are."""
    global _limited
    if not _limited:
        for variable in THREAD_VARIABLES:  # for what is loaded later
            os.environ[variable] = "1"
        try:
            from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            pass
        else:
            threadpool_limits(1)
        _limited = True
    if "torch" in sys.modules:
        torch: Any = importlib.import_module("torch")  # waits for another thread that is just importing it
        if torch.get_num_threads() != 1:
            torch.set_num_threads(1)
