"""One training loop for every study that trains: data in memory, recipes, measurements, checkpoints by epoch."""

import isometer.extras.torch_needed  # noqa: F401
from isometer_papers.training.images import Sets, image_sets
from isometer_papers.training.loop import fit, fit_together
from isometer_papers.training.recipes import Recipe
from isometer_papers.training.runs import joined_runs, run_seeds

__all__ = ["Recipe", "Sets", "fit", "fit_together", "image_sets", "joined_runs", "run_seeds"]
