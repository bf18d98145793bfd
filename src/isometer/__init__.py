"""Isometer: an instrument for signal propagation in deep networks.

The names here need no torch. What does lives in its own room: `from isometer.simulate import simulate`.
"""

from isometer.activations import Activation, activation
from isometer.errors import ActivationError, InfiniteMomentError, IsometerError
from isometer.spec import Spec
from isometer.theory import KernelMap, explain, kernel_map

__version__ = "0.1.0"
__all__ = [
    "Activation",
    "ActivationError",
    "InfiniteMomentError",
    "IsometerError",
    "KernelMap",
    "Spec",
    "__version__",
    "activation",
    "explain",
    "kernel_map",
]
