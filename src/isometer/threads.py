"""Cores that there are, and the variables by which numerical libraries learn how many threads to start."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
"""Libraries read these as they load, not later."""


def available_cores() -> int:
    """Cores that this process may use.

    Example:
        >>> available_cores() >= 1
        True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def thread_variables(count: int | None) -> Iterator[None]:
    """So many threads in libraries that load meanwhile and in processes that start; None leaves the variables alone.

    Afterwards they are as before, whatever was done to them in between.

    Example:
        >>> before = dict(os.environ)
        >>> with thread_variables(3):
        ...     os.environ["OMP_NUM_THREADS"]
        '3'
        >>> dict(os.environ) == before
        True
    """
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    if count is not None:
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(count)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
