"""Where a measured number begins to harm training.

The derivations are in `docs/doctor.md`; every limit is on a total over the model's own depth, so that a small rate
harms a deep model and not a shallow one.
"""

from __future__ import annotations

import math

SIGNIFICANCE = 1e-3
"""Largest p-value of a finding that chance could produce, after correction for the number of layers looked at."""

GROWTH = (math.log(100), math.log(1e3))
"""Of the signal's scale from input to readout. The loss curves like the square of the scale, so a learning rate "
"fitted to
scale 1 is off by 10⁴ (moderate) or 10⁶ (severe)."""

GRADIENT = (math.log(50), math.log(400))
"""Of the gradient's norm over the depth. With one learning rate for all layers the smallest relative step is this much
below the largest."""

ALIKE = (0.025, 0.005)
"""`1 − mean |cos|` of the last hidden representation. Kernel conditioning grows as its inverse times the batch size."""

TOKENS_ALIKE = (1e-4, 1e-5)
"""The same of the tokens of a sample. A readout over tokens needs less: post-norm transformers train at 5e-4."""

ALIGNED = (0.05, 0.005)
"""`1 − mean |cos|` of the gradients of samples that ask for the same change: the share of a step that tells them "
"apart."""

SMALL_BATCH = (0.075, 0.18)
"""Sum of `1/n²` over layers of batch statistics, n values each. What such a network learns, as a share of what one
with layer norm learns, was measured to be `exp(−3.8 Σ 1/n²)`: three quarters and one half at the limits."""

ODD = (0.5, 0.8)
"""Share of the batch's squared length that one sample has."""

DEAD = (0.75, 0.95)
"""Share of units that are zero on the whole batch. Weights with a symmetric law leave at most half of them so."""

SATURATED = (0.35, 0.6)
"""Share of entries where the slope is below 5 % of the largest; the gradient through a layer has at most the rest."""

NONLINEAR = (1e-4, 1e-6)
"""Sum over the depth of the share of an activation's variance that no linear function explains."""

ASYMMETRY = (1.0, 4.0)
"""`|mean|/std · √fan_in` of weights: for inputs of one sign, the common part of a pre-activation over its random "
"part."""

GAIN = 0.1
"""Logarithm by which a gain is off, per layer."""

WORST_HEADROOM = 1.0
"""Factors of ten below a dtype's largest number, or above its smallest normal one."""


def severity(value: float, limits: tuple[float, float]) -> str | None:
    """`severe`, `moderate` or `None`, for limits that rise or fall from moderate to severe.

    Example:
        >>> severity(5.0, (1.0, 4.0)), severity(0.01, (0.03, 0.003)), severity(0.5, (1.0, 4.0))
        ('severe', 'moderate', None)
    """
    moderate, severe = limits
    if math.isnan(value):
        return None
    if severe > moderate:
        return "severe" if value >= severe else "moderate" if value >= moderate else None
    return "severe" if value <= severe else "moderate" if value <= moderate else None
