"""How a command ends: its exit code, and what it says on standard error.

=====  ===============================================================================
code   meaning
=====  ===============================================================================
0      all is well
1      a check found something: a model does not train, a cell failed, a file is damaged
2      an error in what was given: options, files, or the code of the model
3      the doctor could not decide
70     an error of Isometer itself
130    interrupted
141    whoever read the output is gone
=====  ===============================================================================
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from isometer.cli._interruption import INTERRUPTED, tell_interruption
from isometer.cli._user_code import own_code, shown
from isometer.errors import IsometerError

if TYPE_CHECKING:
    from isometer.cli._interruption import Interruption

ERROR, BUG, UNREAD = 2, 70, 141
DEBUG = "ISOMETER_DEBUG"
"""Set to anything but 0, this variable of the environment does what `--debug` does."""

_debug = False


def show_tracebacks() -> None:
    """From here on, errors come with the whole traceback."""
    global _debug
    _debug = True


@contextlib.contextmanager
def without_tracebacks() -> Iterator[None]:
    """As the environment says, until `show_tracebacks`."""
    global _debug
    _debug = os.environ.get(DEBUG, "0") not in ("", "0")
    try:
        yield
    finally:
        _debug = False


def ended(problem: BaseException, interruption: Interruption) -> int:
    """Say what ended a command, and give its exit code."""
    if interruption.arrived:  # whatever came of it: an interrupted import may fail in any way
        tell_interruption()
        code = INTERRUPTED
    elif _unread(problem) and not own_code(problem):
        _let_go_of_output()
        return UNREAD
    else:
        lines, code = _explained(problem)
        say(*lines)
    if _debug:
        say(_whole(problem))
    return code


def _unread(problem: BaseException) -> bool:
    """Whether the reader of the output is gone; Rich makes an exit of it."""
    cause = problem.__context__ if isinstance(problem, SystemExit) else problem
    return isinstance(cause, OSError) and cause.errno == errno.EPIPE


def _explained(problem: BaseException) -> tuple[list[str], int]:
    """The lines about an error, and its exit code."""
    if type(problem).__name__ == "NoArgsIsHelpError":
        return [], ERROR  # the help that it stands for is printed already
    if hasattr(problem, "format_message"):  # Typer's, about options
        return [_error(f"{problem.format_message()}{_help_of(problem)}")], ERROR
    if isinstance(problem, IsometerError):
        return [_error(str(problem)), *own_code(problem)], ERROR
    theirs = shown(problem)
    if theirs is not None:
        return [_error(theirs), *own_code(problem)], ERROR
    if isinstance(problem, MemoryError):
        return [_error("not enough memory — choose a smaller width, batch, depth or number of runs")], ERROR
    if isinstance(problem, OSError):
        where = f" ({problem.filename})" if problem.filename else ""
        return [_error(f"{problem.strerror or problem}{where} — check the path, free space and permissions")], ERROR
    what = _one_line(f"{type(problem).__name__}: {_text(problem)}")
    if _debug:
        return [_error(f"a bug in isometer, please report it: {what}")], BUG
    return [_error(f"a bug in isometer, please report it with {_written(problem)}: {what}")], BUG


def say(*lines: str) -> None:
    """Lines on standard error, if anyone is there."""
    with contextlib.suppress(OSError, ValueError):
        for line in lines:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()


def _error(text: str) -> str:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
            return f"\x1b[1;31merror:\x1b[0m {_one_line(text)}"
    return f"error: {_one_line(text)}"


def _one_line(text: str) -> str:
    """Without line breaks and what would move the cursor of a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(text.split()))


def _text(problem: BaseException) -> str:
    try:
        return str(problem)
    except Exception:  # an exception of anyone
        return "(without a message)"


def _help_of(problem: Any) -> str:
    context = getattr(problem, "ctx", None)
    return "" if context is None else f" — see `{context.command_path} --help`"


def _whole(problem: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(problem)).rstrip()


def _written(problem: BaseException) -> str:
    """Where the traceback is, in a file for whoever reports the bug."""
    import platform
    import shlex
    import tempfile

    from isometer._version import __version__

    head = f"isometer {__version__}, Python {platform.python_version()}, {platform.system()}"
    command = shlex.join(["isometer", *sys.argv[1:]])
    try:
        handle, path = tempfile.mkstemp(prefix="isometer-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{head}\n{command}\n\n{_whole(problem)}\n")
    except OSError:
        return f"what {DEBUG}=1 shows"
    return path


def _let_go_of_output() -> None:
    """Standard output leads nowhere: what is still buffered must not raise once more as Python ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
