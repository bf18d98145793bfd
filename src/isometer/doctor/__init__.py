"""Probe → diagnose → treat, for any `torch.nn.Module`.

The tables of conditions and prescriptions load without torch, so that reports are drawn where it is missing; the rest
loads it when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
