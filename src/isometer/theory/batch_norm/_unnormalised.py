"""For comparison, networks without normalisation: the log-norm of a signal is a random walk of step 1/width."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from isometer.activations import Activation, activation
from isometer.activations._closed_forms import as_two_rays
from isometer.errors import IsometerError

__all__ = ["NormWalk", "norm_walk"]


class NormWalk(NamedTuple):
    """Mean and variance per layer of log(‖h_{ℓ+1}‖²/‖h_ℓ‖²) of signals that survive, and the chance that one dies."""

    drift: float
    variance: float
    death: float


def norm_walk(width: int, source: str | Activation = "relu") -> NormWalk:
    """The exact law of norms in a network of Gaussian weights without normalisation, per layer.

    With weights of the variance that keeps mean squares, `‖h'‖²/‖h‖² = Σ φ(g_i)²/(d E φ²)`, g standard Gaussian,
    whatever h. For |slopes| r = l it is χ²_d/d; for ReLU 2χ²_K/d with K binomial(d, ½), 0 with probability 2^−d.
    Steps are independent: after L layers the log of the squared norm has L times the mean and variance, about −L/d and
    2L/d for the identity, −5L/(2d) and 5L/d for ReLU, so that depth over width is what counts.

    Args:
        width: d.
        source: `identity`, `relu`, `abs` or a multiple.

    Returns:
        A `NormWalk`.

    Example:
        >>> walk = norm_walk(1000)
        >>> round(1000 * walk.drift, 1), round(1000 * walk.variance, 1)
        (-2.5, 5.0)

    Implements: 001/claim-2.vanillarank (norms), 001/claim-1.grad.
    """
    if width < 1:
        raise IsometerError(f"width is {width}; expected a whole number of at least 1 — pass the number of neurons")
    phi = source if isinstance(source, Activation) else activation(source)
    rays = as_two_rays(phi.expression)
    if rays is None or (min(abs(rays[0]), abs(rays[1])) != 0.0 and abs(rays[0]) != abs(rays[1])) or not any(rays):
        raise IsometerError(
            f"{phi.name} has no closed law of norms; expected identity, abs, relu or a multiple — simulate the others"
        )
    if abs(rays[0]) == abs(rays[1]):
        return NormWalk(float(digamma(width / 2)) - math.log(width / 2), float(polygamma(1, width / 2)), 0.0)
    count = np.arange(1, width + 1)
    logs = gammaln(width + 1) - gammaln(count + 1) - gammaln(width - count + 1) - width * math.log(2.0)
    chance = np.exp(logs)
    chance = chance / chance.sum()  # given K ≥ 1: of signals that survive
    # E log(2χ²_K/d) = Ψ(K/2) + log 2 + log(2/d)
    mean = digamma(count / 2) + math.log(4.0 / width)
    drift = float(chance @ mean)
    # law of total variance: given K, and of the mean over K
    variance = float(chance @ (polygamma(1, count / 2) + (mean - drift) ** 2))
    return NormWalk(drift, variance, 2.0**-width)
