"""Training for some steps: the one loop that patients, treatments and the trial share."""

import lazy_loader

import isometer.extras.torch_needed  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
