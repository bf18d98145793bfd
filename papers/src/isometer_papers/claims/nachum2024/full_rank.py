"""000, §I: how many neurons make the rank full, Theorem 3 and Corollary 4."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Estimate, Instance, Search
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import numerical_rank
from isometer_papers.claims._statements import (
    Sampled,
    at_least,
    at_most,
    deterministic,
    equal,
    expectation,
    probability,
)
from isometer_papers.claims.nachum2024.instances import collinear, fan, proportion
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.rank.relu import (
    circle_batch,
    expected_neurons_bound,
    full_rank_exponent,
    full_rank_exponent_simple,
    image_points,
    least_cell_volume,
    neurons_until_full_rank,
    sampled_least_cell_volume,
)


def counts_of_neurons(i: Instance, rng: Rng, *, recenter: bool = False) -> Numeric:
    """Draws of y, cut off far beyond the bound."""
    limit = min(20_000, math.ceil(20 * i["n/gamma"]))
    return np.array(
        [neurons_until_full_rank(i["X"], rng=rng, limit=limit, recenter=recenter) for _ in range(i["draws"])], float
    )


def with_gamma(x: Numeric, draws: int, *, centred: bool = False) -> dict[str, Any]:
    """A batch with its n/γ."""
    inner = x - x.mean(axis=0) if centred else x
    kept = inner[np.linalg.norm(inner, axis=1) > 1e-12]  # a sample at the mean has no hyperplane
    if kept.shape[1] == 2:
        gamma = float(least_cell_volume(kept))
    else:
        gamma = sampled_least_cell_volume(kept, draws=100_000, rng=np.random.default_rng(0))
    return {"X": x, "n/gamma": float(expected_neurons_bound(len(x), gamma)), "draws": draws}


def _neurons(rng: Rng, count: int) -> Iterator[Instance]:
    made = 0
    for x in (circle_batch(3), fan(2, 0.3), circle_batch(5), fan(4, 0.1), circle_batch(9), fan(5, 0.03)):
        if made < count:
            made += 1
            yield with_gamma(x, 100)
    while made < count:
        made += 1
        k = int(rng.integers(2, 4))
        yield with_gamma(rng.standard_normal((int(rng.integers(2, 7)), k)), 100)


def _tails(rng: Rng, count: int) -> Iterator[Instance]:
    """Few samples and α near 2: the bound is far enough from 1 to be tested."""
    shapes = [circle_batch(3), fan(2, 0.3), fan(3, 0.1), fan(2, 1.5)]
    shapes += [rng.standard_normal((int(rng.integers(2, 4)), 2)) for _ in range(count)]
    for x in shapes[:count]:
        instance = with_gamma(x, 800)
        d = math.ceil(float(rng.uniform(2.05, 2.3)) * instance["n/gamma"])
        yield {**instance, "d": d, "alpha": d / instance["n/gamma"]}


def _full_rank_share(i: Instance, rng: Rng, *, recenter: bool = False) -> Estimate:
    counts = [
        neurons_until_full_rank(i["X"], rng=rng, limit=i["d"] + 1, recenter=recenter) <= i["d"]
        for _ in range(i["draws"])
    ]
    return proportion(sum(counts), len(counts))


def _gamma(i: Instance) -> Numeric:
    return len(i["X"]) / i["n/gamma"]


def _strong(i: Instance) -> float:
    return 1 - math.exp(-len(i["X"]) * full_rank_exponent(i["alpha"], _gamma(i)))


def _weak(i: Instance) -> float:
    return 1 - math.exp(-len(i["X"]) * full_rank_exponent_simple(i["alpha"]))


def _single(rng: Rng, count: int) -> Iterator[Instance]:
    """One sample: γ = ½, y is geometric."""
    for d in range(5, 5 + min(count, 12)):
        yield {"X": np.ones((1, 1)), "n/gamma": 2.0, "d": d, "alpha": d / 2, "draws": 0}


def _share(i: Instance, rng: Rng) -> Estimate:
    if len(i["X"]) == 1:
        return Estimate(1 - 0.5 ** i["d"], 0.0)
    return _full_rank_share(i, rng)


def _exponents(rng: Rng, count: int) -> Iterator[Instance]:
    for alpha in (2.0, 3.0, 10.0):
        yield {"alpha": alpha, "gamma": 0.5}
    for _ in range(count):
        yield {"alpha": float(rng.uniform(1.01, 20)), "gamma": float(10 ** -rng.uniform(0.31, 4))}


BOX = Search(lambda p: {"alpha": 1.01 + 19 * float(p[0]), "gamma": 1e-3 + 0.499 * float(p[1])}, 2)


def _normalized_cases(rng: Rng, count: int) -> Iterator[Instance]:
    yield with_gamma(np.array([[1.0, 1.0], [2.0, 1.0], [-3.0, 1.0]]), 40, centred=True)  # centred: on one line
    yield with_gamma(np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]), 40, centred=True)  # one sample is the mean
    for _ in range(count - 2):
        yield with_gamma(rng.standard_normal((int(rng.integers(3, 7)), 2)) + 1, 60, centred=True)


def _normalized_tails(rng: Rng, count: int) -> Iterator[Instance]:
    for instance in _normalized_cases(rng, 2):
        d = math.ceil(2.5 * instance["n/gamma"])
        yield {**instance, "d": d, "alpha": d / instance["n/gamma"]}
    for _ in range(count - 2):
        instance = with_gamma(rng.standard_normal((3, 2)) + 1, 800, centred=True)
        d = math.ceil(2.1 * instance["n/gamma"])
        yield {**instance, "d": d, "alpha": d / instance["n/gamma"]}


def _centred_apart(i: Instance) -> bool:
    return not collinear(i["X"] - i["X"].mean(axis=0))


def _dense_ranks(i: Instance, rng: Rng, rows: int) -> list[bool]:
    """Whether BN and ReLU of many neurons at once have full rank, by singular values."""
    found = []
    for _ in range(i["draws"]):
        z = i["X"] @ rng.standard_normal((i["X"].shape[1], rows))
        z = (z - z.mean(axis=0)) / z.std(axis=0)
        found.append(numerical_rank(np.maximum(z, 0)) == len(z))
    return found


def _least_neurons(i: Instance, rng: Rng) -> Estimate:
    """A lower bound of y: 10 n/γ where so many neurons are not enough, else n."""
    rows = math.ceil(10 * i["n/gamma"])
    return Estimate.of([float(len(i["X"]) if full else rows) for full in _dense_ranks(i, rng, rows)])


def _dense_share(i: Instance, rng: Rng) -> Estimate:
    full = _dense_ranks(i, rng, i["d"])
    return proportion(sum(full), len(full))


_zero = cases(  # one sample, at zero: no two columns are collinear, and the one cell has volume 1
    {"X": np.zeros((1, 2)), "n/gamma": 1.0, "draws": 400, "d": 3, "alpha": 3.0},
    {"X": np.zeros((1, 3)), "n/gamma": 1.0, "draws": 400, "d": 5, "alpha": 5.0},
)


def _plain_ranks(i: Instance, rng: Rng, rows: int) -> list[bool]:
    """Whether ReLU of many neurons at once has full rank, by singular values."""
    found = []
    for _ in range(i["draws"]):
        z = np.asarray(i["X"], dtype=float) @ rng.standard_normal((i["X"].shape[1], rows))
        found.append(numerical_rank(np.maximum(z, 0)) == len(z))
    return found


def _least_plain_neurons(i: Instance, rng: Rng) -> Estimate:
    """A lower bound of y: 10 n/γ where so many neurons are not enough, else n."""
    rows = math.ceil(10 * i["n/gamma"])
    return Estimate.of([float(len(i["X"]) if full else rows) for full in _plain_ranks(i, rng, rows)])


def _plain_share(i: Instance, rng: Rng) -> Estimate:
    full = _plain_ranks(i, rng, i["d"])
    return proportion(sum(full), len(full))


def _wide(rng: Rng, count: int) -> Iterator[Instance]:
    for _ in range(count):
        w = rng.standard_normal((int(rng.integers(1, 9)), 2))
        if not collinear(w):
            yield {"W": w}


CLAIMS = (
    expectation(
        "000/thm-3.1",
        at_most(
            Sampled(
                lambda i, rng: Estimate.of(counts_of_neurons(i, rng)),
                _least_plain_neurons,
                "all neurons at once, rank by singular values",
            ),
            lambda i: i["n/gamma"],
        ),
        {"zero": _zero},
        counts=(2, 2),
    ),
    expectation(
        "000/thm-3.1#corrected",
        at_most(Sampled(lambda i, rng: Estimate.of(counts_of_neurons(i, rng))), lambda i: i["n/gamma"]),
        {"batches": _neurons},
        counts=(8, 30),
        resolution=0.2,
    ),
    probability(
        "000/thm-3.2a",
        at_least(Sampled(_share), _strong),
        {"single": _single, "batches": _tails},
        counts=(6, 24),
        resolution=0.1,
    ),
    probability(
        "000/thm-3.2b",
        at_least(Sampled(_full_rank_share, _plain_share, "all neurons at once, rank by singular values"), _weak),
        {"zero": _zero},
        counts=(2, 2),
    ),
    probability(
        "000/thm-3.2b#corrected",
        at_least(Sampled(_share), _weak),
        {"single": _single, "batches": _tails},
        counts=(6, 24),
        resolution=0.1,
    ),
    deterministic(
        "000/thm-3.2b:weaker",
        at_least(lambda i: full_rank_exponent(i["alpha"], i["gamma"]), lambda i: full_rank_exponent_simple(i["alpha"])),
        {"random": _exponents},
        search=BOX,
    ),
    expectation(
        "000/cor-4:item-1",
        at_most(
            Sampled(
                lambda i, rng: Estimate.of(counts_of_neurons(i, rng, recenter=True)),
                _least_neurons,
                "all neurons at once, with the rescaling, rank by singular values",
            ),
            lambda i: i["n/gamma"],
        ),
        {"batches": _normalized_cases},
        hypotheses=lambda i: not collinear(i["X"]),
        counts=(6, 20),
        resolution=0.1,
    ),
    expectation(
        "000/cor-4:item-1#corrected",
        at_most(Sampled(lambda i, rng: Estimate.of(counts_of_neurons(i, rng, recenter=True))), lambda i: i["n/gamma"]),
        {"batches": _normalized_cases},
        hypotheses=_centred_apart,
        counts=(8, 30),
        resolution=0.1,
    ),
    probability(
        "000/cor-4:item-2",
        at_least(
            Sampled(
                lambda i, rng: _full_rank_share(i, rng, recenter=True),
                _dense_share,
                "all neurons at once, with the rescaling, rank by singular values",
            ),
            _weak,
        ),
        {"batches": _normalized_tails},
        hypotheses=lambda i: not collinear(i["X"]),
        counts=(6, 20),
        resolution=0.1,
    ),
    probability(
        "000/cor-4:item-2#corrected",
        at_least(Sampled(lambda i, rng: _full_rank_share(i, rng, recenter=True)), _strong),
        {"batches": _normalized_tails},
        hypotheses=_centred_apart,
        counts=(8, 30),
        resolution=0.1,
    ),
    deterministic(
        "000/cmp-dittmer",
        equal(lambda i: numerical_rank(image_points(i["W"])), lambda i: len(i["W"])),
        {"random": _wide, "circle": cases(*({"W": circle_batch(d)} for d in (1, 3, 5, 7)))},
        hypotheses=lambda i: not collinear(i["W"]),
        counts=(40, 300),
    ),
)
