"""Transformers with exchangeable tokens: paths of lengths and cosines, exponents, diagrams over two numbers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
