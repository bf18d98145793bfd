"""Gradients and Jacobians against closed forms and automatic differentiation."""

import math

import numpy as np
import pytest
import torch

from isometer import metrics


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300, 5e-324])
def test_gradient_log_norm_neither_over_nor_underflows(scale: float) -> None:
    signs = np.array([[1.0, -1.0, 1.0], [1.0, 1.0, -1.0]])
    assert metrics.gradient_log_norm(signs * scale) == pytest.approx(math.log(scale) + math.log(6) / 2, rel=1e-14)


def test_gradient_log_norm_in_low_precision_and_at_zero() -> None:
    assert metrics.gradient_log_norm(np.full((2, 2), 6e4, np.float16)) == pytest.approx(math.log(1.2e5), rel=1e-4)
    assert metrics.gradient_log_norm(torch.full((2, 2), 1e30)).item() == pytest.approx(math.log(2e30), rel=1e-6)
    assert metrics.gradient_log_norm(torch.full((2, 2), 1e-44)).item() == pytest.approx(math.log(2e-44), rel=1e-3)
    zero_and_one = np.stack([np.zeros((2, 2)), np.eye(2)])
    np.testing.assert_allclose(metrics.gradient_log_norm(zero_and_one), [-math.inf, math.log(2) / 2])


def test_explosion_rate() -> None:
    layers = np.arange(30.0)
    np.testing.assert_allclose(metrics.explosion_rate(0.3 * layers), np.full(20, 0.3))
    curve = np.stack([layers**2, -layers])
    rates = metrics.explosion_rate(curve, lag=4)
    assert rates.shape == (2, 26)
    np.testing.assert_allclose(rates[0], 2 * layers[4:] - 4)
    np.testing.assert_allclose(rates[1], -1)


def test_explosion_rate_of_vanished_gradients() -> None:
    rates = metrics.explosion_rate([0.0, -math.inf, -math.inf, 1.0], lag=1)
    assert rates.tolist() == [-math.inf, 0, math.inf]


def per_sample_gradients(inputs: np.ndarray, cotangents: np.ndarray) -> np.ndarray:
    return np.einsum("no,ni->noi", cotangents, inputs).reshape(len(inputs), -1)


def test_linear_gradient_gram_is_that_of_the_gradients() -> None:
    rng = np.random.default_rng(0)
    inputs, cotangents = rng.standard_normal((5, 7)), rng.standard_normal((5, 3))
    gradients = per_sample_gradients(inputs, cotangents)
    gram = metrics.linear_gradient_gram(inputs, cotangents)
    np.testing.assert_allclose(gram, metrics.gram(gradients), rtol=1e-12)
    direct, through_gram = metrics.gradient_alignment(gradients), metrics.gradient_alignment(gram=gram)
    np.testing.assert_allclose(direct, through_gram, rtol=1e-12)
    units = gradients / np.linalg.norm(gradients, axis=1, keepdims=True)
    assert direct.top_share == pytest.approx(np.linalg.svdvals(units)[0] ** 2 / 5, rel=1e-12)


def test_gradient_alignment_extremes() -> None:
    rng = np.random.default_rng(1)
    collinear = np.outer([1.0, -2.0, 3.0, 0.0], rng.standard_normal(6))  # the zero gradient is left out
    np.testing.assert_allclose(metrics.gradient_alignment(collinear), [1, 1], rtol=1e-12)
    np.testing.assert_allclose(metrics.gradient_alignment(np.diag([1.0, 5.0, 9.0])), [0, 1 / 3], atol=1e-15)
    np.testing.assert_allclose(metrics.gradient_alignment(np.zeros((3, 4))), [1, 1])


def test_rank_one_inputs_make_the_gradients_of_each_neuron_collinear() -> None:
    # 002/prop-8, with ReLU before the last layer
    rng = np.random.default_rng(2)
    hidden = np.maximum(np.outer(rng.uniform(0.5, 2, 6), rng.standard_normal(8)), 0)
    cotangents = rng.standard_normal((6, 3))
    assert metrics.gradient_alignment(hidden).mean_abs_cosine == pytest.approx(1)
    for k in range(3):
        neuron = per_sample_gradients(hidden, cotangents[:, k : k + 1])
        assert metrics.gradient_alignment(neuron).mean_abs_cosine == pytest.approx(1)
    whole = metrics.gradient_alignment(gram=metrics.linear_gradient_gram(hidden, cotangents)).mean_abs_cosine
    assert whole == pytest.approx(metrics.mean_abs_cosine(cotangents))
    assert whole < 0.9


def test_jacobian_singular_values() -> None:
    jacobian = metrics.jacobian_singular_values(np.diag([1.0, 3.0, 2.0])[:, :])
    np.testing.assert_allclose(jacobian.singular_values, [3, 2, 1])
    assert jacobian.mean_squared == pytest.approx(14 / 3)
    assert jacobian.spread == pytest.approx(np.std([9, 4, 1]) / (14 / 3))
    orthogonal = np.linalg.qr(np.random.default_rng(3).standard_normal((6, 4)))[0]
    isometric = metrics.jacobian_singular_values(orthogonal)
    assert isometric.mean_squared == pytest.approx(1)
    assert isometric.spread == pytest.approx(0, abs=1e-14)
    assert metrics.jacobian_singular_values(1e-200 * orthogonal).spread == pytest.approx(0, abs=1e-14)
    assert list(metrics.jacobian_singular_values(np.zeros((2, 3))))[1:] == [0, 0]


@pytest.mark.parametrize(("n", "d"), [(4, 3), (3, 5), (5, 5), (2, 1)])
def test_batch_norm_jacobian_against_autograd(n: int, d: int) -> None:
    h = torch.from_numpy(np.random.default_rng(4).standard_normal((n, d)))
    full = torch.autograd.functional.jacobian(lambda x: x / torch.linalg.vector_norm(x, dim=0), h)
    matrix = full.reshape(n * d, n * d).numpy()
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-14)
    spectrum = metrics.batch_norm_jacobian_spectrum(h)
    assert (spectrum.multiplicity, spectrum.zeros) == (n - 1, d)
    predicted = np.concatenate([np.repeat(spectrum.values.numpy(), spectrum.multiplicity), np.zeros(spectrum.zeros)])
    np.testing.assert_allclose(np.linalg.eigvalsh(matrix)[::-1], predicted, atol=1e-13)
    assert metrics.batch_norm_jacobian_norm(h).item() == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-13)


def test_batch_norm_jacobian_bounds() -> None:
    # 001/lem-C.16, lem-C.17, lem-C.13, lem-C.20, for n = d and trace-normalised input
    h = np.random.default_rng(5).standard_normal((300, 6, 6))
    # from generic down to nearly orthogonal, where ψ ≤ 1/(16 d)
    h = np.concatenate([h, np.linalg.qr(h)[0] + 0.02 * h])
    h = h * np.sqrt(6 / np.sum(h * h, axis=(-2, -1), keepdims=True))
    smallest = np.linalg.svdvals(h)[:, -1] ** 2
    norm, scaled_gap = metrics.batch_norm_jacobian_norm(h), 6 * metrics.isometry_gap(h)
    assert (norm**2 <= 1 / smallest * (1 + 1e-12)).all()
    assert (-np.log(smallest) <= scaled_gap + 1).all()
    assert (np.log(norm) <= scaled_gap + 1).all()
    small = scaled_gap <= 1 / 16
    assert 100 < small.sum() < 500
    assert (-np.log(smallest[small]) <= 2 * np.sqrt(scaled_gap[small])).all()


def test_batch_norm_jacobian_degenerate() -> None:
    zero_feature = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert metrics.batch_norm_jacobian_norm(zero_feature) == math.inf
    assert metrics.batch_norm_jacobian_spectrum(zero_feature).values.tolist() == [math.inf, pytest.approx(0.5**0.5)]
    assert metrics.batch_norm_jacobian_norm([[2.0, 3.0]]) == 0  # one sample becomes ±1 whatever it is
    assert metrics.batch_norm_jacobian_norm(np.full((2, 2), 5e-324)) == math.inf
    assert metrics.batch_norm_jacobian_norm(np.full((4, 2), 1e-200)) == pytest.approx(5e199)
