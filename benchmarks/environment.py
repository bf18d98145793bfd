"""The environment a result belongs to, and where results are written."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from isometer.files import write_whole
from isometer.serialize import json_text

RESULTS = Path(__file__).parent / "results"


def environment() -> dict[str, Any]:
    """Versions and processor; no names of machines."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    return {
        "python": platform.python_version(),
        "processor": model,
        "cores": os.cpu_count(),
        **{name: version(name) for name in ("numpy", "scipy", "torch")},
    }


def best_of(function: Callable[[], Any], repeats: int = 3) -> float:
    """Shortest wall time of a few repeats: the machine may be busy with other things."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def show(title: str, results: dict[str, dict[str, float]]) -> None:
    """Print nested numbers as a table, one block per benchmark."""
    table = Table("benchmark", "quantity", "value", title=title)
    for name, numbers in results.items():
        for i, (quantity, value) in enumerate(numbers.items()):
            table.add_row("" if i else name, quantity, f"{value:.4g}")
    Console().print(table)


def write(name: str, result: dict[str, Any]) -> Path:
    """Commit-ready JSON, written whole or not at all."""
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{name}.json"
    write_whole(target, json_text({"environment": environment(), **result}, indent=2) + "\n")
    return target
