"""Files that are whole or not there, and folders that exist."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path

from isometer.errors import IsometerError

_FIX = "check space and rights; what was written before is kept"


def write_whole(
    path: Path,
    data: bytes | str | Callable[[Path], object],
    *,
    error: type[IsometerError] = IsometerError,
    fix: str = _FIX,
) -> None:
    """Write under a temporary name, flush to the disk, rename; on failure the old file stays and no debris is left.

    Args:
        path: of the file, in a folder that exists.
        data: what it holds, text as UTF-8; or a function that writes a file at the path it gets.
        error: what to raise if it cannot be written.
        fix: what to do then.

    Raises:
        IsometerError: or `error`, if the disk is full, the folder is missing or may not be written to.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_whole(Path(folder) / "a", "whole")
        ...     [(path.name, path.read_text()) for path in Path(folder).iterdir()]
        [('a', 'whole')]
    """
    if not path.name:
        raise error(f"cannot write {str(path)!r}: it is a folder — name a file in it")
    partial = path.with_name(f".{path.name[:80]}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        if callable(data):
            data(partial)
        else:
            partial.write_bytes(data.encode() if isinstance(data, str) else data)
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as problem:
        raise error(f"cannot write {str(path)!r}: {problem.strerror or problem} — {fix}") from problem
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def existing_folder(path: str | Path, *, fix: str = "create it first") -> Path:
    """A folder that is there.

    Args:
        path: of the folder.
        fix: what to do if it is missing.

    Example:
        >>> existing_folder("/no/such/folder")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: the folder '/no/such/folder' does not exist — create it first
    """
    folder = Path(path)
    if not folder.is_dir():
        state = "is a file" if folder.exists() else "does not exist"
        raise IsometerError(f"the folder {str(folder)!r} {state} — {fix}")
    return folder


def writable_folder(path: str | Path, *, fix: str = "name a folder you can write to") -> Path:
    """A folder that is there, made if need be, and can be written to.

    Args:
        path: of the folder.
        fix: what to do if it cannot be written to.

    Example:
        >>> writable_folder("/proc/nowhere")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: cannot write to the folder '/proc/nowhere': ... — name a folder you can write to
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, os.strerror(13))
    except OSError as problem:
        raise IsometerError(
            f"cannot write to the folder {str(folder)!r}: {problem.strerror or problem} — {fix}"
        ) from problem
    return folder
