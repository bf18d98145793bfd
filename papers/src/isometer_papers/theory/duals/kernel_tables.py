"""The table of dual activations in 004 C.4, for float64 and mpmath numbers."""

from __future__ import annotations

from isometer.errors import IsometerError
from isometer_papers.float_or_mpmath import Numeric, acos, exp, pi_like
from isometer_papers.theory.duals.exact_duals import relu_arc

__all__ = [
    "EXPONENTIAL_PRINTED",
    "RELU_SQUARE_PRINTED",
    "parameter_count",
    "relu_dual",
    "relu_dual_printed",
    "step_dual",
    "table_dual",
    "table_nonlinearity",
]

EXPONENTIAL_PRINTED = 3  # the table prints e^{ρ + 3} for the dual of e^u
RELU_SQUARE_PRINTED = 2  # and ρ²/2π in the series of ReLU


def parameter_count(inputs: int, width: int, depth: int) -> int:
    """dm + (L − 1)m² + m.

    Example:
        >>> parameter_count(3, 2, 2)
        12

    Implements: 004/eq-1.
    """
    return inputs * width + (depth - 1) * width**2 + width


def relu_dual(rho: Numeric) -> Numeric:
    """(√(1 − ρ²) + (π − arccos ρ)ρ)/2π.

    Example:
        >>> float(relu_dual(1.0))
        0.5

    Implements: 004/tab-mu.
    """
    return relu_arc(rho) / (2 * pi_like(rho))


def relu_dual_printed(rho: Numeric) -> Numeric:
    """(√(1 − ρ²) + (π − arccos ρ)ρ)/(−1/2π), as the table has it.

    Example:
        >>> round(float(relu_dual_printed(1.0)), 4)
        -19.7392

    Implements: 004/tab-mu.
    """
    return relu_arc(rho) / (-1 / (2 * pi_like(rho)))


def step_dual(rho: Numeric) -> Numeric:
    """(π − arccos ρ)/2π.

    Example:
        >>> float(step_dual(0.0))
        0.25

    Implements: 004/tab-mu.
    """
    pi = pi_like(rho)
    return (pi - acos(rho)) / (2 * pi)


def table_dual(name: str, rho: Numeric) -> Numeric:
    """σ̂ of identity, hermite ((u² − 1)/√2), relu, step and exp, as the functions are, not normalised.

    Example:
        >>> round(float(table_dual("exp", 1.0)), 6)  # E e^{2X}
        7.389056

    Implements: 004/tab-mu.
    """
    if name == "identity":
        return rho
    if name == "hermite":
        return rho * rho
    if name == "relu":
        return relu_dual(rho)
    if name == "step":
        return step_dual(rho)
    if name == "exp":
        return exp(rho + 1)
    raise IsometerError(f"no row {name!r}; expected identity, hermite, relu, step or exp")


def table_nonlinearity(name: str, like: Numeric = 1.0) -> Numeric:
    """μ of the table, in the precision of `like`.

    Example:
        >>> round(table_nonlinearity("relu"), 6)
        0.266529

    Implements: 004/tab-mu.
    """
    pi, e = pi_like(like), exp(like * 0 + 1)
    rows = {
        "identity": 0,
        "hermite": 1,
        "relu": (pi - 2) / (2 * pi - 2),
        "step": (pi - 2) / pi,
        "exp": (e - 2) / (e - 1),
    }
    if name not in rows:
        raise IsometerError(f"no row {name!r}; expected identity, hermite, relu, step or exp")
    return rows[name]
