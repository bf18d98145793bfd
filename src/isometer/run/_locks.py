"""Leases on cells, so that two processes do not compute the same one. The system drops those of a process that dies."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from isometer.errors import IsometerError
from isometer.files import locked, open_regular


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
                descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
            except OSError as problem:
                raise IsometerError(
                    f"cannot write {str(path)!r}: {problem.strerror} — check free space and permissions"
                ) from None
            if not locked(descriptor):
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
