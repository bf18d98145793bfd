"""Solvers: the depth, gain, skip strength, bias or activation scale at which a network does what you ask for."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
