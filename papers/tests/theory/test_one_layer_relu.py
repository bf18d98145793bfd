"""One-layer ReLU kernels (paper 004) against Fourier series and sampling."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isometer.errors import IsometerError
from isometer.theory import kernel_matrix
from isometer_papers.theory.duals.one_layer_relu import (
    circle_spectrum,
    good_event_bound,
    good_event_probability,
    hermite_parities,
    one_layer_smallest_bound,
    one_layer_width,
)
from support.batches import sphere

# --- one layer of ReLU ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 7, 21])
def test_circle_spectrum_folds_the_fourier_series(n: int) -> None:
    def coefficient(k: int) -> float:
        if abs(k) == 1:
            return 1 / 8
        return 2 / (math.pi * (k * k - 1)) ** 2 if k % 2 == 0 else 0.0

    folded = sorted(n * math.fsum(coefficient(r + n * j) for j in range(-3000, 3001)) for r in range(n))
    np.testing.assert_allclose(circle_spectrum(n), folded, rtol=1e-9)
    angle = 2 * np.pi * np.arange(n) / n
    kernel = kernel_matrix("relu", np.stack([np.cos(angle), np.sin(angle)], axis=1), 1)
    np.testing.assert_allclose(kernel.eigenvalues * np.exp(kernel.log_diagonal[0]), folded, rtol=0, atol=1e-12)


def test_smallest_eigenvalue_scales_as_the_note_says() -> None:
    """λ_min ∝ δ^{3/2} on the circle, without a power of n: the theorem's bound is loose by 1e8 and more."""
    sizes = np.array([33, 65, 129])
    delta = 1 - np.cos(np.pi / sizes)
    low = np.array([circle_spectrum(int(n))[0] for n in sizes])
    scaled = low / delta**1.5
    assert np.ptp(scaled) < 0.08 * scaled[0]
    bounds = np.array([one_layer_smallest_bound(int(n), float(d)) for n, d in zip(sizes, delta, strict=True)])
    assert (low > 1e8 * bounds).all()
    width = one_layer_width(10, 0.1)
    assert width["theorem"] == pytest.approx(1e8 * math.log(100) * 1e3)
    with pytest.raises(IsometerError, match="odd"):
        circle_spectrum(6)


@pytest.mark.parametrize("n", [2, 5, 12])
def test_one_layer_gram_of_finite_width_obeys_the_bound(n: int) -> None:
    x = sphere(n, 4, seed=n)
    delta = 1 - float(np.max(np.abs(x @ x.T - np.eye(n))))
    features = np.maximum(x @ np.random.default_rng(0).standard_normal((4, 20_000)), 0) / math.sqrt(20_000)
    low = float(np.linalg.eigvalsh(features @ features.T)[0])
    limit = kernel_matrix("relu", x, 1)
    assert low >= one_layer_smallest_bound(n, delta)
    assert limit.smallest_eigenvalue * math.exp(limit.log_diagonal[0]) >= one_layer_smallest_bound(n, delta)


def test_good_event() -> None:
    """n = 2, orthogonal inputs: the two projections are independent, so the probability is a product of two erfs."""
    found, error = good_event_probability(np.eye(2))
    spread = math.sqrt(1 - (1 / 10) ** 2)
    expected = math.erf(1 / 20 / spread / math.sqrt(2)) * math.erfc(1 / 8 / math.sqrt(2))
    assert error < 0.002 * expected
    assert abs(found - expected) < 4.5 * error
    for x in (sphere(6, 3), sphere(20, 10), np.array([[1.0, 0.0], [0.999, math.sqrt(1 - 0.999**2)]])):
        delta = 1 - float(np.max(np.abs(x @ x.T - np.eye(len(x)))))
        for theta in (None, math.sqrt(delta) / (5 * len(x))):
            probability, spread = good_event_probability(x, theta=theta, draws=20_000)
            assert probability - 4.5 * spread > good_event_bound(len(x), delta)


def test_parities_of_hermite_coefficients() -> None:
    """004/thm-58 asks for infinitely many of both parities; relu and gelu have one odd coefficient, and work."""
    assert hermite_parities("relu")[1] == hermite_parities("gelu")[1] == 1
    assert hermite_parities("tanh")[0] == 0
    assert hermite_parities("square") == (2, 0)
    assert min(hermite_parities("elu")) > 10
    x = sphere(12, 3)
    for name in ("relu", "gelu", "tanh"):
        assert kernel_matrix(name, x, 1).smallest_eigenvalue > 0
    assert kernel_matrix("square", x, 1).smallest_eigenvalue == 0.0  # 12 points, 6 quadratic monomials
    antipodes = np.concatenate([x, -x])
    assert kernel_matrix("tanh", antipodes, 1).smallest_eigenvalue == 0.0
    assert kernel_matrix("relu", antipodes, 1).smallest_eigenvalue == 0.0
