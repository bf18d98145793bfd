"""A file that somebody names: opened if it is one, and the memory that reading it may take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from isometer.errors import IsometerError
from isometer.files import open_regular
from isometer.work import VARIABLE, allowance, size_text


def opened(path: Path) -> BinaryIO:
    """A file with something in it, open for reading; folders, pipes and devices are not waited for.

    Raises:
        IsometerError: there is no such file, it is empty, it is something else, or it may not be read.

    Example:
        >>> opened(Path("/dev/null"))
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: cannot read '/dev/null': it is a device; expected a regular file — ...
    """
    try:
        descriptor = open_regular(path)
    except FileNotFoundError:
        raise IsometerError(f"there is no file {str(path)!r} — correct the path") from None
    except OSError as problem:
        why = problem.strerror or problem
        raise IsometerError(f"cannot read {str(path)!r}: {why} — check the path and its permissions") from None
    file = os.fdopen(descriptor, "rb")
    if os.fstat(descriptor).st_size == 0:
        file.close()
        raise IsometerError(f"{str(path)!r} is empty; expected a file of numbers — save it again")
    return file


def memory_limit() -> int:
    """Bytes that the content of a file may take: as many as any computation.

    Example:
        >>> memory_limit() > 0
        True
    """
    return int(allowance().memory)


def check_memory(label: str, needed: int, limit: int, fix: str) -> None:
    """Refuse what would take more memory than it may, before any of it is taken.

    Args:
        label: what is read, for the message.
        needed: bytes.
        limit: bytes.
        fix: what to do, beside the larger limit.

    Raises:
        IsometerError: needed is more than limit.

    Example:
        >>> check_memory("'x.npy'", 5 << 30, 2 << 30, "save fewer rows")
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: 'x.npy' would take 5 GiB of memory; the limit is 2 GiB — save ...
    """
    if needed > limit:
        more = f", or allow more with {VARIABLE}={-(-needed // 2**30)}GiB" if needed < 1 << 50 else ""
        raise IsometerError(
            f"{label} would take {size_text(needed)} of memory; the limit is {size_text(limit)} — {fix}{more}"
        )
