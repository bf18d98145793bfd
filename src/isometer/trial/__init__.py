"""The trial: models the doctor has never seen, the truth about them by training, and how often it is right."""

import lazy_loader

import isometer.extras.torch_needed  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

# The package of families takes its own name here once it is imported: the function has to be bound after that.
from isometer.trial._roster import families as families  # noqa: E402
