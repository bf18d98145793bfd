"""Cells that wait, fail, die and remember, for tests of the machinery."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from isometer.run import Checkpoint


def walk(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """A random walk and a matrix product, after waiting `seconds`; fails or dies where the cell says so.

    A cell with `die` kills its own worker the first time, as the file of that name remembers; one with `fail` raises.
    """
    if cell.get("fail"):
        raise ArithmeticError(f"told to fail: {cell['fail']}")
    if cell.get("die"):
        mark = Path(cell["die"])
        if cell.get("always") or not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(float(cell.get("seconds", 0)))
    rng = np.random.default_rng(seed)
    place = np.cumsum(rng.standard_normal(int(cell["steps"])))
    matrix = rng.standard_normal((64, 64))
    data = {"place": ("step", place), "trace": float(np.trace(matrix @ matrix.T))}
    return xarray.Dataset(data, coords={"step": np.arange(len(place))})


def patient(cell: Mapping[str, Any], seed: int, checkpoint: Checkpoint) -> xarray.Dataset:
    """Adds random numbers one by one, and remembers where it was after each."""
    state = checkpoint.load() or {"done": 0, "total": np.zeros(1)}
    steps, log = int(cell["steps"]), cell.get("log")
    for step in range(state["done"], steps):
        draw = np.random.default_rng([seed, step]).standard_normal(1)
        state = {"done": step + 1, "total": state["total"] + draw}
        checkpoint.save(state)
        checkpoint.tell(f"step {step + 1} of {steps}")
        if log:
            with open(log, "a", encoding="utf-8") as file:
                file.write(f"{step}\n")
        if cell.get("die_at") == step and not Path(str(log) + ".died").exists():
            Path(str(log) + ".died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(float(cell.get("seconds", 0)))
    return xarray.Dataset({"total": float(state["total"][0])})


def busy(begun: Path) -> None:
    """Minutes of nothing; the number of the process is written once it is busy."""
    partial = begun.with_suffix(".tmp")
    partial.write_text(str(os.getpid()))
    partial.rename(begun)
    time.sleep(600)
