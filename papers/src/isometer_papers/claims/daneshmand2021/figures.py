"""003, §3 and Figures 1–3, thesis chapter 2: what figures and remarks say about random networks, without training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from isometer.run import seed_of
from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import numerical_rank
from isometer_papers.claims._statements import Sampled, above, at_least, at_most, below, equal, vanishes
from isometer_papers.claims.daneshmand2021.chains import (
    gaps,
    log_exponent,
    over_chains,
    pair_cosines,
    path,
    stationary,
)
from isometer_papers.claims.daneshmand2021.source import Source
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.simulate.orthogonality_steps import dense_chain, feature_chain, smallest_singular_value
from isometer_papers.theory.orthogonality.bounds import gap_of, survival_bound

WIDTHS = [16, 32, 64, 128, 256, 512]


def _fall(kind: str, layers: tuple[int, int]) -> Callable[[Instance, Rng], Estimate]:
    """V at the later of two layers minus V at the earlier."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        values = path(kind, i["width"], i["samples"], max(layers), i["chains"], i["start"])
        return Estimate.of(values[:, layers[1]] - values[:, layers[0]])

    return estimate


def _dense_fall(i: Instance, rng: Rng) -> Estimate:
    """V at layer 75 minus V at layer 15 of ReLU networks whose weights are written out, a new batch for each."""
    found = []
    for _ in range(i["chains"]):
        h = rng.standard_normal((64, i["samples"])) + 2 * rng.standard_normal((64, 1))
        gap = {}
        for layer in range(1, 76):
            weights = rng.standard_normal((i["width"], len(h))) * math.sqrt(2 / len(h))
            h = np.maximum(weights @ h, 0)
            gap[layer] = float(gap_of(h.T))
        found.append(gap[75] - gap[15])
    return Estimate.of(found)


def _from_rank_one(i: Instance, rng: Rng) -> Estimate:
    """√(1 − 1/n) − V at the last layer."""
    values = path("vanilla", i["width"], i["samples"], i["layers"], i["chains"], "orthogonal")
    return Estimate.of(math.sqrt(1 - 1 / i["samples"]) - values[:, -1])


def _products(rng: Rng, count: int) -> Iterator[Instance]:
    """A batch and the weights of up to six layers of a vanilla linear network."""
    for _ in range(count):
        d, layers = int(rng.integers(2, 5)), int(rng.integers(2, 7))
        batch = rng.standard_normal((d, int(rng.integers(2, d + 1))))
        yield {"H": batch.round(2), "W": rng.standard_normal((layers, d, d)).round(2)}


def _rank_of_product(i: Instance) -> int:
    state = i["H"]
    for weights in i["W"]:
        state = weights @ state
    return numerical_rank(state)


def _cosine(vanilla: bool, layers: tuple[int, ...]) -> Callable[[Instance, Rng], Estimate]:
    """|cos| at a layer, or the change between two."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        values = pair_cosines(vanilla, i["width"], i["layers"], i["chains"])
        last = values[:, layers[-1] - 1]
        return Estimate.of(last - values[:, layers[0] - 1] if len(layers) == 2 else last)

    return estimate


COSINES = cases({"width": 32, "layers": 50, "chains": 400})


def _logarithms(i: Instance) -> Numeric:
    """log V per layer, means of 20 runs, `(groups, 1 + layers)`."""
    values = np.log(path("linear", i["width"], 4, 50, i["chains"], "spike"))
    return values.reshape(-1, 20, values.shape[1]).mean(axis=1)


def _straightness(i: Instance, rng: Rng) -> Estimate:
    """Correlation of log V with ℓ ≤ 20 minus that with log ℓ: negative where a line fits better than a power."""
    layers = np.arange(1, 21)
    return Estimate.of(
        [
            float(np.corrcoef(layers, one)[0, 1] - np.corrcoef(np.log(layers), one)[0, 1])
            for one in _logarithms(i)[:, 1:21]
        ]
    )


def _steady_fall(i: Instance, rng: Rng) -> Estimate:
    """Fall of log V over layers 5 to 9, divided by that over layers 9 to 13."""
    values = _logarithms(i)
    return Estimate.of((values[:, 5] - values[:, 9]) / (values[:, 9] - values[:, 13]))


def _settled(i: Instance, rng: Rng) -> Estimate:
    values = np.log(path("linear", i["width"], 4, 50, i["chains"], "spike"))
    return Estimate.of(values[:, 36:51].mean(axis=1) - values[:, 26:36].mean(axis=1))


DEPTHS = cases({"width": 32, "chains": 800}, {"width": 512, "chains": 800})


def _width_slope(first: int, last: int) -> Callable[[Instance, Rng], Estimate]:
    """Slope of log of the mean of V over layers, in log d."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        values = []
        for width in i["widths"]:
            gap = path("linear", width, 4, 600, 20, "spike")[:, first : last + 1]
            values.append(Estimate.of(gap.mean(axis=1)))
        return log_exponent(i["widths"], values)

    return estimate


SLOPES = cases({"widths": WIDTHS})


@lru_cache(maxsize=32)
def _least_ratio(n: int, width: int, layers: int, runs: int) -> Estimate:
    """min_k σ_n(H_k)/σ_n(H_0) of runs from Gaussian inputs."""
    rng = np.random.default_rng(seed_of(f"003 least {n} {width} {layers} {runs}"))
    start = rng.standard_normal((runs, width, n))
    values = feature_chain(start, width, layers=layers, chains=runs, rng=rng, read=smallest_singular_value)
    return Estimate.of(values.min(axis=1) / smallest_singular_value(start))


def least_ratio(i: Instance, rng: Rng) -> Estimate:
    """The same for an instance."""
    return _least_ratio(i["samples"], i["width"], i["layers"], i["runs"])


def dense_least_ratio(i: Instance, rng: Rng) -> Estimate:
    """The same with the weights written out."""
    found = []
    for _ in range(5):
        start = rng.standard_normal((i["width"], i["samples"]))
        states = dense_chain(start, layers=i["layers"], rng=rng)
        found.append(float(smallest_singular_value(states).min() / smallest_singular_value(start)))
    return Estimate.of(found)


SQUARES = cases(
    {"samples": 4, "width": 16, "layers": 1000, "runs": 30},
    {"samples": 8, "width": 64, "layers": 1000, "runs": 20},
    {"samples": 16, "width": 256, "layers": 1000, "runs": 12},
)


_survivals = cases(
    *({"width": 4 * factor, "alpha": alpha, "layers": 1e60} for factor in (1, 2, 4) for alpha in (0.125, 0.25, 0.5))
)


def _scaled_gap(i: Instance, rng: Rng) -> Estimate:
    """V √d/n in stationarity."""
    return over_chains(gaps(stationary(i["samples"], i["width"])) * math.sqrt(i["width"]) / i["samples"])


def _squared_distance(values: Numeric) -> Numeric:
    return ((np.sqrt(values) - 1 / math.sqrt(values.shape[-1])) ** 2).sum(-1)


def _scaled_distance(power: int) -> Callable[[Instance, Rng], Estimate]:
    """W₂² √d/n^k in stationarity."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        size = math.sqrt(i["width"]) / i["samples"] ** power
        return over_chains(_squared_distance(stationary(i["samples"], i["width"])) * size)

    return estimate


def _radius(i: Instance, rng: Rng) -> Estimate:
    """√d √(E W₂²)/n in stationarity."""
    square = over_chains(_squared_distance(stationary(i["samples"], i["width"])))
    size = math.sqrt(i["width"]) / i["samples"]
    root = math.sqrt(square.value)
    return Estimate(size * root, size * square.error / (2 * root), square.freedom, square.draws)


def _distance_exponent(i: Instance, rng: Rng) -> Estimate:
    squares = [over_chains(_squared_distance(stationary(i["samples"], d))) for d in i["widths"]]
    found = log_exponent(i["widths"], squares)
    return Estimate(found.value / 2, found.error / 2, found.freedom, found.draws)


STATIONARY = cases(*({"samples": n, "width": d} for n, d in ((2, 16), (2, 256), (4, 64), (4, 512), (8, 256), (8, 64))))


def claims(s: Source) -> tuple[Claim, ...]:
    """The claims of a paper."""
    return (*_stationary(s), *_vanilla(s), *_pairs(s), *_depth(s), *_width(s), *_independence(s))


def _stationary(s: Source) -> tuple[Claim, ...]:
    power = 1 if s.paper == "003" else 2
    return (
        *s.asymptotic(
            "intro:width",
            at_most(Sampled(_scaled_gap), 1.0),
            {"chains": STATIONARY},
            counts=(6, 6),
        ),
        *s.asymptotic(
            "intro:gaussian",
            at_most(Sampled(_scaled_distance(power)), 1.0),
            {"chains": STATIONARY},
            counts=(6, 6),
        ),
        *s.asymptotic(
            "table",
            at_most(Sampled(_distance_exponent), -0.25),
            {"widths": cases({"samples": 4, "widths": [32, 128, 512]}, {"samples": 2, "widths": [16, 64, 256]})},
            counts=(2, 2),
            resolution=0.3,
        ),
        *s.asymptotic(
            "table:text",
            at_most(Sampled(_radius), 1.0),
            {"chains": STATIONARY},
            counts=(6, 6),
        ),
    )


def _vanilla(s: Source) -> tuple[Claim, ...]:
    return (
        *s.asymptotic(
            "vanilla:gap",
            above(Sampled(_fall("vanilla", (2, 60))), 0.0),
            {"nets": cases({"width": 16, "samples": 4, "chains": 60, "start": "orthogonal"})},
            counts=(1, 1),
            resolution=0.25,
        ),
        *(
            s.deterministic("vanilla:rank-one", equal(_rank_of_product, 1), {"nets": _products})
            if s.paper == "001"  # the thesis says that the rank converges, not the matrix
            else ()
        ),
        *s.asymptotic(
            "vanilla:rank-one" if s.paper == "003" else "vanilla:rank-one#corrected",
            at_most(Sampled(_from_rank_one), 1e-3),
            {
                "nets": cases(
                    {"width": 8, "samples": 4, "layers": 600, "chains": 20},
                    {"width": 16, "samples": 16, "layers": 1200, "chains": 12},
                )
            },
            counts=(1, 2),
            resolution=0.1,
        ),
        *s.empirical(
            "slowdown:gap",
            below(
                Sampled(_fall("relu", (15, 75)), _dense_fall, "weights written out, a new batch for every network"), 0.0
            ),
            {"nets": cases({"width": 200, "samples": 32, "chains": 40, "start": "aligned"})},
            counts=(1, 1),
        ),
        *s.empirical(
            "slowdown:gap#corrected",
            above(Sampled(_fall("relu", (15, 75))), 0.0),
            {"nets": cases({"width": 200, "samples": 32, "chains": 40, "start": "aligned"})},
            counts=(1, 1),
            resolution=0.5,
        ),
    )


def _pairs(s: Source) -> tuple[Claim, ...]:
    return (
        *s.empirical(
            "cosines:bn",
            below(Sampled(_cosine(False, (50,))), 0.25),
            {"runs": COSINES},
            counts=(1, 1),
            resolution=0.3,
        ),
        *s.empirical(
            "cosines:vanilla",
            above(Sampled(_cosine(True, (1, 50))), 0.0),
            {"runs": COSINES},
            counts=(1, 1),
            resolution=0.25,
        ),
    )


def _depth(s: Source) -> tuple[Claim, ...]:
    return (
        *s.empirical(
            "depth-figure:linear",
            below(Sampled(_straightness), 0.0),
            {"widths": DEPTHS},
            counts=(1, 2),
            resolution=0.5,
        ),
        *s.empirical(
            "exponential",
            equal(Sampled(_steady_fall), 1.0),
            {"widths": cases({"width": 512, "chains": 800})},
            counts=(1, 1),
            tolerance=0.15,
            resolution=0.3,
        ),
        *s.empirical(
            "depth-figure:constant",
            vanishes(Sampled(_settled)),
            {"widths": DEPTHS},
            counts=(1, 2),
            resolution=0.25,
        ),
    )


def _width(s: Source) -> tuple[Claim, ...]:
    printed = s.paper == "003"
    return (
        *s.empirical(
            "width-figure:slope",
            equal(
                Sampled(_width_slope(1, 500) if printed else _width_slope(100, 600)),
                lambda i: -0.46 if printed else -0.5,
            ),
            {"widths": SLOPES},
            tolerance=0.01 if printed else 0.02,
            resolution=0.15,
            counts=(1, 1),
        ),
        *s.empirical(
            "width-claim",
            equal(Sampled(_width_slope(100, 600)), -0.5),
            {"widths": SLOPES},
            tolerance=0.02,
            resolution=0.15,
            counts=(1, 1),
        ),
    )


def _independence(s: Source) -> tuple[Claim, ...]:
    return (
        *s.probability(
            "independence:rank",
            above(Sampled(least_ratio), 0.1),
            {"squares": SQUARES},
            counts=(2, 3),
            resolution=0.5,
        ),
        *s.probability(
            "independence:infinite-depth",
            equal(lambda i: survival_bound(i["width"], i["alpha"], i["layers"]), 1),
            {"pairs": _survivals},
        ),
        *s.probability(
            "independence:infinite-depth#corrected",
            at_least(Sampled(least_ratio), 0.1),
            {"squares": SQUARES},
            counts=(2, 3),
            resolution=0.5,
        ),
    )
