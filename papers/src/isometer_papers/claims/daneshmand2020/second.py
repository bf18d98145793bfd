"""Second formulas for the results of paper 002 that fail: plain NumPy, nothing of the theory that the claims use."""

from __future__ import annotations

import numpy as np

from isometer_papers.claims._claim import Instance, SecondFormula


def _largest_minor(matrix: np.ndarray) -> float:
    """The largest 2 × 2 minor: zero where all columns are multiples of one another."""
    products = np.einsum("ij,kl->ikjl", matrix, matrix)
    return float(abs(products - products.swapaxes(2, 3)).max())


def _rectified(i: Instance) -> np.ndarray:
    """max(H, 0) of H = u aᵀ, samples in columns."""
    return np.asarray(np.maximum(np.outer(i["u"], i["a"]).astype(float), 0.0))


SECOND = {
    "002/prop-8:relu": SecondFormula(
        lambda i: (_largest_minor(_rectified(i)), 0.0), "2 × 2 minors of max(H, 0) instead of projections"
    ),
    "002/prop-8:gradients-relu": SecondFormula(
        lambda i: (_largest_minor(_rectified(i) * np.asarray(i["cotangents"], dtype=float)), 0.0),
        "2 × 2 minors of the gradients instead of projections",
    ),
}
