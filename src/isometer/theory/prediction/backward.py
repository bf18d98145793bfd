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

from isometer.theory.prediction.columns import (
    Activate,
    Affine,
    Columns,
    NormalizeBatch,
    Operation,
    evaluate_with_jacobian,
)
from isometer.theory.prediction.forward import Forward, Path
from isometer.theory.prediction.points import gaussian_batches, tilted_batches

Floats = NDArray[np.float64]


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
        path: of the batch, to the last layer.
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
    for layer in range(spec.layers, 0, -1):
        at_weights, gradient = walk(forward, path, layer, gradient, given)
        here = path.layers[layer - 1]
        scale = path.layers[layer - 2].log_scale if layer > 1 else path.start_log_scale
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
    layer = len(path.layers) - 1
    gradient = _Gradient(np.eye(samples), 0.0)
    for _ in range(8):  # towards the direction that grows fastest
        _, after = walk(forward, path, layer, _Gradient(gradient.gram, 0.0), None)
        if not after.gram.any():
            return -math.inf
        if math.isinf(after.log) or np.abs(after.gram - gradient.gram).max() < 1e-9:
            return 0.5 * after.log
        gradient = after
    return 0.5 * gradient.log


def _half_log(value: float, log: float) -> float:
    return 0.5 * (math.log(value) + log) if value > 0.0 else -math.inf


def _layer(
    forward: Forward, path: Path, layer: int, gradient: _Gradient, given: Floats | None
) -> tuple[_Gradient, _Gradient]:
    """Γ at the weights' output, and by what the layer before hands to its own early steps; see the module."""
    spec, here = forward.spec, path.layers[layer - 1]
    operations = forward.operations(here.pre, layer, early=layer < spec.layers)
    at_weights = pulled_back(forward, operations, here.pre.covariance, gradient)
    factor = forward.weight_variance(layer) * spec.widths[layer - 1] / spec.fan_in[layer - 1]
    entering = at_weights.times(at_weights.gram, factor)
    if layer == 1 and forward.early:
        entering = _through_input(forward, path, entering, given)
    return at_weights, entering


def _skip_layer(
    forward: Forward, path: Path, layer: int, gradient: _Gradient, given: Floats | None
) -> tuple[_Gradient, _Gradient]:
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
    at_weights = pulled_back(forward, tuple(operations), here.pre.covariance, branch)
    back = at_weights.times(at_weights.gram, forward.weight_variance(layer))
    if forward.early:
        if layer == 1:
            back = _through_input(forward, path, back, given)
        else:
            back = _through_early(forward, path.layers[layer - 2].output, layer, back)
    if math.isinf(gamma):
        return at_weights, back
    top = max(total.log, back.log)
    both = total.gram * math.exp(total.log - top) + back.gram * math.exp(back.log - top)
    return at_weights, _Gradient(np.eye(len(both)), top).times(both)


def _late_scales(forward: Forward, path: Path, layer: int) -> Floats:
    """What norms and factors after the skip multiply each sample by."""
    here = path.layers[layer - 1]
    own = np.ones(len(here.output)) if here.late is None else here.late.scale
    return np.asarray(own * forward.spec.output_scale(layer))


def _through_early(forward: Forward, gram: Floats, layer: int, gradient: _Gradient) -> _Gradient:
    operations: list[Operation] = []
    columns = Columns(gram)
    for step in forward.early:
        operations.append(forward.operation(step, columns, layer))
        columns = columns.then(operations[-1])
    return pulled_back(forward, tuple(operations), gram, gradient)


def _through_input(forward: Forward, path: Path, gradient: _Gradient, given: Floats | None) -> _Gradient:
    if given is None:
        return _through_early(forward, path.start, 1, gradient)
    x = given * math.exp(-path.start_log_scale)
    operations = forward.operations_of_given(x)
    return _averaged(gradient, evaluate_with_jacobian(operations, x)[1], np.ones(len(x)))


def pulled_back(
    forward: Forward, operations: tuple[Operation, ...], covariance: Floats, gradient: _Gradient
) -> _Gradient:
    """`E JᵀΓJ`: exact for operations on entries and diagonal Γ, sampled otherwise."""
    elementwise = not any(isinstance(operation, NormalizeBatch) for operation in operations)
    diagonal = not (gradient.gram - np.diag(np.diag(gradient.gram))).any()
    if elementwise and diagonal and not forward.spec.phi.jumps:
        return gradient.times(gradient.gram * np.diag(_slopes(forward, operations, np.diag(covariance).copy())))
    n = len(covariance)
    count = int(min(1 << 14, max(1 << 11, (1 << 22) // n**2)))
    norm = next((operation.norm for operation in operations if isinstance(operation, NormalizeBatch)), None)
    if norm is None or not norm.rescale or norm.eps > 0:
        h = gaussian_batches(covariance, count)[0]
        return _averaged(gradient, evaluate_with_jacobian(operations, h)[1], np.ones(len(h)))
    if norm.recenter and isinstance(operations[0], NormalizeBatch):
        centring = np.eye(n) - 1.0 / n
        covariance = centring @ covariance @ centring
    tilted = tilted_batches(covariance, count)
    if tilted is None:
        return _Gradient(gradient.gram, math.inf)
    h, weight = tilted
    return _averaged(gradient, evaluate_with_jacobian(operations, h)[1], weight)


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


def _averaged(gradient: _Gradient, jacobian: Floats, weight: Floats) -> _Gradient:
    if jacobian.ndim == 2:
        mean = (jacobian * weight[:, None]).T @ jacobian / len(jacobian)
        return gradient.times(gradient.gram * mean)
    values, vectors = np.linalg.eigh(gradient.gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    rows = np.matmul(root.T, jacobian) * np.sqrt(weight)[:, None, None]  # (points, n, n)
    flat = rows.reshape(-1, rows.shape[-1])
    return gradient.times(flat.T @ flat / len(jacobian))
