"""Isometer: an instrument for signal propagation in deep networks.

Importing it does not import torch: `probe`, `diagnose` and `treat` load it when first used, and what else needs it
lives in its own room (`from isometer.simulate import simulate`).
"""

from typing import TYPE_CHECKING, Any

from isometer.activations import Activation, activation
from isometer.errors import ActivationError, InfiniteMomentError, IsometerError
from isometer.spec import Spec
from isometer.theory import KernelMap, explain, kernel_map

if TYPE_CHECKING:
    from isometer.doctor import Examination, Report, Treatment, diagnose, probe, treat

__version__ = "0.1.0"
__all__ = [
    "Activation",
    "ActivationError",
    "Examination",
    "InfiniteMomentError",
    "IsometerError",
    "KernelMap",
    "Report",
    "Spec",
    "Treatment",
    "__version__",
    "activation",
    "diagnose",
    "explain",
    "kernel_map",
    "probe",
    "treat",
]


def __getattr__(name: str) -> Any:
    """The names that need torch."""
    if name in ("Examination", "Report", "Treatment", "diagnose", "probe", "treat"):
        from isometer import doctor

        return getattr(doctor, name)
    raise AttributeError(f"module 'isometer' has no attribute {name!r}")
