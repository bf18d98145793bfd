"""000, §III: rows of the simplified model, with two and three clusters."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product

import numpy as np

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import Rng, extended
from isometer_papers.claims._statements import at_least, at_most, equal, vanishes
from isometer_papers.claims.nachum2024.tree_instances import (
    clusters,
    distinct_rows,
    fractions,
    mean,
    moved,
    path,
    rational,
    rows_at,
    whole_rows,
)
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.tree import (
    cluster_values,
    negative_transformation,
    positive_transformation,
    two_cluster_row,
)

shallow = extended(whole_rows, lambda rng, i: {"t": int(rng.integers(0, 5))})


def _model_gap(i: Instance) -> Numeric:
    """relu([I; −I](X − x̄)) against the two transformations of every row."""
    rows = rows_at(i)
    size = len(rows)
    weights = np.concatenate([np.eye(size, dtype=int), -np.eye(size, dtype=int)])
    centred = rows - (rows.sum(axis=1) / rows.shape[1])[:, None]
    product_ = np.maximum(weights @ centred, 0)
    children = np.concatenate([positive_transformation(rows), negative_transformation(rows)])
    return abs(product_ - children).max()


def _order_gap(i: Instance) -> Numeric:
    """Least step of the positive child and of the reversed negative child of a sorted row."""
    row = fractions(i["x"])
    up, down = positive_transformation(row), negative_transformation(row)[::-1]
    return min(min(np.diff(up)), min(np.diff(down)))


def _least_entry(i: Instance) -> Numeric:
    row = fractions(i["x"])
    return max(min(positive_transformation(row)), min(negative_transformation(row)))


def _tables(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"x": [0, 1, 2], "table": [0, 0, 1, 0, 0, 0, 0]}
    for _ in range(count):
        yield {"x": rng.integers(0, 7, int(rng.integers(1, 9))).tolist(), "table": rng.integers(0, 7, 7).tolist()}


def _splits(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        n = int(rng.integers(2, 9))
        yield {
            "c": int(rng.integers(1, 20)),
            "zeros": int(rng.integers(1, n)),
            "n": n,
            "signs": rng.choice([1, -1], int(rng.integers(1, 8))).tolist(),
        }


def _two(i: Instance) -> Numeric:
    return [0] * i["zeros"] + [i["c"]] * (i["n"] - i["zeros"])


def _height_after(i: Instance, signs: list[int]) -> Numeric:
    return max(path(_two(i), signs)[-1])


def _eq_38(i: Instance) -> Numeric:
    """c (n₀/n)^k ((n − n₀)/n)^(T−k), k counted along the way."""
    rows = path(_two(i), i["signs"])[1:]
    k = sum(row[0] == 0 for row in rows)
    zeros, n = fractions([i["zeros"]])[0], i["n"]
    return i["c"] * (zeros / n) ** k * ((n - zeros) / n) ** (len(rows) - k)


def _formula_38(i: Instance) -> Numeric:
    return two_cluster_row(fractions([i["c"]])[0], i["zeros"], i["n"], i["signs"])[0]


def _child_clusters(i: Instance) -> int:
    row = fractions(i["x"])
    return clusters(positive_transformation(row)) + clusters(negative_transformation(row))


def _two_rows(rng: Rng, count: int) -> Iterator[Instance]:
    for instance in _splits(rng, count):
        yield {"x": np.array(_two(instance), dtype=float)}


def _same_split(i: Instance) -> int:
    """How many neighbours are apart in a child and were not in the row, or the other way round."""
    row = fractions(i["x"])
    before = [a != b for a, b in pairwise(row)]
    wrong = 0
    for sign in (1, -1):
        child = moved(row, sign)
        wrong += sum((a != b) != was for a, b, was in zip(child[:-1], child[1:], before, strict=True))
    return wrong


def _three_rows(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"x": np.array([0.0, 1.0, 2.0])}
    yield {"x": np.array([0.0, 1.0, 5.0])}
    for _ in range(count):
        sizes = rng.integers(1, 5, 3)
        heights = np.sort(rng.choice(np.arange(1, 30), 2, replace=False))
        yield {"x": np.repeat([0.0, *heights], sizes)}


def _mean_apart(i: Instance) -> bool:
    """No entry is the mean, now and for some layers on the way of the three clusters."""
    row = fractions(i["x"])
    for _ in range(i.get("T", 1)):
        if mean(row) in row:
            return False
        row = next((child for child in (moved(row, 1), moved(row, -1)) if clusters(child) == 3), row)
    return True


_three_deep = extended(_three_rows, lambda rng, i: {"T": int(rng.integers(1, 6))})


def _three_cluster_descendants(i: Instance) -> int:
    return sum(clusters(path(i["x"], signs)[-1]) == 3 for signs in product((1, -1), repeat=i["T"]))


def _middle_size(i: Instance) -> int:
    """Largest middle cluster of a row with three."""
    largest = 1
    for row in rows_at(i):
        values = cluster_values(row)
        if len(values) == 3:
            largest = max(largest, sum(value == values[1] for value in row))
    return largest


def _tree_rows(rng: Rng, count: int) -> Iterator[Instance]:
    for instance in whole_rows(rng, count, 4, 7):
        yield {**instance, "t": int(rng.integers(1, 7))}


def _foreign_compositions(i: Instance) -> int:
    """Rows of three clusters that lead to a split of one sample and are neither (1, 1, n−2) nor (n−2, 1, 1)."""
    wrong = 0
    n = len(i["x"])
    for row in rows_at(i):
        values = cluster_values(row)
        if len(values) != 3:
            continue
        sizes = [sum(value == level for value in row) for level in values]
        if sizes in ([1, 1, n - 2], [n - 2, 1, 1]):
            continue
        wrong += _reaches_single(row)
    return wrong


def _reaches_single(row: Numeric) -> bool:
    for _ in range(12):
        children = [moved(row, 1), moved(row, -1)]
        for child in children:
            zeros = sum(value == 0 for value in child)
            if clusters(child) == 2 and zeros in (1, len(row) - 1):
                return True
        following = [child for child in children if clusters(child) == 3]
        if not following:
            return False
        row = following[0]
    return False


def _largest_three(i: Instance) -> Numeric:
    """Largest entry of the descendants with three clusters."""
    rows = (path(i["x"], signs)[-1] for signs in product((1, -1), repeat=i["T"]))
    return max([max(row) for row in rows if clusters(row) == 3] or [fractions([0.0])[0]])


def _decay_bound(i: Instance) -> Numeric:
    n = len(i["x"])
    return (fractions([n - 1.0])[0] / n) ** i["T"] * fractions([max(i["x"])])[0]


CLAIMS = (
    rational(
        "000/model-tree:size",
        equal(lambda i: len(rows_at(i)), lambda i: 2 ** i["t"]),
        {"whole": shallow},
        counts=(20, 60),
    ),
    rational("000/model-tree:rows", vanishes(_model_gap), {"whole": shallow}, counts=(20, 60)),
    rational("000/fig-4:order", at_least(_order_gap, 0), {"whole": whole_rows, "rows": distinct_rows}, scale=1),
    rational("000/fig-4:zero", vanishes(_least_entry), {"whole": whole_rows, "rows": distinct_rows}),
    rational(
        "000/lem-7",
        at_most(lambda i: len({i["table"][v] for v in i["x"]}), lambda i: len(set(i["x"]))),
        {"tables": _tables},
    ),
    rational(
        "000/eq-36-38:36",
        equal(lambda i: _height_after(i, [1]), lambda i: i["c"] * fractions([i["zeros"]])[0] / i["n"]),
        {"random": _splits},
    ),
    rational(
        "000/eq-36-38:37",
        equal(lambda i: _height_after(i, [-1]), lambda i: i["c"] * (i["n"] - fractions([i["zeros"]])[0]) / i["n"]),
        {"random": _splits},
    ),
    rational("000/eq-36-38:38", equal(lambda i: _height_after(i, i["signs"]), _eq_38), {"random": _splits}),
    rational("000/eq-36-38:formula", equal(lambda i: _height_after(i, i["signs"]), _formula_38), {"random": _splits}),
    rational("000/fig-7:two", equal(_child_clusters, 4), {"random": _two_rows}),
    rational("000/fig-7:split", vanishes(_same_split), {"random": _two_rows}),
    rational("000/fig-8", equal(_child_clusters, 5), {"random": _three_rows}),
    rational("000/fig-8#corrected", equal(_child_clusters, 5), {"random": _three_rows}, hypotheses=_mean_apart),
    rational("000/appE-mid:single", equal(_middle_size, 1), {"rows": _tree_rows}, counts=(20, 80)),
    rational("000/appE-mid:composition", vanishes(_foreign_compositions), {"rows": _tree_rows}, counts=(20, 80)),
    rational(
        "000/appE-mid:exactly-one", equal(_three_cluster_descendants, 1), {"random": _three_deep}, counts=(40, 200)
    ),
    rational(
        "000/appE-mid:exactly-one#intended",
        equal(_three_cluster_descendants, 1),
        {"random": _three_deep},
        hypotheses=_mean_apart,
        counts=(40, 200),
    ),
    rational(
        "000/appE-mid:exactly-one#corrected",
        at_most(_three_cluster_descendants, 1),
        {"random": _three_deep},
        counts=(40, 200),
    ),
    rational("000/appE-mid:decay", at_most(_largest_three, _decay_bound), {"random": _three_deep}, counts=(40, 200)),
)
