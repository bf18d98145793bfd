"""Thesis, chapter 1 and §2.2: what is said about inputs, the assumption A₁, mixing, and depth without normalisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._fits import beyond_power_law
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import (
    Sampled,
    above,
    at_least,
    at_most,
    below,
    deterministic,
    empirical,
    equal,
    expectation,
    probability,
    vanishes,
)
from isometer_papers.claims.daneshmand2021.chains import path
from isometer_papers.claims.daneshmand2021.figures import SQUARES, dense_least_ratio, least_ratio
from isometer_papers.claims.daneshmand2021.networks import initial_gap
from isometer_papers.float_or_mpmath import Numeric, is_precise, library_of
from isometer_papers.simulate.orthogonality_steps import singular_value_gap
from isometer_papers.theory.isometry.gap_steps import batch_norm_rows
from isometer_papers.theory.orthogonality.spectrum_shares import two_level_chain


def _smallest(i: Instance) -> Numeric:
    """σ_min of H_0, `(n, d)` here."""
    if not is_precise(np.asarray(i["H"])):
        return float(np.linalg.svd(np.asarray(i["H"]), compute_uv=False)[-1])
    return max(eigenvalues(i["H"] @ i["H"].T)[0], 0) ** 0.5


def _edge(i: Instance) -> Numeric:
    n, d = i["H"].shape
    one = i["H"][0, 0] * 0 + 1
    return (one * d) ** 0.5 - (one * n) ** 0.5


def _signs(rng: Rng, count: int) -> Iterator[Instance]:
    """Entries ±1, equal chances: all equal, then random ones."""
    yield {"H": np.ones((2, 3))}
    for _ in range(count):
        n = int(rng.integers(1, 4))
        yield {"H": rng.choice([-1.0, 1.0], (n, int(rng.integers(n + 1, 9))))}


def _gaussian_smallest(i: Instance, rng: Rng) -> Estimate:
    draws = rng.standard_normal((2000, i["width"], i["samples"]))
    return Estimate.of(np.linalg.svd(draws, compute_uv=False)[:, -1])


EDGES = cases(*({"samples": n, "width": d} for n, d in ((1, 1), (2, 4), (2, 32), (4, 16), (8, 8), (8, 128))))


def _along(i: Instance, layer: int) -> Numeric:
    """φ(λ) = (λ − ½)(λ − c) of the first eigenvalue of two samples."""
    first = two_level_chain(2, i["first"], layer).first[layer]
    return abs((first - (first * 0 + 1) / 2) * (first - i["c"]))


def _lipschitz_bound(i: Instance) -> Numeric:
    """(x_0/4) 2^{−ℓ}, x_0 = log(λ_1/λ_2) of the input, times the Lipschitz constant of φ on [½, 1]."""
    library = library_of(i["first"])
    slope = max(abs(i["c"] - i["first"] * 0 - 0.5), abs(i["first"] * 0 + 1.5 - i["c"]))
    return slope * library.log(i["first"] / (1 - i["first"])) / 4 / 2 ** i["layers"]


def _mixing(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"first": 0.8, "c": 0.8, "layers": 1}
    for _ in range(min(count, 100)):
        first = float(rng.uniform(0.6, 0.99))
        yield {
            "first": first,
            "c": first if rng.integers(2) else float(rng.uniform(0.5, 1)),
            "layers": 1 + int(rng.integers(8)),
        }


CURVE = cases(
    {"samples": 40, "width": 120, "layers": 200, "runs": 8},
    {"samples": 36, "width": 80, "layers": 200, "runs": 8},
)


def _norm_slope(gain: float) -> Callable[[Instance, Rng], Estimate]:
    """Change per layer of the log-norm of a gradient that passes linear layers of weights N(0, gain²/d).

    It is that of the later layers, less what a power law through the earlier ones predicts.
    """

    def estimate(i: Instance, rng: Rng) -> Estimate:
        d, places, found = i["width"], (4, 12, 40), []
        for _ in range(40):
            vector = np.eye(d)[0]
            total, logs = 0.0, []
            for layer in range(1, places[-1] + 1):
                vector = gain * rng.standard_normal((d, d)).T @ vector / math.sqrt(d)
                size = float(np.linalg.norm(vector))
                # kept as a logarithm: norms of 40 layers grow or fall exponentially
                total += math.log(size)
                vector /= size
                if layer in places:
                    logs.append(total)
            found.append(float(beyond_power_law(places, logs)))
        return Estimate.of(found)

    return estimate


def _collapse(i: Instance, rng: Rng) -> Estimate:
    values = path("relu", i["width"], i["samples"], 75, i["chains"], "aligned")
    return Estimate.of(values[:, 75] - values[:, 0])


def _weights(rng: Rng, count: int) -> Iterator[Instance]:
    """a times a rotation plus b times a reflection, a > b ≥ 0: U Vᵀ is the rotation, the mean of σ is a."""
    yield {"a": 2.0, "b": 1.0, "c": 0.6, "s": 0.8}
    for _ in range(min(count, 50)):
        angle, a = float(rng.uniform(0, 6)), float(rng.uniform(0.2, 3))
        yield {"a": a, "b": a * float(rng.uniform(0, 0.9)), "c": math.cos(angle), "s": math.sin(angle)}


def _orthogonality(i: Instance, version: int) -> Numeric:
    """Largest entry of QQᵀ − I, Q = (mean σ) UVᵀ or UVᵀ."""
    if is_precise(i["a"]):
        polar = np.array([[i["c"], -i["s"]], [i["s"], i["c"]]], dtype=object)
        mean = i["a"]
    else:
        rotation = np.array([[i["c"], -i["s"]], [i["s"], i["c"]]])
        reflection = np.array([[i["c"], i["s"]], [i["s"], -i["c"]]])
        left, sigma, right = np.linalg.svd(i["a"] * rotation + i["b"] * reflection)
        polar, mean = left @ right, float(sigma.mean())
    matrix = mean * polar if version == 1 else polar
    return abs(matrix @ matrix.T - np.eye(2, dtype=int)).max()


def _aligned(i: Instance, rng: Rng) -> Estimate:
    """V at the last layer of a ReLU network with Haar weights minus V of the input."""
    found = []
    for _ in range(20):
        state = rng.standard_normal((i["width"], i["samples"]))
        first = float(singular_value_gap(state))
        for _layer in range(i["layers"]):
            q, r = np.linalg.qr(rng.standard_normal((i["width"], i["width"])))
            state = np.maximum((q * np.sign(np.diag(r))) @ state, 0.0)
            state /= np.linalg.norm(state)
        found.append(float(singular_value_gap(state)) - first)
    return Estimate.of(found)


def _two_rows(rng: Rng, count: int) -> Iterator[Instance]:
    """Two features, samples as columns."""
    yield {"X": np.array([[3.0, 4.0], [6.0, 8.0]])}
    yield {"X": np.array([[1.0, 0.0, 2.0], [2.0, 2.0, 1.0]])}
    for _ in range(count):
        yield {"X": rng.standard_normal((2, int(rng.integers(2, 6)))) * np.exp(rng.uniform(-2, 2, (2, 1)))}


def _row_sizes(i: Instance) -> Numeric:
    """Root mean squares of the features: standard deviations where no mean is subtracted."""
    return ((i["X"] * i["X"]).sum(axis=1) / i["X"].shape[1]) ** 0.5


def _diagonal_ratio(i: Instance) -> Numeric:
    """D_11/D_22 of the diagonal matrix that batch norm multiplies by, read off BN(X) and X."""
    factors = [max(abs(row)) / max(abs(raw)) for row, raw in zip(batch_norm_rows(i["X"], False), i["X"], strict=True)]
    return factors[0] / factors[1]


NETS = cases({"width": 32})
INTRODUCTION: tuple[Claim, ...] = (
    deterministic(
        "001/claim-1.diagonal",
        equal(_diagonal_ratio, lambda i: _row_sizes(i)[0] / _row_sizes(i)[1]),
        {"rows": _two_rows},
    ),
    deterministic(
        "001/claim-1.diagonal#corrected",
        equal(_diagonal_ratio, lambda i: _row_sizes(i)[1] / _row_sizes(i)[0]),
        {"rows": _two_rows},
    ),
    empirical(
        "001/claim-1.grad:vanishing",
        below(Sampled(_norm_slope(0.7)), 0.0),
        {"nets": NETS},
        counts=(1, 1),
        resolution=0.5,
    ),
    empirical(
        "001/claim-1.grad:exploding",
        above(Sampled(_norm_slope(1.5)), 0.0),
        {"nets": NETS},
        counts=(1, 1),
        resolution=0.5,
    ),
    empirical(
        "001/claim-1.rank",
        above(Sampled(_collapse), 0.0),
        {"nets": cases({"width": 200, "samples": 32, "chains": 40})},
        counts=(1, 1),
        resolution=0.5,
    ),
)
BASELINE: tuple[Claim, ...] = (
    deterministic("001/init-orthxavier", vanishes(lambda i: _orthogonality(i, 1)), {"weights": _weights}),
    deterministic("001/init-orthxavier#corrected", vanishes(lambda i: _orthogonality(i, 2)), {"weights": _weights}),
    empirical(
        "001/init-orthxavier:alignment",
        above(Sampled(_aligned), 0.0),
        {"nets": cases({"width": 32, "samples": 8, "layers": 40})},
        counts=(1, 1),
        resolution=0.5,
    ),
)
CLAIMS: tuple[Claim, ...] = (
    probability("001/claim-2.minsv", above(_smallest, _edge), {"signs": _signs}),
    expectation(
        "001/claim-2.minsv#corrected",
        above(Sampled(_gaussian_smallest), lambda i: math.sqrt(i["width"]) - math.sqrt(i["samples"])),
        {"shapes": EDGES},
        counts=(6, 6),
        resolution=0.2,
    ),
    expectation(
        "001/claim-2.drift", at_most(lambda i: _along(i, i["layers"]), lambda i: _along(i, 0)), {"functions": _mixing}
    ),
    expectation(
        "001/claim-2.drift#corrected",
        at_most(lambda i: _along(i, i["layers"]), _lipschitz_bound),
        {"functions": _mixing},
    ),
    empirical(
        "001/fig-2.3:squares", at_least(Sampled(least_ratio), 0.1), {"squares": SQUARES}, counts=(2, 3), resolution=0.5
    ),
    empirical(
        "001/fig-2.3:curve",
        at_least(Sampled(least_ratio, dense_least_ratio, "weights written out, other draws"), 0.1),
        {"curve": CURVE},
        counts=(2, 2),
    ),
    empirical(
        "001/fig-2.3:curve#corrected",
        at_least(Sampled(least_ratio), 0.1),
        {"squares": SQUARES},
        counts=(2, 3),
        resolution=0.5,
    ),
    empirical(
        "001/alg-2.6:deep",
        below(Sampled(initial_gap), 0.0),
        {"nets": cases({"width": 32, "layers": 20})},
        counts=(1, 1),
        resolution=0.2,
    ),
)
