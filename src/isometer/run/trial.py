"""Small cells for trying the machinery: examples, tests and the benchmark run them."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from isometer.run._checkpoints import Checkpoint


def power(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """base^exponent.

    Example:
        >>> power({"base": 2, "exponent": 3}, seed=0)["value"].item()
        8.0
    """
    return xarray.Dataset({"value": float(cell["base"]) ** float(cell.get("exponent", 1))})


def nothing(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """An empty cell: what remains is overhead.

    Example:
        >>> nothing({}, seed=0).sizes
        Frozen({})
    """
    return xarray.Dataset()


def walk(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """A random walk and a matrix product, after waiting `seconds`; fails or dies where the cell says so.

    A cell with `die` kills its own worker the first time, as the file of that name remembers; one with `fail` raises.

    Example:
        >>> data = walk({"steps": 5}, seed=1)
        >>> data.sizes["step"], float(data["place"][-1]) == float(walk({"steps": 5}, seed=1)["place"][-1])
        (5, True)
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


def busy(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Half the `seconds` of arithmetic on one core (measured in processor time), half of waiting.

    Example:
        >>> busy({"seconds": 0.01}, seed=0)["rounds"].item() > 0
        True
    """
    half = float(cell["seconds"]) / 2
    time.sleep(half)
    start, rounds, state = time.process_time(), 0, b""
    while time.process_time() - start < half:
        for _ in range(1000):
            state = hashlib.sha256(state).digest()
        rounds += 1
    return xarray.Dataset({"rounds": rounds})


def patient(cell: Mapping[str, Any], seed: int, checkpoint: Checkpoint) -> xarray.Dataset:
    """Adds random numbers one by one, and remembers where it was after each.

    Example:
        >>> patient({"steps": 3}, 0, Checkpoint())["total"].item() == patient({"steps": 3}, 0, Checkpoint())["total"]
        <xarray.DataArray 'total' ()> ...
        array(True)
    """
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
