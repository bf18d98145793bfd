"""The law of Gram matrices at finite width: packed matrices, responses of layers, draws, shifts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from isometer import activation
from isometer.data import make_batch
from isometer.spec import Norm, Spec
from isometer.theory.networks._columns import (
    Activate,
    Affine,
    NormalizeBatch,
    evaluate,
    evaluate_with_jacobian,
    evaluate_with_split_jacobian,
    odd_operations,
    seen_covariance,
)
from isometer.theory.networks._points import gaussian_batches
from isometer.theory.prediction import finite_width
from isometer.theory.prediction._fluctuations import _POINTS, gram_laws, response_of
from isometer.theory.prediction._forward import Forward
from isometer.theory.prediction._laws import GramLaw
from isometer.theory.prediction._symmetric import (
    congruence,
    exponential,
    packed,
    packed_operator,
    unpacked,
    unpacked_operator,
)

NAMED = {name: NormalizeBatch(Norm.named(name)) for name in ("batch", "batch-rescale", "batch-recenter")}


def symmetric(rng: np.random.Generator, n: int) -> Any:
    a = rng.standard_normal((n, n))
    return a + a.T


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6))
def test_packed_matrices_keep_inner_products_and_maps(n: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other, into = symmetric(rng, n), symmetric(rng, n), rng.standard_normal((n, k))
    assert packed(one) @ packed(other) == pytest.approx(np.sum(one * other))
    np.testing.assert_allclose(unpacked(packed(one)), one, atol=1e-14)
    np.testing.assert_allclose(unpacked(congruence(into) @ packed(one)), into.T @ one @ into, atol=1e-12)
    whole = rng.standard_normal((n, n, n, n))
    image = np.einsum("ijab,ab->ij", whole, one)
    np.testing.assert_allclose(unpacked(packed_operator(whole) @ packed(one)), (image + image.T) / 2, atol=1e-11)
    entries = unpacked_operator(packed_operator(whole)) @ one.ravel()
    np.testing.assert_allclose(entries.reshape(n, n), (image + image.T) / 2, atol=1e-11)


@pytest.mark.parametrize("size", [0.0, 1e-9, 0.3, 5.0, 40.0])
def test_exponentials_are_those_of_scipy(size: float) -> None:
    rng = np.random.default_rng(1)
    matrices = size * np.stack([symmetric(rng, 7) for _ in range(3)])
    for found, matrix in zip(exponential(matrices), matrices, strict=True):
        expected = expm(matrix)
        np.testing.assert_allclose(found, expected, atol=1e-13 * max(1.0, size) * np.abs(expected).max())
    assert np.isnan(exponential(np.full((1, 2, 2), 1e4))).all()


@pytest.mark.parametrize("name", list(NAMED))
@pytest.mark.parametrize("place", [0, 1, 2])
def test_split_jacobians_are_the_whole_ones(name: str, place: int) -> None:
    """The norm before, between and behind activations; both forms at the same points."""
    acts = [Activate(activation("tanh"), 0.7), Affine(np.full(5, 0.2), np.linspace(0.5, 1.5, 5), 0.1)]
    operations = (*acts[:place], NAMED[name], *acts[place:])
    x = np.random.default_rng(0).standard_normal((6, 5))
    value, (diagonal, parts) = evaluate_with_split_jacobian(operations, x)
    expected_value, expected = evaluate_with_jacobian(operations, x)
    whole = diagonal[:, :, None] * np.eye(5)
    for left, row in parts:
        whole = whole - left[:, :, None] * np.broadcast_to(row, x.shape)[:, None, :]
    np.testing.assert_allclose(value, expected_value, atol=1e-14)
    np.testing.assert_allclose(whole, expected, atol=1e-13)
    odd = odd_operations(operations)
    assert odd == (1 if place == 0 else 0)
    np.testing.assert_allclose(evaluate(operations[:odd], -x), -evaluate(operations[:odd], x), atol=1e-14)


@pytest.mark.parametrize(
    "operations", [(NAMED["batch"],), (Activate(activation("relu"), 1.0),), (NAMED["batch-rescale"],)]
)
@pytest.mark.parametrize("activated", [False, True])
def test_responses_are_those_over_all_entries(operations: Any, activated: bool) -> None:
    """By sums over the n² entries and whole Jacobians, at the same points, entry by entry."""
    n = 4
    rng = np.random.default_rng(3)
    a = rng.standard_normal((n, 2 * n))
    covariance = a @ a.T / (2 * n)
    operations = (*operations, Activate(activation("gelu"), 1.2)) if activated else operations
    found = response_of(operations, covariance, 0.0)
    h, score = gaussian_batches(seen_covariance(operations, covariance), _POINTS)
    y, slope = evaluate_with_jacobian(operations, h)
    slope = slope if slope.ndim == 3 else slope[:, :, None] * np.eye(n)
    products = np.einsum("pi,pj->pij", y, y)
    centred = (products - products.mean(axis=0)).reshape(len(h), n * n)
    np.testing.assert_allclose(
        unpacked_operator(found.noise), centred.T @ centred / len(h), atol=1e-12 * np.abs(found.noise).max()
    )
    half = 0.5 * np.einsum("pia,pj,pb->ijab", slope, y, score) / len(h)
    derivative = packed_operator(half + half.transpose(1, 0, 2, 3))
    np.testing.assert_allclose(found.derivative, derivative, atol=1e-12 * np.abs(derivative).max())


def test_draws_have_the_law() -> None:
    """Mean and covariance over 20,000 draws, to the error of so many and to second order in a variance of 1e-4."""
    rng = np.random.default_rng(5)
    mean = np.eye(3) + 0.3
    root = 1e-2 * rng.standard_normal((6, 6))
    law = GramLaw(mean, root @ root.T, np.zeros(3), np.zeros((3, 3)), np.zeros((6, 3)))
    factors, _ = law.draws(20_000)
    vectors = packed(factors @ np.swapaxes(factors, 1, 2))
    np.testing.assert_allclose(vectors.mean(axis=0), packed(mean), atol=3e-4)
    np.testing.assert_allclose(np.cov(vectors.T), law.covariance, atol=0.05 * np.abs(law.covariance).max())
    middle, above, below = law.opposite_draws(50)
    np.testing.assert_allclose(middle @ middle.T, mean, atol=1e-13)
    both = (above @ np.swapaxes(above, 1, 2) + below @ np.swapaxes(below, 1, 2)) / 2
    np.testing.assert_allclose(both.mean(axis=0), mean, atol=1e-5)  # fourth order: S² is taken out on average


def test_the_length_that_a_norm_fixes_stays_fixed() -> None:
    spec = Spec(width=40, depth=4, norm="layer", order=("weights", "activation", "norm"))
    band = finite_width(spec, make_batch("gaussian", 5, 40), metrics=["log_norm"])["log_norm"].values[:, 1:]
    np.testing.assert_allclose(band, 0.5 * np.log(5 * 40), atol=1e-12)
    laws = gram_laws(Forward(spec), make_batch("gaussian", 5, 40), is_gram=False)
    np.testing.assert_allclose(np.diag(laws[-1].mean), 1.0, atol=1e-12)
