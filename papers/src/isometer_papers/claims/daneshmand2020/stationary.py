"""002, §3 and §7.5: averages under the invariant law of linear chains."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Rng, cases, extended
from isometer_papers.claims._fits import combined, intercept
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import (
    Sampled,
    above,
    asymptotic,
    at_least,
    at_most,
    below,
    deterministic,
    equal,
    vanishes,
)
from isometer_papers.claims.daneshmand2020.chains import (
    averages,
    growth_cases,
    growth_of,
    linear_chains,
    mean_of,
    over_bound,
    run_of,
)
from isometer_papers.claims.daneshmand2020.instances import extreme_unit, random_unit, search_unit, unit_features
from isometer_papers.claims.daneshmand2020.invariance import unique_law, weak_chains, why_not_unique
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.rank_steps import plain_chain
from isometer_papers.theory.rank.bounds import (
    cube_bound,
    frobenius_bound,
    power_sums,
    power_sums_bound,
    second_moments,
    singular_value_count_bound,
    stationary_rank_bound,
)

UNIT = {"random": random_unit, "extreme": extreme_unit}

LINEAR = {"weak": weak_chains(("identity",))}

CHAINS = {"chains": linear_chains((4, 0.1, 4000), (8, 0.1, 3000), (16, 0.1, 1500), (8, 0.03, 16000), (32, 0.1, 1500))}

COUNTS = (3, 5)


def printed(identifier: str) -> Claim:
    """A statement whose only content is about a unique invariant law of the linear chain."""
    return asymptotic(
        identifier,
        at_least(lambda i: -1, 0),
        LINEAR,
        hypotheses=unique_law,
        witness=why_not_unique,
    )


def _excess(i: Instance, rng: Rng) -> Estimate:
    return run_of(i).mean[f"excess_{100 * i['tau']:.0f}"]


def _excesses(rng: Rng, count: int) -> Iterator[Instance]:
    for instance in CHAINS["chains"](rng, count):
        for tau in (0.25, 0.5, 0.75):
            yield {**instance, "tau": tau}


def _regularity(i: Instance, rng: Rng) -> Estimate:
    return run_of(i).regularity


def _laws(rng: Rng, count: int) -> Iterator[Instance]:
    """A law on four matrices of 𝓗."""
    for _ in range(count):
        n, d = (int(v) for v in rng.integers(1, 6, 2))
        yield {"H": unit_features(rng.standard_normal((4, n, d)) + 3 * rng.uniform() * rng.standard_normal((4, n, 1)))}


def _squares(i: Instance) -> list[Any]:
    return [power_sums(second_moments(h)).square for h in i["H"]]


def _mean_rank(i: Instance) -> Numeric:
    return sum(i["H"].shape[-1] ** 2 / square for square in _squares(i)) / len(i["H"])


def _rank_of_mean(i: Instance) -> Numeric:
    return i["H"].shape[-1] ** 2 * len(i["H"]) / sum(_squares(i))


def _balance(i: Instance, rng: Rng) -> Estimate:
    """E δ_F extrapolated to γ = 0 from a straight line in γ²."""
    values = [averages(i["width"], gamma, i["layers"]).mean["drift"] for gamma in i["gammas"]]
    return intercept([gamma**2 for gamma in i["gammas"]], values)


_balances = cases(
    *({"width": width, "gammas": [0.1, 0.15, 0.2], "layers": layers} for width, layers in ((4, 4000), (8, 8000)))
)


_sign_states = cases(*({"M": np.ones((d, d))} for d in range(1, 9)))


def _sum_drift(m: Numeric) -> Numeric:
    d, sums = len(m), power_sums(m)
    return 2 * d**2 - 2 * sums.square - 8 * sums.cube + 8 * sums.diagonal


_with_regularity = extended(random_unit, lambda rng, i: {"alpha": float(rng.uniform())})


def _eq_58(i: Instance) -> Numeric:
    sums = power_sums(second_moments(i["H"]))
    return 2 * sums.square - 8 * (1 - i["alpha"]) * sums.cube


def _corrected_58(i: Instance, rng: Rng) -> Estimate:
    values = []
    for gamma in i["gammas"]:
        chain = averages(i["width"], gamma, i["layers"])
        s, cube, alpha = chain.mean["frobenius"], chain.mean["cube"], chain.regularity
        total = 2 * s.value + 8 * (1 - alpha.value) * cube.value
        parts = [(2.0, s), (8 * (1 - alpha.value), cube), (8 * cube.value, alpha)]
        values.append(combined(parts, total))
    return intercept([gamma**2 for gamma in i["gammas"]], values)


def _two_starts(i: Instance, rng: Rng) -> Estimate:
    one = averages(i["width"], i["gamma"], i["layers"]).mean["stable_rank"]
    two = averages(i["width"], i["gamma"], i["layers"], "identity", "collinear").mean["stable_rank"]
    return Estimate(one.value - two.value, math.hypot(one.error, two.error), one.freedom, one.draws)


def _many_singular_values(i: Instance, rng: Rng) -> Estimate:
    """Average number of singular values above √(N/2) along independent chains."""
    found = []
    for _ in range(6 if i["width"] > 100 else 24):
        start = rng.standard_normal((i["width"], i["width"]))
        states = plain_chain(start, i["gamma"], layers=i["layers"], rng=rng, every=i["layers"] // 4)
        found.append(np.mean([(np.linalg.svd(h, compute_uv=False) ** 2 > len(h) / 2).sum() for h in states]))
    return Estimate.of(found)


_wide = cases(
    *(
        {"width": width, "gamma": gamma, "layers": layers}
        for width, gamma, layers in ((8, 0.1, 200), (32, 0.1, 100), (600, 1.0, 16), (640, 0.1, 40))
    )
)


CLAIMS = (
    printed("002/thm-3:soft-rank"),
    asymptotic(
        "002/thm-3:soft-rank#corrected",
        above(Sampled(_excess), 0.0),
        {"chains": _excesses},
        counts=(9, 15),
        resolution=0.2,
    ),
    printed("002/thm-3:root-d"),
    asymptotic(
        "002/thm-3:root-d#corrected",
        at_least(Sampled(growth_of("stable_rank")), 0.45),
        {"widths": growth_cases(([8, 64], math.inf, 400, "identity"), ([8, 32], 0.1, 4000, "identity"))},
        counts=(1, 2),
        resolution=0.25,
    ),
    printed("002/thm-19:regularity"),
    asymptotic("002/thm-19:regularity#corrected", below(Sampled(_regularity), 1.0), CHAINS, counts=COUNTS),
    printed("002/thm-19:rank"),
    asymptotic(
        "002/thm-19:rank#corrected",
        at_least(Sampled(over_bound("stable_rank", stationary_rank_bound)), 1.0),
        CHAINS,
        counts=COUNTS,
        resolution=0.25,
    ),
    asymptotic(
        "002/claim-3.2",
        at_least(Sampled(_many_singular_values), lambda i: singular_value_count_bound(i["width"])),
        {"widths": _wide},
        trivial=lambda i: 1.0,
        counts=(3, 4),
        resolution=0.2,
    ),
    asymptotic(
        "002/eq-ergodic",
        vanishes(Sampled(_two_starts)),
        {"chains": linear_chains((4, 0.2, 4000), (8, 0.2, 8000))},
        counts=(1, 2),
        resolution=0.25,
    ),
    asymptotic(
        "002/lem-6:chain",
        vanishes(Sampled(mean_of("offdiagonal"))),
        {"chains": linear_chains((4, 0.2, 4000), (8, 0.2, 8000))},
        counts=(1, 2),
        resolution=0.15,
    ),
    asymptotic(
        "002/eq-57",
        equal(Sampled(_balance), 0.0),
        {"chains": _balances},
        scale=lambda i: 2 * i["width"] ** 2,
        counts=(1, 2),
        resolution=0.1,
    ),
    deterministic(
        "002/eq-57:signs",
        equal(lambda i: _sum_drift(i["M"]), 0),
        {"signs": _sign_states},
        scale=lambda i: len(i["M"]) ** 3,
    ),
    printed("002/lem-18"),
    asymptotic(
        "002/lem-18#corrected",
        at_most(Sampled(over_bound("frobenius", frobenius_bound)), 1.0),
        CHAINS,
        counts=COUNTS,
        resolution=0.25,
    ),
    deterministic(
        "002/lem-18:eq-58",
        at_most(_eq_58, lambda i: 2 * i["H"].shape[1] ** 2),
        {"random": _with_regularity},
        trivial=lambda i: 2 * i["H"].shape[1] ** 2,
    ),
    asymptotic(
        "002/lem-18:eq-58#corrected",
        equal(Sampled(_corrected_58), lambda i: 2.0 * i["width"] ** 2),
        {"chains": _balances},
        counts=(1, 2),
        resolution=0.25,
    ),
    printed("002/lem-18:eq-60"),
    asymptotic(
        "002/lem-18:eq-60#corrected",
        at_most(Sampled(over_bound("cube", cube_bound)), 1.0),
        CHAINS,
        counts=COUNTS,
        resolution=0.25,
    ),
    deterministic(
        "002/lem-18:eq-61",
        at_most(
            lambda i: power_sums(second_moments(i["H"])).square, lambda i: power_sums_bound(second_moments(i["H"]))
        ),
        UNIT,
        search=search_unit(3, 3),
    ),
    deterministic(
        "002/lem-18:eq-62",
        equal(lambda i: second_moments(i["H"]).size, 1),
        UNIT,
    ),
    deterministic(
        "002/lem-18:eq-62#corrected",
        equal(
            lambda i: (second_moments(i["H"]) ** 2).sum(),
            lambda i: (eigenvalues(second_moments(i["H"])) ** 2).sum(),
        ),
        UNIT,
    ),
    deterministic(
        "002/eq-64-66:jensen",
        at_least(_mean_rank, _rank_of_mean),
        {"laws": _laws},
    ),
    printed(
        "002/eq-64-66:rank",
    ),
)
