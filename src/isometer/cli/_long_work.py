"""What every command that computes for long shares: workers, progress and failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.markup import escape

from isometer.cli._panels import Panel
from isometer.cli._progress import Ticker, duration
from isometer.serialize import json_text

if TYPE_CHECKING:
    from rich.progress import Progress

    from isometer.run import Failure, Status
    from isometer.run._progress import Observer

_TOLD = 3  # failures that are printed whole
_RUNNING = 3  # running cells that are named

__all__ = [
    "EXECUTION",
    "DaskAddress",
    "Workers",
    "cells_bar",
    "cells_display",
    "describe",
    "duration",
    "in_a_log",
    "tell_failures",
]

EXECUTION = Panel("Execution")
"""The panel of options that say where long work runs."""
Workers = Annotated[
    int | None, EXECUTION("--workers", metavar="N", max=10_000, help="Number of processes; one per core by default.")
]
"""The option `--workers` of commands that do long work."""
DaskAddress = Annotated[
    str | None, EXECUTION("--dask", metavar="ADDRESS", help="Dask cluster: tcp://host:port, or local.")
]
"""The option `--dask` of commands that do long work."""


def tell_failures(failures: tuple[Failure, ...] | list[Failure]) -> None:
    """Cells that failed, on stderr; of bugs, the first ones with configuration and traceback."""
    page = Console(stderr=True, soft_wrap=True, emoji=False)
    for i, failure in enumerate(failures):
        page.print(f"[bold red]failed:[/] {escape(failure.label)}: {escape(failure.error)}", highlight=False)
        if i < _TOLD and failure.traceback:
            page.print(f"configuration: {escape(json_text(failure.configuration))}", highlight=False)
            page.print(escape(failure.traceback.rstrip()), highlight=False, style="dim")


def cells_bar(stderr: Console) -> Progress:
    """What is worked on, a bar, cells that are done, and words that are cut where the terminal ends."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.table import Column

    whole, rest = Column(no_wrap=True), Column(no_wrap=True, overflow="ellipsis", ratio=1)
    return Progress(
        TextColumn("{task.fields[what]}", table_column=whole),
        BarColumn(bar_width=max(8, min(40, stderr.width // 6))),
        MofNCompleteColumn(table_column=whole.copy()),
        TextColumn("{task.description}", table_column=rest),
        console=stderr,
        transient=True,
        expand=True,
        disable=not stderr.is_terminal,
    )


@contextmanager
def cells_display() -> Iterator[Observer]:
    """A bar with pace, time remaining and running cells on a terminal; notes on stderr anywhere."""
    stderr = Console(stderr=True, emoji=False)
    told, ticker = 0, Ticker()
    with cells_bar(stderr) as bar:
        task = bar.add_task("", total=None, what="cells")

        def observe(status: Status) -> None:
            nonlocal told
            for note in status.notes[told:]:
                bar.console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
            told = len(status.notes)
            bar.update(task, completed=status.done + status.failed, total=status.total, description=describe(status))
            if not stderr.is_terminal:
                ticker.tick(in_a_log(status))

        yield observe


def in_a_log(status: Status) -> str:
    """How far a run is, for a line of a log.

    Example:
        >>> from isometer.run import Status
        >>> in_a_log(Status(total=10, done=6, reused=2, failed=0, running=(), waiting=0, seconds=8.0, notes=()))
        '6 of 10 cells, 8.0 s left'
    """
    parts = [f"{status.done + status.failed} of {status.total} cells"]
    if status.failed:
        parts.append(f"{status.failed} failed")
    if status.remaining_seconds:
        parts.append(f"{duration(status.remaining_seconds)} left")
    elif status.running:
        label, seconds = status.running[0]
        parts.append(f"{label} for {duration(seconds)}")
    return ", ".join(parts)


def describe(status: Status) -> str:
    """Pace, time remaining and what runs now, in a line."""
    parts = []
    if status.rate > 0:
        parts.append(f"{status.rate:.3g}/s")
    if status.remaining_seconds:
        parts.append(f"{duration(status.remaining_seconds)} left")
    if status.failed:
        parts.append(f"[red]{status.failed} failed[/]")
    if status.waiting:
        parts.append(f"{status.waiting} elsewhere")
    running = []
    for label, seconds in status.running[:_RUNNING]:
        if label in status.said:  # first, since a narrow terminal cuts the rest
            running.append(f"{escape(status.said[label])} ({escape(label)}, {duration(seconds)})")
        else:
            running.append(f"{escape(label)} ({duration(seconds)})")
    more = len(status.running) - len(running)
    if running:
        parts.append("now: " + ", ".join(running) + (f", +{more}" if more > 0 else ""))
    return " · ".join(parts)
