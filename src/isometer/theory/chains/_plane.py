"""Order and chaos of any network over the plane of two of its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.checks import whole_number
from isometer.errors import IsometerError, unknown_name
from isometer.serialize import json_data
from isometer.spec import Spec, SpecError, with_number
from isometer.spec._edits import NUMBERS, NetworkNumber
from isometer.theory.chains._settled import Settled, network_phase

Floats = NDArray[np.float64]
_NAMES: dict[str, NetworkNumber] = {
    **{name: name for name in NUMBERS},
    "sigma_w": "gain",
    "sigma_b": "bias_variance",
    "scale": "gamma",
    "residual": "gamma",
    "bias": "bias_variance",
    "alpha": "activation_gain",
}
_MOST = 101  # points along an axis


@dataclass(frozen=True)
class Axis:
    """One number of a network between two values, under the name that you give it.

    Args:
        name: `gain` or `sigma_w` of all weights; `gamma`, `scale` or `residual` of all skip connections; `sigma_b` or
            its square `bias_variance` of all biases; `activation_gain` or `alpha` of all activations.
        low: the smallest value.
        high: the largest.

    Example:
        >>> Axis.read("sigma_w=0.5:2").number
        'gain'
    """

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if self.name not in _NAMES:
            raise unknown_name("number of a network", self.name, list(_NAMES), error=SpecError)
        if not 0.0 <= self.low < self.high < math.inf:
            raise IsometerError(f"{self.name} goes from {self.low:g} to {self.high:g}; expected 0 ≤ low < high")
        if self.low == 0.0 and self.number in ("gain", "activation_gain"):
            raise IsometerError(
                f"{self.name} begins at 0, which passes no signal; expected more than 0 — {self.name}=0.1:…"
            )

    @classmethod
    def read(cls, text: str) -> Axis:
        """From `name=low:high`."""
        name, _, values = text.partition("=")
        low, _, high = values.partition(":")
        try:
            ends = float(low), float(high)
        except ValueError:
            raise IsometerError(
                f"{text[:60]!r} is not an axis; expected name=low:high — sigma_w=0.5:2, for example"
            ) from None
        return cls(name.strip(), *ends)

    @property
    def number(self) -> NetworkNumber:
        """What it sets."""
        return _NAMES[self.name]

    def values(self, points: int) -> Floats:
        """Evenly spaced values."""
        return np.linspace(self.low, self.high, points)

    def set(self, spec: Spec, value: float) -> Spec:
        """The network with this number set."""
        return with_number(spec, self.number, value**2 if self.name == "sigma_b" else value)


@dataclass(frozen=True)
class PhasePlane:
    """χ, variances and cosines of a network over a plane of two of its numbers: rows are y, columns x.

    Example:
        >>> text = "input(8) > repeat(residual(dense > act('tanh') > dense, 0.5) > norm('rms'), 6)"
        >>> plane = phase_plane(Spec(text), Axis("scale", 0.1, 1.0), Axis("sigma_w", 0.5, 2.0), points=3)
        >>> plane.phases[2]
        ['chaotic', 'chaotic', 'chaotic']
    """

    network: str
    x: Axis
    y: Axis
    x_values: Floats
    y_values: Floats
    points: tuple[tuple[Settled, ...], ...]

    @property
    def chi(self) -> Floats:
        """χ of every point, inf where variances diverge."""
        return np.array([[point.chi for point in row] for row in self.points])

    @property
    def phases(self) -> list[list[str]]:
        """Ordered, critical, chaotic or unbounded."""
        return [[point.phase for point in row] for row in self.points]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON; infinities as text."""
        axes = {
            "x": {"name": self.x.name, "values": self.x_values},
            "y": {"name": self.y.name, "values": self.y_values},
        }
        cells = {
            name: [[getattr(point, name) for point in row] for row in self.points]
            for name in ("chi", "phase", "variance", "cosine")
        }
        record: dict[str, Any] = json_data({"network": self.network, **axes, **cells})
        return record


def phase_plane(
    spec: Spec,
    x: Axis,
    y: Axis,
    *,
    points: int = 13,
    mean_square: float = 1.0,
    progress: Callable[[int, int], None] | None = None,
) -> PhasePlane:
    """`network_phase` over a plane of two numbers of a network.

    Args:
        spec: any network without positions.
        x, y: which numbers, and between which values.
        points: along each axis.
        mean_square: mean square of the inputs.
        progress: called as `progress(done, total)` in points of the plane.

    Returns:
        A `PhasePlane`.

    Example:
        >>> chain = Spec(width=8, depth=4, activation="tanh", bias_variance=0.1)
        >>> phase_plane(chain, Axis("sigma_w", 0.5, 2.0), Axis("sigma_b", 0.1, 0.5), points=2).phases[0]
        ['ordered', 'chaotic']
    """
    if x.number == y.number:
        raise IsometerError(f"x is {x.name} and y is {y.name}, the same number; expected two — choose another")
    count = whole_number(points, "points", low=2, high=_MOST, fix="pass the points along each axis")
    xs, ys = x.values(count), y.values(count)
    rows: list[tuple[Settled, ...]] = []
    for number, above in enumerate(ys):
        own = y.set(spec, float(above))
        row: list[Settled] = []
        for place, across in enumerate(xs):
            if progress is not None:
                progress(number * count + place, count * count)
            row.append(network_phase(x.set(own, float(across)), mean_square=mean_square))
        rows.append(tuple(row))
    return PhasePlane(str(spec), x, y, xs, ys, tuple(rows))
