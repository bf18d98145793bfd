"""Signs of life on standard error: a moving line on a terminal, a plain line now and then anywhere else."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

FIRST = 10.0  # seconds until something that is no terminal gets a line
EVERY = 30.0  # seconds between two of them


class Ticker:
    """Lines for a log: the first after a while, then now and then.

    Args:
        say: gets each line; standard error by default.
        clock: seconds, for tests.

    Example:
        >>> now, lines = [0.0], []
        >>> ticker = Ticker(lines.append, clock=lambda: now[0])
        >>> for now[0] in (1.0, 11.0, 12.0, 42.0):
        ...     ticker.tick(f"{now[0]:.0f} s so far")
        >>> lines
        ['11 s so far', '42 s so far']
    """

    def __init__(
        self, say: Callable[[str], object] | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = _to_stderr if say is None else say
        self._clock = clock
        self._due = clock() + FIRST

    def tick(self, text: str) -> None:
        """Say it, if it is time for a line."""
        if self._clock() >= self._due:
            self._due = self._clock() + EVERY
            self._say(text)


def _to_stderr(line: str) -> None:
    import sys

    with suppress(OSError, ValueError):  # nobody reads it
        print(line, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """As a person says it.

    Example:
        >>> duration(4.2), duration(45), duration(600), duration(2 * 3600), duration(9 * 86400)
        ('4.2 s', '45 s', '10 min', '2 h 0 min', '9 days')
    """
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = math.ceil(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 2880 else f"{minutes / 1440:.0f} days"


def _stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True, emoji=False)


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[float, float | None], None]]:
    """A bar with the time that is left, gone when the work is done, moved by `report(done, total)`."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    stderr = _stderr()
    if not stderr.is_terminal:
        begun, far = time.monotonic(), [(0.0, 0.0)]

        def move(done: float, total: float | None) -> None:
            far[0] = (done, total or 0.0)

        with _ticking(lambda: f"{label}: {_how_far(*far[0], time.monotonic() - begun)}"):
            yield move
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=stderr, transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _how_far(done: float, total: float, seconds: float) -> str:
    """In words.

    Example:
        >>> _how_far(25, 100, 30.0), _how_far(0, 0, 30.0)
        ('25 %, 2 min left', '30 s so far')
    """
    if not total or not done:
        return f"{duration(seconds)} so far"
    return f"{100 * done / total:.0f} %, {duration(seconds * (total - done) / done)} left"


@contextmanager
def status(label: str, limit: float | None = None) -> Iterator[Callable[[str], None]]:
    """What is being done and for how long already, gone when it is done.

    Args:
        label: what is done.
        limit: seconds that it takes at most, where that is known.

    Yields:
        A function that says what is done just now.
    """
    stderr = _stderr()
    begun = time.monotonic()
    now = [""]

    def line() -> str:
        most = "" if limit is None or not math.isfinite(limit) else f" of at most {duration(limit)}"
        return f"{label}{now[0]} ({duration(time.monotonic() - begun)}{most})"

    def tell(text: str) -> None:
        now[0] = f": {text}"

    with _moving(stderr, line) if stderr.is_terminal else _ticking(line):
        yield tell


@contextmanager
def _moving(stderr: Console, line: Callable[[], str]) -> Iterator[None]:
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    spinner = Spinner("dots")

    def renderable() -> Any:
        text = Text(line())
        text.truncate(max(8, stderr.width - 3), overflow="ellipsis")  # beside the spinner
        spinner.update(text=text)
        return spinner

    with Live(get_renderable=renderable, console=stderr, transient=True, refresh_per_second=8):
        yield


@contextmanager
def _ticking(line: Callable[[], str]) -> Iterator[None]:
    """A line now and then by a thread of its own: the work may say nothing for long."""
    ticker, over = Ticker(), threading.Event()

    def run() -> None:
        while not over.wait(1.0):
            ticker.tick(line())

    thread = threading.Thread(target=run, daemon=True, name="isometer-status")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
