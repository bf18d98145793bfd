"""Minimum-norm interpolation with a deep kernel: the bounds of paper 004 (§6, Appendix G).

The population is a finite set of inputs of equal weight, so that every expectation is a sum and nothing is estimated:
Σ has the eigenvalues of K_N/N, the optimal predictor v* fits the mean labels wherever K_N is non-singular, and the
excess risk is the mean squared distance of the interpolant to them
(`isometer_papers.theory.duals.small_interpolation`).
"""

from __future__ import annotations

import math

from isometer.errors import IsometerError
from isometer.theory.kernels import separation_depth


def interpolation_depth(n: int, nonlinearity: float, separation: float) -> int:
    """L = ⌈log n²/(−log(1 − μ/2))⌉ + L₀(Δ(n², γ)) of 004/thm-16; with n for n², the depth of 004/lem-54 for N = n.

    Example:
        >>> from isometer_papers.theory.kernel_learning.interpolation import interpolation_depth
        >>> interpolation_depth(16, 1.0, 0.6)
        8
    """
    # 1e-12: a quotient that is whole up to rounding is not rounded up
    return math.ceil(2 * math.log(n) / -math.log1p(-nonlinearity / 2) - 1e-12) + separation_depth(
        separation, nonlinearity
    )


def covariance_norm_bound(count: int) -> float:
    """8 ln(N)/N of 004/lem-54, on ‖Σ‖ for L ≥ ⌈log N/(−log(1 − μ/2))⌉ + L₀(Δ(N, γ)).

    Printed for every positive N; at N = 1 it is zero, which no covariance attains, and up to N = 26 it exceeds 1 ≥ ‖Σ‖.

    Implements 004/lem-54.

    Example:
        >>> from isometer_papers.theory.kernel_learning.interpolation import covariance_norm_bound
        >>> covariance_norm_bound(1), round(covariance_norm_bound(1000), 4)
        (0.0, 0.0553)
    """
    return 8.0 * math.log(count) / count


def excess_risk_bound(n: int, failure: float, optimal_norm: float) -> dict[str, float]:
    """004/thm-16: (log(n/γ)/n)‖v*‖² as printed, its constant taken as one, and what its proof gives.

    The proof's constants: ‖Σ‖ ≤ 16 ln(n)/n² in 004/eq-25 and 004/eq-26, doubled by 004/lem-55. It keeps a term without
    ‖v*‖² that the printed bound has lost: labels of pure noise have v* = 0 and a positive excess risk.

    Example:
        >>> from isometer_papers.theory.kernel_learning.interpolation import excess_risk_bound
        >>> noise = excess_risk_bound(1000, 0.1, 0.0)
        >>> noise["printed"], round(noise["proved"], 4)
        (0.0, 0.4421)
    """
    if n < 2 or not 0.0 < failure < 0.5 or optimal_norm < 0.0:
        raise IsometerError(f"004/thm-16 takes n ≥ 2 and γ in (0, ½); got {n!r}, {failure!r}, ‖v*‖² = {optimal_norm!r}")
    covariance = 16.0 * math.log(n) / n**2
    proved = 2.0 * covariance * optimal_norm + 4.0 * n * (1.0 + optimal_norm) * covariance
    return {"printed": math.log(n / failure) / n * optimal_norm, "proved": proved}
