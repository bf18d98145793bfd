"""000, Theorem 11: the limit of the simplified model."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from isometer_papers.claims._claim import Claim, Generator, Instance
from isometer_papers.claims._families import Family
from isometer_papers.claims._statements import (
    ClaimSettings,
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
from isometer_papers.float_or_mpmath import angle_of_cosine
from isometer_papers.theory.odd_point.tree import angle_bound


def cosine(gram: Any, i: int, j: int) -> Any:
    return gram[i, j] / (gram[i, i] * gram[j, j]) ** 0.5


def angle(gram: Any, i: int, j: int) -> Any:
    return angle_of_cosine(cosine(gram, i, j))


def middle_angle(gram: Any) -> Any:
    """Largest angle among the samples that are not extreme."""
    middle = range(1, len(gram) - 1)
    return max(angle(gram, i, j) for i in middle for j in middle)


def length_ratio(gram: Any, samples: range) -> Any:
    """Largest, over middle samples, of the smaller of both ratios of lengths to the extreme ones."""
    return max(min(gram[i, i] / gram[0, 0], gram[i, i] / gram[-1, -1]) ** 0.5 for i in samples)


def extreme_angle(gram: Any, samples: range) -> Any:
    """Least, over middle samples, of the larger of both angles with the extreme ones."""
    return min(max(angle(gram, i, 0), angle(gram, i, len(gram) - 1)) for i in samples)


def middle(gram: Any) -> range:
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


DEPTH = "layer 40n, n ≤ 8"


def _theorem(
    prefix: str, generators: tuple[Any, Any], place: str, scope: str, more: str = "", counts: tuple[int, int] = (12, 36)
) -> tuple[Claim, ...]:
    """The four items of Theorem 11."""
    every, wide = generators

    def claim(
        item: str, statement: str, compared: Comparison, given: dict[str, Generator], **settings: Unpack[ClaimSettings]
    ) -> Claim:
        common: ClaimSettings = {"counts": counts, "scope": scope, **settings}
        where = f"{place}, {item.replace('-', ' ')}"
        return asymptotic(f"{prefix}:{item}", where, f"{more}{statement}", on_trees(compared), given, **common)

    half_pi = "π/2 − √(2π)/(n−2)"
    return (
        claim(
            "item-1",
            "∠(x_1⁽ᵗ⁾, x_n⁽ᵗ⁾) = π/2 for all t",
            vanishes(lambda g: cosine(g, 0, len(g) - 1)),
            every,
            scope=f"cosine at {scope}",
        ),
        claim(
            "item-2",
            "lim ∠(x_i⁽ᵗ⁾, x_j⁽ᵗ⁾) = 0 for i, j ∈ {2, …, n−1}",
            at_most(middle_angle, 1e-4),
            wide,
            scope=f"below 1e-4 at {scope}",
        ),
        claim(
            "item-3",
            "for i ∈ {2, …, n−1} lim ‖x_i‖/‖x_1‖ ≤ 3/(n−2) or lim ‖x_i‖/‖x_n‖ ≤ 3/(n−2)",
            at_most(lambda g: length_ratio(g, middle(g)), lambda i: 3 / (size(i) - 2)),
            every,
            remark="sharp: √2/√((n−1)² + 1), attained by rows that are symmetric about their mean",
        ),
        claim(
            "item-4-lower",
            f"for i ∈ {{2, …, n−1}} lim ∠(x_i, x_1) ≥ {half_pi} or lim ∠(x_i, x_n) ≥ {half_pi}",
            at_least(lambda g: extreme_angle(g, middle(g)), lambda i: angle_bound(float(np.sqrt(2 * np.pi)), size(i))),
            every,
            remark="sharp: arccos(1/√(2(n−1)² + 2)), about π/2 − 0.71/(n−1); eq. 88 has √2·π for √(2π)",
        ),
        claim(
            "item-4-upper",
            "lim ∠(x_i, x_1) ≤ π/2 and lim ∠(x_i, x_n) ≤ π/2",
            at_most(lambda g: extreme_angle(g, middle(g)), math.pi / 2),
            every,
        ),
    )


def _escape(gram: Any) -> Any:
    """Length of the longer extreme sample over that of the shortest middle one."""
    return (max(gram[0, 0], gram[-1, -1]) / min(gram[i, i] for i in middle(gram))) ** 0.5


def samples(i: Instance) -> int:
    return len(i["lower"]) + 1


CLAIMS = (
    *_theorem("000/thm-11", (TREES, WIDE), "Theorem 11", DEPTH),
    asymptotic(
        "000/thm-11:escape-lower",
        "Interpretation of Theorem 11",
        "the norm of the escaped point over that of any point in the cluster is Θ(n): at least of order n",
        on_trees(at_least(_escape, lambda i: (size(i) - 1) / math.sqrt(2))),
        TREES,
        counts=(12, 36),
        scope=f"(n−1)/√2 at {DEPTH}",
    ),
    asymptotic(
        "000/thm-11:escape-upper",
        "Interpretation of Theorem 11",
        "the norm of the escaped point over that of any point in the cluster is Θ(n): at most of order n",
        on_trees(at_most(_escape, lambda i: size(i) - 1)),
        TREES,
        counts=(12, 36),
        tolerance=1e-6,
        scope=f"n − 1 at {DEPTH}",
    ),
    *_theorem(
        "000/remark-highdim",
        (FEATURES, FEATURES),
        "Remark, §III",
        "layer 40n, 2 or 3 features, n from 4 to 7",
        "one point greater and one smaller than all others in every coordinate ⇒ ",
        (8, 24),
    ),
)
