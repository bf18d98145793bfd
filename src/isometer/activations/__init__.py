"""What a nonlinearity does to a Gaussian: registry, algebra, moments, Hermite coefficients and duals."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
