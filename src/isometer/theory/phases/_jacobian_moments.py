"""The input–output Jacobian at infinite width: mean and spread of its squared singular values at any depth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from isometer.activations import Activation
from isometer.errors import IsometerError
from isometer.theory.kernels._depth_free import checked_depth
from isometer.theory.kernels._length_map import (
    OVERFLOW,
    UNIT,
    LengthMap,
    SignalFamily,
    diverging,
    gaussian_rule,
    patience,
    unsettled,
)

Weights = Literal["gaussian", "orthogonal"]


@dataclass(frozen=True)
class JacobianMoments:
    """log of the mean squared singular value of J = ∏ D_l W_l, and the variance over the squared mean.

    Example:
        >>> from isometer.theory.phases import jacobian_moments
        >>> jacobian_moments("unit(relu)", 50).log_mean_square
        0.0
    """

    depth: int
    weights: Weights
    log_mean_square: float
    relative_variance: float

    @property
    def mean_square(self) -> float:
        """E σ²; `inf` when it overflows.

        Example:
            >>> from isometer.theory.phases import jacobian_moments
            >>> round(jacobian_moments("relu", 10).mean_square * 2**10, 9)
            1.0
        """
        return math.exp(self.log_mean_square) if self.log_mean_square < 709.0 else math.inf


def jacobian_moments(
    source: str | Activation | SignalFamily | Any,
    depth: int,
    *,
    weights: Weights = "gaussian",
    weight_variance: float = 1.0,
    bias_variance: float = 0.0,
    squared_length: float = 1.0,
) -> JacobianMoments:
    """Mean squared singular value ∏ σ_w² E φ′(√q_l X)², the same for Gaussian and orthogonal weights.

    What the two differ in is the spread: by multiplicativity of the S-transform, Var σ²/(E σ²)² is the sum over layers
    of E φ′⁴/(E φ′²)² − 1, plus 1 for each Gaussian weight matrix.

    Args:
        source: the activation as given.
        depth: number of layers.
        weights: "gaussian" or "orthogonal" (scaled by σ_w).
        weight_variance, bias_variance: σ_w², σ_b².
        squared_length: ‖x‖² of the input in the NTK parametrisation (‖x‖²/d otherwise).

    Example:
        >>> from isometer.theory.phases import jacobian_moments
        >>> relu = [jacobian_moments("unit(relu)", 10, weights=w).relative_variance for w in ("gaussian", "orthogonal")]
        >>> [round(v, 9) for v in relu]
        [20.0, 10.0]
    """
    if weights not in ("gaussian", "orthogonal"):
        raise IsometerError(f"weights must be 'gaussian' or 'orthogonal'; got {weights!r}")
    layers = checked_depth(depth)
    lengths = LengthMap(source, weight_variance=weight_variance, bias_variance=bias_variance)
    family, sigma = lengths.family, lengths.weight_variance
    phi = family.activation
    if phi.jumps:
        raise IsometerError(f"{phi.name} jumps: its derivative is not a function and the Jacobian has no mean square")
    own = 1.0 if weights == "gaussian" else 0.0
    variance = sigma * squared_length + lengths.bias_variance
    log_mean, spread, layer = 0.0, 0.0, 0
    while layer < layers:
        if family.homogeneous:
            # slopes of a homogeneous φ do not depend on the variance, which may overflow
            variance = 1.0
        chi = sigma * family.slope_second(variance)
        if not chi > 0.0:
            return JacobianMoments(layers, weights, -math.inf, math.inf)
        # E φ′⁴/(E φ′²)²: sigma² cancels the one in χ²
        fourth = _fourth(phi, variance) * sigma**2 / chi**2
        after = variance if family.homogeneous else lengths(variance)
        if not after <= OVERFLOW:
            raise diverging(phi.name, layer + 1)
        if variance > 0 and abs(after - variance) <= UNIT * variance:
            rest = layers - layer
            # rounding must not add up over the layers that are left
            log_chi = 0.0 if abs(chi - 1.0) <= UNIT else math.log(chi)
            return JacobianMoments(layers, weights, log_mean + rest * log_chi, spread + rest * (fourth - 1.0 + own))
        if layer >= patience(family):
            raise unsettled(phi.name, layer)
        log_mean += math.log(chi)
        spread += fourth - 1.0 + own
        variance, layer = after, layer + 1
    return JacobianMoments(layers, weights, log_mean, spread)


def _fourth(phi: Activation, variance: float) -> float:
    """E φ′(√q X)⁴."""
    if variance == 0.0:
        return float(np.mean(phi.derivative(np.array([-1e-12, 1e-12])) ** 4))
    if variance <= 4.0 and not phi.kinks:
        x, weights = gaussian_rule()
        return float(phi.derivative(math.sqrt(variance) * x) ** 4 @ weights)
    return phi.derivative.gain(math.sqrt(variance)).expectation(lambda x, y: y**4).value
