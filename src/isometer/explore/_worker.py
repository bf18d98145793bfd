"""A process that computes for the explorer: `python -m isometer.explore._worker`.

It reads one JSON object per line, `{"id": …, "job": …, "arguments": {…}, "seconds": …}` or `{"cancel": id}`. It says
`{"started": id}` when libraries are loaded, `{"progress": id, "told": …}` while it computes, and answers
`{"id": …, "result": …}`, `{"id": …, "error": …}`, `{"id": …, "stopped": true}` after so many seconds of its own time,
or `{"id": …, "cancelled": true}`. Both interrupt
the computation between two bytecodes, so that what the process has learnt (modules, analyses of activations) is kept;
loading libraries is never interrupted. It ends when its input does.
"""

from __future__ import annotations

import _thread
import base64
import contextlib
import json
import math
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from isometer.errors import IsometerError
from isometer.explore._progress import listen
from isometer.metrics import register
from isometer.metrics._catalogue import added

_ADDED = "ISOMETER_WORKER_METRICS"
_WATCH = 0.1  # seconds between two looks at the clock


def handed_on() -> dict[str, str]:
    """The metrics registered at run time, for the environment of a worker that can import their functions.

    Example:
        >>> handed_on()
        {}
    """
    texts = []
    for one in added():
        with contextlib.suppress(pickle.PicklingError, AttributeError):  # the worker's error names what it lacks
            texts.append(base64.b64encode(pickle.dumps(one)).decode())
    return {_ADDED: " ".join(texts)} if texts else {}


def _take_over() -> None:
    for text in os.environ.get(_ADDED, "").split():
        with contextlib.suppress(ImportError, AttributeError):
            register(pickle.loads(base64.b64decode(text)))  # written by the process that started this one


class Cancelled(BaseException):
    """Nobody waits for the result any more. Not an `Exception`: no handler on the way may keep it."""


class Worker:
    """One computation at a time, in the main thread; a second thread listens.

    Args:
        jobs: functions by name.
        source: where requests come from.
        sink: where answers go.
        idle: what to do when nothing is asked for, each once and in this order.
    """

    def __init__(
        self,
        jobs: Callable[[str], Callable[..., Any]],
        source: TextIO,
        sink: TextIO,
        idle: Iterable[Callable[[], object]] = (),
    ) -> None:
        self._jobs, self._source, self._sink, self._idle = jobs, source, sink, iter(idle)
        self._waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._running: int | None = None
        self._doomed: int | None = None
        self._late = False
        self._until = math.inf

    def serve(self) -> None:
        """Answer until the input ends."""
        signal.signal(signal.SIGINT, self._interrupted)
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()
        self._say({"ready": True})
        for step in self._idle:
            while not self._waiting.empty():
                self._say(self._answer(self._waiting.get()))
            with contextlib.suppress(IsometerError):  # told to whoever asks
                step()
        while True:
            self._say(self._answer(self._waiting.get()))

    def _listen(self) -> None:
        for line in self._source:
            message = json.loads(line)
            if "cancel" not in message:
                self._waiting.put(message)
                continue
            self._doomed = message["cancel"]
            if self._running == self._doomed:
                _thread.interrupt_main()
        os._exit(0)  # whoever asked is gone

    def _watch(self) -> None:
        """Ends a computation that has used up its time; time in which other programs ran is not counted."""
        while True:
            time.sleep(_WATCH)
            running = self._running
            if running is not None and time.process_time() > self._until:
                self._doomed, self._late = running, True
                _thread.interrupt_main()

    def _interrupted(self, *_: Any) -> None:
        """Runs in the main thread, between two bytecodes of whatever is going on there."""
        # Ctrl-C in the terminal reaches workers too; whether to end is for the server to say.
        if self._running is not None and self._running == self._doomed:
            raise Cancelled

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        identity = request["id"]
        try:
            function = self._jobs(request["job"])
            self._say({"started": identity})
            # Cancelled while libraries were loading, which nothing interrupts.
            if self._doomed == identity:
                return {"id": identity, "cancelled": True}
            self._late, self._until = False, time.process_time() + request["seconds"]
            listen(self._tell)
            self._running = identity
            result = function(**request["arguments"])
            self._running = None
            return {"id": identity, "result": result}
        except Cancelled:
            self._running = None
            return {"id": identity, "stopped" if self._late else "cancelled": True}
        except IsometerError as problem:
            self._running = None
            return {"id": identity, "error": str(problem)}
        except Exception as problem:
            self._running = None
            return {"id": identity, "error": _unexpected(problem), "traceback": traceback.format_exc()}

    def _tell(self, text: str) -> None:
        """Say how far a computation is. A line is written whole: an interrupt waits until it is out."""
        identity, self._running = self._running, None
        self._say({"progress": identity, "told": text[:200]})
        self._running = identity
        if identity is not None and self._doomed == identity:
            raise Cancelled

    def _say(self, message: dict[str, Any]) -> None:
        self._sink.write(json.dumps(message) + "\n")
        self._sink.flush()


def _unexpected(problem: Exception) -> str:
    if isinstance(problem, MemoryError):
        return "not enough memory — choose a smaller width, batch or depth"
    return f"the computation failed: {type(problem).__name__}: {problem}"[:400]


def main() -> None:
    """Serve on standard input and output; what computations print goes to the error output."""
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from isometer.explore.jobs import WARM, job

    _take_over()
    source = os.fdopen(os.dup(sys.stdin.fileno()), encoding="utf-8")
    Worker(job, source, sink, WARM).serve()


if __name__ == "__main__":
    main()
