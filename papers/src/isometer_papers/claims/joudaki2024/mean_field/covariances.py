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
from isometer_papers.float_or_mpmath import Numeric
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


def _certain(i: Instance) -> Numeric:
    """P of the mean of ‖x xᵀ − C‖_F, which is a constant on the sphere."""
    return 1 if sphere_distance(i["n"], 1 + 0 * i["t"]) >= i["t"] else 0


def _vectors(rng: Rng, count: int) -> Iterator[Instance]:
    """x on the sphere of radius √n, C = I, B = 1."""
    for n in (10, 4, 2):
        yield {"x": np.array([float(n) ** 0.5, *[0.0] * (n - 1)])}
    for _ in range(count):
        x = rng.standard_normal(int(rng.integers(2, 12)))
        yield {"x": x / np.linalg.norm(x) * math.sqrt(len(x))}


def _excess(i: Instance) -> Numeric:
    """‖x xᵀ − I‖_F²."""
    x = i["x"]
    return ((np.outer(x, x) - np.eye(len(x), dtype=int)) ** 2).sum()


def _norms(i: Instance) -> Numeric:
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


def _coin_tail(i: Instance) -> Numeric:
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


def _whitened_vectors(rng: Rng, count: int) -> Iterator[Instance]:
    """A diagonal C and a vector."""
    yield {"C": np.array([1.0, 4.0]), "x": np.array([1.0, 1.0])}
    for _ in range(count):
        n = int(rng.integers(1, 6))
        yield {"C": np.exp(rng.uniform(-3, 3, n)), "x": rng.standard_normal(n)}


def _whitened(i: Instance) -> Numeric:
    """‖C^{−1/2} S C^{−1/2} − I‖_F."""
    root = i["C"] ** 0.5
    scaled = i["S"] / root[:, None] / root[None, :]
    return ((scaled - np.eye(len(root), dtype=int)) ** 2).sum() ** 0.5


def _directions() -> Search:
    """An adversary over directions in three dimensions."""

    def build(point: Numeric) -> Instance:
        x = np.tan(3.0 * (np.asarray(point) - 0.5)) + 1e-9
        return {"x": x / np.linalg.norm(x) * math.sqrt(3)}

    return Search(build, 3)


CLAIMS = (
    probability(
        "001/eq-B.5",
        at_most(lambda i: 1, lambda i: bernstein_as_printed(i["d"], i["t"], i["K"], precise_library(i["t"]))),
        {"constant": _constants},
    ),
    probability(
        "001/eq-B.5#corrected",
        at_most(
            lambda i: rademacher_tail(i["d"], i["t"], 1 + 0 * i["t"]),
            lambda i: bernstein_bound(i["d"], i["t"], i["K"], precise_library(i["t"])),
        ),
        {"signs": _signs},
        search=Search(lambda p: {"d": 1 + int(80 * p[0]), "t": 0.01 + 0.99 * float(p[1]), "K": 1.0}, 2),
    ),
    deterministic("001/eq-B.6-9:triangle", at_most(_excess, _norms), {"sphere": _vectors}),
    deterministic(
        "001/eq-B.6-9:triangle#corrected",
        at_most(lambda i: _excess(i) ** 0.5, _norms),
        {"sphere": _vectors},
        search=_directions(),
    ),
    deterministic("001/eq-B.6-9:total", at_most(_excess, lambda i: 2 * len(i["x"])), {"sphere": _vectors}),
    deterministic(
        "001/eq-B.6-9:total#corrected",
        at_most(lambda i: _excess(i) ** 0.5, lambda i: 2 * len(i["x"])),
        {"sphere": _vectors},
        search=_directions(),
    ),
    probability(
        "001/lem-B.1:eq-B.11",
        at_most(
            _certain, lambda i: summed_tail_as_printed(i["d"], i["t"], i["n"], 1 + 0 * i["t"], precise_library(i["t"]))
        ),
        {"sphere": _spheres},
    ),
    deterministic(
        "001/lem-B.1:eq-B.14",
        equal(lambda i: substituted_term(i["t"], i["d"]), lambda i: substituted_term_as_printed(i["t"], i["d"])),
        {"constant": _constants},
    ),
    deterministic(
        "001/lem-B.1:eq-B.14#corrected",
        equal(
            lambda i: i["t"] * (0 * i["t"] + 8) ** 0.5 / (0 * i["t"] + i["d"]) ** 0.5 / 6,
            lambda i: substituted_term(i["t"], i["d"]),
        ),
        {"constant": _constants},
    ),
    probability(
        "001/lem-B.1",
        at_most(_coin_tail, lambda i: deviation_tail_as_printed(i["t"], precise_library(i["t"]))),
        {"coins": _coins},
    ),
    probability(
        "001/lem-B.1#corrected",
        at_most(Sampled(lambda i, rng: _exceeds(i, rng, False, 1 + i["t"])), lambda i: deviation_tail(i["t"])),
        TAILS,
        counts=(3, 5),
        resolution=0.5,
    ),
    probability(
        "001/lem-B.2",
        at_most(_coin_tail, lambda i: deviation_tail_as_printed(i["t"], precise_library(i["t"]))),
        {"coins": _coins},
    ),
    probability(
        "001/lem-B.2#corrected",
        at_most(Sampled(lambda i, rng: _exceeds(i, rng, True, 1 + i["t"])), lambda i: deviation_tail(i["t"])),
        TAILS,
        counts=(3, 5),
        resolution=0.5,
    ),
    deterministic(
        "001/lem-B.2:norm",
        at_most(lambda i: (i["x"] ** 2 / i["C"]).sum(), lambda i: (i["x"] ** 2).sum() / min(i["C"])),
        {"vectors": _whitened_vectors},
        search=Search(lambda p: {"C": np.asarray(p[:3]) + 0.01, "x": np.asarray(p[3:]) + 1e-9}, 6),
    ),
    deterministic(
        "001/lem-B.2:whitening",
        at_most(lambda i: gaussian_distance(i["C"], i["S"]), _whitened),
        {"matrices": _matrices},
    ),
)
