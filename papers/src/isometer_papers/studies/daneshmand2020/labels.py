"""Labels that the figures of 002 share."""

from __future__ import annotations

import math

MARKERS = ("o", "s", "^", "D", "v")


def gamma_label(value: float) -> str:
    """The residual strength for a legend.

    Example:
        >>> gamma_label(0.5), gamma_label(math.inf)
        ('γ = 0.5', 'no skip (γ = ∞)')
    """
    return "no skip (γ = ∞)" if math.isinf(value) else f"γ = {value:g}"
