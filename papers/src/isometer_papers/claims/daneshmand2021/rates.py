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
from isometer_papers.float_or_mpmath import Numeric
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


def _gap(i: Instance) -> Numeric:
    return _chain(i).gap[i["layers"] + 1]


def _gap_limit(power: int) -> Callable[[Instance], Numeric]:
    def bound(i: Instance) -> Numeric:
        alpha = _alpha(_chain(i), i["layers"])
        return gap_bound(i["layers"], alpha, i["n"], math.inf, power=power)

    return bound


def _last_lines(rng: Rng, count: int) -> Iterator[Instance]:
    """What the last line of the proof starts from: n, α ≤ 1/√n, ℓ, d and E V̂(H_1) ≤ 1/n."""
    yield {"n": 4, "alpha": 0.25, "layers": 20, "width": 4096, "first": 0.25}
    for _ in range(count):
        n = int(rng.integers(1, 33))
        yield {
            "n": n,
            "alpha": float(rng.uniform(0.01, 1)) / n**0.5,
            "layers": int(rng.integers(0, 60)),
            "width": int(rng.integers(4, 300)) ** 2,
            "first": float(rng.uniform()) / n,
        }


def _twice_the_induction(i: Instance) -> Numeric:
    """2n E V̂(H_{ℓ+1}), as the induction bounds it."""
    return 2 * i["n"] * lyapunov_bound(i["layers"], i["alpha"], i["first"], i["width"])


def _last_line(spread: Any) -> Callable[[Instance], Numeric]:
    return lambda i: gap_bound(i["layers"], i["alpha"], i["n"], i["width"], spread=spread)


def _lyapunov_of_layer(chain: TwoLevels, n: int, layer: int) -> Any:
    smallest = chain.smallest[layer]
    return (smallest * 0 + 1) / n - smallest**2


def _last_lyapunov(i: Instance) -> Numeric:
    return _lyapunov_of_layer(_chain(i), i["n"], i["layers"] + 1)


def _lyapunov_limit(power: int) -> Callable[[Instance], Numeric]:
    def bound(i: Instance) -> Numeric:
        chain = _chain(i)
        first = _lyapunov_of_layer(chain, i["n"], 1)
        return lyapunov_bound(i["layers"], _alpha(chain, i["layers"]), first, math.inf, power=power)

    return bound


def _gaussian(i: Instance) -> Numeric:
    first = _chain(i).first[i["layers"]]
    n = i["n"]
    return gaussian_distance(np.array([first] + [(1 - first) / (n - 1)] * (n - 1)))


def _gaussian_limit(power: int, layer: int) -> Callable[[Instance], Numeric]:
    def bound(i: Instance) -> Numeric:
        alpha = _alpha(_chain(i), i["layers"])
        return gaussian_distance_bound(i["layers"] - layer, alpha, i["n"], math.inf, power=power)

    return bound


def _path_search(x: Numeric) -> Instance:
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


def _step_value(i: Instance) -> Numeric:
    return (i["first"] * 0 + 1) / i["n"] - two_level_share(i["n"], i["first"])


def _step_bound(power: int) -> Callable[[Instance], Numeric]:
    def bound(i: Instance) -> Numeric:
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


def _surviving(i: Instance) -> Numeric:
    """Runs in which σ_n(H_k) ≥ α for k = 1, …, ℓ."""
    values = spectra_along(squares_of(i), i["width"], i["layers"] + 1, i["chains"])
    kept = (values[:, : i["layers"], 0] >= i["alpha"] ** 2).all(axis=1)
    return values[kept]


def _finite_gap(i: Instance, rng: Rng) -> Estimate:
    return Estimate.of(gaps(_surviving(i)[:, -1]))


def _finite_gaussian(i: Instance, rng: Rng) -> Estimate:
    values = _surviving(i)[:, i["layers"] - 1]
    return Estimate.of(((np.sqrt(values) - 1 / math.sqrt(values.shape[-1])) ** 2).sum(-1))


def _finite_bound(bound: Callable[..., Any]) -> Callable[[Instance], float]:
    return lambda i: float(bound(i["layers"], i["alpha"], len(i["squares"]), i["width"]))


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


def _rate(i: Instance) -> Numeric:
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
            at_most(_gap, _gap_limit(1)),
            WIDE,
        ),
        *s.expectation(
            "theorem#corrected",
            at_most(_gap, _gap_limit(2)),
            WIDE,
            search=SEARCH,
        ),
        *s.expectation(
            "theorem:finite",
            at_most(Sampled(_finite_gap), _finite_bound(gap_bound)),
            {"chains": FINITE},
            trivial=_largest_gap,
            counts=(7, 7),
            resolution=0.3,
        ),
        *s.deterministic(
            "theorem:last-line",
            at_most(_twice_the_induction, _last_line(1.5)),
            {"bounds": _last_lines},
        ),
        *s.deterministic(
            "theorem:last-line#corrected",
            at_most(_twice_the_induction, _last_line(3)),
            {"bounds": _last_lines},
        ),
    )


def _appendix(s: Source) -> tuple[Claim, ...]:
    return (
        *s.expectation(
            "step:step",
            at_most(_step_value, _step_bound(1)),
            {"steps": _steps},
        ),
        *s.expectation(
            "step:step#corrected",
            at_most(Sampled(_step_sample), lambda i: float(_step_bound(2)(i))),
            {"steps": STEPS},
            counts=(5, 5),
        ),
        *s.expectation(
            "induction:induction",
            at_most(_last_lyapunov, _lyapunov_limit(1)),
            WIDE,
        ),
        *s.expectation(
            "induction:induction#corrected",
            at_most(_last_lyapunov, _lyapunov_limit(2)),
            WIDE,
            search=SEARCH,
        ),
    )


def _corollary(s: Source) -> tuple[Claim, ...]:
    return (
        *s.expectation(
            "corollary",
            at_most(_gaussian, _gaussian_limit(1, 0)),
            VERY_WIDE,
        ),
        *s.expectation(
            "corollary#corrected",
            at_most(_gaussian, _gaussian_limit(2, 1)),
            VERY_WIDE,
            search=SEARCH,
        ),
        *s.expectation(
            "corollary:finite",
            at_most(Sampled(_finite_gaussian), _finite_bound(gaussian_distance_bound)),
            {"chains": FINITE},
            trivial=_largest_distance,
            counts=(7, 7),
            resolution=0.3,
        ),
    )


def _introduction(s: Source) -> tuple[Claim, ...]:
    return (
        *s.asymptotic(
            "intro:depth",
            at_most(_rate, lambda i: 1 - _alpha(_chain(i), i["layers"])),
            {"paths": DEEP},
        ),
        *s.asymptotic(
            "intro:depth#corrected",
            equal(_rate, lambda i: first_order_rate(i["n"])),
            {"paths": DEEP},
            tolerance=0.01,
        ),
    )
