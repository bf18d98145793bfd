"""A file that somebody names: opened if it is one, and the memory that reading it may take."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from isometer.errors import IsometerError

LIMIT = 2 << 30
VARIABLE = "ISOMETER_FILE_LIMIT"
_OTHERS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def opened(path: Path) -> BinaryIO:
    """A file with something in it, open for reading; folders, pipes and devices are not waited for.

    Raises:
        IsometerError: there is no such file, it is empty, it is something else, or it may not be read.

    Example:
        >>> opened(Path("/dev/null"))
        Traceback (most recent call last):
        ...
        isometer.errors.IsometerError: '/dev/null' is a device; expected a file — name another
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            other = _OTHERS.get(stat.S_IFMT(found.st_mode), "no file")
            raise IsometerError(f"{str(path)!r} is {other}; expected a file — name another")
        if found.st_size == 0:
            raise IsometerError(f"{str(path)!r} is empty; expected a file of numbers — save it again")
        return path.open("rb")
    except FileNotFoundError:
        raise IsometerError(f"there is no file {str(path)!r} — correct the path") from None
    except OSError as problem:
        raise IsometerError(
            f"cannot read {str(path)!r}: {problem.strerror or problem} — check path and rights"
        ) from None
    except IsometerError:
        raise
    except ValueError as problem:  # a zero byte in the name
        raise IsometerError(f"cannot read {str(path)!r}: {problem} — correct the path") from None


def memory_limit() -> int:
    """Bytes that the content of a file may take: 2 GiB, or as many GiB as `ISOMETER_FILE_LIMIT` says.

    Raises:
        IsometerError: the variable is not a positive number.

    Example:
        >>> memory_limit() > 0
        True
    """
    text = os.environ.get(VARIABLE)
    if text is None:
        return LIMIT
    try:
        gib = float(text)
    except ValueError:
        gib = 0.0
    if not 0 < gib < 1 << 30:
        raise IsometerError(f"{VARIABLE} is {text!r}; expected a positive number of GiB — set it to 4, say")
    return int(gib * 2**30)


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
        # Rounded up, so that the number in the message is enough.
        gib = -(-needed // 2**30)
        shown = f"{needed / 2**30:.3g}" if needed < 1 << 60 else f"more than {2**30:,}"
        raise IsometerError(
            f"{label} would take {shown} GiB of memory; the limit is {limit / 2**30:.3g} GiB — {fix}"
            + (f", or set {VARIABLE}={gib}" if needed < 1 << 50 else "")
        )
