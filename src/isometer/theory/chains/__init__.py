"""One layer repeated, at infinite width: what it does to two inputs, its kernels on a batch, and where it settles."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
