"""The Jacobian of batch norm without recentring, its norm by the gap, and gradients through several layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric, log
from isometer_papers.theory.isometry.matrices import normalized_rows, row_norms

__all__ = [
    "GradientThroughLayers",
    "chain_jacobian",
    "eigenvalue_product_bound",
    "gradient_through_layers",
    "log_jacobian_norm",
    "normalization_jacobian",
    "pre_activations",
    "row_jacobian",
    "smallest_eigenvalue_bound",
    "smallest_eigenvalue_bound_near",
]


def row_jacobian(x: Numeric) -> Numeric:
    """J of x ↦ x/‖x‖, I/‖x‖ − xxᵀ/‖x‖³, d × d.

    Example:
        >>> row_jacobian(np.array([0.0, 2.0])).tolist()
        [[0.5, 0.0], [0.0, 0.0]]

    Implements: 001/lem-C.18 (with the identity of size d).
    """
    vector = np.asarray(x)
    norm = (vector @ vector) ** 0.5
    if norm == 0:
        raise IsometerError("x is zero, where x/‖x‖ has no derivative; expected another vector")
    return np.eye(len(vector), dtype=int) / norm - np.outer(vector, vector) / norm**3


def normalization_jacobian(x: Numeric) -> Numeric:
    """J_BN(X), d·n × d·n with the rows of X one after the other: block diagonal, a block per row.

    Example:
        >>> normalization_jacobian(np.eye(2)).diagonal().tolist()
        [0.0, 1.0, 1.0, 0.0]

    Implements: 001/lem-C.16 (C.136, C.137).
    """
    array = np.asarray(x)
    d, n = array.shape
    full = np.zeros((d * n, d * n), dtype=array.dtype)
    for row in range(d):
        full[row * n : (row + 1) * n, row * n : (row + 1) * n] = row_jacobian(array[row])
    return full


def log_jacobian_norm(x: Numeric) -> Numeric:
    """log‖J_BN(X)‖ = −log min_j ‖X_j‖, for at least two columns.

    Example:
        >>> round(float(log_jacobian_norm(np.diag([2.0, 0.5]))), 6)
        0.693147

    Implements: 001/lem-C.16 (C.139).
    """
    return -log(min(row_norms(x)))


def smallest_eigenvalue_bound(gap: Numeric, d: int) -> Numeric:
    """dψ + 1, at least −log λ_min for eigenvalues of mean 1.

    Example:
        >>> smallest_eigenvalue_bound(0.5, 4)
        3.0

    Implements: 001/lem-C.17, 001/lem-C.13 (C.84).
    """
    return d * gap + 1


def smallest_eigenvalue_bound_near(gap: Numeric, d: int) -> Numeric:
    """2√(dψ), at least −log λ_min for eigenvalues of mean 1 if ψ ≤ 1/(16d).

    Example:
        >>> smallest_eigenvalue_bound_near(0.01, 4)
        0.4

    Implements: 001/lem-C.17, 001/lem-C.13 (C.85).
    """
    return 2 * (d * gap) ** 0.5


def eigenvalue_product_bound(smallest: Numeric, d: int) -> Numeric:
    """λ_d (1 + (1 − λ_d)/(d − 1))^{d−1}, at least the product of eigenvalues of mean 1 with the smallest λ_d.

    Example:
        >>> eigenvalue_product_bound(0.5, 2)
        0.75

    Implements: 001/lem-C.17 (C.124).
    """
    return smallest * (1 + (1 - smallest) / (d - 1)) ** (d - 1)


def pre_activations(weights: Sequence[Any], x: Numeric) -> tuple[Any, ...]:
    """H_k = W_k X_k with X_{k+1} = BN(H_k), for all weights.

    Example:
        >>> [h.tolist() for h in pre_activations([2 * np.eye(2), np.eye(2)], np.eye(2))]
        [[[2.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]]]

    Implements: 001/rec-6.3.
    """
    found = []
    state = np.asarray(x)
    for weight in weights:
        found.append(np.asarray(weight) @ state)
        state = normalized_rows(found[-1])
    return tuple(found)


def chain_jacobian(weights: Sequence[Any], x: Numeric) -> Numeric:
    """J of X ↦ BN(W_L … BN(W_1 X)), d² × d² with the rows of X one after the other.

    Example:
        >>> float(np.linalg.norm(chain_jacobian([np.eye(2)], np.eye(2)), 2))
        1.0

    Implements: 001/lem-C.12 (C.87), 001/lem-C.21 (C.153).
    """
    start = np.asarray(x)
    identity = np.eye(start.shape[1], dtype=int)
    full: Any = np.eye(start.size, dtype=int)
    for weight, pre in zip(weights, pre_activations(weights, x), strict=True):
        # X ↦ WX is W ⊗ I where the rows of X follow each other
        full = normalization_jacobian(pre) @ np.kron(np.asarray(weight), identity) @ full
    return full


class GradientThroughLayers(NamedTuple):
    """‖∂𝓛/∂W_0‖_F, ‖∂𝓛/∂H_L‖_F, log‖J_BN(H_k)‖ of the layers in between, and ‖X_0‖_F."""

    gradient: Numeric
    loss: Numeric
    log_jacobians: tuple[Any, ...]
    input_norm: Numeric


def gradient_through_layers(weights: Sequence[Any], x: Numeric, cotangent: Numeric) -> GradientThroughLayers:
    """X_{k+1} = BN(W_k X_k) for all weights but the last, logits H_L = W_L X_L, and the gradient by the first weights.

    Args:
        weights: W_0 … W_L, orthogonal for the bound to hold.
        x: X_0, a feature per row.
        cotangent: ∂𝓛/∂H_L.

    Returns:
        `GradientThroughLayers`.

    Example:
        >>> found = gradient_through_layers([np.eye(2)] * 2, np.diag([2.0, 2.0]), np.ones((2, 2)))
        >>> round(float(found.gradient), 6), round(float(found.log_jacobians[0]), 6)
        (1.414214, -0.693147)

    Implements: 001/eq-C.78-80.
    """
    inputs = pre_activations(weights[:-1], x)
    back = np.asarray(weights[-1]).T @ np.asarray(cotangent)
    logs = []
    for k in range(len(inputs) - 1, -1, -1):
        pre = inputs[k]
        norms = row_norms(pre)[:, None]
        unit = pre / norms
        # J of a row, (I − uuᵀ)/‖h‖, is symmetric
        back = (back - unit * (unit * back).sum(axis=1)[:, None]) / norms
        logs.append(log_jacobian_norm(pre))
        if k:  # below H_0 only W_0 is left, by which the gradient is taken
            back = np.asarray(weights[k]).T @ back
    gradient = back @ np.asarray(x).T
    return GradientThroughLayers(_norm(gradient), _norm(cotangent), tuple(logs[::-1]), _norm(x))


def _norm(matrix: Numeric) -> Numeric:
    array = np.asarray(matrix)
    return (array * array).sum() ** 0.5
