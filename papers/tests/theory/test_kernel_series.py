"""Kernel maps as power series and in many digits, rates and Hermite identities (001, chapter 5)."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.polynomial import hermite_e
from scipy import stats

from isometer.activations import activation
from isometer.errors import IsometerError
from isometer.theory import kernel_map
from isometer_papers.theory.duals.global_convergence import (
    case_of,
    centred_rate_of,
    fixed_point_rate,
    fixed_point_rate_as_printed,
    interior_bound,
    potential_of,
)
from isometer_papers.theory.duals.hermite_identities import (
    cosine_after_sparse_input,
    hermite_coefficients,
    hermite_pairing_of,
    hermite_polynomial,
    mehler_kernel,
    pair_moment,
    sine_kernel_at,
)
from isometer_papers.theory.duals.kernel_series import KernelSeries
from isometer_papers.theory.duals.precise_kernels import CLOSED, SAMPLED, PreciseKernel

# --- kernels ------------------------------------------------------------


@pytest.mark.parametrize("polynomial", ["x**2", "x**3", "1 + x + x**2", "x**4 - x"])
def test_series_against_the_kernel_map(polynomial: str) -> None:
    """The weights are squared Hermite coefficients; κ, slopes and fixed point are those of `KernelMap`."""
    weights = activation(polynomial).hermite(8) ** 2
    weights[weights < 1e-20] = 0.0
    series, reference = KernelSeries(weights.tolist()), kernel_map(polynomial)
    for rho in (-0.9, -0.3, 0.0, 0.4, 0.99):
        assert series(rho) == pytest.approx(reference(rho), abs=1e-12)
        assert series.slope(rho) == pytest.approx(reference.slope(rho), abs=1e-11)
        assert series.gap_after(rho) == pytest.approx(1 - reference(rho), abs=1e-12)
    assert series.slope_at_one == pytest.approx(reference.slope_at_one)
    assert series.fixed_point == pytest.approx(reference.fixed_point, abs=1e-12)
    assert case_of(series) == reference.case


def test_series_around_a_point() -> None:
    series = KernelSeries([1.0, 2.0, 0.0, 3.0])
    expected = np.polynomial.Polynomial(series.coefficients)(np.polynomial.Polynomial([0.3, 1.0])).coef
    assert series.around(0.3) == pytest.approx(expected.tolist())
    with pytest.raises(IsometerError, match="not all 0"):
        KernelSeries([0.0])


def test_fixed_point_in_many_digits() -> None:
    with mpmath.workdps(50):
        root = KernelSeries([mpmath.mpf(1), mpmath.mpf(0), mpmath.mpf(0), mpmath.mpf(1)]).fixed_point
        assert abs(root - (mpmath.sqrt(5) - 1) / 2) < mpmath.mpf(10) ** -45  # (1 + ρ³)/2 = ρ


@pytest.mark.parametrize("name", [*CLOSED, "tanh", "softplus"])
def test_precise_kernels_against_quadrature(name: str) -> None:
    for centred in (False, True):
        if name == "identity" and centred:
            continue
        reference = kernel_map(name, norm="layer" if centred else "none", norm_position="post")
        kernel = PreciseKernel(name, math, centred)
        assert kernel(0.3) == pytest.approx(reference(0.3), abs=1e-13)
        assert kernel(-0.7) == pytest.approx(reference(-0.7), abs=1e-13)
        assert kernel.slope(0.4) == pytest.approx(reference.slope(0.4), abs=1e-12)
        assert kernel.at_zero == pytest.approx(reference.at_zero, abs=1e-13)
        assert kernel.slope_at_zero == pytest.approx(reference.slope_at_zero, abs=1e-13)
        assert kernel.slope_at_one == pytest.approx(reference.slope_at_one)


def test_precise_kernel_in_many_digits() -> None:
    """ReLU at ρ = 0 is 1/π; the moments of gelu by mpmath's own quadrature."""
    with mpmath.workdps(20):
        assert abs(PreciseKernel("relu", mpmath)(mpmath.mpf(0)) * mpmath.pi - 1) < mpmath.mpf(10) ** -18

        def mean(f: Any) -> Any:
            return mpmath.quad(lambda x: f(x) * mpmath.npdf(x), [-14, -4, 0, 4, 14])

        phi, slope = SAMPLED["gelu"](mpmath)
        second = mean(lambda x: phi(x) ** 2)
        kernel = PreciseKernel("gelu", mpmath)
        assert abs(kernel.at_zero - mean(phi) ** 2 / second) < mpmath.mpf(10) ** -15
        assert abs(kernel.slope_at_one - mean(lambda x: slope(x) ** 2) / second) < mpmath.mpf(10) ** -15
    with pytest.raises(IsometerError, match="unknown precise kernel"):
        PreciseKernel("nothing", math)


def test_corrected_rate_of_case_four_is_sharp() -> None:
    """For quadratic κ the one-step ratio tends to 1/(2 − κ′(ρ*)) = 1/κ′(1) at 1; the printed rate is smaller."""
    kernel = KernelSeries([1.0, 0.0, 2.0])
    rho = 1 - 1e-7
    left = (kernel(rho) - 0.5) / (1 - kernel(rho))
    assert left / ((rho - 0.5) / (1 - rho)) == pytest.approx(fixed_point_rate(kernel), rel=1e-6)
    assert fixed_point_rate(kernel) == pytest.approx(1 / kernel.slope_at_one)
    assert fixed_point_rate_as_printed(kernel) == pytest.approx(2 / 3)


# --- Hermite ------------------------------------------------------------


def test_hermite_against_numpy() -> None:
    for k in range(9):
        assert hermite_polynomial(k) == pytest.approx(hermite_e.herme2poly([0] * k + [1]).tolist())
    nodes, weights = hermite_e.hermegauss(30)
    weights = weights / weights.sum()
    for first, second, rho in product((0, 1, 2, 5), (0, 2, 3, 5), (-0.6, 0.25)):
        y = rho * nodes[:, None] + math.sqrt(1 - rho**2) * nodes
        joint = weights[:, None] * weights
        assert pair_moment(first, second, rho) == pytest.approx(
            float((joint * nodes[:, None] ** first * y**second).sum()), abs=1e-9
        )
        assert hermite_pairing_of(first, second, rho) == pytest.approx(rho**first if first == second else 0, abs=1e-10)
    values = np.polynomial.Polynomial([1.0, -2.0, 0.0, 0.5])(nodes)
    for k, c in enumerate(hermite_coefficients([1.0, -2.0, 0.0, 0.5], 1.0)):
        he = hermite_e.hermeval(nodes, [0] * k + [1]) / math.sqrt(math.factorial(k))
        assert c == pytest.approx(float(weights @ (values * he)), abs=1e-12)


def test_mehler_kernel_is_the_density_ratio() -> None:
    joint = stats.multivariate_normal([0, 0], [[1, 0.4], [0.4, 1]])
    for x, y in ((0.3, -1.2), (1.0, 2.0)):
        ratio = joint.pdf([x, y]) / (stats.norm.pdf(x) * stats.norm.pdf(y))
        assert mehler_kernel(x, y, 0.4) == pytest.approx(ratio)


# --- verdicts ------------------------------------------------------------


def test_bounds_of_the_ledger_are_the_printed_ones() -> None:
    """Numbers worked out by hand from the formulas in print."""
    kernel = KernelSeries([1.0, 1.0, 2.0])  # (1 + ρ + 2ρ²)/4, ρ* = 1/2, κ′(ρ*) = 3/4, κ(0) = 1/4
    assert fixed_point_rate_as_printed(kernel) == pytest.approx(max(0.75, 0.75, 0.5 / 1.25))
    assert interior_bound(kernel, 0.75, 2, 0.5) == pytest.approx(0.25 / 0.25 / 4)
    assert centred_rate_of(KernelSeries([0.0, 1.0, 1.0])) == pytest.approx(2 / 3)
    assert potential_of(-0.75) == 3
    assert sine_kernel_at(0.5, 4.0) == pytest.approx(math.sinh(2) / math.sinh(4))
    assert cosine_after_sparse_input(1.0, 0.0) == 0.5
