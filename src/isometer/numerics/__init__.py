"""Piecewise Legendre series: resolve a function on panels, evaluate it, integrate it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
