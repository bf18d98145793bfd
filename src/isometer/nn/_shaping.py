"""Activations shaped by a gain that falls with the layer, and where such a schedule comes from."""

from __future__ import annotations

from typing import Any

from isometer.nn._activation import Activation
from isometer.spec import PowerLaw, Schedule, Spec

SHAPING = PowerLaw(layer=-0.4)
"""A gain that falls with the layer, as 001/rec-6.11 has it; the papers leave the exponent open."""


def shaped_activations(source: Any, depth: int, gain: Schedule = SHAPING) -> list[Activation]:
    """One activation `φ(α_ℓ x)` for each layer, the gain α_ℓ from a schedule.

    If the rate at which gradients grow falls like `α^{c₂}` with the gain, a gain that falls faster than `ℓ^{−1/c₂}`
    keeps the sum of the rates bounded.

    Args:
        source: φ, as `Activation` takes it.
        depth: number of layers.
        gain: a number, one per layer, or a `PowerLaw`.

    Returns:
        The modules, layer 1 first.

    Example:
        >>> import torch
        >>> [round(float(module(torch.tensor(1e-9)) / 1e-9), 4) for module in shaped_activations("tanh", 3)]
        [1.0, 0.7579, 0.6444]

    Implements: 001/rec-6.11, the shaping of 001/alg-C.5.
    """
    schedule = Spec(width=1, depth=depth, activation_gain=gain)
    return [Activation(source, gain=schedule.at("activation_gain", layer)) for layer in range(1, schedule.layers + 1)]
