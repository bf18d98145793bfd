"""004, §3.1, §3.3 and C.1: the top-layer kernel at infinite width."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer.theory.kernels import (
    correlation_bound,
    one_layer_bound,
    one_layer_product_bound,
    separation_depth,
    top_layer_condition_bound,
    top_layer_condition_bound_separated,
    top_layer_depth,
)
from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Rng, drawn
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import at_least, at_most, deterministic
from isometer_papers.claims.agarwal2021.instances import (
    NAMES,
    apart,
    condition,
    dual_of,
    gram,
    independent,
    networks,
    nonlinearity,
    offdiagonal,
    pair_gram,
    search_network,
    separation,
    simple_duals,
    smallest,
    some_dual,
)
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.exact_duals import dual_value, iterated_dual

ALL_NAMES = (*NAMES, "sign")


def depth_near(rng: Rng | float, i: Instance) -> int:
    """Depths before, at and after L₀(δ)."""
    start = separation_depth(min(1.0, max(1e-9, float(separation(i["K"])))), float(nonlinearity(i)))
    if isinstance(rng, float):
        return round(rng * (2 * start + 6))
    return int(rng.choice([0, 1, 2, 4, max(start - 1, 0), start, start + 1, start + 4, 2 * start + 6]))


def depth_after(rng: Rng | float, i: Instance) -> int:
    """L₁(δ) and some layers more."""
    n = len(i["K"])
    start = top_layer_depth(n, min(1.0, max(1e-9, float(separation(i["K"])))), float(nonlinearity(i)))
    return start + (round(10 * rng) if isinstance(rng, float) else int(rng.choice([0, 1, 3, 10])))


def kernel(i: Instance) -> Numeric:
    """K̄ = σ̂^{(L)}[K]."""
    return iterated_dual(dual_of(i), i["K"], i["L"])


def _gaps(rng: Rng, count: int) -> Iterator[Instance]:
    for dual in simple_duals(rng, count):
        for delta in (0.5, 0.25, 0.75, 1.0, 0.0):
            yield {**dual, "delta": delta}


_random_gaps = drawn(
    lambda rng: {**some_dual(rng, ALL_NAMES), "delta": float(rng.choice([rng.uniform(), 10 ** -rng.uniform(0, 4)]))}
)


GAPS: dict[str, Any] = {"simple": _gaps, "random": _random_gaps}


def _search_gap() -> Search:
    def build(point: Numeric) -> Instance:
        squares = np.array([0.0, point[0], point[1] + 1e-6, point[2]])
        return {"squares": squares / squares.sum(), "delta": float(point[3])}

    return Search(build, 4)


def _after(sign: int) -> Any:
    return lambda i: dual_value(dual_of(i), sign * (1 - i["delta"]))


def _series(rng: Rng, count: int) -> Iterator[Instance]:
    """Power series with non-negative coefficients and correlation matrices with λ_min > 0."""
    yield {"squares": np.array([0.0, 0.0, 1.0]), "K": pair_gram(0.5), "L": 1}
    yield {"dual": "exp", "K": pair_gram(0.9), "L": 3}
    for _ in range(count):
        dual = some_dual(rng, ALL_NAMES)
        if rng.integers(3) == 0:
            dual = {"dual": str(rng.choice(["unit-relu", "unit-exp", "unit-cos"]))}
        yield {**dual, "K": gram(rng), "L": int(rng.choice([1, 1, 2, 5]))}


def _shares(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"delta": 0.499, "nu": 1.0}
    yield {"delta": 1e-8, "nu": 0.01}
    for _ in range(count):
        yield {"delta": float(10 ** -rng.uniform(0, 8)), "nu": float(rng.uniform(0.001, 1))}


def _order_bound(i: Instance) -> Numeric:
    return -math.log(float(i["delta"])) / (float(i["nu"]) * math.log(1.5))


def _delta_b(i: Instance) -> Numeric:
    return smallest(i["K"])


def _gershgorin(i: Instance) -> Numeric:
    spread = (len(i["K"]) - 1) * correlation_bound(i["L"], separation(i["K"]), nonlinearity(i))
    return (1 + spread) / (1 - spread) if spread < 1 else math.inf


CLAIMS = (
    deterministic(
        "004/def-L0",
        at_most(lambda i: separation_depth(float(i["delta"]), float(i["nu"])), _order_bound),
        {"random": _shares},
        search=Search(lambda p: {"delta": float(10 ** (-8 * p[0])), "nu": float(1e-3 + p[1] * 0.999)}, 2),
    ),
    deterministic(
        "004/asm-B",
        at_most(lambda i: offdiagonal(i["K"]), lambda i: 1 - smallest(i["K"])),
        {"random": lambda rng, count: ({"K": gram(rng)} for _ in range(count))},
        search=Search(lambda p: {"K": pair_gram(float(2 * p[0] - 1))}, 1),
    ),
    deterministic("004/lem-21:left", at_most(lambda i: abs(_after(-1)(i)), _after(1)), GAPS, search=_search_gap()),
    deterministic(
        "004/lem-21:right",
        at_most(_after(1), lambda i: one_layer_bound(i["delta"], nonlinearity(i))),
        GAPS,
        search=_search_gap(),
    ),
    deterministic(
        "004/lem-21:middle",
        at_most(_after(1), lambda i: one_layer_product_bound(i["delta"], float(nonlinearity(i)))),
        GAPS,
        search=_search_gap(),
    ),
    deterministic(
        "004/lem-22",
        at_most(
            lambda i: abs(iterated_dual(dual_of(i), i["K"][0, 1], i["L"])),
            lambda i: correlation_bound(i["L"], separation(i["K"]), nonlinearity(i)),
        ),
        networks(depth_near, ALL_NAMES),
        hypotheses=lambda i: bool(len(i["K"]) == 2 and separation(i["K"]) > 1e-5),
        search=search_network(depth_near),
        counts=(120, 500),
    ),
    deterministic(
        "004/lem-23",
        at_least(
            lambda i: eigenvalues(kernel(i))[0], lambda i: 1 - iterated_dual(dual_of(i), 1 - smallest(i["K"]), i["L"])
        ),
        {"random": _series},
        hypotheses=independent(1e-3),
        tolerance=1e-8,
        search=search_network(lambda x, i: 1 + int(4 * x) if isinstance(x, float) else 1, 3),
    ),
    deterministic(
        "004/thm-3",
        at_most(
            lambda i: offdiagonal(kernel(i)), lambda i: correlation_bound(i["L"], separation(i["K"]), nonlinearity(i))
        ),
        networks(depth_near, ALL_NAMES),
        hypotheses=apart(),
        search=search_network(depth_near),
        counts=(150, 600),
    ),
    deterministic(
        "004/cor-4",
        at_most(
            lambda i: condition(kernel(i)),
            lambda i: top_layer_condition_bound(len(i["K"]), i["L"], float(separation(i["K"])), float(nonlinearity(i))),
        ),
        networks(depth_after, ALL_NAMES),
        hypotheses=lambda i: (
            apart()(i) and i["L"] >= top_layer_depth(len(i["K"]), float(separation(i["K"])), float(nonlinearity(i)))
        ),
        search=search_network(depth_after, 3),
        counts=(120, 500),
    ),
    deterministic(
        "004/cor-4:proof",
        at_most(lambda i: condition(kernel(i)), _gershgorin),
        networks(depth_after, ALL_NAMES),
        hypotheses=lambda i: (
            apart()(i) and i["L"] >= top_layer_depth(len(i["K"]), float(separation(i["K"])), float(nonlinearity(i)))
        ),
        search=search_network(depth_after, 3),
        counts=(120, 500),
    ),
    deterministic(
        "004/thm-7",
        at_least(
            lambda i: eigenvalues(kernel(i))[0], lambda i: 1 - correlation_bound(i["L"], _delta_b(i), nonlinearity(i))
        ),
        networks(depth_near, ALL_NAMES),
        hypotheses=independent(),
        tolerance=1e-8,
        search=search_network(depth_near, 3),
        counts=(150, 600),
    ),
    deterministic(
        "004/cor-8",
        at_most(
            lambda i: condition(kernel(i)),
            lambda i: top_layer_condition_bound_separated(
                len(i["K"]), i["L"], float(_delta_b(i)), float(nonlinearity(i))
            ),
        ),
        networks(depth_near, ALL_NAMES),
        hypotheses=independent(),
        search=search_network(depth_near, 3),
        counts=(150, 600),
    ),
)
