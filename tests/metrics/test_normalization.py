"""Chapter 4 of the thesis: what normalisation does to isometry, and where its corollaries stop."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from isometer import metrics


def random_batches(seed: int, count: int, n: int, d: int) -> np.ndarray:
    """Gaussian samples with lengths from equal to spread over several powers of ten."""
    rng = np.random.default_rng(seed)
    spread = np.linspace(0, 3, count)[:, None, None]
    return rng.standard_normal((count, n, d)) * np.exp(spread * rng.standard_normal((count, n, 1)))


def measured_gain(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    return np.exp(metrics.isometry_gap(before) - metrics.isometry_gap(after))


@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 3), (4, 9), (8, 8), (12, 40)])
def test_theorem_4_3(n: int, d: int) -> None:
    h = random_batches(n, 400, n, d)
    bound, gain = metrics.isometry_gain_bound(h), metrics.isometry_gain(h)
    measured = measured_gain(h, metrics.rms_normalize(h))
    np.testing.assert_allclose(measured, gain, rtol=1e-9)  # the identity of the proof
    assert (measured >= bound * (1 - 1e-9)).all()
    assert (gain > 1).all()
    assert (bound[50:] > 1 + 1e-6).all()
    lengths = np.linalg.norm(h, axis=-1)
    np.testing.assert_allclose(bound, 1 + lengths.var(-1) / lengths.mean(-1) ** 2, rtol=1e-12)
    closed = (lengths**2).mean(-1) / np.exp(2 * np.log(lengths).mean(-1))
    np.testing.assert_allclose(gain, closed, rtol=1e-12)
    np.testing.assert_allclose(metrics.isometry_gain(gram=metrics.gram(h)), gain, rtol=1e-12)
    np.testing.assert_allclose(metrics.isometry_gain_bound(gram=metrics.gram(h)), bound, rtol=1e-12)


def test_theorem_4_3_equality() -> None:
    h = metrics.rms_normalize(random_batches(1, 200, 5, 7)) * np.geomspace(1e-3, 1e3, 200)[:, None, None]
    for value in (metrics.isometry_gain(h), metrics.isometry_gain_bound(h)):
        np.testing.assert_allclose(value, 1, rtol=0, atol=1e-15)
    np.testing.assert_allclose(measured_gain(h, metrics.rms_normalize(h)), 1, rtol=1e-12)
    # otherwise the bound is strict, unlike the chain of equalities (4.5)–(4.7) as printed
    uneven = np.diag([1.0, 2.0])
    assert metrics.isometry_gain(uneven) > 1.1 * metrics.isometry_gain_bound(uneven)


@given(hnp.arrays(np.float64, st.integers(2, 8), elements=st.floats(1e-6, 1e6)))
@settings(max_examples=150, deadline=None)
def test_gain_is_at_least_its_bound_for_all_lengths(lengths: np.ndarray) -> None:
    h = np.diag(lengths)
    assert 1 <= metrics.isometry_gain_bound(h) <= metrics.isometry_gain(h) * (1 + 1e-12)
    assert metrics.isometry_gap_decrease(h) >= 0


def test_gap_decrease_is_accurate_when_it_is_tiny_and_when_it_is_huge() -> None:
    for lengths in ([1.0, 1 + 2.0**-30, 1.0], [1.0, 1e-250, 1e200]):
        with mpmath.workdps(80):
            squares = [mpmath.mpf(a) ** 2 for a in lengths]
            exact = float(mpmath.log(mpmath.fsum(squares) / 3) - mpmath.fsum(map(mpmath.log, squares)) / 3)
        assert metrics.isometry_gap_decrease(np.diag(lengths)) == pytest.approx(exact, rel=1e-6)


def test_gain_with_zero_samples() -> None:
    some, every = np.array([[1.0, 0.0], [0.0, 0.0]]), np.zeros((2, 2))
    assert metrics.isometry_gain(some) == metrics.isometry_gap_decrease(some) == math.inf
    assert metrics.isometry_gain_bound(some) == 2
    assert metrics.isometry_gap_decrease(every) == 0
    assert metrics.isometry_gain(every) == metrics.isometry_gain_bound(every) == 1
    assert metrics.batch_norm_gain_bound_as_printed(every) == 1


def test_corollary_4_4_holds_for_rms_and_fails_for_layer_norm() -> None:
    h = random_batches(2, 500, 5, 20)
    assert (measured_gain(h, metrics.rms_normalize(h)) >= metrics.isometry_gain_bound(h) * (1 - 1e-9)).all()
    assert (measured_gain(h, metrics.layer_normalize(h)) < metrics.isometry_gain_bound(h)).any()
    # orthonormal samples lose all isometry: centring takes one of d dimensions
    assert metrics.isometry_gap(np.eye(4)) == 0
    assert metrics.isometry_gap(metrics.layer_normalize(np.eye(4))) == math.inf


@pytest.mark.parametrize(("n", "d"), [(6, 6), (9, 4), (40, 12)])
def test_corollary_4_5_without_mean_subtraction(n: int, d: int) -> None:
    h = random_batches(3, 300, d, n).mT
    after = metrics.batch_normalize(h, recenter=False)
    measured = measured_gain(h.mT, after.mT)
    np.testing.assert_allclose(measured, metrics.isometry_gain(h.mT), rtol=1e-9)
    assert (measured >= metrics.isometry_gain_bound(h.mT) * (1 - 1e-9)).all()
    printed = metrics.batch_norm_gain_bound_as_printed(h)
    lengths = np.linalg.norm(h, axis=-2)
    reference = lengths.sum(-1, keepdims=True) / n
    np.testing.assert_allclose(printed, 1 + np.mean((lengths - reference) ** 2, -1) / reference[:, 0] ** 2, rtol=1e-12)
    if n == d:
        np.testing.assert_allclose(printed, metrics.isometry_gain_bound(h.mT), rtol=1e-12)
    else:
        assert (printed > measured).any()


def test_corollary_4_5_as_printed_fails_for_equal_features() -> None:
    h = np.vstack([np.eye(3), np.eye(3)])  # n = 6, d = 3: the gain is 1, the printed bound 1 + (n/d − 1)²
    assert metrics.isometry_gain(h.T) == 1
    assert metrics.batch_norm_gain_bound_as_printed(h) == pytest.approx(2)


def test_corollary_4_5_fails_with_mean_subtraction() -> None:
    square = np.random.default_rng(4).standard_normal((5, 5))  # n = d: centring makes the features dependent
    assert math.isfinite(metrics.isometry_gap(square.T))
    assert metrics.isometry_gap(metrics.batch_normalize(square).T) == math.inf
    h = random_batches(5, 300, 4, 12).mT
    gain = measured_gain(h.mT, metrics.batch_normalize(h).mT)
    assert (gain < metrics.isometry_gain_bound(h.mT)).any()


def test_lemma_6_2_identity() -> None:
    h = random_batches(6, 200, 6, 6)
    change = metrics.isometry_gap(metrics.batch_normalize(h, recenter=False)) - metrics.isometry_gap(h)
    features = np.sum(h * h, axis=-2)
    np.testing.assert_allclose(change, np.log(features).mean(-1) - np.log(features.mean(-1)), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(change, -metrics.isometry_gap_decrease(h.mT), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200, 1e-310])
def test_operators(scale: float) -> None:
    h = np.random.default_rng(7).standard_normal((2, 5, 8)) * scale
    layer, rms = metrics.layer_normalize(h), metrics.rms_normalize(h)
    batch, plain = metrics.batch_normalize(h), metrics.batch_normalize(h, recenter=False)
    np.testing.assert_allclose(layer.mean(-1), 0, atol=1e-8)
    np.testing.assert_allclose(batch.mean(-2), 0, atol=1e-8)
    np.testing.assert_allclose((layer**2).mean(-1), 1, rtol=1e-13)
    np.testing.assert_allclose((rms**2).mean(-1), 1, rtol=1e-13)
    np.testing.assert_allclose((batch**2).mean(-2), 1, rtol=1e-13)
    np.testing.assert_allclose((plain**2).mean(-2), 1, rtol=1e-13)
    ratio = rms * scale / h
    np.testing.assert_allclose(ratio, ratio[..., :1] * np.ones(8), rtol=1e-8)
    if scale == 1:
        np.testing.assert_allclose(batch, (h - h.mean(-2, keepdims=True)) / h.std(-2, keepdims=True), rtol=1e-12)
        np.testing.assert_allclose(layer, (h - h.mean(-1, keepdims=True)) / h.std(-1, keepdims=True), rtol=1e-12)


def test_operators_on_what_cannot_be_scaled() -> None:
    assert not metrics.layer_normalize(np.full((2, 3), 0.1)).any()
    assert not metrics.batch_normalize(np.full((3, 2), 0.1)).any()
    assert not metrics.batch_normalize(np.zeros((3, 2)), recenter=False).any()
    assert not metrics.batch_normalize([[0.3, 5.0]]).any()  # one sample is its own mean
    mixed = metrics.batch_normalize([[0.1, 1.0], [0.1, 3.0], [0.1, 5.0]])
    assert not mixed[:, 0].any()
    assert mixed[:, 1].any()
