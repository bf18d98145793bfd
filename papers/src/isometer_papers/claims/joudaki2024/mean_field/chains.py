"""Networks of finite width, and the chain of two samples, for the claims of chapter 3 and Appendix B."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from isometer.run import seed_of
from isometer.theory.batch_norm import batch_norm_fixed_point, gram_fluctuations
from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Family, Rng, cases
from isometer_papers.claims._precise import mpmath
from isometer_papers.claims._statements import Sampled
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.mean_field.two_samples import image_statistic

CROSSING = math.sqrt(2 * math.log(2))  # where the densities of N(0, 1) and N(0, 2) are equal


DRAWS = 400_000


SEVERAL = "samples that are equal in the input stay equal, so that there are several invariant laws"


@lru_cache(maxsize=64)
def distances(phi: str, n: int, width: int, depth: int, runs: int, start: str = "gaussian", bn: bool = True) -> Any:
    """‖G_ℓ − G*‖_F of independent networks, (runs, depth + 1); without batch norm φ is the identity and G* = G_0."""
    import torch

    from isometer.simulate import simulate
    from isometer.spec import Spec, recurrence

    seed = seed_of(f"001 distances {phi} {n} {width} {depth} {runs} {start} {bn}") & 0x7FFFFFFF
    rng = np.random.default_rng(seed)
    batch = rng.standard_normal((n, width))
    if start == "twins":  # two groups of nearly equal samples
        batch = batch[np.arange(n) % 2] + 0.05 * rng.standard_normal((n, width))
    function = {"relu": torch.relu, "tanh": torch.tanh, "identity": torch.clone}[phi]
    reference = batch_norm_fixed_point(phi, n).gram if bn else batch @ batch.T / width
    target = torch.as_tensor(reference)

    def distance(h: Numeric) -> Numeric:
        if bn:
            h = h - h.mean(-2, keepdim=True)
            h = function(h / (h * h).mean(-2, keepdim=True).sqrt())
        return torch.linalg.matrix_norm(h @ h.mT / h.shape[-1] - target)

    if bn:
        spec = recurrence("001/rec-3.1", width=width, depth=depth, activation=phi)
    else:
        spec = Spec(width=width, depth=depth, activation="identity")
    return np.asarray(simulate(spec, batch, runs=runs, metrics=[distance], seed=seed)["distance"].values)


def distances_of(i: Instance) -> Numeric:
    """The distances of an instance's networks."""
    return distances(i["phi"], i["n"], i["width"], i["depth"], i["runs"], i.get("start", "gaussian"), i.get("bn", True))


@lru_cache(maxsize=16)
def fluctuation(phi: str, n: int, width: int) -> float:
    """E‖G_ℓ − G*‖² of the linearised chain."""
    return gram_fluctuations(phi, n, width, samples=1 << 14).total


def equal_samples(rng: Rng, count: int) -> Iterator[Instance]:
    """Inputs with two equal samples, and the weights of three layers."""
    yield {"X": np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), "W": np.array([[[1.0, 0.5], [-0.5, 1.0]]]), "phi": "relu"}
    for _ in range(count):
        n, d = int(rng.integers(3, 6)), int(rng.integers(2, 5))
        x = rng.standard_normal((d, n))
        x[:, 1] = x[:, 0]
        yield {"X": x, "W": rng.standard_normal((1, d, d)), "phi": str(rng.choice(["tanh", "identity"]))}


def image_tv(width: int, rng: Rng) -> Estimate:
    """Lower bound of ‖T(μ̂) − μ̂‖ from the event |Σ s t|/√d > √(2 ln 2)."""
    before = np.abs(image_statistic(width, DRAWS, rng, False)) > CROSSING
    image = np.abs(image_statistic(width, DRAWS, rng, True)) > CROSSING
    return Estimate(
        float(image.mean() - before.mean()), math.sqrt((before.var() + image.var()) / DRAWS), DRAWS - 1, DRAWS
    )


def dense_tv(width: int, rng: Rng, draws: int = 800) -> Estimate:
    """The same event from matrices that go through a layer: ĥ with rows N(0, ½I), ReLU, h given its Gram matrix."""
    found = []
    for image in (False, True):
        hits = np.empty(draws)
        for k in range(draws):
            h = rng.standard_normal((width, 2))
            if image:
                share = float(np.mean(h[:, 0] > h[:, 1]))  # BN gives ±(1, −1), ReLU the first or the second unit vector
                h = rng.standard_normal((width, 2)) * np.sqrt([2 * share, 2 * (1 - share)])
            hits[k] = abs((h[:, 0] ** 2 - h[:, 1] ** 2).sum() / 2) / math.sqrt(width) > CROSSING
        found.append(hits)
    error = math.sqrt((found[0].var() + found[1].var()) / draws)
    return Estimate(float(found[1].mean() - found[0].mean()), error, draws - 1, draws)


def tv_exponent(i: Instance, rng: Rng, estimator: Callable[[int, Rng], Estimate] = image_tv) -> Estimate:
    """Lower bound of the exponent of ‖T(μ̂) − μ̂‖ between two widths: at the smaller one it is at most 1."""
    low, high = i["widths"]
    value = estimator(high, rng)
    span = math.log(high / low)
    return Estimate(math.log(value.value) / span, value.error / value.value / span, value.freedom, value.draws)


TV_EXPONENT = Sampled(
    tv_exponent,
    lambda i, rng: tv_exponent(i, rng, dense_tv),
    "dense matrices through a ReLU layer instead of the law of the statistic",
)


def exponent_between(i: Instance, bound: Callable[[int], float]) -> float:
    """Exponent of a bound between the two widths of an instance."""
    low, high = i["widths"]
    return math.log(bound(high) / bound(low)) / math.log(high / low)


def two_sample_networks(rng: Rng, count: int) -> Iterator[Instance]:
    """φ(1), φ(−1) and B of ReLU, a leaky ReLU and another; batches of three and more, which the assumption excludes."""
    for width in (20, 40, 100, 400):
        for high, low in ((1.0, 0.0), (1.0, -0.1), (1.0, 0.5)):
            yield {"n": 2, "width": width, "high": high, "low": low}
        for n in (3, 10):
            yield {"n": n, "width": width, "high": 1.0, "low": 0.0}


def unique(i: Instance) -> bool:
    """Whether the chain can have a single invariant law."""
    return bool(i["n"] == 2)


def why_several(i: Instance) -> str:
    """Why a batch of three or more has several invariant laws."""
    return f"n = {i['n']}: {SEVERAL}"


def precise_library(value: Any) -> Any:
    """`math` for floats, mpmath for its numbers."""
    return math if isinstance(value, float) else mpmath()


def mean_field_networks(*keys: dict[str, Any]) -> dict[str, Family]:
    """A family of networks."""
    return {"networks": cases(*keys)}
