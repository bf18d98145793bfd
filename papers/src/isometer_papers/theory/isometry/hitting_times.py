"""Batch norm without recentring, as many samples as features: hitting times of isometry, bounds of the Jacobian."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from isometer.errors import IsometerError
from isometer.theory.batch_norm import isometry_gap_rate

__all__ = ["JacobianNorm", "batch_norm_jacobian_norm", "isometry_hitting_time", "printed_hitting_bound"]


def isometry_hitting_time(gap: float, d: int, target: float | None = None) -> float:
    """Layers after which the expected isometry gap of Haar weights and batch norm is below a target, by its local rate.

    Near isometry the gap falls by d/(d + 2) per layer in expectation, so that `S ≈ log(ψ₀/target)/log(1 + 2/d)`, about
    (d/2) log(16 d ψ₀) for the target of the thesis: linear in d, where its bound is of the fourth power.

    Args:
        gap: ψ₀.
        d: width and number of samples.
        target: 1/(16d) by default.

    Returns:
        The time, 0 if the gap is below the target already.

    Example:
        >>> round(isometry_hitting_time(0.1, 10), 3)
        15.207
        >>> isometry_hitting_time(1e-4, 10)
        0.0

    Implements: 001/lem-C.14 (the time itself, to leading order).
    """
    goal = _goal(gap, d, target)
    return 0.0 if gap <= goal else math.log(gap / goal) / -math.log(isometry_gap_rate(d))


def printed_hitting_bound(gap: float, d: int) -> float:
    """512 d⁴ ψ₀², the bound of the expected time to reach a gap of 1/(16d), without its unnamed constant.

    Example:
        >>> round(printed_hitting_bound(0.1, 10))
        51200

    Implements: 001/lem-C.14 (as printed).
    """
    return 0.0 if gap <= _goal(gap, d, None) else 512.0 * d**4 * gap**2


def _goal(gap: float, d: int, target: float | None) -> float:
    goal = 1.0 / (16 * d) if target is None else target
    if not gap >= 0.0 or not goal > 0.0:
        raise IsometerError(f"gap is {gap} with target {goal}; expected gap ≥ 0 and target > 0 — pass isometry gaps")
    return goal


class JacobianNorm(NamedTuple):
    """Squared spectral norm of the Jacobian of batch norm, and the bounds on it by the smallest eigenvalue and the gap.

    `by_gap` is that of 001/lem-C.16 and 001/lem-C.17 together, for batches whose eigenvalues have mean 1.
    """

    squared: float
    by_eigenvalue: float
    by_gap: float


def batch_norm_jacobian_norm(matrix: ArrayLike) -> JacobianNorm:
    """‖J_BN(X)‖² = 1/min_i ‖X_i‖², X with one feature per row, each scaled to length 1, and its bounds.

    The Jacobian of a row is (I − x̂x̂ᵀ)/‖x‖. Rows are at least √λ_min(XXᵀ) long, and `−log λ_min ≤ dψ + 1` for square X
    of eigenvalues with mean 1, ψ its isometry gap.

    Args:
        matrix: X, `(d, n)`, n ≥ 2.

    Returns:
        `JacobianNorm`; inf where a row vanishes or X is singular.

    Example:
        >>> batch_norm_jacobian_norm(np.eye(3)).squared
        1.0

    Implements: 001/lem-C.16, 001/lem-C.17, 001/lem-C.18, 001/cor-C.19, 001/lem-C.20.
    """
    x = np.asarray(matrix, dtype=np.float64)
    if x.ndim != 2 or x.shape[0] < 1 or x.shape[1] < 2 or not np.isfinite(x).all():
        raise IsometerError(f"matrix has shape {x.shape}; expected finite numbers (d, n), n at least 2 — pass Hᵀ")
    shortest = float((x * x).sum(axis=1).min())
    values = np.linalg.eigvalsh(x @ x.T)
    # eigvalsh is precise to some d·eps·λ_max: eigenvalues below that are rounding
    lowest = float(values[0]) if values[0] > len(values) * 1e-15 * values[-1] else 0.0
    if lowest == 0.0:
        return JacobianNorm(1.0 / shortest if shortest > 0 else math.inf, math.inf, math.inf)
    scale = float(values.mean())
    gap = math.log(scale) - float(np.log(values).mean())
    exponent = len(values) * gap + 1
    # math.exp raises beyond 709
    return JacobianNorm(1.0 / shortest, 1.0 / lowest, math.exp(min(exponent, 700.0)) / scale)
