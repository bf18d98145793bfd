"""Size and direction of gradients along depth."""

import math
from typing import NamedTuple

from isometer.errors import IsometerError
from isometer.metrics._angles import cosine_matrix, mean_abs_cosine_of
from isometer.metrics._arrays import Array, as_floating, as_matrices, binary_scale, count, namespace, result
from isometer.metrics._batch import MetricInput


def gradient_log_norm(gradient: Array) -> Array:
    """Logarithm of the Frobenius norm, without over- or underflow.

    `log ‖∇‖_F`, natural logarithm; a zero gradient has `−inf`.

    Args:
        gradient: `(…, rows, columns)`, a weight gradient or a batch of cotangents.

    Returns:
        One number per matrix.

    Example:
        >>> round(float(gradient_log_norm([[3e-200, 4e-200]])), 6)  # log(5e-200)
        -458.907581

    Implements: 001/claim-1.grad, 001/eq-6.1-6.2, 001/thm-6.5.
    """
    array = as_matrices(gradient, "gradient", "rows, columns")
    xp = namespace(array)
    scale = binary_scale(array, (-2, -1))
    squared = xp.sum((array / scale) ** 2, axis=(-2, -1))
    positive = squared > 0
    value = xp.log(scale[..., 0, 0]) + 0.5 * xp.log(xp.where(positive, squared, 1.0))
    return result(xp.where(positive, value, -math.inf))


def explosion_rate(log_norms: Array, *, lag: int = 10) -> Array:
    """Growth per layer of a sequence of log-norms, over a window.

    `R(ℓ) = (log‖∇_ℓ‖ − log‖∇_{ℓ−lag}‖) / lag` for ℓ = lag, lag + 1, …, as printed: positive where norms grow towards
    the output. Backpropagated gradients that explode grow towards the input, and have negative R; reverse the sequence
    to count in the direction of backpropagation. Two vanished gradients (`−inf`) do not grow: 0.

    Args:
        log_norms: `(…, layers)`, such as `gradient_log_norm` gives; `−inf` is allowed.
        lag: number of layers to average over.

    Returns:
        `(…, layers − lag)`.

    Example:
        >>> explosion_rate([0.0, 0.5, 1.0, 1.5], lag=2).tolist()
        [0.5, 0.5]

    Implements: 001/alg-C.5 (C.155), 001/metric-R.
    """
    values = as_floating(log_norms, "log_norms")
    xp = namespace(values)
    layers = int(values.shape[-1]) if len(values.shape) else 0
    if not 1 <= lag < layers:
        raise IsometerError(
            f"log_norms has {layers} layers, lag is {lag}; expected 1 ≤ lag < layers — pass more layers or lower it"
        )
    if bool((xp.isnan(values) | (values == math.inf)).any()):
        raise IsometerError("log_norms has NaN or +inf; expected logarithms of finite norms — use gradient_log_norm")
    later, earlier = values[..., lag:], values[..., :-lag]
    vanished = (later == -math.inf) & (earlier == -math.inf)
    return result((xp.where(vanished, 0.0, later) - xp.where(vanished, 0.0, earlier)) / lag)


def linear_gradient_gram(inputs: Array, cotangents: Array) -> Array:
    """Gram matrix of the per-sample weight gradients of a linear layer, without forming them.

    Sample i has the gradient `δ_i x_iᵀ`, and `⟨δ_i x_iᵀ, δ_j x_jᵀ⟩ = ⟨x_i, x_j⟩ ⟨δ_i, δ_j⟩`: the entrywise product of
    two Gram matrices, divided by the number of weights.

    Args:
        inputs: `(…, n, d_in)`, what enters the layer.
        cotangents: `(…, n, d_out)`, derivatives of each sample's loss with respect to the layer's output.

    Returns:
        `(…, n, n)`, to be passed on as `gram=`.

    Example:
        >>> linear_gradient_gram([[1.0, 0.0], [1.0, 0.0]], [[2.0], [1.0]]).tolist()
        [[2.0, 1.0], [1.0, 0.5]]

    Implements: 002/prop-8 (all neurons of the layer together).
    """
    first, second = MetricInput.of(inputs), MetricInput.of(cotangents)
    if first.samples != second.samples:
        raise IsometerError(
            f"inputs have {first.samples} samples, cotangents {second.samples}; expected equally "
            "many — pass the same batch"
        )
    return first.gram_matrix() * second.gram_matrix()


class GradientAlignment(NamedTuple):
    """How much the per-sample gradients point in one direction, 1 for all on one line."""

    mean_abs_cosine: Array
    top_share: Array


def gradient_alignment(representation: Array | None = None, *, gram: Array | None = None) -> GradientAlignment:
    """Whether the samples' gradients differ in direction at all (directional vanishing).

    The mean of |cos| over pairs of per-sample gradients, and the largest eigenvalue of their matrix of cosines over its
    trace, from 1/n (orthogonal) to 1 (collinear). Zero gradients are left out; with fewer than two others both are 1.
    The gradients of one neuron of a linear layer are multiples of the layer's inputs: pass those to read off neurons.

    Args:
        representation: per-sample gradients, flattened, `(…, n, parameters)`; or
        gram: their Gram matrix `(…, n, n)`, for a linear layer from `linear_gradient_gram`.

    Returns:
        Both measures, each of the leading shape.

    Example:
        >>> round(float(gradient_alignment([[1.0, 0.0], [0.0, 2.0]]).top_share), 12)
        0.5

    Implements: 002/prop-8.
    """
    batch = MetricInput.of(representation, gram, need=2, purpose="angles between gradients").scaled()
    return GradientAlignment(*(result(value) for value in alignment_of(batch)))


def alignment_of(batch: MetricInput) -> tuple[Array, Array]:
    """Both measures of a scaled batch."""
    xp = batch.xp
    number = count(batch.norms() > 0, -1, batch.data)
    top = batch.directions().eigenvalues()[..., -1]
    share = xp.where(number > 0, xp.clip(top / xp.where(number > 0, number, 1.0), 0.0, 1.0), 1.0)
    return mean_abs_cosine_of(batch, *cosine_matrix(batch)), share
