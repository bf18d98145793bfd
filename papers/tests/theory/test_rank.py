"""Drift, moments and spectra of residual chains with batch norm (paper 002) against quadrature and sampling."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from isometer.errors import IsometerError
from isometer.metrics import batch_normalize
from isometer_papers.simulate.rank_steps import uniform_weights, weak_layer_change, weak_layer_statistics
from isometer_papers.theory.rank.bounds import (
    entry_drift,
    equal_row_drift,
    equal_row_moments,
    moment_change_bound,
    power_sums,
    second_moments,
    spectral_regularity,
    spiked_regularity_bound,
    two_level_leading_change,
    two_level_norms,
    two_level_spectrum,
)
from isometer_papers.theory.rank.chain import (
    batch_norm_as_printed,
    moment_change,
    moment_change_expansion,
    multiple_residual,
    normalized_step,
    residual_step,
    second_order_moments,
    several_invariant_laws,
    sign_states_frozen,
    whitened,
)
from isometer_papers.theory.rank.residual_step import frobenius_drift

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


def expectation(statistic: Any, m: Any, gamma: float) -> float:
    """E over W uniform on [−√3, √3]^{2×2} of a statistic of M₊, by tensor Gauss–Legendre quadrature."""
    grid = np.array(list(product(NODES, repeat=4))) * math.sqrt(3)
    weight = np.prod(np.array(list(product(WEIGHTS, repeat=4))) / 2, axis=1)
    a = np.eye(2) + gamma * grid.reshape(-1, 2, 2)
    after = a @ m @ np.swapaxes(a, 1, 2)
    size = np.sqrt(np.einsum("sii->si", after))
    return float(weight @ statistic(after / (size[:, :, None] * size[:, None, :])))


def correlated(rho: float) -> Any:
    return np.array([[1.0, rho], [rho, 1.0]])


# --- one weak layer ------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.0, 0.3, -0.8, 0.99])
def test_drift_against_quadrature(rho: float) -> None:
    """(E‖M₊‖² − ‖M‖²)/γ² at γ = 1e-3 is δ_F up to O(γ²)."""
    m, gamma = correlated(rho), 1e-3
    change = (expectation(lambda a: (a * a).sum((-2, -1)), m, gamma) - (m * m).sum()) / gamma**2
    assert change == pytest.approx(float(frobenius_drift(m)), abs=3e-4)
    assert change == pytest.approx(2 * entry_drift(m)[0, 1], abs=3e-4)


@pytest.mark.parametrize("gamma", [0.02, 0.04])
def test_leading_eigenvalue_against_quadrature(gamma: float) -> None:
    m = equal_row_moments(two_level_spectrum(2, gamma**2))
    change = (expectation(lambda a: np.linalg.eigvalsh(a)[:, -1], m, gamma) - (2 - gamma**2)) / gamma**4
    assert change == pytest.approx(two_level_leading_change(2), rel=40 * gamma**2)


def test_monte_carlo_against_quadrature() -> None:
    """Within four standard errors of the exact mean."""
    m, gamma = correlated(0.6), 0.3
    draws = weak_layer_change(m, gamma, draws=20_000, rng=np.random.default_rng(5))
    exact = (expectation(lambda a: (a * a).sum((-2, -1)), m, gamma) - (m * m).sum()) / gamma**2
    assert abs(draws.mean() - exact) < 4 * draws.std() / math.sqrt(draws.size)
    first = weak_layer_statistics(m, gamma, lambda a: a[..., 0, 1], draws=20_000, rng=np.random.default_rng(6))
    assert abs(first.mean() - expectation(lambda a: a[:, 0, 1], m, gamma)) < 4 * first.std() / math.sqrt(first.size)
    with pytest.raises(IsometerError, match="draws is 1"):
        weak_layer_change(m, gamma, draws=1, rng=np.random.default_rng(0))


def test_covariances_against_sampling() -> None:
    rng = np.random.default_rng(3)
    h = rng.standard_normal((5, 3))
    m = second_moments(h)
    w = uniform_weights(rng, 200_000, 3, 3)
    linear = w @ m + m @ np.swapaxes(w, 1, 2)
    for first, second in (((0, 1), (0, 1)), ((0, 1), (0, 0)), ((1, 1), (1, 1)), ((0, 0), (2, 2))):
        sample = linear[:, *first] * linear[:, *second]
        error = sample.std() / math.sqrt(sample.size)
        assert abs(sample.mean() - second_order_moments(m, first, second)) < 5 * error


# --- spectra ------------------------------------------------------------


def test_equal_rows() -> None:
    values = np.array([3.0, 0.5, 0.25, 0.25])
    m = equal_row_moments(values)
    assert np.allclose(np.diag(m), 1)
    assert np.allclose(np.linalg.norm(m, axis=0), np.linalg.norm(m[0]))
    assert np.allclose(np.linalg.eigvalsh(m), np.sort(values))
    assert equal_row_drift(values) == pytest.approx(float(frobenius_drift(m)))
    with pytest.raises(IsometerError, match="power of 2"):
        equal_row_moments([1.0, 1.0, 1.0])


def test_power_sums_by_eigenvalues() -> None:
    m = second_moments(np.random.default_rng(0).standard_normal((4, 3)))
    values = np.linalg.eigvalsh(m)
    sums = power_sums(m)
    assert (sums.trace, sums.square, sums.cube) == pytest.approx(((values).sum(), (values**2).sum(), (values**3).sum()))
    assert sums.diagonal == pytest.approx(sum(float(row @ row) ** 2 for row in m))


def test_two_level_norms_are_the_first_order() -> None:
    for d in (2, 5):
        small = 1e-7
        values = two_level_spectrum(d, small)
        exact = (values**2).sum(), (values**3).sum(), (values**2).sum() ** 2
        for true, near in zip(exact, two_level_norms(d, small), strict=True):
            assert true == pytest.approx(near, rel=1e-11)


def test_spiked_spectra() -> None:
    """d = 2^40, β = 0.75 in closed form: squares d^{1.5} + d, cubes d^{2.25} + d up to lower order."""
    d = 2.0**40
    first = d**0.75
    rest = (d - first) / (d - 1)
    alpha = spectral_regularity([first, rest], [1, d - 1])
    assert alpha == pytest.approx((d**1.5 + d) ** 2 / (d * (d**2.25 + d)), rel=1e-2)
    assert alpha <= spiked_regularity_bound(d, 0.75)


# --- the chain ------------------------------------------------------------


def test_step_is_batch_norm_without_centring() -> None:
    rng = np.random.default_rng(1)
    h, w = rng.standard_normal((5, 3)), uniform_weights(rng, 3, 3)
    expected = batch_normalize(h + 0.3 * np.tanh(h) @ w.T, recenter=False)
    assert np.allclose(normalized_step(h, w, 0.3, np.tanh), expected)
    assert np.allclose(residual_step(h, w, math.inf, np.tanh), np.tanh(h) @ w.T)
    assert np.array_equal(normalized_step(np.zeros((2, 2)), np.eye(2), 1.0), np.zeros((2, 2)))


def test_moment_change_in_two_ways() -> None:
    rng = np.random.default_rng(2)
    h, w = rng.standard_normal((4, 3)), uniform_weights(rng, 3, 3)
    assert np.allclose(moment_change(h, w, 0.2, np.sin), moment_change_expansion(h, w, 0.2, np.sin))
    constant = np.ones((1, 3))
    largest = moment_change(constant, np.full((3, 3), math.sqrt(3)), 0.2)
    assert largest == pytest.approx(moment_change_bound(3, 1.0, 0.2))


def test_printed_batch_norm_has_the_wrong_variance() -> None:
    """Features 1 and 3: mean 2, variance 1, mean square 5."""
    assert np.var(batch_norm_as_printed([[1.0], [3.0]])) == pytest.approx(1 / 5)


def test_whitening() -> None:
    h = np.random.default_rng(0).standard_normal((6, 3))
    assert np.allclose(second_moments(whitened(h)), np.eye(3))
    single = np.outer([1.0, 2.0], [1.0, 1.0])
    assert np.allclose(np.linalg.eigvalsh(second_moments(whitened(single))), [0, 1])


def test_multiples() -> None:
    assert multiple_residual([0.0, 0.0], [1.0, 0.0]) == 0
    assert multiple_residual([1.0, 1.0], [0.0, 0.0]) == 1
    assert multiple_residual([1.0, 1.0], [2.0, 0.0]) == pytest.approx(0.5)


def test_frozen_signs_are_frozen_at_the_edge_and_not_beyond() -> None:
    d = 3
    edge = 1 / (math.sqrt(3) * d)
    worst = -math.sqrt(3) * np.ones((d, d))
    for gamma, frozen in ((0.999 * edge, True), (1.001 * edge, False)):
        assert sign_states_frozen(d, gamma) is frozen
        assert bool((normalized_step(np.ones((1, d)), worst, gamma) > 0).all()) is frozen
    assert several_invariant_laws(2, d, 10.0)
    assert not several_invariant_laws(1, d, 10.0)
