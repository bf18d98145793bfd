"""000, Theorem 11: the limit of the simplified model."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from isometer_papers.claims._claim import Claim, Generator, Instance
from isometer_papers.claims._families import Family
from isometer_papers.claims._statements import (
    Comparison,
    Sampled,
    asymptotic,
    at_least,
    at_most,
    vanishes,
)
from isometer_papers.claims.nachum2024.tree_instances import (
    deep,
    distinct_rows,
    exact_gram_of,
    gram_of,
    higher_rows,
    whole_rows,
)
from isometer_papers.float_or_mpmath import Numeric, angle_of_cosine
from isometer_papers.theory.odd_point.tree import angle_bound


def cosine(gram: Numeric, i: int, j: int) -> Numeric:
    return gram[i, j] / (gram[i, i] * gram[j, j]) ** 0.5


def angle(gram: Numeric, i: int, j: int) -> Numeric:
    return angle_of_cosine(cosine(gram, i, j))


def middle_angle(gram: Numeric) -> Numeric:
    """Largest angle among the samples that are not extreme."""
    middle = range(1, len(gram) - 1)
    return max(angle(gram, i, j) for i in middle for j in middle)


def length_ratio(gram: Numeric, samples: range) -> Numeric:
    """Largest, over middle samples, of the smaller of both ratios of lengths to the extreme ones."""
    return max(min(gram[i, i] / gram[0, 0], gram[i, i] / gram[-1, -1]) ** 0.5 for i in samples)


def extreme_angle(gram: Numeric, samples: range) -> Numeric:
    """Least, over middle samples, of the larger of both angles with the extreme ones."""
    return min(max(angle(gram, i, 0), angle(gram, i, len(gram) - 1)) for i in samples)


def middle(gram: Numeric) -> range:
    return range(1, len(gram) - 1)


def on_trees(compared: Comparison) -> Comparison:
    """A comparison of the Gram matrix of layer T with a bound of the instance; fractions certify it."""
    of_gram, bound = compared.left, compared.right
    assert not isinstance(of_gram, Sampled)
    return replace(compared, left=lambda i: of_gram(gram_of(i)), exact=lambda i: (of_gram(exact_gram_of(i)), bound(i)))


def size(i: Instance) -> int:
    return int(i["x"].shape[-1])


def _at_least(least: int) -> Family:
    return deep(lambda rng, count: distinct_rows(rng, count, least, 8))


TREES = {"rows": _at_least(3), "whole": deep(lambda rng, count: whole_rows(rng, count, 3, 6))}


WIDE = {"rows": _at_least(4), "whole": deep(lambda rng, count: whole_rows(rng, count, 4, 6))}


FEATURES = {"features": deep(higher_rows)}


def _theorem(prefix: str, generators: tuple[Numeric, Numeric], counts: tuple[int, int] = (12, 36)) -> tuple[Claim, ...]:
    """The four items of Theorem 11."""
    every, wide = generators

    def claim(item: str, compared: Comparison, given: dict[str, Generator]) -> Claim:
        return asymptotic(f"{prefix}:{item}", on_trees(compared), given, counts=counts)

    return (
        claim(
            "item-1",
            vanishes(lambda g: cosine(g, 0, len(g) - 1)),
            every,
        ),
        claim(
            "item-2",
            at_most(middle_angle, 1e-4),
            wide,
        ),
        claim(
            "item-3",
            at_most(lambda g: length_ratio(g, middle(g)), lambda i: 3 / (size(i) - 2)),
            every,
        ),
        claim(
            "item-4-lower",
            at_least(lambda g: extreme_angle(g, middle(g)), lambda i: angle_bound(float(np.sqrt(2 * np.pi)), size(i))),
            every,
        ),
        claim(
            "item-4-upper",
            at_most(lambda g: extreme_angle(g, middle(g)), math.pi / 2),
            every,
        ),
    )


def _escape(gram: Numeric) -> Numeric:
    """Length of the longer extreme sample over that of the shortest middle one."""
    return (max(gram[0, 0], gram[-1, -1]) / min(gram[i, i] for i in middle(gram))) ** 0.5


def samples(i: Instance) -> int:
    return len(i["lower"]) + 1


CLAIMS = (
    *_theorem("000/thm-11", (TREES, WIDE)),
    asymptotic(
        "000/thm-11:escape-lower",
        on_trees(at_least(_escape, lambda i: (size(i) - 1) / math.sqrt(2))),
        TREES,
        counts=(12, 36),
    ),
    asymptotic(
        "000/thm-11:escape-upper",
        on_trees(at_most(_escape, lambda i: size(i) - 1)),
        TREES,
        counts=(12, 36),
        tolerance=1e-6,
    ),
    *_theorem("000/remark-highdim", (FEATURES, FEATURES), (8, 24)),
)
