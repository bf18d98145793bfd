"""What every command that computes for long shares: workers, progress and failures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from isometer.serialize import json_text

if TYPE_CHECKING:
    from rich.progress import Progress

    from isometer.run import Failure, Status
    from isometer.run._progress import Observer

_TOLD = 3  # failures that are printed whole
_RUNNING = 3  # running cells that are named

Workers = Annotated[int | None, typer.Option("--workers", metavar="N", help="Processes; as many as cores by default.")]
"""The option `--workers` of commands that do long work."""
DaskAddress = Annotated[
    str | None, typer.Option("--dask", metavar="ADDRESS", help="A Dask cluster: tcp://host:port, or local.")
]
"""The option `--dask` of commands that do long work."""


def tell_failures(failures: tuple[Failure, ...] | list[Failure]) -> None:
    """Cells that failed, the first ones with configuration and traceback, on stderr."""
    page = Console(stderr=True, soft_wrap=True, emoji=False)
    for i, failure in enumerate(failures):
        page.print(f"[bold red]failed:[/] {escape(failure.label)}: {escape(failure.error)}", highlight=False)
        if i < _TOLD:
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
    told = 0
    with cells_bar(stderr) as bar:
        task = bar.add_task("", total=None, what="cells")

        def observe(status: Status) -> None:
            nonlocal told
            for note in status.notes[told:]:
                bar.console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
            told = len(status.notes)
            bar.update(task, completed=status.done + status.failed, total=status.total, description=describe(status))

        yield observe


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
