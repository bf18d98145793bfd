"""Making figures again: cells through the store, then picture, verdict and record of every study."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypedDict

import xarray

from isometer.data import cache_folder
from isometer.documents import read_json
from isometer.errors import IsometerError
from isometer.files import writable_folder, write_whole
from isometer.run import (
    Cell,
    Dask,
    Failure,
    Given,
    Job,
    Processes,
    Standing,
    Status,
    Store,
    Workers,
    combine_grid,
    grid_points,
    run,
)
from isometer.serialize import json_text
from isometer_papers.studies._records import (
    Made,
    declared,
    folder_name,
    keep_picture,
    keep_record,
    keep_result,
    provenance,
    read_of,
    rules_of,
    settings_of,
)
from isometer_papers.studies._settings import overridden
from isometer_papers.studies._study import Scale, Study
from isometer_papers.studies._training_records import training_records
from isometer_papers.studies._two_draws import power_of, read_twice

CELLS = "cells"
Observer = Callable[[Study, Status], None]


def make_job(study: Study, scale: Scale) -> Job:
    """The cells of a study: each gets its place on the grid and the constants.

    Where runs are together, a cell has a list of them, and the axis names its first and last.

    Example:
        >>> from isometer_papers.studies import find
        >>> study = find("003/fig-2b")
        >>> len(make_job(study, study.quick).cells) == len(study.quick.axes["width"])
        True
    """
    if scale.together == 1 or "run" not in scale.axes:
        cells = tuple(Cell(point, {**scale.constants, **point}) for point in grid_points(scale.axes))
        return Job(study.cell, scale.axes, cells, notes={"study": study.id})
    blocks = {f"{one[0]}–{one[-1]}": one for one in _parted(scale.axes["run"], scale.together)}
    axes = {**scale.axes, "run": list(blocks)}
    cells = tuple(
        Cell(point, {**scale.constants, **point, "run": blocks[str(point["run"])]}) for point in grid_points(axes)
    )
    return Job(study.cell, axes, cells, combine_runs, notes={"study": study.id})


def _parted(values: Sequence[Any], most: int) -> list[list[Any]]:
    """As few parts as can be of at most so many, of nearly equal lengths."""
    count = math.ceil(len(values) / most)
    edges = [round(i * len(values) / count) for i in range(count + 1)]
    return [list(values[start:end]) for start, end in itertools.pairwise(edges)]


def combine_runs(job: Job, results: Mapping[str, xarray.Dataset]) -> xarray.Dataset:
    """Cells that hold several runs each, laid out as if each run had a cell of its own.

    Example:
        >>> from isometer.run.example import power
        >>> job = Job(power, {"run": ["0–1"]}, (Cell({"run": "0–1"}, {"base": 2, "run": [0, 1]}),))
        >>> combine_runs(job, {"run=0–1": xarray.Dataset({"loss": ("run", [0.5, 0.25])})})["loss"].sel(run=1).item()
        0.25
    """
    listed = {cell.label: cell.configuration["run"] for cell in job.cells}
    whole = Job(job.function, {**job.axes, "run": list(dict.fromkeys(run for runs in listed.values() for run in runs))})
    parts: dict[str, xarray.Dataset] = {}
    for cell in job.cells:
        for i, one in enumerate(listed[cell.label] if cell.label in results else ()):
            parts[Cell({**cell.coordinates, "run": one}).label] = results[cell.label].isel(run=i, drop=True)
    return combine_grid(whole, parts)


def reproduce(
    studies: Sequence[Study],
    out: str | Path,
    *,
    scale: str = "quick",
    changes: Mapping[str, Any] | None = None,
    data: str | None = None,
    device: str | None = None,
    workers: int | None = None,
    dask: str | None = None,
    executor: Executor | None = None,
    observer: Observer | None = None,
    finished: Callable[[Made], None] | None = None,
) -> list[Made]:
    """Run studies and write their files and the gallery.

    Cells that the folder has are used again, whichever study asked for them first, so the same call goes on where it
    was interrupted.

    Args:
        studies: which.
        out: folder of the gallery, made if there is none.
        scale: quick, medium or paper; a study without medium is run at quick.
        changes: other values for settings; see `overridden`.
        data: another data set for studies that need one.
        device: of torch for studies that train: cpu or cuda.
        workers: processes.
        dask: address of a Dask scheduler, or `"local"`.
        executor: an executor of your own instead.
        observer: called with the study and the status of its cells.
        finished: called with each study that is done.

    Returns:
        What was made, in order.

    Example:
        >>> import tempfile
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from isometer_papers.studies import find
        >>> with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        ...     made = reproduce([find("001/tab-5.1")], folder, executor=pool)
        ...     sorted(path.name for path in made[0].folder.glob("[!.]*"))
        ['figure.pdf', 'figure.png', 'index.html', 'result.nc', 'study.json']
    """
    from isometer_papers.report.gallery import write_gallery

    if not studies:
        raise IsometerError("no studies were chosen; expected at least one — `isometer reproduce list` shows them")
    if changes:
        for study in studies:
            overridden(study, _scale_name(study, scale), changes)  # complain before any work
    _check_device(device)
    folder = Path(out)
    store = Store.create(folder / CELLS)
    made: list[Made] = []
    with ExitStack() as stack:
        pool = stack.enter_context(Standing(lambda: _workers(workers, dask, executor)))
        for study in studies:
            one = _made(study, folder, store, _scale_name(study, scale), changes or {}, data, device, pool, observer)
            made.append(one)
            write_gallery(folder)  # after each study, for runs that are interrupted
            if finished is not None:
                finished(one)
    return made


def _workers(workers: int | None, dask: str | None, executor: Executor | None) -> Workers:
    if executor is not None:
        # the pools of concurrent.futures have the number of their workers, others need not
        return Given(executor, getattr(executor, "_max_workers", 1))
    return Processes(workers) if dask is None else Dask(dask, workers)


def _scale_name(study: Study, scale: str) -> str:
    return "quick" if scale == "medium" and study.medium is None else scale


def _made(
    study: Study,
    out: Path,
    store: Store,
    scale_name: str,
    changes: Mapping[str, Any],
    data: str | None,
    device: str | None,
    pool: Standing,
    observer: Observer | None,
) -> Made:
    folder = writable_folder(out / folder_name(study.id))
    scale = overridden(study, scale_name, changes, data=data, device=device)
    clock = _Clock(folder / ".seconds.json", {"scale": scale_name, "settings": settings_of(scale)})
    record: dict[str, Any] = declared(study, scale_name, scale)
    try:
        _check_data(scale)
    except IsometerError as problem:
        told = str(problem).replace(repr(str(cache_folder())), "the folder for data")  # a gallery may be published
        record |= {"verdict": "not run", "why": f"the data are missing: {told}, or pass another set with --data"}
        return keep_record(study, folder, record)
    watch = None if observer is None else lambda status: observer(study, status)
    job = make_job(study, scale)
    outcome = run(
        job,
        store,
        name=f"{folder_name(study.id)}-{scale_name}",
        executor=pool,
        observer=clock.watching(watch),
    )
    record["cells"] = outcome.cells
    failures = outcome.failures
    if failures:
        text = f"{len(failures)} of {outcome.cells} cells failed, the first: {failures[0].label}: {failures[0].error}"
        record |= {"verdict": "unclear", "why": text, "seconds": clock.total}
        return keep_record(study, folder, record, failures)
    settings = settings_of(scale)
    reading, halves = read_twice(study, outcome.result, settings)
    record |= read_of(study, reading) | training_records(outcome.result) | ({"halves": halves} if halves else {})
    record |= provenance(job, datetime.datetime.now(datetime.UTC).date().isoformat()) | {"rules": rules_of(study)}
    record["variants"], lost = _variants(study, store, pool, clock, data, device)
    record["seconds"] = clock.total
    record |= power_of(study, scale, reading, clock.total)
    keep_picture(study, outcome.result, settings, record, folder)
    keep_result(study, outcome.result, settings, folder)
    return keep_record(study, folder, record, lost)


def _check_device(device: str | None) -> None:
    if device is None or device == "cpu":
        return
    import torch

    if not (device.partition(":")[0] == "cuda" and torch.cuda.is_available()):
        there = "cpu or cuda" if torch.cuda.is_available() else "cpu, since torch finds no CUDA device here"
        raise IsometerError(f"the device is {device!r}; expected {there}")


def _check_data(scale: Scale) -> None:
    name = scale.constants.get("data", scale.axes.get("data"))
    if name is not None:
        from isometer.data import load

        for one in [name] if isinstance(name, str) else name:
            load(one)


def _variants(
    study: Study, store: Store, pool: Standing, clock: _Clock, data: str | None, device: str | None
) -> tuple[list[dict[str, Any]], tuple[Failure, ...]]:
    """Every unstated parameter varied once, at the quick scale, against the quick scale itself."""
    rows: list[dict[str, Any]] = []
    lost: tuple[Failure, ...] = ()
    labelled = [(name, label, change) for name, one in study.choices.items() for label, change in one.instead.items()]
    if labelled:
        labelled.insert(0, ("", "as chosen", {}))
    for name, label, change in labelled:
        scale = overridden(study, "quick", change, data=data, device=device)
        job_name = f"{folder_name(study.id)}-variant-{len(rows)}"
        outcome = run(make_job(study, scale), store, name=job_name, executor=pool, observer=clock.watching(None))
        row: dict[str, Any] = {"choice": name, "label": label, "change": dict(change), "verdict": "unclear"}
        if outcome.failures:
            lost += outcome.failures
            rows.append({**row, "measured": {}, "uncertainty": {}, "why": outcome.failures[0].error})
            continue
        found = read_of(study, study.read(outcome.result, settings_of(scale)))
        rows.append({**row, **{key: found[key] for key in ("measured", "uncertainty", "verdict", "why")}})
    return rows, lost


class _Saved(TypedDict):
    purpose: str
    seconds: float


class _Clock:
    """Seconds of work on a study over all its runs, those that were killed included (up to a second)."""

    def __init__(self, path: Path, purpose: Mapping[str, Any]) -> None:
        self._path, self._purpose = path, json.dumps(purpose, sort_keys=True)
        self._before = self._now = 0.0
        with contextlib.suppress(IsometerError):  # none yet, or damaged: the work so far is not counted
            saved: _Saved = read_json(path, _Saved, what="the clock", fix="run the study again")
            if saved["purpose"] == self._purpose:
                self._before = saved["seconds"]
        self._written = 0.0

    @property
    def total(self) -> float:
        return round(self._before + self._now, 1)

    def watching(self, observer: Callable[[Status], None] | None) -> Callable[[Status], None]:
        """An observer that also keeps the time while cells are computed."""
        start = self._now

        def watch(status: Status) -> None:
            # reading finished cells from the store is no work
            if status.done - status.reused + status.failed or status.running:
                self._now = start + status.seconds
            if math.floor(self._now) != self._written:  # at most one write per second of work
                self._written = math.floor(self._now)
                saved = {"purpose": self._purpose, "seconds": self._before + self._now}
                write_whole(self._path, json_text(saved))
            if observer is not None:
                observer(status)

        return watch
