"""Derivatives of cross entropy and squared error behind a softmax, for one sample."""

from __future__ import annotations

import numpy as np

from isometer_papers.float_or_mpmath import Numeric, exp

__all__ = ["cross_entropy_gradient", "softmax", "softmax_jacobian", "squared_loss_gradient"]


def softmax(logits: Numeric) -> Numeric:
    """p_i = e^{z_i}/Σ e^{z_j}.

    Example:
        >>> softmax(np.zeros(2)).tolist()
        [0.5, 0.5]

    Implements: 001/lem-C.11 (C.140).
    """
    z = np.asarray(logits)
    powers = exp(z - max(z))
    return powers / powers.sum()


def softmax_jacobian(logits: Numeric) -> Numeric:
    """∂p_i/∂z_k: p_i(1 − p_i) on the diagonal, −p_i p_k off it.

    Example:
        >>> softmax_jacobian(np.zeros(2)).tolist()
        [[0.25, -0.25], [-0.25, 0.25]]

    Implements: 001/lem-C.11 (C.141, C.142).
    """
    p = softmax(logits)
    return np.diag(p) - np.outer(p, p)


def cross_entropy_gradient(logits: Numeric, target: Numeric) -> Numeric:
    """∂/∂z_k of −Σ y_i log p_i: p_k Σ_{i≠k} y_i − y_k(1 − p_k), which is p_k − y_k if y sums to 1.

    Example:
        >>> cross_entropy_gradient(np.zeros(2), np.array([1.0, 0.0])).tolist()
        [-0.5, 0.5]

    Implements: 001/lem-C.11 (C.146).
    """
    p, y = softmax(logits), np.asarray(target)
    return p * (y.sum() - y) - y * (1 - p)


def squared_loss_gradient(logits: Numeric, target: Numeric) -> Numeric:
    """∂/∂z_k of (1/C) Σ (y_i − p_i)²: (1/C) Σ_i 2(y_i − p_i) ∂(−p_i)/∂z_k.

    Example:
        >>> squared_loss_gradient(np.zeros(2), np.array([1.0, 0.0])).tolist()
        [-0.25, 0.25]

    Implements: 001/lem-C.11 (C.148).
    """
    p, y = softmax(logits), np.asarray(target)
    return -2 * (y - p) @ softmax_jacobian(logits) / len(p)
