"""Which checkpoints a pattern names, and the step of each."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from pathlib import Path

from isometer.errors import IsometerError

_SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
_STEP = re.compile(r"(?:step|iter(?:ation)?|checkpoint|ckpt)s?[-_=]?(\d+)", re.IGNORECASE)


def checkpoint_files(pattern: str) -> dict[int, Path]:
    """The files that a pattern names, by step.

    The step is the number after `step`, `iter` or `checkpoint` in the path, otherwise the first number that all paths
    have and no two share; where there is none, checkpoints are counted in the order of their names.

    Args:
        pattern: such as `run/*.pt`, or a folder.

    Raises:
        IsometerError: no file has such a name.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("epoch=1-step=90.ckpt", "epoch=2-step=180.ckpt"):
        ...         Path(folder, name).touch()
        ...     list(checkpoint_files(f"{folder}/*.ckpt"))
        [90, 180]
    """
    if Path(pattern).is_dir():
        found = [path for path in Path(pattern).iterdir() if path.suffix in _SUFFIXES and path.is_file()]
        expected = f"a file that ends in {', '.join(_SUFFIXES)} in it"
    else:
        found = [Path(one) for one in glob.glob(pattern, recursive=True) if Path(one).is_file()]
        expected = "at least one file of that name"
    if not found:
        raise IsometerError(f"{pattern!r} names no checkpoints; expected {expected} — put the pattern in quotes")
    ordered = sorted(found, key=_natural)
    numbers = _steps([str(path) for path in ordered])
    return dict(sorted(zip(numbers, ordered, strict=True)))


def _natural(path: Path) -> list[tuple[int, str]]:
    """An order in which 9 comes before 10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", str(path))]


def _steps(paths: Sequence[str]) -> list[int]:
    named = [_STEP.findall(path) for path in paths]
    if all(named):
        last = [int(found[-1]) for found in named]
        if len(set(last)) == len(last):
            return last
    numbers = [[int(one) for one in re.findall(r"\d+", path)] for path in paths]
    if len(paths) > 1 and len({len(row) for row in numbers}) == 1:
        for column in zip(*numbers, strict=True):
            if len(set(column)) == len(column):
                return list(column)
    return list(range(1, len(paths) + 1))
