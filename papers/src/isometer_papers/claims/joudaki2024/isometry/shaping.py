"""001, §6.4 and §C.5: activations with gains, at initialisation."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from isometer.theory.batch_norm import growth_exponent, measured_gain_schedule
from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._statements import (
    Sampled,
    above,
    asymptotic,
    at_least,
    at_most,
    below,
    deterministic,
    empirical,
    equal,
    vanishes,
)
from isometer_papers.claims.joudaki2024.isometry.figures import DENSE, explodes
from isometer_papers.claims.joudaki2024.isometry.networks import final_gap, growth, measured, rate_again, rate_at
from isometer_papers.float_or_mpmath import Numeric, library_of


def _drift_of_gap(i: Instance, rng: Rng) -> Estimate:
    """Mean gap of the layers 71 to 100 less that of 31 to 60, run by run."""
    gap = measured(i, i["depth"]).gap
    return Estimate.of(gap[:, 71:101].mean(axis=1) - gap[:, 31:61].mean(axis=1))


def _shaped(phi: str, fall: float, **rest: Any) -> dict[str, Any]:
    return {"d": 24, "phi": phi, "norm": "batch", "fall": fall, "depths": [40, 100], "runs": 24, **rest}


def _change(first: dict[str, Any], second: dict[str, Any], read: Any) -> Any:
    """The estimate at `second` less that at `first`, both changes of the instance."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        a, b = read({**i, **first}, rng), read({**i, **second}, rng)
        return Estimate(b.value - a.value, math.hypot(a.error, b.error), a.freedom, a.draws)

    return estimate


def _negated(estimate: Estimate) -> Estimate:
    return Estimate(-estimate.value, estimate.error, estimate.freedom, estimate.draws)


# Every layer has the rate β.
_level = cases(*({"beta": 0.1, "depth": depth, "c": c} for c in (10.0, 100.0) for depth in (1000, 10_000)))


_schedules = cases(
    *({"c1": 0.1, "c2": 4.0, "k": k, "depth": depth} for k in (1.5, 1.2, 2.0, 1.05) for depth in (10, 1000, 100_000))
)


def _total(i: Instance) -> float:
    """Σ_ℓ c₁ α_ℓ^{c₂} over all layers, for α_ℓ = ℓ^{−k/c₂}."""
    gains = [1.0, 0.5]
    rates = [i["c1"] * gain ** i["c2"] for gain in gains]
    return measured_gain_schedule(gains, [float(rate) for rate in rates], i["depth"], 1e6, k=float(i["k"])).total


def _exact_total(i: Instance) -> tuple[Numeric, Numeric]:
    library = library_of(i["c1"])
    k = i["k"]
    return i["c1"] * (library.zeta(k) - library.zeta(k, i["depth"] + 1)), _total_bound(i)


def _total_bound(i: Instance) -> Numeric:
    """c₁ k/(k − 1)."""
    return i["c1"] * i["k"] / (i["k"] - 1)


@lru_cache(maxsize=16)
def _excess(phi: str, gain: float) -> float:
    """Growth of gradients at infinite width over that of the identity, 100 samples."""
    from isometer.activations import activation
    from isometer.theory.batch_norm import gradient_growth

    return gradient_growth(activation(phi).gain(gain), 100) - gradient_growth("identity", 100)


def _local_exponent(i: Instance) -> float:
    low, high = (float(gain) for gain in i["gains"])
    return math.log(_excess(i["phi"], high) / _excess(i["phi"], low)) / math.log(high / low)


CLAIMS = (
    explodes(
        "fig-6.5:without-gain",
        {**_shaped("tanh", 0.0), "depth": 100, "distances": [5, 25, 80]},
        {**_shaped("sin", 0.0), "depth": 100, "distances": [5, 25, 80]},
        counts=(2, 2),
    ),
    empirical(
        "001/fig-6.5:with-gain",
        at_most(Sampled(growth), 0.02),
        {"networks": cases(_shaped("tanh", 0.4, runs=48), _shaped("sin", 0.4, runs=48))},
        counts=(2, 2),
        resolution=0.5,
    ),
    empirical(
        "001/fig-6.5:outputs",
        below(Sampled(_change({"fall": 0.0}, {"fall": 0.4}, final_gap)), 0),
        {"networks": cases(_shaped("tanh", 0.0, depth=100, runs=96), _shaped("sin", 0.0, depth=100, runs=96))},
        counts=(1, 2),
        resolution=0.5,
    ),
    empirical(
        "001/fig-C.1:rises",
        above(Sampled(_change({"gain": 0.5}, {"gain": 1.0}, growth)), 0),
        {"networks": cases(_shaped("tanh", 0.0), _shaped("sin", 0.0))},
        counts=(1, 2),
        resolution=0.5,
    ),
    asymptotic(
        "001/alg-C.5:power-law",
        equal(_local_exponent, lambda i: growth_exponent(i["phi"])),
        {"gains": cases({"phi": "tanh", "gains": [0.04, 0.06]}, {"phi": "sin", "gains": [0.04, 0.06]})},
        tolerance=0.01,
        counts=(2, 2),
    ),
    deterministic(
        "001/alg-C.5:goal", at_most(lambda i: i["beta"] * i["depth"], lambda i: i["c"] * i["beta"]), {"level": _level}
    ),
    deterministic("001/alg-C.5:bounded", at_most(_total, _total_bound), {"schedules": _schedules}, exact=_exact_total),
    empirical(
        "001/alg-C.5:sign",
        above(Sampled(rate_at(40), rate_again(40), DENSE), 0),
        {"networks": cases({**_shaped("tanh", 0.0), "depth": 100}, {**_shaped("sin", 0.0), "depth": 100})},
        counts=(1, 2),
        resolution=0.5,
    ),
    empirical(
        "001/alg-C.5:sign#corrected",
        above(
            Sampled(
                lambda i, rng: _negated(rate_at(40)(i, rng)), lambda i, rng: _negated(rate_again(40)(i, rng)), DENSE
            ),
            0,
        ),
        {"networks": cases({**_shaped("tanh", 0.0), "depth": 100}, {**_shaped("sin", 0.0), "depth": 100})},
        counts=(1, 2),
        resolution=0.5,
    ),
    empirical(
        "001/fig-C.2",
        above(Sampled(_change({"fall": 0.0}, {"fall": 0.4}, rate_at(20))), 0),
        {"networks": cases(_shaped("tanh", 0.0, depth=100, runs=96), _shaped("sin", 0.0, depth=100, runs=96))},
        counts=(1, 2),
        resolution=0.5,
    ),
    empirical(
        "001/fig-C.9:large-gap",
        at_least(Sampled(final_gap), 0.5),
        {"networks": cases({**_shaped("tanh", 0.0), "depth": 100}, {**_shaped("sin", 0.0), "depth": 100})},
        counts=(2, 2),
        resolution=0.5,
    ),
    empirical(
        "001/fig-C.9:stable-gap",
        vanishes(Sampled(_drift_of_gap)),
        {"networks": cases({**_shaped("tanh", 0.0), "depth": 100}, {**_shaped("sin", 0.0), "depth": 100})},
        counts=(2, 2),
        resolution=0.15,
    ),
    explodes(
        "fig-C.9:explosion",
        {**_shaped("tanh", 0.0), "depth": 100, "distances": [5, 25, 80]},
        {**_shaped("sin", 0.0), "depth": 100, "distances": [5, 25, 80]},
        counts=(2, 2),
    ),
)
