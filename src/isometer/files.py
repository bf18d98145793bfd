"""Files that are whole or not there, files that can be read without waiting, and folders that exist."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isometer.errors import IsometerError

fcntl: Any
try:
    import fcntl
except ImportError:  # without it nobody is told that another process has a file; writing stays atomic
    fcntl = None

_FIX = "check free space and permissions; what was written before is kept"


def write_whole(
    path: Path,
    data: bytes | str | Callable[[Path], object],
    *,
    error: type[IsometerError] = IsometerError,
    fix: str = _FIX,
) -> None:
    """Write under a temporary name, flush to the disk, rename; on failure the old file stays and no debris is left.

    Args:
        path: path of the file, in a folder that exists.
        data: what it holds, text as UTF-8 with ? for what that does not have; or a function that writes a
            file at the path it gets.
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
        with partial.open("rb+" if callable(data) else "xb") as file:
            locked(file.fileno())  # until it has its name: so others see that its writer lives
            if not callable(data):
                file.write(data.encode("utf-8", "replace") if isinstance(data, str) else data)
                file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:
                os.replace(partial, path)
        if fcntl is None:  # where there are no locks, an open file cannot be renamed either
            os.replace(partial, path)
    except OSError as problem:
        raise error(f"cannot write {str(path)!r}: {problem.strerror or problem} — {fix}") from problem
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
    """A descriptor of a regular file. Anything else is refused: a pipe without a writer, say, would never open.

    Args:
        path: path of the file; links are followed.
        flags, mode: as for `os.open`.

    Returns:
        The descriptor.

    Raises:
        OSError: as for `os.open`, and for what is no regular file; `strerror` says what it is.

    Example:
        >>> open_regular("/dev/null")
        Traceback (most recent call last):
        ...
        OSError: [Errno 22] it is a device; expected a regular file: '/dev/null'
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "its name contains a NUL", str(path))
    with contextlib.suppress(FileNotFoundError):  # opening it says so, or makes it
        _regular(os.stat(path).st_mode, path)
    # Without waiting and looked at again: another process may put something else there meanwhile.
    extra = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags | extra, mode)
    try:
        _regular(os.fstat(descriptor).st_mode, path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _regular(mode: int, path: str | Path) -> None:
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in _KINDS if test(mode)), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}; expected a regular file", str(path))


def not_regular(path: Path) -> str:
    """What is at a path if it is no regular file, in words; empty if it is one.

    Example:
        >>> not_regular(Path("/dev/null")), not_regular(Path("/no/such/file"))
        ('it is a device; expected a regular file', 'No such file or directory')
    """
    try:
        _regular(os.stat(path).st_mode, path)
    except OSError as problem:
        return problem.strerror or str(problem)
    return ""


def read_regular(path: str | Path, most: int | None = None) -> bytes:
    """The bytes of a regular file.

    Args:
        path: path of the file; links are followed.
        most: bytes that are read at most; a larger file is refused.

    Raises:
        OSError: it is not there, may not be read, is no regular file or too large; `strerror` says which.

    Example:
        >>> read_regular("/dev/zero")
        Traceback (most recent call last):
        ...
        OSError: [Errno 22] it is a device; expected a regular file: '/dev/zero'
    """
    with open(open_regular(path), "rb") as file:
        content = file.read() if most is None else file.read(most + 1)
        if most is not None and len(content) > most:
            raise OSError(errno.EFBIG, f"it has more than {most / 1e6:g} MB, the largest size that is read", str(path))
    return content


def locked(descriptor: int) -> bool:
    """Take the lock of an open file without waiting; the system gives it back when the file is closed or we die.

    Returns:
        False if another process, or another opening of the file in this one, has it.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file, open(file.name) as again:
        ...     locked(file.fileno()), locked(again.fileno())
        (True, False)
    """
    if fcntl is None:
        return True
    try:
        # flock belongs to the opened file, lockf to the process: two holders in one process exclude each other
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def existing_folder(path: str | Path, *, fix: str = "create it first") -> Path:
    """A folder that is there.

    Args:
        path: path of the folder.
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
        path: path of the folder.
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
