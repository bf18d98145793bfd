"""The shares p_i in 50 digits, by quadrature of their integral: the second computation behind certificates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._precise import mpmath
from isometer_papers.float_or_mpmath import Numeric, is_precise, library_of
from isometer_papers.theory.orthogonality.bounds import unit_trace


def precise_share(squares: Numeric, index: int = -1) -> Numeric:
    """p_i of a spectrum of mpmath numbers."""
    library = mpmath()
    values = list(unit_trace(squares))
    own = values[index]

    def integrand(t: Numeric) -> Numeric:
        product = library.mpf(1)
        for value in values:
            product *= 1 + 2 * t * value
        return own / (1 + 2 * t * own) / library.sqrt(product)

    # a panel for each scale 1/(2σ_i²) at which a factor bends; those within a factor of 2 share one
    edges = sorted({0, *(1 / (2 * value) for value in values)})
    joined = [edges[0]]
    for edge in edges[1:]:
        if edge > 2 * joined[-1]:
            joined.append(edge)
    return library.quad(integrand, [*joined, library.inf])


def derivative(function: Callable[[Any], Any], at: Any) -> Any:
    """Of an analytic function: by a complex step, or in the precision of an mpmath number."""
    if is_precise(at):
        return library_of(at).diff(function, at)
    step = 1e-40  # nothing is subtracted, and squares of the step vanish in float64
    return function(complex(at, step)).imag / step


def sides(
    left: Callable[[Any], Any], right: Callable[[Instance], Numeric]
) -> Callable[[Instance], tuple[Numeric, Numeric]]:
    """`exact` of a claim whose left side is a function of the smallest share."""
    return lambda i: (left(precise_share(i["squares"])), right(i))
