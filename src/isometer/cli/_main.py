"""The entry point: errors about input are one line on stderr and exit code 2; a traceback means a bug."""

from __future__ import annotations

import sys

from isometer.cli._commands import app
from isometer.errors import IsometerError


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
