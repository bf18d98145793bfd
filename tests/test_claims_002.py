"""Paper 002: the formulas behind its claims against references of their own, and the verdicts."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from isometer.errors import IsometerError
from isometer.metrics import batch_normalize
from isometer_papers.claims import find, ledger
from isometer_papers.simulate.rank_steps import (
    growth_exponents,
    plain_chain,
    uniform_weights,
    weak_layer_change,
    weak_layer_statistics,
)
from isometer_papers.theory.rank.bounds import (
    entry_drift,
    equal_row_drift,
    equal_row_moments,
    moment_change_bound,
    power_sums,
    second_moments,
    soft_rank_bound,
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


def test_uniform_weights_are_uniform() -> None:
    sample = uniform_weights(np.random.default_rng(0), 20_000)
    assert stats.kstest(sample, stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)).cdf).pvalue > 1e-4


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


def test_one_sample_has_the_uniform_law() -> None:
    """N = 1, d = 2, γ = 1: each sign flips with one probability whatever the state; χ² on the four states."""
    states = plain_chain(np.ones((1, 2)), 1.0, layers=20_000, rng=np.random.default_rng(0), every=20)[:, 0]
    codes = (states > 0) @ np.array([1, 2])
    assert stats.chisquare(np.bincount(codes, minlength=4)).pvalue > 1e-4


def test_growth_exponents_sum_to_the_log_determinant() -> None:
    """For d = 2 both exponents together are E log|det(I + γW)|, here by quadrature; within four standard errors."""
    gamma = 0.5
    nodes, weights = np.polynomial.legendre.leggauss(16)
    grid = np.array(list(product(nodes, repeat=4))).reshape(-1, 2, 2) * math.sqrt(3)
    weight = np.prod(np.array(list(product(weights, repeat=4))) / 2, axis=1)
    exact = weight @ np.log(np.abs(np.linalg.det(np.eye(2) + gamma * grid)))
    found = growth_exponents(2, gamma, layers=2000, chains=32, rng=np.random.default_rng(0)).sum(1)
    assert abs(found.mean() - exact) < 4 * found.std() / math.sqrt(31) + 2e-3


def test_chains_keep_their_features_at_unit_size() -> None:
    states = plain_chain(np.eye(4), 0.3, layers=5, rng=np.random.default_rng(0), function=np.tanh)
    assert np.allclose((states**2).mean(1), 1)
    vanilla = plain_chain(np.eye(4), 0.3, layers=5, rng=np.random.default_rng(0), normalize=False)
    assert np.allclose(np.linalg.norm(vanilla, axis=(1, 2)), 1)


# --- verdicts ------------------------------------------------------------

REFUTED = {
    "002/def-bn:unit-variance",
    "002/eq-4:below-rank",
    "002/eq-4:words",
    "002/eq-5:into-space",
    "002/def-space-H:off-diagonal",
    "002/ex-14:eq-83-cube",
    "002/ex-14:eq-83-fourth",
    "002/ex-14:eq-83-square",
    "002/ex-14:leading",
    "002/ex-17",
    "002/lem-1",
    "002/lem-12-steps:eq-78",
    "002/lem-15",
    "002/lem-20:expansion",
    "002/lem-21:rank",
    "002/lem-4",
    "002/prop-13:diagonal",
    "002/prop-8:gradients-linear",
    "002/prop-8:gradients-relu",
    "002/prop-8:linear",
    "002/prop-8:relu",
    "002/tab-1:vanilla-tanh",
}
VACUOUS = {
    "002/eq-64-66:rank",
    "002/lem-18",
    "002/lem-18:eq-58",
    "002/lem-21",
    "002/lem-7",
    "002/thm-19:rank",
    "002/thm-19:regularity",
    "002/thm-3:root-d",
    "002/thm-3:soft-rank",
    "002/thm-5",
}


def test_shipped_verdicts() -> None:
    shipped = {row.id: row.verdict for row in ledger("002")}
    assert {i for i, verdict in shipped.items() if verdict == "refuted"} == REFUTED
    assert {i for i, verdict in shipped.items() if verdict == "vacuous"} == VACUOUS
    assert {i for i, verdict in shipped.items() if verdict == "inconclusive"} <= {"002/tab-1:bn-tanh"}


def test_counterexamples_by_hand() -> None:
    """The shipped ones, recomputed with nothing but NumPy."""
    found = {row.id: row.counterexample["instance"] for row in ledger("002") if row.counterexample is not None}
    h = np.array(found["002/lem-1"]["H"])
    assert np.linalg.matrix_rank(h) == pytest.approx(float(soft_rank_bound(h, 0)))
    relu = found["002/prop-8:relu"]
    first, second = (np.maximum(a * np.array(relu["u"]), 0) for a in relu["a"])
    assert np.linalg.matrix_rank(np.stack([first, second])) == 2
    step = found["002/lem-21:rank"]
    h, w = np.array(step["H"]), np.array(step["W"])
    assert np.linalg.matrix_rank(h) == 1
    assert np.linalg.matrix_rank(h + step["gamma"] * np.tanh(h) @ w.T) == 2


def test_parts_are_found_together() -> None:
    assert {claim.id for claim in find("002/lem-18")} >= {"002/lem-18", "002/lem-18#corrected", "002/lem-18:eq-61"}
