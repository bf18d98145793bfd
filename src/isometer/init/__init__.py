"""Initialisers for torch: in place, seeded without global generators, all or nothing, and they say what they did.

Each takes a weight tensor, a layer or a model (those that need data: a model and a batch), checks everything before it
writes, and returns an `InitOutcome`. Frozen, tied, computed, quantised and meta weights are refused; `layers=[…]` names
the ones to set. Those that run the model take its layers in the order of execution, the others in that of definition.
"""

import lazy_loader

import isometer.extras.torch_needed  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
