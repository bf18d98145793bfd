"""Runs through `isometer.run`, and what they leave: raw observations beside the store."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import xarray

from benchmarks.warnings._roster import WatchedRun
from benchmarks.warnings._training import watched_cell
from isometer.run import Cell, Job, Store, results, run

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "warnings"


def _together(job: Job, found: Any) -> xarray.Dataset:
    return xarray.Dataset()


def raw_path(one: WatchedRun) -> Path:
    """The file of a run's raw observations, by everything that was drawn for it."""
    digest = hashlib.sha256(json.dumps(one.to_dict(), sort_keys=True).encode()).hexdigest()[:12]
    return WORK / "raw" / f"{one.name.replace(' ', '-')}-{digest}.json.gz"


def train_missing(runs: Iterable[WatchedRun], *, workers: int, tell: Callable[[Any], None] | None = None) -> int:
    """Train the runs that have no raw observations yet; those that fail are tried again by the next call.

    Raw observations do not depend on rules and limits, so that these can change without training again; delete
    build/warnings to train everything again.
    """
    missing = {one.name: one for one in runs if not raw_path(one).exists()}
    if not missing:
        return 0
    cells = tuple(Cell({"run": name}, one.to_dict()) for name, one in missing.items())
    job = Job(watched_cell, {"run": list(missing)}, cells, combine=_together)
    store = Store.create(WORK / "store")
    outcome = run(job, store, name="warnings", workers=workers, observer=tell)
    (WORK / "raw").mkdir(parents=True, exist_ok=True)
    for label, data in results(job, store).items():
        _export(missing[label.removeprefix("run=")], data)
    for failure in outcome.failures:
        print(f"failed: {failure.label}: {failure.error}")
    return len(missing) - len(outcome.failures)


def _export(one: WatchedRun, data: xarray.Dataset) -> None:
    raw = {"loss": data["loss"].values.tolist(), **json.loads(data.attrs["seen"])}
    temporary = raw_path(one).with_suffix(".tmp")
    with gzip.GzipFile(temporary, "wb", compresslevel=3, mtime=0) as file:
        file.write(json.dumps(raw).encode())
    temporary.replace(raw_path(one))


def raw(one: WatchedRun) -> dict[str, Any]:
    """The raw observations of a run."""
    with gzip.open(raw_path(one), "rt", encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found
