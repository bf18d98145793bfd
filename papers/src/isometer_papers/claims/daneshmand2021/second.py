"""Second formulas for the results of paper 003 that fail, and of the thesis where it prints the same: plain NumPy and
SciPy, nothing of the theory that the claims use."""

from __future__ import annotations

import numpy as np
from scipy import integrate, stats

from isometer_papers.claims._claim import Instance, SecondFormula


def _shares(n: int, first: float, layers: int) -> np.ndarray:
    """The largest of the eigenvalues (λ, μ, …, μ) of trace 1 over layers of infinite width, by a Laplace integral."""
    found = [first]
    for _ in range(layers):
        large, small = found[-1], (1 - found[-1]) / (n - 1)

        def density(t: float, large: float = large, small: float = small) -> float:
            return float(large * (1 + 2 * t * large) ** -1.5 * (1 + 2 * t * small) ** (-(n - 1) / 2))

        # in pieces: the mass sits below n, the tail falls like a power
        found.append(
            sum(integrate.quad(density, low, high)[0] for low, high in ((0, n), (n, 40 * n), (40 * n, np.inf)))
        )
    return np.array(found)


def _decay(shares: np.ndarray, n: int, layers: int) -> float:
    """(1 − ⅔α)^ℓ, α the least singular value of layers 1 … ℓ."""
    least = np.minimum(shares, (1 - shares) / (n - 1))[1 : layers + 1].min() ** 0.5
    return float((1 - 2 / 3 * least) ** layers)


def _gap(i: Instance) -> tuple[float, float]:
    n, layers = i["n"], i["layers"]
    shares = _shares(n, float(i["first"]), layers + 1)
    last = np.r_[shares[-1], np.full(n - 1, (1 - shares[-1]) / (n - 1))]
    return float(np.linalg.norm(last - 1 / n)), 2 * _decay(shares, n, layers)


def _gaussian_distance(i: Instance) -> tuple[float, float]:
    n, layers = i["n"], i["layers"]
    shares = _shares(n, float(i["first"]), layers)
    last = np.r_[shares[-1], np.full(n - 1, (1 - shares[-1]) / (n - 1))]
    return float(((np.sqrt(last) - n**-0.5) ** 2).sum()), 4 * n * _decay(shares, n, layers)


def _survival(i: Instance) -> tuple[float, float]:
    """Upper confidence limit (1 − 1e-6) of the chance that σ_2 ≥ α up to layer 200, by simulation; 1 is claimed."""
    rng, runs, width = np.random.default_rng(0), 400, i["width"]
    state, alive = np.tile(np.eye(width)[:, :2], (runs, 1, 1)), np.ones(runs, dtype=bool)
    for _ in range(200):
        mixed = rng.standard_normal((runs, width, width)) @ state
        state = mixed / np.linalg.norm(mixed, axis=2, keepdims=True) / np.sqrt(width)
        alive &= np.linalg.svd(state, compute_uv=False)[:, -1] >= float(i["alpha"])
    count = int(alive.sum())
    return (1.0 if count == runs else float(stats.beta.isf(1e-6, count + 1, runs - count))), 1.0


def _slice_determinant(i: Instance) -> tuple[float, float]:
    """|1 − det²| of the slice, 0 for an orthogonal matrix."""
    frame = np.asarray(i["V"], dtype=float)
    return abs(1 - float(np.linalg.det(frame[: frame.shape[1]])) ** 2), 0.0


def _gap_of_singular_values(matrix: np.ndarray) -> float:
    squares = np.linalg.svd(matrix, compute_uv=False) ** 2
    padded = np.r_[squares / squares.sum(), np.zeros(matrix.shape[1] - len(squares))]
    return float(np.linalg.norm(padded - 1 / matrix.shape[1]))


def _sliced_gaps(i: Instance) -> tuple[float, float]:
    """Gaps of WH and of H = UΣVᵀ for a random U, from singular values of the matrices themselves."""
    frame, sigma = np.asarray(i["V"], dtype=float), np.asarray(i["sigma"], dtype=float)
    left = np.linalg.qr(np.random.default_rng(0).standard_normal((len(sigma), len(sigma))))[0]
    batch = left @ np.diag(sigma) @ frame.T
    weights = frame[: len(sigma)] @ np.diag(sigma**-0.5) @ left.T / np.sqrt(sigma.sum())
    return _gap_of_singular_values(weights @ batch), _gap_of_singular_values(batch)


LAPLACE = "Laplace integrals by quadrature instead of the hypergeometric function"
_BY_KEY = {
    "theorem": SecondFormula(_gap, LAPLACE),
    "corollary": SecondFormula(_gaussian_distance, LAPLACE),
    "infinite-depth": SecondFormula(_survival, "simulated layers, confidence 1 − 1e-6, instead of a bound of the law"),
    "slice": SecondFormula(_slice_determinant, "the determinant of the slice"),
    "gap": SecondFormula(_sliced_gaps, "singular values of matrices with a random U"),
}


def named(**identifiers: str) -> dict[str, SecondFormula]:
    """The formulas by the IDs of a paper; underscores in the names stand for hyphens."""
    return {identifier: _BY_KEY[key.replace("_", "-")] for key, identifier in identifiers.items()}


SECOND = named(
    theorem="003/thm-1",
    corollary="003/cor-3",
    infinite_depth="003/claim-rank-preserved:infinite-depth",
    slice="003/alg-iter-mlp:slice",
    gap="003/alg-iter-mlp:gap",
)
