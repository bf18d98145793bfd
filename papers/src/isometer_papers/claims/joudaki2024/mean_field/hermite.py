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
from isometer_papers.theory.duals.hermite_identities import (
    gaussian_moment,
    hermite_coefficients,
    hermite_pairing_of,
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


def _rodrigues(i: Instance) -> Any:
    """(−1)^k e^{x²/2} d^k/dx^k e^{−x²/2}, the derivatives taken one after the other: p ↦ x p − p′."""
    polynomial = [1]
    for _ in range(i["k"]):
        slope = [j * a for j, a in enumerate(polynomial)][1:]
        polynomial = [
            (polynomial[j - 1] if j else 0) - (slope[j] if j < len(slope) else 0) for j in range(len(polynomial) + 1)
        ]
    return polynomial_value(polynomial, i["x"])


def _size(i: Instance) -> Any:
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


def _left(i: Instance) -> Any:
    return mehler_kernel(i["x"], i["y"], i["rho"], precise_library(i["rho"]))


def _left_at_zero(i: Instance) -> Any:
    return mehler_kernel(i["x"], i["y"], 0 * i["rho"], precise_library(i["rho"]))


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


def _expectation(i: Instance, rho: Any) -> Any:
    """E φ(X)φ(Y) from moments, without Hermite polynomials."""
    total = 0 * rho
    for j, a in enumerate(i["phi"]):
        for k, b in enumerate(i["phi"]):
            total = total + a * b * pair_moment(j, k, rho)
    return total


def _mean(i: Instance) -> Any:
    return sum(a * gaussian_moment(j) for j, a in enumerate(i["phi"]))


def _coefficients(i: Instance) -> list[Any]:
    return hermite_coefficients(i["phi"].tolist(), 1 + 0 * i["rho"])


def _series(i: Instance, power: int = 2) -> Any:
    return sum(c**power * i["rho"] ** k for k, c in enumerate(_coefficients(i)))


def _second(i: Instance) -> Any:
    return _expectation(i, 1 + 0 * i["rho"])


def _degree(i: Instance) -> int:
    return max(k for k, a in enumerate(i["phi"]) if a != 0)


CLAIMS = (
    deterministic(
        "001/def-5.4:rodrigues",
        "Definition 5.4",
        "he_k = He_k/√k!, He_k = (−1)^k e^{x²/2} d^k/dx^k e^{−x²/2}: the recurrence gives the same",
        equal(
            lambda i: hermite_value(i["k"], i["x"]),
            lambda i: _rodrigues(i) / (0 * i["x"] + math.factorial(i["k"])) ** ((1 + 0 * i["x"]) / 2),
        ),
        {"points": _points},
        scale=_size,
    ),
    deterministic(
        "001/tab-5.1:He",
        "Table 5.1, first row",
        "He_0 … He_4 = 1, x, x²−1, x³−3x, x⁴−6x²+3",
        equal(_rodrigues, lambda i: polynomial_value(TABLE[i["k"]][0], i["x"])),
        {"points": _points},
        scale=_size,
    ),
    deterministic(
        "001/tab-5.1:he",
        "Table 5.1, second row",
        "he_0 … he_4 = 1, x, (x²−1)/√2, (x³−3x)/√6, (x⁴−6x²+3)/√24",
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
        "eq. 5.5",
        "E he_k he_l = δ_kl",
        equal(lambda i: hermite_pairing_of(i["n"], i["k"], i["rho"]), lambda i: 1 if i["n"] == i["k"] else 0),
        {"orders": _same},
        scale=1,
        scope="k, l ≤ 10, by exact moments",
    ),
    deterministic(
        "001/def-5.5",
        "Definition 5.5",
        "φ(x) = Σ c_k he_k(x), c_k = E φ he_k",
        equal(
            lambda i: sum(c * hermite_value(k, i["rho"]) for k, c in enumerate(_coefficients(i))),
            lambda i: polynomial_value(i["phi"].tolist(), i["rho"]),
        ),
        {"polynomials": _polynomials},
        scale=lambda i: 1 + sum(abs(a) for a in i["phi"]),
        tolerance=1e-8,
        scope="polynomials up to degree 7 at x in [−1, 1]",
    ),
    deterministic(
        "001/lem-5.6:pairing",
        "Lemma 5.6",
        "E he_n(X) he_k(Y) = ρ^n δ_nk",
        equal(
            lambda i: hermite_pairing_of(i["n"], i["k"], i["rho"]),
            lambda i: i["rho"] ** i["n"] if i["n"] == i["k"] else 0,
        ),
        {"orders": _orders},
        scale=1,
        tolerance=1e-7,
        scope="n, k ≤ 10, by exact moments",
    ),
    deterministic(
        "001/lem-5.6:mehler",
        "proof of Lemma 5.6",
        "(1−ρ²)^{−1/2} exp(−(ρ²(x²+y²) − 2xyρ)/(2(1−ρ²))) = Σ_m he_m(x)he_m(y)",
        equal(_left, _left_at_zero),
        {"points": _mehler_points},
        corrected="001/lem-5.6:mehler#corrected",
        scope="a consequence: the right side does not depend on ρ, so the left side is that of ρ = 0",
        remark="ρ^m is missing; without it the sum diverges, at x = y = 0 for example",
    ),
    deterministic(
        "001/lem-5.6:mehler#corrected",
        "proof of Lemma 5.6",
        "(1−ρ²)^{−1/2} exp(−(ρ²(x²+y²) − 2xyρ)/(2(1−ρ²))) = Σ_m ρ^m he_m(x)he_m(y)",
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
        scope="|x|, |y| ≤ 2, |ρ| ≤ 0.6, 150 terms",
    ),
    deterministic(
        "001/cor-5.7:series",
        "Corollary 5.7",
        "κ(ρ) = E φ(X)φ(Y) = Σ c_k² ρ^k",
        equal(lambda i: _expectation(i, i["rho"]), _series),
        {"polynomials": _polynomials},
        scale=_second,
        scope="polynomials up to degree 7, by exact moments",
    ),
    deterministic(
        "001/cor-5.7:middle",
        "Corollary 5.7",
        "E φ(X)φ(X) = Σ c_k² ρ^k",
        equal(_second, _series),
        {"polynomials": _polynomials},
        scale=_second,
        corrected="001/cor-5.7:series",
        remark="the second X should be Y; as it stands the left side is κ(1)",
    ),
    deterministic(
        "001/tab-5.2:centred",
        "Table 5.2",
        "E φ = 0 ⇔ κ(0) = 0: κ(0) = (E φ)²",
        equal(lambda i: _expectation(i, 0 * i["rho"]), lambda i: _mean(i) ** 2),
        {"polynomials": _polynomials},
        scale=_second,
    ),
    deterministic(
        "001/tab-5.2:centred-coefficient",
        "Table 5.2",
        "E φ = 0 ⇔ c_0 = 0: c_0 = E φ",
        equal(lambda i: _coefficients(i)[0], _mean),
        {"polynomials": _polynomials},
        scale=_second,
    ),
    deterministic(
        "001/tab-5.2:stable",
        "Table 5.2",
        "E φ² = 1 ⇔ Σ c_k² = 1 ⇔ κ(1) = 1: κ(1) = Σ c_k² = E φ²",
        equal(_second, lambda i: sum(c * c for c in _coefficients(i))),
        {"polynomials": _polynomials},
    ),
    deterministic(
        "001/tab-5.2:nonlinear",
        "Table 5.2",
        "φ non-linear ⇒ Σ_{k≥2} c_k² > 0",
        above(lambda i: sum(c * c for c in _coefficients(i)[2:]), 0),
        {"polynomials": _polynomials},
        hypotheses=lambda i: _degree(i) >= 2,
        remark="non-linear has to mean not affine: 1 + x has c_k = 0 for k ≥ 2",
    ),
    deterministic(
        "001/tab-5.2:linear",
        "Table 5.2",
        "φ linear ⇒ Σ_{k≥2} c_k² = 0 and κ is linear",
        equal(lambda i: sum(c * c for c in _coefficients(i)[2:]), 0),
        {"polynomials": _polynomials},
        hypotheses=lambda i: _degree(i) <= 1,
        scale=_second,
    ),
    deterministic(
        "001/claim-5.fix:range",
        "§5.2",
        "E φ² = 1 ⇒ κ maps [−1, 1] to itself",
        at_most(lambda i: abs(kernel(i)(i["rho"])), 1),
        {"linear": affine_too, **ALL},
        search=search(4),
    ),
    deterministic(
        "001/claim-5.fix:one",
        "§5.2, §5.4",
        "E φ² = 1 ⇒ ρ = 1 is a fixed point of κ",
        equal(lambda i: kernel(i)(1 + 0 * i["rho"]), 1),
        {"linear": affine_too, **ALL},
        hypotheses=lambda i: "weights" in i or i["phi"] not in ("tanh", "softplus", "sigmoid"),
    ),
    deterministic(
        "001/claim-5.fix:series",
        "§5.4",
        "κ(ρ) = Σ_k c_k ρ^k",
        equal(lambda i: _expectation(i, i["rho"]), lambda i: _series(i, 1)),
        {"polynomials": _polynomials},
        scale=_second,
        corrected="001/cor-5.7:series",
        remark="the squares of c_k are missing; c_k itself can be negative",
    ),
)
