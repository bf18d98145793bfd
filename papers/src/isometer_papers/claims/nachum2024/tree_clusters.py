"""000, Theorem 10 and Appendix C: every row settles at three clusters or fewer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import Rng
from isometer_papers.claims._statements import above, at_least, at_most, below, equal, vanishes
from isometer_papers.claims.nachum2024.tree import shallow
from isometer_papers.claims.nachum2024.tree_instances import (
    between_negatives,
    clusters,
    deep,
    distinct_rows,
    fractions,
    keeps_clusters,
    kept_paths,
    mean,
    path,
    rational,
    rows_at,
    tree,
    whole_rows,
)
from isometer_papers.simulate.tree import cluster_values
from isometer_papers.theory.odd_point.tree import inner_gaps


def _final_clusters(i: Instance) -> int:
    return int(tree(i["x"], i["T"]).clusters[-1])


def _largest_rise(i: Instance) -> int:
    return int(np.diff(tree(i["x"], i["T"]).clusters).max())


def _least_clusters(i: Instance) -> int:
    return min(clusters(row) for row in rows_at(i))


def _third_gap(row: Any) -> Any:
    values = cluster_values(row)
    return values[2] - values[1]


def _positive_count(row: Any) -> int:
    return sum(value > 0 for value in row)


def _positive_signs(rng: Rng) -> list[int]:
    return [1] * int(rng.integers(2, 4))


def _mixed_signs(rng: Rng) -> list[int]:
    return [int(v) for v in rng.choice([1, -1], int(rng.integers(2, 4)))]


def _mixed(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"x": np.array([0.0, 108.0, 109.0, 111.0, 207.0]), "signs": [1, -1]}
    yield from kept_paths(_mixed_signs)(rng, count)


POSITIVE = {"kept": kept_paths(_positive_signs)}


MIXED = {"kept": _mixed}


def _gap_change(i: Instance) -> Any:
    """c_3 − c_2 at the end minus at layer 1."""
    rows = path(i["x"], i["signs"])
    return abs(_third_gap(rows[-1]) - _third_gap(rows[1]))


def _count_change(i: Instance) -> int:
    rows = path(i["x"], i["signs"])
    return abs(_positive_count(rows[-1]) - _positive_count(rows[1]))


def _inner_change(i: Instance) -> Any:
    rows = path(i["x"], i["signs"])
    first, last = inner_gaps(list(rows[0])), inner_gaps(list(rows[-1]))
    return max(abs(a - b) for a, b in zip(first, last, strict=True))


def _mean_side(i: Instance) -> Any:
    return min(mean(row) for row in path(i["x"], i["signs"])[1:])


def _gap_side(i: Instance) -> Any:
    return _third_gap(path(i["x"], i["signs"])[1]) / len(i["x"])


def _last_mean(i: Instance) -> Any:
    return mean(path(i["x"], i["signs"])[-1])


def _predicted_mean(i: Instance) -> Any:
    before = path(i["x"], i["signs"])[-2]
    return mean(before) * (len(before) - _positive_count(before)) / len(before)


def _spread(row: Any) -> Any:
    return max(row) - mean(row)


def _eq_35(i: Instance, stage: str) -> Any:
    rows = path(i["x"], i["signs"])
    n = len(rows[0])
    factor = (n - _positive_count(rows[-1]) + fractions([0.0])[0]) / n
    return {
        "c": lambda: factor * _spread(rows[-2]),
        "d": lambda: factor * _spread(rows[1]),
        "e": lambda: factor * (mean(rows[0]) - mean(rows[1])),
        "f": lambda: (1 - fractions([2.0])[0] / n) * mean(rows[0]),
    }[stage]()


CLAIMS = (
    rational(
        "000/thm-10",
        "Theorem 10",
        "x⁽⁰⁾ with distinct entries, any infinite sequence of transformations ⇒ c(x⁽ᵗ⁰⁾) ≤ 3 at a finite t₀",
        at_most(_final_clusters, 3),
        {"whole": deep(whole_rows, 20), "rows": deep(distinct_rows, 20)},
        counts=(20, 150),
        scope="all sequences at once: every row of layer 20n of the tree, n ≤ 8, exactly",
    ),
    rational(
        "000/thm-10:after",
        "after Theorem 10",
        "from t₀ on every row has at most 3 clusters",
        at_most(_largest_rise, 0),
        {"whole": deep(whole_rows, 20), "rows": deep(distinct_rows, 20)},
        counts=(20, 150),
        scale=1,
        scope="the largest number of clusters of a layer never rises",
    ),
    rational(
        "000/thm-10:two-or-three",
        "before Definition 8",
        "the number of clusters converges to either 2 or 3",
        at_least(_least_clusters, 2),
        {"whole": shallow},
        counts=(20, 60),
        scope="with 000/thm-10: it never falls below 2 for n ≥ 2",
    ),
    rational(
        "000/thm-10:eq-31-gap",
        "eq. 31",
        "positive transformations that keep c > 3 keep Δ_t = c_3 − c_2",
        vanishes(_gap_change),
        POSITIVE,
        hypotheses=keeps_clusters,
        counts=(40, 200),
        scope="t ≥ 1",
    ),
    rational(
        "000/thm-10:eq-31-count",
        "eq. 31",
        "positive transformations that keep c > 3 keep the number n_t of positive entries",
        vanishes(_count_change),
        POSITIVE,
        hypotheses=keeps_clusters,
        counts=(40, 200),
        scope="t ≥ 1",
    ),
    rational(
        "000/thm-10:eq-31-mixed",
        "eq. 31, as the last case of Appendix C uses it",
        "positive and negative transformations that keep c > 3 keep Δ_t = c_3 − c_2",
        vanishes(_gap_change),
        MIXED,
        hypotheses=keeps_clusters,
        counts=(40, 200),
        corrected="000/thm-10:eq-31-mixed#corrected",
        remark="a negative transformation reverses the clusters, so that other gaps come second",
    ),
    rational(
        "000/thm-10:eq-31-mixed#corrected",
        "eq. 31",
        "positive and negative transformations that keep c > 3 keep the gaps between the inner clusters as a set",
        vanishes(_inner_change),
        MIXED,
        hypotheses=keeps_clusters,
        counts=(40, 200),
        remark="the gap c_3 − c_2 is one of them, which is enough for eq. 32",
    ),
    rational(
        "000/thm-10:eq-32",
        "eq. 32",
        "transformations that keep c > 3 have x̄⁽ᵗ⁾ > Δ/n, Δ = c_3 − c_2 at layer 1",
        above(_mean_side, _gap_side),
        MIXED,
        hypotheses=keeps_clusters,
        counts=(40, 200),
    ),
    rational(
        "000/eq-33",
        "eq. 33",
        "x̄⁽ᵗ⁺¹⁾ = (1 − n_t/n) x̄⁽ᵗ⁾ for a positive transformation that keeps c > 3",
        equal(_last_mean, _predicted_mean),
        POSITIVE,
        hypotheses=keeps_clusters,
        counts=(40, 200),
        scope="t ≥ 1",
    ),
    rational(
        "000/eq-35:c",
        "eq. 35a–c",
        "x̄⁽ᵗ²⁾ = (1 − n_{t2}/n)(x_max⁽ᵗ²⁻¹⁾ − x̄⁽ᵗ²⁻¹⁾)",
        equal(_last_mean, lambda i: _eq_35(i, "c")),
        {"negatives": between_negatives},
        hypotheses=keeps_clusters,
        counts=(60, 300),
    ),
    rational(
        "000/eq-35:d",
        "eq. 35d",
        "(1 − n_{t2}/n)(x_max⁽ᵗ²⁻¹⁾ − x̄⁽ᵗ²⁻¹⁾) < (1 − n_{t2}/n)(x_max⁽ᵗ¹⁾ − x̄⁽ᵗ¹⁾)",
        below(lambda i: _eq_35(i, "c"), lambda i: _eq_35(i, "d")),
        {"negatives": between_negatives},
        hypotheses=keeps_clusters,
        counts=(60, 300),
        corrected="000/eq-35:d#corrected",
        remark="both sides are the same for t_2 = t_1 + 1",
    ),
    rational(
        "000/eq-35:d#corrected",
        "eq. 35d",
        "(1 − n_{t2}/n)(x_max⁽ᵗ²⁻¹⁾ − x̄⁽ᵗ²⁻¹⁾) ≤ (1 − n_{t2}/n)(x_max⁽ᵗ¹⁾ − x̄⁽ᵗ¹⁾)",
        at_most(lambda i: _eq_35(i, "c"), lambda i: _eq_35(i, "d")),
        {"negatives": between_negatives},
        hypotheses=keeps_clusters,
        counts=(60, 300),
    ),
    rational(
        "000/eq-35:e",
        "eq. 35e",
        "x_max⁽ᵗ¹⁾ = x̄⁽ᵗ¹⁻¹⁾, so that x_max⁽ᵗ¹⁾ − x̄⁽ᵗ¹⁾ = x̄⁽ᵗ¹⁻¹⁾ − x̄⁽ᵗ¹⁾",
        equal(lambda i: _eq_35(i, "d"), lambda i: _eq_35(i, "e")),
        {"negatives": between_negatives},
        hypotheses=keeps_clusters,
        counts=(60, 300),
        scope="rows with a cluster at zero, t_1 ≥ 2",
    ),
    rational(
        "000/eq-35:f",
        "eq. 35",
        "x̄⁽ᵗ²⁾ < (1 − 2/n) x̄⁽ᵗ¹⁻¹⁾ between two negative transformations that keep c > 3",
        below(_last_mean, lambda i: _eq_35(i, "f")),
        {"negatives": between_negatives},
        hypotheses=keeps_clusters,
        counts=(60, 300),
        remark="c > 3 gives n_{t2} ≥ 3, so 1 − 3/n is true too",
    ),
)
