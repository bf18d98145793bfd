"""Places where a smooth expression changes faster than a grid can see: tanh(1e9·(x − 0.3)) near 0.3.

A curved function of u changes where u is near zero, over the distance in which u changes by one. Both are read off the
tree, so that panels can be put there at any scale.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isometer.activations._expression import Expression, FunctionCall, as_affine, evaluate, walk
from isometer.activations._gaussian import REACH, distinct, roots

Floats = NDArray[np.float64]
_CURVED = frozenset(
    "tanh sigmoid erf ndtr arctan arcsinh softplus exp expm1 sin cos sinh cosh log1p".split()  # noqa: SIM905
)
_MILD = 30.0  # slopes of u up to here are seen by ordinary panels
_COARSE = np.linspace(-12.0, 12.0, 193) + 1e-3
_SHRINKING = 0.5 ** np.arange(1074)


@dataclass(frozen=True)
class Front:
    """A steep place: where it is, and the distance over which the function changes there.

    Example:
        >>> from isometer.activations import activation
        >>> from isometer.activations._steep import fronts
        >>> fronts(activation("tanh(1000*x - 500)").expression)
        (Front(place=0.5, width=0.001),)
    """

    place: float
    width: float

    @property
    def resolvable(self) -> bool:
        """Whether floating point has numbers enough inside it."""
        return self.width > 1e-12 * abs(self.place)

    @property
    def narrow(self) -> float:
        """The width below which taking it as a jump costs less than rounding of x inside it."""
        return max(1e-9, 5e-8 * math.sqrt(abs(self.place)))

    @property
    def reach(self) -> float:
        """How far from its place a function that saturates has done so."""
        return max(40 * self.width, 1e-13 * abs(self.place))


def fronts(expression: Expression) -> tuple[Front, ...]:
    """Steep places inside the reach of the Gaussian, left to right; of several at one place, the steepest."""
    found: dict[float, float] = {}
    for node in walk(expression):
        if isinstance(node, FunctionCall) and node.name in _CURVED:
            for place, width in _places(node.arguments[0]):
                found[place] = min(width, found.get(place, math.inf))
    kept = distinct(list(found), 1e-15)
    widths = [min(w for p, w in found.items() if abs(p - place) <= 2e-15 * max(1.0, abs(place))) for place in kept]
    return tuple(Front(place, width) for place, width in zip(kept, widths, strict=True))


def _places(u: Expression) -> list[tuple[float, float]]:
    affine = as_affine(u)
    if affine is not None:
        slope, intercept = affine
        steep = math.isfinite(intercept) and _MILD < abs(slope) < math.inf
        place = -intercept / slope + 0.0 if steep else math.inf
        return [(place, 1.0 / abs(slope))] if abs(place) < REACH / 2 else []
    values = np.asarray(evaluate(u, _COARSE), dtype=float)
    values = values[np.isfinite(values)]
    if not len(values) or not np.abs(np.diff(values)).max(initial=0.0) > _MILD * (_COARSE[1] - _COARSE[0]):
        return []
    near = [(root, _width(u, root)) for root in roots([u], (-REACH / 2, REACH / 2))]
    return [(place, width) for place, width in near if width < 1.0 / _MILD]


def _width(u: Expression, place: float) -> float:
    """The largest power of ½ by which x can move from a root of u with |u| ≤ 1."""
    moved = np.asarray(evaluate(u, np.concatenate([place + _SHRINKING, place - _SHRINKING])), dtype=float)
    far = ~(np.abs(moved).reshape(2, -1).max(axis=0) <= 1.0)
    last = int(np.flatnonzero(far)[-1]) + 1 if far.any() else 0
    return float(_SHRINKING[min(last, len(_SHRINKING) - 1)])


def cuts(found: tuple[Front, ...]) -> list[float]:
    """Edges of panels that follow every front from its width out to the ordinary ones."""
    edges: list[tuple[float, float]] = []
    for front in found:
        least = max(front.width / 4, 4e-15 * abs(front.place), 1e-300)
        steps = least * 4.0 ** np.arange(math.ceil(math.log(0.5 / least, 4)))
        edges.append((0.0, front.place))
        edges += [(step, front.place + side * step) for step in steps for side in (-1.0, 1.0)]
    kept: list[float] = []
    for step, edge in sorted(edges):
        # beside an edge of another front this one would leave a sliver
        at = bisect.bisect(kept, edge)
        if all(abs(edge - beside) > step / 4 for beside in kept[max(at - 1, 0) : at + 1]):
            kept.insert(at, edge)
    return kept
