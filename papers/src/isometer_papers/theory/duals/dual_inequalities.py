"""Inequalities that paper 004 proves about dual activations on its way: each as a pair (left side, right side).

Nothing is asserted here; the statement of a lemma is `left <= right` (or the relation its docstring names).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.activations import Activation, activation
from isometer.errors import IsometerError
from isometer.theory.kernels import KernelMap, SignalFamily, one_layer_bound

Floats = NDArray[np.float64]


def eigenvalue_lower_bound(kernel: KernelMap, depth: int, separation: float) -> float:
    """f(1) − f(1 − δ) of 004/lem-23, f the L-fold kernel map: a lower bound on λ_min(f[K]) when λ_min(K) ≥ δ.

    Implements 004/lem-23.

    Example:
        >>> from isometer.theory import KernelMap
        >>> from isometer_papers.theory.duals.dual_inequalities import eigenvalue_lower_bound
        >>> eigenvalue_lower_bound(KernelMap("identity"), 5, 0.25)
        0.25
    """
    if not 0.0 <= separation <= 1.0:
        raise IsometerError(f"a correlation matrix has λ_min in [0, 1]; got {separation!r}")
    return float(kernel.iterate(gap=separation, depth=depth).gap[-1])


def slope_inequality(source: str | Activation | Any, rho: ArrayLike) -> tuple[Floats, Floats]:
    """004/lem-26: σ̂′(ρ)/σ̂′(1) ≤ 1 − μ(1 − |ρ|), for normalised σ.

    Implements 004/lem-26.

    Example:
        >>> from isometer_papers.theory.duals.dual_inequalities import slope_inequality
        >>> left, right = slope_inequality("unit(tanh)", [-0.5, 0.0, 0.9])
        >>> bool((left <= right).all())
        True
    """
    kernel, cosine = KernelMap(activation(source).normalized()), np.asarray(rho, dtype=float)
    if math.isinf(kernel.slope_at_one):
        return np.zeros_like(cosine), 1.0 - kernel.effective.nonlinearity * (1.0 - np.abs(cosine))
    left = np.asarray(kernel.slope(cosine)) / kernel.slope_at_one
    return left, 1.0 - kernel.effective.nonlinearity * (1.0 - np.abs(cosine))


def chord_inequality(kernel: KernelMap, share: ArrayLike) -> tuple[Floats, Floats]:
    """004/lem-32: ρ_λ − σ̂(ρ_λ) ≥ μ̃λ(1 − λ)(1 − ρ̄)², ρ_λ = λ + (1 − λ)ρ̄; returned as (right, left), so left ≤ right.

    Implements 004/lem-32.

    Example:
        >>> from isometer.theory import KernelMap
        >>> from isometer_papers.theory.duals.dual_inequalities import chord_inequality
        >>> low, high = chord_inequality(KernelMap("gelu"), [0.1, 0.5, 0.9])
        >>> bool((low <= high).all())
        True
    """
    fixed = kernel.fixed_point
    if fixed is None:
        raise IsometerError("004/lem-32 is about non-affine activations; this one is linear")
    part = np.asarray(share, dtype=float)
    rho = part + (1.0 - part) * fixed
    low = kernel.effective.nonaffinity * part * (1.0 - part) * (1.0 - fixed) ** 2
    return low, np.asarray(rho - kernel(rho))


def one_step_inequality(kernel: KernelMap, rho: ArrayLike) -> tuple[Floats, Floats]:
    """004/lem-34, the case that applies to each ρ, for E σ² = 1 and the smallest fixed point ρ̄.

    ρ ≥ (1 + ρ̄)/2: σ̂(ρ) ≤ ρ − (μ̃/2)(1 − ρ̄)(1 − ρ). ρ̄ ≤ ρ < (1 + ρ̄)/2: |σ̂(ρ) − ρ̄| ≤ (1 − (μ̃/2)(1 − ρ̄))(ρ − ρ̄).
    0 ≤ ρ < ρ̄: |σ̂(ρ) − ρ̄| ≤ σ̂′(ρ̄)(ρ̄ − ρ). ρ < 0: |σ̂(ρ)| ≤ σ̂(−ρ).

    Implements 004/lem-33, 004/lem-34.

    Example:
        >>> import numpy as np
        >>> from isometer.theory import KernelMap
        >>> from isometer_papers.theory.duals.dual_inequalities import one_step_inequality
        >>> left, right = one_step_inequality(KernelMap("gelu"), np.linspace(-1, 1, 201))
        >>> bool((left <= right + 1e-14).all())
        True
    """
    fixed = kernel.fixed_point
    if fixed is None:
        raise IsometerError("004/lem-34 is about non-affine activations; this one is linear")
    cosine = np.asarray(rho, dtype=float)
    after = np.asarray(kernel(cosine))
    pull = kernel.effective.nonaffinity / 2 * (1.0 - fixed)
    high, middle, low = cosine >= (1.0 + fixed) / 2, cosine >= fixed, cosine >= 0.0
    left = np.where(high, after, np.where(low, np.abs(after - fixed), np.abs(after)))
    inner = np.where(middle, (1.0 - pull) * (cosine - fixed), kernel.slope_at_fixed_point * (fixed - cosine))
    right = np.where(high, cosine - pull * (1.0 - cosine), np.where(low, inner, np.asarray(kernel(-cosine))))
    return left, right


def lengths_inequality(
    source: str | Activation | Any, cosine: float, first: float, second: float
) -> tuple[float, float]:
    """004/lem-41 for odd σ and squared lengths p, q: |cosine after a layer| ≤ ∏_z √(one-layer bound with μ^{z}).

    Implements 004/lem-41.

    Example:
        >>> from isometer_papers.theory.duals.dual_inequalities import lengths_inequality
        >>> left, right = lengths_inequality("tanh", 0.9, 0.5, 2.0)
        >>> left <= right
        True
    """
    family = SignalFamily(source)
    if not family.activation.is_odd:
        raise IsometerError(f"004/lem-41 is about odd activations; {family.activation.name} is not")
    found = family.coefficients(np.array([first, second]))
    if found is None:
        found = np.stack([family.hermite(v, 200) for v in (first, second)])
    powers = cosine ** np.arange(found.shape[1])
    left = abs(float(np.sum(found[0] * found[1] * powers)))
    left /= math.sqrt(family.second_moment(first) * family.second_moment(second))
    delta = 1.0 - abs(cosine)
    right = math.prod(math.sqrt(one_layer_bound(delta, family.nonlinearity(v))) for v in (first, second))
    return left, right


def hermite_pairing(first: int, second: int, variances: tuple[float, float], covariance: float) -> float:
    """E h_i^{γ₁}(z₁) h_j^{γ₂}(z₂) = δ_ij (γ₃/√(γ₁γ₂))^j of 004/lem-40, for covariance [[γ₁, γ₃], [γ₃, γ₂]].

    h_j^{γ} are the Hermite polynomials that are orthonormal under N(0, γ).

    Implements 004/lem-40.

    Example:
        >>> from isometer_papers.theory.duals.dual_inequalities import hermite_pairing
        >>> hermite_pairing(2, 2, (4.0, 1.0), 1.0), hermite_pairing(2, 3, (4.0, 1.0), 1.0)
        (0.25, 0.0)
    """
    if min(variances) <= 0.0 or covariance**2 > variances[0] * variances[1] * (1 + 1e-12):
        raise IsometerError(f"variances {variances} and covariance {covariance!r} are those of no Gaussian pair")
    return (covariance / math.sqrt(variances[0] * variances[1])) ** second if first == second else 0.0


def length_map_shape(source: str | Activation | Any, variances: ArrayLike) -> tuple[float, float]:
    """(smallest slope, largest second divided difference) of σ̂_l on a grid: ≥ 0 and ≤ 0 where 004/lem-39 applies.

    Implements 004/lem-39.

    Example:
        >>> import numpy as np
        >>> from isometer_papers.theory.duals.dual_inequalities import length_map_shape
        >>> slope, bend = length_map_shape("tanh", np.linspace(0.2, 3.0, 15))
        >>> slope > 0, bend < 0
        (True, True)
    """
    grid = np.asarray(variances, dtype=float)
    if grid.ndim != 1 or len(grid) < 3 or not (np.diff(grid) > 0).all():
        raise IsometerError("variances must be at least three ascending numbers")
    family = SignalFamily(source)
    first = np.diff([family.second_moment(float(v)) for v in grid]) / np.diff(grid)
    return float(first.min()), float(np.max(np.diff(first) / (grid[2:] - grid[:-2])))
