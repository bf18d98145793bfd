"""Jacobians: singular values of a given one, and the exact spectrum of batch norm's."""

import math
from typing import Any, NamedTuple

import numpy as np

from isometer.metrics._arrays import Array, as_matrices, namespace, result, root_mean_square, svdvals


class JacobianSpectrum(NamedTuple):
    """Singular values `(…, min(rows, columns))`, largest first, and two summaries, one number per matrix."""

    singular_values: Array
    mean_squared: Array
    spread: Array


def jacobian_singular_values(jacobian: Array) -> JacobianSpectrum:
    """Singular values of a Jacobian, and how near they are to dynamical isometry.

    `mean(σ²)` is 1 where gradients keep their size on average; `std(σ²) / mean(σ²)` is 0 where they do so in every
    direction. For a zero Jacobian both are 0.

    Args:
        jacobian: `(…, outputs, inputs)`.

    Returns:
        The singular values, their mean square, and the relative (population) spread of their squares.

    Example:
        >>> jacobian = jacobian_singular_values([[0.0, 1.0], [1.0, 0.0]])
        >>> jacobian.singular_values.tolist(), float(jacobian.mean_squared), float(jacobian.spread)
        ([1.0, 1.0], 1.0, 0.0)

    Implements: 001/eq-C.78-80 (norms of the factors).
    """
    array = as_matrices(jacobian, "jacobian", "outputs, inputs")
    xp = namespace(array)
    values = svdvals(array)
    largest = values[..., :1]
    relative = (values / xp.where(largest > 0, largest, 1.0)) ** 2
    mean = xp.mean(relative, axis=-1, keepdims=True)
    spread = xp.sqrt(xp.mean((relative - mean) ** 2, axis=-1)) / xp.where(mean > 0, mean, 1.0)[..., 0]
    return JacobianSpectrum(values, result(mean[..., 0] * largest[..., 0] ** 2), result(spread))


class BatchNormJacobian(NamedTuple):
    """Eigenvalues of a batch norm Jacobian: each of `values` `multiplicity` times, and 0 `zeros` times."""

    values: Array
    multiplicity: int
    zeros: int


def batch_norm_jacobian_spectrum(representation: Array) -> BatchNormJacobian:
    """Eigenvalues of the Jacobian of batch norm without mean subtraction.

    Each feature x (its values over the batch) becomes `x / ‖x‖`, with Jacobian `(I − x̂ x̂ᵀ) / ‖x‖`: symmetric, with
    eigenvalue `1/‖x‖` n − 1 times and 0 once. The Jacobian of the layer is block diagonal over the d features. A zero
    feature has no derivative; its value is `inf`.

    Args:
        representation: the input of the layer, `(…, n, d)`.

    Returns:
        `1/‖x_j‖` of the d features, largest first, `(…, d)`; how often each occurs, n − 1; the number of zeros, d.

    Example:
        >>> jacobian = batch_norm_jacobian_spectrum([[3.0, 0.0], [4.0, 2.0]])
        >>> jacobian.values.round(12).tolist(), jacobian.multiplicity, jacobian.zeros
        ([0.5, 0.2], 1, 2)

    Implements: 001/lem-C.18, 001/cor-C.19 (which prints d² − 1 for the multiplicity).
    """
    array = as_matrices(representation, "representation", "samples, features")
    xp = namespace(array)
    inverse = _inverse_feature_norms(array, xp)
    ascending = np.sort(inverse, axis=-1) if xp is np else xp.sort(inverse, dim=-1).values
    n, d = (int(length) for length in array.shape[-2:])
    return BatchNormJacobian(xp.flip(ascending, (-1,)), n - 1, d)


def batch_norm_jacobian_norm(representation: Array) -> Array:
    """Operator norm of the Jacobian of batch norm without mean subtraction.

    `‖J‖ = 1 / min_j ‖x_j‖` over the features x_j (over the batch), for features scaled to length 1. One sample is
    always mapped to ±1, so its Jacobian is 0; a zero feature has no derivative, and the norm is `inf`.

    Args:
        representation: the input of the layer, `(…, n, d)`.

    Returns:
        One number per matrix.

    Example:
        >>> round(float(batch_norm_jacobian_norm([[3.0, 0.0], [4.0, 2.0]])), 12)
        0.5

    Implements: 001/lem-C.16 (the exact value), 001/lem-C.20.
    """
    array = as_matrices(representation, "representation", "samples, features")
    xp = namespace(array)
    norm = xp.amax(_inverse_feature_norms(array, xp), axis=-1)
    return result(norm if array.shape[-2] > 1 else xp.where(norm < math.inf, 0.0, norm))


def _inverse_feature_norms(array: Array, xp: Any) -> Array:
    size = root_mean_square(array, -2)[..., 0, :]
    usable = size >= xp.finfo(array.dtype).tiny
    return xp.where(usable, 1 / xp.where(usable, size, 1.0) / math.sqrt(array.shape[-2]), math.inf)
