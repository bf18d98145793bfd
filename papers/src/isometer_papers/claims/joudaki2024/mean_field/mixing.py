"""001, §3.4: the assumption of geometric ergodicity and what is derived from it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

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
    SEVERAL,
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


def _sample_gap(i: Instance) -> Any:
    h, phi = i["X"], elementwise(i["phi"])
    for w in i["W"]:
        h = w @ phi(batch_norm_rows(h, True))
    return abs(h[:, 0] - h[:, 1]).sum()


def _pairs(rng: Rng, count: int) -> Iterator[Instance]:
    for x in ([1.0, 0.0], [0.0, 1.0], [3.0, -2.0]):
        yield {"x": np.array([x])}
    for _ in range(count):
        yield {"x": rng.standard_normal((1, 2)) * 10 ** rng.uniform(-3, 3)}


def _chain(p: Any, mu: Any) -> Instance:
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

    def build(point: Any) -> Instance:
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


def _exact_joint(i: Instance) -> tuple[Any, Any]:
    tail = precise_library(i["t"]).mpf(two_sample_tail(i["width"], float(i["t"]), 1.0, 0.0))  # hits/2^d: no rounding
    return joint_tail(tail, i["layers"]), tail


CLAIMS = (
    deterministic(
        "001/claim-3.tvmono",
        "§3.4.1",
        "‖μ_ℓ − μ_*‖_tv ≤ ‖μ_{ℓ−1} − μ_*‖_tv",
        at_most(lambda i: finite_tv(i["mu"] @ i["P"], i["pi"] @ i["P"]), lambda i: finite_tv(i["mu"], i["pi"])),
        {"chains": _chains},
        scope="finite chains",
        search=_chain_search(),
    ),
    deterministic(
        "001/ass-3.1:unique",
        "Assumption 3.1",
        "the chain has a unique invariant law μ_*, and ‖μ_ℓ − μ_*‖ ≤ (1−α)^ℓ‖μ_0 − μ_*‖ for all h_0",
        above(_sample_gap, 0),
        {"equal": equal_samples},
        corrected="001/ass-3.1:unique#corrected",
        scope="n ≥ 3; two samples that are equal in h_0 would have to differ later, as they do from other h_0",
        remark=f"{SEVERAL}; near such inputs ‖μ_1 − μ_*‖ is as close to 1 as one likes: no α > 0 serves all h_0",
    ),
    deterministic(
        "001/ass-3.1:unique#corrected",
        "Assumption 3.1",
        "n = 2: BN(x) = ±(1, −1), so that from the second layer on the law does not depend on h_0",
        equal(lambda i: abs(batch_norm_rows(i["x"], True)).sum() / 2, 1),
        {"pairs": _pairs},
        hypotheses=lambda i: bool(i["x"][0, 0] != i["x"][0, 1]),
        scope="the absolute values of BN(x)",
    ),
    asymptotic(
        "001/thm-3.2",
        "Theorem 3.2, eq. 3.5",
        "Assumption 3.1, |φ(x)| = O(|x|) ⇒ ‖G_* − G_ℓ‖_F ≤ κ(G_*) O((1−α)^{ℓ/2} + (n/√d) α^{−1/2} ln^{1/2}(d/n))",
        at_most(lambda i: mean_distance(i["width"], i["high"], i["low"]), _theorem_bound),
        {"networks": two_sample_networks},
        hypotheses=unique,
        witness=why_several,
        trivial=lambda i: two_sample_distance(1.0, i["high"], i["low"]),
        corrected="001/thm-3.2#corrected",
        scope="n = 2, where α is at most 2^{−d}: the second term, O as 1, against the largest distance there is",
        remark="for n ≥ 3 the assumption fails, see 001/ass-3.1:unique",
    ),
    asymptotic(
        "001/thm-3.2#corrected",
        "Theorem 3.2",
        "where the local rates at G* are below 1: E‖G_* − G_ℓ‖_F² → c/d, c from the linearised chain",
        equal(Sampled(_squares), 1.0),
        mean_field_networks(
            {"phi": "relu", "n": 5, "width": 1000, "depth": 60, "runs": 80},
            {"phi": "tanh", "n": 5, "width": 1000, "depth": 60, "runs": 80},
        ),
        counts=(1, 2),
        tolerance=0.05,
        resolution=0.25,
        scope="measured over predicted, layers 30 to 60, d = 1000, within 5 %",
    ),
    probability(
        "001/thm-3.2:joint",
        "after Theorem 3.2",
        "the bound holds jointly for all ℓ, without a union bound: P(max_{ℓ≤L}‖G_ℓ − G_*‖ ≥ t) ≤ P(‖G_2 − G_*‖ ≥ t)",
        at_most(
            lambda i: joint_tail(two_sample_tail(i["width"], i["t"], 1.0, 0.0), i["layers"]),
            lambda i: two_sample_tail(i["width"], i["t"], 1.0, 0.0),
        ),
        {"layers": _layers},
        exact=lambda i: _exact_joint(i),
        corrected="001/thm-3.2:joint#corrected",
        scope="n = 2, ReLU, layers 2 to L + 1, which are independent; exact",
        remark="a stationary chain reaches every distance it can reach, if it is deep enough",
    ),
    probability(
        "001/thm-3.2:joint#corrected",
        "after Theorem 3.2",
        "P(max_{ℓ≤L}‖G_ℓ − G_*‖ ≥ t) ≤ L P(‖G_2 − G_*‖ ≥ t)",
        at_most(
            lambda i: joint_tail(two_sample_tail(i["width"], i["t"], 1.0, 0.0), i["layers"]),
            lambda i: i["layers"] * two_sample_tail(i["width"], i["t"], 1.0, 0.0),
        ),
        {"layers": _layers},
        scope="n = 2, ReLU; exact",
    ),
    asymptotic(
        "001/lem-3.3",
        "Lemma 3.3, eq. 3.6",
        "‖T(μ̂) − μ̂‖_tv = O(‖G_*^{-1}‖ (n²/d) ln(d/n))",
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
        corrected="001/lem-3.3#corrected",
        scope="exponent in d between two widths, n = 2, ReLU; ‖·‖_tv ≤ 1 at the smaller one",
        remark="the proof bounds the law of one row; for all d rows the distance tends to a constant",
    ),
    asymptotic(
        "001/lem-3.3#corrected",
        "Lemma 3.3",
        "n = 2, |φ(1)| ≠ |φ(−1)|: ‖T(μ̂) − μ̂‖_tv does not vanish as d → ∞, it is at least ‖N(0,2) − N(0,1)‖_tv = 0.1661",
        equal(Sampled(lambda i, rng: image_tv(i["width"], rng)), lambda i: scale_tv(1, 2.0)),
        {"widths": cases({"width": 1_000_000}, {"width": 10_000})},
        counts=(1, 2),
        tolerance=0.003,
        resolution=0.1,
        scope="probability of |Σ s_i t_i|/√d > √(2 ln 2) under both laws, d = 10⁶ and 10⁴",
    ),
    deterministic(
        "001/eq-3.7-3.8:eq-3.7",
        "eq. 3.7",
        "‖T(μ̂) − T(μ_*)‖ ≤ (1 − α)‖μ̂ − μ_*‖",
        at_most(
            lambda i: finite_tv(i["mu"] @ i["P"], i["pi"] @ i["P"]),
            lambda i: contraction(i["P"]) * finite_tv(i["mu"], i["pi"]),
        ),
        {"chains": _chains},
        scope="finite chains, 1 − α the largest distance between two rows",
        search=_chain_search(),
    ),
    deterministic(
        "001/eq-3.7-3.8:eq-3.8",
        "eq. 3.8",
        "‖T(μ̂) − μ̂‖ ≥ α‖μ̂ − μ_*‖",
        at_least(
            lambda i: finite_tv(i["mu"] @ i["P"], i["mu"]),
            lambda i: (1 - contraction(i["P"])) * finite_tv(i["mu"], i["pi"]),
        ),
        {"chains": _chains},
        scale=1,
        scope="finite chains",
        search=_chain_search(),
    ),
)
