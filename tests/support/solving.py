"""References for solvers, by rules of their own."""

from __future__ import annotations

import math

import numpy as np


def tanh_edge(bias_variance: float) -> float:
    """σ_w of the edge of chaos of tanh: q* and χ = 1 solved together by bisection, moments by Gauss–Hermite rules."""
    x, w = np.polynomial.hermite_e.hermegauss(200)
    w = w / w.sum()

    def chi_and_bias(q: float) -> tuple[float, float]:
        z = math.sqrt(q) * x
        sigma = 1.0 / float(w @ (1 - np.tanh(z) ** 2) ** 2)  # χ = 1
        return sigma, q - sigma * float(w @ np.tanh(z) ** 2)

    low, high = 1e-6, 10.0
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if chi_and_bias(middle)[1] < bias_variance else (low, middle)
    return math.sqrt(chi_and_bias(low)[0])
