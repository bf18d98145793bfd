"""What every command shares: the application, common options, JSON and tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from isometer.cli._commands import app
from isometer.cli._panels import Panel
from isometer.cli._progress import progress_bar, status
from isometer.cli._threads import MOST, OPTION
from isometer.serialize import json_text

__all__ = [
    "CHOICE",
    "INPUT",
    "LIMITS",
    "MEASUREMENT",
    "MODEL",
    "NETWORK",
    "OUTPUT",
    "Json",
    "Memory",
    "Plot",
    "Threads",
    "Time",
    "allowing",
    "app",
    "console",
    "emit",
    "next_step",
    "progress_bar",
    "status",
    "tell_file",
]


NETWORK, MODEL, INPUT, MEASUREMENT = Panel("Network"), Panel("Model"), Panel("Input"), Panel("Measurement")
LIMITS = Panel("Limits")
"""Panels of the help."""
OUTPUT = Panel("Output")
"""The panel of options about what a command prints and writes."""
CHOICE = Panel("Choice")
"""The panel of options that choose what a command works on."""
Json = Annotated[bool, OUTPUT("--json", help="Print one JSON object instead of tables.")]
Plot = Annotated[Path | None, OUTPUT("--plot", metavar="FILE", help="Also draw a picture (.png, .pdf or .svg).")]
Memory = Annotated[str | None, LIMITS("--memory", metavar="SIZE", help="Memory limit, such as 4GiB; 2GiB by default.")]
"""The option `--memory` of commands whose work is estimated before it starts."""
Time = Annotated[str | None, LIMITS("--time", metavar="TIME", help="Time limit, such as 3h; an hour by default.")]
"""The option `--time` of the same."""
Threads = Annotated[
    int | None,
    LIMITS(
        OPTION, metavar="N", min=1, max=MOST, help="Number of threads; by default 1, or all idle cores for large work."
    ),
]


def console() -> Console:
    """Where people read."""
    return Console(soft_wrap=False)


def next_step(page: Console, command: str) -> None:
    """The last line of a command: one thing to do next."""
    page.print(Text(f"next: {command}", style="dim"), soft_wrap=True)


def tell_file(page: Console, what: str, path: Path) -> None:
    """Where something was written; a long path stays in one piece."""
    page.print(Text(f"{what}: {path}"), soft_wrap=True)


def emit(value: Any) -> None:
    """Where programs read; nothing that is not JSON."""
    typer.echo(json_text(value, indent=2, ensure_ascii=False))


@contextmanager
def allowing(memory: str | None, time: str | None) -> Iterator[None]:
    """Work within what the options allow; what takes long is announced on stderr."""
    from isometer.work import allow

    def announce(text: str) -> None:
        Console(stderr=True).print(f"note: {text}", highlight=False, markup=False, soft_wrap=True)

    with allow(memory=memory, seconds=time, announce=announce):
        yield
