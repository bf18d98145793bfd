"""Published bounds on the convergence of cosines, as functions, exactly as printed (001 chapter 5, 004 §3 and C).

Each function evaluates what a paper states; none of them is asserted to be true here. `KernelMap` gives what really
happens, and the two can be laid over each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isometer.errors import IsometerError
from isometer.theory.kernels._kernel_map import KernelMap

Floats = NDArray[np.float64]


def _plain(values: Any, *like: ArrayLike) -> Any:
    return float(values) if all(np.ndim(item) == 0 for item in like) else np.asarray(values)


def potential(rho: ArrayLike) -> Any:
    """Ψ(ρ) = |ρ|/(1 − |ρ|), the potential of 001/thm-5.8; `inf` at ±1.

    Example:
        >>> from isometer.theory.kernels import potential
        >>> potential(0.5)
        1.0
    """
    size = np.abs(np.asarray(rho, dtype=float))
    with np.errstate(divide="ignore"):
        return _plain(size / (1.0 - size), rho)


def centred_rate(slope_at_zero: float) -> float:
    """α = 1/(2 − κ'(0)) of 001/thm-5.8 (eq. 5.6).

    Example:
        >>> from isometer.theory.kernels import centred_rate
        >>> centred_rate(0.0)
        0.5
    """
    return 1.0 / (2.0 - slope_at_zero)


def centred_potential_bound(rho: ArrayLike, depth: ArrayLike, rate: float) -> Any:
    """Ψ(ρ₀)·α^ℓ, the bound on Ψ(ρ_ℓ) in 001/thm-5.8, 001/thm-5.11 case 1 and 001/thm-5.15.

    Example:
        >>> from isometer.theory.kernels import centred_potential_bound
        >>> centred_potential_bound(0.5, 2, 0.5)
        0.25
    """
    return _plain(np.asarray(potential(rho)) * rate ** np.asarray(depth, dtype=float), rho, depth)


def centred_cosine_bound(rho: ArrayLike, depth: ArrayLike, rate: float) -> Any:
    """ρ₀/(1 − |ρ₀|)·α^ℓ, the bound on |ρ_ℓ| as printed in 001/cor-5.10 (negative for negative ρ₀, as printed).

    Example:
        >>> from isometer.theory.kernels import centred_cosine_bound
        >>> centred_cosine_bound(0.5, 1, 0.5)
        0.5
    """
    start = np.asarray(rho, dtype=float)
    with np.errstate(divide="ignore"):
        return _plain(start / (1.0 - np.abs(start)) * rate ** np.asarray(depth, dtype=float), rho, depth)


@dataclass(frozen=True)
class PrintedBound:
    """What 001/thm-5.11 prints for one activation: on which quantity, with which rate, and its value over depth.

    Example:
        >>> from isometer.theory import kernel_map
        >>> from isometer.theory.kernels import global_convergence_bound
        >>> global_convergence_bound(kernel_map("relu"), 0.5, [0, 1]).quantity
        '|ρ − 1|'
    """

    case: int
    quantity: str
    rate: float
    values: Floats
    reference: str


def global_convergence_bound(kernel: KernelMap, rho: float, depth: ArrayLike) -> PrintedBound:
    """The right-hand side of 001/thm-5.11 for the case that applies, over depths.

    Case 1: Ψ(ρ₀)κ'(1)^−ℓ bounds Ψ(ρ_ℓ); case 2: |ρ₀ − 1|κ'(1)^ℓ; case 3: |ρ₀ − 1|/(ℓα|ρ₀ − 1| + 1),
    α = 1 − κ(0) − κ'(0); case 4: |ρ₀ − ρ*|/(1 − |ρ₀|)·α^ℓ, α = max{1 − κ(0), κ'(ρ*), (1 − ρ*)/(2 − κ'(ρ*))}.

    Example:
        >>> from isometer.theory import kernel_map
        >>> from isometer.theory.kernels import global_convergence_bound
        >>> bound = global_convergence_bound(kernel_map("relu"), 0.0, [0, 10])
        >>> bound.case, bound.values.round(4).tolist()
        (3, [1.0, 0.355])
    """
    layers = np.asarray(depth, dtype=float)
    if kernel.case is None:
        raise IsometerError("001/thm-5.11 assumes a non-linear activation; this one is linear")
    if not -1.0 < rho < 1.0:
        raise IsometerError(f"001/thm-5.11 assumes ρ₀ in (−1, 1); got {rho!r}")
    reference = f"001/thm-5.11:case-{kernel.case}"
    if kernel.case == 1:
        rate = 1.0 / kernel.slope_at_one
        return PrintedBound(1, "|ρ|/(1 − |ρ|)", rate, potential(rho) * rate**layers, reference)
    if kernel.case == 2:
        rate = kernel.slope_at_one
        return PrintedBound(2, "|ρ − 1|", rate, (1.0 - rho) * rate**layers, reference)
    if kernel.case == 3:
        rate = 1.0 - kernel.at_zero - kernel.slope_at_zero
        return PrintedBound(3, "|ρ − 1|", rate, (1.0 - rho) / (layers * rate * (1.0 - rho) + 1.0), reference)
    fixed, slope = kernel.fixed_point, kernel.slope_at_fixed_point
    assert fixed is not None
    rate = max(1.0 - kernel.at_zero, slope, (1.0 - fixed) / (2.0 - slope))
    values = abs(rho - fixed) / (1.0 - abs(rho)) * rate**layers
    return PrintedBound(4, "|ρ − ρ*|", rate, values, reference)


def normalized_rate(kernel_at_one: float, kernel_at_zero: float, slope_at_one: float) -> float:
    """α = (κ(1) − κ(0))/κ'(1) of 001/thm-5.15 (eq. 5.14), κ of the activation as given, before normalisation.

    Example:
        >>> from isometer import activation
        >>> from isometer.theory.kernels import normalized_rate
        >>> relu = activation("relu").dual
        >>> round(normalized_rate(relu.second_moment, relu.at_zero, relu.slope_at_one), 6)
        0.68169
    """
    return (kernel_at_one - kernel_at_zero) / slope_at_one


def _check(delta: float, nonlinearity: float) -> None:
    if not 0.0 < delta <= 1.0:
        raise IsometerError(f"the separation δ must lie in (0, 1]; got {delta!r}")
    if not 0.0 < nonlinearity <= 1.0:
        raise IsometerError(f"the coefficient of non-linearity must lie in (0, 1]; got {nonlinearity!r}")


def separation_depth(delta: float, nonlinearity: float) -> int:
    """L₀(δ) = max{⌈log(1/2δ)/log(1 + ν/2)⌉, 0} of 004/def-L0.

    Example:
        >>> from isometer.theory.kernels import separation_depth
        >>> separation_depth(1e-3, 1.0), separation_depth(0.6, 1.0)
        (16, 0)
    """
    _check(delta, nonlinearity)
    return max(math.ceil(math.log(1.0 / (2.0 * delta)) / math.log1p(nonlinearity / 2.0)), 0)


def correlation_bound(depth: float, delta: float, nonlinearity: float) -> float:
    """B_ν(L, δ): 1 − δ(1 + ν/2)^L up to L₀(δ), then ½(1 − ν/2)^{L − L₀} (004/def-B, 004/lem-22, 004/thm-3).

    Example:
        >>> from isometer.theory.kernels import correlation_bound
        >>> correlation_bound(0, 0.25, 1.0), correlation_bound(3, 0.25, 1.0)
        (0.75, 0.25)
    """
    start = separation_depth(delta, nonlinearity)
    if depth <= start:
        return float(1.0 - delta * (1.0 + nonlinearity / 2.0) ** depth)
    return float(0.5 * (1.0 - nonlinearity / 2.0) ** (depth - start))


def one_layer_bound(delta: ArrayLike, nonlinearity: float) -> Any:
    """004/lem-21: κ(1 − δ) ≤ 1 − (1 + μ/2)δ for δ ≤ ½ and (1 − μ/2)(1 − δ) beyond.

    Example:
        >>> from isometer.theory.kernels import one_layer_bound
        >>> one_layer_bound([0.1, 0.9], 1.0).round(12)
        array([0.85, 0.05])
    """
    d = np.asarray(delta, dtype=float)
    low = 1.0 - (1.0 + nonlinearity / 2.0) * d
    return _plain(np.where(d <= 0.5, low, (1.0 - nonlinearity / 2.0) * (1.0 - d)), delta)


def one_layer_product_bound(delta: ArrayLike, nonlinearity: float) -> Any:
    """(1 − δ)(1 − μδ), the sharper middle step in the proof of 004/lem-21.

    Example:
        >>> from isometer.theory.kernels import one_layer_product_bound
        >>> one_layer_product_bound(0.5, 1.0)
        0.25
    """
    d = np.asarray(delta, dtype=float)
    return _plain((1.0 - d) * (1.0 - nonlinearity * d), delta)


def uncentred_depth(delta: float, nonaffinity: float, fixed_point: float, kernel_at_zero: float) -> int:
    """L₀ of 004/lem-35: max{⌈log((1 − ρ̄)/2δ)/log(1 + μ̃(1 − ρ̄)/2)⌉, ⌈1/σ̂(0)⌉}.

    Example:
        >>> from isometer.theory.kernels import uncentred_depth
        >>> uncentred_depth(0.01, 0.5, 0.5, 0.25)
        28
    """
    _check(delta, nonaffinity)
    if not kernel_at_zero > 0.0:
        raise IsometerError("004/lem-35 assumes σ̂(0) > 0; centred activations are covered by correlation_bound")
    waiting = math.ceil(1.0 / kernel_at_zero)
    if fixed_point == 1.0:
        return waiting
    travel = math.log((1.0 - fixed_point) / (2.0 * delta)) / math.log1p(nonaffinity * (1.0 - fixed_point) / 2.0)
    return max(math.ceil(travel), waiting)


def uncentred_bound(kernel: KernelMap, delta: float, depth: int) -> float:
    """Bound of 004/thm-11 (as made precise by 004/lem-35) on |σ̂^(L)(ρ) − ρ̄| for |ρ| ≤ 1 − δ; `inf` before L₀.

    max{1 − μ̃(1 − ρ̄)/2, σ̂'(ρ̄)}^{L − L₀}·(1 + ρ̄)/2.

    Example:
        >>> from isometer.theory import kernel_map
        >>> from isometer.theory.kernels import uncentred_bound
        >>> gelu = kernel_map("gelu")
        >>> uncentred_bound(gelu, 0.1, 0), uncentred_bound(gelu, 0.1, 5000) < 1e-3
        (inf, True)
    """
    fixed = kernel.fixed_point
    if fixed is None or kernel.at_zero == 0.0:
        raise IsometerError(
            "004/thm-11 is about uncentred, non-affine activations; use correlation_bound for centred ones"
        )
    if kernel.case == 3:
        raise IsometerError("004/lem-35 excludes ρ̄ = 1 with σ̂'(1) = 1; see knife_edge_depth (004/lem-36)")
    nonaffinity = kernel.effective.nonaffinity
    start = uncentred_depth(delta, nonaffinity, fixed, kernel.at_zero)
    if depth < start:
        return math.inf
    rate = max(1.0 - nonaffinity * (1.0 - fixed) / 2.0, kernel.slope_at_fixed_point)
    return float(rate ** (depth - start) * (1.0 + fixed) / 2.0)


def knife_edge_depth(epsilon: float, nonaffinity: float, kernel_at_zero: float) -> int:
    """Depth of 004/lem-36 after which σ̂^(L)(ρ) ≥ 1 − ε from every ρ, when ρ̄ = 1 and σ̂'(1) = 1.

    max{⌈log(2/ε)/(−log(1 − εμ/2))⌉, ⌈1/σ̂(0)⌉}; the lemma writes μ where its proof has μ̃, which is what is passed here.

    Example:
        >>> from isometer.theory.kernels import knife_edge_depth
        >>> knife_edge_depth(0.1, 0.18, 1 / 3.141592653589793)
        332
    """
    if not 0.0 < epsilon < 0.5:
        raise IsometerError(f"004/lem-36 takes ε in (0, ½); got {epsilon!r}")
    travel = math.ceil(math.log(2.0 / epsilon) / -math.log1p(-epsilon * nonaffinity / 2.0))
    return max(travel, math.ceil(1.0 / kernel_at_zero))
