"""Kernels at infinite width: length and kernel maps, NNGP and NTK at any depth, conditioning, published bounds."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
