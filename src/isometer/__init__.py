"""Isometer: an instrument for signal propagation in deep networks.

Importing it does not import torch: `probe`, `diagnose` and `treat` load it when first used, and what else needs it
lives in its own room (`from isometer.simulate import simulate`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
