"""Regression with the kernels of infinitely wide networks, through scikit-learn's interface, and kernels in blocks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
