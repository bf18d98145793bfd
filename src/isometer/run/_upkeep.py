"""Stores in good order: what is in one, what is damaged, what can go."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from isometer.errors import IsometerError
from isometer.files import locked, not_regular, open_regular
from isometer.run._files import CellFileError, header_of
from isometer.run._locks import Lease
from isometer.run._store import FOLDERS, Store, StoreError, entries

State = Literal["whole", "damaged", "foreign", "temporary", "in use", "other code", "unused"]
_YOUNG = 60.0  # seconds in which a writer has locked its file
_KEY = re.compile(r"[0-9a-f]{64}")
_WRITER = re.compile(r"\.(\d+)\.[0-9a-f]+\.tmp$")  # as `write_whole` names it


@dataclass(frozen=True)
class FileReport:
    """One file of a store.

    Args:
        path: relative to the store.
        state: `whole` (a result of a job of the store), `damaged`, `foreign` (not made by a run),
            `temporary` (left by a process that was killed), `in use` (being written now), `other code` (a whole result
            of another version of the code), `unused` (a whole result that no job here uses, or a checkpoint of a
            cell that is done).
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
    reports = [
        FileReport(f"cells/{path.name}", *_judge(store, path, wanted, codes)) for path in entries(store.path / "cells")
    ]
    for folder in (".", *FOLDERS):
        for path in entries(store.path / folder) if folder != "cells" else ():
            name, odd = str(path.relative_to(store.path)), not_regular(path)
            if folder != "." and odd:
                reports.append(FileReport(name, "foreign", odd))
            elif path.name.endswith(".tmp") and not odd:
                reports.append(FileReport(name, *_temporary(store, path)))
            elif folder == "checkpoints" and store.cell_path(path.name[:64]).exists():
                reports.append(FileReport(name, "unused", "the cell is done"))
    return reports


def _temporary(store: Store, path: Path) -> tuple[State, str]:
    """Whether the writer of a temporary file lives: it holds the file, or the cell that the file belongs to."""
    key = path.name.lstrip(".")[:64]
    leased = path.parent.name in ("cells", "checkpoints", "failures") and (store.path / "locks" / key).exists()
    lease = store.lease(key) if leased else None
    if lease is not None:
        lease.release(keep=True)
    if (leased and lease is None) or _held(path):
        return "in use", "a process is writing it"
    return "temporary", "left by a process that was killed"


def _held(path: Path) -> bool:
    """Whether a process has a temporary file. Between making and locking it there is a moment, so a young one is its
    process's as long as that lives."""
    try:
        descriptor = open_regular(path)
    except OSError:
        return False  # it has its name by now
    try:
        young = time.time() - os.fstat(descriptor).st_mtime < _YOUNG
        return not locked(descriptor) or (young and _lives(path))
    finally:
        os.close(descriptor)


def _lives(path: Path) -> bool:
    """Whether the process whose number is in the name of a temporary file is there, on this machine."""
    found = _WRITER.search(path.name)
    if found is None:
        return False
    try:
        os.kill(int(found[1]), 0)
    except PermissionError:
        return True  # another user's
    except (OSError, OverflowError):
        return False
    return True


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
    odd = not_regular(path)
    if odd:
        return "foreign", odd
    if path.name.endswith(".tmp") and path.name.startswith("."):
        return _temporary(store, path)
    if path.suffix != ".nc" or _KEY.fullmatch(path.stem) is None:
        return "foreign", "its name is not that of a cell"
    try:
        content = store.content(path.stem)
    except CellFileError as problem:
        state: State = "foreign" if str(problem).startswith("foreign:") else "damaged"
        return state, str(problem)
    if path.stem in wanted:
        return "whole", ""
    if content is None:
        return "unused", "it was removed meanwhile"
    try:
        code = header_of(content).code
    except CellFileError as problem:
        return "foreign", str(problem)
    if code not in codes:
        return "other code", f"made by version {code} of the code"
    return "unused", "no job of the store asks for it"


def clean_store(store: Store, *, unused: bool = False, dry: bool = False) -> list[FileReport]:
    """Remove useless files: temporary files, damaged cells, leases of dead processes.

    Files that no run made are never removed, unless they have the name of a cell.

    Args:
        store: the store.
        unused: also remove intact results that no job needs: those of other code and of earlier grids.
        dry: remove nothing, only list what would be removed.

    Returns:
        What was removed, or would be.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store.create(folder)
        ...     (store.path / "cells" / ".a.99999999.b.tmp").touch()
        ...     [report.state for report in clean_store(store)], clean_store(store)
        (['temporary'], [])
    """
    gone = []
    for report in inspect_store(store):
        path = store.path / report.path
        cell = report.path.startswith("cells/") and _KEY.fullmatch(path.stem) is not None and not not_regular(path)
        debris = report.state in ("temporary", "damaged") or (report.state == "foreign" and cell)
        done = report.path.startswith("checkpoints/") and report.state == "unused"
        if debris or done or (unused and report.state in ("other code", "unused")):
            gone.append(report)
            if not dry:
                _remove(path)
    for path in entries(store.path / "locks"):
        lease = None if path.name.endswith(".tmp") or not_regular(path) else Lease.take(path)
        if lease is not None:
            lease.release(keep=dry)
            gone.append(FileReport(f"locks/{path.name}", "temporary", "its process is gone"))
    return gone


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as problem:
        raise StoreError(f"cannot remove {str(path)!r}: {problem.strerror} — check permissions") from None


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
