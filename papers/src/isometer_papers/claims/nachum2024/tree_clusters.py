"""000, Theorem 10 and Appendix C: every row settles at three clusters or fewer."""

from __future__ import annotations

from collections.abc import Iterator

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
    from_first_layer,
    keeps_clusters,
    kept_paths,
    mean,
    path,
    rational,
    rows_at,
    tree,
    whole_rows,
)
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.tree import cluster_values
from isometer_papers.theory.odd_point.tree import inner_gaps


def _final_clusters(i: Instance) -> int:
    return int(tree(i["x"], i["T"]).clusters[-1])


def _largest_rise(i: Instance) -> int:
    return int(np.diff(tree(i["x"], i["T"]).clusters).max())


def _least_clusters(i: Instance) -> int:
    return min(clusters(row) for row in rows_at(i))


def _one_sample(rng: Rng, count: int) -> Iterator[Instance]:
    for layer in (1, 2, 3):
        yield {"x": np.array([5.0]), "t": layer}


def _third_gap(row: Numeric) -> Numeric:
    values = cluster_values(row)
    return values[2] - values[1]


def _positive_count(row: Numeric) -> int:
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


def _gap_change(i: Instance) -> Numeric:
    """c_3 − c_2 at the end minus at layer 1."""
    rows = path(i["x"], i["signs"])
    return abs(_third_gap(rows[-1]) - _third_gap(rows[1]))


def _count_change(i: Instance) -> int:
    rows = path(i["x"], i["signs"])
    return abs(_positive_count(rows[-1]) - _positive_count(rows[1]))


def _inner_change(i: Instance) -> Numeric:
    rows = path(i["x"], i["signs"])
    first, last = inner_gaps(list(rows[0])), inner_gaps(list(rows[-1]))
    return max(abs(a - b) for a, b in zip(first, last, strict=True))


def _mean_side(i: Instance) -> Numeric:
    return min(mean(row) for row in path(i["x"], i["signs"])[1:])


def _gap_side(i: Instance) -> Numeric:
    return _third_gap(path(i["x"], i["signs"])[1]) / len(i["x"])


def _last_mean(i: Instance) -> Numeric:
    return mean(path(i["x"], i["signs"])[-1])


def _predicted_mean(i: Instance) -> Numeric:
    before = path(i["x"], i["signs"])[-2]
    return mean(before) * (len(before) - _positive_count(before)) / len(before)


def _spread(row: Numeric) -> Numeric:
    return max(row) - mean(row)


def _eq_35(i: Instance, stage: str) -> Numeric:
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
        at_most(_final_clusters, 3),
        {"whole": deep(whole_rows, 20), "rows": deep(distinct_rows, 20)},
        counts=(20, 150),
    ),
    rational(
        "000/thm-10:after",
        at_most(_largest_rise, 0),
        {"whole": deep(whole_rows, 20), "rows": deep(distinct_rows, 20)},
        counts=(20, 150),
        scale=1,
    ),
    rational("000/thm-10:two-or-three", at_least(_least_clusters, 2), {"one": _one_sample, "whole": shallow}),
    rational("000/thm-10:two-or-three#corrected", at_least(_least_clusters, 2), {"whole": shallow}, counts=(20, 60)),
    rational("000/thm-10:eq-31-gap", vanishes(_gap_change), POSITIVE, hypotheses=keeps_clusters, counts=(40, 200)),
    rational("000/thm-10:eq-31-count", vanishes(_count_change), POSITIVE, hypotheses=keeps_clusters, counts=(40, 200)),
    rational("000/thm-10:eq-31-mixed", vanishes(_gap_change), MIXED, hypotheses=keeps_clusters, counts=(40, 200)),
    rational(
        "000/thm-10:eq-31-mixed#corrected", vanishes(_inner_change), MIXED, hypotheses=keeps_clusters, counts=(40, 200)
    ),
    rational("000/thm-10:eq-32", above(_mean_side, _gap_side), MIXED, hypotheses=keeps_clusters, counts=(40, 200)),
    rational("000/eq-33", equal(_last_mean, _predicted_mean), POSITIVE, hypotheses=keeps_clusters, counts=(40, 200)),
    rational(
        "000/eq-35:c",
        equal(_last_mean, lambda i: _eq_35(i, "c")),
        {"negatives": between_negatives},
        hypotheses=keeps_clusters,
        counts=(60, 300),
    ),
    rational(
        "000/eq-35:d",
        below(lambda i: _eq_35(i, "c"), lambda i: _eq_35(i, "d")),
        {"negatives": between_negatives},
        hypotheses=keeps_clusters,
        counts=(60, 300),
    ),
    rational(
        "000/eq-35:d#corrected",
        at_most(lambda i: _eq_35(i, "c"), lambda i: _eq_35(i, "d")),
        {"negatives": between_negatives},
        hypotheses=keeps_clusters,
        counts=(60, 300),
    ),
    rational(
        "000/eq-35:e",
        equal(lambda i: _eq_35(i, "d"), lambda i: _eq_35(i, "e")),
        {"first": from_first_layer},
        hypotheses=keeps_clusters,
        counts=(60, 300),
    ),
    rational(
        "000/eq-35:e#corrected",
        equal(lambda i: _eq_35(i, "d"), lambda i: _eq_35(i, "e")),
        {"negatives": between_negatives},
        hypotheses=keeps_clusters,
        counts=(60, 300),
    ),
    rational(
        "000/eq-35:f",
        below(_last_mean, lambda i: _eq_35(i, "f")),
        {"first": from_first_layer},
        hypotheses=keeps_clusters,
        counts=(60, 300),
    ),
    rational(
        "000/eq-35:f#corrected",
        below(_last_mean, lambda i: _eq_35(i, "f")),
        {"negatives": between_negatives},
        hypotheses=keeps_clusters,
        counts=(60, 300),
    ),
)
