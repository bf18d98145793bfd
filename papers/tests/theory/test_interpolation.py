"""Interpolation with kernels (paper 004): separation, covariance spectra, risk and its bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from isometer import activation
from isometer.errors import IsometerError
from isometer.theory import kernel_matrix
from isometer.theory.kernels import SphereKernel
from isometer_papers.theory.kernel_learning.interpolation import (
    covariance_norm_bound,
    excess_risk_bound,
    interpolate,
    interpolation_depth,
    pair_probability,
    sample_separation,
    sphere_covariance_spectrum,
    sphere_separation,
)
from support.batches import sphere

# --- interpolation ----------------------------------------------------------------------------------------------------


def test_separation_of_uniform_points() -> None:
    """On S² the cosine is uniform; on the circle the angle is."""
    assert pair_probability(3, 0.25) == pytest.approx(0.25)
    assert pair_probability(2, 0.1) == pytest.approx(2 / math.pi * math.acos(0.9))
    for d, m, gamma in ((3, 10, 0.1), (8, 40, 0.3)):
        delta = sphere_separation(d, m, gamma)
        assert m * (m - 1) / 2 * pair_probability(d, delta) == pytest.approx(gamma, rel=1e-9)
    # a union bound: the true quantile is larger, by little when γ is small
    population = sphere(20_000, 5, seed=1)
    found = sample_separation(population, 30, 0.1, runs=2000)
    assert found > 0.85 * sphere_separation(5, 30, 0.1)
    assert found < 1.6 * sphere_separation(5, 30, 0.1)
    assert interpolation_depth(10, 0.5, 0.6) == math.ceil(math.log(100) / -math.log(0.75))


def test_spectrum_of_the_covariance_on_the_sphere() -> None:
    """k(t) = e^{t − 1} on S²: λ_l = e⁻¹ i_l(1), i_l the modified spherical Bessel function (Funk–Hecke)."""
    found = sphere_covariance_spectrum(SphereKernel("unit(exp)", 1), 3, 6)
    # the kernel of exp after one layer, over its diagonal, is e^{t − 1}
    expected = math.exp(-1) * special.spherical_in(np.arange(7), 1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(("name", "d", "count"), [("normalized(relu)", 5, 60), ("unit(tanh)", 10, 200)])
def test_covariance_norm_against_its_bound(name: str, d: int, count: int) -> None:
    """004/lem-54 with the depth it asks for; and the largest Funk–Hecke eigenvalue against a large Gram matrix."""
    mu = activation(name).nonlinearity
    delta = sphere_separation(d, count, 0.4)
    depth = interpolation_depth(math.ceil(math.sqrt(count)), mu, delta)
    spectrum = sphere_covariance_spectrum(SphereKernel(name, depth), d, 30)
    assert 0 < spectrum.max() <= covariance_norm_bound(count)
    shallow = sphere_covariance_spectrum(SphereKernel(name, 1), d, 10).max()
    gram = kernel_matrix(name, sphere(800, d), 1).largest_eigenvalue / 800
    assert shallow < gram < 1.25 * shallow  # the largest of d nearly equal eigenvalues of a sample lies above


@pytest.mark.parametrize("labels", ["noise", "linear", "mixed"])
def test_excess_risk_and_its_bounds(labels: str) -> None:
    x, rng = sphere(300, 10), np.random.default_rng(3)
    kernel = kernel_matrix("unit(tanh)", x, 25).matrix
    means = np.zeros(300) if labels == "noise" else 0.9 * x[:, 0]
    sample = rng.choice(300, size=30, replace=False)
    y = means[sample] if labels == "linear" else np.where(rng.random(30) < (1 + means[sample]) / 2, 1.0, -1.0)
    found = interpolate(kernel, means, sample, y)
    np.testing.assert_allclose(found.predictions[sample], y, atol=1e-10)
    # the same numbers from explicit features K_N^{1/2}
    values, vectors = np.linalg.eigh(kernel)
    phi = vectors * np.sqrt(values)
    v = np.linalg.pinv(phi[sample]) @ y
    best = np.linalg.solve(phi, means)
    sigma = phi.T @ phi / 300
    off = np.eye(300) - np.linalg.pinv(phi[sample]) @ phi[sample]
    assert found.excess_risk == pytest.approx((v - best) @ sigma @ (v - best), rel=1e-6)
    assert found.optimal_norm == pytest.approx(best @ best, rel=1e-6, abs=1e-12)
    assert found.norm == pytest.approx(v @ v, rel=1e-6)
    assert found.approximation == pytest.approx(best @ off @ sigma @ off @ best, rel=1e-6, abs=1e-12)
    assert found.excess_risk <= found.lemma * (1 + 1e-9)
    assert found.approximation <= found.approximation_bound * (1 + 1e-9)
    assert found.smallest_eigenvalue >= 0.5
    assert found.noise <= found.noise_bound
    if labels == "noise":  # 004/thm-16 as printed: bounded by a multiple of ‖v*‖² = 0
        assert found.optimal_norm == 0.0
        assert found.excess_risk > 0.01
        assert excess_risk_bound(30, 0.1, 0.0)["printed"] == 0.0
        assert excess_risk_bound(30, 0.1, 0.0)["proved"] > found.excess_risk


def test_interpolation_refuses() -> None:
    for arguments in (
        (np.ones((3, 3)), np.zeros(3), [0, 1], [1.0, 0.0]),
        (np.eye(3), np.zeros(3), [0, 0], [1.0, 0.0]),
        (np.eye(3), np.zeros(2), [0], [1.0]),
    ):
        with pytest.raises(IsometerError):
            interpolate(*arguments)
