# # Run a sweep on a cluster
#
# How does the orthogonality gap of a network with batch norm (without the mean) depend on its width? One simulation
# per width and activation: a grid of *cells*. Cells run in parallel, here or on a cluster. Finished cells are
# kept, and the result is the same, bit for bit, for any number of workers.
#
# ## On the command line
#
# ```console
# $ isometer sweep simulate --grid width=64,128 activation=relu,tanh --norm batch --depth 30 --workers 2 --out runs/gap
# $ isometer sweep simulate --grid width=64,128 --norm batch --depth 30 --out runs/gap --dask tcp://10.0.0.5:8786
# ```
#
# Repeat the command after an interruption (`kill -9` included): finished cells are not computed again.
#
# ## The same in Python
#
# A cell is described by plain data. Its function is named, not sent: workers import it, so it must be in a module
# that they have, not in a notebook. Here it is the one behind `isometer sweep simulate`.

import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from distributed import LocalCluster

from isometer.run import Cell, Job, run
from isometer.run.targets.simulation import simulate_cell

WIDTHS, ACTIVATIONS = [32, 64, 128], ["identity", "tanh"]
cells = tuple(
    Cell(
        {"width": width, "activation": activation},
        {
            "spec": {"width": width, "depth": 30, "activation": activation, "norm": "batch-rescale"},
            "input": {"kind": "gaussian", "samples": 4},
            "runs": 8,
            "metrics": ["orthogonality_gap"],
            "engine": "auto",
            "at": "post",
            "loss": "gaussian",
            "dtype": "float64",
        },
    )
    for width in WIDTHS
    for activation in ACTIVATIONS
)
job = Job(simulate_cell, {"width": WIDTHS, "activation": ACTIVATIONS}, cells)
print(len(job.cells), "cells, the first:", job.cells[0].label)
# → 6 cells, the first: width=32 activation=identity

# ## A cluster
#
# This one is a scheduler and one worker inside this process, so that the example runs anywhere. A real one is a
# scheduler somewhere (`dask scheduler`) and workers (`dask worker tcp://scheduler:8786 --nthreads 1`) on any number
# of machines with the same versions installed. Only its address matters. Workers need no shared disk: results travel
# back and are written here.

folder = tempfile.TemporaryDirectory()
with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
    outcome = run(job, folder.name, dask=cluster.scheduler_address)
print(outcome.done, "done,", outcome.reused, "found in the store,", len(outcome.failures), "failed")
# → 6 done, 0 found in the store, 0 failed

# ## Resume, or run again
#
# The folder is a store: one file per cell, checked when it is read. Ask for the same job, here with an executor of
# this process, and everything is there already.

with ThreadPoolExecutor(1) as pool:
    again = run(job, folder.name, executor=pool)
print(again.done, "done,", again.reused, "found in the store,", len(again.failures), "failed")
# → 6 done, 6 found in the store, 0 failed
assert outcome.result.identical(again.result)
folder.cleanup()

# ## The result
#
# One `xarray.Dataset`; the grid became dimensions. Twice the width should make the gap smaller by √2, a slope of −½.

gap = outcome.result["orthogonality_gap"].isel(layer=slice(15, None)).mean(["run", "layer"])
for activation in ACTIVATIONS:
    slope = np.polyfit(np.log(WIDTHS), np.log(gap.sel(activation=activation)), 1)[0]
    print(f"{activation:9} slope {slope:.1f}")
# → identity  slope -0.5
# → tanh      slope -0.5

# [Orthogonality](../theory/orthogonality.md) says why. Long cells can keep checkpoints, failed ones are reported and
# lose nothing else: [the reference](../reference/run.md).
