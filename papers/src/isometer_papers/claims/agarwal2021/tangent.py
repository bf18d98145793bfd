"""004, §3.2, §3.3 and C.2: the neural tangent kernel at infinite width."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer.theory.kernels import (
    correlation_bound,
    separation_depth,
    tangent_condition_bound,
    tangent_condition_bound_separated,
    tangent_depth,
)
from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Rng, drawn
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import at_least, at_most, deterministic, equal
from isometer_papers.claims.agarwal2021.instances import (
    apart,
    condition,
    dual_of,
    independent,
    networks,
    nonlinearity,
    offdiagonal,
    search_network,
    separation,
    simple_duals,
    smallest,
    some_dual,
)
from isometer_papers.claims.agarwal2021.top_layer import kernel
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.exact_duals import (
    dual_slope,
    relative_tangent,
    tangent_as_printed,
    tangent_by_layers,
    tangent_diagonal,
)

Measure = Callable[[Any], Any]


def _start(i: Instance, of: Measure) -> int:
    return separation_depth(min(1.0, max(1e-9, float(of(i["K"])))), float(nonlinearity(i)))


def _depths(factor: int, of: Measure, more: tuple[int, ...] = (0, 1, 2, 3, 8)) -> Any:
    """factor·L₀(δ) and some layers more, at least one."""

    def depth(rng: Rng | float, i: Instance) -> int:
        start = factor * _start(i, of)
        extra = round(rng * more[-1]) if isinstance(rng, float) else int(rng.choice(more))
        return max(1, start + extra)

    return depth


def _any_depth(rng: Rng | float, i: Instance) -> int:
    start = 2 * _start(i, smallest)
    if isinstance(rng, float):
        return 1 + int(rng * (2 * start + 6))
    return int(rng.choice([1, 2, 4, max(start - 1, 1), start + 1, start + 5]))


def _after_two(rng: Rng | float, i: Instance) -> int:
    start = tangent_depth(len(i["K"]), min(1.0, max(1e-9, float(separation(i["K"])))), float(nonlinearity(i)))
    return start + (round(10 * rng) if isinstance(rng, float) else int(rng.choice([0, 1, 3, 10])))


def _tangent(i: Instance) -> Numeric:
    """𝒦̄ over its diagonal."""
    return relative_tangent(dual_of(i), i["K"], i["L"])


def _deep(factor: int, of: Measure, least: float) -> Callable[[Instance], bool]:
    def holds(i: Instance) -> bool:
        ok = of(i["K"]) > least
        return bool(ok and i["L"] >= factor * separation_depth(float(of(i["K"])), float(nonlinearity(i))))

    return holds


def _cosines(rng: Rng, count: int) -> Iterator[Instance]:
    for dual in simple_duals(rng, count):
        for rho, depth in ((0.5, 1), (0.5, 2), (-0.5, 1)):
            yield {**dual, "rho": rho, "L": depth}


_random_cosines = drawn(lambda rng: {**some_dual(rng), "rho": float(rng.uniform(-1, 1)), "L": int(rng.integers(1, 7))})


COSINES: dict[str, Any] = {"simple": _cosines, "random": _random_cosines}


def _slope_ratio(i: Instance) -> Numeric:
    dual, rho = dual_of(i), i["rho"]
    return dual_slope(dual, rho) / dual_slope(dual, rho * 0 + 1)


def _sharp_slope(i: Instance) -> Numeric:
    mu = nonlinearity(i)
    return 1 - 2 * mu / (1 + mu) * (1 - abs(i["rho"]))


def _search_slope() -> Search:
    def build(point: Numeric) -> Instance:
        squares = np.array([0.0, point[0], point[1] + 1e-6, point[2]])
        return {"squares": squares / squares.sum(), "rho": float(2 * point[3] - 1), "L": 1}

    return Search(build, 4)


def _quotient(i: Instance) -> Numeric:
    """((σ̂)′(1)^{L+1} − 1)/((σ̂)′(1) − 1)."""
    slope = dual_slope(dual_of(i), i["rho"] * 0 + 1)
    return (slope ** (i["L"] + 1) - 1) / (slope - 1)


def _diagonal(i: Instance) -> Numeric:
    """𝒦̄_11."""
    return tangent_diagonal(dual_slope(dual_of(i), i["K"][0, 0] * 0 + 1), i["L"])


def _of_tangent(i: Instance) -> Numeric:
    """1 − 2B(L/2, δ), δ of Assumption B."""
    return 1 - 2 * correlation_bound(i["L"] / 2, smallest(i["K"]), nonlinearity(i))


def _level_two(i: Instance) -> int:
    return tangent_depth(len(i["K"]), float(separation(i["K"])), float(nonlinearity(i)))


_OFF = _depths(2, separation)
_LOW = _depths(2, smallest)
_FOUR = _depths(4, smallest)

CLAIMS = (
    deterministic(
        "004/eq-7",
        equal(
            lambda i: tangent_by_layers(dual_of(i), i["rho"], i["L"]),
            lambda i: tangent_as_printed(dual_of(i), i["rho"], i["L"]),
        ),
        COSINES,
    ),
    deterministic(
        "004/eq-7#corrected",
        equal(
            lambda i: tangent_by_layers(dual_of(i), i["rho"], i["L"]),
            lambda i: tangent_as_printed(dual_of(i), i["rho"], i["L"], shift=1),
        ),
        COSINES,
        scale=lambda i: tangent_by_layers(dual_of(i), i["rho"] * 0 + 1, i["L"]),
    ),
    deterministic(
        "004/eq-NTKdiag", equal(lambda i: tangent_by_layers(dual_of(i), i["rho"] * 0 + 1, i["L"]), _quotient), COSINES
    ),
    deterministic(
        "004/eq-NTKdiag:sum",
        equal(
            lambda i: tangent_by_layers(dual_of(i), i["rho"] * 0 + 1, i["L"]),
            lambda i: tangent_diagonal(dual_slope(dual_of(i), i["rho"] * 0 + 1), i["L"]),
        ),
        COSINES,
    ),
    deterministic(
        "004/lem-26",
        at_most(_slope_ratio, lambda i: 1 - nonlinearity(i) * (1 - abs(i["rho"]))),
        COSINES,
        search=_search_slope(),
    ),
    deterministic("004/lem-26:sharp", at_most(_slope_ratio, _sharp_slope), COSINES, search=_search_slope()),
    deterministic(
        "004/thm-5:diagonal", equal(lambda i: np.diag(_tangent(i))[-1], 1), networks(_any_depth), hypotheses=apart()
    ),
    deterministic(
        "004/thm-5",
        at_most(
            lambda i: offdiagonal(_tangent(i)),
            lambda i: 2 * correlation_bound(i["L"] / 2, separation(i["K"]), nonlinearity(i)),
        ),
        networks(_OFF),
        hypotheses=_deep(2, separation, 1e-5),
        search=search_network(_OFF),
        counts=(150, 600),
    ),
    deterministic(
        "004/cor-6",
        at_most(
            lambda i: condition(_tangent(i)),
            lambda i: tangent_condition_bound(len(i["K"]), i["L"], float(separation(i["K"])), float(nonlinearity(i))),
        ),
        networks(_after_two),
        hypotheses=lambda i: (
            apart()(i) and i["L"] >= tangent_depth(len(i["K"]), float(separation(i["K"])), float(nonlinearity(i)))
        ),
        counts=(100, 400),
    ),
    deterministic(
        "004/cor-6:proof",
        at_most(
            lambda i: condition(_tangent(i)),
            lambda i: 1 + 2 * (1 - nonlinearity(i) / 2) ** ((i["L"] - _level_two(i)) / 2),
        ),
        networks(_after_two),
        hypotheses=lambda i: apart()(i) and i["L"] >= _level_two(i),
        counts=(100, 400),
    ),
    deterministic(
        "004/thm-9",
        at_least(lambda i: eigenvalues(kernel(i))[0], lambda i: _of_tangent(i) * _diagonal(i)),
        networks(_any_depth),
        hypotheses=independent(),
        counts=(150, 600),
        tolerance=1e-8,
    ),
    deterministic(
        "004/thm-9#corrected",
        at_least(lambda i: eigenvalues(_tangent(i))[0], _of_tangent),
        networks(_any_depth),
        hypotheses=independent(),
        search=search_network(_any_depth, 3),
        counts=(150, 600),
        tolerance=1e-8,
    ),
    deterministic(
        "004/thm-9:appendix",
        at_least(lambda i: eigenvalues(kernel(i))[0], lambda i: _of_tangent(i) * _diagonal(i)),
        networks(_LOW),
        hypotheses=_deep(2, smallest, 1e-4),
        counts=(150, 600),
        tolerance=1e-8,
    ),
    deterministic(
        "004/thm-9:appendix#corrected",
        at_least(lambda i: eigenvalues(_tangent(i))[0], _of_tangent),
        networks(_LOW),
        hypotheses=_deep(2, smallest, 1e-4),
        search=search_network(_LOW, 3),
        counts=(150, 600),
        tolerance=1e-8,
    ),
    deterministic(
        "004/cor-10",
        at_most(
            lambda i: condition(_tangent(i)),
            lambda i: tangent_condition_bound_separated(
                len(i["K"]), i["L"], float(smallest(i["K"])), float(nonlinearity(i))
            ),
        ),
        networks(_FOUR),
        hypotheses=_deep(4, smallest, 1e-4),
        search=search_network(_FOUR, 3),
        counts=(150, 450),
    ),
)
