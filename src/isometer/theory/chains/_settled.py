"""Where a chain settles: the layer that all deep layers equal, its slope at cosine one, and where cosines go there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from isometer.errors import IsometerError
from isometer.theory.chains._layer import ChainLayer
from isometer.theory.kernels._layer_maps import Stage
from isometer.theory.phases._phase import phase_point

CRITICAL = 1e-9
"""|χ − 1| below this is the edge of chaos."""
_LAYERS = 200  # within which a chain with a norm settles


@dataclass(frozen=True)
class Settled:
    """A chain far from its input.

    Args:
        chi: χ, the factor by which 1 − cosine of two nearly equal inputs changes per layer.
        variance: of what the activation sees, or of the signal beside a skip; inf or 0 where it diverges or dies.
        cosine: where cosines of what layers hand on go; None where they are kept or have no limit.
        rate: the factor of the distance to it, per layer.

    Example:
        >>> from isometer.spec import chain_from_options
        >>> found = settled(ChainLayer.of(chain_from_options(activation="gelu", norm="rms")))
        >>> found.phase, round(found.cosine, 6)
        ('chaotic', 0.760402)
    """

    chi: float
    variance: float
    cosine: float | None
    rate: float

    @property
    def phase(self) -> str:
        """Ordered, critical, chaotic, or unbounded."""
        if math.isinf(self.variance):
            return "unbounded"
        if abs(self.chi - 1.0) <= CRITICAL:
            return "critical"
        return "ordered" if self.chi < 1.0 else "chaotic"


def settled(layer: ChainLayer) -> Settled:
    """The limit of a chain whose signal does not grow with depth.

    Raises:
        IsometerError: it grows, since a skip connection adds to it and no norm follows.

    Example:
        >>> from isometer.spec import chain_from_options
        >>> settled(ChainLayer.of(chain_from_options(activation="tanh", gain=1.0))).variance  # signals die out
        0.0
    """
    if layer.is_plain:
        point = phase_point(layer.activation, layer.weight_variance, layer.bias_variance)
        scale = point.correlation_scale
        rate = 1.0 if math.isinf(scale) else (0.0 if scale == 0.0 else math.exp(-1.0 / scale))
        cosine = point.cosine
        if cosine is not None and point.variance > 0.0 and layer.bias_variance > 0.0:
            own = (point.variance - layer.bias_variance) / point.variance
            cosine = 1.0 - (1.0 - cosine) / own
        return Settled(point.chi, point.variance, cosine, rate)
    if layer.residual is not None and not (layer.norm != "none" and layer.place == "sum"):
        if layer.norm == "none" and layer.family.homogeneous and layer.bias_variance == 0.0:
            return _of_stage(layer.layers().stages(1)[1], 0.0)
        raise IsometerError(
            "a skip connection without a norm after the addition lets the signal grow with depth, so that no layer is "
            "the last word: χ approaches 1 — take norm position 'sum', or ask for a depth"
        )
    _, constant = layer.layers().stages(_LAYERS)
    return _of_stage(constant, layer.layout["bias"] if layer.residual is None else 0.0)


def _of_stage(stage: Stage | None, bias: float) -> Settled:
    if stage is None:
        raise IsometerError("the layers of this chain do not settle within 200 — predict it instead")
    variance = math.exp(stage.log_variance)
    if _keeps_cosines(stage):
        return Settled(stage.growth, variance, None, 1.0)
    gap, rate = _fixed_gap(stage)
    return Settled(stage.growth, variance, 1.0 - gap / (1.0 - bias / variance), rate)


def _keeps_cosines(stage: Stage) -> bool:
    probe = np.array([0.3, 0.7, 1.4])
    after = stage.share * stage.dual.deficit(probe) + stage.skip * probe
    return bool(np.abs(after - probe).max() <= 1e-13)


def _fixed_gap(stage: Stage) -> tuple[float, float]:
    """(1 − ρ*, slope there) of the attracting fixed point in [0, 1]."""

    def excess(log_gap: float) -> float:
        gap = math.exp(log_gap)
        return stage.share * float(stage.dual.deficit(np.array(gap))) / gap + stage.skip - 1.0

    if stage.growth <= 1.0 + CRITICAL:
        return 0.0, min(stage.growth, 1.0)
    if excess(0.0) >= -1e-13:  # κ(0) = 0: orthogonal inputs stay so
        gap = 1.0
    else:
        low = -34.0
        while excess(low) <= 0.0 and low < -1e-3:
            low /= 2
        if low >= -1e-3:
            return 0.0, 1.0  # no change of sign: χ is 1 up to rounding
        gap = math.exp(float(brentq(excess, low, 0.0, xtol=1e-14)))
    return gap, stage.share * float(stage.dual.slope_at_gap(np.array(gap))) + stage.skip
