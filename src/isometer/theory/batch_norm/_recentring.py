"""Recentring and a positively homogeneous activation without rescaling: invariant shapes and their stability.

The layer G ↦ K(MGM) multiplies scales, so shapes are what can be invariant. The simplex, all samples alike, always is
one. Batches with one sample apart from n − 1 that are alike among themselves stay so; their shape is one number, the
ratio x of the squared distances among the alike and to the odd one, and the layer a map of x with x = 1 the simplex.
Other fixed points of it are odd-point shapes. Squared distances follow
`D' = ((r² + l²)/2) D − ((r − l)²/π) √(q_i q_j) (sin θ − θ cos θ)`, q the centred squared lengths (see `gram_maps`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from isometer.activations import Activation, activation
from isometer.activations._closed_forms import as_two_rays
from isometer.errors import IsometerError
from isometer.theory.batch_norm._parts import checked_samples

__all__ = ["OddShape", "SimplexRates", "odd_shapes", "simplex_rates"]


class SimplexRates(NamedTuple):
    """Growth of squared lengths per layer: of the simplex itself, and of small deviations from it by symmetry."""

    growth: float
    standard: float
    pair: float

    @property
    def is_stable(self) -> bool:
        """Whether deviations of both kinds grow slower than the simplex."""
        return max(abs(self.standard), abs(self.pair)) < self.growth


class OddShape(NamedTuple):
    """An invariant shape of one odd sample and n − 1 alike ones.

    `ratio`: squared distance among the alike over that to the odd one. `length_ratio`: length of the odd sample over
    that of the others, after centring. `growth`: of squared lengths per layer. `rate`: factor of small deviations of
    the ratio per layer; the shape attracts batches of this symmetry if it is below 1 in absolute value.
    """

    ratio: float
    length_ratio: float
    growth: float
    rate: float

    @property
    def is_simplex(self) -> bool:
        """All samples alike."""
        return abs(self.ratio - 1.0) < 1e-9


def simplex_rates(n: int, source: str | Activation = "relu") -> SimplexRates:
    """Growth of the simplex under recentring and φ without rescaling at infinite width, and of deviations from it.

    By Price's theorem a perturbation Δ of the covariance aM changes variances by `k Δ_ii` and covariances by
    `κ′(ρ) Δ_ij + ½(κ(ρ) − ρκ′(ρ))(Δ_ii + Δ_jj)`, ρ = −1/(n−1), k = κ(1); the simplex grows by (1 − 1/n)(k − κ(ρ)).

    Args:
        n: samples, at least 3.
        source: a positively homogeneous activation.

    Returns:
        `SimplexRates`. For ReLU the simplex is stable for every n, with a margin that shrinks like 1/n.

    Example:
        >>> simplex_rates(20).is_stable
        True
        >>> [round(rate, 12) for rate in simplex_rates(20, "identity")]  # linear: every centred shape is kept
        [1.0, 1.0, 1.0]

    Implements: 000/eq-8 (linearised), 000/remark-symmetric.
    """
    count = checked_samples(n, 3)
    right, left = _slopes(source)
    rho = -1.0 / (count - 1)
    theta = math.acos(rho)
    k, bend, product = (right**2 + left**2) / 2, (right - left) ** 2, right * left
    value = bend * (math.sin(theta) + (math.pi - theta) * rho) / (2 * math.pi) + product * rho
    slope = bend * (math.pi - theta) / (2 * math.pi) + product
    share = 1 - 2 / count
    cross = -slope / count + (value - rho * slope) / 2 * share
    return SimplexRates((1 - 1 / count) * (k - value), k * share - 2 * cross, slope)


def odd_shapes(n: int, source: str | Activation = "relu") -> list[OddShape]:
    """Invariant shapes of one odd sample and n − 1 alike ones, by ratio, the simplex (ratio 1) among them.

    Args:
        n: samples, at least 3.
        source: a positively homogeneous activation; linear ones keep every shape and give none but the simplex.

    Returns:
        `OddShape`s in the order of their ratio. A batch of this symmetry between two of them moves towards the
        attracting one.

    Example:
        >>> shapes = odd_shapes(20)
        >>> attracting = [shape for shape in shapes if abs(shape.rate) < 1]
        >>> [shape.is_simplex for shape in attracting], attracting[0].length_ratio > 15
        ([False, True], True)

    Implements: 000/odd-emergence, 000/net-rc-relu.
    """
    count = checked_samples(n, 3)
    slopes = _slopes(source)

    def drift(x: float) -> float:
        return math.log(_step(x, count, *slopes)[0] / x)

    places = [1.0]
    if slopes[0] != slopes[1]:
        limit = 2 * (count - 1) / (count - 2)  # the alike around the odd one in their centre
        near = np.geomspace(0.2 / count, 0.5, 40)  # the threshold between simplex and odd point is at 1 − O(1/n)
        below = np.concatenate([np.geomspace(1e-3 / count**4, 0.5, 160)[:-1], 1 - near[::-1]])
        grid = np.concatenate([below, 1 + near[near < 0.9 * (limit - 1)], [limit * (1 - 1e-9)]])
        values = [drift(float(x)) for x in grid]
        for low, high, first, second in zip(grid[:-1], grid[1:], values[:-1], values[1:], strict=True):
            # the root at 1 is the simplex, which is listed already
            if first * second < 0 and not low < 1.0 < high:
                places.append(float(brentq(drift, low, high, xtol=1e-15, rtol=1e-13)))
    shapes = []
    for x in sorted(places):
        h = 1e-5 * x
        _, growth, odd, alike = _step(x, count, *slopes)
        rate = (_step(x + h, count, *slopes)[0] - _step(x - h, count, *slopes)[0]) / (2 * h)
        shapes.append(OddShape(x, math.sqrt(odd / alike), growth, rate))
    return shapes


def _step(x: float, n: int, right: float, left: float) -> tuple[float, float, float, float]:
    """(next ratio, growth of the distance to the odd one, centred squared lengths of odd and alike) at ratio x."""
    k, bend = (right**2 + left**2) / 2, (right - left) ** 2 / math.pi
    mean = (2 * (n - 1) + (n - 1) * (n - 2) * x) / n**2  # of all squared distances, the one to the odd sample being 1
    # ‖x_i − x̄‖² = mean_j D_ij − ½ mean D; at the largest ratio the odd sample is the centre itself
    odd = max((n - 1) / n - mean / 2, 1e-300)
    alike = (1 + (n - 2) * x) / n - mean / 2
    # sin²(θ/2) = (D − (‖x‖ − ‖y‖)²)/(4‖x‖‖y‖) with D = 1
    chord = (1 - (math.sqrt(odd) - math.sqrt(alike)) ** 2) / (4 * math.sqrt(odd * alike))
    across = 2 * math.asin(math.sqrt(min(1.0, max(0.0, chord))))
    among = 2 * math.asin(min(1.0, math.sqrt(x / (4 * alike))))
    growth = k - bend * math.sqrt(odd * alike) * (math.sin(across) - across * math.cos(across))
    spread = k * x - bend * alike * (math.sin(among) - among * math.cos(among))
    return spread / growth, growth, odd, alike


def _slopes(source: str | Activation) -> tuple[float, float]:
    phi = source if isinstance(source, Activation) else activation(source)
    rays = as_two_rays(phi.expression)
    if rays is None:
        raise IsometerError(
            f"{phi.name} is not positively homogeneous; expected relu, leaky_relu, abs, identity or a multiple, whose "
            "shapes do not depend on scale — use batch_norm_fixed_point(…, norm='batch-recenter') for others"
        )
    return rays
