"""Networks at infinite width: one interpreter of compositions of steps, for Gram matrices, gradients and kernels."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
