"""Leases on cells, so that two processes do not compute the same one. The system drops those of a process that dies."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from isometer.errors import IsometerError

fcntl: Any
try:
    import fcntl
except ImportError:  # without it two processes may both compute a cell; writing stays atomic
    fcntl = None


class Lease:
    """A lock on a file that is removed when it is given back.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     first = Lease.take(Path(folder) / "cell")
        ...     second = Lease.take(Path(folder) / "cell")
        ...     first.release()
        ...     third = Lease.take(Path(folder) / "cell")
        ...     third.release()
        >>> second is None, third is None
        (True, False)
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path) -> Lease | None:
        """The lease, or None while another process (or another holder in this one) has it."""
        while True:
            try:
                # a child that inherited the descriptor would hold the lock beyond its parent's death
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
            except OSError as problem:
                raise IsometerError(
                    f"cannot write {str(path)!r}: {problem.strerror} — check space and rights"
                ) from None
            if fcntl is None:
                return cls(path, descriptor)
            try:
                # flock belongs to the opened file, lockf to the process: two holders in one process exclude each other
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                return None
            if _is_still(path, descriptor):
                return cls(path, descriptor)
            os.close(descriptor)  # its last holder removed it between our opening and our locking

    def release(self, *, keep: bool = False) -> None:
        """Remove the file unless it is kept, then unlock it: whoever opened it meanwhile sees that it is gone."""
        if self._descriptor >= 0:
            if not keep:
                with contextlib.suppress(OSError):
                    self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = -1


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
