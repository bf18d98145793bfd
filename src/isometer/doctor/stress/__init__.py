"""Whether a model trains, by training a copy: a few dozen steps with each optimizer, beside a reference."""

import lazy_loader

import isometer.extras.torch_needed  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
