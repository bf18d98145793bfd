"""A client in a process of its own, for tests that kill it: `run_client.py STORE WORKERS CELLS SECONDS [dask]`."""

from __future__ import annotations

import sys

from isometer.run import Job, run
from support.run_cells import walk


def walks(cells: int, seconds: float) -> Job:
    """So many random walks, each after a pause."""
    return Job(walk, {"seconds": [seconds], "steps": list(range(1, cells + 1))})


if __name__ == "__main__":
    folder, workers, cells, seconds, *dask = sys.argv[1:]
    outcome = run(walks(int(cells), float(seconds)), folder, workers=int(workers), dask=dask[0] if dask else None)
    print(outcome.done, len(outcome.failures))
