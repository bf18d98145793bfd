"""001, §3.4: the assumption of geometric ergodicity and what is derived from it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from isometer_papers.claims._claim import Estimate, Instance, Search
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import elementwise
from isometer_papers.claims._statements import (
    Sampled,
    above,
    asymptotic,
    at_least,
    at_most,
    deterministic,
    equal,
    probability,
)
from isometer_papers.claims.joudaki2024.mean_field.chains import (
    dense_tv,
    distances_of,
    equal_samples,
    exponent_between,
    fluctuation,
    image_tv,
    mean_field_networks,
    precise_library,
    tv_exponent,
    two_sample_networks,
    unique,
    why_several,
)
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.isometry.gap_steps import batch_norm_rows
from isometer_papers.theory.mean_field.total_variation import contraction, finite_tv, scale_tv
from isometer_papers.theory.mean_field.two_samples import (
    deviation_bound,
    joint_tail,
    mean_distance,
    mixing_limit,
    two_sample_condition,
    two_sample_distance,
    two_sample_tail,
)


def _squares(i: Instance, rng: Rng) -> Estimate:
    """Mean of ‖G_ℓ − G*‖² over the second half of the layers, over what the theory of fluctuations says."""
    values = distances_of(i)
    half = values.shape[1] // 2
    return Estimate.of((values[:, half:] ** 2).mean(axis=1) / fluctuation(i["phi"], i["n"], i["width"]))


def _sample_gap(i: Instance) -> Numeric:
    h, phi = i["X"], elementwise(i["phi"])
    for w in i["W"]:
        h = w @ phi(batch_norm_rows(h, True))
    return abs(h[:, 0] - h[:, 1]).sum()


def _pairs(rng: Rng, count: int) -> Iterator[Instance]:
    for x in ([1.0, 0.0], [0.0, 1.0], [3.0, -2.0]):
        yield {"x": np.array([x])}
    for _ in range(count):
        yield {"x": rng.standard_normal((1, 2)) * 10 ** rng.uniform(-3, 3)}


def _chain(p: Numeric, mu: Numeric) -> Instance:
    """A stochastic matrix with its invariant law, and another law."""
    p = p / p.sum(axis=1, keepdims=True)
    values, vectors = np.linalg.eig(p.T)
    # of the eigenvalue 1; the sign of eigenvectors is arbitrary
    invariant = np.abs(np.real(vectors[:, np.argmax(values.real)]))
    return {"P": p, "pi": invariant / invariant.sum(), "mu": mu}


def _chains(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        n = int(rng.integers(2, 6))
        p = rng.dirichlet(np.full(n, float(rng.choice([0.2, 1.0, 5.0]))), n) + 1e-3
        yield _chain(p, rng.dirichlet(np.full(n, 0.5)))


def _chain_search() -> Search:
    """An adversary over chains of three states."""

    def build(point: Numeric) -> Instance:
        start = np.asarray(point[9:]) + 1e-3
        return _chain(np.asarray(point[:9]).reshape(3, 3) + 1e-3, start / start.sum())

    return Search(build, 12)


def _lemma_3_3(width: int) -> float:
    """‖G*^{-1}‖ (n²/d) ln(d/n), n = 2; the first factor does not matter."""
    return 4 / width * math.log(width / 2)


def _theorem_bound(i: Instance) -> float:
    condition = two_sample_condition(i["high"], i["low"])
    return deviation_bound(condition, 1.0, i["width"], 2, mixing_limit(i["width"]))


_layers = cases(
    *(
        {"width": width, "layers": layers, "t": t}
        for width in (2, 4, 10, 20)
        for layers in (2, 10, 1000)
        for t in (0.7, 0.3, 0.1)
    )
)


def _exact_joint(i: Instance) -> tuple[Numeric, Numeric]:
    tail = precise_library(i["t"]).mpf(two_sample_tail(i["width"], float(i["t"]), 1.0, 0.0))  # hits/2^d: no rounding
    return joint_tail(tail, i["layers"]), tail


CLAIMS = (
    deterministic(
        "001/claim-3.tvmono",
        at_most(lambda i: finite_tv(i["mu"] @ i["P"], i["pi"] @ i["P"]), lambda i: finite_tv(i["mu"], i["pi"])),
        {"chains": _chains},
        search=_chain_search(),
    ),
    deterministic(
        "001/ass-3.1:unique",
        above(_sample_gap, 0),
        {"equal": equal_samples},
    ),
    deterministic(
        "001/ass-3.1:unique#corrected",
        equal(lambda i: abs(batch_norm_rows(i["x"], True)).sum() / 2, 1),
        {"pairs": _pairs},
        hypotheses=lambda i: bool(i["x"][0, 0] != i["x"][0, 1]),
    ),
    asymptotic(
        "001/thm-3.2",
        at_most(lambda i: mean_distance(i["width"], i["high"], i["low"]), _theorem_bound),
        {"networks": two_sample_networks},
        hypotheses=unique,
        witness=why_several,
        trivial=lambda i: two_sample_distance(1.0, i["high"], i["low"]),
    ),
    asymptotic(
        "001/thm-3.2#corrected",
        equal(Sampled(_squares), 1.0),
        mean_field_networks(
            {"phi": "relu", "n": 5, "width": 1000, "depth": 60, "runs": 80},
            {"phi": "tanh", "n": 5, "width": 1000, "depth": 60, "runs": 80},
        ),
        counts=(1, 2),
        tolerance=0.05,
        resolution=0.25,
    ),
    probability(
        "001/thm-3.2:joint",
        at_most(
            lambda i: joint_tail(two_sample_tail(i["width"], i["t"], 1.0, 0.0), i["layers"]),
            lambda i: two_sample_tail(i["width"], i["t"], 1.0, 0.0),
        ),
        {"layers": _layers},
        exact=lambda i: _exact_joint(i),
    ),
    probability(
        "001/thm-3.2:joint#corrected",
        at_most(
            lambda i: joint_tail(two_sample_tail(i["width"], i["t"], 1.0, 0.0), i["layers"]),
            lambda i: i["layers"] * two_sample_tail(i["width"], i["t"], 1.0, 0.0),
        ),
        {"layers": _layers},
    ),
    asymptotic(
        "001/lem-3.3",
        at_most(
            Sampled(
                tv_exponent,
                lambda i, rng: tv_exponent(i, rng, dense_tv),
                "dense matrices through a ReLU layer instead of the law of the statistic",
            ),
            lambda i: exponent_between(i, _lemma_3_3),
        ),
        {"widths": cases({"widths": [100, 10_000]})},
        counts=(1, 1),
    ),
    asymptotic(
        "001/lem-3.3#corrected",
        equal(Sampled(lambda i, rng: image_tv(i["width"], rng)), lambda i: scale_tv(1, 2.0)),
        {"widths": cases({"width": 1_000_000}, {"width": 10_000})},
        counts=(1, 2),
        tolerance=0.003,
        resolution=0.1,
    ),
    deterministic(
        "001/eq-3.7-3.8:eq-3.7",
        at_most(
            lambda i: finite_tv(i["mu"] @ i["P"], i["pi"] @ i["P"]),
            lambda i: contraction(i["P"]) * finite_tv(i["mu"], i["pi"]),
        ),
        {"chains": _chains},
        search=_chain_search(),
    ),
    deterministic(
        "001/eq-3.7-3.8:eq-3.8",
        at_least(
            lambda i: finite_tv(i["mu"] @ i["P"], i["mu"]),
            lambda i: (1 - contraction(i["P"])) * finite_tv(i["mu"], i["pi"]),
        ),
        {"chains": _chains},
        scale=1,
        search=_chain_search(),
    ),
)
