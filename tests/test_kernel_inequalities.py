"""One-layer ReLU and NormReLU of paper 004, against closed forms and quadrature."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from isometer import activation
from isometer.errors import IsometerError
from isometer.theory import LengthMap, kernel_matrix
from isometer.theory.kernels import conditioning_bounds
from isometer_papers.theory.duals.normrelu import (
    NORMRELU_EXCESS,
    NORMRELU_RATE,
    NormReLUMoments,
    normrelu_bound,
    normrelu_settling_depth,
)
from isometer_papers.theory.duals.one_layer_relu import (
    circle_spectrum,
    good_event_bound,
    good_event_probability,
    hermite_parities,
    one_layer_smallest_bound,
    one_layer_width,
)


def sphere(n: int, d: int, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


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


# --- NormReLU ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", [0.5, 1.0, 1.7])
def test_normrelu_closed_forms(variance: float) -> None:
    unit = NormReLUMoments()
    with mp.workdps(25):
        c, root = mp.mpf(unit.kink), mp.sqrt(variance)

        def sigma(z: mp.mpf) -> mp.mpf:
            return mp.mpf(unit.scale) * (max(z - c, 0) + mp.mpf(unit.shift))

        points = [-12, c / root, 12]
        mean = mp.quad(lambda z: sigma(root * z) * mp.npdf(z), points)
        second = mp.quad(lambda z: sigma(root * z) ** 2 * mp.npdf(z), points)
        slope = mp.quad(lambda z: sigma(root * z) * unit.scale * z / root * mp.npdf(z), points[1:])
    assert unit.mean(variance) == pytest.approx(float(mean), abs=1e-14)
    assert unit.second_moment(variance) == pytest.approx(float(second), rel=1e-13)
    assert unit.slope(variance) == pytest.approx(float(slope), rel=1e-12)


def test_normrelu_constants_as_printed() -> None:
    """004/fact-1 to its digits; σ̂_l(0.5) and α⁻ differ in the last printed digit."""
    unit = NormReLUMoments()
    assert unit.nonlinearity == pytest.approx(activation("normrelu").nonlinearity, rel=1e-12)
    assert round(unit.slope(1.0), 4) == 0.8428
    assert round(unit.bias(2.0), 4) == 0.0029
    assert unit.bias(0.5) == pytest.approx(0.00086, abs=6e-6)
    assert unit.rates[0] == pytest.approx(NORMRELU_RATE, abs=5e-4)
    assert unit.rates[1] == pytest.approx(0.1572, abs=5e-5)
    assert unit.excess == pytest.approx(NORMRELU_EXCESS, abs=2e-4)
    grid = np.linspace(0.5, 2, 61)
    bias = np.array([unit.bias(v) for v in grid])
    length = np.array([unit.second_moment(v) for v in grid])
    assert (np.diff(length) > 0).all()
    assert (np.diff(length, 2) < 0).all()
    assert (np.diff(bias, 2) > 0).all()
    chord = np.where(grid < 1, 2 * unit.bias(0.5) * (1 - grid), unit.bias(2.0) * (grid - 1))  # 004/eq-28
    assert (bias <= chord + 1e-15).all()


@pytest.mark.slow
def test_normrelu_bound_beside_kernels() -> None:
    """004/thm-59 on squared lengths ½ and 2 at δ just above δ′, at the depth it starts from: 1 − 2e-5 against 0.19."""
    rho = 1 - 0.0186
    x = np.array([[1.0, 0.0], [rho, math.sqrt(1 - rho**2)]]) * np.sqrt([[0.5], [2.0]])
    start = math.ceil(normrelu_settling_depth(0.003))
    assert normrelu_bound(start - 1, 0.5, 0.003) == math.inf
    for depth, applies in ((2, False), (start + 1, True)):
        checks = conditioning_bounds(kernel_matrix("normrelu", x, depth))
        found = {check.reference: check for check in checks}["004/thm-59"]
        assert found.applies is applies
    assert found.holds
    assert found.value == pytest.approx(1.0, abs=1e-3)
    assert found.measured == pytest.approx(0.188, abs=0.01)
    for bad in (0.01, 1.5):
        with pytest.raises(IsometerError, match="thm-59"):
            normrelu_bound(500, bad, 0.1)


# --- lengths ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["relu(x) - 1", "unit(relu(x) - 1)"])
def test_shifted_relu_has_one_length(name: str) -> None:
    """004/rem-D4 offers max(x, 0) − 1 as a length map without global convergence; with unit weights it has it."""
    lengths = LengthMap(name)
    (point,) = lengths.fixed_points
    assert point.slope < 0.2
    for start in (1e-6, 0.01, 0.5, 3.0, 1e3, 1e6):
        assert lengths.iterate(start, 100)[-1] == pytest.approx(point.variance, rel=1e-9)
