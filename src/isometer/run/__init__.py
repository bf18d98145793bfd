"""Long work: cells, seeds, a store and executors make it parallel, resumable and repeatable.

from isometer.run import Job, run

job = Job(function, {"width": [64, 128], "activation": ["relu", "tanh"]})
outcome = run(job, "runs/mine", workers=2)
outcome.result  # xarray.Dataset over width and activation
"""

from isometer.run._cells import Cell, Job
from isometer.run._checkpoints import Checkpoint
from isometer.run._code import code_version
from isometer.run._combine import combine_grid
from isometer.run._driver import Interrupted, Outcome, results, run
from isometer.run._files import CellFileError
from isometer.run._grids import parse_axes
from isometer.run._progress import Status
from isometer.run._seeds import seed_of
from isometer.run._store import Failure, Store, StoreError
from isometer.run._upkeep import FileReport, clean_store, find_stores, inspect_store

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
