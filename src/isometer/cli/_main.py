"""The entry point: whatever ends a command ends here, with a line that says what and an exit code that means it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

# Nothing else is imported here: Ctrl-C while libraries load is to find `main` at work already.


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Args:
        arguments: arguments of the command; those of the process by default.

    Raises:
        SystemExit: always, with the exit code (see `isometer.cli._endings`).
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from isometer.cli._endings import ended, without_tracebacks
        from isometer.cli._interruption import Interruption
        from isometer.cli._threads import few_at_the_start

        interruption = Interruption(whole_process=arguments is None)
        with interruption, without_tracebacks(), few_at_the_start(given):
            try:
                code = _run(given)
            except BaseException as problem:
                code = ended(problem, interruption)
            if code == 130:
                interruption.leave()
    except KeyboardInterrupt:  # before there was anything to interrupt
        print("interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Exit code of a command that ends by itself."""
    import typer

    from isometer.cli._commands import app

    command = typer.main.get_command(app)
    try:
        # As Typer's own `main` does, which would end the process, or hide who interrupted.
        with command.make_context("isometer", arguments) as context:
            command.invoke(context)
    except typer.Exit as end:
        code = end.exit_code
    else:
        code = 0
    sys.stdout.flush()  # here an error about it is told like any other
    return code
