"""Runs through `isometer.run`, and what they leave: raw observations beside the store."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import xarray

from benchmarks.warnings._roster import HEALTHY, WatchedRun
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
    """Train the networks of runs that have no raw observations yet; those that fail are tried again by the next call.

    Raw observations do not depend on rules and limits, so that these can change without training again; delete
    build/warnings to train everything again.
    """
    missing = {name: group for name, group in _by_network(runs).items() if not all(raw_path(r).exists() for r in group)}
    if not missing:
        return 0
    cells = tuple(
        Cell({"network": name}, {"runs": [one.to_dict() for one in group]}) for name, group in missing.items()
    )
    job = Job(watched_cell, {"network": list(missing)}, cells, combine=_together)
    store = Store.create(WORK / "store")
    outcome = run(job, store, name="warnings", workers=workers, observer=tell)
    for label, data in results(job, store).items():
        export(missing[label.removeprefix("network=")], json.loads(data.attrs["records"]))
    for failure in outcome.failures:
        print(f"failed: {failure.label}: {failure.error}")
    return sum(len(group) for group in missing.values()) - len(outcome.failures)


def _by_network(runs: Iterable[WatchedRun]) -> dict[str, list[WatchedRun]]:
    """The runs of each network, the sound one first."""
    found: dict[str, list[WatchedRun]] = {}
    for one in sorted(runs, key=lambda one: one.way != HEALTHY):
        found.setdefault(one.network.name, []).append(one)
    return found


def export(runs: Iterable[WatchedRun], records: Mapping[str, Any]) -> None:
    """Write the raw observations of runs, each into its file."""
    (WORK / "raw").mkdir(parents=True, exist_ok=True)
    for one in runs:
        temporary = raw_path(one).with_suffix(".tmp")
        with gzip.GzipFile(temporary, "wb", compresslevel=3, mtime=0) as file:
            file.write(json.dumps(records[one.name]).encode())
        temporary.replace(raw_path(one))


def raw(one: WatchedRun) -> dict[str, Any]:
    """The raw observations of a run."""
    with gzip.open(raw_path(one), "rt", encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found
