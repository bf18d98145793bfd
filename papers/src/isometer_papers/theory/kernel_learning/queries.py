"""Cosines in networks that scale every layer to unit length, and what they mean for statistical queries (004 §5, F).

The mean cosine of two inputs falls with depth until fluctuations of order 1/√m take over. For an activation with a
second Hermite coefficient the squares of those fluctuations feed back into the mean, which then stays near a floor of
order 1/m, whatever the depth; paper 004 claims that it goes on falling exponentially.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from isometer.activations import Activation, activation
from isometer.errors import IsometerError
from isometer.numerics import panel_nodes

Floats = NDArray[np.float64]
_SPAN = 60.0


def subgaussian_norm(source: str | Activation | Any) -> float:
    """The smallest α with E e^{tσ(X)} ≤ e^{α²t²/2} for all t (004/eq-21), for E σ = 0; `inf` if there is none.

    α² = sup_t 2 log E e^{tσ}/t². Its ends are known, Var σ at t → 0 and the square of the steepest asymptote of σ at
    t → ±∞; what grows faster than a straight line has none.

    Implements 004/eq-21.

    Example:
        >>> from isometer_papers.theory.kernel_learning.queries import subgaussian_norm
        >>> round(subgaussian_norm("sign"), 6), subgaussian_norm("normalized(exp)")  # log cosh t ≤ t²/2
        (1.0, inf)
    """
    phi = activation(source)
    if abs(phi.mean) > 1e-9:
        raise IsometerError(
            f"004/eq-21 holds for activations with E σ = 0 only; {phi.name} has {phi.mean:.6g} — write "
            f"normalized({phi.name})"
        )
    far = np.array([-4.0, -2.0, -1.0, 1.0, 2.0, 4.0]) * _SPAN
    with np.errstate(all="ignore"):
        steep = np.abs(np.asarray(phi(far), dtype=float)) / np.abs(far)
    # σ(x)/x of a straight asymptote settles like 1/x: its change halves whenever x doubles, 0.6 leaves a margin
    for near, middle, end in (steep[2::-1], steep[3:]):
        if not math.isfinite(end) or (end > 1.01 * near and end - middle > 0.6 * (middle - near)):
            return math.inf
    ends = np.asarray(phi(far), dtype=float)
    asymptote = max(abs(ends[0] - ends[1]), abs(ends[-1] - ends[-2])) / (2.0 * _SPAN)
    edges = np.unique(np.concatenate([np.linspace(-_SPAN, _SPAN, 481), np.clip(phi.kinks, -_SPAN, _SPAN)]))
    x, weight = (v.ravel() for v in panel_nodes(edges[:-1], edges[1:], 12))
    values = np.asarray(phi(x), dtype=float)
    log_density = np.log(weight) - 0.5 * x * x - 0.5 * math.log(2 * math.pi)
    # e^{tσ(x) − x²/2} peaks near x = tσ′: up to this t the peak is well inside the span
    top = 0.5 * _SPAN / max(1.0, float(steep.max()))

    def quotient(t: float) -> float:
        return float(2.0 * logsumexp(log_density + t * values) / t**2)  # e^{tσ} itself overflows at large t

    best = max(phi.variance, asymptote**2)
    for sign in (-1.0, 1.0):
        # a smaller t divides rounding by t²; the limit at 0, the variance, is in `best` already
        grid = sign * np.geomspace(1e-2, top, 60)
        found = np.array([quotient(t) for t in grid])
        k = int(np.argmax(found))
        low, high = sorted((grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]))
        refined = minimize_scalar(lambda t: -quotient(t), bounds=(low, high), method="bounded")
        best = max(best, float(found[k]), -float(refined.fun))
    return math.sqrt(best)


@dataclass(frozen=True)
class CosineFloor:
    """Where cosines of a unit-normalised network of width m come to rest: mean and mean square, to leading order.

    Example:
        >>> from isometer_papers.theory.kernel_learning.queries import cosine_floor
        >>> cosine_floor("unit(tanh)", 100).mean  # odd: the law is symmetric
        0.0
    """

    width: int
    mean: float
    mean_square: float


def cosine_floor(source: str | Activation | Any, width: int) -> CosineFloor:
    """The stationary cosine of two inputs in a unit-normalised network of width m, to leading order in 1/m.

    A layer takes ρ to σ̂(ρ) plus noise of variance 1/m, σ̂(ρ) = a₁²ρ + a₂²ρ² + …, hence
    E ρ² = 1/(m(1 − a₁⁴)) and E ρ = a₂²E ρ²/(1 − a₁²). The mean does not depend on depth, so for σ with a₂ ≠ 0 the
    bound e^{−Ω(h)} + Le^{−Ω(L)} of 004/thm-52 fails for widths m of order L, its own assumption, once L is large.

    Implements 004/thm-15, 004/thm-53 (the part that can be computed).

    Example:
        >>> from isometer_papers.theory.kernel_learning.queries import cosine_floor
        >>> round(100 * cosine_floor("normalized(relu)", 100).mean, 4)
        1.896
    """
    phi = activation(source).normalized()
    if phi.is_affine:
        raise IsometerError(f"{activation(source).name} is affine: cosines do not settle, they drift")
    if width < 1:
        raise IsometerError(f"a width is at least 1; got {width!r}")
    # rounding counts as 0, so that the mean of an odd σ is 0 exactly
    _, first, second = (float(v) ** 2 if abs(v) > 1e-14 else 0.0 for v in phi.hermite(2))
    square = 1.0 / (width * (1.0 - first**2))
    return CosineFloor(width, second * square / (1.0 - first), square)


def half_cube(dimension: int) -> Floats:
    """The 2^{d−1} points of {±1}^d/√d with first coordinate positive: no two are antipodes (004, proof of thm-53).

    Example:
        >>> from isometer_papers.theory.kernel_learning.queries import half_cube
        >>> half_cube(3).shape
        (4, 3)
    """
    if not 1 <= dimension <= 16:
        raise IsometerError(f"the half cube is built for dimensions 1 to 16; got {dimension!r}")
    bits = (np.arange(1 << (dimension - 1))[:, None] >> np.arange(dimension - 1)) & 1
    points = np.concatenate([np.ones((len(bits), 1)), 1.0 - 2.0 * bits], axis=1)
    return points / math.sqrt(dimension)
