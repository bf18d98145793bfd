"""001, §6.4 and §C.5: activations with gains, at initialisation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims.joudaki2024.isometry.figures import DENSE, grows
from isometer_papers.claims.joudaki2024.isometry.instances import Rng, nought, unit_scale
from isometer_papers.claims.joudaki2024.isometry.networks import (
    final_gap,
    growth,
    measured,
    networks,
    rate_again,
    rate_at,
)
from isometer_papers.theory.isometry.gain_schedules import growth_exponent, measured_gain_schedule


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


def _schedules(rng: Rng, count: int) -> Iterator[Instance]:
    for k in (1.5, 1.2, 2.0, 1.05):
        for depth in (10, 1000, 100_000):
            yield {"c1": 0.1, "c2": 4.0, "k": k, "depth": depth}


def _total(i: Instance) -> float:
    """Σ_ℓ c₁ α_ℓ^{c₂} over all layers, for α_ℓ = ℓ^{−k/c₂}."""
    gains = [1.0, 0.5]
    rates = [i["c1"] * gain ** i["c2"] for gain in gains]
    return measured_gain_schedule(gains, [float(rate) for rate in rates], i["depth"], 1e6, k=float(i["k"])).total


def _exact_total(i: Instance) -> tuple[Any, Any]:
    library = i["c1"].context
    k = i["k"]
    return i["c1"] * (library.zeta(k) - library.zeta(k, i["depth"] + 1)), _total_bound(i)


def _total_bound(i: Instance) -> Any:
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


_C1 = "tanh and sin of constant gain, standard batch norm, orthogonal weights"


CLAIMS = (
    grows(
        "fig-6.5:without-gain",
        "Figure 6.5",
        "without a gain the gradients of tanh and sin networks explode",
        _shaped("tanh", 0.0),
        _shaped("sin", 0.0),
        counts=(2, 2),
        scope="Gaussian samples, n = d = 24, 40 to 100 layers",
    ),
    Claim(
        "001/fig-6.5:with-gain",
        "Figure 6.5",
        "empirical",
        "with gains that fall with the layer the exponential rate goes away",
        "<=",
        lambda i: 0.02,
        {"networks": networks(_shaped("tanh", 0.4), _shaped("sin", 0.4))},
        estimate=growth,
        counts=(2, 2),
        resolution=1.0,
        scope="α_ℓ = ℓ^{−0.4}, n = d = 24, 40 to 100 layers; growth per layer below 0.02",
    ),
    Claim(
        "001/fig-C.1:rises",
        "Figure C.1",
        "empirical",
        "the explosion rate rises with the gain α",
        ">",
        nought,
        {"networks": networks(_shaped("tanh", 0.0), _shaped("sin", 0.0))},
        estimate=_change({"gain": 0.5}, {"gain": 1.0}, growth),
        counts=(1, 2),
        resolution=1.0,
        scope=f"rates at α = 1 and ½; {_C1}, n = d = 24",
    ),
    Claim(
        "001/alg-C.5:power-law",
        "§C.5",
        "asymptotic",
        "the explosion rate behaves as c₁α^{c₂}",
        "==",
        lambda i: growth_exponent(i["phi"]),
        {
            "gains": networks(
                {"phi": "tanh", "gains": [0.04, 0.06]},
                {"phi": "sin", "gains": [0.04, 0.06]},
            )
        },
        quantity=_local_exponent,
        exact=lambda i: (_local_exponent(i), growth_exponent(i["phi"])),
        tolerance=0.01,
        counts=(2, 2),
        scope="exponent between α = 0.04 and 0.06 at infinite width (Gaussian weights, n = 100), 4 within 1%",
        remark="at gains near 1 the rate grows more slowly than α⁴",
    ),
    Claim(
        "001/alg-C.5:bounded",
        "§C.5",
        "deterministic",
        "for α_ℓ = ℓ^{−k/c₂}, k > 1, the sum of the rates is bounded whatever the depth",
        "<=",
        _total_bound,
        {"schedules": _schedules},
        quantity=_total,
        exact=_exact_total,
        scope="by c₁k/(k−1)",
    ),
    Claim(
        "001/alg-C.5:sign",
        "eq. C.155",
        "empirical",
        "R(ℓ, α) = (log‖∇_{W_ℓ}𝓛‖ − log‖∇_{W_{ℓ−10}}𝓛‖)/10 > 0 where gradients explode",
        ">",
        nought,
        {"networks": networks({**_shaped("tanh", 0.0), "depth": 100}, {**_shaped("sin", 0.0), "depth": 100})},
        estimate=rate_at(40),
        again=rate_again(40),
        independence=DENSE,
        counts=(1, 2),
        resolution=1.0,
        corrected="001/alg-C.5:sign#corrected",
        scope=f"ℓ = 40 of 100; {_C1}",
        remark="layers count from the input, towards which exploding gradients grow",
    ),
    Claim(
        "001/alg-C.5:sign#corrected",
        "eq. C.155",
        "empirical",
        "R(ℓ, α) = (log‖∇_{W_{ℓ−10}}𝓛‖ − log‖∇_{W_ℓ}𝓛‖)/10 > 0 where gradients explode",
        ">",
        nought,
        {"networks": networks({**_shaped("tanh", 0.0), "depth": 100}, {**_shaped("sin", 0.0), "depth": 100})},
        estimate=lambda i, rng: _negated(rate_at(40)(i, rng)),
        again=lambda i, rng: _negated(rate_again(40)(i, rng)),
        independence=DENSE,
        counts=(1, 2),
        resolution=1.0,
        scope=f"ℓ = 40 of 100; {_C1}",
    ),
    Claim(
        "001/fig-C.2",
        "Figure C.2",
        "empirical",
        "the explosion rate of early layers falls with the gain exponent",
        ">",
        nought,
        {"networks": networks({**_shaped("tanh", 0.0), "depth": 100}, {**_shaped("sin", 0.0), "depth": 100})},
        estimate=_change({"fall": 0.0}, {"fall": 0.4}, rate_at(20)),
        counts=(1, 2),
        resolution=1.0,
        scope="rate towards the input at ℓ = 20 of 100, exponents 0 and 0.4",
    ),
    Claim(
        "001/fig-C.9:large-gap",
        "Figure C.9",
        "empirical",
        "the isometry gap of tanh and sin networks stays large",
        ">=",
        lambda i: 0.5,
        {"networks": networks({**_shaped("tanh", 0.0), "depth": 100}, {**_shaped("sin", 0.0), "depth": 100})},
        estimate=final_gap,
        counts=(2, 2),
        resolution=0.5,
        scope="above ½ after 100 layers, n = d = 24, standard batch norm",
    ),
    Claim(
        "001/fig-C.9:stable-gap",
        "Figure C.9",
        "empirical",
        "the isometry gap of tanh and sin networks settles",
        "==",
        nought,
        {"networks": networks({**_shaped("tanh", 0.0), "depth": 100}, {**_shaped("sin", 0.0), "depth": 100})},
        estimate=_drift_of_gap,
        counts=(2, 2),
        scale=unit_scale,
        resolution=0.15,
        scope="mean gap of the layers 71 to 100 less that of 31 to 60, where the gap itself is about 1",
    ),
    grows(
        "fig-C.9:explosion",
        "Figure C.9",
        "after the gap has settled gradients of tanh and sin networks explode exponentially",
        _shaped("tanh", 0.0),
        _shaped("sin", 0.0),
        counts=(2, 2),
        scope="n = d = 24, 40 to 100 layers",
    ),
)
