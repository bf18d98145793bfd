"""Long work: cells, seeds, a store and executors make it parallel, resumable and repeatable.

from isometer.run import Job, run

job = Job(function, {"width": [64, 128], "activation": ["relu", "tanh"]})
outcome = run(job, "runs/mine", workers=2)
outcome.result  # xarray.Dataset over width and activation
"""

from isometer.run.cells import Cell, Job
from isometer.run.checkpoints import Checkpoint
from isometer.run.code import code_version
from isometer.run.combine import combine_grid
from isometer.run.driver import Interrupted, Outcome, results, run
from isometer.run.files import CellFileError
from isometer.run.grids import parse_axes
from isometer.run.progress import Status
from isometer.run.seeds import seed_of
from isometer.run.store import Failure, Store, StoreError
from isometer.run.upkeep import FileReport, clean_store, find_stores, inspect_store

__all__ = [
    "Cell",
    "CellFileError",
    "Checkpoint",
    "Failure",
    "FileReport",
    "Interrupted",
    "Job",
    "Outcome",
    "Status",
    "Store",
    "StoreError",
    "clean_store",
    "code_version",
    "combine_grid",
    "find_stores",
    "inspect_store",
    "parse_axes",
    "results",
    "run",
    "seed_of",
]
