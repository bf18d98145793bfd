"""Built-in patients of the doctor: models with a known condition and healthy ones, and whether they train."""

import lazy_loader

import isometer.extras.torch_needed  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
