"""`run`: cells that are missing go to the workers, results come back and are written here."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray

from isometer.files import write_whole
from isometer.run._cells import Cell, Job, recorded
from isometer.run._executors import Dask, Given, Processes, Workers
from isometer.run._files import CellFileError
from isometer.run._locks import Lease
from isometer.run._progress import Meter, Observer
from isometer.run._store import Failure, Store, StoreError
from isometer.run._worker import Raised, WorkOrder, compute, wants_checkpoint

_POLL = 0.25  # seconds between looks at cells of other processes, checkpoints and the clock
_DEATHS = 3  # a cell that was alone when its worker died this often is the reason


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; everything that was finished is in the store.

    Example:
        >>> Interrupted("3 of 8 cells are kept").args
        ('3 of 8 cells are kept',)
    """


@dataclass(frozen=True)
class Outcome:
    """What a run did.

    Args:
        result: the combined results; cells that failed are absent from it.
        cells: number of cells of the job.
        done: cells with a result.
        reused: those whose result was in the store before.
        failures: cells that failed.
        notes: files that were damaged and redone, workers that died.
        seconds: how long it took.

    Example:
        >>> Outcome(xarray.Dataset(), 4, 4, 0, (), (), 0.5).done
        4
    """

    result: xarray.Dataset
    cells: int
    done: int
    reused: int
    failures: tuple[Failure, ...]
    notes: tuple[str, ...]
    seconds: float


def run(
    job: Job,
    store: Store | str | Path,
    *,
    name: str = "job",
    workers: int | None = None,
    dask: str | None = None,
    executor: Executor | Workers | None = None,
    observer: Observer | None = None,
) -> Outcome:
    """Compute the cells of a job that the store does not have, and combine the results.

    The results do not depend on the workers, on the order or on interruptions, bit for bit (on one CPU type and one set
    of versions). A cell that raises is reported and loses nothing else. Several processes may run on one store at a
    time: each cell is computed by one of them.

    Args:
        job: what to compute.
        store: where results are kept: a `Store` or the path of one, made if there is none.
        name: under which the job is remembered; the store may hold any number of jobs.
        workers: processes, as many as cores by default; those of a local Dask cluster with `dask="local"`.
        dask: `"tcp://…"` of a scheduler or `"local"`.
        executor: an executor of your own instead, or a `Standing` that several runs share.
        observer: called with a `Status` whenever something changes and four times a second.

    Returns:
        The combined result and what happened.

    Raises:
        Interrupted: on Ctrl-C; repeat the call to resume.
        StoreError: the store cannot be written. What was written before is kept.

    Example:
        >>> import tempfile
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from isometer.run.example import power
        >>> job = Job(power, {"base": [2, 3], "exponent": [1, 2, 3]})
        >>> with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        ...     first = run(job, folder, executor=pool)
        ...     again = run(job, folder, executor=pool)
        >>> first.result["value"].sel(base=3, exponent=2).item(), again.reused
        (9.0, 6)
    """
    if not isinstance(store, Store):
        store = Store.create(store)
    store.save_job(name, job)
    store.tidy(job.keys)
    meter = Meter(len(job.cells), observer)
    missing = _missing(job, store, meter)
    failures: list[Failure] = []
    if missing:
        pool: Workers
        if isinstance(executor, Workers):
            pool = executor
        elif executor is not None:
            # a private name, but every pool of the standard library has it
            pool = Given(executor, getattr(executor, "_max_workers", 1))
        elif dask is not None:
            pool = Dask(dask, workers)
        else:
            pool = Processes(workers)
        failures = _Drive(job, store, pool, missing, meter).complete()
    result = job.combine(job, results(job, store))
    return Outcome(result, len(job.cells), meter.done, meter.reused, tuple(failures), tuple(meter.notes), meter.seconds)


def results(job: Job, store: Store) -> dict[str, xarray.Dataset]:
    """The results that the store has, by the label of their cell.

    Example:
        >>> import tempfile
        >>> from isometer.run.example import power
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     results(Job(power, {"base": [2, 3]}), Store.create(folder))
        {}
    """
    found: dict[str, xarray.Dataset] = {}
    for key, cell in zip(job.keys, job.cells, strict=True):
        data = store.read(key)
        if data is not None:
            found[cell.label] = data
    return found


def _missing(job: Job, store: Store, meter: Meter) -> dict[str, list[Cell]]:
    """Cells to compute by key, after a look at every file that is there."""
    by_key: dict[str, list[Cell]] = {}
    for key, cell in zip(job.keys, job.cells, strict=True):
        by_key.setdefault(key, []).append(cell)
    missing = {}
    for key, cells in by_key.items():
        if _has(store, key, cells[0], meter):
            meter.found(len(cells))
        else:
            missing[key] = cells
    meter.tell()
    return missing


def _has(store: Store, key: str, cell: Cell, meter: Meter) -> bool:
    try:
        return store.content(key) is not None
    except CellFileError as problem:
        meter.note(f"{store.cell_path(key).name} ({cell.label}) is {problem}; the cell is computed again")
        return False


class _Drive:
    """One run: cells wait, are handed out under a lease, come back and are written."""

    def __init__(self, job: Job, store: Store, workers: Workers, missing: dict[str, list[Cell]], meter: Meter) -> None:
        self._job, self._store, self._workers, self._meter = job, store, workers, meter
        self._cells = missing
        self._queue = deque(missing)
        self._elsewhere: deque[str] = deque()  # another process has the lease
        self._leases: dict[str, Lease] = {}
        self._futures: dict[Future[Any], str] = {}
        self._deaths = dict.fromkeys(missing, 0)
        self._suspects: set[str] = set()  # in flight at more than one death
        self._failures: list[Failure] = []
        self._checkpoints = wants_checkpoint(job.function)

    def complete(self) -> list[Failure]:
        """Everything done or failed; the reports of those that failed."""
        try:
            while self._queue or self._elsewhere or self._futures:
                self._look_elsewhere()
                self._hand_out()
                self._gather()
            self._keep_checkpoints()
        except KeyboardInterrupt:
            self._end(now=True)
            raise Interrupted(f"{self._meter.done} of {len(self._job.cells)} cells are kept") from None
        except BaseException:
            self._end(now=True)
            raise
        self._end(now=False)
        return self._failures

    def _end(self, *, now: bool) -> None:
        self._workers.stop(now=now)
        for lease in self._leases.values():
            lease.release()

    # --- out ----------------------------------------------------------------------------------------------------------

    def _look_elsewhere(self) -> None:
        """Cells of other processes: finished there, or given up and ours to do."""
        self._meter.waiting = len(self._elsewhere)
        if self._elsewhere and not self._queue:
            if not self._futures:  # otherwise `_gather` does the waiting
                time.sleep(_POLL)
            self._queue.extend(self._elsewhere)
            self._elsewhere.clear()

    def _hand_out(self) -> None:
        while self._queue and len(self._futures) < self._room():
            key = self._queue.popleft()
            if key not in self._leases:  # a cell whose worker died still has its lease
                lease = self._store.lease(key)
                if lease is None:
                    self._elsewhere.append(key)
                    continue
                self._leases[key] = lease
                if self._finished_meanwhile(key):
                    self._meter.found(len(self._cells[key]))
                    self._give_back(key)
                    continue
            try:
                future = self._workers.executor.submit(compute, self._task(key))
            except BrokenExecutor:
                self._queue.appendleft(key)
                if self._futures:
                    return  # they are broken too, and say which cells it was
                self._restart([])
                continue
            self._futures[future] = key
            self._meter.handed_out(self._label(key), self._workers.slots)

    def _finished_meanwhile(self, key: str) -> bool:
        """Whether another process did it between our look at the store and our lease."""
        try:
            return self._store.content(key) is not None
        except CellFileError:
            return False

    def _room(self) -> int:
        """One at a time while it is open which cell kills its worker."""
        return 1 if self._suspects else self._workers.window

    def _task(self, key: str) -> WorkOrder:
        cell = self._cells[key][0]
        saved = keep = None
        if self._checkpoints:
            saved = self._store.checkpoint(key)
            keep = self._workers.keep(self._store.path / "checkpoints")
        code = self._job.code_of(cell)
        return WorkOrder(key, self._job.function_name, code, cell.configuration, cell.seed, saved, keep)

    # --- back ---------------------------------------------------------------------------------------------------------

    def _gather(self) -> None:
        if not self._futures:
            return
        ready, _ = wait(self._futures, timeout=_POLL, return_when=FIRST_COMPLETED)
        self._keep_checkpoints()
        dead = []
        for future in ready:
            key = self._futures.pop(future)
            self._meter.came_back(self._label(key))
            try:
                outcome = future.result()
            except (BrokenExecutor, CancelledError):
                dead.append(key)
            except Exception as problem:  # the executor's own trouble: a Dask worker died too often, say
                self._fail(key, Raised(f"{type(problem).__name__}: {problem}", ""))
            else:
                self._take(key, outcome)
        if dead:
            # a pool breaks as a whole: what is still out is lost with it
            dead += [self._futures[future] for future in self._futures]
            for future in self._futures:
                self._meter.came_back(self._label(self._futures[future]))
            self._futures.clear()
            self._restart(dead)
        self._meter.tell()

    def _take(self, key: str, outcome: bytes | Raised) -> None:
        if isinstance(outcome, Raised):
            self._fail(key, outcome)
            return
        self._store.put(key, outcome)  # before the lease goes: whoever takes it next finds the result
        self._give_back(key)
        self._meter.finished(len(self._cells[key]))

    def _fail(self, key: str, raised: Raised) -> None:
        for cell in self._cells[key]:
            failure = Failure(key, cell.label, recorded(cell.configuration), raised.error, raised.traceback)
            self._failures.append(failure)
            self._store.note_failure(failure)
        self._give_back(key)
        self._meter.broke(len(self._cells[key]))

    def _restart(self, dead: Sequence[str]) -> None:
        """New workers after one died. Which cell it was shows when cells run alone."""
        alone = len(dead) == 1
        for key in reversed(dead):  # appendleft turns the order around again
            self._deaths[key] += 1
            if alone and self._deaths[key] >= _DEATHS:
                text = f"the worker died {self._deaths[key]} times on this cell (killed, out of memory, or a crash)"
                self._fail(key, Raised(text, ""))
            else:
                self._queue.appendleft(key)
                if self._deaths[key] > 1:
                    self._suspects.add(key)
        labels = ", ".join(self._label(key) for key in dead)
        self._meter.note(f"a worker died; started again with {labels}" if dead else "the workers were started again")
        self._workers.restart()

    def _give_back(self, key: str) -> None:
        self._suspects.discard(key)
        if self._checkpoints:
            self._store.forget_note(key)
        self._leases.pop(key).release()

    def _keep_checkpoints(self) -> None:
        """Those that came over the network are written; what cells say of themselves goes to the meter."""
        if not self._checkpoints:
            return
        for key, saved in self._workers.arrived():
            # notes have a suffix; a late checkpoint of a cell that is done must not reappear
            if key[:64] in self._leases:
                write_whole(self._store.checkpoint_path(key), saved, error=StoreError)
        for key in self._futures.values():
            text = self._store.note(key)
            if text is not None:
                self._meter.heard(self._label(key), text)

    def _label(self, key: str) -> str:
        return self._cells[key][0].label
