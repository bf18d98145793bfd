"""000, Appendix E: what rows of three clusters change in the angles."""

from __future__ import annotations

import math
from collections.abc import Iterator

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import Rng
from isometer_papers.claims._statements import asymptotic, at_least, at_most, deterministic, equal
from isometer_papers.claims.nachum2024.tree_limits import cosine, extreme_angle, on_trees, size
from isometer_papers.claims.nachum2024.tree_three import (
    INNER,
    OUTER,
    QUADRUPLES,
    RATIO,
    first_square,
    inner,
    last_square,
    middle_square,
    near,
    quadruples,
    ratios,
    settles,
    to_first,
)
from isometer_papers.float_or_mpmath import Numeric, angle_of_cosine
from isometer_papers.theory.odd_point.tree import (
    angle_bound,
    cosine_limit,
    extreme_cosine_bound,
    extreme_cosine_bound_as_printed,
)


def _second_cosine(i: Instance, norm: str) -> Numeric:
    """⟨x_2, x_n⟩/(‖x_2‖‖·‖) of eq. 74–76, 90."""
    first, last = i["A"] + i["C"], i["B"] + i["D"]
    n = i["n"]
    length = (n - 1) ** 2 * first + last if norm == "first" else first + (n - 1) ** 2 * last
    return first / ((first + last) * length) ** 0.5


def _second_first(i: Instance) -> Numeric:
    """⟨x_2, x_1⟩/(‖x_2‖‖x_1‖) of eq. 74, 75, 89."""
    first, last = i["A"] + i["C"], i["B"] + i["D"]
    return last / ((first + last) * ((i["n"] - 1) ** 2 * first + last)) ** 0.5


def _inner_cosine(i: Instance, product: Numeric, square: Numeric) -> Numeric:
    return product / (middle_square(i) * square) ** 0.5


def _many(rng: Rng, count: int) -> Iterator[Instance]:
    for n in range(5, 5 + count):
        yield {"n": n, "r": 1.0}


def _proof_angle(i: Instance) -> Numeric:
    """arccos of the bound of eq. 85 or 86, whichever case applies."""
    return angle_of_cosine(min(extreme_cosine_bound(i["r"], i["n"]), extreme_cosine_bound(1 / i["r"], i["n"]), 1))


def _root_two_pi(i: Instance) -> float:
    return float(angle_bound(math.sqrt(2 * math.pi), i["n"]))


def _root_two_times_pi(i: Instance) -> float:
    return float(angle_bound(math.sqrt(2) * math.pi, i["n"]))


CLAIMS = (
    settles("000/eq-81-94:81", lambda g: g[2, 0], lambda n: (0, 1, 0, 4)),
    settles("000/eq-81-94:82", lambda g: g[2, -1], lambda n: (1, 0, 4, 0)),
    deterministic(
        "000/eq-81-94:85",
        at_most(
            lambda i: _inner_cosine(i, i["B"] + 4 * i["D"], first_square(i)),
            lambda i: extreme_cosine_bound(to_first(i), i["n"]),
        ),
        {"sums": quadruples},
        search=QUADRUPLES,
    ),
    deterministic(
        "000/eq-81-94:86",
        at_most(
            lambda i: _inner_cosine(i, i["A"] + 4 * i["C"], last_square(i)),
            lambda i: extreme_cosine_bound_as_printed(1 / to_first(i), i["n"]),
        ),
        {"sums": quadruples},
        trivial=lambda i: 1.0,
        search=QUADRUPLES,
    ),
    deterministic(
        "000/eq-81-94:86#corrected",
        at_most(
            lambda i: _inner_cosine(i, i["A"] + 4 * i["C"], last_square(i)),
            lambda i: extreme_cosine_bound(1 / to_first(i), i["n"]),
        ),
        {"sums": quadruples},
        search=QUADRUPLES,
    ),
    deterministic("000/eq-81-94:87-step", at_least(_proof_angle, _root_two_pi), {"sizes": _many}, counts=(60, 300)),
    deterministic(
        "000/eq-81-94:87-step#corrected",
        at_least(_proof_angle, _root_two_times_pi),
        {"sizes": _many, "ratios": ratios},
        search=RATIO,
        counts=(60, 300),
    ),
    asymptotic(
        "000/eq-81-94:87",
        on_trees(
            at_least(lambda g: extreme_angle(g, inner(g)), lambda i: angle_bound(math.sqrt(2 * math.pi), size(i)))
        ),
        INNER,
        counts=(12, 36),
    ),
    asymptotic(
        "000/eq-81-94:88",
        on_trees(
            at_least(lambda g: extreme_angle(g, inner(g)), lambda i: angle_bound(math.sqrt(2) * math.pi, size(i)))
        ),
        INNER,
        counts=(12, 36),
    ),
    deterministic(
        "000/eq-81-94:91", equal(_second_first, lambda i: cosine_limit(to_first(i), i["n"])), {"sums": quadruples}
    ),
    deterministic(
        "000/eq-81-94:92",
        equal(lambda i: _second_cosine(i, "first"), lambda i: cosine_limit(1 / to_first(i), i["n"])),
        {"sums": quadruples},
    ),
    deterministic(
        "000/eq-81-94:92#corrected",
        equal(lambda i: _second_cosine(i, "last"), lambda i: cosine_limit(1 / to_first(i), i["n"])),
        {"sums": quadruples},
    ),
    asymptotic(
        "000/eq-81-94:93",
        on_trees(
            at_most(
                lambda g: max(min(cosine(g, i, 0), cosine(g, i, len(g) - 1)) for i in near(g)),
                lambda i: 1 / (math.sqrt(2) * (size(i) - 1)),
            )
        ),
        OUTER,
        counts=(12, 36),
    ),
)
