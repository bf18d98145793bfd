"""What the machinery of long work costs: speed-up of two workers over one, and overhead per empty cell.

Both sides of the speed-up work on the same 64 cells of one second each, half of it arithmetic and half waiting, in one
run. Cells are checked, written and read back; starting the workers counts.

Run with `python -m benchmarks run`.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray

from benchmarks.environment import show
from isometer.run import Job
from isometer.run import run as run_job

CELLS = 64
SECONDS = 1.0
EMPTY = 500


def nothing(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """An empty cell: what remains is overhead."""
    return xarray.Dataset()


def busy(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Half the `seconds` of arithmetic on one core (measured in processor time), half of waiting."""
    half = float(cell["seconds"]) / 2
    time.sleep(half)
    start, rounds, state = time.process_time(), 0, b""
    while time.process_time() - start < half:
        for _ in range(1000):
            state = hashlib.sha256(state).digest()
        rounds += 1
    return xarray.Dataset({"rounds": rounds})


def speed_up() -> dict[str, float]:
    job = Job(busy, {"i": list(range(CELLS)), "seconds": [SECONDS]})
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        for workers in (1, 2):
            start = time.perf_counter()
            outcome = run_job(job, Path(folder) / str(workers), workers=workers)
            seconds[workers] = time.perf_counter() - start
            assert outcome.done == CELLS, outcome.failures
    return {
        "one_worker_seconds": seconds[1],
        "two_workers_seconds": seconds[2],
        "speed_up": seconds[1] / seconds[2],
    }


def overhead() -> dict[str, float]:
    job = Job(nothing, {"i": list(range(EMPTY))})
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        first = run_job(job, folder, workers=1)
        middle = time.perf_counter()
        again = run_job(job, folder, workers=1)
        end = time.perf_counter()
    assert (first.done, again.reused) == (EMPTY, EMPTY)
    return {
        "milliseconds_per_empty_cell": 1e3 * (middle - start) / EMPTY,
        "milliseconds_per_cell_found": 1e3 * (end - middle) / EMPTY,
    }


def run() -> dict[str, dict[str, float]]:
    """Measure everything, print a table and return the numbers."""
    results = {
        f"{CELLS} cells of {SECONDS:g} s (speed-up ≥ 1.7)": speed_up(),
        f"{EMPTY} empty cells, one worker (< 50 ms)": overhead(),
    }
    show("runs: processes on one machine", results)
    return results
