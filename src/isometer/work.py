"""What a computation takes, said before it starts: memory and time as estimates, and the limits they are held against.

Two gibibytes and an hour are allowed unless someone allows more: by `allow` in Python, by `--memory` and `--time` of a
command, or for memory by the environment variable `ISOMETER_MEMORY`. The estimates of the commands are beside what they
estimate (`_work.py` of the rooms that compute).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path

from isometer.errors import IsometerError

GIB = float(1 << 30)
VARIABLE = "ISOMETER_MEMORY"
_MEMORY, _SECONDS = 2.0 * GIB, 3600.0  # allowed unless more is asked for
_SHARE = 0.8  # of the memory that is free, even when more is asked for
_TOLD = 60.0  # seconds from which on a computation is announced
_SIZES = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
_TIMES = {"": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class TooMuchWorkError(IsometerError):
    """A computation would take more memory or time than is allowed.

    Example:
        >>> issubclass(TooMuchWorkError, IsometerError)
        True
    """


@dataclass(frozen=True)
class Work:
    """What a computation takes.

    Attributes:
        memory: bytes at its peak.
        seconds: on one core of an ordinary computer.
    """

    memory: float
    seconds: float

    def __add__(self, other: Work) -> Work:
        """One after the other: the larger memory, the sum of the times."""
        return Work(max(self.memory, other.memory), self.seconds + other.seconds)


@dataclass(frozen=True)
class Allowance:
    """What is allowed, and who is told about what takes long: `announce(text)`."""

    memory: float = _MEMORY
    seconds: float = _SECONDS
    announce: Callable[[str], None] | None = None


_ALLOWED: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


def allowance() -> Allowance:
    """The limits in force.

    Raises:
        IsometerError: the environment variable holds no size.

    Example:
        >>> with allow(memory="4GiB"):
        ...     allowance().memory / GIB
        4.0
    """
    found = _ALLOWED.get()
    if found is not None:
        return found
    text = os.environ.get(VARIABLE)
    return Allowance() if text is None else Allowance(memory=_parsed_memory(text, VARIABLE))


@contextmanager
def allow(
    *,
    memory: float | str | None = None,
    seconds: float | str | None = None,
    announce: Callable[[str], None] | None = None,
) -> Iterator[Allowance]:
    """Allow computations inside the block more memory or time, or less.

    Args:
        memory: bytes, or text such as `"4GiB"`; unchanged by default.
        seconds: or text such as `"2h"`; unchanged by default.
        announce: called with a line of text about a computation that takes long.

    Example:
        >>> with allow(memory="4GiB", seconds="2h") as chosen:
        ...     chosen.seconds
        7200.0
    """
    now = allowance()
    chosen = replace(
        now,
        memory=now.memory if memory is None else parsed_memory(memory),
        seconds=now.seconds if seconds is None else parsed_seconds(seconds),
        announce=announce or now.announce,
    )
    token = _ALLOWED.set(chosen)
    try:
        yield chosen
    finally:
        _ALLOWED.reset(token)


def check_work(what: str, work: Work, knobs: Mapping[str, tuple[int, Callable[[int], Work]]] | None = None) -> None:
    """Refuse what is not allowed, with the estimate and what would fit; announce what takes long.

    Args:
        what: the computation, as the subject of a sentence.
        work: its estimate.
        knobs: by the name of a size, its value and the estimate for any other value: for "at most 640 samples".

    Raises:
        TooMuchWorkError: it would take more than `allowance()`, or than there is memory free.

    Example:
        >>> check_work("the simulation", Work(3.1 * GIB, 1.0), {"samples": (1000, lambda n: Work(3.3e6 * n, 1.0))})
        Traceback (most recent call last):
        ...
        isometer.work.TooMuchWorkError: the simulation needs about 3.1 GiB of memory; 2 GiB are allowed — use at ...
    """
    allowed = allowance()
    free = _SHARE * free_memory()
    memory = min(allowed.memory, free)
    if work.memory > memory:
        fits = _fits(knobs or {}, lambda one: one.memory <= memory)
        if work.memory > free:
            last = "use a computer with more memory"
        else:
            last = f"allow more with --memory {_above(work.memory)}, in Python isometer.work.allow(memory=…)"
        bound = "allowed" if memory == allowed.memory else "free"
        raise TooMuchWorkError(
            f"{what} needs about {size_text(work.memory)} of memory; {size_text(memory)} are {bound} — {fits}{last}"
        )
    if work.seconds > allowed.seconds:
        fits = _fits(knobs or {}, lambda one: one.seconds <= allowed.seconds and one.memory <= memory)
        raise TooMuchWorkError(
            f"{what} takes about {time_text(work.seconds)}; {time_text(allowed.seconds)} are allowed — {fits}allow "
            f"more with --time {_longer(work.seconds)}, in Python isometer.work.allow(seconds=…)"
        )
    if allowed.announce is not None and (work.seconds > _TOLD or work.memory > _MEMORY):
        allowed.announce(f"{what} takes about {time_text(work.seconds)} and {size_text(work.memory)} of memory")


def check_batch(samples: int, features: int, runs: int = 1) -> None:
    """Refuse a batch of numbers that would not fit: drawn, copied, and read.

    Example:
        >>> check_batch(10, 100)
        >>> check_batch(10**6, 10**6)
        Traceback (most recent call last):
        ...
        isometer.work.TooMuchWorkError: a batch of 1000000 samples with 1000000 features needs about 2e+04 GiB ...
    """

    def work(n: int, d: int) -> Work:
        return Work(24.0 * runs * n * d, 4e-8 * runs * n * d)

    knobs = {"samples": (samples, lambda n: work(n, features)), "features": (features, lambda d: work(samples, d))}
    check_work(f"a batch of {samples} samples with {features} features", work(samples, features), knobs)


def _fits(knobs: Mapping[str, tuple[int, Callable[[int], Work]]], fitting: Callable[[Work], bool]) -> str:
    """ "use at most 640 samples or 3 runs, or " """
    found = []
    for name, (now, estimate) in knobs.items():
        most = _largest(now, lambda value, estimate=estimate: fitting(estimate(value)))  # type: ignore[misc]
        if most is not None:
            found.append(f"{most} {name}")
    return f"use at most {' or '.join(found)}, or " if found else ""


def _largest(now: int, fits: Callable[[int], bool]) -> int | None:
    """The largest value below `now` that fits, rounded down to two digits; None if not even 1 does."""
    if now <= 1 or not fits(1):
        return None
    low, high = 1, now
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    step = 10 ** max(0, len(str(low)) - 2)
    return int(low // step * step)


def free_memory() -> float:
    """Bytes that a new computation can have: what the system has free, and what its control group allows.

    Example:
        >>> free_memory() > 0
        True
    """
    found = [_system_memory(), *_group_memory()]
    return min(found)


def _system_memory() -> float:
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        match = re.search(r"MemAvailable:\s+(\d+) kB", text)
        if match is not None:
            return 1024.0 * int(match[1])
    except OSError:
        pass
    try:  # without /proc: what the computer has
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def _group_memory() -> list[float]:
    """What a container leaves, where there is one."""
    try:
        most = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii").strip()
        return [max(0.0, float(most) - float(used))]
    except (OSError, ValueError):  # there is none, or it says "max"
        return []


def parsed_memory(value: float | str) -> float:
    """Bytes from a number or a text such as `512MiB`, `4GiB` or `4G`.

    Example:
        >>> parsed_memory("1.5GiB") / GIB, parsed_memory("2 GB")
        (1.5, 2000000000.0)
    """
    return _parsed_memory(value, "memory")


def _parsed_memory(value: float | str, name: str) -> float:
    return _parsed(value, _SIZES, name, "a size such as 512MiB or 4GiB", bytes_too=True)


def parsed_seconds(value: float | str) -> float:
    """Seconds from a number or a text such as `90s`, `30min` or `2h`.

    Example:
        >>> parsed_seconds("90"), parsed_seconds("1.5 h")
        (90.0, 5400.0)
    """
    return _parsed(value, _TIMES, "time", "a time such as 90s, 30min or 2h", bytes_too=False)


def _parsed(value: float | str, units: Mapping[str, float], name: str, expected: str, *, bytes_too: bool) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?(?:e\d+)?)\s*([a-z]*)\s*", str(value).lower())
    unit = "" if match is None else match[2]
    if bytes_too and unit not in units:
        unit = unit.removesuffix("b")
    if match is None or unit not in units or not 0 < float(match[1]) * units[unit] < math.inf:
        raise IsometerError(f"{name} is {str(value)[:60]!r}; expected {expected} — pass one")
    return float(match[1]) * units[unit]


def size_text(size: float) -> str:
    """As a person says it.

    Example:
        >>> size_text(3.1 * GIB), size_text(5e5), size_text(1e30)
        ('3.1 GiB', '0.5 MiB', '9e+20 GiB')
    """
    if size < 0.1 * GIB:
        return f"{size / 2**20:.1f} MiB"
    return f"{size / GIB:.3g} GiB" if size < 1e3 * GIB else f"{size / GIB:.1g} GiB"


def time_text(seconds: float) -> str:
    """As a person says it.

    Example:
        >>> time_text(45), time_text(600), time_text(7200), time_text(1e7), time_text(1e18)
        ('45 s', '10 min', '2 h', '116 days', '3e+10 years')
    """
    for limit, unit, name in ((90, 1, "s"), (5400, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.2g} {name}"
    days = seconds / 86400
    return f"{days:.0f} days" if days < 1000 else f"{days / 365:.1g} years"


def _above(size: float) -> str:
    return f"{math.ceil(1.1 * size / GIB)}GiB" if size < 1e6 * GIB else "…"


def _longer(seconds: float) -> str:
    return f"{math.ceil(1.5 * seconds / 3600):d}h"
