"""Exact duals, mixtures, tables and small problems (paper 004) against the engine, quadrature and networks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from isometer.activations import activation
from isometer.errors import IsometerError
from isometer.theory import KernelMap
from isometer.theory.kernels import NormReLUMoments, SignalFamily, SphereKernel, length_contraction
from isometer_papers import float_or_mpmath as either
from isometer_papers.float_or_mpmath import is_precise
from isometer_papers.theory.duals.exact_duals import (
    dual_slope,
    dual_value,
    iterated_dual,
    relative_tangent,
    smallest_fixed_point,
    tangent_as_printed,
    tangent_by_layers,
    tangent_diagonal,
)
from isometer_papers.theory.duals.kernel_tables import parameter_count, table_dual, table_nonlinearity
from isometer_papers.theory.duals.length_counterexamples import hinge_length, staircase_length
from isometer_papers.theory.duals.normalized_networks import batch_norm_network, layer_norm_network, standardized
from isometer_papers.theory.duals.normrelu_pairs import normrelu_constants, normrelu_correlations, normrelu_pair
from isometer_papers.theory.duals.odd_mixtures import OddMixture, as_printed_hermite_pairing, mixture_step
from isometer_papers.theory.duals.small_interpolation import (
    distinct_probability,
    least_squares_path,
    residual_floor,
    stochastic_path,
)
from isometer_papers.theory.duals.soft_clip import SoftClip

ENGINE = {
    "relu": "normalized(relu)",
    "exp": "normalized(exp)",
    "sin": "unit(sin)",
    "erf": "unit(erf)",
    "sign": "sign",
    "unit-relu": "unit(relu)",
    "unit-exp": "unit(exp)",
    "unit-cos": "unit(cos)",
}


def bivariate(f: Any, p: float, q: float, c: float) -> float:
    """E f(z₁)f(z₂) by a tensor grid of Gauss–Legendre panels."""
    x, w = np.polynomial.legendre.leggauss(60)
    edges = np.array([-9.0, -4.0, -2.0, 0.0, 2.0, 4.0, 9.0])
    low, high = edges[:-1, None], edges[1:, None]
    z = ((high - low) / 2 * x + (high + low) / 2).ravel()
    weight = ((high - low) / 2 * w).ravel() * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    first = math.sqrt(p) * z[:, None] + 0 * z[None, :]
    second = c / math.sqrt(p) * z[:, None] + math.sqrt(q - c * c / p) * z[None, :]
    return float(weight @ (f(first) * f(second)) @ weight)


# --- duals ------------------------------------------------------------


@pytest.mark.parametrize(("name", "source"), sorted(ENGINE.items()))
def test_closed_duals_are_those_of_the_engine(name: str, source: str) -> None:
    rho, kernel = np.array([-0.95, -0.3, 0.0, 0.4, 0.9]), KernelMap(source)
    np.testing.assert_allclose(dual_value(name, rho), kernel(rho), atol=1e-12)
    np.testing.assert_allclose(dual_slope(name, rho), kernel.slope(rho), atol=1e-10)
    assert iterated_dual(name, 0.4, 5) == pytest.approx(kernel.iterate(0.4, depth=5).cosine[-1], abs=1e-11)
    assert smallest_fixed_point(name) == pytest.approx(kernel.fixed_point, abs=1e-9)


@pytest.mark.parametrize("name", ["relu", "sin", "exp"])
def test_tangent_kernel_against_the_engine_and_by_weights(name: str) -> None:
    """The recursion against the depth-free kernel, and one layer against E σσ + (x·x′)E σ̇σ̇ by sampling weights."""
    for depth in (1, 3, 6):
        expected = SphereKernel(ENGINE[name], depth, tangent=True).at_cosine(0.3, "ntk")
        assert relative_tangent(name, 0.3, depth) == pytest.approx(float(expected), rel=1e-9)
        diagonal = tangent_diagonal(float(dual_slope(name, 1.0)), depth)
        assert tangent_by_layers(name, 0.3, depth) == pytest.approx(diagonal * float(expected), rel=1e-9)
        assert tangent_as_printed(name, 0.3, depth, shift=1) == pytest.approx(diagonal * float(expected), rel=1e-9)
    if name == "exp":
        return
    phi, rng = activation(ENGINE[name]), np.random.default_rng(0)
    z = rng.standard_normal((2, 400_000))
    u, v = z[0], 0.3 * z[0] + math.sqrt(1 - 0.09) * z[1]
    sample = phi(u) * phi(v) + 0.3 * phi.derivative(u) * phi.derivative(v)
    error = sample.std() / math.sqrt(sample.size)
    assert abs(sample.mean() - tangent_by_layers(name, 0.3, 1)) < 4.5 * error


def test_squares() -> None:
    assert dual_value(np.array([0.0, 2.0, 2.0]), 0.5) == pytest.approx(0.375)
    assert dual_value(np.array([0.0, 0.1, 0.2]), 1.0) == 1.0
    assert smallest_fixed_point(np.array([0.25, 0.0, 0.75])) == pytest.approx(1 / 3)
    assert smallest_fixed_point(np.array([0.6, 0.2, 0.2])) == 1.0
    with pytest.raises(IsometerError, match="unknown dual 'cube'"):
        dual_value("cube", 0.5)


def test_two_precisions_agree() -> None:
    import mpmath

    assert is_precise(mpmath.mpf(1))
    for name in ("sqrt", "exp", "log", "sin", "cos", "tanh", "sinh", "cosh", "atan", "erf", "ncdf", "npdf"):
        function = getattr(either, name)
        assert float(function(mpmath.mpf("0.7"))) == pytest.approx(float(function(0.7)), rel=1e-14)
    for name in ENGINE:
        high = iterated_dual(name, mpmath.mpf("0.3"), 3)
        assert float(high) == pytest.approx(float(iterated_dual(name, 0.3, 3)), rel=1e-12, abs=1e-15)


def test_table() -> None:
    assert table_nonlinearity("exp") == pytest.approx(activation("exp").nonlinearity, rel=1e-10)
    sample = np.random.default_rng(0).standard_normal((2, 250_000))
    x, y = sample[0], 0.5 * sample[0] + math.sqrt(0.75) * sample[1]
    product = np.exp(x + y)
    assert abs(product.mean() - table_dual("exp", 0.5)) < 4.5 * product.std() / 500
    assert parameter_count(3, 5, 4) == 3 * 5 + 3 * 25 + 5
    with pytest.raises(IsometerError, match="no row"):
        table_dual("gelu", 0.0)


# --- lengths ------------------------------------------------------------


@pytest.mark.parametrize(("kind", "function"), [("erf", special.erf), ("sin", np.sin)])
def test_mixtures_against_quadrature(kind: str, function: Any) -> None:
    sigma, p, q, c = OddMixture(0.3, 1.0, 1.4, kind), 0.6, 2.0, 0.5

    def plain(x: Any) -> Any:
        return 0.3 * x + function(1.4 * x)

    square = (
        bivariate(plain, 1.0, 1.0, 0.0) * 0 + integrate.quad(lambda x: plain(x) ** 2 * stats.norm.pdf(x), -12, 12)[0]
    )
    assert sigma.pair(p, q, c) == pytest.approx(bivariate(plain, p, q, c) / square, rel=1e-8)
    root = math.sqrt(p)
    first = integrate.quad(lambda x: x * plain(root * x) * stats.norm.pdf(x), -12, 12)[0]
    assert sigma.first_squared(p) == pytest.approx(first**2 / square, rel=1e-9)
    if kind == "erf":
        step = (sigma.second_moment(1.001) - sigma.second_moment(0.999)) / 0.002
        assert sigma.length_slope(1.0) == pytest.approx(step, rel=1e-5)
        family = SignalFamily("unit(0.3*x + erf(1.4*x))")
        assert sigma.contraction(0.5) == pytest.approx(length_contraction("unit(0.3*x + erf(1.4*x))"), rel=1e-8)
        assert mixture_step(sigma, (p, q, c))[0] == pytest.approx(family.second_moment(p), rel=1e-9)


def test_soft_clip_is_what_it_says() -> None:
    clip = SoftClip(2.0, 3.0)
    x = np.linspace(0, 6, 200)
    y = clip.plain(x)
    assert (np.diff(y) >= -1e-12).all()
    assert (np.diff(y, 2) <= 1e-9).all()
    np.testing.assert_allclose(clip.plain(-x), -y, atol=1e-12)
    moments = [
        integrate.quad(lambda z, r=r: clip.plain(r * z) ** 2 * stats.norm.pdf(z), -12, 12)[0]
        for r in (math.sqrt(0.5), 1.0)
    ]
    assert clip.second_moment(0.5) == pytest.approx(moments[0] / moments[1], rel=1e-9)
    linear = integrate.quad(lambda z: z * clip.plain(z) * stats.norm.pdf(z), -12, 12)[0]
    assert clip.nonlinearity(1.0) == pytest.approx(1 - linear**2 / moments[1], rel=1e-6)
    # the lower bound on cosines lies below the cosine itself, after one layer by quadrature
    after = bivariate(clip.plain, 0.5, 0.5, 0.25) / moments[0]
    assert clip.cosine_floor(0.5, 0.5, 1) <= after


def test_hermite_pairing_by_quadrature() -> None:
    """γ₁ = 2, γ₂ = 0.5, covariance 0.3, degree 2: (z² − γ)/√(2γ²) is orthonormal, (z² − γ²)/√(2γ²) is not."""
    x, w = np.polynomial.hermite_e.hermegauss(10)
    w = w / math.sqrt(2 * math.pi)
    p, q, c = 2.0, 0.5, 0.3
    first = math.sqrt(p) * x[:, None]
    second = c / math.sqrt(p) * x[:, None] + math.sqrt(q - c * c / p) * x[None, :]
    for printed, (a, b) in ((True, (p * p, q * q)), (False, (p, q))):
        product = (first**2 - a) / math.sqrt(2 * p * p) * (second**2 - b) / math.sqrt(2 * q * q)
        assert as_printed_hermite_pairing(2, 2, (p, q), c, printed=printed) == pytest.approx(float(w @ product @ w))
    with pytest.raises(IsometerError, match="expected 0 to 3"):
        as_printed_hermite_pairing(4, 0, (1.0, 1.0), 0.0)


def test_length_counterexamples() -> None:
    for gamma in (0.2, 3.0):
        root = math.sqrt(gamma)
        hinge = integrate.quad(lambda x, r=root: (max(r * x, 0) - 1) ** 2 * stats.norm.pdf(x), -12, 12, points=[0])[0]
        assert hinge_length(gamma) == pytest.approx(hinge, rel=1e-9)
    tail = 2 * stats.norm.sf(0.5)
    assert staircase_length(100.0) == pytest.approx(0.01 * (1 - tail) + 10.1**2 * tail, rel=1e-12)


# --- networks with normalisation ------------------------------------------------------------


def test_networks_against_torch() -> None:
    import torch

    torch.manual_seed(0)
    x, first, last = (torch.randn(*shape, dtype=torch.float64) for shape in ((6, 3), (4, 3), (1, 4)))
    batch = torch.nn.BatchNorm1d(4, affine=False, eps=1e-12).double()
    one = torch.nn.BatchNorm1d(1, affine=False, eps=1e-12).double()
    expected = one(torch.tanh(batch(x @ first.T)) / 2 @ last.T)
    weights = [first.numpy(), last.numpy()]
    found = batch_norm_network(x.numpy(), weights, np.tanh)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-8)
    layer = torch.nn.LayerNorm(4, elementwise_affine=False, eps=1e-12)
    expected = layer(torch.tanh(x @ first.T) / 2) @ last.T
    np.testing.assert_allclose(layer_norm_network(x.numpy(), weights, np.tanh), expected.numpy(), atol=1e-8)
    assert np.allclose(standardized(np.array([[1.0, 3.0]]), 1), [[-1, 1]])


# --- NormReLU ------------------------------------------------------------


def test_normrelu_constants_against_the_closed_forms() -> None:
    found, unit = normrelu_constants(), NormReLUMoments()
    assert found["shift"] == pytest.approx(unit.shift)
    assert found["scale"] == pytest.approx(unit.scale)
    assert found["nonlinearity"] == pytest.approx(unit.nonlinearity)
    assert (found["rate_below"], found["rate_above"]) == pytest.approx(unit.rates)
    assert found["excess"] == pytest.approx(unit.excess)
    assert round(found["rate_below"], 4) == 0.08  # printed as 0.0798


def test_normrelu_pairs() -> None:
    import mpmath

    unit = NormReLUMoments()

    def plain(x: Any) -> Any:
        return unit.scale * (np.maximum(x - unit.kink, 0) + unit.shift)

    z = np.random.default_rng(0).standard_normal((2, 300_000))
    first, second = math.sqrt(1.5) * z[0], 0.4 / math.sqrt(1.5) * z[0] + math.sqrt(0.7 - 0.16 / 1.5) * z[1]
    sample = plain(first) * plain(second)
    assert abs(sample.mean() - normrelu_pair(1.5, 0.7, 0.4)) < 4.5 * sample.std() / math.sqrt(sample.size)
    # quadrature and the closed form with Plackett's integral
    high = normrelu_pair(mpmath.mpf("1.5"), mpmath.mpf("0.7"), mpmath.mpf("-0.4"))
    assert float(high) == pytest.approx(normrelu_pair(1.5, 0.7, -0.4), rel=1e-10)
    equal = KernelMap("normrelu").iterate(0.6, depth=4).cosine[-1]
    assert normrelu_correlations((1.0, 1.0), 0.6, 4) == pytest.approx(equal, abs=1e-9)


# --- descent and interpolation ------------------------------------------------------------


def test_small_problems() -> None:
    rng = np.random.default_rng(0)
    a, y = rng.standard_normal((5, 3)), rng.standard_normal(5)
    w = np.zeros(3)
    for _ in range(4):
        w = w - 0.1 * 2 / 5 * a.T @ (a @ w - y)
    assert least_squares_path(a, y, 4, 0.1) == pytest.approx(((a @ w - y) ** 2).sum() / (y @ y))
    assert residual_floor(a, y) == pytest.approx(np.linalg.lstsq(a, y, rcond=None)[1][0] / 5)
    kernel, r = a @ a.T, rng.standard_normal(5)
    _, mean = stochastic_path(kernel, r, 6, 0.05)
    assert mean == pytest.approx(np.mean([stochastic_path(kernel, r, steps, 0.05)[0] for steps in range(6)]))
    assert distinct_probability(365, 23) == pytest.approx(0.4927, abs=1e-4)


# --- verdicts ------------------------------------------------------------


def test_eq_7_by_hand() -> None:
    """One layer of (x² − 1)/√2: E σσ + ρE σ̇σ̇ = ρ² + ρ·2ρ."""
    x, w = np.polynomial.hermite_e.hermegauss(8)
    w, rho = w / math.sqrt(2 * math.pi), 0.5
    first, second = x[:, None] + 0 * x, rho * x[:, None] + math.sqrt(1 - rho**2) * x[None, :]
    value = w @ ((first**2 - 1) * (second**2 - 1) / 2 + rho * 2 * first * second) @ w
    assert value == pytest.approx(3 * rho**2)
    assert tangent_by_layers(np.array([0, 0, 1.0]), rho, 1) == pytest.approx(value)
    assert tangent_as_printed(np.array([0, 0, 1.0]), rho, 1) == pytest.approx(rho**2 + rho * 2 * rho**2)
