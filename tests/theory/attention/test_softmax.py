"""Moments of softmax against integrals over the scores themselves, which tokens few enough allow."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isometer.errors import IsometerError
from isometer.theory.attention import pair_moments, row_moments, softmax_moments
from isometer.theory.attention._table import TABLE_ERROR, _exact, _tabulated

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def _grid(dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Points `(…, dimensions)` and weights of a standard Gaussian, a product rule."""
    axes = np.meshgrid(*[_NODES] * dimensions, indexing="ij")
    weights = np.meshgrid(*[_WEIGHTS] * dimensions, indexing="ij")
    return np.stack([a.ravel() for a in axes], -1), np.prod([w.ravel() for w in weights], axis=0)


def _softmax(scores: np.ndarray) -> np.ndarray:
    found = np.exp(scores - scores.max(-1, keepdims=True))
    return found / found.sum(-1, keepdims=True)


def _slope(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """tr(J_A J_B), from the matrices."""
    one, two = (np.einsum("pi,ij->pij", x, np.eye(x.shape[1])) - x[:, :, None] * x[:, None, :] for x in (a, b))
    return np.einsum("pij,pji->p", one, two)


@pytest.mark.parametrize(("width", "tokens"), [(0.3, 2), (1.0, 2), (0.5, 3), (1.0, 3)])
def test_a_row(width: float, tokens: int) -> None:
    points, weights = _grid(tokens)
    a = _softmax(width * points)
    found = row_moments(width, tokens)
    assert found.participation == pytest.approx(float(weights @ (a * a).sum(-1)), rel=1e-9)
    assert found.entropy == pytest.approx(float(-weights @ (a * np.log(a)).sum(-1)), rel=1e-9)
    assert found.slope == pytest.approx(float(weights @ _slope(a, a)), rel=1e-9)


@pytest.mark.parametrize("gap", [0.2, 0.9, 1.4])
def test_two_rows(gap: float) -> None:
    """Two tokens: only differences of scores matter, one Gaussian for each row."""
    points, weights = _grid(2)
    width, cosine = 0.8, 1.0 - gap
    first = math.sqrt(2.0) * width * points[:, 0]
    second = math.sqrt(2.0) * width * (cosine * points[:, 0] + math.sqrt(1.0 - cosine**2) * points[:, 1])
    a, b = (_softmax(np.stack([d, np.zeros_like(d)], -1)) for d in (first, second))
    found = pair_moments(width, gap, 2)
    assert found.distance == pytest.approx(float(weights @ (0.5 * (a - b) ** 2).sum(-1)), rel=1e-9)
    assert found.slope == pytest.approx(float(weights @ _slope(a, b)), rel=1e-9)


def test_two_rows_of_many_tokens_against_draws() -> None:
    """2¹⁵ draws: a distance 2 % off would be 9 standard errors off, 4.5 are allowed."""
    width, gap, tokens = 6.0, 0.1, 24
    rng = np.random.default_rng(3)
    shared, one, two = rng.standard_normal((3, 1 << 15, tokens))
    a, b = (_softmax(width * (math.sqrt(1 - gap) * shared + math.sqrt(gap) * own)) for own in (one, two))
    drawn = 0.5 * ((a - b) ** 2).sum(-1)
    error = drawn.std() / math.sqrt(len(drawn))
    assert error < 0.02 * drawn.mean() / 2
    assert abs(pair_moments(width, gap, tokens).distance - drawn.mean()) < 4.5 * error


def test_rows_that_are_nearly_alike_differ_by_the_slope() -> None:
    for width in (1e-4, 0.05, 0.5, 4.0):
        for gap in (1e-6, 1e-12):
            apart = width**2 * gap
            expected = apart * row_moments(width, 8).slope
            assert pair_moments(width, gap, 8).distance == pytest.approx(expected, rel=10 * apart + 1e-9)


def test_near_and_far_rows_meet() -> None:
    """On both sides of where the method changes."""
    for width in (0.07, 0.3, 2.0):
        gaps = [0.002 / width**2 * factor for factor in (0.999, 1.001)]
        low, high = (pair_moments(width, gap, 16).distance / gap for gap in gaps)
        assert low == pytest.approx(high, rel=1e-5)


def test_degenerate_scores() -> None:
    assert row_moments(0.0, 5).entropy == math.log(5)
    assert row_moments(3.0, 1) == (1.0, 0.0, 0.0)
    assert pair_moments(3.0, 0.5, 1).distance == 0.0
    sharp = row_moments(250.0, 16)
    assert 0.98 < sharp.participation < 1.0
    assert 0.0 <= sharp.entropy < 0.05
    assert row_moments(1e9, 16) == row_moments(300.0, 16)
    with pytest.raises(IsometerError, match="finite number of at least 0"):
        row_moments(math.nan, 4)
    with pytest.raises(IsometerError, match="from 0 to 2"):
        pair_moments(1.0, -0.1, 4)


def test_a_table_has_the_error_it_says() -> None:
    rng = np.random.default_rng(5)
    size, gap = np.exp(rng.uniform(np.log(0.02), np.log(30.0), 40)), np.exp(rng.uniform(np.log(1e-6), 0.0, 40))
    found = _tabulated(size, gap, 16)
    exact = np.array([_exact(float(k), float(g), 16) for k, g in zip(size, gap, strict=True)]).T
    for name, values, expected in zip(found._fields, found, exact, strict=False):
        assert np.abs(values / expected - 1.0).max() < TABLE_ERROR, name


def test_few_gram_matrices_have_integrals_of_their_own() -> None:
    found = softmax_moments(np.array([[2.0, 2.0]]), np.array([[0.5, 0.25]]), 4)
    assert found.error < 1e-9
    assert found.distance[0, 1] == pair_moments(1.0, 0.25, 4).distance
