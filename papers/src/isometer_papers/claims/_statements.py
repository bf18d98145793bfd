"""How a paper's statement is declared: its kind by name, and what is compared on one line.

deterministic(
    "002/lem-18:eq-61",
    at_most(_square_sum, _root_of_cubes),
    {"random": random_unit},
)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict, Unpack

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Generator, Instance, Kind, Relation, Search
from isometer_papers.float_or_mpmath import Numeric

Side = Callable[[Instance], Numeric]
Sampler = Callable[[Instance, np.random.Generator], Estimate]


@dataclass(frozen=True)
class Sampled:
    """A side that is read off random draws.

    Args:
        estimate: of an instance and a generator of random numbers.
        again: an independent estimator that certifies a refutation.
        independence: what it does otherwise, in a few words.

    Example:
        >>> Sampled(lambda i, rng: Estimate.of(rng.standard_normal(9))).again is None
        True
    """

    estimate: Sampler
    again: Sampler | None = None
    independence: str = ""


@dataclass(frozen=True)
class Comparison:
    """Two sides of a statement; made by `equal`, `at_most` and the like.

    Args:
        relation: between left and right.
        left: the quantity.
        right: the bound.
        scale: the size against which differences count, if it is not the larger side.
        exact: both sides again in mpmath, if the same functions cannot do it.

    Example:
        >>> below(lambda i: i["x"], 3).right({})
        3
    """

    relation: Relation
    left: Side | Sampled
    right: Side
    scale: Side | None = None
    exact: Callable[[Instance], tuple[Numeric, Numeric]] | None = None


class ClaimSettings(TypedDict, total=False):
    """Further arguments of `Claim`; a number may stand for a scale that is the same for every instance."""

    hypotheses: Callable[[Instance], bool]
    witness: Callable[[Instance], str] | None
    search: Search | None
    trivial: Side | None
    exact: Callable[[Instance], tuple[Numeric, Numeric]] | None
    tolerance: float
    scale: Side | float | None
    counts: tuple[int, int]
    resolution: float


def equal(left: Side | Sampled, right: Side | float) -> Comparison:
    """left = right.

    Example:
        >>> equal(lambda i: i["x"], 1).relation
        '=='
    """
    return Comparison("==", left, _side(right))


def vanishes(left: Side | Sampled) -> Comparison:
    """left = 0, where differences count as they are.

    Example:
        >>> vanishes(lambda i: i["x"]).scale({})
        1
    """
    return Comparison("==", left, _side(0), _side(1))


def at_most(left: Side | Sampled, right: Side | float) -> Comparison:
    """left ≤ right.

    Example:
        >>> at_most(lambda i: i["x"], 1).relation
        '<='
    """
    return Comparison("<=", left, _side(right))


def below(left: Side | Sampled, right: Side | float) -> Comparison:
    """left < right.

    Example:
        >>> below(lambda i: i["x"], 1).relation
        '<'
    """
    return Comparison("<", left, _side(right))


def at_least(left: Side | Sampled, right: Side | float) -> Comparison:
    """left ≥ right.

    Example:
        >>> at_least(lambda i: i["x"], 1).relation
        '>='
    """
    return Comparison(">=", left, _side(right))


def above(left: Side | Sampled, right: Side | float) -> Comparison:
    """left > right.

    Example:
        >>> above(lambda i: i["x"], 1).relation
        '>'
    """
    return Comparison(">", left, _side(right))


def stated(
    kind: Kind,
    id: str,
    compared: Comparison,
    generators: Mapping[str, Generator],
    **settings: Unpack[ClaimSettings],
) -> Claim:
    """A claim of any kind, from what it compares.

    Args:
        kind: see `Claim`, like all that follows.
        id: inventory ID, part and `#corrected`.
        compared: both sides.
        generators: families of instances by name.
        settings: further arguments of `Claim`.

    Returns:
        The claim.

    Example:
        >>> square = at_least(lambda i: i["x"] ** 2, lambda i: i["x"])
        >>> from isometer_papers.claims._families import cases
        >>> numbers = {"from 1": cases({"x": 1.0}, {"x": 2.0})}
        >>> stated("deterministic", "000/demo", square, numbers).relation
        '>='
    """
    more: dict[str, Any] = {"scale": compared.scale, "exact": compared.exact, **settings}
    if isinstance(more["scale"], int | float):
        more["scale"] = _side(more["scale"])
    if isinstance(compared.left, Sampled):
        sampled = compared.left
        more |= {"estimate": sampled.estimate, "again": sampled.again, "independence": sampled.independence}
    else:
        more["quantity"] = compared.left
    return Claim(id, kind, compared.relation, compared.right, generators, **more)


deterministic = partial(stated, "deterministic")
"""`stated` for a statement about every single instance."""
expectation = partial(stated, "expectation")
"""`stated` for a statement about a mean."""
probability = partial(stated, "probability")
"""`stated` for a statement about a probability."""
asymptotic = partial(stated, "asymptotic")
"""`stated` for a statement about a limit or an order."""
empirical = partial(stated, "empirical")
"""`stated` for what a figure or a table shows."""


def _side(value: Side | float) -> Side:
    return value if callable(value) else lambda i: value
