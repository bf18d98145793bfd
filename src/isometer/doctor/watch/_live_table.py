"""A table in the terminal that follows a training run."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 30  # observations in a sparkline
_WARNINGS = 5  # that are shown
_ROWS = (
    "loss",
    "rms/last",
    "rms/largest",
    "effective_rank/last",
    "mean_abs_cosine/last",
    "gradient_log_norm/first",
    "gradient_log_norm/last",
    "dead_fraction/largest",
    "overshoot",
)
_WARNING = "warning/"


class LiveTable:
    """The latest numbers of a monitor, their course, and its last warnings: `SignalMonitor(model, log=LiveTable())`.

    Where standard output is not a terminal, the table is printed once, when the monitor is closed.

    Args:
        console: where to draw; standard output by default.

    Example:
        >>> import io
        >>> text = io.StringIO()
        >>> table = LiveTable(Console(file=text, width=70))
        >>> for step in (1, 2):
        ...     table(step, {"signal/loss": 2.0 / step, "signal/warning/dead-units": 1.0})
        >>> table.close()
        >>> "step 2" in text.getvalue(), "█▁" in text.getvalue(), "dead-units" in text.getvalue()
        (True, True, True)
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._live: Live | None = None
        self._course: dict[str, deque[float]] = {}
        self._warned: deque[tuple[int, str]] = deque(maxlen=_WARNINGS)

    def __call__(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            _, warning, sign = name.partition(_WARNING)
            if warning:
                self._warned.append((step, sign))
            for row in _ROWS:
                if name == row or name.endswith(f"/{row}"):
                    self._course.setdefault(row, deque(maxlen=_WIDTH)).append(value)
        if self._live is None:
            self._live = Live(console=self._console or Console(), auto_refresh=False)
            self._live.start()
        self._live.update(self._drawn(step), refresh=True)

    def _drawn(self, step: int) -> Any:
        table = Table(title=f"step {step}", title_justify="left", box=SIMPLE)
        for column in ("quantity", "now", "course"):
            table.add_column(column, justify="right" if column == "now" else "left", no_wrap=True)
        for row in _ROWS:
            if row in self._course:
                course = self._course[row]
                table.add_row(row, f"{course[-1]:.3g}", sparkline(course))
        told = [Text(f"step {at}: {sign}", style="yellow") for at, sign in self._warned]
        return Group(table, *told)

    def close(self) -> None:
        """Leave the last table on the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def sparkline(values: Any) -> str:
    """Numbers as bars, from the smallest to the largest of them; a cross where one is not finite.

    Example:
        >>> sparkline([0.0, 1.0, 2.0, float("nan")])
        '▁▅█×'
    """
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[math.floor((v - low) * scale + 0.5)] if math.isfinite(v) else "×" for v in values)
