"""001 chapter 5, line by line: rates of convergence of kernel maps, printed and corrected, and the steps of the proof.

Every function takes a kernel (`KernelSeries`, `PreciseKernel` or anything with `at_zero`, `slope_at_zero`,
`slope_at_one`, `fixed_point`, `slope` and a value) and numbers of its precision. Nothing is asserted here.
"""

from __future__ import annotations

from typing import Any

from isometer_papers.float_or_mpmath import Numeric

__all__ = [
    "case_of",
    "centred_rate_of",
    "chord_terms",
    "combined_rate_as_printed",
    "distance_bound",
    "fixed_point_rate",
    "fixed_point_rate_as_printed",
    "interior_bound",
    "knife_edge_bound",
    "knife_edge_rate",
    "normalized_rate_of",
    "potential_bound",
    "potential_of",
    "potential_step",
    "slope_rate",
]


def potential_of(rho: Numeric) -> Numeric:
    """Ψ(ρ) = |ρ|/(1 − |ρ|) in any precision.

    Implements: 001/thm-5.8.

    Example:
        >>> potential_of(-0.5)
        1.0
    """
    return abs(rho) / (1 - abs(rho))


def centred_rate_of(kernel: Any) -> Numeric:
    """α = 1/(2 − κ′(0)) (001/thm-5.8): also the correction of the rate in case 1 of 001/thm-5.11 and in 001/thm-5.15.

    Attained for κ = cρ + (1 − c)ρ², as ρ → 1.

    Implements: 001/thm-5.8, 001/thm-5.11:case-1#corrected.

    Example:
        >>> from isometer_papers.theory.duals.kernel_series import KernelSeries
        >>> centred_rate_of(KernelSeries([0.0, 0.0, 1.0]))
        0.5
    """
    return 1 / (2 - kernel.slope_at_zero)


def slope_rate(kernel: Any) -> Numeric:
    """1/κ′(1), the rate printed in case 1 of 001/thm-5.11; 0 where κ′(1) is infinite.

    Implements: 001/thm-5.11:case-1 as printed.

    Example:
        >>> from isometer_papers.theory.duals.kernel_series import KernelSeries
        >>> slope_rate(KernelSeries([0.0, 0.0, 1.0]))
        0.5
    """
    return 1 / kernel.slope_at_one


def normalized_rate_of(kernel: Any) -> Numeric:
    """(κ(1) − κ(0))/κ′(1) of 001/thm-5.15 for a kernel with κ(1) = 1; the same for φ and for any multiple of it.

    Implements: 001/thm-5.15 as printed.

    Example:
        >>> from isometer_papers.theory.duals.kernel_series import KernelSeries
        >>> normalized_rate_of(KernelSeries([1.0, 0.0, 1.0]))
        0.5
    """
    return (1 - kernel.at_zero) / kernel.slope_at_one


def potential_bound(rho: Numeric, depth: int, rate: Numeric) -> Numeric:
    """Ψ(ρ₀) α^ℓ.

    Implements: 001/thm-5.8, 001/thm-5.11:case-1, 001/thm-5.15.

    Example:
        >>> potential_bound(0.5, 2, 0.5)
        0.25
    """
    return potential_of(rho) * rate**depth


def distance_bound(rho: Numeric, depth: int, rate: Numeric) -> Numeric:
    """|ρ₀ − 1| α^ℓ.

    Implements: 001/thm-5.11:case-2.

    Example:
        >>> distance_bound(0.5, 1, 0.5)
        0.25
    """
    return abs(rho - 1) * rate**depth


def knife_edge_rate(kernel: Any) -> Numeric:
    """α = 1 − κ(0) − κ′(0) of case 3.

    Implements: 001/thm-5.11:case-3.

    Example:
        >>> from isometer_papers.theory.duals.kernel_series import KernelSeries
        >>> knife_edge_rate(KernelSeries([1.0, 0.0, 1.0]))
        0.5
    """
    return 1 - kernel.at_zero - kernel.slope_at_zero


def knife_edge_bound(rho: Numeric, depth: int, rate: Numeric) -> Numeric:
    """|ρ₀ − 1|/(ℓα|ρ₀ − 1| + 1).

    Implements: 001/thm-5.11:case-3.

    Example:
        >>> knife_edge_bound(0.0, 2, 0.5)
        0.5
    """
    gap = abs(rho - 1)
    return gap / (depth * rate * gap + 1)


def fixed_point_rate_as_printed(kernel: Any) -> Numeric:
    """α = max{1 − κ(0), κ′(ρ*), (1 − ρ*)/(2 − κ′(ρ*))} of eq. 5.10.

    Implements: 001/thm-5.11:case-4 as printed.

    Example:
        >>> from isometer_papers.theory.duals.kernel_series import KernelSeries
        >>> round(fixed_point_rate_as_printed(KernelSeries([1.0, 0.0, 2.0])), 12)
        0.666666666667
    """
    slope = kernel.slope(kernel.fixed_point)
    return max(1 - kernel.at_zero, slope, (1 - kernel.fixed_point) / (2 - slope))


def combined_rate_as_printed(kernel: Any) -> Numeric:
    """max{1 − κ(0), κ′(ρ*), (1 − ρ*)/(1 − κ′(ρ*))}, what the end of the proof calls α.

    Implements: 001/thm-5.11.steps:combined as printed.

    Example:
        >>> from isometer_papers.theory.duals.kernel_series import KernelSeries
        >>> round(combined_rate_as_printed(KernelSeries([1.0, 0.0, 2.0])), 12)
        1.5
    """
    slope = kernel.slope(kernel.fixed_point)
    return max(1 - kernel.at_zero, slope, (1 - kernel.fixed_point) / (1 - slope))


def fixed_point_rate(kernel: Any) -> Numeric:
    """max{1 − κ(0), 1/(2 − κ′(ρ*))}: what the proof of case 4 gives once Σ a_k (1−ρ*)^{k−1} = 1 is used.

    1/(2 − s) ≥ s for every s < 1, so that κ′(ρ*) need not be named.

    Implements: 001/thm-5.11:case-4#corrected.

    Example:
        >>> from isometer_papers.theory.duals.kernel_series import KernelSeries
        >>> round(fixed_point_rate(KernelSeries([1.0, 0.0, 2.0])), 12)
        0.75
    """
    return max(1 - kernel.at_zero, 1 / (2 - kernel.slope(kernel.fixed_point)))


def interior_bound(kernel: Any, rho: Numeric, depth: int, rate: Numeric) -> Numeric:
    """|ρ₀ − ρ*|/(1 − |ρ₀|) α^ℓ.

    Implements: 001/thm-5.11:case-4.

    Example:
        >>> from isometer_papers.theory.duals.kernel_series import KernelSeries
        >>> interior_bound(KernelSeries([1.0, 0.0, 2.0]), 0.75, 0, 0.5)
        1.0
    """
    return abs(rho - kernel.fixed_point) / (1 - abs(rho)) * rate**depth


def potential_step(kernel: Any, rho: Numeric) -> tuple[Numeric, Numeric]:
    """|κ(ρ) − ρ*|/(1 − κ(ρ)) and |ρ − ρ*|/(1 − ρ): the two sides of the first step of case 4, without its rate.

    Implements: 001/thm-5.11.steps.

    Example:
        >>> from isometer_papers.theory.duals.kernel_series import KernelSeries
        >>> potential_step(KernelSeries([1.0, 0.0, 2.0]), 0.75)[1]
        1.0
    """
    star, after = kernel.fixed_point, kernel(rho)
    return abs(after - star) / (1 - after), abs(rho - star) / (1 - rho)


def chord_terms(rho: Numeric, order: int) -> Numeric:
    """k − Σ_{i<k} ρ^i.

    Implements: 001/thm-5.11.steps (cases 2 and 3).

    Example:
        >>> chord_terms(0.5, 2)
        0.5
    """
    return order - sum(rho**i for i in range(order))


def case_of(kernel: Any) -> int:
    """Which of the four cases of 001/thm-5.11 a kernel belongs to.

    Implements: 001/thm-5.11, 001/fig-5.2.

    Example:
        >>> from isometer_papers.theory.duals.kernel_series import KernelSeries
        >>> case_of(KernelSeries([1.0, 0.0, 1.0]))
        3
    """
    if kernel.at_zero == 0:
        return 1
    excess = kernel.slope_at_one - 1
    # κ′(1) is a rounded sum, which need not be 1 where it should be
    if abs(excess) < 1e-12:
        return 3
    return 2 if excess < 0 else 4
