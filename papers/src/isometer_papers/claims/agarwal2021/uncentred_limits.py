"""004, §3.4 and C.3: convergence of cosines for activations with a mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer.theory.kernels import knife_edge_depth, uncentred_depth
from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Rng
from isometer_papers.claims._statements import asymptotic, at_least, at_most, deterministic
from isometer_papers.claims.agarwal2021.instances import dual_of, like, nonaffinity, random_squares
from isometer_papers.claims.agarwal2021.uncentred import critical, critical_cases, fixed_point, fixed_slope, simple
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.exact_duals import dual_slope, dual_value, iterated_dual


def _settled(i: Instance) -> bool:
    """σ̂(0) > 0, and ρ̄ < 1."""
    return bool(dual_value(dual_of(i), like(i)) > 1e-3 and fixed_point(i) < 1 - 1e-6)


def _start(i: Instance) -> int:
    at_zero = float(dual_value(dual_of(i), like(i)))
    return uncentred_depth(float(1 - abs(i["rho"])), float(nonaffinity(i)), float(fixed_point(i)), at_zero)


def _rate(i: Instance) -> Numeric:
    fixed = fixed_point(i)
    return max(1 - nonaffinity(i) * (1 - fixed) / 2, dual_slope(dual_of(i), fixed))


def _converged(i: Instance) -> Numeric:
    return abs(iterated_dual(dual_of(i), i["rho"], _start(i) + i["more"]) - fixed_point(i))


def _paths(rng: Rng, count: int) -> Iterator[Instance]:
    for dual in simple(rng, count):
        for rho in (0.5, 0.99, -0.5, -0.99):
            for more in (0, 1, 5):
                yield {**dual, "rho": rho, "more": more}
    for _ in range(count):
        rho = float(rng.choice([rng.uniform(-1, 1), 1 - 10 ** -rng.uniform(1, 4), -1 + 10 ** -rng.uniform(1, 4)]))
        yield {"squares": random_squares(rng, centred=False), "rho": rho, "more": int(rng.integers(0, 20))}


def _search_paths() -> Search:
    def build(point: Numeric) -> Instance:
        squares = np.array([point[0] + 0.01, point[1], point[2] + 0.02, point[3]])
        rho = (1 - 10 ** (-4 * float(point[4]))) * (1 if point[5] > 0.5 else -1)
        return {"squares": squares / squares.sum(), "rho": rho, "more": int(10 * point[6])}

    return Search(build, 7, (200, 1000))


def _search_critical() -> Search:
    def build(point: Numeric) -> Instance:
        squares = critical(2 + int(3.99 * point[0]), 0.04 + 0.16 * float(point[1]))
        return {"squares": squares, "epsilon": 0.05 + 0.44 * float(point[2]), "rho": 2 * float(point[3]) - 1}

    return Search(build, 4, (100, 300))


def _knife_edge(part: str) -> Any:
    """Depth of Lemma 36 with μ̃, or with μ = 1 − a_1² as it is printed."""

    def reached(i: Instance) -> Numeric:
        at_zero = float(dual_value(dual_of(i), like(i)))
        mu = 1 - float(dual_slope(dual_of(i), like(i))) if part == "printed" else float(nonaffinity(i))
        return iterated_dual(dual_of(i), i["rho"], knife_edge_depth(float(i["epsilon"]), mu, at_zero))

    return reached


def _derivative_step(i: Instance) -> Numeric:
    return 1 - dual_slope(dual_of(i), 1 - i["epsilon"])


def _contraction_step(i: Instance) -> Numeric:
    alpha = i["epsilon"]
    return 2 * alpha**2 * nonaffinity(i) + (1 - 2 * alpha * nonaffinity(i)) * (1 - i["rho"])


def _limit(i: Instance) -> Numeric:
    return abs(iterated_dual(dual_of(i), i["rho"], i["depth"]) - fixed_point(i))


def _limits(rng: Rng, count: int) -> Iterator[Instance]:
    for dual in (*simple(rng, count), {"dual": "relu"}, {"dual": "sin"}, {"squares": np.array([0.0, 0.0, 1.0])}):
        for rho in (0.9, -0.9):
            yield {**dual, "rho": rho, "depth": 2000}
    for _ in range(count):
        yield {
            "squares": random_squares(rng, centred=bool(rng.integers(2))),
            "rho": float(rng.uniform(-0.99, 0.99)),
            "depth": 2000,
        }


def _nonnegative_mean(i: Instance) -> bool:
    return bool(i["rho"] >= 0 and i["rho"] <= 1 - i["epsilon"])


CLAIMS = (
    deterministic(
        "004/lem-35",
        at_most(_converged, lambda i: _rate(i) ** i["more"] * (1 + fixed_point(i)) / 2),
        {"random": _paths},
        hypotheses=_settled,
        search=_search_paths(),
    ),
    deterministic(
        "004/lem-35:one",
        at_most(_converged, 1),
        {"random": _paths},
        hypotheses=lambda i: bool(fixed_point(i) == 1 and dual_value(dual_of(i), like(i)) > 1e-3),
    ),
    deterministic(
        "004/lem-35:one-rate",
        at_most(lambda i: 1 - dual_value(dual_of(i), i["rho"]), lambda i: fixed_slope(i) * (1 - i["rho"])),
        {"random": _paths},
        hypotheses=lambda i: bool(fixed_point(i) == 1 and i["rho"] >= 0),
    ),
    deterministic(
        "004/lem-36",
        at_least(_knife_edge("proof"), lambda i: 1 - i["epsilon"]),
        {"random": critical_cases},
        search=_search_critical(),
        counts=(60, 150),
    ),
    deterministic(
        "004/lem-36:printed-mu",
        at_least(_knife_edge("printed"), lambda i: 1 - i["epsilon"]),
        {"random": critical_cases},
        search=_search_critical(),
        counts=(60, 150),
    ),
    deterministic(
        "004/lem-36:derivative",
        at_least(_derivative_step, lambda i: 2 * i["epsilon"] * nonaffinity(i)),
        {"random": critical_cases},
        search=_search_critical(),
    ),
    deterministic(
        "004/lem-36:contraction",
        at_most(lambda i: 1 - dual_value(dual_of(i), i["rho"]), _contraction_step),
        {"random": critical_cases},
        hypotheses=_nonnegative_mean,
        search=_search_critical(),
    ),
    asymptotic(
        "004/thm-11:limit",
        at_most(_limit, lambda i: 0.05 if fixed_point(i) == 1 else 1e-6),
        {"random": _limits},
        hypotheses=lambda i: bool(abs(fixed_slope(i) - 1) > 0.02 or fixed_point(i) == 1),
        counts=(60, 150),
        scale=1,
    ),
    deterministic(
        "004/thm-11:rate",
        at_most(_converged, lambda i: _rate(i) ** i["more"]),
        {"random": _paths},
        hypotheses=_settled,
        search=_search_paths(),
    ),
)
