"""Runs of one cell: their seeds, and their curves as one result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import xarray

from isometer.run import Cell


def run_seeds(configuration: Mapping[str, Any], seed: int) -> list[int]:
    """The seeds of the runs of a cell: a run has the one that it has in a cell of its own.

    Args:
        configuration: of the cell; `run` is the number of its run, or a list of them.
        seed: of the cell.

    Example:
        >>> both = run_seeds({"depth": 3, "run": [0, 1]}, 5)
        >>> both[1] == Cell({"run": 1}, {"depth": 3, "run": 1}).seed, run_seeds({"depth": 3, "run": 1}, 5)
        (True, [5])
    """
    runs = configuration.get("run")
    if not isinstance(runs, list):
        return [seed]
    return [Cell({"run": run}, {**configuration, "run": run}).seed for run in runs]


def joined_runs(configuration: Mapping[str, Any], curves: Sequence[xarray.Dataset]) -> xarray.Dataset:
    """The results of runs along `run` where the cell has a list of them, else the one.

    Example:
        >>> one = xarray.Dataset({"loss": ("epoch", [2.0, 1.0])})
        >>> dict(joined_runs({"run": [0, 1]}, [one, one]).sizes), dict(joined_runs({"run": 0}, [one]).sizes)
        ({'run': 2, 'epoch': 2}, {'epoch': 2})
    """
    if not isinstance(configuration.get("run"), list):
        return curves[0]
    return xarray.concat(list(curves), "run", data_vars="all", coords="minimal", compat="equals", join="exact")
