"""Where the time of a training study goes: the share of forward, backward and optimiser steps in its cells.

One cell of every network in a study's quick grid, with the runs that it has together, is computed in this process, as a
worker would, after one step of each that warms up the imports and the images. `steps` is the time inside a step
(forward, backward, update), and that of pre-training, which is gradient ascent before it (002/fig-6). What is left is
tests, measurements, building the network, choosing the batches. A study whose cells another one has is left out.

Run with `python -m benchmarks training`; studies whose data are missing are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.environment import show
from isometer import init
from isometer.errors import IsometerError
from isometer.run import Cell, Checkpoint
from isometer_papers.studies import Study, all_studies
from isometer_papers.studies._records import settings_of
from isometer_papers.studies._running import make_job
from isometer_papers.training import loop


def timed(function: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    """The function, which adds its seconds to a list."""

    def call(*args: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*args, **options)
        finally:
            spent.append(time.perf_counter() - start)

    return call


def shares(study: Study, cells: list[Cell]) -> dict[str, float]:
    """Of the seconds of some cells."""
    steps, before, records = list[float](), list[float](), list[float]()
    stepping = loop.stepping
    with (
        patch.object(loop, "stepping", lambda *how: timed(stepping(*how), steps)),
        patch.object(init, "rank_pretraining_", timed(init.rank_pretraining_, before)),
        patch.object(loop, "_record", timed(loop._record, records)),
    ):
        start = time.perf_counter()
        for cell in cells:
            study.cell(cell.configuration, cell.seed, Checkpoint())
        whole = time.perf_counter() - start
    together = cells[0].configuration["run"]
    runs = len(together) if isinstance(together, list) else 1
    return {
        "seconds": whole,
        "steps, share": (sum(steps) + sum(before)) / whole,
        "pre-training, share": sum(before) / whole,
        "tests and measurements, share": sum(records) / whole,
        "milliseconds per step of a run": 1e3 * sum(steps) / max(len(steps), 1) / runs,
    }


def run() -> dict[str, dict[str, float]]:
    """Measure everything, print a table and return the numbers."""
    torch.set_num_threads(1)
    results: dict[str, dict[str, float]] = {}
    seen: set[str] = set()
    for study in all_studies():
        if "device" not in settings_of(study.quick):
            continue
        job = make_job(study, study.quick)
        cells = [cell for cell in job.cells if cell.configuration["run"] in (0, job.cells[0].configuration["run"])]
        if seen.issuperset(job.keys):
            continue
        seen.update(job.keys)
        try:  # a worker loads the images once for many cells
            for cell in cells:
                study.cell({**cell.configuration, "epochs": 1, "steps": 1}, 0, Checkpoint())
        except IsometerError as problem:
            print(f"{study.id} is left out: {problem}")
            continue
        results[study.id] = shares(study, cells)
    total = sum(one["seconds"] for one in results.values())
    share = sum(one["seconds"] * one["steps, share"] for one in results.values()) / total
    results["all together (steps ≥ 0.9)"] = {"seconds": total, "steps, share": share}
    show("training studies: where the time goes", results)
    return results
