"""The store: a folder with one file per cell, shared by any number of jobs and processes.

    store.json      says that the folder is a store
    jobs/           what was asked for, one description per job
    data/           arrays that configurations refer to, by digest
    cells/          results, by content key
    checkpoints/    states of long cells that are not done
    failures/       configuration and traceback of cells that failed
    locks/          leases of the cells that run now

Every file is written under a temporary name, flushed and renamed: it is complete or absent.
"""

from __future__ import annotations

import contextlib
import errno
import io
import math
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import xarray

from isometer.documents import parse_json, read_json
from isometer.errors import IsometerError
from isometer.files import read_regular, write_whole
from isometer.run._cells import Job, array_digest
from isometer.run._checkpoints import NOTE, is_whole
from isometer.run._files import CellFileError, checked, decoded
from isometer.run._locks import Lease
from isometer.serialize import json_text

MARK = {"format": "isometer-store", "version": 1}
_AGAIN = "run the sweep's command again"
_LARGEST_JOB = 1_000_000_000  # bytes; a job describes each of its cells
FOLDERS = ("jobs", "data", "cells", "checkpoints", "failures", "locks")


class StoreError(IsometerError):
    """A store cannot be opened, read or written.

    Example:
        >>> Store.open("no/such/folder")
        Traceback (most recent call last):
        ...
        isometer.run._store.StoreError: there is no store at 'no/such/folder' — ...
    """


class _Mark(TypedDict):
    format: str
    version: int


class JobRecord(TypedDict):
    """What `Job.to_record` writes, as JSON data."""

    function: str
    code: str
    combine: str
    axes: dict[str, list[str | int | float | bool | dict[str, str]]]
    cells: list[dict[str, Any]]
    notes: dict[str, Any]


@dataclass(frozen=True)
class Failure:
    """A cell that raised, or whose worker died.

    Args:
        key: its content key.
        label: its coordinates.
        configuration: JSON data.
        error: what an `IsometerError` says, of other exceptions the last line of the traceback.
        traceback: all of it; empty for an `IsometerError`.

    Example:
        >>> Failure("ab", "width=3", {"width": 3}, "ValueError: no", "…").error
        'ValueError: no'
    """

    key: str
    label: str
    configuration: Any
    error: str
    traceback: str


@dataclass(frozen=True)
class Store:
    """A folder of results; see the module for what is in it.

    Args:
        path: the folder. Use `Store.create` or `Store.open`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store.create(Path(folder) / "runs")
        ...     store.job_names(), list(store.keys())
        ([], [])
    """

    path: Path

    @classmethod
    def create(cls, path: str | Path) -> Store:
        """The store at a path, made if there is nothing yet.

        Example:
            >>> Store.create("/proc/nowhere")
            Traceback (most recent call last):
            ...
            isometer.run._store.StoreError: cannot make a store at '/proc/nowhere': ...
        """
        folder = Path(path)
        mark = folder / "store.json"
        try:
            if folder.is_dir() and not mark.is_file() and any(folder.iterdir()):
                raise StoreError(f"{str(folder)!r} holds other files and is not a store — pass a new or empty folder")
            for name in FOLDERS:
                (folder / name).mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK):  # mkdir accepts a folder that exists and is read-only
                raise PermissionError(13, "Permission denied")
        except OSError as problem:
            raise StoreError(
                f"cannot make a store at {str(folder)!r}: {problem.strerror or problem} — pass a folder you can write"
            ) from None
        if not mark.is_file():
            write_whole(mark, json_text(MARK), error=StoreError)
        return cls.open(folder)

    @classmethod
    def open(cls, path: str | Path) -> Store:
        """The store at a path, which must exist."""
        folder = Path(path)
        fix = "`isometer sweep … --out` makes one, `isometer runs list` finds those there are"
        try:
            content = read_regular(folder / "store.json", 10_000)
        except OSError as problem:
            gone = problem.errno in (errno.ENOENT, errno.ENOTDIR)
            told = "" if gone else f" (its store.json cannot be read: {problem.strerror})"
            raise StoreError(f"there is no store at {str(folder)!r}{told} — {fix}") from None
        what = f"the store.json of {str(folder)!r}"
        record: _Mark = parse_json(content, _Mark, what=what, fix=fix, error=StoreError)
        if record != MARK:
            raise StoreError(f"{str(folder)!r} is a store of another format ({record}); expected {MARK}")
        for name in FOLDERS:
            with contextlib.suppress(OSError):
                (folder / name).mkdir(exist_ok=True)
        return cls(folder)

    # --- cells --------------------------------------------------------------------------------------------------------

    def cell_path(self, key: str) -> Path:
        """Where the result of a cell is."""
        return self.path / "cells" / f"{key}.nc"

    def keys(self) -> Iterator[str]:
        """Keys of the files that exist, intact or damaged."""
        yield from sorted(path.stem for path in (self.path / "cells").glob("*.nc"))

    def content(self, key: str) -> bytes | None:
        """The bytes of a cell's file, verified; None if there is no file.

        Raises:
            CellFileError: the file is not the whole result of that cell.
        """
        try:
            content = read_regular(self.cell_path(key))
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise CellFileError(f"not readable: {problem.strerror or problem}") from None
        return checked(content, key)

    def read(self, key: str) -> xarray.Dataset | None:
        """The result of a cell; None if there is none."""
        content = self.content(key)
        return None if content is None else decoded(content)[0]

    def put(self, key: str, content: bytes) -> None:
        """Keep a cell's file, and forget its checkpoint and failure."""
        write_whole(self.cell_path(key), checked(content, key), error=StoreError)
        # after the result is there: dying in between leaves too much, never too little
        self.checkpoint_path(key).unlink(missing_ok=True)
        self._failure_path(key).unlink(missing_ok=True)

    def lease(self, key: str) -> Lease | None:
        """The right to compute a cell; None while someone else has it."""
        return Lease.take(self.path / "locks" / key)

    def tidy(self, keys: Collection[str]) -> None:
        """Remove what killed processes left of these cells: temporary files, leases, states of cells that are done."""
        wanted = set(keys)
        left: dict[str, list[Path]] = {}
        for folder in ("cells", "checkpoints", "failures", "locks"):
            for path in entries(self.path / folder):
                key = path.name.lstrip(".")[:64]  # temporary files are named .KEY….tmp
                done = folder in ("checkpoints", "failures") and self.cell_path(key).exists()
                if key in wanted and (path.name.endswith(".tmp") or folder == "locks" or done):
                    left.setdefault(key, []).append(path)
        for key, paths in left.items():
            lease = self.lease(key)
            if lease is not None:  # whoever wrote them is gone
                for path in paths:
                    if path.parent.name != "locks":
                        path.unlink(missing_ok=True)
                lease.release()

    # --- checkpoints and failures -------------------------------------------------------------------------------------

    def checkpoint_path(self, key: str) -> Path:
        """Where the state of a long cell is."""
        return self.path / "checkpoints" / key

    def checkpoint(self, key: str) -> bytes | None:
        """The state of a long cell, if there is one and it is intact."""
        try:
            saved = read_regular(self.checkpoint_path(key))
        except OSError:
            return None
        return saved if is_whole(saved) else None

    def note(self, key: str) -> str | None:
        """What a cell that runs says of itself, if anything."""
        try:
            return read_regular(self.checkpoint_path(key + NOTE), 100_000).decode("utf-8", "replace")
        except OSError:
            return None

    def forget_note(self, key: str) -> None:
        """The cell is no longer running."""
        self.checkpoint_path(key + NOTE).unlink(missing_ok=True)

    def _failure_path(self, key: str) -> Path:
        return self.path / "failures" / f"{key}.json"

    def note_failure(self, failure: Failure) -> None:
        """Keep the report of a cell that failed."""
        write_whole(self._failure_path(failure.key), json_text(failure, indent=2), error=StoreError)

    def failure(self, key: str) -> Failure | None:
        """The report of a cell that failed, if it did."""
        try:
            return read_json(self._failure_path(key), Failure, what="the report", fix="run the cell again")
        except IsometerError:
            return None

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def job_names(self) -> list[str]:
        """Names of the jobs that were run here."""
        return sorted(path.stem for path in (self.path / "jobs").glob("*.json"))

    def save_job(self, name: str, job: Job) -> None:
        """Keep the record of a job, its arrays included."""
        for digest, array in job.arrays.items():
            target = self.path / "data" / f"{digest}.npy"
            if not target.is_file():
                page = io.BytesIO()
                np.save(page, array, allow_pickle=False)
                write_whole(target, page.getvalue(), error=StoreError)
        path, content = self.path / "jobs" / f"{name}.json", json_text(job.to_record(), indent=1).encode()
        if not path.is_file() or read_regular(path) != content:
            write_whole(path, content, error=StoreError)

    def job_record(self, name: str) -> JobRecord:
        """What `save_job` kept, as JSON data."""
        path = self.path / "jobs" / f"{name}.json"
        if not os.path.lexists(path):
            there = ", ".join(self.job_names()) or "none"
            raise StoreError(f"the store {str(self.path)!r} has no job {name!r}; it has {there}")
        return read_json(path, JobRecord, what="the job", fix=_AGAIN, most=_LARGEST_JOB, error=StoreError)

    def load_job(self, name: str) -> Job:
        """The job of that name, with its function as it is now."""
        return Job.from_record(self.job_record(name), _Arrays(self.path / "data"))


def entries(folder: Path) -> list[Path]:
    """What is in a folder of a store, by name.

    Example:
        >>> entries(Path("/no/such/folder"))
        Traceback (most recent call last):
        ...
        isometer.run._store.StoreError: cannot list '/no/such/folder': No such file or directory — restore the folder
    """
    try:
        return sorted(folder.iterdir())
    except OSError as problem:
        raise StoreError(f"cannot list {str(folder)!r}: {problem.strerror} — restore the folder") from None


class _Arrays(dict[str, np.ndarray[Any, Any]]):
    """Arrays by digest, read when asked for and checked."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def __missing__(self, digest: str) -> np.ndarray[Any, Any]:
        path = self._folder / f"{digest}.npy"
        try:
            array = _array(read_regular(path))
        except Exception as problem:  # NumPy reads a damaged header as Python, with any error
            raise StoreError(f"cannot read {str(path)!r} ({problem}) — {_AGAIN}") from None
        if array_digest(array) != digest:
            raise StoreError(f"{str(path)!r} was altered: its digest does not match — {_AGAIN}")
        self[digest] = array
        return array


def _array(content: bytes) -> np.ndarray[Any, Any]:
    """An array as `np.save` wrote it; what the header says is not believed before the bytes are there."""
    page = io.BytesIO(content)
    if np.lib.format.read_magic(page) != (1, 0):
        raise ValueError("another version of the format")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(page)
    if dtype.kind not in "biufc" or math.prod(shape) * dtype.itemsize != len(content) - page.tell():
        raise ValueError("the header does not match the numbers")
    flat = np.frombuffer(content, dtype, offset=page.tell())
    return flat.reshape(shape, order="F" if fortran else "C").copy(order="A")
