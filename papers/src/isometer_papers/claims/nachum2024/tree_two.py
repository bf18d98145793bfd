"""000, Appendix D: Theorem 11 for rows of two clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, Unpack

import numpy as np

from isometer_papers.claims._claim import Claim, Instance, Search
from isometer_papers.claims._families import Rng
from isometer_papers.claims._statements import (
    ClaimSettings,
    Comparison,
    above,
    asymptotic,
    at_least,
    at_most,
    below,
    deterministic,
    equal,
    vanishes,
)
from isometer_papers.claims.nachum2024.tree_instances import first_stable, fractions, path, rational, tree
from isometer_papers.claims.nachum2024.tree_limits import TREES, cosine, samples
from isometer_papers.float_or_mpmath import Numeric, angle_of_cosine, pi_like
from isometer_papers.simulate.tree import two_cluster_energy
from isometer_papers.theory.odd_point.tree import (
    cosine_limit,
    cosine_limit_as_printed,
    linear_arccos,
    norm_ratio_limit,
    split_contraction,
    split_energies_after,
    split_gram,
    two_cluster_sum,
)


def _heights(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        n = int(rng.integers(2, 8))
        yield {"c": int(rng.integers(1, 9)), "members": int(rng.integers(1, n)), "n": n, "T": int(rng.integers(1, 8))}


def _by_words(i: Instance) -> Numeric:
    """Sum of squares over all words of T signs of an entry of the cluster with `members` samples."""
    row = [i["c"]] * i["members"] + [0] * (i["n"] - i["members"])
    return sum(path(row, signs)[-1][0] ** 2 for signs in product((1, -1), repeat=i["T"]))


def _sum_39(i: Instance) -> Numeric:
    return two_cluster_sum(fractions([i["c"]])[0], i["members"], i["n"], i["T"])


def _closed_40(i: Instance) -> Numeric:
    return two_cluster_energy(fractions([i["c"]])[0], i["members"], i["n"], i["T"])


def _unbalanced(rng: Rng, count: int) -> Iterator[Instance]:
    for n in range(4, 4 + count):
        for m in range(2, n - 1):
            yield {"n": n, "m": m, "one": 1.0}


def _pairs(rng: Rng, count: int) -> Iterator[Instance]:
    for n in range(3, 3 + count):
        for i in range(2, n + 1):
            for j in range(i, n + 1):
                yield {"n": n, "i": i, "j": j}


def _missing_rows(i: Instance) -> int:
    """Compositions (1, n−1), (n−1, 1) in which i and j are apart."""
    return sum((i["i"] <= m) != (i["j"] <= m) for m in (1, i["n"] - 1))


def _leaves(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        n = int(rng.integers(3, 7))
        leaves = [[int(rng.integers(1, 9)), int(rng.choice([1, n - 1]))] for _ in range(int(rng.integers(1, 4)))]
        yield {"n": n, "leaves": leaves, "T": int(rng.integers(1, 6))}


def _leaf_sum(i: Instance) -> Numeric:
    """⟨x_i, x_j⟩ of two middle samples over all descendants of the given rows (height, size of the zero cluster)."""
    total = fractions([0.0])[0]
    for height, zeros in i["leaves"]:
        row = [0] * zeros + [height] * (i["n"] - zeros)
        column = 1  # a middle sample
        total += sum(path(row, signs)[-1][column] ** 2 for signs in product((1, -1), repeat=i["T"]))
    return total


def _leaf_formula(i: Instance) -> Numeric:
    n = i["n"]
    one = fractions([1.0])[0]
    return one / n**2 * split_contraction(1, n, one) ** (i["T"] - 1) * sum(height**2 for height, _ in i["leaves"])


def _extreme_energy(i: Instance) -> float:
    low, high = tree(i["x"], i["T"]).split_energies(i["T"])
    return float(min(low[0] + high[0], low[-1] + high[-1]))


def _total_energy(i: Instance) -> float:
    """Of all rows in L: 0 if there are none."""
    low, high = tree(i["x"], i["T"]).split_energies(i["T"])
    return float(low[0] + high[0] + low[-1] + high[-1])


def energies(rng: Rng, count: int) -> Iterator[Instance]:
    """Energies of all splits of n sorted samples at a layer, and T."""
    yield {"lower": np.ones(3), "upper": np.ones(3), "T": 240}
    yield {"lower": np.array([1.0, 0.0, 0.0, 0.0]), "upper": np.array([0.0, 0.0, 0.0, 2.0]), "T": 300}
    for j in range(count):
        n = int(rng.integers(4, 9))
        low, high = rng.uniform(0.1, 1, (2, n - 1)) * 10.0 ** rng.uniform(-1, 1, (2, n - 1))
        if j % 3 == 0:
            high[1:-1] = 0.0
        yield {"lower": low, "upper": high, "T": 60 * n}


def settled(i: Instance) -> Numeric:
    """Gram matrix after T layers in units of λ₁^(T−1)."""
    return split_gram(*split_energies_after(i["lower"], i["upper"], i["T"]))


def first_sum(i: Instance) -> Numeric:
    """Σ over L_1 of c²."""
    return i["lower"][0] + i["upper"][0]


def second_sum(i: Instance) -> Numeric:
    """Σ over L_2 of c²."""
    return i["lower"][-1] + i["upper"][-1]


def ratio(i: Instance) -> Numeric:
    """Σ_{L_2} c² / Σ_{L_1} c²."""
    return second_sum(i) / first_sum(i)


def _limit(id: str, compared: Comparison, **settings: Unpack[ClaimSettings]) -> Claim:
    """An asymptotic equality of Appendix D."""
    common: ClaimSettings = {
        "tolerance": 1e-8,
        "counts": (30, 200),
        **settings,
    }
    return asymptotic(id, compared, {"splits": energies}, **common)


def _ratios(rng: Rng, count: int) -> Iterator[Instance]:
    for n in (3, 4, 5, 10):
        yield {"r": 1.0, "n": n}
    for _ in range(count):
        yield {"r": float(10 ** rng.uniform(-3, 3)), "n": int(rng.integers(3, 40))}


RATIO = Search(lambda p: {"r": float(10 ** (6 * p[0] - 3)), "n": 3 + int(10 * p[1])}, 2)


def better(function: Callable[[Any, int], Any], choose: Callable[..., Any]) -> Callable[[Instance], Numeric]:
    """The better of both alternatives of an 'either … or'."""
    return lambda i: choose(function(i["r"], i["n"]), function(1 / i["r"], i["n"]))


def _two_angles(i: Instance) -> Numeric:
    return max(angle_of_cosine(cosine_limit(i["r"], i["n"])), angle_of_cosine(cosine_limit(1 / i["r"], i["n"])))


def _cluster_angle(i: Instance) -> Numeric:
    one = i["r"] * 0 + 1
    return pi_like(one) / 2 - pi_like(one) / ((one * 8) ** 0.5 * (i["n"] - 1))


def _unit_interval(rng: Rng, count: int) -> Iterator[Instance]:
    for value in [0.0, 1.0, *rng.uniform(0, 1, count)]:
        yield {"x": float(value)}


CLAIMS = (
    rational("000/eq-39-40:39", equal(_by_words, _sum_39), {"words": _heights}, counts=(40, 150)),
    rational("000/eq-39-40:40", equal(_sum_39, _closed_40), {"words": _heights}),
    deterministic(
        "000/eq-41-43:dominant",
        below(lambda i: split_contraction(i["m"], i["n"], i["one"]), lambda i: split_contraction(1, i["n"], i["one"])),
        {"splits": _unbalanced},
        counts=(60, 400),
    ),
    deterministic("000/eq-41-43:sets", vanishes(_missing_rows), {"pairs": _pairs}, counts=(60, 400)),
    deterministic(
        "000/eq-41-43:sets#corrected",
        vanishes(_missing_rows),
        {"pairs": _pairs},
        hypotheses=lambda i: i["j"] < i["n"],
        counts=(60, 400),
    ),
    rational("000/eq-41-43:43", equal(_leaf_sum, _leaf_formula), {"leaves": _leaves}, counts=(30, 100)),
    deterministic("000/eq-41-43:exist", above(_total_energy, 0), {"trees": first_stable}, scale=1, counts=(20, 80)),
    asymptotic(
        "000/eq-41-43:exist#corrected", above(_extreme_energy, 0), TREES, scale=1, tolerance=1e-12, counts=(12, 36)
    ),
    _limit("000/eq-44", equal(lambda i: cosine(settled(i), 1, samples(i) - 2), 1)),
    _limit(
        "000/eq-45-50:45", equal(lambda i: settled(i)[1, 1], lambda i: (first_sum(i) + second_sum(i)) / samples(i) ** 2)
    ),
    _limit(
        "000/eq-45-50:46",
        equal(
            lambda i: settled(i)[0, 0],
            lambda i: ((samples(i) - 1) ** 2 * first_sum(i) + second_sum(i)) / samples(i) ** 2,
        ),
    ),
    _limit(
        "000/eq-45-50:47",
        equal(
            lambda i: settled(i)[-1, -1],
            lambda i: (first_sum(i) + (samples(i) - 1) ** 2 * second_sum(i)) / samples(i) ** 2,
        ),
    ),
    _limit(
        "000/eq-45-50:48",
        equal(
            lambda i: settled(i)[1, 1] / settled(i)[0, 0],
            lambda i: first_sum(i) / ((samples(i) - 1) ** 2 * first_sum(i) + second_sum(i)),
        ),
    ),
    _limit(
        "000/eq-45-50:48#corrected",
        equal(
            lambda i: settled(i)[1, 1] / settled(i)[0, 0],
            lambda i: (first_sum(i) + second_sum(i)) / ((samples(i) - 1) ** 2 * first_sum(i) + second_sum(i)),
        ),
    ),
    _limit(
        "000/eq-45-50:49",
        equal(lambda i: settled(i)[1, 1] / settled(i)[0, 0], lambda i: norm_ratio_limit(ratio(i), samples(i))),
    ),
    _limit(
        "000/eq-45-50:50",
        equal(lambda i: settled(i)[1, 1] / settled(i)[-1, -1], lambda i: norm_ratio_limit(1 / ratio(i), samples(i))),
    ),
    deterministic(
        "000/eq-51-52",
        at_most(better(norm_ratio_limit, min), lambda i: 2 / (i["n"] - 1) ** 2),
        {"ratios": _ratios},
        search=RATIO,
    ),
    _limit("000/eq-53-60:53", equal(lambda i: settled(i)[1, 0], lambda i: second_sum(i) / samples(i) ** 2)),
    _limit("000/eq-53-60:54", equal(lambda i: settled(i)[1, -1], lambda i: first_sum(i) / samples(i) ** 2)),
    _limit(
        "000/eq-53-60:57",
        equal(lambda i: cosine(settled(i), 1, 0), lambda i: cosine_limit_as_printed(1 / ratio(i), samples(i))),
    ),
    _limit(
        "000/eq-53-60:57#corrected",
        equal(lambda i: cosine(settled(i), 1, 0), lambda i: cosine_limit(1 / ratio(i), samples(i))),
    ),
    _limit(
        "000/eq-53-60:58",
        equal(lambda i: cosine(settled(i), 1, samples(i) - 1), lambda i: cosine_limit_as_printed(ratio(i), samples(i))),
    ),
    _limit(
        "000/eq-53-60:58#corrected",
        equal(lambda i: cosine(settled(i), 1, samples(i) - 1), lambda i: cosine_limit(ratio(i), samples(i))),
    ),
    deterministic(
        "000/eq-53-60:arccos",
        at_least(lambda i: linear_arccos(i["x"])[0], lambda i: linear_arccos(i["x"])[1]),
        {"points": _unit_interval},
        search=Search(lambda p: {"x": float(p[0])}, 1),
        scale=1,
    ),
    deterministic("000/eq-53-60:59", at_least(_two_angles, _cluster_angle), {"ratios": _ratios}, search=RATIO),
)
