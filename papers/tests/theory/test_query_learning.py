"""Statistical queries (paper 004): subgaussian norms, and cosines that fall to their floor."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isometer import activation
from isometer.errors import IsometerError
from isometer_papers.theory.kernel_learning.queries import (
    cosine_floor,
    subgaussian_norm,
)

# --- statistical queries ----------------------------------------------------------------------------------------------


def test_subgaussian_norms() -> None:
    """Ends and closed forms: sign has log cosh t ≤ t²/2; ReLU's is its slope; identity is Gaussian itself."""
    assert subgaussian_norm("sign") == pytest.approx(1.0, abs=1e-9)
    assert subgaussian_norm("identity") == pytest.approx(1.0, abs=1e-9)
    assert subgaussian_norm("unit(tanh)") == pytest.approx(1.0, abs=1e-9)
    slope = 1 / math.sqrt(0.5 - 1 / (2 * math.pi))
    assert subgaussian_norm("normalized(relu)") == pytest.approx(slope, rel=1e-6)
    for name in ("normalized(exp)", "normalized(square)", "unit(cube)"):
        assert subgaussian_norm(name) == math.inf
    # skewed and bounded: the supremum lies inside; against a plain sum over two values
    p = 0.9  # 1{x > −1.2816} has mean 0.9
    t = np.linspace(-30, 30, 200_001)
    t = t[np.abs(t) > 1e-3]
    spread = math.sqrt(p * (1 - p))
    two = np.logaddexp(math.log(p) + t * (1 - p) / spread, math.log(1 - p) - t * p / spread) * 2 / t**2
    assert subgaussian_norm("normalized(step(x + 1.2815515655446004))") == pytest.approx(math.sqrt(two.max()), rel=1e-6)
    with pytest.raises(IsometerError, match="E σ = 0"):
        subgaussian_norm("relu")


def normalised_cosines(name: str, width: int, depth: int, runs: int, start: float, seed: int = 0) -> np.ndarray:
    """Cosines of two inputs in unit-normalised networks, exact in law: each layer sees the pair through ρ only."""
    phi, rng, rho = activation(name), np.random.default_rng(seed), np.full(runs, start)
    out = np.empty((depth, runs))
    for layer in range(depth):
        first, other = rng.standard_normal((2, runs, width))
        u, v = phi(first), phi(rho[:, None] * first + np.sqrt(1 - rho[:, None] ** 2) * other)
        rho = (u * v).sum(axis=1) / np.sqrt((u * u).sum(axis=1) * (v * v).sum(axis=1))
        out[layer] = rho
    return out


def test_mean_cosine_stops_falling() -> None:
    """004/thm-52 for normalised ReLU: the mean cosine rests at a floor of order 1/m, whatever the depth.

    Width 64, 3000 networks: at depths 25 and 50 the means are 25 standard errors above zero, equal within 4.5 of them,
    and within 45 % of the leading order (terms of relative order 1/m·const are left); e^{−Ω(h)} would have them differ
    by orders of magnitude.
    """
    found = normalised_cosines("normalized(relu)", 64, 50, 3000, 0.5)
    error = found.std(axis=1) / math.sqrt(3000)
    floor = cosine_floor("normalized(relu)", 64)
    early, late = found[20:30].mean(), found[40:50].mean()
    spread = 4.5 * math.hypot(error[25], error[45])  # layers are correlated: no gain from averaging is claimed
    assert late > 8 * error[45]
    assert abs(early - late) < spread
    assert floor.mean < late < 1.45 * floor.mean
    assert 1.0 < (found[40:50] ** 2).mean() / floor.mean_square < 1.35


def test_odd_activations_have_no_floor() -> None:
    """sign, width 64: the mean falls below its standard error, the mean square rests at 1/(m(1 − a₁⁴))."""
    found = normalised_cosines("sign", 64, 30, 3000, 0.5)
    floor = cosine_floor("sign", 64)
    assert floor.mean == 0.0
    assert abs(found[-1].mean()) < 4.5 * found[-1].std() / math.sqrt(3000)
    assert (found[-10:] ** 2).mean() == pytest.approx(floor.mean_square, rel=0.1)
    assert floor.mean_square == pytest.approx(1 / (64 * (1 - (2 / math.pi) ** 2)))
