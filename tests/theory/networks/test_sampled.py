"""Expectations behind batch norm that are sampled: against integrals over an angle, and what is stated about them."""

from __future__ import annotations

import numpy as np
import pytest

from isometer import Spec, activation
from isometer.spec import Norm
from isometer.theory.batch_norm._polynomials import polynomial_moments
from isometer.theory.chains import kernels_of
from isometer.theory.networks._columns import Activate, Columns, NormalizeBatch
from isometer.theory.networks._sampled import sampled_statistics
from isometer.theory.prediction import predict
from isometer.theory.prediction._forward import Forward


def random_gram(n: int, seed: int = 0) -> np.ndarray:
    factor = np.random.default_rng(seed).standard_normal((n, n + 2))
    return factor @ factor.T / (n + 2)


def by_angles(gram: np.ndarray, phi: str, eps: float, scale: float) -> np.ndarray:
    """E yyᵀ of three samples with full batch norm: two polar coordinates of a centred Gaussian, both on fine grids."""
    centring = np.eye(3) - 1 / 3
    values, vectors = np.linalg.eigh(centring @ gram @ centring)
    root = vectors[:, 1:] * np.sqrt(values[1:])  # (3, 2)
    angles = 2 * np.pi * (np.arange(800) + 0.5) / 800
    circle = root @ np.stack([np.cos(angles), np.sin(angles)])  # (3, angles)
    nodes, weights = np.polynomial.legendre.leggauss(80)
    radii, masses = 5.5 * (nodes + 1), 5.5 * weights
    masses = masses * radii * np.exp(-(radii**2) / 2)
    h = radii[:, None, None] * circle  # (radii, 3, angles)
    x = scale * h / np.sqrt((h * h).mean(axis=1, keepdims=True) + eps)
    y = activation(phi)(x)
    return np.einsum("r,ria,rja->ij", masses, y, y) / (len(angles) * masses.sum())


@pytest.mark.parametrize(("phi", "eps", "scale"), [("gelu", 0.0, 1.0), ("tanh", 0.0, 2.0), ("silu", 0.3, 1.5)])
def test_three_samples_are_an_integral_over_a_circle(phi: str, eps: float, scale: float) -> None:
    """Independent of points and of polynomials; the stated error covers what is left."""
    gram = random_gram(3)
    norm = NormalizeBatch(Norm(eps=eps, scale=scale))
    found = sampled_statistics(Columns(gram, (norm, Activate(activation(phi), 1.0))))
    exact = by_angles(gram, phi, eps, scale)
    size = np.abs(exact).max()
    assert np.abs(found.gram - exact).max() < (found.error + 1e-9) * size
    assert found.error < 1e-3


def test_moments_of_polynomials_against_a_direction_of_the_sphere() -> None:
    """x uniform on a sphere of radius √n: E x_i⁴ x_j² = n³·3/(n(n+2)(n+4)), E x_i⁶ = n³·15/(n(n+2)(n+4))."""
    n = 7
    coefficients = np.zeros((n, 5))
    coefficients[0, 4], coefficients[1:, 2] = 1.0, 1.0
    second, mean = polynomial_moments(np.eye(n), coefficients)
    below = n * (n + 2) * (n + 4)
    assert second[0, 1] == pytest.approx(3 * n**3 / below, rel=1e-10)
    assert second[1, 2] == pytest.approx(n**2 / (n * (n + 2)), rel=1e-10)
    assert second[0, 0] == pytest.approx(105 * n**4 / (below * (n + 6)), rel=1e-9)
    assert mean[0] == pytest.approx(3 * n**2 / (n * (n + 2)), rel=1e-10)


@pytest.mark.parametrize("phi", ["gelu", "hardtanh", "gelu(5*x)"])
def test_the_stated_error_covers_other_points(phi: str) -> None:
    """Each of 12 sets of points is within the stated error of the mean of all, at 95 %: at most 3 are not."""
    columns = Columns(random_gram(8, 1), (NormalizeBatch(Norm()), Activate(activation(phi), 1.0)))
    drawn = [sampled_statistics(columns, scramble) for scramble in range(12)]
    mean = np.mean([one.gram for one in drawn], axis=0)
    missed = sum(np.abs(one.gram - mean).max() > one.error * np.abs(mean).max() for one in drawn)
    assert missed <= 3


@pytest.mark.parametrize("phi", ["gelu", "tanh"])
def test_predict_and_kernel_agree_where_batch_norm_is_sampled(phi: str) -> None:
    """To rounding, since both take the same points; and both say how far they may be off."""
    spec = Spec(width=12, depth=4, activation=phi, norm="batch")
    batch = np.random.default_rng(2).standard_normal((6, 12))
    kernel = kernels_of(spec, batch, kinds=("nngp",)).matrices["nngp"]
    path = Forward(spec).path(batch, is_gram=False)
    assert np.abs(kernel.matrix * np.exp(kernel.log_diagonal.max()) - path.layers[-1].output).max() < 1e-10
    stated = predict(spec, batch, metrics=["mean_cosine"]).attrs["relative_error"]
    assert 0 < kernel.error < 1e-2
    assert 0 < stated < 1e-2


def test_formulas_state_no_sampling_error() -> None:
    spec = Spec(width=12, depth=4, activation="relu", norm="batch")
    batch = np.random.default_rng(2).standard_normal((6, 12))
    assert predict(spec, batch, metrics=["mean_cosine"]).attrs["relative_error"] == 0.0
