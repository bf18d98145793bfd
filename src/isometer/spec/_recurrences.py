"""The recurrences of the papers as specs, by inventory ID."""

from typing import Any

from isometer.errors import unknown_name
from isometer.spec._chain import POST_NORM, Chain
from isometer.spec._checks import SpecError
from isometer.spec._schedule import PowerLaw

RECURRENCES: dict[str, dict[str, Any]] = {
    "000/def-layer": {"norm": "batch"},
    "001/rec-2.1": {"activation": "identity", "norm": "batch-unit", "scale": "1/sqrt(width)"},
    "001/rec-2.vanilla": {"activation": "identity"},
    "001/rec-3.1": {"norm": "batch", "order": ("norm", "activation", "weights")},
    "001/eq-5.11": {"norm": "layer"},
    "001/eq-5.12": {"norm": "layer", "order": POST_NORM},
    "001/rec-6.3": {"activation": "identity", "norm": "batch-unit", "weights": "orthogonal"},
    "001/rec-6.11": {
        "activation": "tanh",
        "norm": "batch-unit",
        "weights": "orthogonal",
        "activation_gain": PowerLaw(layer=-0.4),
    },
    "002/eq-rec-vanilla": {
        "activation": "identity",
        "weights": "uniform",
        "weight_scaling": "unit",
        "order": ("activation", "weights", "norm"),
    },
    "002/eq-5": {
        "activation": "identity",
        "norm": "batch-rescale",
        "weights": "uniform",
        "weight_scaling": "unit",
        "order": ("activation", "weights", "residual", "norm"),
    },
    "003/net-bn-linear": {"activation": "identity", "norm": "batch-unit", "scale": "1/sqrt(width)"},
    "003/net-act": {"norm": "batch-unit", "order": ("activation", "weights", "norm")},
    "004/eq-1": {"weight_scaling": "unit", "scale": "1/sqrt(width)"},
    "004/eq-3": {"weight_scaling": "unit", "scale": "1/sqrt(width)", "norm": "unit", "order": POST_NORM},
}
"""The recurrences of the papers by ID: the arguments of `Spec` that make each."""


def recurrence(name: str, **fields_of_spec: Any) -> Chain:
    """The spec of a recurrence of the papers, by inventory ID.

    Args:
        name: one of the IDs in the module's table.
        fields_of_spec: `width`, `depth` and whatever differs from the recurrence as tabled (γ, say, or φ).

    Returns:
        The spec.

    Example:
        >>> recurrence("002/eq-5", width=32, depth=100, residual=0.1).operations
        ('weights', 'residual', 'norm')

    Implements: the recurrences of the module's table.
    """
    if name not in RECURRENCES:
        raise unknown_name("recurrence", name, RECURRENCES, error=SpecError)
    return Chain(**{**RECURRENCES[name], **fields_of_spec})
