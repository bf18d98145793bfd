"""003, Theorem 1, Appendix B and Corollary 3, thesis 2.2–2.3 and A.2: how fast the gap falls with depth.

For fixed n and ℓ and d → ∞ the chain tends to the map of its spectrum, E V(H_{ℓ+1}) to the gap of the iterated map, and
every α below the least singular value on the way is attained with probability → 1. A bound that fails there fails for
all large widths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Instance, Search
from isometer_papers.claims._families import Family, Rng, cases
from isometer_papers.claims._statements import Sampled, at_most, equal
from isometer_papers.claims.daneshmand2021.chains import gaps, spectra_along, squares_of
from isometer_papers.claims.daneshmand2021.drift import lyapunov_of_grams
from isometer_papers.claims.daneshmand2021.source import Source
from isometer_papers.simulate.orthogonality_steps import gram_statistics
from isometer_papers.theory.orthogonality.bounds import (
    gap_bound,
    gaussian_distance,
    gaussian_distance_bound,
    lyapunov_bound,
)
from isometer_papers.theory.orthogonality.spectrum_shares import (
    TwoLevels,
    first_order_rate,
    two_level_chain,
    two_level_share,
)

LIMIT = "d → ∞ at fixed n, ℓ, inputs with n − 1 equal singular values; α is the least singular value on the way"
ROOT = "the proof uses σ_n ≥ α where it needs σ_n² ≥ α"


def _paths(*found: tuple[int, float, int]) -> Family:
    return cases(*({"n": n, "first": first, "layers": layers} for n, first, layers in found))


def _random_paths(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(min(count, 60)):
        n = int(rng.integers(2, 65))
        first = float(10.0 ** rng.uniform(-4, 0)) * (0.999 if rng.integers(2) else 1 / n)
        yield {"n": n, "first": min(first, 0.999), "layers": int(rng.integers(1, 60))}


WIDE = {
    "small": _paths((2, 0.8, 1), (2, 0.8, 6), (4, 0.7, 8), (8, 0.5, 20)),
    "wide": _paths((48, 0.125, 99), (64, 0.125, 112), (32, 0.125, 85), (16, 0.15625, 76)),
    "random": _random_paths,
}
VERY_WIDE = {
    "small": WIDE["small"],
    "wide": _paths((200, 0.125, 540), (200, 0.0625, 520), (100, 0.0625, 460)),
    "random": _random_paths,
}


def _chain(i: Instance) -> TwoLevels:
    return two_level_chain(i["n"], i["first"], i["layers"] + 1)


def _alpha(chain: TwoLevels, layers: int) -> Any:
    return min(chain.smallest[1 : layers + 1])


def _gap(i: Instance) -> Any:
    return _chain(i).gap[i["layers"] + 1]


def _gap_limit(power: int, spread: Any = 3) -> Callable[[Instance], Any]:
    def bound(i: Instance) -> Any:
        alpha = _alpha(_chain(i), i["layers"])
        return gap_bound(i["layers"], alpha, i["n"], math.inf, power=power, spread=spread)

    return bound


def _lyapunov_of_layer(chain: TwoLevels, n: int, layer: int) -> Any:
    smallest = chain.smallest[layer]
    return (smallest * 0 + 1) / n - smallest**2


def _last_lyapunov(i: Instance) -> Any:
    return _lyapunov_of_layer(_chain(i), i["n"], i["layers"] + 1)


def _lyapunov_limit(power: int) -> Callable[[Instance], Any]:
    def bound(i: Instance) -> Any:
        chain = _chain(i)
        first = _lyapunov_of_layer(chain, i["n"], 1)
        return lyapunov_bound(i["layers"], _alpha(chain, i["layers"]), first, math.inf, power=power)

    return bound


def _gaussian(i: Instance) -> Any:
    first = _chain(i).first[i["layers"]]
    n = i["n"]
    return gaussian_distance(np.array([first] + [(1 - first) / (n - 1)] * (n - 1)))


def _gaussian_limit(power: int, layer: int) -> Callable[[Instance], Any]:
    def bound(i: Instance) -> Any:
        alpha = _alpha(_chain(i), i["layers"])
        return gaussian_distance_bound(i["layers"] - layer, alpha, i["n"], math.inf, power=power)

    return bound


def _path_search(x: Any) -> Instance:
    n = 2 + int(60 * x[0])
    return {"n": n, "first": float(1e-4 + 0.999 * x[1] ** 2 - 1e-4 * x[1]), "layers": 1 + int(30 * x[2])}


SEARCH = Search(_path_search, 3, (120, 1000))


def _steps(rng: Rng, count: int) -> Iterator[Instance]:
    """One small singular value, all others equal."""
    yield {"n": 5, "first": 0.0078125, "width": 65536}
    yield {"n": 16, "first": 0.0125, "width": 1000000}
    for _ in range(count):
        n = int(rng.integers(2, 40))
        yield {"n": n, "first": float(rng.uniform(0.01, 0.99)) / n, "width": int(10.0 ** rng.uniform(2, 7))}


def _step_value(i: Instance) -> Any:
    return (i["first"] * 0 + 1) / i["n"] - two_level_share(i["n"], i["first"])


def _step_bound(power: int) -> Callable[[Instance], Any]:
    def bound(i: Instance) -> Any:
        lyapunov = (i["first"] * 0 + 1) / i["n"] - i["first"]
        rate = (i["first"] ** 0.5) ** power
        return (1 - 2 * rate / 3) * lyapunov + 1 / (i["first"] * 0 + i["width"]) ** 0.5

    return bound


def _step_sample(i: Instance, rng: Rng) -> Estimate:
    n, small = i["n"], i["first"]
    squares = np.array([(1 - small) / (n - 1)] * (n - 1) + [small])
    draws = max(60, min(2000, 3_000_000 // (n * i["width"])))
    return Estimate.of(gram_statistics(squares, i["width"], lyapunov_of_grams, draws=draws, rng=rng))


STEPS = cases(
    {"n": 5, "first": 0.0078125, "width": 65536},
    {"n": 2, "first": 0.125, "width": 64},
    {"n": 8, "first": 0.0625, "width": 1024},
    {"n": 16, "first": 0.0125, "width": 4096},
    {"n": 4, "first": 0.24, "width": 16},
)


def _surviving(i: Instance) -> Any:
    """Runs in which σ_n(H_k) ≥ α for k = 1, …, ℓ."""
    values = spectra_along(squares_of(i), i["width"], i["layers"] + 1, i["chains"])
    kept = (values[:, : i["layers"], 0] >= i["alpha"] ** 2).all(axis=1)
    return values[kept]


def _finite_gap(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(gaps(_surviving(i)[:, -1]))


def _finite_gaussian(i: Instance, rng: Rng) -> Estimate:
    values = _surviving(i)[:, i["layers"] - 1]
    return Estimate.of(((np.sqrt(values) - 1 / math.sqrt(values.shape[-1])) ** 2).sum(-1))


def _finite_bound(bound: Callable[..., Any], power: int = 1) -> Callable[[Instance], float]:
    return lambda i: float(bound(i["layers"], i["alpha"], len(i["squares"]), i["width"], power=power))


def _largest_gap(i: Instance) -> float:
    return math.sqrt(1 - 1 / len(i["squares"]))


def _largest_distance(i: Instance) -> float:
    return 2 - 2 / math.sqrt(len(i["squares"]))


FINITE = cases(
    {"squares": np.array([0.6, 0.4]), "width": 65536, "layers": 15, "alpha": 0.6, "chains": 10},
    {"squares": np.array([0.9, 0.1]), "width": 16384, "layers": 8, "alpha": 0.45, "chains": 20},
    {"squares": np.array([0.9, 0.1]), "width": 1024, "layers": 4, "alpha": 0.4, "chains": 100},
    {"squares": np.array([0.8, 0.1, 0.1]), "width": 16384, "layers": 10, "alpha": 0.35, "chains": 12},
    {"squares": np.array([0.999, 0.001]), "width": 256, "layers": 1, "alpha": 0.1, "chains": 200},
    {"squares": np.full(4, 0.25), "width": 16, "layers": 3, "alpha": 0.1, "chains": 200},
    {"squares": np.array([0.97, 0.01, 0.01, 0.01]), "width": 65536, "layers": 12, "alpha": 0.15, "chains": 10},
)
MEANT = "runs in which σ_n(H_k) ≥ α for k ≤ ℓ; no α > 0 is attained almost surely for n ≥ 2"


def _rate(i: Instance) -> Any:
    chain = _chain(i)
    return chain.gap[i["layers"] + 1] / chain.gap[i["layers"]]


DEEP = _paths((2, 0.8, 12), (3, 0.7, 16), (4, 0.6, 20), (8, 0.4, 40), (16, 0.3, 60), (32, 0.2, 120))


def claims(s: Source) -> tuple[Claim, ...]:
    """The claims of a paper."""
    return (*_theorem(s), *_appendix(s), *_corollary(s), *_introduction(s))


def _theorem(s: Source) -> tuple[Claim, ...]:
    return (
        *s.expectation(
            "theorem",
            "E V(H_{ℓ+1}) ≤ 2(1 − ⅔α)^ℓ + 3n/(α√d) under A₁(α, ℓ)",
            at_most(_gap, _gap_limit(1)),
            WIDE,
            fails=True,
            scope=LIMIT,
            remark=f"{ROOT}: the gap falls like (n/(n+2))^ℓ, slower than (1 − ⅔α)^ℓ for n > 4 and α near 1/√n. "
            "The instances need widths of about 3e13 and more; for those that can be simulated see :finite",
        ),
        *s.expectation(
            "theorem#corrected",
            "E V(H_{ℓ+1}) ≤ 2(1 − ⅔α²)^ℓ + 3n/(α²√d) under A₁(α, ℓ)",
            at_most(_gap, _gap_limit(2)),
            WIDE,
            search=SEARCH,
            scope=LIMIT,
            remark="what the proof gives, for E V(H_{ℓ+1}) over the runs with A₁(α, ℓ)",
        ),
        *s.expectation(
            "theorem:finite",
            "E V(H_{ℓ+1}) ≤ 2(1 − ⅔α)^ℓ + 3n/(α√d) under A₁(α, ℓ), widths up to 65536",
            at_most(Sampled(_finite_gap), _finite_bound(gap_bound)),
            {"chains": FINITE},
            trivial=_largest_gap,
            counts=(7, 7),
            resolution=0.3,
            scope=MEANT,
            remark="better than V ≤ √(1−1/n) only for d > 9n³; the stationary gap is about √n/(2√d)",
        ),
        *s.expectation(
            "theorem:last-line",
            "E V(H_{ℓ+1}) ≤ 2(1 − ⅔α)^ℓ + 3n/(2α√d)",
            at_most(_gap, _gap_limit(1, 1.5)),
            WIDE,
            at="last line of its proof",
            fails="theorem",
            scope=LIMIT,
            remark=f"2n · 3/(2α√d) is 3n/(α√d), as in the theorem; {ROOT}",
        ),
    )


def _appendix(s: Source) -> tuple[Claim, ...]:
    return (
        *s.expectation(
            "step:step",
            "E V̂(H_{ℓ+1}) ≤ (1 − ⅔α) E V̂(H_ℓ) + 1/√d under A₁(α, ℓ)",
            at_most(_step_value, _step_bound(1)),
            {"steps": _steps},
            fails=True,
            scope="given H_ℓ with σ_n(H_ℓ) = α, all others equal",
            remark=f"left: 1/n − p_n, which is below the mean of V̂ since the least eigenvalue is concave. {ROOT}",
        ),
        *s.expectation(
            "step:step#corrected",
            "E V̂(H_{ℓ+1}) ≤ (1 − ⅔α²) E V̂(H_ℓ) + 1/√d under A₁(α, ℓ)",
            at_most(Sampled(_step_sample), lambda i: float(_step_bound(2)(i))),
            {"steps": STEPS},
            counts=(5, 5),
        ),
        *s.expectation(
            "induction:induction",
            "E V̂(H_{ℓ+1}) ≤ (1 − ⅔α)^ℓ E V̂(H_1) + 3/(2α√d) under A₁(α, ℓ)",
            at_most(_last_lyapunov, _lyapunov_limit(1)),
            WIDE,
            fails=True,
            scope=LIMIT,
            remark=ROOT,
        ),
        *s.expectation(
            "induction:induction#corrected",
            "E V̂(H_{ℓ+1}) ≤ (1 − ⅔α²)^ℓ E V̂(H_1) + 3/(2α²√d) under A₁(α, ℓ)",
            at_most(_last_lyapunov, _lyapunov_limit(2)),
            WIDE,
            search=SEARCH,
            scope=LIMIT,
        ),
    )


def _corollary(s: Source) -> tuple[Claim, ...]:
    return (
        *s.expectation(
            "corollary",
            "W₂(law(W_ℓH_ℓ), law(G/√n))² ≤ 4n(1 − ⅔α)^ℓ + 6n²/(α√d) under A₁(α, ℓ)",
            at_most(_gaussian, _gaussian_limit(1, 0)),
            VERY_WIDE,
            fails=True,
            scope=LIMIT,
            remark=f"{ROOT}; the left side falls like (n/(n+2))^{{2ℓ}}, too slowly for n ≥ 32 and α near 1/√n",
        ),
        *s.expectation(
            "corollary#corrected",
            "W₂² ≤ 4n(1 − ⅔α²)^{ℓ−1} + 6n²/(α²√d) under A₁(α, ℓ)",
            at_most(_gaussian, _gaussian_limit(2, 1)),
            VERY_WIDE,
            search=SEARCH,
            scope=LIMIT,
            remark="the theorem is about H_{ℓ+1}, the lemma that it is combined with about H_ℓ: the exponent is ℓ − 1",
        ),
        *s.expectation(
            "corollary:finite",
            "W₂² ≤ 4n(1 − ⅔α)^ℓ + 6n²/(α√d) under A₁(α, ℓ), widths up to 65536",
            at_most(Sampled(_finite_gaussian), _finite_bound(gaussian_distance_bound)),
            {"chains": FINITE},
            trivial=_largest_distance,
            counts=(7, 7),
            resolution=0.3,
            scope=f"E Σ(σ_i − 1/√n)², which bounds W₂²; {MEANT}",
            remark="W₂² ≤ 2 − 2/√n anyway: the width term alone is better than that only for d > 9n⁴/α²",
        ),
    )


def _introduction(s: Source) -> tuple[Claim, ...]:
    return (
        *s.asymptotic(
            "intro:depth",
            "E[gap] = O((1−α)^depth + n/(α√d)) with the α of A₁",
            at_most(_rate, lambda i: 1 - _alpha(_chain(i), i["layers"])),
            {"paths": DEEP},
            fails=True,
            scope="d → ∞: the factor per layer in the limit of depth, at layers 12 to 120",
            remark="it tends to n/(n+2), above 1 − α for α near 1/√n at every n; the ⅔ of the theorem is left out",
        ),
        *s.asymptotic(
            "intro:depth#corrected",
            "for d → ∞ the gap falls by a factor of n/(n+2) per layer",
            equal(_rate, lambda i: first_order_rate(i["n"])),
            {"paths": DEEP},
            tolerance=0.01,
            scope="at layers 12 to 120",
        ),
    )
