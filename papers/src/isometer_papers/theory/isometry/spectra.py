"""Eigenvalues λ = 1 + ε of XXᵀ that sum to d: the gap, and what one layer of rotation and batch norm takes off it."""

from __future__ import annotations

import numpy as np

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric, is_precise, log, log1p

__all__ = [
    "deviation_root",
    "deviation_root_as_printed",
    "deviation_terms",
    "eigenvalue_variance",
    "gain_factor",
    "gap_step_bound",
    "log_lower",
    "log_upper",
    "log_upper_as_printed",
    "spectrum_gap",
    "variance_step_bound",
]


def _spectrum(values: Numeric) -> Numeric:
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or any(value < 0 for value in array):
        raise IsometerError(f"eigenvalues have shape {array.shape}; expected numbers ≥ 0, (d,) — pass those of XXᵀ")
    return array


def spectrum_gap(values: Numeric) -> Numeric:
    """ψ = log mean λ − mean log λ; inf if one is 0.

    Example:
        >>> round(float(spectrum_gap([1.5, 0.5])), 6)  # −log(0.75)/2
        0.143841

    Implements: 001/def-6.5, 001/lem-C.9 (C.52).
    """
    array = _spectrum(values)
    relative = array / (array.sum() / len(array))
    if any(value == 0 for value in relative):
        return np.inf
    if is_precise(array):
        return -log(relative).sum() / len(array)
    # the ε sum to 0: ψ = −mean(log(1 + ε) − ε), whose terms have one sign
    excess = relative - 1
    near = np.abs(excess) < 1e-3  # the series, where log(1+ε) − ε cancels
    series = -(excess**2) / 2 + excess**3 / 3 - excess**4 / 4 + excess**5 / 5 - excess**6 / 6
    return -np.where(near, series, np.log(relative) - excess).sum() / len(array)


def eigenvalue_variance(values: Numeric) -> Numeric:
    """σ_λ = (1/d) Σ (λ_k − 1)².

    Example:
        >>> float(eigenvalue_variance([1.5, 0.5]))
        0.25

    Implements: 001/metric-sigma-lambda (C.51).
    """
    array = _spectrum(values)
    return ((array - 1) ** 2).sum() / len(array)


def gain_factor(values: Numeric) -> Numeric:
    """(1 − Σ(λ_k − 1)²/(2d²(d+2)))^{−1}, the least factor by which expected isometry grows.

    Example:
        >>> float(gain_factor([1.0, 1.0]))
        1.0

    Implements: 001/thm-6.3, 001/thm-C.4.
    """
    array = _spectrum(values)
    d = len(array)
    return 1 / (1 - ((array - 1) ** 2).sum() / (2 * d**2 * (d + 2)))


def gap_step_bound(values: Numeric) -> Numeric:
    """log(1 − Σ(λ_k − 1)²/(2d²(d+2))), what is added to the gap at most in expectation.

    Example:
        >>> float(gap_step_bound([1.0, 1.0])) == 0
        True

    Implements: 001/cor-6.4, 001/cor-C.6.
    """
    array = _spectrum(values)
    d = len(array)
    return log1p(-((array - 1) ** 2).sum() / (2 * d**2 * (d + 2)))


def variance_step_bound(values: Numeric, *, shifted: bool = False) -> Numeric:
    """−σ_λ/(2d²), or −σ_λ/(2d(d+2)) with `shifted`, which is what follows from 001/cor-C.6.

    Example:
        >>> float(variance_step_bound([1.5, 0.5])), float(variance_step_bound([1.5, 0.5], shifted=True))
        (-0.03125, -0.015625)

    Implements: 001/eq-C.48.
    """
    d = len(_spectrum(values))
    return -eigenvalue_variance(values) / (2 * d * (d + 2 if shifted else d))


def deviation_terms(values: Numeric) -> Numeric:
    """3ε²/(6 + 4ε) of every eigenvalue; dψ is at least their sum.

    Example:
        >>> deviation_terms([1.5, 0.5]).tolist()
        [0.09375, 0.1875]

    Implements: 001/lem-C.9 (C.54, C.55).
    """
    excess = _spectrum(values) - 1
    return 3 * excess**2 / (6 + 4 * excess)


def deviation_root(c: Numeric, sign: int = 1) -> Numeric:
    """The root ε of 3ε² = (6 + 4ε) c/16 with the sign given: c/24 ± √(c²/576 + c/8).

    If ψ ≤ c/(16d), all eigenvalues lie between 1 plus the lower and 1 plus the upper root. For c = 1 the roots are
    (1 ± √73)/24.

    Example:
        >>> round(deviation_root(1.0), 6), round(deviation_root(1.0, -1), 6)
        (0.397667, -0.314333)

    Implements: 001/lem-C.8 (corrected), 001/lem-C.9 (the quadratic equation, solved).
    """
    return c / 24 + sign * (c**2 / 576 + c / 8) ** 0.5


def deviation_root_as_printed(sign: int = 1) -> float:
    """(1 ± √74)/24.

    Example:
        >>> round(deviation_root_as_printed(), 6)
        0.400097

    Implements: 001/lem-C.9 (the quadratic equation, as printed).
    """
    return float((1 + sign * 74**0.5) / 24)


def log_lower(x: Numeric) -> Numeric:
    """x − x², at most log(1 + x) for |x| ≤ ½.

    Example:
        >>> log_lower(-0.5)
        -0.75

    Implements: 001/lem-C.9 (C.52).
    """
    return x - x**2


def log_upper(x: Numeric) -> Numeric:
    """x − 3x²/(6 + 4x), at least log(1 + x) for x > −1.

    Example:
        >>> log_upper(1.0)
        0.7

    Implements: 001/lem-C.9 (C.54).
    """
    return x - 3 * x**2 / (6 + 4 * x)


def log_upper_as_printed(x: Numeric) -> Numeric:
    """x − (6 + x)/(6 + 4x), as the text under C.54 has it.

    Example:
        >>> log_upper_as_printed(0.0)
        -1.0

    Implements: 001/lem-C.9 (the inequality under C.54, as printed).
    """
    return x - (6 + x) / (6 + 4 * x)
