"""The command `isometer`: thin wrappers that parse, call and print. Rooms are imported inside the commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from isometer import __version__

    activations,
    claims,
    data,
    demo,
    doctor,
    explore,
    kernel,
    patients,
    predict,
    reproduce,
    runs,
    simulate,
    sweep,
)
from isometer.cli._shared import app
from isometer.errors import IsometerError

__all__ = ["app", "main"]


def _version(show: bool) -> None:
    if show:
        typer.echo(f"isometer {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Signal propagation in deep networks: what depth does to a batch of signals."""


def main() -> None:
    """Entry point: errors about input are one line on stderr and exit code 2; a traceback means a bug."""
    try:
        app()
    except IsometerError as problem:
        line = Text.assemble(("error: ", "bold red"), str(problem))
        Console(stderr=True).print(line, highlight=False, soft_wrap=True)
        sys.exit(2)
