"""001, Appendix B.1: concentration of sample covariances."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Estimate, Instance, Search
from isometer_papers.claims._families import Rng, cases, drawn
from isometer_papers.claims._statements import Sampled, at_most, deterministic, equal, probability
from isometer_papers.claims.joudaki2024.mean_field.chains import precise_library
from isometer_papers.theory.mean_field.covariance_concentration import (
    bernstein_as_printed,
    bernstein_bound,
    coin_tail,
    covariance_deviation,
    covariance_scale,
    deviation_tail,
    deviation_tail_as_printed,
    rademacher_tail,
    sphere_distance,
    substituted_term,
    substituted_term_as_printed,
    summed_tail_as_printed,
)
from isometer_papers.theory.mean_field.total_variation import gaussian_distance

DRAWS = 20_000


def _share(hits: Any) -> Estimate:
    """A probability; its error is at least one hit in all draws."""
    p, draws = float(np.mean(hits)), len(hits)
    return Estimate(p, max(math.sqrt(p * (1 - p) / draws), 1 / draws), draws - 1, draws)


_constants = cases(*({"d": d, "t": t, "K": 1.0} for d in (40, 20, 100) for t in (0.5, 1.0)))


_signs = drawn(lambda rng: {"d": int(rng.integers(1, 60)), "t": float(rng.uniform(0.01, 1)), "K": 1.0})


_spheres = cases(*({"n": n, "d": d, "t": 1.0} for n in (2, 3, 10) for d in (200, 1000)))


def _certain(i: Instance) -> Any:
    """P of the mean of ‖x xᵀ − C‖_F, which is a constant on the sphere."""
    return 1 if sphere_distance(i["n"], 1 + 0 * i["t"]) >= i["t"] else 0


def _vectors(rng: Rng, count: int) -> Iterator[Instance]:
    """x on the sphere of radius √n, C = I, B = 1."""
    for n in (10, 4, 2):
        yield {"x": np.array([float(n) ** 0.5, *[0.0] * (n - 1)])}
    for _ in range(count):
        x = rng.standard_normal(int(rng.integers(2, 12)))
        yield {"x": x / np.linalg.norm(x) * math.sqrt(len(x))}


def _excess(i: Instance) -> Any:
    """‖x xᵀ − I‖_F²."""
    x = i["x"]
    return ((np.outer(x, x) - np.eye(len(x), dtype=int)) ** 2).sum()


def _norms(i: Instance) -> Any:
    """‖x xᵀ‖_F + ‖I‖_F."""
    n = len(i["x"])
    return (i["x"] ** 2).sum() + (0 * i["x"][0] + n) ** 0.5


def _ellipsoid(i: Instance, rng: Rng, draws: int) -> tuple[Any, Any, float]:
    """Vectors √n D u with u on the unit sphere, the diagonal of C, and B."""
    n = i["n"]
    scales = np.linspace(1.0, i.get("thin", 1.0), n)
    u = rng.standard_normal((draws, i["d"], n))
    u /= np.linalg.norm(u, axis=-1, keepdims=True)
    return math.sqrt(n) * u * scales, scales**2, float((scales**2).max())


def _exceeds(i: Instance, rng: Rng, inverse: bool, factor: float) -> Estimate:
    """P(deviation ≥ factor · ε)."""
    hits, left = [], DRAWS if i["n"] <= 20 else DRAWS // 4
    while left > 0:
        block = min(left, 2_000_000 // (i["n"] * i["d"]))
        x, diagonal, size = _ellipsoid(i, rng, block)
        scale = covariance_scale(i["n"], i["d"], size) * (1 / diagonal.min() if inverse else 1.0)
        hits.append(covariance_deviation(x, diagonal, inverse) >= factor * scale)
        left -= block
    return _share(np.concatenate(hits))


def _coins(rng: Rng, count: int) -> Iterator[Instance]:
    """c t ε just below the smallest deviation, and ordinary t."""
    for c in (3.0, 100.0):
        for d in (1, 3, 11):
            yield {"d": d, "c": c, "t": round(0.49 / (c * math.sqrt(d)), 4)}
            yield {"d": d, "c": c, "t": 0.5}


def _coin_tail(i: Instance) -> Any:
    one = 1 + 0 * i["t"]
    return coin_tail(i["d"], i["c"] * i["t"] / (one * i["d"]) ** 0.5, one)


TAILS = {
    "vectors": cases(
        {"n": 4, "d": 20, "t": 0.25},
        {"n": 4, "d": 20, "t": 1.0},
        {"n": 10, "d": 50, "t": 0.5, "thin": 0.3},
        {"n": 2, "d": 5, "t": 0.5},
        {"n": 2, "d": 5, "t": 0.25, "thin": 0.3},
    )
}


def _matrices(rng: Rng, count: int) -> Iterator[Instance]:
    """Diagonal C and sample covariances."""
    yield {"C": np.array([1.0, 4.0]), "S": np.array([[1.0, 1.0], [1.0, 4.0]])}
    for _ in range(count):
        n = int(rng.integers(2, 5))
        x = rng.standard_normal((n + 2, n))
        yield {"C": np.exp(rng.uniform(-2, 2, n)), "S": x.T @ x / (n + 2)}


def _whitened(i: Instance) -> Any:
    """‖C^{−1/2} S C^{−1/2} − I‖_F."""
    root = i["C"] ** 0.5
    scaled = i["S"] / root[:, None] / root[None, :]
    return ((scaled - np.eye(len(root), dtype=int)) ** 2).sum() ** 0.5


def _directions() -> Search:
    """An adversary over directions in three dimensions."""

    def build(point: Any) -> Instance:
        x = np.tan(3.0 * (np.asarray(point) - 0.5)) + 1e-9
        return {"x": x / np.linalg.norm(x) * math.sqrt(3)}

    return Search(build, 3)


CLAIMS = (
    probability(
        "001/eq-B.5",
        "eq. B.5",
        "|X_i| ≤ K i.i.d. ⇒ P((1/d)ΣX_i ≥ t) ≤ 2exp(−(dt²/2)/(K² + Kt/3))",
        at_most(lambda i: 1, lambda i: bernstein_as_printed(i["d"], i["t"], i["K"], precise_library(i["t"]))),
        {"constant": _constants},
        corrected="001/eq-B.5#corrected",
        scope="X_i = 1, K = 1, t ≤ 1: the probability is 1",
        remark="E X_i = 0 is missing, and the proof uses it for non-negative variables",
    ),
    probability(
        "001/eq-B.5#corrected",
        "eq. B.5",
        "|X_i| ≤ K i.i.d., E X_i = 0 ⇒ P((1/d)ΣX_i ≥ t) ≤ exp(−(dt²/2)/(K² + Kt/3))",
        at_most(
            lambda i: rademacher_tail(i["d"], i["t"], 1 + 0 * i["t"]),
            lambda i: bernstein_bound(i["d"], i["t"], i["K"], precise_library(i["t"])),
        ),
        {"signs": _signs},
        search=Search(lambda p: {"d": 1 + int(80 * p[0]), "t": 0.01 + 0.99 * float(p[1]), "K": 1.0}, 2),
        scope="fair signs, exact tails",
    ),
    deterministic(
        "001/eq-B.6-9:triangle",
        "eq. B.6",
        "‖xxᵀ − C‖_F² ≤ ‖xxᵀ‖_F + ‖C‖_F",
        at_most(_excess, _norms),
        {"sphere": _vectors},
        corrected="001/eq-B.6-9:triangle#corrected",
        remark="the square on the left is too much: n = 10 gives 90 against 13.2",
    ),
    deterministic(
        "001/eq-B.6-9:triangle#corrected",
        "eq. B.6",
        "‖xxᵀ − C‖_F ≤ ‖xxᵀ‖_F + ‖C‖_F",
        at_most(lambda i: _excess(i) ** 0.5, _norms),
        {"sphere": _vectors},
        search=_directions(),
    ),
    deterministic(
        "001/eq-B.6-9:total",
        "eq. B.9",
        "‖x‖² ≤ nB ⇒ ‖xxᵀ − C‖_F² ≤ 2Bn",
        at_most(_excess, lambda i: 2 * len(i["x"])),
        {"sphere": _vectors},
        corrected="001/eq-B.6-9:total#corrected",
        scope="x on the sphere of radius √n, C = I, B = 1",
    ),
    deterministic(
        "001/eq-B.6-9:total#corrected",
        "eq. B.9",
        "‖x‖² ≤ nB ⇒ ‖xxᵀ − C‖_F ≤ 2Bn",
        at_most(lambda i: _excess(i) ** 0.5, lambda i: 2 * len(i["x"])),
        {"sphere": _vectors},
        remark="√(1 + 1/n) Bn is enough here; √2 Bn for every law",
        search=_directions(),
    ),
    probability(
        "001/lem-B.1:eq-B.11",
        "eq. B.10–B.11",
        "P((1/d)Σ‖x_ix_iᵀ − C‖_F ≥ t) ≤ exp(−(dt²/2)/(4n²B² + 2Bnt/3))",
        at_most(
            _certain, lambda i: summed_tail_as_printed(i["d"], i["t"], i["n"], 1 + 0 * i["t"], precise_library(i["t"]))
        ),
        {"sphere": _spheres},
        corrected="001/lem-B.1#corrected",
        scope="the sphere of radius √n, where ‖xxᵀ − C‖_F = √(n² − n) always, B = 1",
        remark="the terms are non-negative and do not average out",
    ),
    deterministic(
        "001/lem-B.1:eq-B.14",
        "eq. B.14",
        "t/(6nB) becomes t/(3√(2d)) under t → t√8Bn/√d",
        equal(lambda i: substituted_term(i["t"], i["d"]), lambda i: substituted_term_as_printed(i["t"], i["d"])),
        {"constant": _constants},
        corrected="001/lem-B.1:eq-B.14#corrected",
        remark="it becomes √2t/(3√d), twice that; read as t/(3√2·d) it is wrong as well",
    ),
    deterministic(
        "001/lem-B.1:eq-B.14#corrected",
        "eq. B.14",
        "t/(6nB) becomes √2t/(3√d) under t → t√8Bn/√d",
        equal(
            lambda i: i["t"] * (0 * i["t"] + 8) ** 0.5 / (0 * i["t"] + i["d"]) ** 0.5 / 6,
            lambda i: substituted_term(i["t"], i["d"]),
        ),
        {"constant": _constants},
    ),
    probability(
        "001/lem-B.1",
        "Lemma B.1, eq. B.3",
        "‖x_i‖² ≤ nB ⇒ P(‖C_d − C‖_F ≥ c tε) ≤ exp(−t²), ε = Bn/√d, t ≲ √d, c absolute",
        at_most(_coin_tail, lambda i: deviation_tail_as_printed(i["t"], precise_library(i["t"]))),
        {"coins": _coins},
        corrected="001/lem-B.1#corrected",
        scope="fair coins x_i ∈ {0, 1}, n = B = 1, exact; c = 3 (the proof has √8) and 100",
        remark="for odd d the deviation is at least 1/(2d): for small t the probability is 1, whatever c is",
    ),
    probability(
        "001/lem-B.1#corrected",
        "Lemma B.1",
        "‖x_i‖² ≤ nB ⇒ P(‖C_d − C‖_F ≥ (1 + t)ε) ≤ exp(−t²), ε = Bn/√d, for every t ≥ 0",
        at_most(Sampled(lambda i, rng: _exceeds(i, rng, False, 1 + i["t"])), lambda i: deviation_tail(i["t"])),
        TAILS,
        counts=(3, 5),
        resolution=0.5,
        remark="E‖C_d − C‖_F ≤ ε and McDiarmid's inequality, without unknown constants",
    ),
    probability(
        "001/lem-B.2",
        "Lemma B.2, eq. B.4",
        "P(‖C^{-1}C_d − I‖_F ≥ c tε) ≤ exp(−t²), ε = B‖C^{-1}‖n/√d, t ≲ √d, c absolute",
        at_most(_coin_tail, lambda i: deviation_tail_as_printed(i["t"], precise_library(i["t"]))),
        {"coins": _coins},
        corrected="001/lem-B.2#corrected",
        scope="fair coins x_i ∈ {0, 1}, n = B = 1, C = ½, exact: both sides of Lemma B.1, doubled",
    ),
    probability(
        "001/lem-B.2#corrected",
        "Lemma B.2",
        "P(‖C^{-1}C_d − I‖_F ≥ (1 + t)ε) ≤ exp(−t²), ε = B‖C^{-1}‖n/√d, for every t ≥ 0",
        at_most(Sampled(lambda i, rng: _exceeds(i, rng, True, 1 + i["t"])), lambda i: deviation_tail(i["t"])),
        TAILS,
        counts=(3, 5),
        resolution=0.5,
        remark="from Lemma B.1 and ‖C^{-1}(C_d − C)‖_F ≤ ‖C^{-1}‖‖C_d − C‖_F",
    ),
    deterministic(
        "001/lem-B.2:whitening",
        "proof of Lemma B.2",
        "‖C^{-1}C_d − I‖_F is at most the deviation of the whitened vectors, ‖C^{−1/2}C_dC^{−1/2} − I‖_F",
        at_most(lambda i: gaussian_distance(i["C"], i["S"]), _whitened),
        {"matrices": _matrices},
        corrected="001/lem-B.2#corrected",
        remark="the two matrices are similar, not equal; the symmetric one has the smaller Frobenius norm",
    ),
)
