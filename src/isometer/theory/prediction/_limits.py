"""Where depth leads: the fixed point of a layer, how fast it is approached, and what gradients do there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isometer.errors import IsometerError
from isometer.serialize import json_text
from isometer.spec import Chain, PowerLaw
from isometer.theory.batch_norm._fixed_points import LocalRates, batch_norm_fixed_point
from isometer.theory.batch_norm._growth import gradient_growth
from isometer.theory.batch_norm._parts import Position
from isometer.theory.networks._columns import Columns
from isometer.theory.phases._phase import phase_point
from isometer.theory.prediction._backward import layer_growth
from isometer.theory.prediction._coverage import activation_first
from isometer.theory.prediction._forward import Forward, Path

Floats = NDArray[np.float64]
_STEPS = 400
_SETTLED = 1e-9


@dataclass(frozen=True)
class FixedPointLimits:
    """The fixed point that a batch goes to, and rates there; None where there is none or theory does not have it.

    Args:
        diagonal: G*_ii of the layer's output.
        off_diagonal: G*_ij.
        condition_number: condition number of G*.
        local_rate: factor by which small deviations from G* change per layer.
        gradient_growth_per_layer: log of the factor of gradient norms per layer, towards the input.
        depth_scale: layers over which deviations fall by e; 0 if at once, inf if never.
        note: what to know about it.

    Example:
        >>> from isometer import Spec
        >>> limits(Spec(width=64, depth=5, norm="batch"), 10).diagonal
        0.5
    """

    diagonal: float | None
    off_diagonal: float | None
    condition_number: float | None
    local_rate: float | None
    gradient_growth_per_layer: float | None
    depth_scale: float | None
    note: str = ""

    def attributes(self) -> dict[str, Any]:
        """As attributes of a trajectory: numbers with nan for None, and the fixed point as JSON."""
        point = None
        if self.diagonal is not None:
            point = {name: getattr(self, name) for name in ("diagonal", "off_diagonal", "condition_number")}
        numbers = {
            name: math.nan if value is None else value
            for name, value in (
                ("local_rate", self.local_rate),
                ("gradient_growth_per_layer", self.gradient_growth_per_layer),
                ("depth_scale", self.depth_scale),
            )
        }
        return {"fixed_point": json_text(point), **numbers, "note": self.note}


def limits(spec: Chain, samples: int, path: Path | None = None) -> FixedPointLimits:
    """The fixed point of a spec's layer for exchangeable batches, and rates there.

    Args:
        spec: a covered spec whose layers are alike.
        samples: n.
        path: path of a batch, whose end is where the fixed point is looked for; orthogonal samples by default.

    Returns:
        `FixedPointLimits`.

    Example:
        >>> from isometer import Spec
        >>> found = limits(Spec(width=64, depth=5, activation="tanh", gain=2**0.5, bias_variance=0.1), 4)
        >>> round(found.diagonal, 6), round(found.local_rate, 4)
        (0.357322, 0.997)

    Implements: 001/fix-G*.
    """
    if _varies(spec):
        return FixedPointLimits(None, None, None, None, None, None, "layers differ, so that there is no fixed point")
    forward = Forward(spec)
    growth = layer_growth(forward, samples, path)
    over_samples = spec.norm is not None and spec.norm.over == "batch"
    biased = spec.bias_variance > 0 and spec.norm is not None and not spec.norm.recenter
    if over_samples and not spec.has_skip and not biased:
        return _of_batch_norm(spec, forward, samples, growth)
    if spec.norm is None and not spec.has_skip:
        return _of_lengths(spec, forward, samples, growth, path)
    return _iterated(spec, forward, samples, growth, path)


def _varies(spec: Chain) -> bool:
    if len({spec.input_width, *spec.widths}) > 1 and (isinstance(spec.scale, str) or len(set(spec.widths)) > 1):
        return True
    values = (spec.gain, spec.residual, spec.activation_gain)
    return any(isinstance(value, tuple | PowerLaw) and len(_values(spec, value)) > 1 for value in values)


def _values(spec: Chain, value: Any) -> set[float]:
    if isinstance(value, PowerLaw):
        return {value.at(layer, spec.layers) for layer in range(1, spec.layers + 1)}
    return set(value)


def _of_batch_norm(spec: Chain, forward: Forward, n: int, growth: float | None) -> FixedPointLimits:
    norm = spec.norm
    assert norm is not None
    gain = spec.at("activation_gain", 1)
    scale = spec.output_scale(1)
    phi = spec.phi.gain(gain) if gain != 1.0 else spec.phi
    position: Position = "post" if activation_first(spec) else "pre"
    if not norm.rescale or position == "post":  # where φ sees the size of what leaves the weights
        phi = phi.gain(math.sqrt(forward.weight_variance(1)) * scale)
    try:
        point = batch_norm_fixed_point(phi, n, norm=norm, position=position)
    except IsometerError as problem:
        return FixedPointLimits(None, None, None, None, growth, None, str(problem).partition(" — ")[0])
    try:
        exact: float | None = gradient_growth(phi, n, norm=norm, position=position)
    except IsometerError:
        exact = growth
    observed = _observed(spec, forward, point.gram)
    if observed is None:
        return FixedPointLimits(
            None, None, None, point.rates.largest, exact, depth_scale(point.rates.largest), "the batch dies out"
        )
    rate = point.rates.largest
    note = ""
    if rate > 1.0:
        note = (
            f"the exchangeable fixed point is unstable (local rate {rate:.4g}): batches that are not exactly "
            f"exchangeable leave it with depth, {_way_out(point.rates)}; where they end is not known in general, and "
            "rates and gradient growth hold only near it"
        )
    return limits_at(observed, n, rate, exact, note)


def _way_out(rates: LocalRates) -> str:
    """The direction in which an unstable fixed point is left."""
    if rates.standard is not None and abs(rates.standard) == rates.largest:
        return "single samples parting from the others"
    if rates.pair is not None and abs(rates.pair) == rates.largest:
        return "samples pairing up in groups"
    return "all samples moving together"


def _observed(spec: Chain, forward: Forward, carried: Floats) -> Floats | None:
    """The Gram matrix of the output where this one enters the weights; None where its centred part has vanished."""
    covariance = forward.weight_variance(1) * carried + spec.bias_variance
    n = len(covariance)
    centred = covariance - covariance.mean(axis=0)
    if n > 1 and not np.abs(centred).max() > 1e-12 * np.abs(covariance).max():
        return None
    return forward.statistics(forward.output(Columns(covariance), 1))[0]


def _of_lengths(spec: Chain, forward: Forward, n: int, growth: float | None, path: Path | None) -> FixedPointLimits:
    """Without norm: the length map's fixed point q* and the cosine there, of pre-activations."""
    weight = forward.weight_variance(1) * spec.output_scale(1) ** 2
    gain = spec.at("activation_gain", 1)
    if spec.is_linear:
        return FixedPointLimits(
            None, None, None, 1.0, growth, math.inf, "a linear network keeps the shape of every batch"
        )
    try:
        point = phase_point(spec.phi.gain(gain) if gain != 1.0 else spec.phi, weight, spec.bias_variance)
    except IsometerError as problem:
        return FixedPointLimits(None, None, None, None, growth, None, str(problem).partition(" — ")[0])
    scales = (point.length_scale, point.correlation_scale)
    slowest = max(scale for scale in scales if not math.isnan(scale))
    rate = 0.0 if slowest == 0 else (1.0 if math.isinf(slowest) else math.exp(-1.0 / slowest))
    if math.isinf(point.variance) or point.variance == 0.0 or point.cosine is None:
        end = "grow without bound" if math.isinf(point.variance) else "die out"
        return FixedPointLimits(
            None, None, None, rate, growth, slowest, f"no fixed point but zero or infinity: variances {end}"
        )
    variance, note = point.variance, ""
    if spec.homogeneity == 1:
        note = "samples keep their size; the diagonal is for samples of unit mean square"
        variance = weight
    # back from pre-activations, q = wK + b, to the output K
    diagonal = (variance - spec.bias_variance) / weight * spec.output_scale(1) ** 2
    off = (point.cosine * variance - spec.bias_variance) / weight * spec.output_scale(1) ** 2
    if "activation" in forward.early:
        diagonal, off = variance, point.cosine * variance
    gram = np.full((n, n), off) + np.eye(n) * (diagonal - off)
    return limits_at(gram, n, rate, growth, note)


def _iterated(spec: Chain, forward: Forward, n: int, growth: float | None, path: Path | None) -> FixedPointLimits:
    """Norms over features and skips: two numbers, followed until they rest."""
    if spec.has_skip and not forward.late:
        return FixedPointLimits(
            None, None, None, None, growth, None, "a skip without a norm after it lets signals grow with depth"
        )
    over_samples = spec.norm is not None and spec.norm.over == "batch"
    count = n if over_samples else 2  # without a norm over samples pairs do not affect each other
    start = np.eye(count)
    if path is not None and path.layers and n > 1:
        last = path.layers[-1].output
        diagonal, off = float(np.trace(last)) / n, float(last.sum() - np.trace(last)) / (n * (n - 1))
        off += 0.02 * diagonal if off < 0 else -0.02 * diagonal  # a little aside, so that the way back shows the rate
        start = np.full((count, count), off) + np.eye(count) * (diagonal - off)
    steps_allowed = _STEPS // 4 if over_samples else _STEPS
    long = Forward(spec.replace(depth=steps_allowed) if not isinstance(spec.width, tuple) else spec)
    try:
        grams = [gram for gram, _ in long.path(start, settled=1e-2 * _SETTLED).grams("post")]
    except (IsometerError, np.linalg.LinAlgError):
        grams = []
    steps = [float(np.abs(after - before).max()) for before, after in pairwise(grams)]
    if len(steps) < 3 or spec.homogeneity == 1 or steps[-1] > _SETTLED * float(np.abs(grams[-1]).max()):
        slow = [step for step in steps if step > 0][-2:]
        rate = slow[1] / slow[0] if len(slow) == 2 else None
        scale = None if rate is None else depth_scale(rate)
        return FixedPointLimits(None, None, None, rate, growth, scale, f"no fixed point within {steps_allowed} layers")
    # smaller steps are rounding, and their ratio is no rate
    moving = [step for step in steps if step > 1e-11]
    rate = moving[-1] / moving[-2] if len(moving) > 1 else 0.0
    diagonal, off = float(grams[-1][0, 0]), float(grams[-1][0, 1])
    return limits_at(np.full((n, n), off) + np.eye(n) * (diagonal - off), n, rate, growth, "")


def limits_at(gram: Floats, n: int, rate: float, growth: float | None, note: str) -> FixedPointLimits:
    """The limits of an exchangeable Gram matrix."""
    diagonal = float(np.diag(gram).mean())
    off = float(gram.sum() - np.trace(gram)) / (n * (n - 1)) if n > 1 else 0.0
    low, high = sorted((diagonal - off, diagonal + (n - 1) * off))
    condition = high / low if low > 1e-12 * n * abs(high) else math.inf
    return FixedPointLimits(diagonal, off, condition if n > 1 else 1.0, rate, growth, depth_scale(rate), note)


def depth_scale(rate: float) -> float:
    """Layers over which deviations that shrink by a factor per layer fall by e.

    Example:
        >>> depth_scale(0.0), round(depth_scale(0.5), 3), depth_scale(1.0)
        (0.0, 1.443, inf)
    """
    size = abs(rate)
    if size <= 1e-300:
        return 0.0
    return -1.0 / math.log(size) if size < 1.0 - 1e-12 else math.inf
