"""What every command shares: the application, common options, JSON and tables."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from isometer.cli._commands import app
from isometer.cli._progress import progress_bar, status
from isometer.cli._threads import MOST, OPTION
from isometer.serialize import json_text

__all__ = [
    "Json",
    "Plot",
    "PositionChoice",
    "PositionOption",
    "Threads",
    "app",
    "console",
    "emit",
    "progress_bar",
    "status",
]


class PositionChoice(StrEnum):
    pre = "pre"
    post = "post"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Also draw a picture (.png, .pdf or .svg).")]
Threads = Annotated[
    int | None,
    typer.Option(
        OPTION,
        metavar="N",
        min=1,
        max=MOST,
        help="Threads that compute; 1, or for large work all idle cores, unless given.",
    ),
]
PositionOption = Annotated[PositionChoice, typer.Option("--norm-position", help="pre: φ(norm(Wh)); post: norm(φ(Wh)).")]


def console() -> Console:
    """Where people read."""
    return Console(soft_wrap=False)


def emit(value: Any) -> None:
    """Where programs read; nothing that is not JSON."""
    typer.echo(json_text(value, indent=2, ensure_ascii=False))
