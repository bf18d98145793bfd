"""What people get wrong, as changes of a finished model, its batches or its loss: a module per group.

Each fault draws its severity; mild ones and some that do no harm are wanted, since training decides what is sick.
Faults that need another architecture belong to the families (`Family.structural`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
