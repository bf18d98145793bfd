"""Both sides of the contraction inequalities of 001 chapter 5."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import cases
from isometer_papers.claims.joudaki2024.mean_field.kernels import (
    RHOS,
    VISIBLE,
    after,
    in_case,
    inner,
    kernel,
    nonlinear,
)
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.global_convergence import centred_rate_of, potential_bound, potential_of


def potential(i: Instance) -> Numeric:
    """Ψ(ρ_ℓ)."""
    return potential_of(after(i))


def seen(bound: Callable[[Instance], Numeric], *cases: int) -> Callable[[Instance], bool]:
    """In one of the cases, and with a bound that rounding does not touch."""
    inside = in_case(*cases)
    return lambda i: inner(i) and inside(i) and bound(i) >= VISIBLE


def by_centred_rate(i: Instance) -> Numeric:
    """Ψ(ρ₀)(2 − κ′(0))^{−ℓ}."""
    return potential_bound(i["rho"], i["depth"], centred_rate_of(kernel(i)))


def move(i: Instance) -> Numeric:
    """|κ(ρ) − ρ|."""
    return abs(kernel(i)(i["rho"]) - i["rho"])


def away(i: Instance) -> bool:
    """A point that is neither ±1 nor ρ*."""
    return inner(i) and nonlinear(i) and abs(i["rho"] - kernel(i).fixed_point) > 1e-3


# κ(ρ) = ρ at many points.
identities = cases(*({"weights": np.array([0.0, 1.0]), "rho": rho, "depth": 1} for rho in (*RHOS, -1.0, 1.0, 0.0)))
