"""Long work: cells, seeds, a store and executors make it parallel, resumable and repeatable.

from isometer.run import Job, run

job = Job(function, {"width": [64, 128], "activation": ["relu", "tanh"]})
outcome = run(job, "runs/mine", workers=2)
outcome.result  # xarray.Dataset over width and activation
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
