"""Infinite width: kernel maps, fixed points, length maps and phases, NNGP and NTK, bounds, activation shaping."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
