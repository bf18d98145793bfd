"""The size of random weights, law by law."""

from __future__ import annotations

import math
from typing import Literal

from isometer.spec._chain import Chain


def stream_kind(law: str) -> Literal["uniform", "normal"]:
    """Whether a law is made of uniform or of normal numbers."""
    return "uniform" if law in ("uniform", "xavier-uniform", "pytorch", "asymmetric") else "normal"


def weight_factor(spec: Chain, layer: int) -> float:
    """What the unit weights of a layer (counted from 1) are multiplied by.

    Unit weights are standard normal, uniform on [−1, 1) (on [0, 2) if asymmetric), or orthogonal.

    Args:
        spec: the network.
        layer: from 1 to the depth.

    Returns:
        The factor, `gain` included.

    Example:
        >>> weight_factor(Chain(width=4, depth=1), 1), weight_factor(Chain(width=3, depth=1, weights="uniform"), 1)
        (0.5, 1.0)

    Implements: 000/init-he, 001/init-gauss, 001/init-haar, 001/init-xavier, 002/def-1, 002/init-asym.
    """
    fan_in, fan_out = spec.fan_in[layer - 1], spec.widths[layer - 1]
    return step_factor(spec.weights, fan_in, fan_out, spec.at("gain", layer), spec.weight_scaling)


def step_factor(
    law: str, fan_in: int, fan_out: int, gain: float, scaling: Literal["fan_in", "unit"] = "fan_in"
) -> float:
    """What unit weights of a law are multiplied by, from the numbers of one step.

    Example:
        >>> step_factor("gaussian", 4, 4, 3.0), step_factor("orthogonal", 4, 4, 3.0)
        (1.5, 3.0)
    """
    if law == "orthogonal":
        return gain
    if law in ("pytorch", "asymmetric"):
        return gain / math.sqrt(fan_in)
    if scaling == "unit":
        deviation = 1.0
    elif law in ("gaussian", "uniform"):
        deviation = 1 / math.sqrt(fan_in)
    elif law == "he":
        deviation = math.sqrt(2 / fan_in)
    else:
        deviation = math.sqrt(2 / (fan_in + fan_out))
    return gain * deviation * (math.sqrt(3) if stream_kind(law) == "uniform" else 1.0)
