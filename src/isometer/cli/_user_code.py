"""The user's own code, where it fails: one line, and the frames that are the user's, without those of libraries."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TextIO

_MESSAGE = 400  # letters of a message
_FRAMES = 8  # that are shown; the innermost tell most
_CHAIN = 3  # exceptions before it that are told
_INSTALLED = {"site-packages", "dist-packages"}

_own_packages: set[str] = set()


@contextlib.contextmanager
def running(where: str) -> Iterator[None]:
    """A file or module of the user is executed inside: what it prints goes to standard error, and it reads nothing.

    Args:
        where: `path/to/file.py` or `package.module`.

    Example:
        >>> import io
        >>> said = io.StringIO()
        >>> with contextlib.redirect_stderr(said), running("model.py"):
        ...     print("hello")
        >>> said.getvalue()
        'hello\\n'
    """
    folder = _installed_folder(where)
    with (
        open(os.devnull, encoding="utf-8") as nothing,
        contextlib.redirect_stdout(sys.stderr),
        _standard_input(nothing),
    ):
        if folder is not None:
            _own_packages.add(folder)
        yield


@contextlib.contextmanager
def _standard_input(source: TextIO) -> Iterator[None]:
    before, sys.stdin = sys.stdin, source
    try:
        yield
    finally:
        sys.stdin = before


def _installed_folder(where: str) -> str | None:
    """The folder of a package that is examined although it is installed like a library."""
    if where.endswith(".py"):
        path = Path(where).resolve()
        return str(path.parent) if _INSTALLED & set(path.parts) else None
    top = where.partition(".")[0]
    with contextlib.suppress(ImportError, ValueError):
        found = importlib.util.find_spec(top)
        if found is not None and top not in ("isometer", "isometer_papers", "torch") and found.origin:
            origin = Path(found.origin)
            return str(origin.parent if found.submodule_search_locations else origin)
    return None


@dataclass(frozen=True)
class UserLine:
    """A line of the user's code that was being executed."""

    file: str
    line: int
    function: str
    text: str

    @property
    def place(self) -> str:
        """`model.py:12 in forward`."""
        where = f"{_short(self.file)}:{self.line}"
        return where if self.function.startswith("<") or not self.function else f"{where} in {self.function}"


def shown(problem: BaseException) -> str | None:
    """One line: what failed, and where in the user's code; None if none of it was running."""
    frames = own_frames(problem)
    return f"{frames[-1].place}: {_message(problem)}" if frames else None


def own_code(problem: BaseException) -> list[str]:
    """The user's frames, each with its line, and the exceptions that led to this one."""
    lines = _listed(own_frames(problem))
    for word, earlier in _chain(problem):
        frames = own_frames(earlier)
        if frames and not lines:  # the error is told by the instrument, about this one
            lines = _listed(frames)
        elif frames:
            lines.append(f"{word} {frames[-1].place}: {_message(earlier)}")
    return lines


def own_frames(problem: BaseException) -> list[UserLine]:
    """Frames of the user's code in a traceback, outermost first."""
    found = [
        UserLine(one.filename, one.lineno or 0, one.name, (one.line or "").strip())
        for one in traceback.extract_tb(problem.__traceback__)
        if is_own(one.filename)
    ]
    if isinstance(problem, SyntaxError) and problem.filename and is_own(problem.filename):
        found.append(UserLine(problem.filename, problem.lineno or 0, "", (problem.text or "").strip()))
    return found


def is_own(file: str) -> bool:
    """Whether a file is the user's: neither Python's own, nor installed, nor part of Isometer.

    Example:
        >>> is_own("/home/me/model.py"), is_own(traceback.__file__), is_own(__file__), is_own("numpy/random.pyx")
        (True, False, False, False)
    """
    path = os.path.realpath(file)
    # libraries in C name their sources by paths that were relative where they were built
    if file.startswith("<") or not (os.path.isabs(file) or os.path.exists(path)):
        return False
    if any(path == one or path.startswith(one + os.sep) for one in _own_packages):
        return True
    if _INSTALLED & set(Path(path).parts):
        return False
    return not any(path.startswith(folder + os.sep) for folder in _foreign())


@cache
def _foreign() -> tuple[str, ...]:
    """Folders of code that is not the user's."""
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    for name in ("isometer", "isometer_papers", "typer", "torch"):
        with contextlib.suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(name)
            found.update(spec.submodule_search_locations or () if spec is not None else ())
    return tuple(os.path.realpath(folder) for folder in found if folder)


def _listed(frames: list[UserLine]) -> list[str]:
    runs = [(frame, len(list(same))) for frame, same in groupby(frames)]
    lines = [f"  … {len(runs) - _FRAMES} more"] if len(runs) > _FRAMES else []
    for frame, times in runs[-_FRAMES:]:
        lines.append(f"  {frame.place}" + (f" ({times} times)" if times > 1 else ""))
        if frame.text:
            lines.append(f"    {printable(frame.text)[:_MESSAGE]}")
    return lines


def _chain(problem: BaseException) -> Iterator[tuple[str, BaseException]]:
    """Exceptions that led to this one."""
    seen = {id(problem)}
    for _ in range(_CHAIN):
        if problem.__cause__ is not None:
            word, earlier = "  because of", problem.__cause__
        elif problem.__context__ is not None and not problem.__suppress_context__:
            word, earlier = "  while handling", problem.__context__
        else:
            return
        if id(earlier) in seen:
            return
        seen.add(id(earlier))
        yield word, earlier
        problem = earlier


def _message(problem: BaseException) -> str:
    name = type(problem).__name__
    try:
        text = problem.msg if isinstance(problem, SyntaxError) else str(problem)
    except Exception:  # the user's class
        text = "(without a message)"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any(line.startswith(("Traceback", "Original Traceback")) for line in lines):  # of a process that loads data
        lines = [lines[0], lines[-1]]
    told = printable(" ".join(lines))
    return f"{name}: {told[:_MESSAGE]}" if told else name


def printable(text: str) -> str:
    """Text without what would move the cursor of a terminal.

    Example:
        >>> printable("red \\x1b[31m")
        'red  [31m'
    """
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _short(file: str) -> str:
    """A path from here if it lies below, whole otherwise."""
    with contextlib.suppress(ValueError, OSError):
        return str(Path(file).resolve().relative_to(Path.cwd()))
    return file
