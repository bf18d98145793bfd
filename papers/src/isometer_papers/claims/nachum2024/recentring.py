"""000, §III: one layer of recentring and ReLU with Gaussian weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from isometer.theory.batch_norm import gram_map
from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng, cases, drawn
from isometer_papers.claims._statements import Sampled, above, below, deterministic, empirical, equal, expectation
from isometer_papers.float_or_mpmath import Numeric
from isometer_papers.theory.odd_point.layer import cluster_centre, expected_product
from isometer_papers.theory.rank.relu import rectified

_pairs = drawn(lambda rng: {"X": rng.standard_normal((3, 3)), "draws": 200_000})


def _centred(i: Instance) -> Numeric:
    return i["X"] - i["X"].mean(axis=0)


def _product(i: Instance) -> float:
    x = _centred(i)
    return float(expected_product(x[0], x[1], 1.0))


def _lengths(i: Instance) -> float:
    x = _centred(i)
    return float(np.linalg.norm(x[0]) * np.linalg.norm(x[1]))


def _gaussian(i: Instance, rng: Rng) -> Estimate:
    x = _centred(i)
    w = rng.standard_normal((i["draws"], x.shape[1]))
    return Estimate.of(rectified(w @ x[0]) * rectified(w @ x[1]))


def _spherical(i: Instance, rng: Rng) -> Estimate:
    """d times the mean over the unit sphere."""
    x = _centred(i)
    w = rng.standard_normal((i["draws"], x.shape[1]))
    w *= np.sqrt(x.shape[1]) / np.linalg.norm(w, axis=1, keepdims=True)
    return Estimate.of(rectified(w @ x[0]) * rectified(w @ x[1]))


def _projections(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"X": np.array([[2.0], [0.0], [0.0]]), "w": np.array([1.0])}
    for _ in range(count):
        n, k = int(rng.integers(2, 8)), int(rng.integers(1, 5))
        yield {"X": rng.standard_normal((n, k)) + 2, "w": rng.standard_normal(k)}


def _sides(i: Instance) -> tuple[Numeric, Numeric]:
    """w ν − μ and w x_1 − μ."""
    z = i["X"] @ i["w"]
    mean = z.sum() / len(z)
    return cluster_centre(i["X"]) @ i["w"] - mean, z[0] - mean


def _apart(i: Instance) -> bool:
    return bool(abs(float(_sides(i)[0])) > 1e-9)


STEPS = cases({"n": 20, "k": 10, "R": 8.0, "draws": 200_000}, {"n": 8, "k": 3, "R": 6.0, "draws": 200_000})

TIGHT = cases({"n": 20, "k": 10, "R": 300.0, "draws": 200_000}, {"n": 8, "k": 3, "R": 60.0, "draws": 200_000})


def _zeroed(i: Instance, rng: Rng) -> tuple[Any, Any, Any]:
    """Sign of w ν − μ, cluster points mapped to zero, and spread after over before, per neuron."""
    n = i["n"]
    cluster = np.random.default_rng(100 * n + i["k"]).standard_normal((n - 1, i["k"]))
    cluster -= cluster.mean(axis=0)
    odd = i["R"] * np.eye(1, i["k"])
    x = np.concatenate([odd, cluster])
    z = x @ rng.standard_normal((i["k"], i["draws"]))
    z -= z.mean(axis=0)
    below = z[1:].mean(axis=0) < 0
    spread = rectified(z[1:]).std(axis=0) / z[1:].std(axis=0)
    return below, (z[1:] <= 0).sum(axis=0).astype(float), spread


def _share_zeroed(below: bool) -> Any:
    def estimate(i: Instance, rng: Rng) -> Estimate:
        side, zeros, _ = _zeroed(i, rng)
        return Estimate.of(zeros[side == below] / (i["n"] - 1))

    return estimate


def _share_again(i: Instance, rng: Rng) -> Estimate:
    """The share where w ν − μ > 0 from single vectors w, for another cluster."""
    x = rng.standard_normal((i["n"] - 1, i["k"]))
    x = np.concatenate([i["R"] * np.eye(1, i["k"]), x - x.mean(axis=0)])
    found = []
    for _ in range(3000):
        z = x @ rng.standard_normal(i["k"])
        z = z - z.mean()
        found.append(float((z[1:] * np.sign(z[1:].mean()) <= 0).mean()))
    return Estimate.of(found)


def _spread(i: Instance, rng: Rng) -> Estimate:
    side, _, spread = _zeroed(i, rng)
    return Estimate.of(spread[side])


def _difference(sign: int) -> Any:
    """Mean points mapped to zero where w ν − μ > 0 minus where it is below, x_1 included; times a sign."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        side, zeros, _ = _zeroed(i, rng)
        above, below = Estimate.of(zeros[~side] + 1), Estimate.of(zeros[side])
        error = float(np.hypot(above.error, below.error))
        return Estimate(sign * (above.value - below.value), error, above.freedom, above.draws)

    return estimate


def _difference_again(i: Instance, rng: Rng) -> Estimate:
    """The same from the pairs w, −w, which swap the two cases."""
    n = i["n"]
    x = np.concatenate([i["R"] * np.eye(1, i["k"]), rng.standard_normal((n - 1, i["k"]))])
    x[1:] -= x[1:].mean(axis=0)
    found = []
    for _ in range(1500):
        z = x @ rng.standard_normal(i["k"])
        z = z - z.mean()
        z = z if z[1:].mean() > 0 else -z
        found.append(float((z <= 0).sum() - (z >= 0).sum()))
    return Estimate.of(found)


CLAIMS = (
    expectation(
        "000/eq-8:closed-form",
        equal(Sampled(_gaussian), lambda i: float(gram_map(i["X"] @ i["X"].T, "relu", recenter=True)[0, 1])),
        {"random": _pairs},
        scale=_lengths,
        counts=(2, 6),
        resolution=0.03,
    ),
    expectation(
        "000/eq-8:sphere",
        equal(Sampled(_spherical), _product),
        {"random": _pairs},
        scale=_lengths,
        counts=(2, 6),
        resolution=0.03,
    ),
    deterministic(
        "000/intuition-3steps:signs",
        below(lambda i: _sides(i)[0] * _sides(i)[1], 0),
        {"random": _projections},
        hypotheses=_apart,
        scale=1,
        tolerance=1e-30,
    ),
    empirical(
        "000/intuition-3steps:many",
        above(Sampled(_share_zeroed(True)), 0.5),
        {"clusters": STEPS},
        counts=(2, 2),
        resolution=0.2,
    ),
    empirical(
        "000/intuition-3steps:few",
        below(Sampled(_share_zeroed(False), _share_again, "single vectors w, another cluster"), 0.25),
        {"clusters": STEPS},
        counts=(2, 2),
        resolution=0.2,
    ),
    empirical(
        "000/intuition-3steps:few#corrected",
        below(Sampled(_share_zeroed(False)), 0.25),
        {"tight": TIGHT},
        counts=(2, 2),
        resolution=0.2,
    ),
    empirical(
        "000/intuition-3steps:tighter", below(Sampled(_spread), 1.0), {"clusters": STEPS}, counts=(2, 2), resolution=0.2
    ),
    empirical(
        "000/intuition-3steps:effect",
        above(Sampled(_difference(1), _difference_again, "pairs w, −w, another cluster"), 0.0),
        {"clusters": STEPS},
        counts=(2, 2),
        resolution=0.2,
    ),
    empirical(
        "000/intuition-3steps:effect#corrected",
        above(Sampled(_difference(-1)), 0.0),
        {"clusters": STEPS},
        counts=(2, 2),
        resolution=0.2,
    ),
)
