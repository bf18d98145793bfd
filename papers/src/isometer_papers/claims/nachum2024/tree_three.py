"""000, Appendix E: what rows of three clusters change in the lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from isometer_papers.claims._claim import Claim, Instance, Search
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._statements import above, asymptotic, at_most, deterministic, equal
from isometer_papers.claims.nachum2024.tree_instances import deep, distinct_rows, first_stable, tree, whole_rows
from isometer_papers.claims.nachum2024.tree_limits import length_ratio, on_trees, samples, size
from isometer_papers.claims.nachum2024.tree_two import better, energies
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.odd_point.tree import (
    extreme_ratio_bound,
    norm_ratio_limit,
    pair_energy_bound,
    pair_energy_sum,
    split_energies_after,
    split_gram,
    three_cluster_energies,
)


def _three(rng: Rng, count: int) -> Iterator[Instance]:
    """Rows (0, a, c, …, c) of n samples, T layers."""
    yield {"a": 1.0, "c": 2.0, "n": 4, "T": 2}
    for _ in range(count):
        c = 1.0
        yield {
            "a": float(rng.uniform(0.01, 0.99)),
            "c": c,
            "n": int(rng.integers(4, 12)),
            "T": int(rng.integers(2, 40)),
        }


def _pair_part(i: Instance) -> Numeric:
    """The larger part of rows (2, n−2), (n−2, 2) in ‖x_2‖² or ‖x_j‖²."""
    return max(three_cluster_energies(i["a"], i["c"], i["n"], i["T"])[:2])


def _pair_bound(i: Instance) -> Numeric:
    return i["c"] ** 2 * pair_energy_bound(i["n"], i["T"], i["c"] * 0 + 1)


def _pair_sum(i: Instance) -> Numeric:
    return i["c"] ** 2 * pair_energy_sum(i["n"], i["T"], i["c"] * 0 + 1)


THREE = Search(lambda p: {"a": 0.01 + 0.98 * float(p[0]), "c": 1.0, "n": 4 + int(6 * p[1]), "T": 2 + int(20 * p[2])}, 3)


_sizes = cases(*({"n": n, "T": layers, "c": 1.0} for n in range(4, 24) for layers in (1, 2, 3, 10, 50)))


def _state(i: Instance) -> tuple[Numeric, Numeric]:
    """Energies of the splits at layer t + T − 1."""
    return split_energies_after(i["lower"], i["upper"], i["T"] - 1)


def _sums(i: Instance) -> tuple[Any, Any, Any, Any]:
    """A, B, C, D over the splits {1}, {n}, {1, 2}, {n − 1, n}: compositions in the order of the samples."""
    low, high = _state(i)
    total = low + high
    return total[0], total[-1], total[1], total[-2]


def _settled(i: Instance) -> Numeric:
    return split_gram(*split_energies_after(*_state(i), 1))


def _formula(weights: Callable[[int], tuple[int, int, int, int]]) -> Callable[[Instance], Numeric]:
    """(wA·A + wB·B + wC·C + wD·D)/n²."""

    def value(i: Instance) -> Numeric:
        n = samples(i)
        return sum(w * part for w, part in zip(weights(n), _sums(i), strict=True)) / n**2

    return value


def settles(id: str, entry: Any, weights: Numeric) -> Claim:
    """An asymptotic formula for an entry of the Gram matrix."""
    return asymptotic(
        id,
        equal(lambda i: entry(_settled(i)), _formula(weights)),
        {"splits": lambda rng, count: (i for i in energies(rng, count) if samples(i) >= 5)},
        tolerance=1e-8,
        counts=(40, 250),
    )


def quadruples(rng: Rng, count: int) -> Iterator[Instance]:
    for n in (5, 6, 9):
        yield {"A": 1.0, "B": 1.0, "C": 0.0, "D": 0.0, "n": n}
        yield {"A": 0.0, "B": 0.0, "C": 1.0, "D": 1.0, "n": n}
    yield {"A": 1.0, "B": 4.0, "C": 0.0, "D": 0.0, "n": 5}
    for _ in range(count):
        a, b, c, d = 10.0 ** rng.uniform(-2, 2, 4)
        yield {"A": float(a), "B": float(b), "C": float(c), "D": float(d), "n": int(rng.integers(5, 30))}


def _quadruple(p: Numeric) -> Instance:
    a, b, c, d = (float(10 ** (4 * v - 2)) for v in p[:4])
    return {"A": a, "B": b, "C": c, "D": d, "n": 5 + int(10 * p[4])}


QUADRUPLES = Search(_quadruple, 5)


def to_first(i: Instance) -> Numeric:
    """r = (A + C)/(B + D)."""
    return (i["A"] + i["C"]) / (i["B"] + i["D"])


def middle_square(i: Instance) -> Numeric:
    return i["A"] + i["B"] + 4 * i["C"] + 4 * i["D"]


def first_square(i: Instance) -> Numeric:
    n = i["n"]
    return (n - 1) ** 2 * i["A"] + i["B"] + (n - 2) ** 2 * i["C"] + 4 * i["D"]


def last_square(i: Instance) -> Numeric:
    n = i["n"]
    return i["A"] + (n - 1) ** 2 * i["B"] + 4 * i["C"] + (n - 2) ** 2 * i["D"]


def _second_ratio(i: Instance) -> Numeric:
    """‖x_2‖²/‖x_1‖² of eq. 74, 75."""
    first, last = i["A"] + i["C"], i["B"] + i["D"]
    return (first + last) / ((i["n"] - 1) ** 2 * first + last)


def ratios(rng: Rng, count: int) -> Iterator[Instance]:
    for n in (5, 6, 9):
        yield {"n": n, "r": 1.0}
    for _ in range(count):
        yield {"n": int(rng.integers(5, 40)), "r": float(10 ** rng.uniform(-3, 3))}


RATIO = Search(lambda p: {"r": float(10 ** (6 * p[0] - 3)), "n": 5 + int(10 * p[1])}, 2)


INNER = {
    "rows": deep(lambda rng, count: distinct_rows(rng, count, 5, 8)),
    "whole": deep(lambda rng, count: whole_rows(rng, count, 5, 7)),
}


OUTER = {
    "rows": deep(lambda rng, count: distinct_rows(rng, count, 4, 8)),
    "whole": deep(lambda rng, count: whole_rows(rng, count, 4, 6)),
}


def inner(gram: Numeric) -> range:
    """i ∈ {3, …, n−2}."""
    return range(2, len(gram) - 2)


def near(gram: Numeric) -> range:
    """i = 2, n − 1."""
    return range(1, len(gram) - 1, len(gram) - 3)


def _least_sum(i: Instance) -> float:
    """The least of A, B, C, D at a layer, as a share of the trace."""
    low, high = tree(i["x"], i["T"]).split_energies(i["T"])
    total = low + high
    return float(min(total[0], total[1], total[-2], total[-1]))


def _drift(i: Instance) -> float:
    """Change of (A + C)/(A + B + C + D) over the second half of the layers."""
    shares = []
    for layer in (i["T"] // 2, i["T"]):
        low, high = tree(i["x"], i["T"]).split_energies(layer)
        total = low + high
        first, last = total[0] + total[1], total[-1] + total[-2]
        shares.append(float(first / (first + last)))
    return abs(shares[1] - shares[0])


CLAIMS = (
    deterministic("000/eq-61-62:61", at_most(_pair_part, _pair_sum), {"rows": _three}, search=THREE),
    deterministic("000/eq-61-62:62", at_most(_pair_sum, _pair_bound), {"sizes": _sizes}),
    deterministic("000/eq-61-62:contribution", at_most(_pair_part, _pair_bound), {"rows": _three}, search=THREE),
    settles("000/eq-63-73:63", lambda g: g[2, 2], lambda n: (1, 1, 4, 4)),
    settles("000/eq-63-73:64", lambda g: g[0, 0], lambda n: ((n - 1) ** 2, 1, (n - 2) ** 2, 4)),
    settles("000/eq-63-73:65", lambda g: g[-1, -1], lambda n: (1, (n - 1) ** 2, 4, (n - 2) ** 2)),
    deterministic(
        "000/eq-63-73:67",
        at_most(lambda i: middle_square(i) / first_square(i), lambda i: extreme_ratio_bound(1 / to_first(i), i["n"])),
        {"sums": quadruples},
        search=QUADRUPLES,
    ),
    deterministic(
        "000/eq-63-73:70",
        at_most(lambda i: middle_square(i) / last_square(i), lambda i: extreme_ratio_bound(to_first(i), i["n"])),
        {"sums": quadruples},
        search=QUADRUPLES,
    ),
    deterministic("000/eq-63-73:positive", above(_least_sum, 0), {"trees": first_stable}, counts=(20, 80)),
    asymptotic(
        "000/eq-63-73:positive#corrected",
        above(_least_sum, 0),
        {"trees": deep(lambda rng, count: whole_rows(rng, count, 5, 7), 10)},
        tolerance=1e-100,
        counts=(20, 80),
    ),
    asymptotic("000/eq-63-73:converges", at_most(_drift, 1e-6), INNER, counts=(12, 36)),
    deterministic(
        "000/eq-63-73:72-step",
        at_most(better(extreme_ratio_bound, min), lambda i: 8 / (i["n"] - 2) ** 2),
        {"ratios": ratios},
        search=RATIO,
    ),
    asymptotic(
        "000/eq-63-73:72",
        on_trees(at_most(lambda g: length_ratio(g, inner(g)) ** 2, lambda i: 8 / (size(i) - 2) ** 2)),
        INNER,
        counts=(12, 36),
    ),
    deterministic(
        "000/eq-74-80:77",
        equal(_second_ratio, lambda i: norm_ratio_limit(1 / to_first(i), i["n"])),
        {"sums": quadruples},
    ),
    asymptotic(
        "000/eq-74-80:79",
        on_trees(at_most(lambda g: length_ratio(g, near(g)) ** 2, lambda i: 2 / (size(i) - 1) ** 2)),
        OUTER,
        counts=(12, 36),
    ),
)
