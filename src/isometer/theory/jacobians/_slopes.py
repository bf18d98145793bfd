"""The law of φ′(√q X)², as values and probabilities."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from isometer.activations import Activation
from isometer.errors import IsometerError
from isometer.numerics._piecewise_legendre import panel_nodes
from isometer.theory.jacobians._factors import Diagonal

Floats = NDArray[np.float64]
_REACH = 9.0  # standard deviations
_COARSE = (12, 1.5, 1.5)  # nodes of a panel, its width, and the deviation from which on steep places have their own
_FINE = (24, 1.0, 0.3)
ORDER = 12  # moments that are kept
_STEEP = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)  # of φ's argument: where a sigmoid has its features


def slope_law(phi: Activation, variance: float) -> Diagonal:
    """The squares of φ′ at a Gaussian of a variance: exact for piecewise linear φ, else nodes of a Gauss rule.

    Example:
        >>> from isometer import activation
        >>> law = slope_law(activation("relu"), 2.0)
        >>> math.exp(law.log_mean), law.values, law.weights
        (0.5, array([2.]), array([0.5]))
    """
    if phi.jumps:
        raise IsometerError(
            f"{phi.name} jumps: its derivative is not a function and the Jacobian has no singular values in the limit "
            "— use an activation without jumps"
        )
    if not 0.0 < variance < 1e150:
        raise IsometerError(
            f"the variance before {phi.name} is {variance:.3g}; expected a positive finite one, but the signal "
            "vanishes or diverges — pass another gain or a smaller depth"
        )
    values, weights = _rule(phi, math.sqrt(variance), *_FINE)
    mean = float(values @ weights)
    if not mean > 0:
        raise IsometerError(
            f"the derivative of {phi.name} is zero almost everywhere the signal is; the Jacobian vanishes — pass "
            "another activation, bias or gain"
        )
    moments = np.array([(values / mean) ** k @ weights for k in range(1, ORDER + 1)])
    places, shares = _merged(*_rule(phi, math.sqrt(variance), *_COARSE))
    kept = (places > 1e-30 * mean) & (shares > 1e-20)
    places, shares = places[kept] / mean, shares[kept]
    total = shares.sum()
    return Diagonal(math.log(mean), places, shares / total if abs(total - 1.0) < 1e-12 else shares, moments)


def _rule(phi: Activation, deviation: float, order: int, width: float, steep: float) -> tuple[Floats, Floats]:
    """φ′² and probabilities: one value where φ is linear between kinks, else nodes."""
    kinks = sorted({kink / deviation for kink in phi.kinks if abs(kink) < _REACH * deviation})
    breaks = {*np.arange(-_REACH, _REACH + width, width).tolist()}
    if deviation > steep:
        breaks |= {sign * x / deviation for x in _STEEP for sign in (-1.0, 1.0)}
    values: list[Floats] = []
    weights: list[Floats] = []
    for left, right in zip([-_REACH, *kinks], [*kinks, _REACH], strict=True):
        edges = np.array([left, *sorted(x for x in breaks if left < x < right), right])
        x, w = (v.ravel() for v in panel_nodes(edges[:-1], edges[1:], order))
        slopes = np.asarray(phi.derivative(deviation * x), dtype=float)
        if np.ptp(slopes) <= 1e-14 * np.abs(slopes).max():
            ends = (-math.inf if left == -_REACH else left, math.inf if right == _REACH else right)
            mass = ndtr(ends[1]) - ndtr(ends[0]) if ends[0] < 0 else ndtr(-ends[0]) - ndtr(-ends[1])
            values.append(np.array([float(slopes.mean()) ** 2]))
            weights.append(np.array([mass]))
        else:
            values.append(slopes**2)
            weights.append(w * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))
    shares = np.concatenate(weights)
    return np.concatenate(values), shares / shares.sum()


def _merged(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    places, index = np.unique(values, return_inverse=True)
    return places, np.asarray(np.bincount(index.ravel(), weights, len(places)), dtype=float)
