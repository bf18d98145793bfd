"""Softmax of Gaussian scores: moments by integrals for exchangeable tokens, by points for any Gram matrix."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
