"""The same model at several widths and depths: does the learning rate transfer, and what to change if it does not."""

import lazy_loader

import isometer.extras.torch_needed  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
