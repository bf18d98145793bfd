"""Where cells are computed: processes here, or a Dask cluster; both are a `concurrent.futures.Executor`."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

from isometer.errors import IsometerError
from isometer.extras import need
from isometer.run._worker import KeepInFolder, prepare
from isometer.threads import available_cores, thread_variables

if TYPE_CHECKING:
    from pathlib import Path

_STARTS = 3
_CLOSING = 2.0  # seconds that a local cluster is given for a step of its end


class Workers(ABC):
    """An executor, how many cells it can run at a time, and how its checkpoints come back.

    Example:
        >>> workers = Standing(lambda: Processes(2))
        >>> isinstance(workers, Workers), workers.started
        (True, False)
    """

    executor: Executor

    @property
    @abstractmethod
    def slots(self) -> int:
        """Cells that run at a time."""

    @property
    @abstractmethod
    def window(self) -> int:
        """Cells to hand out at a time."""

    @abstractmethod
    def keep(self, checkpoints: Path) -> Callable[[str, bytes], None]:
        """What a worker calls with a key and a checkpoint."""

    @abstractmethod
    def arrived(self) -> list[tuple[str, bytes]]:
        """Checkpoints that came back to the client and are still to be written."""

    @abstractmethod
    def restart(self) -> None:
        """A new executor after the old one broke."""

    @abstractmethod
    def stop(self, *, now: bool) -> None:
        """End the workers; with `now`, without waiting for their work."""


class Processes(Workers):
    """A pool of processes that start afresh, with one thread each.

    Args:
        count: number of processes; as many as this process may use cores by default.

    Example:
        >>> Processes(2).slots
        2
    """

    def __init__(self, count: int | None = None) -> None:
        count = available_cores() if count is None else count
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise IsometerError(
                f"workers is {count!r}; expected a whole number of at least 1 — pass --workers 2, for example"
            )
        self._count = count
        self._limits = contextlib.ExitStack()
        self._limits.enter_context(thread_variables(1))  # until `stop`: the pool starts processes on demand
        self._others = set(multiprocessing.active_children())  # children of the caller, not to be killed
        self.executor = self._pool()

    def _pool(self) -> ProcessPoolExecutor:
        """A pool of which one process has answered: what dies later dies of its cell."""
        # fork would copy libraries that are loaded already, past the moment at which they read the variables
        context = multiprocessing.get_context("spawn")
        for _ in range(_STARTS):
            pool = DeafPool(self._count, mp_context=context, initializer=prepare)
            try:
                pool.submit(os.getpid).result()
            except BrokenExecutor:
                pool.shutdown(wait=True)
            else:
                return pool
        raise IsometerError(
            f"worker processes died {_STARTS} times as they started — check memory; in a script, start runs under "
            "`if __name__ == '__main__':`"
        )

    @property
    def slots(self) -> int:
        return self._count

    @property
    def window(self) -> int:
        return 2 * self._count  # as many again wait in line: no process idles until the driver looks

    def keep(self, checkpoints: Path) -> Callable[[str, bytes], None]:
        return KeepInFolder(str(checkpoints.resolve()))

    def arrived(self) -> list[tuple[str, bytes]]:
        return []

    def restart(self) -> None:
        self._kill()
        self.executor.shutdown(wait=True, cancel_futures=True)
        self.executor = self._pool()

    def stop(self, *, now: bool) -> None:
        # shutdown alone would wait for the cells that run
        if now:
            self._kill()
        self.executor.shutdown(wait=True, cancel_futures=True)
        self._limits.close()

    def _kill(self) -> None:
        for process in multiprocessing.active_children():
            if process not in self._others:
                process.kill()


class DeafPool(ProcessPoolExecutor):
    """Processes that Ctrl-C does not reach: it is for the client to say whether they end."""

    def submit(self, *call: Any, **options: Any) -> Any:
        with _deaf_children():  # a process may start now
            return super().submit(*call, **options)


class Given(Workers):
    """An executor that the caller owns: it is used, not stopped.

    Args:
        executor: for instance a `ThreadPoolExecutor`.
        slots: cells that run at a time.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> with ThreadPoolExecutor(3) as pool:
        ...     Given(pool, 3).window
        6
    """

    def __init__(self, executor: Executor, slots: int) -> None:
        self.executor = executor
        self._slots = slots

    @property
    def slots(self) -> int:
        return self._slots

    @property
    def window(self) -> int:
        return 2 * self._slots

    def keep(self, checkpoints: Path) -> Callable[[str, bytes], None]:
        return KeepInFolder(str(checkpoints.resolve()))

    def arrived(self) -> list[tuple[str, bytes]]:
        return []

    def restart(self) -> None:
        raise IsometerError("the executor that was passed in broke — run again with a new one")

    def stop(self, *, now: bool) -> None:
        pass


class Standing(Workers):
    """Workers that several runs use one after the other: started when first needed, ended by `close`.

    Args:
        start: makes the workers.

    Example:
        >>> with Standing(lambda: Processes(2)) as workers:
        ...     workers.started
        False
    """

    def __init__(self, start: Callable[[], Workers]) -> None:
        self._start = start
        self._inner: Workers | None = None

    def __enter__(self) -> Standing:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    @property
    def started(self) -> bool:
        """Whether any run has needed them."""
        return self._inner is not None

    @property
    def _workers(self) -> Workers:
        if self._inner is None:
            self._inner = self._start()
        return self._inner

    @property
    def executor(self) -> Executor:  # type: ignore[override]
        """That of the workers, which start now if no run has needed them yet."""
        return self._workers.executor

    @property
    def slots(self) -> int:
        return self._workers.slots

    @property
    def window(self) -> int:
        return self._workers.window

    def keep(self, checkpoints: Path) -> Callable[[str, bytes], None]:
        return self._workers.keep(checkpoints)

    def arrived(self) -> list[tuple[str, bytes]]:
        return self._workers.arrived()

    def restart(self) -> None:
        self._workers.restart()

    def stop(self, *, now: bool) -> None:
        # the next run uses them, unless they are still busy with cells of a run that has ended
        if now:
            self._end(now=True)

    def close(self) -> None:
        """End the workers."""
        self._end(now=False)

    def _end(self, *, now: bool) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.stop(now=now)


class Dask(Workers):
    """A Dask cluster: one that exists, or one of processes on this machine.

    Args:
        address: `"tcp://host:port"` of a scheduler, or `"local"`.
        count: processes of a local cluster.

    Example:
        >>> Dask("nowhere")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: the Dask address is 'nowhere'; expected 'local' or tcp://host:port — ...
    """

    def __init__(self, address: str, count: int | None = None, *, timeout: float = 10.0) -> None:
        if address != "local" and "://" not in address:
            raise IsometerError(
                f"the Dask address is {address!r}; expected 'local' or tcp://host:port — the scheduler prints its own"
            )
        distributed: Any = need("distributed", "a Dask cluster")
        self._cluster: Any = None
        if address == "local":
            with _deaf_children():
                self._cluster = distributed.LocalCluster(
                    n_workers=available_cores() if count is None else count,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=None,
                    memory_limit=0,  # no limit: Dask would pause and kill workers
                    silence_logs=logging.CRITICAL,  # what goes wrong is told by the run, and not over its display
                )
        try:
            self._client: Any = distributed.Client(
                self._cluster if self._cluster is not None else address, timeout=timeout
            )
        except (OSError, TimeoutError, ValueError) as problem:
            raise IsometerError(f"no Dask scheduler answers at {address!r} ({problem}) — check the address") from None
        # not pure: a task that is handed out again is computed again
        self.executor = self._client.get_executor(pure=False)
        self._name = f"isometer-checkpoints-{uuid.uuid4().hex}"
        self._queue: Any = distributed.Queue(self._name, client=self._client)

    @property
    def slots(self) -> int:
        return sum(self._client.nthreads().values())

    @property
    def window(self) -> int:
        return max(2 * self.slots, 16)  # a cluster that grows with demand must see some

    def keep(self, checkpoints: Path) -> Callable[[str, bytes], None]:
        return _Send(self._name)

    def arrived(self) -> list[tuple[str, bytes]]:
        return [(key, bytes(saved)) for key, saved in self._queue.get(batch=True)]

    def restart(self) -> None:
        raise IsometerError("the Dask cluster is gone — start it again and resume")

    def stop(self, *, now: bool) -> None:
        with contextlib.suppress(Exception):  # a cluster that is gone cannot be told to stop
            self._queue.close()
        self.executor.shutdown(wait=False)  # cancels what is left
        self._client.close()
        if self._cluster is not None and now:
            _close_at_once(self._cluster)
        elif self._cluster is not None:
            self._cluster.close()


def _close_at_once(cluster: Any) -> None:
    """Close a local cluster whose workers may be busy; Dask itself would wait seconds for them."""
    nannies = list(cluster.workers.values())
    busy = [nanny.pid for nanny in nannies if nanny.pid]
    closing = threading.Thread(target=cluster.close, daemon=True)
    closing.start()
    begun = time.monotonic()
    # A nanny that is not closing yet would start another worker in place of one that is gone.
    while any(nanny.status.name == "running" for nanny in nannies) and time.monotonic() - begun < _CLOSING:
        time.sleep(0.01)
    for pid in busy:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    closing.join(_CLOSING)


class _Send:
    """Sends checkpoints from a Dask worker to the client."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, key: str, saved: bytes) -> None:
        distributed: Any = need("distributed", "a Dask cluster")
        distributed.Queue(self._name, client=distributed.get_client()).put((key, saved))


@contextlib.contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes and threads that start meanwhile never hear Ctrl-C, not even before they could ignore it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
