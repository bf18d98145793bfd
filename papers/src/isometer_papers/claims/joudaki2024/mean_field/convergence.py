"""001, §5.5: Theorem 5.11 and the remarks on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Instance
from isometer_papers.claims._families import cases
from isometer_papers.claims._statements import above, at_least, at_most, below, deterministic, equal
from isometer_papers.claims.joudaki2024.mean_field.kernels import (
    ALL,
    CENTRED,
    VISIBLE,
    after,
    families,
    hand,
    in_case,
    inner,
    kernel,
    nonlinear,
    random,
    search,
)
from isometer_papers.claims.joudaki2024.mean_field.rates import (
    away,
    by_centred_rate,
    identities,
    move,
    potential,
    seen,
)
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.global_convergence import (
    distance_bound,
    fixed_point_rate,
    fixed_point_rate_as_printed,
    interior_bound,
    knife_edge_bound,
    knife_edge_rate,
    potential_bound,
    potential_of,
    slope_rate,
)


def _by_slope(i: Instance) -> Numeric:
    return potential_bound(i["rho"], i["depth"], slope_rate(kernel(i)))


def _distance(i: Instance) -> Numeric:
    return abs(after(i) - kernel(i).fixed_point)


def _case_2(i: Instance) -> Numeric:
    return distance_bound(i["rho"], i["depth"], kernel(i).slope_at_one)


def _case_3(i: Instance) -> Numeric:
    return knife_edge_bound(i["rho"], i["depth"], knife_edge_rate(kernel(i)))


def _case_4(rate: Callable[[Any], Any]) -> Callable[[Instance], Numeric]:
    def bound(i: Instance) -> Numeric:
        chosen = kernel(i)
        return interior_bound(chosen, i["rho"], i["depth"], rate(chosen))

    return bound


# κ = (1 + 2ρ²)/3 and others from ρ₀ close to 1, until they leave it.
_near_one = cases(
    *(
        {"weights": np.array(weights, dtype=float), "rho": 1 - gap, "depth": depth}
        for weights in ([1, 0, 2], [1, 0, 0, 1], [9, *[0] * 19, 1], [1, 0, 4])
        for depth in (2, 5, 10, 15, 20, 30)
        for gap in (0.1, 0.01, 1e-3, 1e-4)
    )
)


_cubes = cases(
    *(
        {"weights": np.array([0.0, 9.0, 0.0, 6.0]), "rho": sign, "depth": depth}
        for sign in (1.0, -1.0)
        for depth in (1, 2, 7)
    )
)


CLAIMS = (
    deterministic("001/thm-5.11:unique", above(move, 0), ALL, hypotheses=away, search=search(4)),
    deterministic(
        "001/thm-5.11:nonnegative",
        above(lambda i: kernel(i)(i["rho"]), lambda i: i["rho"]),
        ALL,
        hypotheses=lambda i: nonlinear(i) and -1 < i["rho"] < 0,
        scale=1,
        search=search(4),
    ),
    deterministic(
        "001/thm-5.11:global",
        below(
            lambda i: abs(kernel(i)(i["rho"]) - kernel(i).fixed_point), lambda i: abs(i["rho"] - kernel(i).fixed_point)
        ),
        ALL,
        hypotheses=away,
        search=search(4),
    ),
    deterministic(
        "001/thm-5.11:others",
        above(lambda i: kernel(i).slope_at_one, 1),
        {"hand": hand(1, 4), "random": random(1, 4)},
        hypotheses=lambda i: in_case(1, 4)(i) and i.get("phi") != "sign",
        search=search(1),
    ),
    deterministic(
        "001/thm-5.11:case-1",
        at_most(potential, _by_slope),
        CENTRED,
        hypotheses=lambda i: in_case(1)(i) and inner(i) and potential_of(after(i)) >= VISIBLE,
        search=search(1),
    ),
    deterministic(
        "001/thm-5.11:case-1#corrected",
        at_most(potential, by_centred_rate),
        CENTRED,
        hypotheses=seen(by_centred_rate, 1),
        search=search(1),
    ),
    deterministic(
        "001/thm-5.11:case-2", at_most(_distance, _case_2), families(2), hypotheses=seen(_case_2, 2), search=search(2)
    ),
    deterministic(
        "001/thm-5.11:case-3", at_most(_distance, _case_3), families(3), hypotheses=seen(_case_3, 3), search=search(3)
    ),
    deterministic(
        "001/thm-5.11:case-4",
        at_most(_distance, _case_4(fixed_point_rate_as_printed)),
        {"near": _near_one, **families(4)},
        hypotheses=lambda i: in_case(4)(i) and inner(i) and _distance(i) >= VISIBLE,
    ),
    deterministic(
        "001/thm-5.11:case-4#corrected",
        at_most(_distance, _case_4(fixed_point_rate)),
        {"near": _near_one, **families(4)},
        hypotheses=lambda i: in_case(4)(i) and inner(i) and _distance(i) >= VISIBLE,
        search=search(4, depth=12),
    ),
    deterministic(
        "001/thm-5.11:case-4-range",
        above(lambda i: min(kernel(i).fixed_point, 1 - kernel(i).fixed_point), 0),
        families(4),
        hypotheses=in_case(4),
        search=search(4),
    ),
    deterministic(
        "001/thm-5.11:case-4-strict",
        below(lambda i: fixed_point_rate_as_printed(kernel(i)), 1),
        families(4),
        hypotheses=in_case(4),
        search=search(4),
    ),
    deterministic(
        "001/rem-5.12",
        at_least(lambda i: kernel(i).fixed_point, 0),
        ALL,
        hypotheses=nonlinear,
        scale=1,
        search=search(4),
    ),
    deterministic(
        "001/rem-5.13:identity",
        equal(lambda i: kernel(i)(i["rho"]), lambda i: i["rho"]),
        {"points": identities},
        scale=1,
    ),
    deterministic("001/rem-5.13:cube", equal(after, lambda i: i["rho"]), {"points": _cubes}),
    deterministic(
        "001/rem-5.14:exponential",
        below(lambda i: kernel(i).slope(kernel(i).fixed_point), 1),
        {"hand": hand(1, 2, 4), "random": random(1, 2, 4)},
        hypotheses=lambda i: in_case(1, 2, 4)(i) and ("weights" in i or i["phi"] in ("sin", "erf", "cos")),
        search=search(4),
    ),
    deterministic(
        "001/rem-5.14:algebraic",
        at_most(lambda i: i["depth"] * _distance(i), lambda i: 1 / knife_edge_rate(kernel(i))),
        {"hand": hand(3), "random": random(3, depths=(10, 40))},
        hypotheses=lambda i: inner(i) and in_case(3)(i),
        search=search(3, depth=40),
    ),
)
