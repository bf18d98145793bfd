"""002, proof of Lemma 12: derivatives, covariances and terms, one claim each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Family, Rng
from isometer_papers.claims._fits import intercept
from isometer_papers.claims._statements import Sampled, deterministic, equal, expectation, vanishes
from isometer_papers.claims.daneshmand2020.expansion import DRAWS, GAMMAS, drift, small_moments
from isometer_papers.claims.daneshmand2020.instances import extreme_unit, random_unit, steps
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.rank_steps import uniform_weights, weak_layer_statistics
from isometer_papers.theory.rank.bounds import entry_drift, second_moments
from isometer_papers.theory.rank.chain import moment_change, moment_change_expansion, second_order_moments


def _entry_extrapolated(i: Instance, rng: Rng) -> Estimate:
    """The same for one entry, M₁₂²."""
    values = []
    for gamma in GAMMAS:
        after = weak_layer_statistics(i["M"], gamma, lambda m: m[..., 0, 1] ** 2, draws=DRAWS, rng=rng)
        values.append(Estimate.of((after - i["M"][0, 1] ** 2) / gamma**2))
    return intercept([gamma**2 for gamma in GAMMAS], values)


def _change(i: Instance) -> Numeric:
    return abs(moment_change(i["H"], i["W"], i["gamma"]) - moment_change_expansion(i["H"], i["W"], i["gamma"])).max()


def _mean_change(p: int, q: int) -> Callable[[Instance, Rng], Estimate]:
    """E ΔM_pq/γ² by Monte Carlo over W and −W."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        w = uniform_weights(rng, DRAWS, len(i["M"]), len(i["M"]))
        return Estimate.of(np.einsum("sk,kl,sl->s", w[:, p], i["M"], w[:, q]))  # odd terms cancel in pairs

    return estimate


def _pairs(generate: Any) -> Family:
    """Instances with at least two features, as M."""

    def generator(rng: Rng, count: int) -> Iterator[Instance]:
        for instance in generate(rng, count):
            if instance["H"].shape[1] > 1:
                yield {"M": second_moments(instance["H"])}

    return generator


PAIRS = {"random": _pairs(random_unit), "extreme": _pairs(extreme_unit)}


def _ratio(x: Numeric) -> Numeric:
    """g = M_ij²/(M_ii M_jj) of a triple (ii, ij, jj)."""
    return x[1] ** 2 / (x[0] * x[2])


def _derivative(i: Instance, first: int, second: int | None = None) -> Numeric:
    """Derivatives of g at (1, M_12, 1) by differences in 50 digits."""
    from isometer_papers.claims._precise import mpmath

    library = mpmath()
    with library.workdps(60):
        start = [library.mpf(1), library.mpf(i["M"][0, 1]), library.mpf(1)]
        orders = [0, 0, 0]
        orders[first] += 1
        if second is not None:
            orders[second] += 1
        return library.diff(lambda a, b, c: _ratio((a, b, c)), tuple(start), tuple(orders))


def _few(generate: Any) -> dict[str, Any]:
    return {"random": _pairs(generate)}


def _step_claims() -> Iterator[Claim]:
    """The derivatives and covariances of the proof, one claim each."""
    names = ("ii", "ij", "jj")
    printed: tuple[tuple[tuple[int, ...], Callable[[Any], Any]], ...] = (
        ((0,), lambda r: -(r**2)),
        ((2,), lambda r: -(r**2)),
        ((1,), lambda r: 2 * r),
        ((1, 1), lambda r: 2 + 0 * r),
        ((1, 0), lambda r: -2 * r),
        ((0, 0), lambda r: 2 * r**2),
        ((2, 0), lambda r: r**2),
    )
    for orders, value in printed:
        label = ",".join(names[k] for k in orders)
        yield deterministic(
            f"002/lem-12-steps:derivative-{label}",
            equal(
                lambda i, orders=orders: _derivative(i, *orders),  # type: ignore[misc]
                lambda i, value=value: value(i["M"][0, 1]),  # type: ignore[misc]
            ),
            _few(random_unit),
            scale=1,
            counts=(10, 40),
        )
    pairs: tuple[tuple[str, tuple[int, int], tuple[int, int], Callable[[Any, Any], Any]], ...] = (
        ("ij,ij", (0, 1), (0, 1), lambda m, s: s[0, 0] + s[1, 1]),
        ("ij,ii", (0, 1), (0, 0), lambda m, s: 2 * s[0, 1]),
        ("ii,ii", (0, 0), (0, 0), lambda m, s: 4 * s[0, 0]),
        ("ii,jj", (0, 0), (1, 1), lambda m, s: 0 * s[0, 0]),
    )
    for label, first, second, formula in pairs:
        yield deterministic(
            f"002/lem-12-steps:covariance-{label}",
            equal(
                lambda i, a=first, b=second: second_order_moments(i["M"], a, b),  # type: ignore[misc]
                lambda i, formula=formula: formula(i["M"], i["M"] @ i["M"]),  # type: ignore[misc]
            ),
            PAIRS,
            scale=lambda i: len(i["M"]),
        )


def _second_term(i: Instance) -> Numeric:
    """T₂ from its definition: half the second derivatives times E ΔM ΔM = γ² K."""
    r, m = i["M"][0, 1], i["M"]
    places, second = ((0, 0), (0, 1), (1, 1)), {(0, 0): 2 * r**2, (1, 1): 2, (2, 2): 2 * r**2, (0, 2): r**2}
    second |= {(0, 1): -2 * r, (1, 2): -2 * r}
    total = 0 * r
    for a in range(3):
        for b in range(3):
            total = total + second[min(a, b), max(a, b)] * second_order_moments(m, places[a], places[b]) / 2
    return i["gamma"] ** 2 * total


def _second_term_printed(i: Instance) -> Numeric:
    return entry_drift(i["M"])[0, 1] + 2 * len(i["M"]) * i["M"][0, 1] ** 2


def _with_gamma(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"M": np.eye(2), "gamma": 0.5}
    for instance in PAIRS["random"](rng, count):
        yield {**instance, "gamma": float(rng.uniform(0.01, 0.5))}


CLAIMS = (
    expectation(
        "002/lem-12-steps:entry",
        equal(Sampled(_entry_extrapolated), lambda i: entry_drift(i["M"])[0, 1]),
        {"moments": small_moments},
        scale=lambda i: 2 * len(i["M"]),
        counts=(5, 20),
        resolution=0.1,
    ),
    deterministic(
        "002/lem-12-steps:sum",
        equal(lambda i: entry_drift(i["M"]).sum(), lambda i: drift(i["M"])),
        PAIRS,
        scale=lambda i: len(i["M"]) ** 3,
    ),
    deterministic("002/lem-12-steps:change", vanishes(_change), {"random": steps()}),
    expectation(
        "002/lem-12-steps:mean-ii",
        equal(Sampled(_mean_change(0, 0)), lambda i: len(i["M"])),
        {"moments": small_moments},
        counts=(5, 20),
    ),
    expectation(
        "002/lem-12-steps:mean-ij",
        equal(Sampled(_mean_change(0, 1)), 0.0),
        {"moments": small_moments},
        scale=lambda i: len(i["M"]),
        counts=(5, 20),
    ),
    *_step_claims(),
    deterministic("002/lem-12-steps:eq-78", equal(_second_term, _second_term_printed), {"random": _with_gamma}),
    deterministic(
        "002/lem-12-steps:eq-78#corrected",
        equal(_second_term, lambda i: i["gamma"] ** 2 * _second_term_printed(i)),
        {"random": _with_gamma},
        scale=lambda i: i["gamma"] ** 2 * len(i["M"]),
    ),
)
