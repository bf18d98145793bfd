"""Rows and trees of the simplified model as instances, and their exact numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Unpack

import numpy as np

from isometer_papers.claims._claim import Claim, Generator, Instance
from isometer_papers.claims._families import Family, Rng, extended
from isometer_papers.claims._precise import mpmath
from isometer_papers.claims._statements import ClaimSettings, Comparison, Sampled, deterministic
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.tree import (
    brute_force_tree,
    cluster_values,
    evolve_tree,
    exact_tree_grams,
    negative_transformation,
    positive_transformation,
)


def fractions(row: Numeric) -> Numeric:
    """A row as fractions, exactly."""
    return np.array([Fraction(float(value)) for value in row], dtype=object)


def precise(value: Any) -> Any:
    """A fraction or whole number as an mpmath number."""
    return mpmath().mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value


def rational(
    id: str,
    compared: Comparison,
    generators: Mapping[str, Generator],
    **settings: Unpack[ClaimSettings],
) -> Claim:
    """A deterministic claim whose sides are computed in fractions anyway: they are their own certificate."""
    left, right = compared.left, compared.right
    assert not isinstance(left, Sampled)
    exact = replace(compared, exact=lambda i: (precise(left(i)), precise(right(i))))
    return deterministic(id, exact, generators, **settings)


def moved(row: Numeric, sign: int) -> Numeric:
    """One transformation."""
    return positive_transformation(row) if sign > 0 else negative_transformation(row)


def path(row: Numeric, signs: Sequence[int]) -> list[Any]:
    """The row and all its images."""
    rows = [fractions(row)]
    for sign in signs:
        rows.append(moved(rows[-1], int(sign)))
    return rows


def clusters(row: Numeric) -> int:
    """c(x)."""
    return len(cluster_values(row))


def mean(row: Numeric) -> Numeric:
    """x̄."""
    return sum(row) / len(row)


def keeps_clusters(i: Instance) -> bool:
    """More than three clusters, as many at the end as at the start."""
    rows = path(i["x"], i["signs"])
    return clusters(rows[0]) > 3 and clusters(rows[-1]) == clusters(rows[0])


def kept_paths(signed: Callable[[Rng], list[int]]) -> Family:
    """Rows of whole numbers that keep their clusters along signs."""

    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        made = tries = 0
        while made < count and tries < 200 * count:
            tries += 1
            n = int(rng.integers(4, 8))
            style = int(rng.integers(3))
            inner = np.sort(rng.choice(np.arange(1, 12), n - 1, replace=False)).astype(float)
            if style == 0:
                inner += float(rng.integers(20, 200))
            elif style == 1:
                inner[-1] += float(rng.integers(20, 200))
            else:
                inner += float(rng.integers(20, 60))
                inner[-1] += float(rng.integers(20, 400))
            instance = {"x": np.concatenate([[0.0], inner]), "signs": signed(rng)}
            if keeps_clusters(instance):
                made += 1
                yield instance

    return generator


def between_negatives(rng: Rng, count: int) -> Iterator[Instance]:
    """Rows with a zero that keep their clusters along −, some +, −; built backwards from the end."""
    yield {"x": np.array([0.0, 10.0, 12.0, 40.0]), "signs": [-1, -1]}
    for _ in range(count):
        n = int(rng.integers(4, 8))
        small = np.sort(rng.choice(np.arange(1, 10), n - 2, replace=False)).astype(float)
        top = float(n * small[-1] - small.sum() + rng.integers(1, 30))
        row = np.concatenate([[0.0], small, [top]])
        between = int(rng.integers(0, 3))
        for _step in range(between):
            row[1:] += row.sum()  # undoes a positive transformation of one zero
        high = row[-1]  # becomes the mean of the row before the first negative one
        first = np.concatenate([high - row[:0:-1], [high + row[:-1].sum() + (high - row[0])]])
        first[-1] = n * high - first[:-1].sum()
        yield {"x": first, "signs": [-1, *[1] * between, -1]}


def from_first_layer(rng: Rng, count: int) -> Iterator[Instance]:
    """Rows as `between_negatives` has them, moved so that the least entry is not 0: t_1 = 1."""
    yield {"x": np.array([-20.0, -10.0, -8.0, 20.0]), "signs": [-1, -1]}
    for instance in between_negatives(rng, count):
        yield {**instance, "x": instance["x"] - float(rng.integers(1, 100))}


def distinct_rows(rng: Rng, count: int, least: int = 3, most: int = 8) -> Iterator[Instance]:
    """Sorted rows of distinct numbers: equally spaced, Gaussian, log-normal, nearly tied, symmetric."""
    for n in range(least, min(most, least + 3) + 1):
        yield {"x": np.arange(float(n))}
    for j in range(count):
        n = int(rng.integers(least, most + 1))
        yield {"x": _row(rng, n, j % 4)}


def _row(rng: Rng, n: int, style: int) -> Any:
    if style == 0:
        row = rng.standard_normal(n)
    elif style == 1:
        row = np.exp(1.5 * rng.standard_normal(n))
    elif style == 2:
        row = np.concatenate([1 + 1e-3 * rng.permutation(99)[: n - 1], [float(rng.choice([0.0, 2.0]))]])
    else:
        half = rng.uniform(0.1, 2, n // 2)
        row = np.concatenate([-half, half, [0.0] * (n % 2)])
    return np.sort(row)


def whole_rows(rng: Rng, count: int, least: int = 3, most: int = 7) -> Iterator[Instance]:
    """Sorted rows of distinct whole numbers."""
    for n in range(least, most + 1):
        yield {"x": np.arange(float(n))}
    for _ in range(count):
        n = int(rng.integers(least, most + 1))
        yield {"x": np.sort(rng.choice(np.arange(60), n, replace=False)).astype(float)}


def deep(generate: Family, layers: int = 40) -> Family:
    """The same rows with a depth of so many layers per sample."""
    return extended(generate, lambda rng, i: {"T": layers * i["x"].shape[-1]})


def first_stable(rng: Rng, count: int) -> Iterator[Instance]:
    """Rows with the first layer at which no row has more than three clusters, t₀, as T."""
    for instance in whole_rows(rng, count, 5, 7):
        stable = tree(instance["x"], 20 * len(instance["x"])).stable_layer
        yield {**instance, "T": max(int(stable), 1)}


def higher_rows(rng: Rng, count: int) -> Iterator[Instance]:
    """Several features: the first sample is the least in all of them, the last the greatest; `(d, n)`."""
    for _ in range(count):
        n, d = int(rng.integers(4, 8)), int(rng.integers(2, 4))
        rows = np.sort(rng.standard_normal((d, n)) * 10.0 ** rng.uniform(-1, 1, (d, 1)), axis=1)
        for row in rows:
            row[1:-1] = rng.permutation(row[1:-1])
        yield {"x": rows}


@lru_cache(maxsize=512)
def _tree(key: bytes, n: int, layers: int) -> Any:
    return evolve_tree(np.frombuffer(key), layers)


def tree(row: Numeric, layers: int) -> Numeric:
    """The tree of a row, computed once."""
    values = np.ascontiguousarray(np.asarray(row, dtype=float))
    return _tree(values.tobytes(), len(values), layers)


def gram_of(i: Instance) -> Numeric:
    """Inner products at layer T, summed over features, up to a factor."""
    rows = np.atleast_2d(np.asarray(i["x"], dtype=float))
    trees = [tree(row, i["T"]) for row in rows]
    # scales of deep trees may be below the smallest float; only their ratios matter
    scales = np.array([item.log_scale(i["T"]) for item in trees])
    return sum(item.gram(i["T"]) * np.exp(s - scales.max()) for item, s in zip(trees, scales, strict=True))


def exact_gram_of(i: Instance) -> Numeric:
    """The same from fractions, as mpmath numbers."""
    rows = np.atleast_2d(i["x"])
    total: Any = 0
    for row in rows:
        total = total + exact_tree_grams([Fraction(float(value)) for value in row], i["T"])[-1]
    return np.frompyfunc(precise, 1, 1)(total)


def rows_at(i: Instance) -> Numeric:
    """All rows of layer t in fractions."""
    return brute_force_tree(fractions(i["x"]), i["t"])
