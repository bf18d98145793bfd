"""Bounds along depth: decay of the gap, the time to get near isometry, sums of log-norms, gradients.

ψ₀ is the isometry gap of the input, d the width, q = 1/(32d⁴).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isometer_papers.float_or_mpmath import Numeric, exp, expm1

__all__ = [
    "decay_time",
    "failure_bound",
    "gap_bound",
    "geometric_bound",
    "geometric_sum",
    "gradient_bound",
    "hitting_bound",
    "jacobian_bound_from_far",
    "printed_decay_time",
    "root_gap_factor",
    "root_gap_step",
    "second_phase_bound",
    "tail_bound",
    "two_phase_bound",
]


def decay_time(gap: Numeric, d: int) -> Numeric:
    """k = max(2d², 32d³ψ₀), the layers in which the expected gap falls by at least a factor e.

    Example:
        >>> decay_time(0.5, 2)
        128.0

    Implements: 001/eq-C.67-75 (C.73).
    """
    return max(2 * d**2, 32 * d**3 * gap)


def printed_decay_time(gap: Numeric, d: int, constant: float = 32.0) -> Numeric:
    """k = C d²(1 + dψ₀); C = 32 covers `decay_time`.

    Example:
        >>> printed_decay_time(0.5, 2)
        256.0

    Implements: 001/thm-6.1.
    """
    return constant * d**2 * (1 + d * gap)


def gap_bound(gap: Numeric, d: int, layer: int, constant: float = 32.0) -> Numeric:
    """ψ₀ e^{−ℓ/k} with the k of `printed_decay_time`, a bound of E ψ(X_{ℓ+1}).

    Example:
        >>> gap_bound(0.5, 2, 0)
        0.5

    Implements: 001/thm-6.1.
    """
    return gap * exp(-layer / printed_decay_time(gap, d, constant))


def tail_bound(gap: Numeric, d: int, layer: float) -> Numeric:
    """16dψ₀ e^{−ℓ/k}, k of `decay_time`: chance that the gap of layer ℓ is 1/(16d) or more.

    Example:
        >>> tail_bound(1 / 32, 2, 0)
        1.0

    Implements: 001/lem-C.14 (C.112, C.113).
    """
    # 0·ψ₀ takes a whole k to the precision of ψ₀
    return 16 * d * gap * exp(-layer / (decay_time(gap, d) + 0 * gap))


def hitting_bound(gap: Numeric, d: int, *, summed: bool = False, from_zero: bool = False) -> Numeric:
    """16dψ₀k, or the sum 16dψ₀ Σ_{ℓ ≥ 1} e^{−ℓ/k} itself; from ℓ = 0 on, the sum has one term more.

    Example:
        >>> hitting_bound(0.5, 2)
        2048.0

    Implements: 001/lem-C.14 (C.115 to C.118).
    """
    k = decay_time(gap, d) + 0 * gap
    factor = 16 * d * gap
    if summed:
        return -factor / expm1(-1 / k) if from_zero else factor / expm1(1 / k)  # k is large: e^{1/k} − 1 would cancel
    return factor * (k + 1) if from_zero else factor * k


def failure_bound(d: int, *, simple: bool = True) -> float:
    """1 − 1/(4d²), or (1 − 1/(2d²))/(1 − 1/(4d²)): chance that the gap does not fall by the factor 1 − 1/(4d²).

    Example:
        >>> failure_bound(1), round(failure_bound(1, simple=False), 6)
        (0.75, 0.666667)

    Implements: 001/lem-C.15 (C.99).
    """
    return 1 - 1 / (4 * d**2) if simple else (1 - 1 / (2 * d**2)) / (1 - 1 / (4 * d**2))


def root_gap_step(d: Numeric, failure: Numeric) -> Numeric:
    """q + √(1 − 1/(4d²)) (1 − q), the factor of √ψ if the gap fails to fall with chance q.

    Example:
        >>> root_gap_step(3, 1.0)
        1.0

    Implements: 001/lem-C.15 (C.103).
    """
    return failure + (1 - 1 / (4 * d**2)) ** 0.5 * (1 - failure)


def root_gap_factor(d: Numeric) -> Numeric:
    """1 − 1/(32d⁴).

    Example:
        >>> root_gap_factor(1)
        0.96875

    Implements: 001/lem-C.15 (C.108, C.109).
    """
    return 1 - 1 / (32 * d**4)


def geometric_sum(d: Numeric, layers: int, first: int = 0) -> Numeric:
    """Σ_{k = first}^{L} (1 − 1/(32d⁴))^k.

    Example:
        >>> geometric_sum(1, 0)
        1.0

    Implements: 001/lem-C.15 (C.110).
    """
    ratio = root_gap_factor(d)
    return (ratio**first - ratio ** (layers + 1)) / (1 - ratio)


def geometric_bound(d: Numeric, layers: Numeric) -> Numeric:
    """32d⁴ (1 − e^{−L/(32d⁴)}).

    Example:
        >>> geometric_bound(1.0, 0.0)
        0.0

    Implements: 001/lem-C.15 (C.111).
    """
    return -32 * d**4 * expm1(-layers / (32 * d**4))


def second_phase_bound(gap: Numeric, d: int, layers: int) -> Numeric:
    """32 d^{4.5} √ψ₀ (1 − e^{−L/(32d⁴)}), of Σ E√(dψ) over L layers, and of E log‖J‖ over them if ψ₀ ≤ 1/(16d).

    Example:
        >>> round(float(second_phase_bound(0.25, 1, 1000)), 6)
        16.0

    Implements: 001/lem-C.15, 001/lem-C.12 (C.92).
    """
    return (d * gap) ** 0.5 * geometric_bound(1.0 * d, 1.0 * layers)


def jacobian_bound_from_far(gap: Numeric, d: int, layers: int) -> Numeric:
    """512 d⁴ψ₀²(1 + dψ₀) + 32d⁴(1 − e^{−L/(32d⁴)}), of E log‖J‖ over all layers for ψ₀ > 1/(16d).

    Example:
        >>> round(float(jacobian_bound_from_far(0.5, 1, 100_000)), 6)  # 128·1.5 + 32
        224.0

    Implements: 001/lem-C.12 (C.94).
    """
    return 512 * d**4 * gap**2 * (1 + d * gap) + geometric_bound(1.0 * d, 1.0 * layers)


def two_phase_bound(gaps: Sequence[Any], d: int, first: Numeric = None) -> Numeric:
    """Σ_{ℓ ≤ S} (dψ_ℓ + 1) + 2 Σ_{ℓ > S} √(dψ_ℓ), S the first ℓ ≥ 0 with ψ_ℓ ≤ 1/(16d).

    Args:
        gaps: ψ_0 … ψ_L; the sums begin at ℓ = 1.
        d: width.
        first: what stands for ψ_ℓ in the first sum; each its own by default.

    Returns:
        The bound of Σ_{ℓ=1}^L log‖J_BN(H_ℓ)‖.

    Example:
        >>> two_phase_bound([1.0, 0.5, 0.01], 1)  # S = 2
        2.51
        >>> round(two_phase_bound([0.0, 0.04], 1), 12)  # S = 0
        0.4

    Implements: 001/lem-C.12 (C.88, C.89).
    """
    reached = [layer for layer, gap in enumerate(gaps) if gap * 16 * d <= 1]
    hit = reached[0] if reached else len(gaps)
    early = [d * (gap if first is None else first) + 1 for gap in gaps[1 : hit + 1]]
    late = [2 * (d * gap) ** 0.5 for gap in gaps[max(hit + 1, 1) :]]
    return sum(early) + sum(late)


def gradient_bound(gap: Numeric, d: int, layers: float | None = None, constant: float = 1.0) -> Numeric:
    """C d⁵(ψ₀³ + 1), or C d⁵(ψ₀³ + 1 − e^{−L/(32d⁴)}) for L layers: bounds of the expected log-norm of a gradient.

    The proof gives C = 512 · 17.

    Example:
        >>> gradient_bound(1.0, 2), gradient_bound(0.0, 2, 0)
        (64.0, 0.0)

    Implements: 001/thm-6.5, 001/thm-C.10, 001/lem-C.12, 001/eq-6.1-6.2.
    """
    depth = 1.0 if layers is None else -expm1(-layers / (32 * d**4))
    return constant * d**5 * (gap**3 + depth)
