"""004, §3.4 and C.3: activations with E σ² = 1 and a mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Rng
from isometer_papers.claims._statements import above, at_least, at_most, below, deterministic
from isometer_papers.claims.agarwal2021.instances import dual_of, like, nonaffinity, random_squares
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.exact_duals import UNCENTRED, dual_slope, dual_value, smallest_fixed_point


def fixed_point(i: Instance) -> Numeric:
    """ρ̄."""
    return smallest_fixed_point(dual_of(i), precise=hasattr(like(i), "_mpf_"))


def simple(rng: Rng, count: int) -> Iterator[dict[str, Any]]:
    yield {"squares": np.array([0.25, 0.0, 0.75])}
    yield {"squares": np.array([0.1, 0.0, 0.0, 0.9])}
    yield {"squares": np.array([0.1, 0.5, 0.4])}
    yield {"squares": np.array([0.5, 0.25, 0.25])}
    for name in UNCENTRED:
        yield {"dual": name}


def _duals(rng: Rng, count: int) -> Iterator[Instance]:
    yield from simple(rng, count)
    for _ in range(count):
        yield {"squares": random_squares(rng, centred=False)}


def _with(name: str, low: float, high: float, *places: float) -> Any:
    """Duals with one more number."""

    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for dual in simple(rng, count):
            for value in places:
                yield {**dual, name: value}
        for _ in range(count):
            yield {"squares": random_squares(rng, centred=False), name: float(rng.uniform(low, high))}

    return generator


def _search(name: str, low: float, high: float) -> Search:
    def build(point: Numeric) -> Instance:
        squares = np.array([point[0], point[1], point[2] + 0.01, point[3]])
        return {"squares": squares / squares.sum(), name: low + (high - low) * float(point[4])}

    return Search(build, 5, (200, 1000))


COSINES = {"random": _with("rho", -1, 1, 0.25, 0.5, 0.95, -0.5)}


def _pull(i: Instance) -> Numeric:
    """(μ̃/2)(1 − ρ̄)."""
    return nonaffinity(i) / 2 * (1 - fixed_point(i))


def _on_chord(i: Instance) -> Numeric:
    rho = i["share"] + (1 - i["share"]) * fixed_point(i)
    return rho - dual_value(dual_of(i), rho)


def _away(i: Instance) -> Numeric:
    return abs(dual_value(dual_of(i), i["rho"]) - fixed_point(i))


def _case(number: int) -> Any:
    def hypothesis(i: Instance) -> bool:
        rho, fixed = i["rho"], fixed_point(i)
        middle = (1 + fixed) / 2
        return bool((rho >= middle, fixed <= rho < middle, 0 <= rho < fixed, rho < 0)[number - 1])

    return hypothesis


def critical(k: int, mass: float) -> Any:
    """σ̂ = a_0² + a_1²ρ + a_k²ρ^k with σ̂(1) = σ̂′(1) = 1."""
    squares = np.zeros(k + 1)
    squares[k], squares[0] = mass, (k - 1) * mass
    squares[1] = 1 - k * mass
    return squares


def critical_cases(rng: Rng, count: int) -> Iterator[Instance]:
    for epsilon in (0.4, 0.1, 0.05):
        for rho in (-1.0, 0.0, 0.5):
            yield {"dual": "unit-relu", "epsilon": epsilon, "rho": rho}
            yield {"dual": "unit-exp", "epsilon": epsilon, "rho": rho}
            yield {"squares": critical(2, 0.25), "epsilon": epsilon, "rho": rho}
    for _ in range(count):
        k = int(rng.integers(2, 6))
        squares = critical(k, float(rng.uniform(0.1, 1)) / k)
        rho = float(rng.choice([-1.0, rng.uniform(-1, 1)]))
        yield {"squares": squares, "epsilon": float(rng.uniform(0.05, 0.499)), "rho": rho}


def fixed_slope(i: Instance) -> Numeric:
    return dual_slope(dual_of(i), fixed_point(i))


def _convex(i: Instance) -> Numeric:
    """σ̂ in the middle of [u, v] against the chord."""
    dual, u, v = dual_of(i), i["u"], i["v"]
    return dual_value(dual, (u + v) / 2)


def _chord(i: Instance) -> Numeric:
    dual = dual_of(i)
    return (dual_value(dual, i["u"]) + dual_value(dual, i["v"])) / 2


def _intervals(rng: Rng, count: int) -> Iterator[Instance]:
    for dual in simple(rng, count):
        yield {**dual, "u": 0.0, "v": 1.0}
    for _ in range(count):
        u, v = np.sort(rng.uniform(0, 1, 2))
        yield {"squares": random_squares(rng, centred=bool(rng.integers(2))), "u": float(u), "v": float(v)}


CLAIMS = (
    deterministic("004/lem-30:positive", above(nonaffinity, 0), {"random": _duals}),
    deterministic(
        "004/lem-30:one",
        at_most(nonaffinity, 1),
        {"random": _duals, "pure": lambda rng, n: iter([{"squares": np.array([0.0, 0.0, 1.0])}])},
    ),
    deterministic(
        "004/lem-31:increasing",
        at_most(lambda i: dual_value(dual_of(i), i["u"]), lambda i: dual_value(dual_of(i), i["v"])),
        {"random": _intervals},
    ),
    deterministic("004/lem-31:convex", at_most(_convex, _chord), {"random": _intervals}),
    deterministic(
        "004/lem-32",
        at_least(_on_chord, lambda i: nonaffinity(i) * i["share"] * (1 - i["share"]) * (1 - fixed_point(i)) ** 2),
        {"random": _with("share", 0, 1, 0.5, 0.1)},
        search=_search("share", 0, 1),
        scale=1,
    ),
    deterministic(
        "004/lem-32:unique",
        above(_on_chord, 0),
        {"random": _with("share", 0.02, 0.98, 0.5)},
        hypotheses=lambda i: bool(fixed_point(i) < 1 - 1e-6),
    ),
    deterministic(
        "004/lem-33:below",
        below(fixed_slope, 1),
        {"random": _duals},
        hypotheses=lambda i: bool(fixed_point(i) < 1),
        search=Search(
            lambda p: {"squares": np.array([p[0], p[1], p[2] + 0.01, p[3]]) / (p[0] + p[1] + p[2] + p[3] + 0.01)}, 4
        ),
    ),
    deterministic(
        "004/lem-33:one",
        at_most(fixed_slope, 1),
        {"random": _duals, "critical": critical_cases},
        hypotheses=lambda i: bool(fixed_point(i) == 1),
    ),
    deterministic(
        "004/lem-34:case-1",
        at_most(lambda i: dual_value(dual_of(i), i["rho"]), lambda i: i["rho"] - _pull(i) * (1 - i["rho"])),
        COSINES,
        hypotheses=_case(1),
        search=_search("rho", 0, 1),
        counts=(200, 1000),
    ),
    deterministic(
        "004/lem-34:case-2",
        at_most(_away, lambda i: (1 - _pull(i)) * abs(i["rho"] - fixed_point(i))),
        COSINES,
        hypotheses=lambda i: _case(2)(i) and abs(i["rho"] - fixed_point(i)) > 1e-3,
        search=_search("rho", 0, 1),
        tolerance=1e-8,
        counts=(200, 1000),
    ),
    deterministic(
        "004/lem-34:case-3",
        at_most(_away, lambda i: fixed_slope(i) * abs(i["rho"] - fixed_point(i))),
        COSINES,
        hypotheses=_case(3),
        search=_search("rho", 0, 1),
        scale=1,
        counts=(200, 1000),
    ),
    deterministic(
        "004/lem-34:case-4",
        at_most(lambda i: abs(dual_value(dual_of(i), i["rho"])), lambda i: dual_value(dual_of(i), -i["rho"])),
        COSINES,
        hypotheses=_case(4),
        search=_search("rho", -1, 0),
    ),
    deterministic(
        "004/lem-34:case-4-rise",
        at_least(lambda i: dual_value(dual_of(i), i["rho"]), lambda i: i["rho"] + dual_value(dual_of(i), i["rho"] * 0)),
        COSINES,
        hypotheses=_case(4),
        search=_search("rho", -1, 0),
        scale=1,
    ),
)
