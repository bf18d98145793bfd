"""002, §7.3 and Lemma 20: products of matrices, and how far one layer moves M."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isometer_papers.claims._claim import Estimate, Instance, Search
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import elementwise, numerical_rank
from isometer_papers.claims._statements import (
    Sampled,
    above,
    asymptotic,
    at_most,
    below,
    deterministic,
    equal,
    vanishes,
)
from isometer_papers.claims.daneshmand2020.instances import ODD_FUNCTIONS, random_matrix, steps, unit_features
from isometer_papers.claims.daneshmand2020.invariance import CORNER
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.rank_steps import growth_exponents, plain_chain
from isometer_papers.theory.rank.bounds import moment_change_bound
from isometer_papers.theory.rank.chain import (
    contraction_ratio,
    fill_neighbourhood,
    moment_change,
    moment_change_expansion,
)


def _slope_bound(i: Instance) -> Numeric:
    return moment_change_bound(i["H"].shape[1], ODD_FUNCTIONS[i["F"]], i["gamma"])


def _largest_change(i: Instance) -> Numeric:
    return abs(moment_change(i["H"], i["W"], i["gamma"], elementwise(i["F"]))).max()


def _extreme_changes(rng: Rng, count: int) -> Iterator[Instance]:
    for d in range(1, 7):
        for gamma in (0.01, 0.1, 1.0):
            weights = np.full((d, d), np.nextafter(CORNER, 0))
            yield {"H": np.ones((1, d)), "W": weights, "gamma": gamma, "F": "identity"}
            yield {"H": np.ones((2, d)), "W": weights, "gamma": gamma, "F": "double"}


def _long_changes(rng: Rng, count: int) -> Iterator[Instance]:
    """H outside of 𝓗: rows longer than √N."""
    yield {"H": np.full((2, 2), 2.0), "W": np.eye(2), "gamma": 1.0, "F": "identity"}
    yield {"H": np.array([[4.0, 8.0], [8.0, -4.0]]), "W": np.eye(2), "gamma": 0.1, "F": "identity"}
    for instance in steps(functions=("identity", "double"))(rng, count):
        yield {**instance, "H": 30 * instance["H"]}


def _change_search(point: Numeric) -> Instance:
    point = np.asarray(point)
    h = unit_features(np.tan(3.0 * (point[:4] - 0.5)).reshape(2, 2))
    return {"H": h, "W": CORNER * (2 * point[4:8].reshape(2, 2) - 1), "gamma": float(point[8]) + 1e-3, "F": "identity"}


def _expansion_gap(i: Instance, *, as_printed: bool) -> Numeric:
    function = elementwise(i["F"])
    left = moment_change(i["H"], i["W"], i["gamma"], function)
    right = moment_change_expansion(i["H"], i["W"], i["gamma"], function, as_printed=as_printed)
    return abs(left - right).max()


_simple_square = cases({"H": np.array([[1.0, -1.0], [1.0, -1.0]]), "W": np.eye(2), "gamma": 1.0, "F": "identity"})


def _weakest(rng: Rng, count: int) -> Iterator[Instance]:
    for d in range(1, 65):
        yield {"d": d, "B": float(rng.uniform(0.1, 3)), "share": 1.0 if d % 2 else float(rng.uniform())}


def _swaps(rng: Rng, count: int) -> Iterator[Instance]:
    for a in rng.standard_normal(min(count, 20)):
        yield {"a": float(a)}


def _outside(i: Instance) -> Numeric:
    """αTv₁ outside span(e₁) and αTv₂ outside span(e₂), for T the swap."""
    swap = np.array([[0, 1], [1, 0]])
    first, second = i["a"] * (swap @ np.array([0, 1])), i["a"] * (swap @ np.array([1, 0]))
    return max(abs(first[1]), abs(second[0]))


def _powers(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(min(count, 50)):
        yield {"d": int(rng.integers(2, 7)), "gamma": float(rng.uniform(0.05, 1)), "power": int(rng.integers(1, 60))}


def _power_ratio(i: Instance) -> Numeric:
    matrix = np.eye(i["d"])
    matrix[0, 0] = 1 + float(i["gamma"])
    values = np.linalg.svd(np.linalg.matrix_power(matrix, i["power"]), compute_uv=False)
    return values[1] / values[0]


def _directions(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        d = int(rng.integers(2, 7))
        v = rng.standard_normal(d)
        v = v / np.linalg.norm(v) if rng.integers(3) else np.eye(d)[0]
        yield {"v": v, "a": rng.uniform(-1, 1, d) if rng.integers(2) else np.ones(d), "gamma": float(rng.uniform(0, 1))}


def _filled_gap(i: Instance) -> Numeric:
    expected = i["v"] + i["gamma"] / len(i["v"]) * i["a"]
    return abs(fill_neighbourhood(i["v"], i["a"], i["gamma"]) - expected).max()


_zero_input = cases({"X": np.zeros((2, 2)), "gamma": 0.5, "seed": 0})


def _inputs(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(min(count, 6)):
        d = int(rng.integers(2, 5))
        x = random_matrix(rng, d, d)
        yield {"X": x, "gamma": float(rng.uniform(0.5, 1)), "seed": int(rng.integers(1 << 31))}


def _limit_rank(i: Instance) -> int:
    x, rng = np.asarray(i["X"], dtype=float), np.random.default_rng(i["seed"])
    return numerical_rank(plain_chain(x, float(i["gamma"]), layers=2500, rng=rng, normalize=False, every=2500)[-1])


def _gaps(rng: Rng, count: int) -> Iterator[Instance]:
    cases = ((2, 0.9), (4, 0.5), (3, 0.25), (8, 0.9), (16, 0.5), (2, 0.1))
    for d, gamma in cases[:count]:
        yield {"width": d, "gamma": gamma, "layers": int(40 / gamma**2)}


def _gap(i: Instance, rng: Rng) -> Estimate:
    found = growth_exponents(i["width"], i["gamma"], layers=i["layers"], chains=160, rng=rng)
    return Estimate.of(found[:, 0] - found[:, 1])


CLAIMS = (
    deterministic("002/ex-9", vanishes(_outside), {"multiples": _swaps}),
    deterministic(
        "002/lem-10:contracting",
        equal(_power_ratio, lambda i: contraction_ratio(i["gamma"], i["power"])),
        {"powers": _powers},
        exact=lambda i: (1 / (1 + i["gamma"]) ** i["power"], contraction_ratio(i["gamma"], i["power"])),
    ),
    deterministic("002/lem-10:fills", vanishes(_filled_gap), {"random": _directions}),
    deterministic(
        "002/lem-10:support",
        below(lambda i: abs(np.outer(i["a"], i["v"])).max() / len(i["v"]), 1),
        {"random": _directions},
    ),
    asymptotic(
        "002/lem-4",
        equal(_limit_rank, 1),
        {"zero": _zero_input, "random": _inputs},
        counts=(6, 6),
        exact=lambda i: (numerical_rank(i["X"]) and _limit_rank(i), 1),
    ),
    asymptotic("002/lem-4#corrected", above(Sampled(_gap), 0.0), {"gaps": _gaps}, counts=(3, 6), resolution=0.5),
    deterministic("002/lem-20", at_most(_largest_change, _slope_bound), {"long": _long_changes}),
    deterministic(
        "002/lem-20#corrected",
        at_most(_largest_change, _slope_bound),
        {"random": steps(functions=tuple(ODD_FUNCTIONS)), "extreme": _extreme_changes},
        search=Search(_change_search, 9),
    ),
    deterministic(
        "002/lem-20:half",
        at_most(lambda i: moment_change_bound(i["d"], i["B"], i["share"] / (8 * i["B"] * i["d"])), 0.5),
        {"widths": _weakest},
    ),
    deterministic(
        "002/lem-20:expansion",
        vanishes(lambda i: _expansion_gap(i, as_printed=True)),
        {"simple": _simple_square, "random": steps(functions=tuple(ODD_FUNCTIONS), square=True)},
    ),
    deterministic(
        "002/lem-20:expansion#corrected",
        vanishes(lambda i: _expansion_gap(i, as_printed=False)),
        {"random": steps(functions=(*ODD_FUNCTIONS, "relu"))},
    ),
)
