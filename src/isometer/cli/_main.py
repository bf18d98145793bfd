"""The entry point: errors about input are one line on stderr and exit code 2; a traceback means a bug."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from isometer._version import __version__
from isometer.cli._shared import app
from isometer.errors import IsometerError


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
    """Run the command."""
    try:
        app()
    except IsometerError as problem:
        from rich.console import Console
        from rich.text import Text

        line = Text.assemble(("error: ", "bold red"), str(problem))
        Console(stderr=True).print(line, highlight=False, soft_wrap=True)
        sys.exit(2)
