"""001, §5.3: Hermite polynomials, Mehler's formula, the kernel map as a power series, Tables 5.1 and 5.2."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._statements import above, at_most, deterministic, equal
from isometer_papers.claims.joudaki2024.mean_field.chains import precise_library
from isometer_papers.claims.joudaki2024.mean_field.kernels import ALL, affine_too, kernel, search
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.hermite_identities import (
    gaussian_moment,
    hermite_coefficients,
    hermite_pairing_of,
    hermite_polynomial,
    hermite_value,
    mehler_kernel,
    mehler_sum,
    pair_moment,
    polynomial_value,
)

TABLE = {  # Table 5.1: polynomial, and the square of the number it is divided by in the second row
    0: ([1], 1),
    1: ([0, 1], 1),
    2: ([-1, 0, 1], 2),
    3: ([0, -3, 0, 1], 6),
    4: ([3, 0, -6, 0, 1], 24),
}


def _points(rng: Rng, count: int) -> Iterator[Instance]:
    for k in TABLE:
        for x in (0.0, 1.0, -2.0, 0.5):
            yield {"k": k, "x": x}
    for _ in range(count):
        yield {"k": int(rng.integers(0, 5)), "x": float(rng.normal() * 2)}


def _rodrigues(i: Instance) -> Numeric:
    """(−1)^k e^{x²/2} d^k/dx^k e^{−x²/2}, the derivatives taken one after the other: p ↦ x p − p′."""
    polynomial = [1]
    for _ in range(i["k"]):
        slope = [j * a for j, a in enumerate(polynomial)][1:]
        polynomial = [
            (polynomial[j - 1] if j else 0) - (slope[j] if j < len(slope) else 0) for j in range(len(polynomial) + 1)
        ]
    return polynomial_value(polynomial, i["x"])


def _size(i: Instance) -> Numeric:
    return 1 + abs(i["x"]) ** i["k"]


def _orders(rng: Rng, count: int) -> Iterator[Instance]:
    for n in range(7):
        for k in range(7):
            yield {"n": n, "k": k, "rho": 0.5}
    for _ in range(count):
        n = int(rng.integers(0, 11))
        yield {"n": n, "k": n if rng.integers(2) else int(rng.integers(0, 11)), "rho": float(rng.uniform(-1, 1))}


_same = cases(*({"n": n, "k": k, "rho": 1.0} for n in range(11) for k in range(11)))


def _mehler_points(rng: Rng, count: int) -> Iterator[Instance]:
    for x, y in ((0.0, 0.0), (1.0, 1.0), (1.0, -1.0)):
        for rho in (0.5, -0.5, 0.25):
            yield {"x": x, "y": y, "rho": rho}
    for _ in range(count):
        x, y = (float(v) for v in rng.uniform(-2, 2, 2))
        yield {"x": x, "y": y, "rho": float(rng.uniform(-0.6, 0.6))}


def _left(i: Instance) -> Numeric:
    return mehler_kernel(i["x"], i["y"], i["rho"], precise_library(i["rho"]))


def _left_at_zero(i: Instance) -> Numeric:
    return mehler_kernel(i["x"], i["y"], 0 * i["rho"], precise_library(i["rho"]))


def _density(square: Numeric, rest: Numeric, library: Any) -> Numeric:
    """exp(−square/2) over the root of `rest`: Gaussian densities without their factors of 2π."""
    return library.exp(-square / 2) / library.sqrt(rest)


def _density_ratio(i: Instance) -> Numeric:
    """p(x, y)/(p(x) p(y)); the factors of 2π cancel."""
    x, y, rho = i["x"], i["y"], i["rho"]
    library, one = precise_library(rho), 1 + 0 * rho
    rest = one - rho * rho
    joint = _density((x * x - 2 * rho * x * y + y * y) / rest, rest, library)
    return joint / (_density(x * x, one, library) * _density(y * y, one, library))


def _unscaled_pairing(i: Instance) -> Numeric:
    """E He_k He_l, from whole numbers."""
    one, two = hermite_polynomial(i["n"]), hermite_polynomial(i["k"])
    return sum(a * b * gaussian_moment(j + m) for j, a in enumerate(one) for m, b in enumerate(two))


def _terms(i: Instance) -> int:
    return 150 if isinstance(i["rho"], float) else 400


def _polynomials(rng: Rng, count: int) -> Iterator[Instance]:
    for hand in ([0, 1], [0, 0, 1], [0, 0, 0, 1], [1, 1], [1, -1, 0, 2], [1, 0, -1]):
        for rho in (0.5, -0.5, 0.9):
            yield {"phi": np.array(hand, dtype=float), "rho": rho}
    for _ in range(count):
        p = rng.integers(-3, 4, int(rng.integers(2, 9))).astype(float)
        if not p.any():
            p[-1] = 1.0
        yield {"phi": p, "rho": float(rng.uniform(-1, 1))}


def _expectation(i: Instance, rho: Numeric) -> Numeric:
    """E φ(X)φ(Y) from moments, without Hermite polynomials."""
    total = 0 * rho
    for j, a in enumerate(i["phi"]):
        for k, b in enumerate(i["phi"]):
            total = total + a * b * pair_moment(j, k, rho)
    return total


def _mean(i: Instance) -> Numeric:
    return sum(a * gaussian_moment(j) for j, a in enumerate(i["phi"]))


def _coefficients(i: Instance) -> list[Any]:
    return hermite_coefficients(i["phi"].tolist(), 1 + 0 * i["rho"])


def _series(i: Instance, power: int = 2) -> Numeric:
    return sum(c**power * i["rho"] ** k for k, c in enumerate(_coefficients(i)))


def _second(i: Instance) -> Numeric:
    return _expectation(i, 1 + 0 * i["rho"])


def _degree(i: Instance) -> int:
    return max(k for k, a in enumerate(i["phi"]) if a != 0)


CLAIMS = (
    deterministic(
        "001/def-5.4:rodrigues",
        equal(
            lambda i: hermite_value(i["k"], i["x"]),
            lambda i: _rodrigues(i) / (0 * i["x"] + math.factorial(i["k"])) ** ((1 + 0 * i["x"]) / 2),
        ),
        {"points": _points},
        scale=_size,
    ),
    deterministic(
        "001/tab-5.1:He",
        equal(_rodrigues, lambda i: polynomial_value(TABLE[i["k"]][0], i["x"])),
        {"points": _points},
        scale=_size,
    ),
    deterministic(
        "001/tab-5.1:he",
        equal(
            lambda i: hermite_value(i["k"], i["x"]),
            lambda i: (
                polynomial_value(TABLE[i["k"]][0], i["x"]) / (0 * i["x"] + TABLE[i["k"]][1]) ** ((1 + 0 * i["x"]) / 2)
            ),
        ),
        {"points": _points},
        scale=_size,
    ),
    deterministic(
        "001/eq-5.5",
        equal(lambda i: hermite_pairing_of(i["n"], i["k"], i["rho"]), lambda i: 1 if i["n"] == i["k"] else 0),
        {"orders": _same},
        scale=1,
    ),
    deterministic(
        "001/eq-5.5:unscaled",
        equal(_unscaled_pairing, lambda i: math.factorial(i["n"]) if i["n"] == i["k"] else 0),
        {"orders": _same},
    ),
    deterministic(
        "001/def-5.5",
        equal(
            lambda i: sum(c * hermite_value(k, i["rho"]) for k, c in enumerate(_coefficients(i))),
            lambda i: polynomial_value(i["phi"].tolist(), i["rho"]),
        ),
        {"polynomials": _polynomials},
        scale=lambda i: 1 + sum(abs(a) for a in i["phi"]),
        tolerance=1e-8,
    ),
    deterministic(
        "001/lem-5.6:pairing",
        equal(
            lambda i: hermite_pairing_of(i["n"], i["k"], i["rho"]),
            lambda i: i["rho"] ** i["n"] if i["n"] == i["k"] else 0,
        ),
        {"orders": _orders},
        scale=1,
        tolerance=1e-7,
    ),
    deterministic("001/lem-5.6:mehler", equal(_left, _left_at_zero), {"points": _mehler_points}),
    deterministic(
        "001/lem-5.6:mehler#corrected",
        equal(_left, lambda i: mehler_sum(i["x"], i["y"], i["rho"], _terms(i))),
        {"points": _mehler_points},
        search=Search(
            lambda p: {
                "x": 4 * float(p[0]) - 2,
                "y": 4 * float(p[1]) - 2,
                "rho": 1.2 * float(p[2]) - 0.6,
            },
            3,
            (100, 400),
        ),
        counts=(60, 300),
    ),
    deterministic("001/lem-5.6:density", equal(_left, _density_ratio), {"points": _mehler_points}),
    deterministic(
        "001/cor-5.7:series",
        equal(lambda i: _expectation(i, i["rho"]), _series),
        {"polynomials": _polynomials},
        scale=_second,
    ),
    deterministic("001/cor-5.7:middle", equal(_second, _series), {"polynomials": _polynomials}, scale=_second),
    deterministic(
        "001/tab-5.2:centred",
        equal(lambda i: _expectation(i, 0 * i["rho"]), lambda i: _mean(i) ** 2),
        {"polynomials": _polynomials},
        scale=_second,
    ),
    deterministic(
        "001/tab-5.2:centred-coefficient",
        equal(lambda i: _coefficients(i)[0], _mean),
        {"polynomials": _polynomials},
        scale=_second,
    ),
    deterministic(
        "001/tab-5.2:stable",
        equal(_second, lambda i: sum(c * c for c in _coefficients(i))),
        {"polynomials": _polynomials},
    ),
    deterministic(
        "001/tab-5.2:nonlinear",
        above(lambda i: sum(c * c for c in _coefficients(i)[2:]), 0),
        {"polynomials": _polynomials},
        hypotheses=lambda i: _degree(i) >= 2,
    ),
    deterministic(
        "001/tab-5.2:linear",
        equal(lambda i: sum(c * c for c in _coefficients(i)[2:]), 0),
        {"polynomials": _polynomials},
        hypotheses=lambda i: _degree(i) <= 1,
        scale=_second,
    ),
    deterministic(
        "001/claim-5.fix:range",
        at_most(lambda i: abs(kernel(i)(i["rho"])), 1),
        {"linear": affine_too, **ALL},
        search=search(4),
    ),
    deterministic(
        "001/claim-5.fix:one",
        equal(lambda i: kernel(i)(1 + 0 * i["rho"]), 1),
        {"linear": affine_too, **ALL},
        hypotheses=lambda i: "weights" in i or i["phi"] not in ("tanh", "softplus", "sigmoid"),
    ),
    deterministic(
        "001/claim-5.fix:series",
        equal(lambda i: _expectation(i, i["rho"]), lambda i: _series(i, 1)),
        {"polynomials": _polynomials},
        scale=_second,
    ),
)
