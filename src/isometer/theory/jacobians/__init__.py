"""Singular values of the input–output Jacobian at infinite width, by free probability."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
