"""Why a model does not train: parts are returned to their reference, and what helps is the cause."""

import lazy_loader

import isometer.extras.torch_needed  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
