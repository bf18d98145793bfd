"""002: sentences of §3.4 and lines of §7 that no numbered statement has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from isometer_papers.claims._claim import Estimate, Instance
from isometer_papers.claims._families import Rng, cases
from isometer_papers.claims._precise import eigenvalues
from isometer_papers.claims._statements import Sampled, above, asymptotic, deterministic, equal, vanishes
from isometer_papers.float_or_mpmath import Numeric

EDGE = 3**0.5

# --- products with a skip, §3.4 ------------------------------------------------------------


def _products(width: int, gamma: float, layers: int, rng: Rng) -> Iterator[Numeric]:
    """B_ℓ/‖B_ℓ‖_F, layer by layer."""
    state = np.eye(width)
    for _ in range(layers):
        state = state + gamma * rng.uniform(-EDGE, EDGE, (width, width)) @ state
        state = state / np.linalg.norm(state)
        yield state


def _moves(i: Instance, rng: Rng) -> Estimate:
    """Mean ‖H̃_{k+1} − H̃_k‖_F late in the chain, up to sign, X = I."""
    found = []
    for _ in range(12):
        states = list(_products(i["width"], i["gamma"], i["layers"], rng))[-100:]
        steps = [min(np.linalg.norm(b - a), np.linalg.norm(b + a)) for a, b in pairwise(states)]
        found.append(float(np.mean(steps)))
    return Estimate.of(found)


def _turns(i: Instance, rng: Rng) -> Estimate:
    """The same from the leading left singular vectors, which have to settle if the matrices do; X = I."""
    found = []
    for _ in range(12):
        states = list(_products(i["width"], i["gamma"], i["layers"], rng))[-50:]
        vectors = [np.linalg.svd(one)[0][:, 0] for one in states]
        sines = [max(0.0, 1 - float(a @ b) ** 2) ** 0.5 for a, b in pairwise(vectors)]
        found.append(float(np.mean(sines)))
    return Estimate.of(found)


NETS = cases({"width": 8, "gamma": 0.5, "layers": 600}, {"width": 16, "gamma": 0.9, "layers": 600})


def _kept_rank(i: Instance, rng: Rng) -> Estimate:
    """r(H_L)/d with γ = 1/L, X = I; 200 networks."""
    d, layers = i["width"], i["layers"]
    state = np.broadcast_to(np.eye(d), (200, d, d))
    for _ in range(layers):
        state = state + rng.uniform(-EDGE, EDGE, (200, d, d)) @ state / layers
    squares = np.linalg.svd(state, compute_uv=False) ** 2
    return Estimate.of(squares.sum(-1) ** 2 / (squares**2).sum(-1) / d)


# --- Lemma 1 and Example 16 ------------------------------------------------------------


def _square_matrices(rng: Rng, count: int) -> Iterator[Instance]:
    yield {"H": np.array([[2.0, 1.0], [1.0, 3.0]])}
    for _ in range(count):
        a = rng.standard_normal((3, 3))
        yield {"H": a + a.T}


def _scaling_gap(i: Instance, of_moments: bool) -> Numeric:
    """Largest difference between σ_i²/N and the sorted eigenvalues of H, or of M(H); symmetric H, σ_i = |λ_i|."""
    h, n = i["H"], i["H"].shape[0]
    squares = np.array(sorted(value**2 / n for value in eigenvalues(h)), dtype=h.dtype)
    compared = eigenvalues(h @ h.T / n) if of_moments else eigenvalues(h)
    return abs(squares - compared).max()


def _spectra(rng: Rng, count: int) -> Iterator[Instance]:
    """Eigenvalues of M with sum d."""
    yield {"lambda": np.array([1.5, 1.0, 0.5])}
    for _ in range(count):
        values = rng.gamma(1.0, size=int(rng.integers(2, 7)))
        yield {"lambda": values * len(values) / values.sum()}


def _trace_of_cube(values: Numeric) -> Numeric:
    """Tr M³ of M = U diag(λ) Uᵀ, U a reflection, from the entries of M."""
    n, one = len(values), values[0] * 0 + 1
    reflection = np.array([[(j == k) * one - 2 * one / n for k in range(n)] for j in range(n)])
    m = (reflection * values) @ reflection.T
    return np.trace(m @ m @ m)


CLAIMS = (
    asymptotic(
        "002/lem-4:sequence",
        vanishes(Sampled(_moves, _turns, "leading singular vectors instead of matrices, other weights")),
        {"products": NETS},
        counts=(2, 2),
        resolution=0.05,
    ),
    asymptotic(
        "002/lem-4:down-scaling",
        above(Sampled(_kept_rank), 0.25),
        {"products": cases(*({"width": d, "layers": n} for d, n in ((8, 20), (8, 500), (16, 100), (16, 1000))))},
        counts=(4, 4),
        resolution=0.2,
    ),
    deterministic("002/lem-1:eigenvalues", vanishes(lambda i: _scaling_gap(i, False)), {"square": _square_matrices}),
    deterministic(
        "002/lem-1:eigenvalues#corrected", vanishes(lambda i: _scaling_gap(i, True)), {"square": _square_matrices}
    ),
    deterministic(
        "002/ex-16:eq-87",
        equal(lambda i: (i["lambda"] ** 3).sum(), lambda i: ((i["lambda"] ** 2).sum() ** 0.5) ** 3),
        {"spectra": _spectra},
    ),
    deterministic(
        "002/ex-16:eq-87#corrected",
        equal(lambda i: _trace_of_cube(i["lambda"]), lambda i: (i["lambda"] ** 3).sum()),
        {"spectra": _spectra},
    ),
)
