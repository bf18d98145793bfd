"""Numbers that may differ from layer to layer."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from isometer.spec._checks import SpecError, number


@dataclass(frozen=True)
class PowerLaw:
    """A number per layer: `scale · ℓ^layer · L^depth`, ℓ = 1 … L the layer and L the depth of the network.

    Args:
        scale: the factor.
        layer: exponent of the layer index; 001/alg-C.5 shapes activations with a negative one.
        depth: exponent of the depth; −1/2 scales residual branches so that their sum stays bounded.

    Example:
        >>> PowerLaw(layer=-0.5).at(4, 100), PowerLaw(2.0, depth=-0.5).at(4, 100)
        (0.5, 0.2)
    """

    scale: float = 1.0
    layer: float = 0.0
    depth: float = 0.0

    def __post_init__(self) -> None:
        for name in ("scale", "layer", "depth"):
            object.__setattr__(self, name, number(getattr(self, name), f"PowerLaw.{name}"))

    def at(self, layer: int, depth: int) -> float:
        """The number at `layer` (from 1) of a network of `depth` layers."""
        try:
            value = float(self.scale * float(layer) ** self.layer * float(depth) ** self.depth)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise SpecError(
                f"{self} is beyond float64 at layer {layer} of {depth}; expected a finite "
                "number — take smaller exponents"
            )
        return value


Schedule = float | tuple[float, ...] | PowerLaw
"""The type of a value that may change with the layer: a number, one per layer, or a `PowerLaw`."""


def schedule_record(value: Schedule) -> Any:
    if isinstance(value, PowerLaw):
        return asdict(value)
    if isinstance(value, tuple):
        return [None if math.isinf(v) else v for v in value]
    return None if math.isinf(value) else value


def schedule_from(value: Any) -> Any:
    """What `schedule_record` wrote; one of `msgspec`'s records for a `PowerLaw`."""
    if isinstance(value, list):
        return tuple(math.inf if v is None else v for v in value)
    return math.inf if value is None else value
