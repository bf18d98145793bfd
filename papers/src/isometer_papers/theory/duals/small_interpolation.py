"""Interpolation and descent on kernels small enough to be computed exactly, in float64 or mpmath (004, E and G).

The population is finite with equal weights, as in `isometer_papers.theory.kernel_learning.interpolation`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from isometer_papers.float_or_mpmath import Numeric, is_precise

__all__ = [
    "distinct_probability",
    "interpolant_risk",
    "least_squares_path",
    "residual_floor",
    "solved",
    "stochastic_path",
]


def solved(matrix: Numeric, right: Numeric) -> Numeric:
    """matrix⁻¹ · right, in the precision of the matrix.

    Example:
        >>> solved(np.diag([1.0, 2.0]), np.array([1.0, 1.0])).tolist()
        [1.0, 0.5]
    """
    if not is_precise(matrix, right):
        return np.linalg.solve(np.asarray(matrix, dtype=float), np.asarray(right, dtype=float))
    import mpmath

    found = mpmath.lu_solve(mpmath.matrix(np.asarray(matrix).tolist()), mpmath.matrix(list(right)))
    return np.array(list(found), dtype=object)


def interpolant_risk(kernel: Any, means: Numeric, sample: Sequence[int], labels: Numeric) -> dict[str, Numeric]:
    """Excess risk of the minimum-norm interpolant and the terms of 004/lem-55, all exactly.

    Args:
        kernel: (N, N), on the population.
        means: E[y | x], (N,).
        sample: indices of the sample.
        labels: of the sample.

    Returns:
        `risk`, `approximation` (v*ᵀBv*), `noise` (εᵀCε), `norm` (‖v*‖²), `residual` (‖ε‖²).

    Example:
        >>> found = interpolant_risk(np.eye(4), np.zeros(4), [0, 1], np.array([1.0, -1.0]))
        >>> float(found["risk"]), float(found["norm"])
        (0.5, 0.0)

    Implements: 004/def-interp, 004/lem-55, 004/thm-16.
    """
    chosen = list(sample)
    size = len(means)
    own, across = kernel[np.ix_(chosen, chosen)], kernel[:, chosen]
    target = means[chosen]

    def spread(values: Numeric) -> Numeric:
        return (values * values).sum() / size

    error = labels - target
    return {
        "risk": spread(across @ solved(own, labels) - means),
        "approximation": spread(across @ solved(own, target) - means),
        "noise": spread(across @ solved(own, error)),
        "norm": means @ solved(kernel, means),
        "residual": (error * error).sum(),
    }


def distinct_probability(population: int, draws: int) -> float:
    """The chance that draws from so many equally likely inputs are all different.

    With orthogonal inputs Δ(m, γ) of 004/def-Delta is 1 if it is at least 1 − γ, and 0 otherwise.

    Example:
        >>> distinct_probability(4, 2)
        0.75

    Implements: 004/def-Delta.
    """
    return math.prod(1 - k / population for k in range(draws))


def least_squares_path(features: Numeric, labels: Numeric, steps: int, rate: Numeric) -> Numeric:
    """𝓛(w_t)/𝓛(w_0) for gradient descent on (1/n)Σ(a_i·w − y_i)² from w = 0.

    Example:
        >>> float(least_squares_path(np.eye(2), np.ones(2), 1, 1.0))  # η = n/2·1
        0.0

    Implements: 004/thm-50.
    """
    n = len(features)
    residual = -labels
    start = (residual * residual).sum()
    w = features[0] * 0
    for _ in range(steps):
        w = w - rate * 2 / n * (residual @ features)
        residual = features @ w - labels
    return (residual * residual).sum() / start


def residual_floor(features: Numeric, labels: Numeric) -> Numeric:
    """min_w (1/n)Σ(a_i·w − y_i)², for features with full column rank.

    Example:
        >>> float(residual_floor(np.ones((2, 1)), np.array([0.0, 1.0])))
        0.25

    Implements: 004/thm-50.
    """
    best = solved(features.T @ features, features.T @ labels)
    rest = features @ best - labels
    return (rest * rest).sum() / len(features)


def stochastic_path(kernel: Any, residual: Numeric, steps: int, rate: Numeric) -> tuple[Numeric, Numeric]:
    """(E 𝓛_T, mean over t < T of E 𝓛_t) over 𝓛_0 for single-sample descent, exactly.

    Second moments M = E rrᵀ obey M ↦ M − (2η/n)(KM + MK) + (4η²/n) K diag(M) K.

    Example:
        >>> last, mean = stochastic_path(np.eye(4), np.ones(4), 2, 0.5)
        >>> float(last), float(mean)
        (0.5625, 0.875)

    Implements: 004/thm-51, 004/alg-top-layer-sgd.
    """
    n = len(kernel)
    total = (residual * residual).sum()
    moments = np.outer(residual, residual) / total
    mean = total * 0
    for _ in range(steps):
        mean = mean + np.trace(moments) / steps
        left = kernel @ moments
        own = (kernel * np.diag(moments)) @ kernel
        moments = moments - (2 * rate / n) * (left + left.T) + (4 * rate**2 / n) * own
    return np.trace(moments), mean
