"""What theory says a spec does to a batch, in the format of simulations: infinite width, and what finite width adds."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
