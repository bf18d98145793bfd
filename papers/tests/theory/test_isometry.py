"""Isometry, its decay and Jacobians (001, chapter 6 and Appendix C) against moments, autograd and many digits."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from scipy import integrate

from isometer.errors import IsometerError
from isometer.metrics import isometry, isometry_gain_bound, isometry_gap
from isometer.theory.batch_norm import haar_moment, isometry_gap_step
from isometer_papers.claims._precise import lifted
from isometer_papers.claims.joudaki2024.isometry.instances import exact_gap_step
from isometer_papers.simulate.rotations import haar_matrices
from isometer_papers.theory.isometry import (
    chain_jacobian,
    column_gap,
    cross_entropy_gradient,
    decay_time,
    deviation_root,
    deviation_terms,
    eigenvalue_product_bound,
    eigenvalue_variance,
    failure_bound,
    gain_factor,
    gap_bound,
    gap_step_bound,
    geometric_bound,
    geometric_sum,
    gradient_bound,
    gradient_through_layers,
    hitting_bound,
    isometry_of,
    jacobian_bound_from_far,
    log_jacobian_norm,
    log_upper,
    normalization_jacobian,
    normalized_rows,
    normalized_rows_as_printed,
    pair_expectation_bound,
    pairing_moment,
    pairing_moment_as_printed,
    pre_activations,
    printed_decay_time,
    printed_gap,
    product_expectation_bound,
    root_gap_factor,
    root_gap_step,
    row_jacobian,
    second_phase_bound,
    softmax_jacobian,
    spectrum_gap,
    squared_loss_gradient,
    squared_sum_bound,
    tail_bound,
    turned_rows,
    two_phase_bound,
    variance_step_bound,
    variation_bound,
)

RNG = np.random.default_rng


def spectrum(seed: int, d: int) -> Any:
    values = RNG(seed).gamma(0.7, size=d)
    return values * d / values.sum()


# --- matrices and spectra ------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 5])
def test_isometry_of_square_batches(d: int) -> None:
    x = RNG(d).standard_normal((d, d))
    expected = np.linalg.det(x.T @ x) ** (1 / d) / (np.trace(x.T @ x) / d)
    assert isometry_of(x) == pytest.approx(expected, rel=1e-9)
    assert isometry_of(x) == pytest.approx(float(isometry(x)), rel=1e-9)
    assert isometry_of(np.zeros((d, d))) == 0
    assert variation_bound(x) == pytest.approx(float(isometry_gain_bound(x)))
    with mpmath.workdps(40):
        high = isometry_of(lifted(x))
    assert float(high) == pytest.approx(expected, rel=1e-12)


def test_gaps_of_rectangular_batches() -> None:
    x = RNG(0).standard_normal((5, 3))
    assert column_gap(x) == pytest.approx(float(isometry_gap(x.T)))
    gram = x.T @ x
    assert printed_gap(x) == pytest.approx(-math.log(np.linalg.det(gram) ** (1 / 5) / (np.trace(gram) / 5)))
    assert printed_gap(np.ones((2, 2))) == math.inf
    with pytest.raises(IsometerError, match="square"):
        isometry_of(x)
    with pytest.raises(IsometerError, match="at least as many columns"):
        normalized_rows_as_printed(x)


@pytest.mark.parametrize("size", [1.0, 1e-2, 1e-5])
def test_spectrum_gap_keeps_its_digits(size: float) -> None:
    values = 1 + size * np.array([0.5, -0.25, -0.25])
    with mpmath.workdps(60):
        exact = -mpmath.fsum(mpmath.log(mpmath.mpf(v) / (mpmath.fsum(map(mpmath.mpf, values)) / 3)) for v in values) / 3
    assert spectrum_gap(values) == pytest.approx(float(exact), rel=1e-9)
    assert spectrum_gap([2.0, 0.0]) == math.inf


def test_one_layer_by_hand() -> None:
    """λ = (3/2, 1/2): Σ(λ−1)² = ½, d = 2."""
    values = np.array([1.5, 0.5])
    assert gain_factor(values) == pytest.approx(64 / 63)
    assert gap_step_bound(values) == pytest.approx(math.log(63 / 64))
    assert (eigenvalue_variance(values), variance_step_bound(values)) == (0.25, -1 / 32)
    assert squared_sum_bound(values) == pytest.approx(4 - 1 / 16)
    assert isometry_gap_step(values).value == pytest.approx(2 * math.log((math.sqrt(1.5) + math.sqrt(0.5)) / 2))


def test_exact_step_on_the_sphere() -> None:
    """E log Σ λ w² over the unit sphere of three dimensions, by quadrature in angles."""
    values = np.array([2.1, 0.6, 0.3])

    def density(height: float, angle: float) -> float:
        flat = 1 - height**2
        return math.log(
            values[0] * flat * math.cos(angle) ** 2 + values[1] * flat * math.sin(angle) ** 2 + values[2] * height**2
        )

    total = integrate.dblquad(density, 0, math.pi / 2, 0, 1, epsabs=1e-10)[0] / (math.pi / 2)
    assert float(exact_gap_step(lifted(values))) == pytest.approx(total, abs=1e-8)
    assert isometry_gap_step(values).value == pytest.approx(total, abs=1e-8)


@pytest.mark.parametrize("c", [1e-3, 0.5, 1.0, 10.0])
def test_deviations(c: float) -> None:
    roots = np.sort(np.roots([3.0, -4 * c / 16, -6 * c / 16]))
    assert (deviation_root(c, -1), deviation_root(c)) == pytest.approx(tuple(roots))
    if c <= 1:
        assert deviation_root(c) <= math.sqrt(c) / 2
    values = spectrum(3, 6)
    terms = (values - 1) - log_upper(values - 1)
    assert np.allclose(deviation_terms(values), terms)


# --- moments ------------------------------------------------------------


def test_pairings_for_rotations_and_reflections_of_the_plane() -> None:
    """Entries of O(2): cos and sin of one angle; moments by exact trigonometric sums over 16 angles, both signs."""
    angles = 2 * np.pi * np.arange(16) / 16
    c, s = np.cos(angles), np.sin(angles)
    turns = np.array([[c, -s], [s, c]]).transpose(2, 0, 1)
    flips = np.array([[c, s], [s, -c]]).transpose(2, 0, 1)
    group = np.concatenate([turns, flips])
    for rows, columns in (([0, 0, 1, 1], [0, 0, 1, 1]), ([0, 0, 1, 1], [0, 1, 0, 1]), ([0, 0, 0, 0], [0, 0, 0, 0])):
        moment = np.prod([group[:, r, k] for r, k in zip(rows, columns, strict=True)], axis=0).mean()
        assert float(pairing_moment(2, rows, columns)) == pytest.approx(moment)
        assert float(pairing_moment(2, rows, columns)) == pytest.approx(haar_moment(2, rows, columns))
    assert pairing_moment_as_printed(2, [0, 0, 1, 1], [0, 0, 1, 1]) != pairing_moment(2, [0, 0, 1, 1], [0, 0, 1, 1])
    with pytest.raises(IsometerError, match="four"):
        pairing_moment(2, [0, 0], [0, 0])


def test_expectations_by_moments() -> None:
    d, values = 4, spectrum(1, 4)
    total = 1.0
    for k in range(d):
        for q in range(d):
            total += 0.25 * (values[k] - 1) * (values[q] - 1) * haar_moment(d, [0, 0, 1, 1], [k, k, q, q])
    assert product_expectation_bound(values) == pytest.approx(total)
    assert pair_expectation_bound(values) == pytest.approx(total)
    assert squared_sum_bound(values) == pytest.approx(d + d * (d - 1) * total)


# --- decay ------------------------------------------------------------


def test_bounds_along_depth_by_hand() -> None:
    assert decay_time(1 / 64, 2) == 8  # 2d², as 32d³ψ = 4
    assert printed_decay_time(1.0, 2, 3.0) == 36
    assert gap_bound(0.5, 2, 256) == pytest.approx(0.5 / math.e)
    assert tail_bound(1 / 32, 2, 8) == pytest.approx(math.exp(-1))
    assert hitting_bound(1 / 32, 2) == 8
    assert hitting_bound(1 / 32, 2, summed=True) == pytest.approx(sum(math.exp(-k / 8) for k in range(1, 400)))
    assert hitting_bound(1 / 32, 2, summed=True, from_zero=True) == pytest.approx(
        sum(math.exp(-k / 8) for k in range(400))
    )
    assert hitting_bound(1 / 32, 2, summed=True, from_zero=True) <= hitting_bound(1 / 32, 2, from_zero=True)
    assert gradient_bound(1.0, 2, 10**9) == pytest.approx(64)
    assert second_phase_bound(0.5, 2, 10**9) == pytest.approx(512)
    assert jacobian_bound_from_far(0.5, 2, 10**9) == pytest.approx(512 * 16 * 0.25 * 2 + 512)
    assert two_phase_bound([0.2, 0.1, 0.02], 2) == pytest.approx(1.2 + 1.04)  # reached at the last layer
    assert two_phase_bound([0.2, 0.1, 0.02], 2, 0.2) == pytest.approx(2.8)


def test_geometric_sums_and_the_wrong_way_round() -> None:
    ratio = 1 - 1 / 32
    assert geometric_sum(1, 7) == pytest.approx(sum(ratio**k for k in range(8)))
    assert geometric_sum(1, 7, first=1) == pytest.approx(sum(ratio**k for k in range(1, 8)))
    assert geometric_sum(1, 7, first=1) < geometric_bound(1.0, 7.0) < geometric_sum(1, 7)
    assert geometric_bound(40.0, 3.0) == pytest.approx(3.0, rel=1e-6)


@pytest.mark.parametrize("d", [1, 3])
def test_root_of_the_gap(d: int) -> None:
    a = 1 / (4 * d**2)
    q = failure_bound(d)
    assert root_gap_step(d, q) == pytest.approx(1 - a + a * math.sqrt(1 - a))
    assert failure_bound(d, simple=False) == pytest.approx((1 - 2 * a) / (1 - a))
    assert root_gap_step(d, q) <= root_gap_factor(d) == pytest.approx(1 - a**2 / 2)


# --- Jacobians, by automatic differentiation ------------------------------------------------------------


jacobian_of: Any = torch.autograd.functional.jacobian


def layer(x: Any) -> Any:
    return x / torch.linalg.vector_norm(x, dim=1, keepdim=True)


def test_jacobians_by_autograd() -> None:
    d = 3
    x = torch.as_tensor(RNG(0).standard_normal((d, d)))
    full = jacobian_of(layer, x).reshape(d * d, d * d).numpy()
    assert np.allclose(normalization_jacobian(x.numpy()), full, atol=1e-13)
    assert log_jacobian_norm(x.numpy()) == pytest.approx(math.log(np.linalg.norm(full, 2)))
    assert np.allclose(row_jacobian(x.numpy()[0]), full[:d, :d], atol=1e-13)
    weights = haar_matrices(3, d, RNG(1))

    def chain(start: torch.Tensor) -> torch.Tensor:
        for w in weights:
            start = layer(torch.as_tensor(w) @ start)
        return start

    whole = jacobian_of(chain, x).reshape(d * d, d * d).numpy()
    assert np.allclose(chain_jacobian(list(weights), x.numpy()), whole, atol=1e-12)
    assert np.allclose(normalized_rows(pre_activations(list(weights), x.numpy())[-1]), chain(x).numpy())
    with pytest.raises(IsometerError, match="no derivative"):
        row_jacobian(np.zeros(2))


def test_turned_rows_by_the_layers() -> None:
    """The recursion in cot α against matrices, layer by layer."""
    half = 1 / (2 * math.sqrt(50))
    c, s = math.cos(2 * math.atan(half)), math.sin(2 * math.atan(half))
    weights, x = [np.array([[c, s], [-s, c]])] * 50, np.array([[1.0, 0.0], [0.8, 0.6]])
    summed, turn = turned_rows(0.8, 50)
    assert summed == pytest.approx(sum(log_jacobian_norm(h) for h in pre_activations(weights, x)), rel=1e-12)
    moved = chain_jacobian(weights, x) @ np.array([0.0, 0.0, -0.6, 0.8])  # the second row along the circle
    assert abs(turn) == pytest.approx(np.linalg.norm(moved[:2]), rel=1e-12)


def test_gradient_by_autograd() -> None:
    d = 4
    weights = [torch.as_tensor(w).requires_grad_() for w in haar_matrices(4, d, RNG(2))]
    x, cotangent = (torch.as_tensor(RNG(k).standard_normal((d, d))) for k in (3, 4))
    state = x
    for w in weights[:-1]:
        state = layer(w @ state)
    (gradient,) = torch.autograd.grad(((weights[-1] @ state) * cotangent).sum(), weights[0])
    plain = [w.detach().numpy() for w in weights]
    found = gradient_through_layers(plain, x.numpy(), cotangent.numpy())
    assert found.gradient == pytest.approx(float(torch.linalg.norm(gradient)))
    assert found.loss == pytest.approx(float(torch.linalg.norm(cotangent)))
    assert len(found.log_jacobians) == 3


@pytest.mark.parametrize("classes", [2, 5])
def test_losses_by_autograd(classes: int) -> None:
    z = torch.as_tensor(RNG(classes).standard_normal(classes) * 3).requires_grad_()
    y = torch.eye(classes, dtype=torch.float64)[0]
    own = z.detach().numpy()
    (gradient,) = torch.autograd.grad(-(y * torch.log_softmax(z, 0)).sum(), z)
    assert np.allclose(cross_entropy_gradient(own, y.numpy()), gradient.numpy())
    (gradient,) = torch.autograd.grad(((y - torch.softmax(z, 0)) ** 2).mean(), z)
    assert np.allclose(squared_loss_gradient(own, y.numpy()), gradient.numpy())
    jacobian = jacobian_of(lambda v: torch.softmax(v, 0), z.detach())
    assert np.allclose(softmax_jacobian(own), jacobian.numpy())


def test_product_of_eigenvalues_is_attained() -> None:
    assert eigenvalue_product_bound(0.4, 3) == pytest.approx(0.4 * 1.3 * 1.3)
