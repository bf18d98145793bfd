"""Where a chain settles: the layer that all deep layers equal, its slope at cosine one, and where cosines go there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from isometer.activations import Activation
from isometer.errors import IsometerError
from isometer.serialize import json_data
from isometer.spec import Act, Chain, Norm, Repeat, Spec, Step
from isometer.spec._program import layers
from isometer.spec._steps import walk
from isometer.theory.chains._layer import LEAST_OWN, ChainLayer, uncovered
from isometer.theory.kernels._layer_maps import Stage
from isometer.theory.kernels._length_map import SignalFamily
from isometer.theory.networks import exchangeable_path
from isometer.theory.phases._phase import CRITICAL, Phase, fixed_gap, phase_point, phase_slope, verdict

_LAYERS = 200  # within which a chain with a norm settles


@dataclass(frozen=True)
class Settled:
    """A chain far from its input.

    Args:
        chi: χ, the factor by which 1 − cosine of two nearly equal inputs changes per layer.
        variance: variance of what the activation sees, or of the signal beside a skip; inf or 0 where it diverges or
            dies.
        cosine: the cosine that the outputs of layers approach; None where cosines are kept or have no limit.
        rate: the factor of the distance to it, per layer.
        growing: a skip connection adds to the signal without end, and χ is where it tends to.

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
    growing: bool = False

    @property
    def depth_scale(self) -> float:
        """Layers over which the distance to the cosine falls by e; inf at the edge."""
        if not 0.0 < self.rate < 1.0:
            return 0.0 if self.rate == 0.0 else math.inf
        return -1.0 / math.log(self.rate)

    @property
    def verdict(self) -> str:
        """One sentence.

        Example:
            >>> Settled(1.0, 1.0, 1.0, 1.0).verdict
            'At the edge of chaos: cosines change slower than exponentially, gradients keep their size.'
        """
        if self.growing and 0.0 < self.variance < math.inf:
            return (
                "Signals add up with depth, and each layer changes cosines less than the one before: χ approaches 1, "
                "and nothing decays or grows exponentially."
            )
        return verdict(self.phase, self.variance, self.chi, self.cosine, self.depth_scale)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        names = ("chi", "phase", "variance", "cosine", "rate", "depth_scale", "verdict")
        record: dict[str, Any] = json_data({name: getattr(self, name) for name in names})
        return record

    @property
    def phase(self) -> Phase:
        """Ordered, critical, chaotic, or unbounded."""
        if math.isinf(self.variance):
            return "unbounded"
        if abs(self.chi - 1.0) <= CRITICAL:
            return "critical"
        return "ordered" if self.chi < 1.0 else "chaotic"


@lru_cache(maxsize=32)
def _family(phi: Activation) -> SignalFamily:
    """Kept, with its table of moments: solvers ask for many points of one activation."""
    return SignalFamily(phi)


def settled(layer: ChainLayer, *, mean_square: float = 1.0) -> Settled:
    """The limit of a chain whose signal does not grow with depth, for inputs of one mean square.

    Raises:
        IsometerError: it grows, since a skip connection adds to it and no norm follows.

    Example:
        >>> from isometer.spec import chain_from_options
        >>> settled(ChainLayer.of(chain_from_options(activation="tanh", gain=1.0))).variance  # signals die out
        0.0
    """
    if layer.is_plain:
        point = phase_point(
            _family(layer.activation), layer.weight_variance, layer.bias_variance, mean_square=mean_square
        )
        scale = point.correlation_scale
        rate = 1.0 if math.isinf(scale) else (0.0 if scale == 0.0 else math.exp(-1.0 / scale))
        cosine = point.cosine
        if cosine is not None and cosine < 1.0 and point.variance > 0.0 and layer.bias_variance > 0.0:
            own = (point.variance - layer.bias_variance) / point.variance
            # Beside a bias so large that no digit of the weights' share is left, their cosine has none either.
            cosine = 1.0 - (1.0 - cosine) / own if own > LEAST_OWN else None
        return Settled(point.chi, point.variance, cosine, rate)
    if _grows(layer):
        raise IsometerError(
            "a skip connection without a norm after the addition lets the signal grow with depth without a limit: "
            "χ approaches 1 — use norm position 'sum', or solve for a depth"
        )
    _, constant = layer.layers().stages(_LAYERS)
    return _of_stage(constant, layer.layout["bias"] if layer.residual is None else 0.0)


def phase_of(layer: ChainLayer, *, mean_square: float = 1.0) -> Settled:
    """As `settled`; χ = 1 where a signal grows with depth and every layer counts for less than the one before.

    Example:
        >>> from isometer.spec import chain_from_options
        >>> found = phase_of(ChainLayer.of(chain_from_options(activation="tanh", norm="layer", gamma=0.5)))
        >>> found.chi, found.growing
        (1.0, True)
    """
    if not _grows(layer):
        return settled(layer, mean_square=mean_square)
    return Settled(1.0, 1.0, None, 1.0, growing=True)


def chi_of(layer: ChainLayer, *, mean_square: float = 1.0) -> float:
    """χ alone, which is faster than the limit of cosines; 1 where a signal grows with depth, inf where φ jumps.

    Example:
        >>> from isometer.spec import chain_from_options
        >>> round(chi_of(ChainLayer.of(chain_from_options(activation="gelu", norm="rms"))), 5)
        1.07203
    """
    if layer.is_plain:
        return phase_slope(
            _family(layer.activation), layer.weight_variance, layer.bias_variance, mean_square=mean_square
        )
    if _grows(layer):
        return 1.0
    stages, constant = layer.layers().stages(_LAYERS)
    return (constant or stages[-1]).growth


def network_phase(spec: Spec, *, mean_square: float = 1.0) -> Settled:
    """Where any network without positions ends, computed from two inputs that pass through all of it.

    For a chain with a norm over features or none, that is the limit of many layers. For another network χ is the factor
    of 1 − cosine over the last repetition of its last repeat (or its last layer with an activation, if it has no
    repeat), and the cosine is that of two orthogonal inputs there.

    Args:
        spec: the network.
        mean_square: mean square of the inputs.

    Example:
        >>> from isometer import Spec
        >>> text = "input(8) > repeat(dense > norm('rms') > act('gelu') > dense > norm('rms') > act('tanh'), 40)"
        >>> found = network_phase(Spec(text))
        >>> found.phase, found.chi > 1.2
        ('chaotic', True)
    """
    if isinstance(spec, Chain) and not uncovered(spec):
        return phase_of(ChainLayer.of(spec), mean_square=mean_square)
    if any(isinstance(step, Norm) and step.over == "batch" for step in walk(spec.composition)):
        raise IsometerError(
            "a norm over samples acts on the batch as a whole, and two inputs are not a batch; expected norms over "
            "features — predict it with your batch instead"
        )
    path = exchangeable_path(spec, [_NEARBY, 1.0], mean_square)
    if path.diverged >= 0:
        return Settled(math.inf, math.inf, None, 1.0)
    end = last_turn(spec) + 1
    near, far, variance = path.gap[:end, 0], path.cosine[:end, 1], path.variance[:end, 0]
    if variance[-1] == 0.0:
        return Settled(0.0, 0.0, None, 0.0)
    grows = bool(end > 2 and variance[-1] > 1.0001 * variance[-2])
    before, after = abs(far[-2] - far[-3]) if end > 2 else 0.0, abs(far[-1] - far[-2])
    rate = min(after / before, 1.0) if before > 1e-14 else 0.0
    if not near[-1] < _NEAR:  # gaps that left the neighbourhood of 0 say nothing of χ: start again closer
        near = exchangeable_path(spec, [_CLOSER], mean_square).gap[:end, 0]
    return Settled(float(near[-1] / near[-2]), float(variance[-1]), float(far[-1]), float(rate), growing=grows)


_NEARBY, _NEAR, _CLOSER = 1e-12, 1e-6, 1e-250


def last_turn(spec: Spec) -> int:
    """The layer that is the last turn of the last repeat; the last one with an activation where there is no repeat.

    Example:
        >>> from isometer import Spec
        >>> last_turn(Spec("input(4) > dense > repeat(act('relu') > dense, 3) > norm('layer') > dense(1)"))
        4
    """
    steps = spec.composition
    repeats = [place for place, step in enumerate(steps) if isinstance(step, Repeat) and step.times > 1]
    if repeats:
        return sum(1 for _ in layers(steps[: repeats[-1] + 1], spec.shape))
    found = [number for number, (own, _) in enumerate(spec.executed_layers(), start=1) if _acts(own)]
    return found[-1] if found else sum(1 for _ in spec.executed_layers())


def _acts(steps: Sequence[Step]) -> bool:
    return any(isinstance(step, Act) for step in walk(steps))


def _grows(layer: ChainLayer) -> bool:
    if layer.residual is None or (layer.norm != "none" and layer.place == "sum"):
        return False
    return not (layer.norm == "none" and layer.family.homogeneous and layer.bias_variance == 0.0)


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

    if stage.growth <= 1.0 + CRITICAL:
        return 0.0, min(stage.growth, 1.0)
    gap = fixed_gap(lambda gap: stage.share * float(stage.dual.deficit(np.array(gap))) + stage.skip * gap)
    if gap == 0.0:
        return 0.0, 1.0
    return gap, stage.share * float(stage.dual.slope_at_gap(np.array(gap))) + stage.skip
