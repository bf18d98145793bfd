"""Computations that are bounded, remembered, and dropped when nobody waits for them.

A `Desk` owns a few processes. What is asked for belongs to a tab of a browser and a slot of its page; a newer request
for the same slot of the same tab cancels the older one, and nothing else. Results are kept by what was asked for, so
that two tabs share them without noticing each other.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isometer.errors import IsometerError
from isometer.explore._state import LIMITS
from isometer.explore._worker import handed_on
from isometer.threads import THREAD_VARIABLES

__all__ = ["Computation", "Desk", "Superseded"]

_START = 120.0  # seconds that a process may take to load its libraries
_SLOWER = 6.0  # times the limit by the clock on the wall, since other programs run too
_GRACE = 1.0  # seconds between asking a computation to stop and ending its process
_QUEUE = 200  # computations that may wait
_KEPT_ENTRIES, _KEPT_BYTES = 400, 96_000_000


COMMAND = (sys.executable, "-P", "-m", "isometer.explore._worker")
"""What computes; `-P` keeps files of the present folder from being taken for libraries."""


class Superseded(Exception):
    """A newer request of the same slot came; this one has no answer."""


@dataclass(frozen=True)
class Computation:
    """What to compute: the name of a function of `isometer.explore.jobs` and its arguments, as JSON data.

    Attributes:
        name: name of the function.
        arguments: its arguments.
        seconds: how long it may take; the desk's limit by default.

    Example:
        >>> Computation("card", {"activation": "relu"}).key
        'card {"activation": "relu"}'
    """

    name: str
    arguments: Mapping[str, Any]
    seconds: float | None = None

    @property
    def key(self) -> str:
        """The same for the same job."""
        return f"{self.name} {json.dumps(dict(self.arguments), sort_keys=True)}"


@dataclass(eq=False)
class _Ticket:
    """One request of a slot."""

    tab: str
    slot: str
    cancelled: threading.Event = field(default_factory=threading.Event)


@dataclass(eq=False)
class _Pending:
    job: Computation
    ticket: _Ticket
    done: threading.Event = field(default_factory=threading.Event)
    outcome: Any = None
    process: _Process | None = None

    def finish(self, outcome: Any) -> None:
        self.outcome = outcome
        self.done.set()


class _Process:
    """A worker process that is started when it is needed and replaced when it had to be ended."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._inbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._popen: subprocess.Popen[str] | None = None
        self._numbers = itertools.count()
        self.started = 0
        self.told = ""

    def start(self) -> None:
        """Have a process that is ready, or raise `IsometerError`."""
        if self._popen is not None and self._popen.poll() is None:
            return
        # What an ended process still said must not answer the next one's requests.
        self._inbox = queue.SimpleQueue()
        self._popen = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # nobody reads it, and a full pipe would block the worker
            text=True,
            encoding="utf-8",
            # Workers share the cores, so each computes in one thread.
            env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1"), **handed_on()},
        )
        self.started += 1
        # Reading a pipe knows no time limit; taking from a queue does.
        threading.Thread(target=_forward, args=(self._popen, self._inbox), daemon=True).start()
        if "ready" not in self._wait(_START, lambda: False):
            self.end()
            raise IsometerError("a worker process did not start — is isometer installed in this Python?")

    def run(self, task: _Pending, seconds: float) -> Any:
        """The outcome of a task: a result, or an exception that says why there is none."""
        try:
            self.start()
        except (IsometerError, OSError) as problem:
            return IsometerError(str(problem))
        identity = next(self._numbers)
        self.told = ""
        request = {"id": identity, "job": task.job.name, "arguments": dict(task.job.arguments), "seconds": seconds}
        unwanted = task.ticket.cancelled.is_set
        try:
            self._send(request)
        except OSError:
            self.end()
            return IsometerError(_ENDED)
        reply = self._wait(_START, lambda: False, identity)  # libraries load; that is never interrupted
        if reply.get("started") == identity:
            reply = self._wait(_SLOWER * seconds, unwanted, identity)
        if reply.get("id") == identity:
            return _outcome(reply, seconds)
        if "gone" in reply:
            self.end()
            return IsometerError(_ENDED)
        self._stop(identity)
        return Superseded() if unwanted() else IsometerError(_stopped(seconds))

    def wake(self) -> None:
        """Make `run` look whether its task is still wanted."""
        self._inbox.put({"wake": True})

    def end(self) -> None:
        """End the process."""
        if self._popen is not None:
            self._popen.kill()
            with contextlib.suppress(OSError):  # what was not sent cannot be sent any more
                assert self._popen.stdin is not None
                self._popen.stdin.close()
            self._popen.wait()  # or a zombie stays
            self._popen = None

    def _stop(self, identity: int) -> None:
        """Ask the computation to stop; end the process if it does not."""
        try:
            self._send({"cancel": identity})
        except OSError:
            self.end()
            return
        if self._wait(_GRACE, lambda: False, identity).get("id") != identity:
            self.end()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._popen is not None
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps(message) + "\n")
        self._popen.stdin.flush()

    def _wait(self, seconds: float, unwanted: Callable[[], bool], identity: int | None = None) -> dict[str, Any]:
        """The next reply, an empty one when time is up or it is unwanted."""
        end = time.monotonic() + seconds
        while not unwanted():
            left = end - time.monotonic()
            if left <= 0:
                break
            try:
                message = self._inbox.get(timeout=left)
            except queue.Empty:
                break
            if message.get("progress") == identity is not None:
                self.told = str(message["told"])
            # Wakes and late replies to earlier requests are passed over.
            if "gone" in message or "ready" in message or identity in (message.get("id"), message.get("started")):
                return message
        return {}


def _forward(popen: subprocess.Popen[str], inbox: queue.SimpleQueue[dict[str, Any]]) -> None:
    assert popen.stdout is not None
    with popen.stdout as lines:
        for line in lines:
            inbox.put({**json.loads(line), "size": len(line)})
    inbox.put({"gone": True})


_ENDED = "the computation ended unexpectedly, perhaps for lack of memory — choose smaller sizes"


def _stopped(seconds: float) -> str:
    return f"stopped after {seconds:g} seconds of computing — choose a smaller batch, width, depth or number of runs"


def _outcome(reply: dict[str, Any], seconds: float) -> Any:
    if "result" in reply:
        return _Reply(reply["result"], reply["size"])
    if "cancelled" in reply:
        return Superseded()
    if "stopped" in reply:
        return IsometerError(_stopped(seconds))
    return IsometerError(reply["error"])


@dataclass(frozen=True)
class _Reply:
    value: Any
    size: int


class _Cache:
    """The results that were used last, bounded in number and size."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, _Reply] = OrderedDict()
        self._bytes = 0

    def get(self, key: str) -> _Reply | None:
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
        return found

    def put(self, key: str, result: _Reply) -> None:
        if key in self._held:
            return
        self._held[key] = result
        self._bytes += result.size
        # A single result above the limit is kept all the same.
        while len(self._held) > _KEPT_ENTRIES or (self._bytes > _KEPT_BYTES and len(self._held) > 1):
            _, dropped = self._held.popitem(last=False)
            self._bytes -= dropped.size


class Desk:
    """Runs the computations of the labs in worker processes.

    Args:
        workers: processes.
        seconds: how long one computation may take; at most the limit of the explorer.
        command: the command that starts a process.

    Example:
        >>> desk = Desk(workers=1)
        >>> [card] = desk.ask("a tab", "a slot", [Computation("card", {"activation": "relu"})])
        >>> card["case"]
        3
        >>> desk.close()
    """

    def __init__(self, workers: int = 2, seconds: float | None = None, *, command: Sequence[str] = COMMAND) -> None:
        longest = LIMITS["seconds"].high
        self.seconds = longest if seconds is None else min(seconds, longest)
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._waiting: deque[_Pending] = deque()
        self._running: list[_Pending] = []
        self._latest: OrderedDict[tuple[str, str], _Ticket] = OrderedDict()
        self._cache = _Cache()
        self._closed = False
        self._processes = [_Process(command) for _ in range(workers)]
        self._threads: list[threading.Thread] = []
        self.counts = {"computed": 0, "remembered": 0, "cancelled": 0, "stopped": 0}

    @property
    def starts(self) -> int:
        """How many processes were started in all; more than there are workers if some had to be ended."""
        return sum(process.started for process in self._processes)

    def open(self) -> None:
        """Start the processes; `ask` does so too."""
        with self._lock:
            if self._threads or self._closed:
                return
            for process in self._processes:
                thread = threading.Thread(target=self._serve, args=(process,), daemon=True)
                self._threads.append(thread)
        for thread in self._threads:
            thread.start()
        atexit.register(self.close)

    def ask(self, tab: str, slot: str, jobs: Sequence[Computation]) -> list[Any]:
        """Results in the order of the jobs; an `IsometerError` where a job has none.

        Args:
            tab: who asks.
            slot: what for; a newer request of the same tab and slot cancels this one.
            jobs: what is to be computed.

        Returns:
            One result or `IsometerError` per job.

        Raises:
            Superseded: a newer request came.
        """
        self.open()
        ticket = _Ticket(tab, slot)
        tasks = [_Pending(job, ticket) for job in jobs]
        with self._arrived:
            self._supersede(ticket)
            for task in tasks:
                found = self._cache.get(task.job.key)
                if found is not None:
                    self.counts["remembered"] += 1
                    task.finish(found)
                elif len(self._waiting) >= _QUEUE or self._closed:
                    task.finish(IsometerError("too many computations are waiting — close a tab or try again later"))
                else:
                    self._waiting.append(task)
            self._arrived.notify_all()
        # Outside of the lock, which workers need in order to finish.
        for task in tasks:
            task.done.wait()
        if ticket.cancelled.is_set() or any(isinstance(task.outcome, Superseded) for task in tasks):
            raise Superseded
        return [task.outcome.value if isinstance(task.outcome, _Reply) else task.outcome for task in tasks]

    def remembered(self, job: Computation) -> Any:
        """The result of a job if it was computed and is still kept, otherwise None."""
        with self._lock:
            found = self._cache.get(job.key)
        return None if found is None else found.value

    def progress(self, tab: str) -> str:
        """What the computations of a tab said last; empty if none runs or none said anything."""
        with self._lock:
            told = [task.process.told for task in self._running if task.ticket.tab == tab and task.process is not None]
        return next(filter(None, told), "")

    def close(self) -> None:
        """End all processes; pending requests get no answer."""
        with self._arrived:
            self._closed = True
            for ticket in self._latest.values():
                ticket.cancelled.set()
            for task in self._waiting:
                task.finish(Superseded())
            self._waiting.clear()
            self._arrived.notify_all()
        for process in self._processes:
            process.wake()
        for thread in self._threads:
            thread.join(timeout=_GRACE + 1)
        for process in self._processes:
            process.end()
        atexit.unregister(self.close)

    def _supersede(self, ticket: _Ticket) -> None:
        """Called with the lock held: the older request of the slot has no answer any more."""
        place = (ticket.tab, ticket.slot)
        older = self._latest.pop(place, None)
        self._latest[place] = ticket
        # Nothing tells that a tab was closed: the oldest places are forgotten.
        while len(self._latest) > 4096:
            self._latest.popitem(last=False)
        if older is None:
            return
        older.cancelled.set()
        for task in [task for task in self._waiting if task.ticket is older]:
            self._waiting.remove(task)
            self.counts["cancelled"] += 1
            task.finish(Superseded())
        for task in self._running:
            if task.ticket is older and task.process is not None:
                self.counts["cancelled"] += 1
                task.process.wake()

    def _next(self) -> _Pending | None:
        """The next task: of a tab for which nothing runs, if there is one, so that no tab waits for another's queue."""
        with self._arrived:
            while not self._waiting and not self._closed:
                self._arrived.wait()
            if self._closed:
                return None
            busy = {task.ticket.tab for task in self._running}
            task = next((task for task in self._waiting if task.ticket.tab not in busy), self._waiting[0])
            self._waiting.remove(task)
            self._running.append(task)
            return task

    def _serve(self, process: _Process) -> None:
        with contextlib.suppress(IsometerError, OSError):  # told to whoever asks
            process.start()
        while (task := self._next()) is not None:
            with self._lock:
                task.process = process
                # Another worker may have computed the same while the task waited.
                found = self._cache.get(task.job.key)
                # A task that was cancelled before it had a process was not woken: it is found here.
                dropped = task.ticket.cancelled.is_set()
            seconds = self.seconds if task.job.seconds is None else task.job.seconds
            outcome = Superseded() if dropped else found if found is not None else process.run(task, seconds)
            with self._lock:
                self._running.remove(task)
                task.process = None
                if isinstance(outcome, _Reply):
                    self._cache.put(task.job.key, outcome)
                    self.counts["computed"] += 1
                elif isinstance(outcome, IsometerError):
                    self.counts["stopped"] += str(outcome).startswith("stopped after")
            task.finish(outcome)
