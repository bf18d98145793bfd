"""One step of the batch-normalised residual chain of 002, and the states that it cannot leave.

A representation is `(n, d)`, the transpose of the paper's H, and a layer is `H + γ F(H) Wᵀ` with each feature scaled to
mean square 1. Arrays of mpmath numbers go through unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from isometer_papers.float_or_mpmath import Numeric, is_precise
from isometer_papers.theory.rank.bounds import numeric, second_moments

__all__ = [
    "batch_norm_as_printed",
    "contraction_ratio",
    "fill_neighbourhood",
    "moment_change",
    "moment_change_expansion",
    "multiple_residual",
    "neuron_gradient",
    "normalized_step",
    "residual_step",
    "second_order_moments",
    "several_invariant_laws",
    "sign_states_frozen",
    "whitened",
]

Function = Callable[[Any], Any]


def _identity(x: Numeric) -> Numeric:
    return x


def residual_step(
    representation: ArrayLike, weights: ArrayLike, gamma: Numeric, function: Function = _identity
) -> Numeric:
    """H_γ = H + γ F(H) Wᵀ, or F(H) Wᵀ for γ = ∞.

    Example:
        >>> residual_step([[1.0, 2.0]], [[0.0, 1.0], [1.0, 0.0]], 0.5).tolist()
        [[2.0, 2.5]]

    Implements: 002/eq-5, 002/eq-47, 002/eq-rec-vanilla.
    """
    h, w = numeric(representation), numeric(weights)
    branch = function(h) @ w.T
    return branch if gamma == math.inf else h + gamma * branch


def normalized_step(
    representation: ArrayLike, weights: ArrayLike, gamma: Numeric, function: Function = _identity
) -> Numeric:
    """FBN_γ(H, W): a residual step, then every feature scaled to mean square 1; zero features stay zero.

    Example:
        >>> normalized_step([[1.0, 2.0]], [[0.0, 1.0], [1.0, 0.0]], 0.5).tolist()
        [[1.0, 1.0]]

    Implements: 002/eq-5, 002/def-2.
    """
    h = residual_step(representation, weights, gamma, function)
    size = (h * h).sum(axis=0) / h.shape[0]
    return h / np.where(size > 0, size, 1) ** 0.5


def batch_norm_as_printed(representation: ArrayLike) -> Numeric:
    """BN with α = 0, β = 1 to the letter: centred features over the root of their *uncentred* mean square.

    Example:
        >>> batch_norm_as_printed([[1.0], [3.0]]).round(3).tolist()
        [[-0.447], [0.447]]

    Implements: 002/def-bn, 002/eq-1.
    """
    h = numeric(representation)
    centred = h - h.sum(axis=0) / h.shape[0]
    size = (h * h).sum(axis=0) / h.shape[0]
    return centred / np.where(size > 0, size, 1) ** 0.5


def whitened(representation: ArrayLike) -> Numeric:
    """H M^{-1/2}, whose second moments are I on the span of the features.

    Example:
        >>> second_moments(whitened([[2.0, 0.0], [1.0, 1.0]])).round(12).tolist()
        [[1.0, 0.0], [0.0, 1.0]]

    Implements: 002/op-whitening.
    """
    h = np.asarray(representation, dtype=np.float64)
    values, vectors = np.linalg.eigh(second_moments(h))
    # eigenvalues below this are rounding: their directions are outside of the span
    keep = values > values[-1] * len(values) * np.finfo(float).eps
    scale = np.where(keep, 1 / np.sqrt(np.where(keep, values, 1.0)), 0.0)
    return np.asarray(h @ (vectors * scale) @ vectors.T)


def moment_change(
    representation: ArrayLike, weights: ArrayLike, gamma: Numeric, function: Function = _identity
) -> Numeric:
    """ΔM = M(H_γ) − M(H), from the definition.

    Example:
        >>> moment_change([[1.0]], [[1.0]], 0.5).tolist()
        [[1.25]]

    Implements: 002/lem-20 (eq. 94), 002/lem-12-steps (eq. 69).
    """
    return second_moments(residual_step(representation, weights, gamma, function)) - second_moments(representation)


def moment_change_expansion(
    representation: ArrayLike,
    weights: ArrayLike,
    gamma: Numeric,
    function: Function = _identity,
    *,
    as_printed: bool = False,
) -> Numeric:
    """ΔM = γWK + γKᵀWᵀ + γ²WPWᵀ with P = F(H)F(H)ᵀ/N and K = F(H)Hᵀ/N (matrices of the paper, features first).

    As printed K is HF(H)/N, a product that exists only for N = d.

    Example:
        >>> moment_change_expansion([[1.0]], [[1.0]], 0.5).tolist()
        [[1.25]]

    Implements: 002/lem-20 (eq. 95), 002/lem-12-steps (eq. 69).
    """
    h, w = numeric(representation).T, numeric(weights)
    f = function(h)
    n = h.shape[1]
    cross = h @ f / n if as_printed else f @ h.T / n
    own = f @ f.T / n
    return gamma * w @ cross + gamma * cross.T @ w.T + gamma**2 * w @ own @ w.T


def second_order_moments(moments: ArrayLike, first: tuple[int, int], second: tuple[int, int]) -> Numeric:
    """K_{pq,km} = E [WM + MWᵀ]_pq [WM + MWᵀ]_km for independent centred entries of variance 1, exactly.

    Both factors are linear in W: the expectation is the inner product of their coefficients.

    Example:
        >>> float(second_order_moments(np.eye(2), (0, 0), (0, 0)))
        4.0

    Implements: 002/lem-12-steps (eq. 75, 76).
    """
    m = numeric(moments)

    def coefficients(p: int, q: int) -> Numeric:
        found = np.zeros_like(m) if not is_precise(m) else m * 0
        found[p] = found[p] + m[:, q]  # [WM]_pq = Σ_k W_pk M_kq
        found[q] = found[q] + m[:, p]  # [MWᵀ]_pq = Σ_k W_qk M_pk
        return found

    return (coefficients(*first) * coefficients(*second)).sum()


def contraction_ratio(gamma: Numeric, power: int) -> Numeric:
    """σ₂/σ₁ of (I + γ e₁e₁ᵀ)ⁿ, which is (1 + γ)^{−n}.

    Example:
        >>> contraction_ratio(1.0, 3)
        0.125

    Implements: 002/lem-10, 002/def-4.
    """
    return (1 + gamma) ** (-power)


def fill_neighbourhood(vector: ArrayLike, coefficients: ArrayLike, gamma: Numeric) -> Numeric:
    """M_α v for M_α = I + (γ/d) Σ_i α_i e_i vᵀ.

    Example:
        >>> fill_neighbourhood([1.0, 0.0], [1.0, -1.0], 1.0).tolist()
        [1.5, -0.5]

    Implements: 002/lem-10 (eq. 26, 27).
    """
    v, a = numeric(vector), numeric(coefficients)
    matrix = np.eye(len(v), dtype=int) + gamma / len(v) * np.outer(a, v)
    return matrix @ v


def sign_states_frozen(width: int, gamma: Numeric, response: Numeric = 1) -> bool:
    """Whether every H = s hᵀ with s ∈ {±1}^d, h ∈ {±1}^N is a fixed point of the chain, whatever the weights.

    There F(H) = F(1) H for odd F, and feature i becomes `(s_i + γF(1)(Ws)_i) h`: its sign is safe if √3 d γ|F(1)| < 1.

    Args:
        width: d.
        gamma: γ.
        response: |F(1)|, 1 for linear networks.

    Returns:
        Whether; weights are those of 002/def-1, at most √3.

    Example:
        >>> sign_states_frozen(4, 1 / 32), sign_states_frozen(4, 1.0)
        (True, False)

    Implements: 002/lem-7, 002/lem-21, 002/claim-3.4.
    """
    return bool(3 * (width * gamma * response) ** 2 < 1)


def several_invariant_laws(samples: int, width: int, gamma: Numeric, response: Numeric = 1) -> bool:
    """Whether the chain of an odd F certainly has more than one invariant law (002/def-3).

    States s hᵀ of signs keep their h up to sign, and there are 2^{N−1} of those; for one sample the laws differ if the
    states are frozen. Otherwise (one sample, signs that can flip) the law is unique: the uniform one on {±1}^d.

    Args:
        samples: N.
        width: d.
        gamma: γ, `inf` for no skip.
        response: |F(1)|.

    Returns:
        True if there are several.

    Example:
        >>> several_invariant_laws(2, 3, 0.1), several_invariant_laws(1, 3, 1.0)
        (True, False)

    Implements: 002/def-3, 002/claim-3.4.
    """
    return samples >= 2 or sign_states_frozen(width, gamma, response)


def multiple_residual(first: ArrayLike, second: ArrayLike) -> Numeric:
    """min_a ‖x − a y‖²/‖x‖²: 0 where x is a multiple of y, 1 where it is orthogonal to y or y is 0; 0 for x = 0.

    Example:
        >>> float(multiple_residual([1.0, 0.0], [2.0, 0.0])), float(multiple_residual([1.0, 0.0], [0.0, 1.0]))
        (0.0, 1.0)

    Implements: 002/prop-8.
    """
    x, y = numeric(first), numeric(second)
    own, other, inner = (x * x).sum(), (y * y).sum(), (x * y).sum()
    if own == 0:
        return own
    if other == 0:
        return own / own
    rest = x - inner / other * y  # 1 − cos² would not resolve residuals below 1e-16
    return (rest * rest).sum() / own


def neuron_gradient(hidden: ArrayLike, cotangent: Numeric) -> Numeric:
    """(∇ℓ)_k F(h), one sample's gradient by the incoming weights of one neuron of the last layer.

    Example:
        >>> neuron_gradient([1.0, 2.0], -1.0).tolist()
        [-1.0, -2.0]

    Implements: 002/prop-8 (eq. 13), 002/eq-12.
    """
    return cotangent * numeric(hidden)
