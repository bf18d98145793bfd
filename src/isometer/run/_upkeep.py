"""Stores in good order: what is in one, what is damaged, what can go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from isometer.errors import IsometerError
from isometer.run._files import CellFileError, header_of
from isometer.run._locks import Lease
from isometer.run._store import FOLDERS, Store

State = Literal["whole", "damaged", "foreign", "temporary", "other code", "unused"]
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class FileReport:
    """One file of a store.

    Args:
        path: relative to the store.
        state: `whole` (a result that a job of the store asks for), `damaged`, `foreign` (not made by a run),
            `temporary` (left by a process that was killed), `other code` (a whole result of another version of the
            code), `unused` (a whole result that no job here asks for, or a checkpoint of a cell that is done).
        reason: why, in words.

    Example:
        >>> FileReport("cells/x.nc", "foreign", "no mark of a cell").state
        'foreign'
    """

    path: str
    state: State
    reason: str


def inspect_store(store: Store) -> list[FileReport]:
    """Every file of a store, read whole and judged.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store.create(folder)
        ...     (store.path / "cells" / "notes.txt").touch()
        ...     [(report.path, report.state) for report in inspect_store(store)]
        [('cells/notes.txt', 'foreign')]
    """
    wanted, codes = _wanted(store)
    reports = []
    for path in sorted((store.path / "cells").iterdir()):
        reports.append(FileReport(f"cells/{path.name}", *_judge(store, path, wanted, codes)))
    for folder in (".", *FOLDERS):
        for path in sorted((store.path / folder).iterdir()) if folder != "cells" else ():
            name = str(path.relative_to(store.path))
            if path.name.endswith(".tmp"):
                reports.append(FileReport(name, "temporary", "left by a process that was killed"))
            elif folder == "checkpoints" and store.cell_path(path.name[:64]).exists():
                reports.append(FileReport(name, "unused", "the cell is done"))
    return reports


def _wanted(store: Store) -> tuple[set[str], set[str]]:
    """Keys that the jobs of the store ask for, and the versions of the code they would run."""
    keys: set[str] = set()
    codes: set[str] = set()
    for name in store.job_names():
        try:
            job = store.load_job(name)
        except IsometerError:
            continue  # its function is gone, or the description is damaged: nothing here is its
        keys |= set(job.keys)
        codes.add(job.code)
    return keys, codes


def _judge(store: Store, path: Path, wanted: set[str], codes: set[str]) -> tuple[State, str]:
    if path.name.endswith(".tmp") and path.name.startswith("."):
        return "temporary", "left by a process that was killed"
    if path.suffix != ".nc" or _KEY.fullmatch(path.stem) is None:
        return "foreign", "its name is not that of a cell"
    try:
        content = store.content(path.stem)
    except CellFileError as problem:
        state: State = "foreign" if str(problem).startswith("foreign:") else "damaged"
        return state, str(problem)
    if path.stem in wanted:
        return "whole", ""
    assert content is not None
    code = header_of(content).code
    if code not in codes:
        return "other code", f"made by version {code} of the code"
    return "unused", "no job of the store asks for it"


def clean_store(store: Store, *, unused: bool = False, dry: bool = False) -> list[FileReport]:
    """Remove what is of no use: temporary files, damaged cells, leases of dead processes.

    Files that no run made are never removed, unless they have the name of a cell.

    Args:
        store: the store.
        unused: also remove whole results that no job asks for: those of other code and of earlier grids.
        dry: remove nothing, only say what would go.

    Returns:
        What was removed, or would be.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store.create(folder)
        ...     (store.path / "cells" / ".a.1.b.tmp").touch()
        ...     [report.state for report in clean_store(store)], clean_store(store)
        (['temporary'], [])
    """
    gone = []
    for report in inspect_store(store):
        cell = report.path.startswith("cells/") and _KEY.fullmatch(Path(report.path).stem) is not None
        debris = report.state in ("temporary", "damaged") or (report.state == "foreign" and cell)
        if debris or report.path.startswith("checkpoints/") or (unused and report.state in ("other code", "unused")):
            gone.append(report)
            if not dry:
                (store.path / report.path).unlink(missing_ok=True)
    for path in sorted((store.path / "locks").iterdir()):
        lease = None if path.name.endswith(".tmp") else Lease.take(path)
        if lease is not None:
            lease.release(keep=dry)
            gone.append(FileReport(f"locks/{path.name}", "temporary", "its process is gone"))
    return gone


def find_stores(folder: str | Path) -> Iterator[Store]:
    """The stores in a folder, itself included, two levels down.

    Example:
        >>> list(find_stores("no/such/folder"))
        []
    """
    root = Path(folder)
    for pattern in ("store.json", "*/store.json", "*/*/store.json"):
        for mark in sorted(root.glob(pattern)):
            try:
                yield Store.open(mark.parent)
            except IsometerError:
                continue  # another program's store.json
