"""Isometer: an instrument for signal propagation in deep networks."""

from isometer.activations import Activation, activation
from isometer.errors import ActivationError, InfiniteMomentError, IsometerError

__version__ = "0.1.0"
__all__ = [
    "Activation",
    "ActivationError",
    "InfiniteMomentError",
    "IsometerError",
    "__version__",
    "activation",
]
