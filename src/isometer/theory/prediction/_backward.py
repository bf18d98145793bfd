"""Gradients at infinite width: the Gram matrix of the gradient over features, layer by layer towards the input.

Assumed, as usual, is that the weights that carry gradients back are independent of those that carried signals forward.
With Γ the Gram matrix of the gradient by what enters the weights of a layer, the one by the Gaussians h of the layer
before is `E JᵀΓJ`, J the Jacobian of what lies between; the weights multiply it by their variance. Norms over features
are affine here: what they project out is one direction in as many as there are features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isometer.theory.networks._columns import (
    Activate,
    Affine,
    NormalizeBatch,
    Operation,
    evaluate_with_jacobian,
)
from isometer.theory.networks._gradient import average_jacobians, drawn_jacobians
from isometer.theory.prediction._forward import Forward, Path

Floats = NDArray[np.float64]
_SAME = 1e-4  # relative change below which what was sampled is used again


@dataclass
class _Gradient:
    """Γ up to exp(log), so that no number of layers overflows."""

    gram: Floats
    log: float

    def times(self, gram: Floats, factor: float = 1.0) -> _Gradient:
        """Another matrix in place of the old one, at unit size."""
        size = float(np.trace(gram)) / len(gram)
        if not size > 0.0 or not factor > 0.0:
            return _Gradient(np.zeros_like(gram), 0.0)
        return _Gradient(gram / size, self.log + math.log(size) + math.log(factor))


def gradient_log_norms(forward: Forward, path: Path, given: Floats | None = None) -> Floats:
    """log ‖∂loss/∂W_ℓ‖_F for ℓ = 1 …, and of the gradient by the input at ℓ = 0, for Gaussian cotangents.

    Args:
        forward: the network.
        path: path of the batch, to the last layer.
        given: the input's features, `(d, n)`, if they are known.

    Returns:
        `(layers + 1,)`; −inf where no gradient passes, inf where its mean square is infinite.

    Example:
        >>> from isometer import Spec
        >>> forward = Forward(Spec(width=64, depth=3, activation="identity"))
        >>> logs = gradient_log_norms(forward, forward.path(np.eye(2)))
        >>> [round(float(2 * log - 2 * np.log(64)), 9) for log in logs[1:]]  # d² tr(Γ G), Γ = G = I
        [0.693147181, 0.693147181, 0.693147181]

    Implements: 001/map-3.3 (backward).
    """
    spec = forward.spec
    n = len(path.start)
    logs = np.full(spec.layers + 1, math.nan)
    gradient = _Gradient(np.eye(n), 0.0)
    walk = _skip_layer if spec.has_skip else _layer
    pull = Pullback(forward)
    for layer in range(spec.layers, 0, -1):
        at_weights, gradient = walk(pull, path, layer, gradient, given)
        here = path.layers[layer - 1]
        scale = path.layers[layer - 2].log_scale if layer > 1 else path.start_log_scale
        # E ‖∂loss/∂W‖_F² = fan_out·fan_in·tr(ΓK), K without the scale that the layer before left out
        overlap = float(np.sum(at_weights.gram * here.entering))
        sizes = math.log(spec.widths[layer - 1]) + math.log(spec.fan_in[layer - 1])
        logs[layer] = _half_log(overlap, at_weights.log + 2 * scale + sizes)
        if math.isinf(at_weights.log):
            logs[:layer] = math.inf
            return logs
    assert spec.input_width is not None
    logs[0] = _half_log(float(np.trace(gradient.gram)), gradient.log + math.log(spec.input_width))
    return logs


def layer_growth(forward: Forward, samples: int, path: Path | None) -> float | None:
    """Log of the factor of gradient norms per layer towards the input, at the end of a path; None if it is too short.

    Example:
        >>> from isometer import Spec
        >>> forward = Forward(Spec(width=64, depth=3, gain=2**0.5))
        >>> round(layer_growth(forward, 2, forward.path(np.eye(2))), 12)
        0.0
    """
    if path is None or path.diverged >= 0 or len(path.layers) < 2:
        return None
    walk = _skip_layer if forward.spec.has_skip else _layer
    pull = Pullback(forward)
    layer = len(path.layers) - 1
    gradient = _Gradient(np.eye(samples), 0.0)
    for _ in range(8):  # towards the direction that grows fastest
        _, after = walk(pull, path, layer, _Gradient(gradient.gram, 0.0), None)
        if not after.gram.any():
            return -math.inf
        if math.isinf(after.log) or np.abs(after.gram - gradient.gram).max() < 1e-9:
            return 0.5 * after.log
        gradient = after
    return 0.5 * gradient.log


def _half_log(value: float, log: float) -> float:
    return 0.5 * (math.log(value) + log) if value > 0.0 else -math.inf


def _layer(
    pull: Pullback, path: Path, layer: int, gradient: _Gradient, given: Floats | None
) -> tuple[_Gradient, _Gradient]:
    """Γ at the weights' output, and by what the layer before hands to its own early steps; see the module."""
    forward = pull.forward
    spec, here = forward.spec, path.layers[layer - 1]
    operations = forward.operations(here.pre, layer, early=layer < spec.layers)
    at_weights = pull(operations, here.pre.covariance, gradient)
    # the transpose sums over fan_out where the weights sum over fan_in
    factor = forward.weight_variance(layer) * spec.widths[layer - 1] / spec.fan_in[layer - 1]
    entering = at_weights.times(at_weights.gram, factor)
    if layer == 1 and forward.early:
        entering = _through_input(pull, path, entering, given)
    return at_weights, entering


def _skip_layer(
    pull: Pullback, path: Path, layer: int, gradient: _Gradient, given: Floats | None
) -> tuple[_Gradient, _Gradient]:
    forward = pull.forward
    spec, here = forward.spec, path.layers[layer - 1]
    gamma = spec.at("residual", layer)
    sizes = _late_scales(forward, path, layer)
    total = gradient.times(gradient.gram * np.outer(sizes, sizes))
    branch = total if math.isinf(gamma) else total.times(total.gram, gamma**2)
    operations: list[Operation] = []
    columns = here.pre
    for step in forward.branch:
        operations.append(forward.operation(step, columns, layer))
        columns = columns.then(operations[-1])
    at_weights = pull(tuple(operations), here.pre.covariance, branch)
    back = at_weights.times(at_weights.gram, forward.weight_variance(layer))
    if forward.early:
        if layer == 1:
            back = _through_input(pull, path, back, given)
        else:
            before = path.layers[layer - 2]
            back = _through_early(pull, before.output, before.mean, layer, back)
    if math.isinf(gamma):
        return at_weights, back
    top = max(total.log, back.log)
    # in the scale of the larger, so that neither exponential overflows
    both = total.gram * math.exp(total.log - top) + back.gram * math.exp(back.log - top)
    return at_weights, _Gradient(np.eye(len(both)), top).times(both)


def _late_scales(forward: Forward, path: Path, layer: int) -> Floats:
    """What norms and factors after the skip multiply each sample by."""
    here = path.layers[layer - 1]
    own = np.ones(len(here.output)) if here.late is None else here.late.scale
    return np.asarray(own * forward.spec.output_scale(layer))


def _through_early(pull: Pullback, gram: Floats, mean: Floats, layer: int, gradient: _Gradient) -> _Gradient:
    base, operations = pull.forward.early_operations(gram, mean, layer)
    return pull(operations, base.covariance, gradient)


def _through_input(pull: Pullback, path: Path, gradient: _Gradient, given: Floats | None) -> _Gradient:
    if given is None:
        return _through_early(pull, path.start, path.start_mean, 1, gradient)
    x = given * math.exp(-path.start_log_scale)
    operations = pull.forward.operations_of_given(x)
    return gradient.times(average_jacobians(gradient.gram, evaluate_with_jacobian(operations, x)[1], np.ones(len(x))))


class Pullback:
    """`Γ ↦ E JᵀΓJ` of operations on h ~ N(0, V): exact for operations on entries and diagonal Γ, sampled otherwise.

    What was sampled last is used again for nearly the same V and Γ.
    """

    def __init__(self, forward: Forward) -> None:
        self.forward = forward
        self._last: tuple[Floats, Floats, tuple[float, ...], Floats] | None = None
        self._drawn: tuple[Floats, tuple[float, ...], tuple[Floats, Floats]] | None = None

    def __call__(self, operations: tuple[Operation, ...], covariance: Floats, gradient: _Gradient) -> _Gradient:
        elementwise = not any(isinstance(operation, NormalizeBatch) for operation in operations)
        diagonal = not (gradient.gram - np.diag(np.diag(gradient.gram))).any()
        # a diagonal Γ needs E φ′² of each sample only, no E φ′_i φ′_j
        if elementwise and diagonal and not self.forward.spec.phi.jumps:
            slopes = _slopes(self.forward, operations, np.diag(covariance).copy())
            return gradient.times(gradient.gram * np.diag(slopes))
        gains = tuple(o.gain if isinstance(o, Activate) else 0.0 for o in operations if not isinstance(o, Affine))
        last = self._last
        same = last is not None and last[2] == gains and _alike(last[0], covariance)
        if same and last is not None and _alike(last[1], gradient.gram):
            return gradient.times(last[3])
        drawn = self._jacobians(operations, covariance, gains)
        if drawn is None:
            return _Gradient(gradient.gram, math.inf)
        found = average_jacobians(gradient.gram, *drawn)
        self._last = covariance, gradient.gram, gains, found
        return gradient.times(found)

    def _jacobians(
        self, operations: tuple[Operation, ...], covariance: Floats, gains: tuple[float, ...]
    ) -> tuple[Floats, Floats] | None:
        """Jacobians and their weights; those of the same layer again are kept."""
        if self._drawn is not None and self._drawn[0] is covariance and self._drawn[1] == gains:
            return self._drawn[2]
        drawn = drawn_jacobians(operations, covariance)
        self._drawn = None if drawn is None else (covariance, gains, drawn)
        return drawn


def _alike(one: Floats, other: Floats) -> bool:
    return one.shape == other.shape and bool(np.abs(one - other).max() <= _SAME * np.abs(other).max())


def _slopes(forward: Forward, operations: tuple[Operation, ...], variances: Floats) -> Floats:
    """E of the squared derivatives of entries that start as Gaussians."""
    factor = np.ones_like(variances)
    for operation in operations:
        if isinstance(operation, Affine):
            variances, factor = variances * operation.scale**2, factor * operation.scale**2
        elif isinstance(operation, Activate):
            gain = operation.gain**2
            factor = factor * gain * forward.moments.slopes(gain * variances)
    return factor
