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
    fan_in, fan_out, gain = spec.fan_in[layer - 1], spec.widths[layer - 1], spec.at("gain", layer)
    if spec.weights == "orthogonal":
        return gain
    if spec.weights in ("pytorch", "asymmetric"):
        return gain / math.sqrt(fan_in)
    if spec.weight_scaling == "unit":
        deviation = 1.0
    elif spec.weights in ("gaussian", "uniform"):
        deviation = 1 / math.sqrt(fan_in)
    elif spec.weights == "he":
        deviation = math.sqrt(2 / fan_in)
    else:
        deviation = math.sqrt(2 / (fan_in + fan_out))
    return gain * deviation * (math.sqrt(3) if stream_kind(spec.weights) == "uniform" else 1.0)
