"""Thesis, chapter 1 and §2.2: what is said about inputs, the assumption A₁, mixing, and depth without normalisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isometer_papers.claims._claim import Claim, Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import (
    Sampled,
    above,
    at_least,
    at_most,
    below,
    deterministic,
    empirical,
    expectation,
    probability,
    vanishes,
)
from isometer_papers.claims.daneshmand2021.chains import path
from isometer_papers.claims.daneshmand2021.figures import SQUARES, dense_least_ratio, least_ratio
from isometer_papers.simulate.orthogonality_steps import singular_value_gap
from isometer_papers.theory.orthogonality.spectrum_shares import two_level_chain


def _smallest(i: Instance) -> Any:
    """σ_min of H_0, `(n, d)` here."""
    if np.asarray(i["H"]).dtype != object:
        return float(np.linalg.svd(np.asarray(i["H"]), compute_uv=False)[-1])
    return max(eigenvalues(i["H"] @ i["H"].T)[0], 0) ** 0.5


def _edge(i: Instance) -> Any:
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


def _along(i: Instance, layer: int) -> Any:
    """φ(λ) = (λ − ½)(λ − c) of the first eigenvalue of two samples."""
    first = two_level_chain(2, i["first"], layer).first[layer]
    return abs((first - (first * 0 + 1) / 2) * (first - i["c"]))


def _lipschitz_bound(i: Instance) -> Any:
    """(x_0/4) 2^{−ℓ}, x_0 = log(λ_1/λ_2) of the input, times the Lipschitz constant of φ on [½, 1]."""
    library = getattr(i["first"], "context", math)
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
    """Change per layer of the log-norm of a gradient that passes linear layers of weights N(0, gain²/d)."""

    def estimate(i: Instance, rng: Rng) -> Estimate:
        d, layers, found = i["width"], 40, []
        for _ in range(40):
            vector = np.eye(d)[0]
            total = 0.0
            for _layer in range(layers):
                vector = gain * rng.standard_normal((d, d)).T @ vector / math.sqrt(d)
                size = float(np.linalg.norm(vector))
                # kept as a logarithm: norms of 40 layers grow or fall exponentially
                total += math.log(size)
                vector /= size
            found.append(total / layers)
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


def _orthogonality(i: Instance, version: int) -> Any:
    """Largest entry of QQᵀ − I, Q = (mean σ) UVᵀ or UVᵀ."""
    if hasattr(i["a"], "context"):
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


NETS = cases({"width": 32})
INTRODUCTION: tuple[Claim, ...] = (
    empirical(
        "001/claim-1.grad:vanishing",
        "§1.2.1",
        "gradients can become exponentially small with depth",
        below(Sampled(_norm_slope(0.7)), 0.0),
        {"nets": NETS},
        counts=(1, 1),
        resolution=1.0,
        scope="linear layers, weights N(0, 0.49/d), d = 32: log-norm per layer",
    ),
    empirical(
        "001/claim-1.grad:exploding",
        "§1.2.1",
        "gradients can grow with depth",
        above(Sampled(_norm_slope(1.5)), 0.0),
        {"nets": NETS},
        counts=(1, 1),
        resolution=1.0,
        scope="linear layers, weights N(0, 2.25/d), d = 32: log-norm per layer",
    ),
    empirical(
        "001/claim-1.rank",
        "§1.2.2",
        "outputs become increasingly correlated with depth under standard initialisation",
        above(Sampled(_collapse), 0.0),
        {"nets": cases({"width": 200, "samples": 32, "chains": 40})},
        counts=(1, 1),
        resolution=1.0,
        scope="gap V of a random ReLU network at layer 75 minus the input's",
    ),
)
BASELINE: tuple[Claim, ...] = (
    deterministic(
        "001/init-orthxavier",
        "A.5 (i)",
        "(mean σ) UVᵀ is an orthogonal matrix, for W = U diag(σ) Vᵀ",
        vanishes(lambda i: _orthogonality(i, 1)),
        {"weights": _weights},
        corrected="001/init-orthxavier#corrected",
        scope="2 × 2 weights a(c, −s; s, c) + b(c, s; s, −c), whose singular values are |a| + |b| and ||a| − |b||",
        remark="only if the mean of σ is 1",
    ),
    deterministic(
        "001/init-orthxavier#corrected",
        "A.5 (i)",
        "(mean σ) UVᵀ is an orthogonal matrix times the mean of σ",
        vanishes(lambda i: _orthogonality(i, 2)),
        {"weights": _weights},
    ),
    empirical(
        "001/init-orthxavier:alignment",
        "A.5 (i)",
        "ReLU networks with orthogonal weights align representations in deep layers",
        above(Sampled(_aligned), 0.0),
        {"nets": cases({"width": 32, "samples": 8, "layers": 40})},
        counts=(1, 1),
        resolution=1.0,
        scope="gap V after 40 layers of width 32 minus that of the Gaussian input",
    ),
)
CLAIMS: tuple[Claim, ...] = (
    probability(
        "001/claim-2.minsv",
        "§2.2.3",
        "for i.i.d. entries of mean 0 and variance 1 the minimum singular value of H_0 is greater than √d − √n",
        above(_smallest, _edge),
        {"signs": _signs},
        corrected="001/claim-2.minsv#corrected",
        scope="entries ±1",
        remark="two equal samples have σ_min = 0, with probability 2^{1−d}; in the mean it fails for sparse entries",
    ),
    expectation(
        "001/claim-2.minsv#corrected",
        "§2.2.3",
        "for Gaussian entries E σ_min(H_0) > √d − √n",
        above(Sampled(_gaussian_smallest), lambda i: math.sqrt(i["width"]) - math.sqrt(i["samples"])),
        {"shapes": EDGES},
        counts=(6, 6),
        resolution=0.2,
        remark="Gordon's inequality",
    ),
    expectation(
        "001/claim-2.drift",
        "§2.2.2",
        "|E φ(H_ℓ) − E_π φ| ≤ α^ℓ |E φ(H_0) − E_π φ| for measurable φ and some α ∈ (0, 1)",
        at_most(lambda i: _along(i, i["layers"]), lambda i: _along(i, 0)),
        {"functions": _mixing},
        corrected="001/claim-2.drift#corrected",
        scope="two samples, d → ∞, φ = (λ_1 − ½)(λ_1 − c), E_π φ = 0; the right side with α = 1",
        remark="φ(H_0) = E_π φ does not make φ(H_1) so; the cited theorem has a constant and a norm of φ in front",
    ),
    expectation(
        "001/claim-2.drift#corrected",
        "§2.2.2",
        "|φ(H_ℓ) − E_π φ| ≤ C ‖φ‖_Lip 2^{−ℓ} with C = log(λ_1/λ_2)/4 of the input",
        at_most(lambda i: _along(i, i["layers"]), _lipschitz_bound),
        {"functions": _mixing},
        scope="two samples, d → ∞, φ = (λ_1 − ½)(λ_1 − c)",
    ),
    empirical(
        "001/fig-2.3:squares",
        "Figure 2.3, §2.2.3",
        "A₁(0.1 α₀, 1000) holds for d = Ω(n²)",
        at_least(Sampled(least_ratio), 0.1),
        {"squares": SQUARES},
        counts=(2, 3),
        resolution=0.5,
        scope="mean over runs of min_k σ_n(H_k)/α₀, d = n², n = 4, 8, 16, Gaussian inputs",
    ),
    empirical(
        "001/fig-2.3:curve",
        "Figure 2.3",
        "A₁(0.1 α₀, 1000) holds for d above (n − 28)^{1.8}",
        at_least(Sampled(least_ratio, dense_least_ratio, "weights written out, other draws"), 0.1),
        {"curve": CURVE},
        counts=(2, 2),
        corrected="001/fig-2.3:curve#corrected",
        scope="n = 40, d = 120 and n = 36, d = 80, where the curve is at 88 and 42; 200 layers already",
        remark="below n = 28 the curve is not above 0, and A₁ fails at d = n. The law of the inputs is not given",
    ),
    empirical(
        "001/fig-2.3:curve#corrected",
        "Figure 2.3",
        "A₁(0.1 α₀, 1000) holds for d = n²",
        at_least(Sampled(least_ratio), 0.1),
        {"squares": SQUARES},
        counts=(2, 3),
        resolution=0.5,
        scope="mean over runs of min_k σ_n(H_k)/α₀, n = 4, 8, 16, Gaussian inputs",
    ),
)
