"""002: what its table, captions and remarks on experiments state, where no training is needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._fits import exponent
from isometer_papers.claims._precise import elementwise, numerical_rank
from isometer_papers.claims._statements import (
    Sampled,
    above,
    at_least,
    at_most,
    below,
    deterministic,
    empirical,
    equal,
)
from isometer_papers.claims.daneshmand2020.chains import averages, growth_cases, growth_of, run_of
from isometer_papers.claims.daneshmand2020.instances import shapes
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.rank_steps import plain_chain
from isometer_papers.theory.rank.bounds import second_moments, soft_rank_bound
from isometer_papers.theory.rank.chain import normalized_step

GROWTH = {
    "widths": growth_cases(
        ([8, 64], math.inf, 400, "identity"), ([8, 32], 0.1, 4000, "identity"), ([8, 32], 1.0, 600, "identity")
    )
}


def _final_ranks(normalize: bool, function: str | None) -> Callable[[Instance, Rng], Estimate]:
    """Numerical rank (1e-9 of the largest singular value) of the last layer of independent chains."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        return Estimate.of([float(numerical_rank(_last(i, rng, normalize, function))) for _ in range(i["chains"])])

    return estimate


def _soft_rank_of_products(i: Instance, rng: Rng) -> Estimate:
    """rank_{1/2} of eq. 4 of Ĥ_ℓ = ∏(I + γW_k)X itself, not scaled."""
    found, d = [], i["width"]
    for _ in range(i["chains"]):
        h = rng.standard_normal((d, d))
        for _ in range(i["layers"]):
            h = h + i["gamma"] * rng.uniform(-(3**0.5), 3**0.5, (d, d)) @ h
        found.append(float((np.linalg.svd(h, compute_uv=False) ** 2 / d >= 0.5).sum()))
    return Estimate.of(found)


def _signs_of_growth(i: Instance, rng: Rng) -> Estimate:
    """How many singular values of the product grow for ever: positive means of log |R_jj| over 400 QR steps."""
    found, d = [], i["width"]
    for _ in range(i["chains"]):
        q, total = np.eye(d), np.zeros(d)
        for _ in range(400):
            q, r = np.linalg.qr(q + i["gamma"] * rng.uniform(-(3**0.5), 3**0.5, (d, d)) @ q)
            total += np.log(abs(np.diag(r)))
        found.append(float((total > 0).sum()))
    return Estimate.of(found)


def _last(i: Instance, rng: Rng, normalize: bool, function: str | None) -> Numeric:
    start = rng.standard_normal((i["width"], i["width"]))
    applied = None if function is None else elementwise(function)
    layers = i["layers"]
    return plain_chain(start, i["gamma"], layers=layers, rng=rng, function=applied, normalize=normalize, every=layers)[
        -1
    ]


def _soft_rank_of_tanh(i: Instance, rng: Rng) -> Estimate:
    """rank_{1/2} of the last layer, scaled to ‖H‖_F² = N d as a normalised network is."""
    found = []
    for _ in range(i["chains"]):
        h = _last(i, rng, False, "tanh")
        values = np.linalg.svd(h, compute_uv=False) ** 2
        found.append(float((values / values.sum() * i["width"] >= 0.5).sum()))
    return Estimate.of(found)


def _stable_rank_of_tanh(i: Instance, rng: Rng) -> Estimate:
    """r of the last layer, from the engine's own chain and its own random numbers: rank one would be r = 1."""
    from isometer.data import make_batch
    from isometer.simulate import simulate
    from isometer.spec import recurrence

    seed = int(rng.integers(1 << 31))
    spec = recurrence(
        "002/eq-rec-vanilla",
        width=i["width"],
        depth=i["layers"],
        activation="tanh",
        residual=i["gamma"],
        order=("activation", "weights", "residual", "norm"),
    )
    batch = make_batch("gaussian", i["width"], i["width"], seed=seed)
    found = simulate(spec, batch, runs=8, metrics=["stable_rank"], seed=seed)["stable_rank"].isel(layer=-1)
    return Estimate.of(np.asarray(found.values))


def _increments(i: Instance, rng: Rng) -> Estimate:
    """log₂ of (R(4d) − R(2d))/(R(2d) − R(d)): 1 for linear growth with an offset."""
    low, middle, high = (averages(d, i["gamma"], i["layers"], "tanh").mean["soft_50"] for d in i["widths"])
    first, second = middle.value - low.value, high.value - middle.value
    errors = math.hypot(low.error, middle.error), math.hypot(middle.error, high.error)
    return exponent([1.0, 2.0], [Estimate(first, errors[0], 100), Estimate(second, errors[1], 100)])


def _rank_one(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        n, d = shapes(rng)
        h = np.outer(rng.standard_normal(n), rng.choice([-1.0, 1.0], d))
        yield {"H": h, "W": rng.uniform(-(3**0.5), 3**0.5, (d, d)), "gamma": float(rng.uniform(0.01, 2))}


def _asymmetric(rng: Rng, rows: int, columns: int) -> Any:
    return rng.uniform(0, 2 / math.sqrt(columns), (rows, columns))


def _asymmetric_rank(i: Instance, rng: Rng) -> Estimate:
    found = []
    for _ in range(8):
        start = rng.standard_normal((i["width"], i["width"]))
        states = plain_chain(start, i["gamma"], layers=300, rng=rng, draw=_asymmetric, every=300)
        found.append(float(soft_rank_bound(states[-1], 0)))
    return Estimate.of(found)


def _leading_fall(i: Instance, rng: Rng) -> Estimate:
    """λ₁ of M after some layers minus before, from almost collinear features."""
    found = []
    for _ in range(40):
        start = np.ones((i["width"], 1)) + 0.05 * rng.standard_normal((i["width"], i["width"]))
        states = plain_chain(start, i["gamma"], layers=i["layers"], rng=rng, every=i["layers"])
        first = normalized_step(start, np.zeros((i["width"], i["width"])), 0.0)
        values = [float(np.linalg.eigvalsh(second_moments(h))[-1]) for h in (first, states[-1])]
        found.append(values[1] - values[0])
    return Estimate.of(found)


def _falling(i: Instance, rng: Rng) -> Estimate:
    """α at the larger width minus α at the smaller."""
    low, high = (averages(d, i["gamma"], i["layers"]).regularity for d in i["widths"])
    return Estimate(high.value - low.value, math.hypot(low.error, high.error), low.freedom, low.draws)


CLAIMS = (
    empirical(
        "002/fig-1:vanilla",
        equal(Sampled(_final_ranks(False, None)), 1.0),
        {"depths": cases({"width": 32, "gamma": 1.0, "layers": 4000, "chains": 16})},
        counts=(1, 1),
        resolution=0.3,
    ),
    empirical(
        "002/fig-1:bn",
        above(Sampled(_final_ranks(True, None)), 1.0),
        {"depths": cases({"width": 32, "gamma": 1.0, "layers": 4000, "chains": 12})},
        counts=(1, 1),
        resolution=0.25,
    ),
    empirical(
        "002/tab-1:vanilla-linear",
        equal(
            Sampled(_soft_rank_of_products, _signs_of_growth, "growth along QR steps instead of singular values"), 1.0
        ),
        {"depths": cases({"width": 16, "gamma": 1.0, "layers": 12, "chains": 16})},
        counts=(1, 1),
    ),
    empirical(
        "002/tab-1:vanilla-linear#corrected",
        equal(Sampled(_final_ranks(False, None)), 1.0),
        {"depths": cases({"width": 16, "gamma": 1.0, "layers": 3000, "chains": 16})},
        counts=(1, 1),
        resolution=0.3,
    ),
    empirical(
        "002/tab-1:vanilla-tanh",
        equal(
            Sampled(
                _soft_rank_of_tanh,
                _stable_rank_of_tanh,
                "r instead of rank_τ, the simulation engine instead of dense NumPy",
            ),
            1.0,
        ),
        {"depths": cases(*({"width": 32, "gamma": g, "layers": 1500, "chains": 12} for g in (0.1, 1.0, math.inf)))},
        counts=(2, 3),
    ),
    empirical(
        "002/tab-1:vanilla-tanh#corrected",
        above(Sampled(_soft_rank_of_tanh), 1.0),
        {"depths": cases(*({"width": 32, "gamma": g, "layers": 1500, "chains": 24} for g in (0.1, 1.0, math.inf)))},
        counts=(2, 3),
        resolution=0.25,
    ),
    empirical(
        "002/tab-1:bn-linear", at_least(Sampled(growth_of("soft_50")), 0.5), GROWTH, resolution=0.15, counts=(1, 3)
    ),
    empirical(
        "002/tab-1:bn-tanh",
        at_least(Sampled(_increments), 1.0),
        {
            "widths": cases(
                {"widths": [16, 32, 64], "gamma": math.inf, "layers": 400},
                {"widths": [32, 64, 128], "gamma": math.inf, "layers": 400},
            )
        },
        counts=(1, 2),
    ),
    empirical("002/fig-2", at_least(Sampled(growth_of("soft_50")), 0.5), GROWTH, resolution=0.15, counts=(1, 3)),
    empirical(
        "002/fig-3",
        below(Sampled(_leading_fall), 0.0),
        {"depths": cases({"width": 16, "gamma": 0.1, "layers": 300})},
        counts=(1, 1),
        resolution=0.25,
    ),
    empirical(
        "002/fig-4",
        above(Sampled(growth_of("stable_rank")), 0.0),
        {"widths": growth_cases(([16, 32], math.inf, 400, "tanh"), ([8, 32], 0.1, 2000, "tanh"))},
        resolution=0.25,
        counts=(1, 2),
    ),
    empirical(
        "002/fig-9:level",
        below(Sampled(lambda i, rng: run_of(i).regularity), 0.9),
        {
            "chains": cases(
                *({"width": d, "gamma": g, "layers": 1500} for d, g in ((16, 0.1), (12, math.inf), (32, 0.1)))
            )
        },
        counts=(2, 3),
    ),
    empirical(
        "002/fig-9:decreasing",
        below(Sampled(_falling), 0.0),
        {"chains": cases({"widths": [8, 64], "gamma": math.inf, "layers": 400})},
        counts=(1, 1),
        resolution=0.5,
    ),
    empirical(
        "002/fig-10",
        at_most(Sampled(growth_of("frobenius")), 1.5),
        {
            "widths": growth_cases(
                ([8, 64], math.inf, 400, "identity"), ([8, 32], 0.1, 9000, "identity"), ([8, 32], 1.0, 600, "identity")
            )
        },
        resolution=0.15,
        counts=(1, 3),
    ),
    deterministic(
        "002/claim-3.4:rank-one",
        equal(lambda i: numerical_rank(normalized_step(i["H"], i["W"], i["gamma"])), 1),
        {"random": _rank_one},
        tolerance=1e-9,
    ),
    empirical(
        "002/claim-3.4:zero-mean",
        at_most(Sampled(_asymmetric_rank), 1.1),
        {"chains": cases({"width": 32, "gamma": math.inf}, {"width": 16, "gamma": math.inf})},
        counts=(1, 2),
    ),
)
