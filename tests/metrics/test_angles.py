"""Angles, clusters, the odd point, and the entries of a batch."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isometer import metrics


def planar(*degrees: float) -> np.ndarray:
    return np.array([[math.cos(math.radians(a)), math.sin(math.radians(a))] for a in degrees])


def test_angles_in_the_plane() -> None:
    h = planar(0, 30, 120) * np.array([[1.0], [5.0], [0.1]])
    statistics = metrics.angle_statistics(h)
    expected = np.array([30.0, 90.0, 120.0])
    np.testing.assert_allclose(
        statistics, [80, 30, 120, expected.std(), 3, 0], rtol=1e-12, err_msg="mean, min, max, std, pairs, zeros"
    )
    assert metrics.mean_angle_deg(h) == pytest.approx(80, rel=1e-13)
    assert metrics.mean_cosine(h) == pytest.approx(np.cos(np.radians(expected)).mean(), abs=1e-15)
    assert metrics.mean_abs_cosine(h) == pytest.approx(np.abs(np.cos(np.radians(expected))).mean(), rel=1e-13)
    np.testing.assert_allclose(np.diagonal(metrics.cosines(h)), 1, rtol=0)


@pytest.mark.parametrize("gap", [1e-1, 1e-4, 1e-9, 1e-14])
def test_small_angles_keep_their_digits(gap: float) -> None:
    h = np.array([[1.0, 0.0, 0.0], [1.0, gap, 0.0], [-1.0, 0.0, gap]])
    angles = metrics.angle_statistics(h)
    assert math.radians(angles.minimum) == pytest.approx(math.atan(gap), rel=1e-13)
    assert metrics.angle_statistics(torch.from_numpy(h)).minimum.item() == pytest.approx(angles.minimum, rel=1e-13)
    assert 180 - angles.maximum == pytest.approx(math.degrees(math.atan(gap)), rel=1e-12, abs=1e-13)


def test_equal_samples_have_angle_zero() -> None:
    h = np.tile(np.random.default_rng(0).standard_normal(7), (4, 1))
    assert metrics.mean_angle_deg(h) == 0
    assert metrics.mean_cosine(h) == pytest.approx(1, abs=1e-15)
    assert metrics.mean_angle_deg(gram=metrics.gram(h)) < 1e-5


def test_zero_samples_take_no_part() -> None:
    h = np.vstack([planar(0, 60), np.zeros((2, 2))])
    assert metrics.mean_cosine(h) == pytest.approx(0.5, rel=1e-14)
    assert metrics.mean_cosine(gram=metrics.gram(h)) == pytest.approx(0.5, rel=1e-14)
    assert metrics.mean_abs_cosine(h) == pytest.approx(0.5, rel=1e-14)
    assert metrics.mean_angle_deg(h) == pytest.approx(60, rel=1e-13)
    statistics = metrics.angle_statistics(h)
    assert (statistics.pairs, statistics.zero_samples) == (1, 2)
    np.testing.assert_array_equal(np.diagonal(metrics.cosines(h)), [1, 1, 0, 0])
    assert np.count_nonzero(metrics.cosines(h)[2:]) == 0


def test_a_batch_without_pairs_counts_as_collapsed() -> None:
    for h in (np.zeros((3, 2)), np.vstack([planar(10), np.zeros((2, 2))])):
        assert metrics.mean_cosine(h) == metrics.mean_abs_cosine(h) == 1
        assert list(metrics.angle_statistics(h))[:5] == [0, 0, 0, 0, 0]


@given(st.integers(2, 8), st.integers(1, 8), st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_mean_cosine_equals_the_mean_of_cosines(n: int, d: int, seed: int) -> None:
    h = np.random.default_rng(seed).standard_normal((n, d)) * np.geomspace(1, 1e6, n)[:, None]
    off = metrics.cosines(h)[~np.eye(n, dtype=bool)]
    assert metrics.mean_cosine(h) == pytest.approx(off.mean(), abs=1e-14)
    assert metrics.mean_abs_cosine(h) == pytest.approx(np.abs(off).mean(), abs=1e-14)
    assert -1 / (n - 1) - 1e-12 <= metrics.mean_cosine(h) <= 1
    assert -1 / (n - 1) - 1e-12 <= metrics.average_dot_product(h) <= 1 + 1e-12


def test_average_dot_product_weighs_long_samples() -> None:
    h = np.array([[3.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    products = h @ h.T
    expected = products[~np.eye(3, dtype=bool)].mean() / np.diagonal(products).mean()
    assert metrics.average_dot_product(h) == pytest.approx(expected, rel=1e-14)
    equal = planar(0, 50, 77)
    assert metrics.average_dot_product(equal) == pytest.approx(metrics.mean_cosine(equal), rel=1e-13)
    assert metrics.average_dot_product(np.zeros((3, 2))) == 1


def test_clusters_are_chains() -> None:
    h = planar(0, 4, 8, 12, 90, 180)
    assert [int(metrics.clusters(h, tolerance_deg=t)) for t in (3.9, 4.1, 79, 91)] == [6, 3, 2, 1]
    shuffled = h[[3, 5, 0, 4, 2, 1]] * np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]])
    assert metrics.clusters(shuffled, tolerance_deg=4.1) == 3
    assert metrics.clusters(gram=metrics.gram(shuffled), tolerance_deg=4.1) == 3
    assert metrics.clusters(np.vstack([h, np.zeros((2, 2))]), tolerance_deg=4.1) == 4
    assert metrics.clusters(np.zeros((4, 2))) == 1
    assert metrics.clusters(h[:1]) == 1
    long_chain = planar(*range(0, 90, 2))
    assert metrics.clusters(long_chain, tolerance_deg=2.01) == 1
    assert metrics.clusters(long_chain, tolerance_deg=1.99) == 45


@pytest.mark.parametrize("n", [3, 6, 20])
def test_invariant_geometry_of_the_odd_point(n: int) -> None:
    # 000/def-12, rotated
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 5)))[0]
    h = np.tile(rotation[1] / (n - 1), (n, 1))
    h[2] = rotation[0]
    odd = metrics.odd_point_statistics(h)
    expected = [2, 1 / (n - 1), 1 / (n - 1), 90, 90, 0, 0]
    np.testing.assert_allclose(odd, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(metrics.odd_point_statistics(gram=metrics.gram(h)), expected, rtol=1e-9, atol=1e-5)


def test_odd_point_against_a_loose_cluster() -> None:
    h = planar(0, 40, 50, 70) * np.array([[4.0], [1.0], [2.0], [3.0]])
    odd = metrics.odd_point_statistics(h)
    np.testing.assert_allclose(odd, [0, 0.5, 0.75, 40, 160 / 3, 20, 30], rtol=1e-12)
    tie = metrics.odd_point_statistics(planar(10, 50, 70))
    assert tie.second_norm_ratio == pytest.approx(1)


def test_odd_point_degenerate() -> None:
    assert list(metrics.odd_point_statistics(np.zeros((3, 2)))) == [0, 1, 1, 0, 0, 0, 0]
    alone = np.zeros((3, 2))
    alone[1, 0] = 5
    assert list(metrics.odd_point_statistics(alone)) == [1, 0, 0, 0, 0, 0, 0]
    assert metrics.odd_point_statistics(torch.ones(3, 2)).index == 0  # the first of equals


def test_moments() -> None:
    x = np.random.default_rng(2).gamma(2.0, size=(50, 40))
    mean, second, variance, skewness, kurtosis = metrics.moments(x)
    centred = x - x.mean()
    assert mean == pytest.approx(x.mean(), rel=1e-13)
    assert second == pytest.approx((x**2).mean(), rel=1e-13)
    assert variance == pytest.approx(x.var(), rel=1e-13)
    assert skewness == pytest.approx((centred**3).mean() / x.std() ** 3, rel=1e-12)
    assert kurtosis == pytest.approx((centred**4).mean() / x.var() ** 2, rel=1e-12)
    assert list(metrics.moments(np.full((3, 5), 0.1)))[2:] == [0, 0, 3]
    assert list(metrics.moments(np.zeros((3, 5)))) == [0, 0, 0, 0, 3]
    tiny = metrics.moments(x * 1e-100)
    assert (tiny.skewness, tiny.kurtosis) == (pytest.approx(skewness, rel=1e-12), pytest.approx(kurtosis, rel=1e-12))


def test_activity_sparsity() -> None:
    n = 10
    h = np.zeros((n, 4))
    h[:, 0] = -2.0  # responds to everything
    h[3, 1] = 7.0  # to one sample
    h[:, 2] = [1.0] * 5 + [0.05] * 5  # half of the batch, the rest is negligible
    activity = metrics.activity_sparsity(h)
    np.testing.assert_allclose(activity.active_fraction, [1, 0.1, 0.5, 0])
    mean, square = 0.525, (5 + 5 * 0.05**2) / 10
    np.testing.assert_allclose(activity.sparsity, [0, 1, (1 - mean**2 / square) / 0.9, 1], atol=1e-15)
    assert activity.widely_active_share == 0.25
    assert metrics.activity_sparsity(h, threshold=0.01).active_fraction[2] == 1
