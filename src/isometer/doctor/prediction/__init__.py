"""Predict: the chain inside a model as a spec, and what theory says of it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
