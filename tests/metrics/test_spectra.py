"""Metrics of the spectrum against closed forms and high precision."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from isometer import metrics

matrices = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6).flatmap(
    lambda shape: hnp.arrays(
        np.float64, shape, elements=st.floats(-4, 4, allow_subnormal=False).map(lambda x: round(x, 3))
    )
)


def orthogonal(seed: int, side: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((side, side)))[0]


def with_singular_values(values: Any, width: int, seed: int = 0) -> np.ndarray:
    n = len(values)
    return orthogonal(seed, n) @ np.diag(values) @ orthogonal(seed + 1, width)[:n]


def exact_isometry_gap(representation: np.ndarray) -> float:
    """−log I(H Hᵀ) of the very numbers in `representation`, with 700 digits."""
    with mpmath.workdps(700):
        h = mpmath.matrix(representation.tolist())
        g = h * h.T
        n = g.rows
        trace = mpmath.fsum(g[i, i] for i in range(n))
        return float(mpmath.log(trace / n) - mpmath.log(mpmath.det(g)) / n)


# orthogonality ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 7), (5, 5), (7, 3), (6, 1)])
def test_orthogonality_gap_extremes(n: int, d: int) -> None:
    frame = with_singular_values(np.ones(min(n, d)), max(n, d))
    frame = frame if n <= d else frame.T
    assert metrics.orthogonality_gap(5 * frame) == pytest.approx(math.sqrt(max(1 / d - 1 / n, 0)), abs=2e-15)
    line = np.outer(np.arange(1.0, n + 1), np.ones(d))
    assert metrics.orthogonality_gap(line) == pytest.approx(math.sqrt(1 - 1 / n), rel=1e-14)
    assert metrics.orthogonality_gap(np.zeros((n, d))) == math.sqrt(1 - 1 / n)
    assert metrics.spectral_variance(np.zeros((n, d))) == pytest.approx(n - 1)
    assert metrics.lyapunov_gap(np.zeros((n, d))) == 1 / n


def test_one_sample_is_orthogonal_and_isometric() -> None:
    one = np.array([[3.0, 4.0]])
    assert metrics.orthogonality_gap(one) == metrics.isometry_gap(one) == metrics.lyapunov_gap(one) == 0
    assert metrics.isometry(one) == metrics.condition_number(one) == metrics.stable_rank(one) == 1


@pytest.mark.parametrize("width", [2, 3, 4, 9])
def test_orthogonality_metrics_from_singular_values(width: int) -> None:
    sigma = np.array([3.0, 2.0, 0.5, 0.1])[:width]
    rows = with_singular_values(sigma, max(width, 4))
    h = rows if width >= 4 else rows.T
    n = h.shape[0]
    p = np.zeros(n)
    p[: len(sigma)] = sigma**2 / np.sum(sigma**2)
    assert metrics.orthogonality_gap(h) == pytest.approx(np.sqrt(np.sum((p - 1 / n) ** 2)), rel=1e-13)
    assert metrics.spectral_variance(h) == pytest.approx(np.mean((n * p - 1) ** 2), rel=1e-13)
    assert metrics.lyapunov_gap(h) == pytest.approx(1 / n - p.min(), abs=1e-15)
    assert metrics.wasserstein_to_isotropic(h) ** 2 == pytest.approx(np.sum((np.sqrt(p) - n**-0.5) ** 2), rel=1e-13)


def test_tiny_orthogonality_gap_is_not_lost() -> None:
    g = np.eye(3)
    g[0, 1] = g[1, 0] = 1e-13
    assert metrics.orthogonality_gap(gram=g) == pytest.approx(math.sqrt(2) * 1e-13 / 3, rel=1e-12)


@given(matrices)
@settings(max_examples=150, deadline=None)
def test_ranges_and_inequalities(h: np.ndarray) -> None:
    n, d = h.shape
    v, lyapunov = metrics.orthogonality_gap(h), metrics.lyapunov_gap(h)
    assert max(1 / d - 1 / n, 0) - 1e-12 <= v**2 <= 1 - 1 / n + 1e-12
    assert 0 <= lyapunov <= 1 / n
    assert v <= 2 * n * lyapunov + 1e-12  # 001/lem-A.1
    assert v <= math.sqrt(2) * (n - 1) * lyapunov + 1e-12  # the proof's constant
    if h.any():
        w = metrics.wasserstein_to_isotropic(h) ** 2
        assert w <= n * v**2 + 1e-12  # 001/lem-2.2
        assert w <= 2 - 2 / math.sqrt(n) + 1e-12
        rank, stable, effective = metrics.rank(h), metrics.stable_rank(h), metrics.effective_rank(h)
        assert rank == np.linalg.matrix_rank(h)
        assert 1 - 1e-12 <= stable <= effective + 1e-9 <= rank + 2e-9
        assert metrics.rank(h, relative=True) == rank / min(n, d)
    gap = metrics.isometry_gap(h)
    assert gap >= 0
    assert 0 <= metrics.isometry(h) <= 1
    if n > d:
        assert gap == math.inf


# isometry -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [1e-2, 1e-5, 1e-9])
def test_isometry_gap_near_zero(spread: float) -> None:
    x = spread * np.array([1.0, -2.0, 0.5, 0.5])
    exact = float(-mpmath.fsum(mpmath.log1p(mpmath.mpf(value)) for value in x.tolist()) / 4)
    # 1 + x is rounded to ε, so x and the gap x²/2 are known to ε/x
    tolerance = 20 * np.finfo(float).eps / spread
    assert metrics.isometry_gap(gram=np.diag(1 + x)) == pytest.approx(exact, rel=tolerance)
    rotation = orthogonal(3, 4)
    assert metrics.isometry_gap(gram=rotation * (1 + x) @ rotation.T) == pytest.approx(exact, rel=tolerance)
    h = rotation * np.sqrt(1 + x) @ orthogonal(4, 9)[:4]
    assert metrics.isometry_gap(h) == pytest.approx(exact, rel=tolerance)
    assert metrics.isometry_gap(torch.from_numpy(h)).item() == pytest.approx(exact, rel=tolerance)


@pytest.mark.parametrize("condition", [1e2, 1e6, 1e10, 1e14])
@pytest.mark.parametrize(("n", "d"), [(3, 3), (6, 10)])
def test_isometry_gap_of_ill_conditioned_representations(condition: float, n: int, d: int) -> None:
    h = with_singular_values(np.geomspace(1, 1 / condition, n), d, seed=5)
    exact = exact_isometry_gap(h)
    # the smallest singular value is known to ε of the largest
    tolerance = 20 * np.finfo(float).eps * condition / n + 1e-13
    assert abs(metrics.isometry_gap(h) - exact) < tolerance
    assert abs(metrics.isometry_gap(torch.from_numpy(h)).item() - exact) < tolerance
    assert metrics.isometry(h) == pytest.approx(math.exp(-exact), rel=2 * tolerance)
    g = h @ h.T
    if condition <= 1e6:
        assert abs(metrics.isometry_gap(gram=g) - exact) < 20 * np.finfo(float).eps * condition**2 / n + 1e-13
    if condition >= 1e10:
        assert metrics.isometry_gap(gram=g) == math.inf  # its eigenvalues are rounding errors


def test_isometry_gap_of_lengths_of_any_ratio() -> None:
    h = np.random.default_rng(6).standard_normal((4, 6)) * np.array([[1.0], [1e-60], [1e80], [1e-120]])
    assert metrics.isometry_gap(h) == pytest.approx(exact_isometry_gap(h), rel=1e-13)
    assert metrics.isometry_gap(np.diag([1.0, 1e-300])) == pytest.approx(300 * math.log(10) - math.log(2), rel=1e-14)


def test_hilbert_matrix_as_gram() -> None:
    n = 8
    g = np.array([[1 / (i + j + 1) for j in range(n)] for i in range(n)])
    with mpmath.workdps(60):
        m = mpmath.matrix(g.tolist())
        exact = float(mpmath.log(mpmath.fsum(m[i, i] for i in range(n)) / n) - mpmath.log(mpmath.det(m)) / n)
    assert metrics.isometry_gap(gram=g) == pytest.approx(exact, rel=1e-6)  # condition number 1.5e10


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "d"), [(2, 2), (5, 8), (12, 12), (30, 100)])
def test_dependent_samples_have_an_infinite_gap(dtype: type, n: int, d: int) -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        h = rng.standard_normal((n, d)).astype(dtype)
        repeated, scaled, summed, zero = h.copy(), h.copy(), h.copy(), h.copy()
        repeated[-1], scaled[-1], summed[-1], zero[-1] = h[0], -3 * h[0], h[:-1].sum(0), 0
        for case in (repeated, scaled, summed, zero, h - h.mean(0)):
            assert metrics.isometry_gap(case) == math.inf
            assert metrics.isometry(case) == 0
            assert metrics.isometry_gap(gram=metrics.gram(case)) == math.inf
        for case in (repeated, zero, h - h.mean(0)):
            assert metrics.condition_number(case) == math.inf
        assert np.isfinite(metrics.isometry_gap(h))
    assert metrics.isometry_gap(np.zeros((n, d), dtype=dtype)) == math.inf


def test_isometry_of_two_planar_vectors() -> None:
    # 001/fig-4.1: volume over scale is a b sin θ / (a² + b²), half the isometry
    a, b, theta = 2.0, 0.7, 1.1
    h = np.array([[a, 0.0], [b * math.cos(theta), b * math.sin(theta)]])
    assert metrics.isometry(h) / 2 == pytest.approx(a * b * math.sin(theta) / (a * a + b * b), rel=1e-14)
    assert metrics.isometry(h.T) == pytest.approx(metrics.isometry(h), rel=1e-13)  # n = d


# ranks --------------------------------------------------------------------------------------------------------------


def test_stable_rank_is_no_strict_lower_bound() -> None:
    assert metrics.stable_rank(np.eye(3)) == pytest.approx(3) == metrics.rank(np.eye(3))  # 002/lem-1 prints rank > r


def test_ranks_of_known_spectra() -> None:
    lam = np.array([4.0, 2.0, 1.0, 1.0])
    h = with_singular_values(np.sqrt(lam), 6)
    p = lam / 8
    assert metrics.stable_rank(h) == pytest.approx(64 / 22, rel=1e-13)
    assert metrics.effective_rank(h) == pytest.approx(math.exp(-np.sum(p * np.log(p))), rel=1e-13)
    assert metrics.effective_rank(h, relative=True) == pytest.approx(metrics.effective_rank(h) / 4)
    assert metrics.effective_rank(h.T, relative=True) == pytest.approx(metrics.effective_rank(h) / 4)
    assert metrics.condition_number(h) == pytest.approx(4, rel=1e-12)
    np.testing.assert_allclose(metrics.spectrum(h), lam / 6, rtol=1e-12)
    np.testing.assert_allclose(metrics.spectrum(h.T), [*(lam / 4), 0, 0], rtol=1e-12)
    np.testing.assert_allclose(metrics.spectrum(h, top=2), lam[:2] / 6, rtol=1e-12)


def test_zeros_have_rank_zero() -> None:
    for zero in (np.zeros((3, 5)), np.zeros((5, 3))):
        assert metrics.rank(zero) == metrics.stable_rank(zero) == metrics.effective_rank(zero) == 0
        assert metrics.soft_rank(zero) == 0
        assert metrics.condition_number(zero) == math.inf
        assert metrics.wasserstein_to_isotropic(zero) == pytest.approx(1)


def test_centred_ranks_are_relative_to_what_is_attainable() -> None:
    simplex = np.eye(4)  # centred, three equal directions are left
    collapsed = np.full((4, 4), 0.1)  # equal samples, up to the last digit
    collapsed[0, 1] = collapsed[1, 0] = np.nextafter(0.1, 1)
    for metric in (metrics.rank, metrics.stable_rank, metrics.effective_rank):
        assert metric(simplex, centered=True) == pytest.approx(3)
        assert metric(simplex, centered=True, relative=True) == pytest.approx(1)
        assert metric(gram=simplex, centered=True, relative=True) == pytest.approx(1)
        assert metric(np.full((4, 6), 0.1), centered=True) == 0  # rounding is no direction
        assert metric(gram=collapsed, centered=True) == 0
        assert metric(np.random.default_rng(0).standard_normal((9, 2)), centered=True, relative=True) <= 1 + 1e-12


def test_rank_tolerance_and_precision() -> None:
    h = with_singular_values([1.0, 1e-5, 1e-12], 5)
    assert metrics.rank(h) == 3
    assert metrics.rank(h, tolerance=1e-9) == 2
    assert metrics.rank(gram=h @ h.T) == 2  # 1e-24 is below 3 ε
    assert metrics.rank(gram=h @ h.T, tolerance=1e-9) == 1
    assert metrics.rank(h.astype(np.float32)) == 2


def test_soft_rank_counts_second_moment_eigenvalues() -> None:
    sigma = np.sqrt(6 * np.array([2.0, 0.6, 0.4, 0.0]))  # n = 6 samples, d = 4 features
    h = with_singular_values(sigma, 6).T
    assert [int(metrics.soft_rank(h, tau=tau)) for tau in (0, 0.3, 0.5, 1, 3)] == [4, 3, 2, 1, 0]
    wide = h.T * math.sqrt(4 / 6)  # n = 4 samples, d = 6 features: two more zeros, counted for τ = 0 only
    assert [int(metrics.soft_rank(wide, tau=tau)) for tau in (0, 0.3, 0.5, 1, 3)] == [6, 3, 2, 1, 0]


@given(matrices, st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
@settings(max_examples=100, deadline=None)
def test_soft_rank_bound(h: np.ndarray, tau: float) -> None:
    normalised = metrics.batch_normalize(h, recenter=False)
    if (np.abs(normalised).sum(0) > 0).all():  # features of mean square one: 002/lem-2
        bound = (1 - tau) ** 2 * metrics.stable_rank(normalised)
        assert metrics.soft_rank(normalised, tau=tau) >= bound - 1e-9


# distances ----------------------------------------------------------------------------------------------------------


def test_gram_distance() -> None:
    g, target = np.diag([1.0, 4.0]), np.diag([1.0, 1.0])
    distance = metrics.gram_distance(gram=g, reference=target)
    assert distance.absolute == 3
    assert distance.relative == pytest.approx(3 / math.sqrt(2))
    nothing = metrics.gram_distance(gram=g, reference=np.zeros((2, 2)))
    assert nothing.relative == math.inf
    assert metrics.gram_distance(np.zeros((2, 2)), reference=np.zeros((2, 2))).relative == 0
    many = metrics.gram_distance(gram=np.stack([g, target]), reference=target)
    np.testing.assert_allclose(many.absolute, [3, 0])


def test_gaussian_wasserstein_closed_forms() -> None:
    rng = np.random.default_rng(8)
    a, b = np.array([4.0, 1.0, 0.0]), np.array([1.0, 9.0, 0.25])
    rotation = orthogonal(9, 3)
    commuting = metrics.gaussian_wasserstein(rotation * a @ rotation.T, rotation * b @ rotation.T)
    assert commuting == pytest.approx(np.linalg.norm(np.sqrt(a) - np.sqrt(b)), rel=1e-12)
    x, y = rng.standard_normal((2, 4, 6))
    first, second = x @ x.T, y @ y.T
    with mpmath.workdps(40):  # trace formula
        values = mpmath.eig(mpmath.matrix((first @ second).tolist()), left=False, right=False)
        overlap = float(mpmath.fsum(mpmath.sqrt(mpmath.re(value)) for value in values))
    squared = np.trace(first) + np.trace(second) - 2 * overlap
    assert metrics.gaussian_wasserstein(first, second) == pytest.approx(math.sqrt(squared), rel=1e-11)
    assert metrics.gaussian_wasserstein(first, first) == pytest.approx(0, abs=1e-13)
    close = metrics.gaussian_wasserstein(np.eye(3), (1 + 1e-10) ** 2 * np.eye(3))
    assert close == pytest.approx(math.sqrt(3) * 1e-10, rel=1e-5)


def test_wasserstein_to_isotropic_is_a_bures_distance() -> None:
    h = np.random.default_rng(10).standard_normal((4, 7))
    unit = h / np.linalg.norm(h)
    bures = metrics.gaussian_wasserstein(unit @ unit.T, np.eye(4) / 4)
    assert metrics.wasserstein_to_isotropic(h) == pytest.approx(bures, rel=1e-12)
    singular = np.vstack([h, h[:1]])
    assert metrics.wasserstein_to_isotropic(singular) == pytest.approx(
        metrics.wasserstein_to_isotropic(gram=metrics.gram(singular)), rel=1e-12
    )
