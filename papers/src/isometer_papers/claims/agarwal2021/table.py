"""004, C.4: the table of dual activations and coefficients of non-linearity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isometer.activations import activation
from isometer_papers.claims._claim import Claim, Instance
from isometer_papers.claims._families import Family, cases
from isometer_papers.claims._precise import mpmath
from isometer_papers.claims._statements import deterministic, equal, vanishes
from isometer_papers.float_or_mpmath import Numeric, exp, pi_like
from isometer_papers.theory.duals.kernel_tables import (
    EXPONENTIAL_PRINTED,
    RELU_SQUARE_PRINTED,
    relu_dual,
    relu_dual_printed,
    step_dual,
    table_dual,
    table_nonlinearity,
)


def _table(name: str) -> Family:
    return cases(*({"sigma": name, "rho": rho} for rho in (0.5, 0.0, -0.5, 0.9)))


def _raw_dual(name: str) -> Callable[[Instance], Numeric]:
    return lambda i: table_dual(name, i["rho"])


def _exact_table(name: str) -> Callable[[Instance], Numeric]:
    """E σ(X)E[σ(X′)|X] by an mpmath integral; X′ given X is N(ρX, 1 − ρ²)."""

    def value(i: Instance) -> Numeric:
        lib = mpmath()
        rho = lib.mpf(i["rho"])
        rest = lib.sqrt(1 - rho**2)
        functions: dict[str, Any] = {
            "relu": (lambda u: max(u, 0), lambda m: rest * lib.npdf(m / rest) + m * lib.ncdf(m / rest)),
            "step": (lambda u: 1 if u >= 0 else 0, lambda m: lib.ncdf(m / rest)),
            "exp": (lib.exp, lambda m: lib.exp(m + rest**2 / 2)),
            "hermite": (lambda u: (u * u - 1) / lib.sqrt(2), lambda m: (m * m + rest**2 - 1) / lib.sqrt(2)),
            "identity": (lambda u: u, lambda m: m),
        }
        outer, inner = functions[name]
        return lib.quad(lambda x: outer(x) * inner(rho * x) * lib.npdf(x), [-18, -6, 0, 6, 18])

    return value


def _table_sides(name: str) -> Callable[[Instance], tuple[Numeric, Numeric]]:
    return lambda i: (_exact_table(name)(i), table_dual(name, i["rho"]))


def _one_row(name: str) -> Family:
    return lambda rng, count: iter([{"sigma": name, "rho": 0.5}])


_LIBRARY = {"identity": "x", "hermite": "(x**2 - 1)/sqrt(2)", "relu": "relu", "step": "step", "exp": "exp"}


def _library_dual(i: Instance) -> Numeric:
    """The library's own dual, by quadrature and Hermite coefficients."""
    return float(activation(_LIBRARY[i["sigma"]]).dual.value(np.array(float(i["rho"]))))


def _library_mu(i: Instance) -> Numeric:
    return activation(_LIBRARY[i["sigma"]]).nonlinearity


def _coefficients(i: Instance) -> Numeric:
    """1 − σ̂′(0)/(σ̂(1) − σ̂(0)) of the closed forms."""
    name, zero = i["sigma"], i["rho"] * 0
    step = zero + 1e-6
    slope = (table_dual(name, step) - table_dual(name, -step)) / (2 * step)
    return 1 - slope / (table_dual(name, zero + 1) - table_dual(name, zero))


def _table_claims() -> list[Claim]:
    found = [
        deterministic(
            "004/tab-mu:relu-dual",
            equal(_library_dual, lambda i: relu_dual_printed(i["rho"])),
            {"cosines": _table("relu")},
            exact=lambda i: (_exact_table("relu")(i), relu_dual_printed(i["rho"])),
            scale=1,
            tolerance=1e-6,
        )
    ]
    for name in _LIBRARY:
        if name != "exp":
            correction = "#corrected" if name == "relu" else ""
            found.append(
                deterministic(
                    f"004/tab-mu:{name}-dual{correction}",
                    equal(_library_dual, _raw_dual(name)),
                    {"cosines": _table(name)},
                    exact=_table_sides(name),
                    scale=1,
                    tolerance=1e-6,
                )
            )
        found.append(
            deterministic(
                f"004/tab-mu:{name}-mu",
                equal(_library_mu, lambda i: table_nonlinearity(i["sigma"], i["rho"])),
                {"one": _one_row(name)},
                exact=lambda i: (_coefficients(i), table_nonlinearity(i["sigma"], i["rho"])),
                scale=1,
                tolerance=1e-6,
            )
        )
    return found


def _relu_square(i: Instance) -> Numeric:
    """The coefficient of ρ² of σ̂ for ReLU: E[max(X, 0)(X² − 1)]²/2."""
    return 1 / (4 * pi_like(i["rho"]))


def _relu_second(i: Instance) -> Numeric:
    h = i["rho"]
    return (relu_dual(h) + relu_dual(-h) - 2 * relu_dual(h * 0)) / (2 * h * h)


_small = cases({"rho": 0.001})


def _series_gap(name: str) -> Callable[[Instance], Numeric]:
    """Closed form minus the printed first terms, over the next power."""
    if name == "step":
        return lambda i: (
            step_dual(i["rho"])
            - (i["rho"] * 0 + 0.25 + (i["rho"] / 2 + i["rho"] ** 3 / 12 + 3 * i["rho"] ** 5 / 80) / pi_like(i["rho"]))
        )
    return lambda i: relu_dual(i["rho"])


CLAIMS = (
    *_table_claims(),
    deterministic(
        "004/tab-mu:exp-dual",
        equal(_library_dual, lambda i: exp(i["rho"] + EXPONENTIAL_PRINTED)),
        {"cosines": _table("exp")},
        exact=lambda i: (_exact_table("exp")(i), exp(i["rho"] + EXPONENTIAL_PRINTED)),
        tolerance=1e-6,
    ),
    deterministic(
        "004/tab-mu:exp-dual#corrected",
        equal(_library_dual, _raw_dual("exp")),
        {"cosines": _table("exp")},
        exact=_table_sides("exp"),
        tolerance=1e-6,
    ),
    deterministic(
        "004/tab-mu:relu-series",
        equal(_relu_second, lambda i: 1 / (RELU_SQUARE_PRINTED * pi_like(i["rho"]))),
        {"one": _small},
        tolerance=1e-4,
    ),
    deterministic(
        "004/tab-mu:relu-series#corrected", equal(_relu_second, _relu_square), {"one": _small}, tolerance=1e-4
    ),
    deterministic(
        "004/tab-mu:step-series",
        vanishes(_series_gap("step")),
        {"one": lambda rng, count: iter([{"rho": 0.01}, {"rho": -0.02}])},
    ),
)
