"""Batch norm at infinite width: the Gram map, its fixed points and rates, the growth of gradients, what width adds."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
