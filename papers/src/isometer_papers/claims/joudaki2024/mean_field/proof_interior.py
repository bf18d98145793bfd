"""001, §5.5: the steps of the proof of case 4 of Theorem 5.11."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from isometer_papers.claims._claim import Instance, Search
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._statements import above, at_least, at_most, below, deterministic, equal
from isometer_papers.claims.joudaki2024.mean_field.kernels import (
    ALL,
    POLYNOMIALS,
    VISIBLE,
    families,
    hand,
    in_case,
    inner,
    kernel,
    nonlinear,
    random,
    search,
    series,
)
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.duals.global_convergence import combined_rate_as_printed, interior_bound, potential_step

FOUR = families(4)


UNCENTRED = {"hand": hand(2, 3, 4), "random": random(2, 3, 4)}


def _above(i: Instance) -> bool:
    # 1e-3: at ρ* the ratio of the two sides is 0/0
    return in_case(4)(i) and kernel(i).fixed_point + 1e-3 <= i["rho"] < 1


def _below(i: Instance) -> bool:
    return in_case(4)(i) and 0 <= i["rho"] <= kernel(i).fixed_point - 1e-3


def _negative(i: Instance) -> bool:
    return in_case(2, 3, 4)(i) and -1 <= i["rho"] <= 0


def _ratio(i: Instance) -> Numeric:
    left, right = potential_step(kernel(i), i["rho"])
    return left / right


def _middle(rng: Rng, count: int) -> Iterator[Instance]:
    """ρ₀ between 0 and ρ*."""
    for instance in random(4)(rng, count):
        star = kernel(instance).fixed_point
        yield {**instance, "rho": float(rng.uniform(0, 1) * star)}


def _in_b(i: Instance, shift: int) -> Numeric:
    """1 − b₀ + Σ (b_k − b_{k+1}) ρ^{k+shift}."""
    b = [*series(i).chord, 0]
    return 1 - b[0] + sum((b[k] - b[k + 1]) * i["rho"] ** (k + shift) for k in range(len(b) - 1))


def _has_terms(i: Instance) -> bool:
    return len(i["weights"]) > 1


def _q(i: Instance) -> Numeric:
    return (1 - kernel(i)(i["rho"])) / (1 - i["rho"])


def _lines(rng: Rng, count: int) -> Iterator[Instance]:
    for c in (0.5, 0.25, 1.0):
        for rho in (0.5, 0.0, 1.0):
            yield {"c": c, "rho": rho}
    for _ in range(count):
        yield {"c": float(rng.uniform()), "rho": float(rng.uniform())}


def _starts(rng: Rng, count: int) -> Iterator[Instance]:
    """Negative starts, just below 0 among them."""
    for weights in ([1, 0, 2], [1, 0, 0, 1], [1, 1, 2], [1, 0, 0, 0, 1]):
        for rho in (-0.01, -0.25, -0.5, -0.9, -0.99):
            yield {"weights": np.array(weights, dtype=float), "rho": rho, "depth": 1}
    for instance in random(4)(rng, count):
        yield {**instance, "rho": -abs(instance["rho"])}


def _first_positive(i: Instance) -> Numeric:
    """ρ_ℓ at the first ℓ with ρ_ℓ ≥ 0."""
    rho, chosen = i["rho"], kernel(i)
    for _ in range(1000):
        if rho >= 0:
            break
        rho = chosen(rho)
    return rho


# κ = 0.9 + 0.1ρ^20 and the like: ρ* near κ(0), steep at 1.
_steep = cases(
    *(
        {"weights": np.array([base, *[0.0] * (power - 1), 1.0]), "rho": 1 - gap, "depth": depth}
        for power, base in ((20, 9.0), (30, 9.0), (40, 4.0), (20, 4.0))
        for depth, gap in ((6, 0.01), (10, 1e-3), (14, 1e-4), (20, 1e-6), (26, 1e-8))
    )
)


def _no_knife_edge(rng: Rng, count: int) -> Iterator[Instance]:
    for name in ("relu", "exp"):
        yield {"phi": name, "rho": 0.0, "depth": 1}
    yield from hand(3)(rng, count)


def _between() -> Search:
    """An adversary with ρ₀ between 0 and ρ*."""

    def build(point: Numeric) -> Instance:
        instance = dict(search(4).build([*point[:4], 0.5, 0.0]))
        instance["rho"] = float(point[4]) * float(series(instance).fixed_point)
        return instance

    return Search(build, 5)


def _taylor(i: Instance, rho: Numeric) -> Numeric:
    """Σ_{k≥1} a_k (ρ − ρ*)^k, the expansion of κ around ρ*."""
    found, star = series(i).coefficients, kernel(i).fixed_point
    total = 0 * star
    for k in range(1, len(found)):
        a = sum(math.comb(j, k) * found[j] * star ** (j - k) for j in range(k, len(found)))
        total = total + a * (rho - star) ** k
    return total


def _over_rest(i: Instance) -> Numeric:
    """(κ(ρ) − ρ*)/(1 − κ(ρ))."""
    return (kernel(i)(i["rho"]) - kernel(i).fixed_point) / series(i).gap_after(i["rho"])


def _between_stars(i: Instance) -> bool:
    return "weights" in i and _above(i) and i["rho"] < 0.999


def _printed_case(i: Instance) -> Numeric:
    """|κ(ρ) − ρ*|/|−ρ − ρ*| where the line has |κ(−ρ) − ρ*|; the instance has −ρ."""
    star = kernel(i).fixed_point
    return abs(kernel(i)(-i["rho"]) - star) / (star - i["rho"])


def _reflected(i: Instance) -> Numeric:
    """(ρ* − κ(−ρ))/(ρ* + ρ)."""
    star = kernel(i).fixed_point
    return (star - kernel(i)(i["rho"])) / (star - i["rho"])


def _left_of_zero(i: Instance) -> bool:
    return in_case(4)(i) and -1 < i["rho"] < 0


CLAIMS = (
    deterministic(
        "001/thm-5.11.steps:potential-first",
        at_most(_ratio, lambda i: kernel(i).slope(kernel(i).fixed_point)),
        FOUR,
        hypotheses=_above,
    ),
    deterministic(
        "001/thm-5.11.steps:potential",
        at_most(_ratio, lambda i: (1 - kernel(i).fixed_point) / (2 - kernel(i).slope(kernel(i).fixed_point))),
        FOUR,
        hypotheses=_above,
    ),
    deterministic(
        "001/thm-5.11.steps:potential#corrected",
        at_most(_ratio, lambda i: 1 / (2 - kernel(i).slope(kernel(i).fixed_point))),
        FOUR,
        hypotheses=_above,
        search=search(4),
    ),
    deterministic(
        "001/thm-5.11.steps:denominator",
        equal(_over_rest, lambda i: _taylor(i, i["rho"]) / (1 - kernel(i)(kernel(i).fixed_point))),
        FOUR,
        hypotheses=_between_stars,
        tolerance=1e-6,
    ),
    deterministic(
        "001/thm-5.11.steps:denominator#corrected",
        equal(_over_rest, lambda i: _taylor(i, i["rho"]) / (_taylor(i, 1 + 0 * i["rho"]) - _taylor(i, i["rho"]))),
        FOUR,
        hypotheses=_between_stars,
        tolerance=1e-6,
    ),
    deterministic(
        "001/thm-5.11.steps:middle",
        at_most(
            lambda i: abs(kernel(i)(i["rho"]) - kernel(i).fixed_point),
            lambda i: kernel(i).slope(kernel(i).fixed_point) * abs(i["rho"] - kernel(i).fixed_point),
        ),
        {"hand": hand(4), "middle": _middle},
        hypotheses=lambda i: _below(i) and kernel(i).slope(kernel(i).fixed_point) > 1e-2,
        search=_between(),
    ),
    deterministic(
        "001/thm-5.11.steps:series",
        equal(lambda i: kernel(i)(i["rho"]), lambda i: _in_b(i, 0)),
        POLYNOMIALS,
        hypotheses=lambda i: _has_terms(i) and inner(i),
    ),
    deterministic(
        "001/thm-5.11.steps:series#corrected",
        equal(lambda i: kernel(i)(i["rho"]), lambda i: _in_b(i, 1)),
        POLYNOMIALS,
        hypotheses=_has_terms,
        scale=1,
    ),
    deterministic(
        "001/thm-5.11.steps:q",
        at_most(_q, lambda i: 1 - kernel(i).at_zero),
        ALL,
        hypotheses=lambda i: nonlinear(i) and -1 < i["rho"] <= 0,
        search=search(4),
    ),
    deterministic(
        "001/thm-5.11.steps:sign",
        equal(lambda i: 1 - (1 + i["rho"]) * (1 - i["c"]), lambda i: 1 - 1 - i["rho"] - i["c"] * (1 + i["rho"])),
        {"lines": _lines},
        scale=1,
    ),
    deterministic(
        "001/thm-5.11.steps:sign#corrected",
        equal(lambda i: 1 - (1 + i["rho"]) * (1 - i["c"]), lambda i: -i["rho"] + i["c"] * (1 + i["rho"])),
        {"lines": _lines},
        scale=1,
    ),
    deterministic(
        "001/thm-5.11.steps:below",
        equal(_printed_case, _reflected),
        {"starts": _starts, **FOUR},
        hypotheses=lambda i: _left_of_zero(i) and kernel(i)(i["rho"]) <= kernel(i).fixed_point,
    ),
    deterministic(
        "001/thm-5.11.steps:below#corrected",
        at_most(_reflected, lambda i: 1 - kernel(i).at_zero),
        {"starts": _starts, **FOUR},
        hypotheses=lambda i: _left_of_zero(i) and kernel(i)(i["rho"]) <= kernel(i).fixed_point,
        search=search(4),
    ),
    deterministic(
        "001/thm-5.11.steps:above",
        at_most(lambda i: -_reflected(i), lambda i: 1 - kernel(i).fixed_point),
        {"starts": _starts, **FOUR},
        hypotheses=lambda i: _left_of_zero(i) and kernel(i)(i["rho"]) >= kernel(i).fixed_point,
        scale=1,
    ),
    deterministic(
        "001/thm-5.11.steps:negative",
        at_most(
            lambda i: abs(kernel(i)(i["rho"]) - kernel(i).fixed_point),
            lambda i: (1 - kernel(i).at_zero) * abs(i["rho"] - kernel(i).fixed_point),
        ),
        {"starts": _starts, **UNCENTRED},
        hypotheses=_negative,
        search=search(4),
    ),
    deterministic(
        "001/thm-5.11.steps:order",
        at_least(lambda i: kernel(i).fixed_point, lambda i: kernel(i).at_zero),
        ALL,
        hypotheses=nonlinear,
        scale=1,
        search=search(4),
    ),
    deterministic(
        "001/thm-5.11.steps:positivity",
        at_least(lambda i: kernel(i)(i["rho"]), lambda i: i["rho"] + kernel(i).at_zero),
        ALL,
        hypotheses=lambda i: nonlinear(i) and -1 <= i["rho"] <= 0,
        scale=1,
        search=search(4),
    ),
    deterministic(
        "001/thm-5.11.steps:contact",
        below(lambda i: kernel(i).slope(kernel(i).fixed_point), 1),
        FOUR,
        hypotheses=in_case(4),
        search=search(4),
    ),
    deterministic(
        "001/thm-5.11.steps:no-knife-edge",
        above(lambda i: abs(kernel(i).slope_at_one - 1), 0),
        {"edge": _no_knife_edge, **ALL},
        hypotheses=nonlinear,
        scale=1,
    ),
    deterministic(
        "001/thm-5.11.steps:no-knife-edge#corrected",
        above(lambda i: kernel(i).slope_at_one, 1),
        families(1),
        hypotheses=lambda i: in_case(1)(i) and i.get("phi") != "sign",
        search=search(1),
    ),
    deterministic(
        "001/thm-5.11.steps:combined",
        at_most(
            lambda i: abs(kernel(i).iterate(i["rho"], i["depth"]) - kernel(i).fixed_point),
            lambda i: interior_bound(kernel(i), i["rho"], i["depth"], combined_rate_as_printed(kernel(i))),
        ),
        {"steep": _steep, **FOUR},
        hypotheses=lambda i: (
            in_case(4)(i)
            and inner(i)
            and abs(kernel(i).iterate(i["rho"], i["depth"]) - kernel(i).fixed_point) >= VISIBLE
        ),
    ),
    deterministic(
        "001/thm-5.11.steps:upper",
        at_least(lambda i: kernel(i)(i["rho"]), lambda i: kernel(i).fixed_point),
        FOUR,
        hypotheses=_above,
        scale=1,
        search=search(4),
    ),
    deterministic(
        "001/thm-5.11.steps:lower",
        at_most(lambda i: kernel(i)(i["rho"]), lambda i: kernel(i).fixed_point),
        {"hand": hand(4), "middle": _middle},
        hypotheses=_below,
        scale=1,
        search=_between(),
    ),
    deterministic(
        "001/thm-5.11.steps:norm",
        at_most(_first_positive, lambda i: abs(i["rho"])),
        {"starts": _starts},
        hypotheses=lambda i: in_case(4)(i) and -1 < i["rho"] < 0,
    ),
    deterministic(
        "001/thm-5.11.steps:norm#corrected",
        at_most(_first_positive, lambda i: abs(i["rho"])),
        {"starts": _starts},
        hypotheses=lambda i: in_case(4)(i) and -1 < i["rho"] < 0 and _first_positive(i) >= kernel(i).fixed_point,
        search=search(4),
    ),
)
