"""Solvers: the depth, gain, skip strength, bias or activation scale that gives a network the property you choose."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
