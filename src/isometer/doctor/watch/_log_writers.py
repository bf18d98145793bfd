"""Where a monitor's numbers go: TensorBoard, W&B, a function, a CSV file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from isometer.errors import IsometerError
from isometer.files import existing_folder, write_whole

Outlet = Callable[[int, Mapping[str, float]], Any]


def outlets(log: Any) -> list[Outlet]:
    """Functions of step and numbers for whatever a user has.

    Args:
        log: something with `add_scalar(name, value, step)`, something with `log(numbers, step=…)`, a function of step
            and numbers, the path of a CSV file, a list or tuple of those, or `None`.

    Raises:
        IsometerError: it is none of these.

    Example:
        >>> seen = []
        >>> (outlet,) = outlets(lambda step, numbers: seen.append((step, dict(numbers))))
        >>> outlet(3, {"rms": 1.0})
        >>> seen
        [(3, {'rms': 1.0})]
    """
    if log is None:
        return []
    if isinstance(log, (list, tuple)):
        return [outlet for one in log for outlet in outlets(one)]
    if isinstance(log, (str, Path)):
        return [CsvFile(Path(log))]
    if hasattr(log, "add_scalar"):
        return [lambda step, numbers: _tensorboard(log, step, numbers)]
    if callable(getattr(log, "log", None)):
        return [lambda step, numbers: log.log(dict(numbers), step=step)]
    if callable(log):
        return [log]
    raise IsometerError(
        f"log is a {type(log).__name__}; expected a SummaryWriter, a W&B run, a function of step and numbers, or the "
        "path of a CSV file — pass one of them"
    )


def _tensorboard(writer: Any, step: int, numbers: Mapping[str, float]) -> None:
    for name, value in numbers.items():
        writer.add_scalar(name, value, step)


class CsvFile:
    """Rows of step, name and value in a file, which is continued if it exists.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = CsvFile(Path(folder) / "signal.csv")
        ...     file(1, {"rms": 2.0})
        ...     file.path.read_text().split()
        ['step,name,value', '1,rms,2']
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        existing_folder(path.parent)

    def __call__(self, step: int, numbers: Mapping[str, float]) -> None:
        new = not self.path.exists() or self.path.stat().st_size == 0
        with self.path.open("a", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            if new:
                rows.writerow(("step", "name", "value"))
            rows.writerows(
                (step, name, f"{value:.6g}" if math.isfinite(value) else value) for name, value in numbers.items()
            )

    def rewind(self, step: int) -> None:
        """Drop what is beyond a step: a run that resumes from there writes it again."""
        if not self.path.exists():
            return
        text = io.StringIO()
        with self.path.open(encoding="utf-8", newline="") as file:
            # A process that was killed may have left half a row at the end.
            rows = [row for row in csv.reader(file) if len(row) == 3 and (row[0] == "step" or row[0].isdigit())]
        kept = [row for row in rows if row[0] == "step" or int(row[0]) <= step]
        csv.writer(text, lineterminator="\n").writerows(kept)
        write_whole(self.path, text.getvalue(), fix="name a file in a writable folder")
