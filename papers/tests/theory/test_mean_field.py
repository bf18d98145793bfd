"""Total variation, two samples, concentration and power rates (001, chapter 3) against quadrature and enumeration."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from isometer.activations import activation
from isometer.errors import IsometerError
from isometer.theory.batch_norm import batch_norm_map, local_rates
from isometer_papers.theory.mean_field.covariance_concentration import (
    bernstein_bound,
    coin_tail,
    covariance_deviation,
    deviation_tail,
    rademacher_tail,
    sphere_distance,
    substituted_term,
)
from isometer_papers.theory.mean_field.power_rates import power_local_rate, sphere_moment
from isometer_papers.theory.mean_field.total_variation import contraction, correlation_tv_bound, mixture_tv, scale_tv
from isometer_papers.theory.mean_field.two_samples import (
    image_statistic,
    mean_distance,
    mixing_limit,
    two_sample_tail,
)

# --- total variation ------------------------------------------------------------


@pytest.mark.parametrize("ratio", [0.3, 1.5, 4.0])
def test_scale_tv_against_quadrature(ratio: float) -> None:
    for dimension in (1, 7):
        scale = math.sqrt(ratio)
        radii = np.linspace(0, 40, 400_001)
        difference = stats.chi(dimension).pdf(radii) - stats.chi(dimension, scale=scale).pdf(radii)
        value = np.abs(difference).sum() * 1e-4 / 2
        assert scale_tv(dimension, ratio) == pytest.approx(value, abs=1e-4)
    assert float(scale_tv(1, mpmath.mpf(ratio), mpmath)) == pytest.approx(scale_tv(1, ratio), abs=1e-14)


def test_mixture_and_correlation() -> None:
    line = np.linspace(-20, 20, 40_001)
    mixed = (stats.norm.pdf(line, 0, 0.5**0.5) + stats.norm.pdf(line, 0, 2**0.5)) / 2 - stats.norm.pdf(line)
    assert mixture_tv([0.5, 2.0]) == pytest.approx(np.abs(mixed).sum() * 1e-3 / 2, abs=1e-4)
    grid = np.linspace(-7, 7, 701)
    x, y = np.meshgrid(grid, grid)
    ratio = np.exp(-(0.09 * (x * x + y * y) - 0.6 * x * y) / 1.82) / math.sqrt(0.91)
    exact = (abs(ratio - 1) * stats.norm.pdf(x) * stats.norm.pdf(y)).sum() * 4e-4
    assert exact / 2 <= correlation_tv_bound(0.3, 1) <= 0.8 * exact


def test_contraction_bounds_every_pair_of_laws() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 4)
    pairs = rng.dirichlet(np.full(4, 0.1), (200, 2))
    ratios = [abs((a - b) @ p).sum() / abs(a - b).sum() for a, b in pairs]
    assert 0.8 * contraction(p) < max(ratios) <= contraction(p) + 1e-12


# --- two samples ------------------------------------------------------------


def test_two_sample_chain_against_simulation() -> None:
    """Dense layers with ReLU: the Gram matrices are those of a Binomial number of signs, within four errors."""
    rng, width, draws = np.random.default_rng(1), 10, 4000

    def normalized(h: Any) -> Any:
        return np.maximum((h - h.mean(-1, keepdims=True)) / h.std(-1, keepdims=True), 0)

    h = rng.standard_normal((draws, width, 2)) + np.array([3.0, 0.0])  # inputs far from the invariant law
    for _ in range(2):
        h = rng.standard_normal((draws, width, width)) / math.sqrt(width) @ normalized(h)
    grams = np.swapaxes(normalized(h), 1, 2) @ normalized(h) / width
    found = np.linalg.norm(grams - np.eye(2) / 2, axis=(1, 2))
    error = np.std(found) / math.sqrt(len(found))
    assert abs(np.mean(found) - mean_distance(width, 1.0, 0.0)) < 4 * error
    tail = two_sample_tail(width, 0.2, 1.0, 0.0)
    assert abs(np.mean(found > 0.2 - 1e-9) - tail) < 4 * math.sqrt(tail * (1 - tail) / len(found))


def test_image_of_the_gaussian_law_against_matrices() -> None:
    """Variance of Σ s t/√d for matrices drawn row by row, leaky ReLU: 1 before and 2 − 1/d after."""
    rng, width, high, low = np.random.default_rng(2), 40, 1.0, -0.2
    values: list[list[float]] = [[], []]
    for _ in range(3000):
        root = np.linalg.cholesky((np.outer([high, low], [high, low]) + np.outer([low, high], [low, high])) / 2)
        h = rng.standard_normal((width, 2)) @ root.T
        y = np.where(h[:, :1] > h[:, 1:], [[high, low]], [[low, high]])
        image = rng.standard_normal((width, width)) / math.sqrt(width) @ y
        for kept, matrix in zip(values, (h, image), strict=True):
            s, t = (matrix[:, 0] + matrix[:, 1]) / (high + low), (matrix[:, 0] - matrix[:, 1]) / (high - low)
            kept.append(float(s @ t) / math.sqrt(width))
    for k, expected in enumerate(values):
        drawn = image_statistic(width, 3000, rng, bool(k))
        assert stats.ks_2samp(drawn, expected).pvalue > 1e-4
    assert np.var(values[1]) / np.var(values[0]) == pytest.approx(2, abs=0.25)


def test_mixing_limit_by_enumeration() -> None:
    """The invariant law gives the rank-one matrices of one direction the probability of all signs being equal."""
    signs = list(product((0, 1), repeat=5))
    assert mixing_limit(5) == sum(all(s) for s in signs) / len(signs)


# --- covariances ------------------------------------------------------------


def test_tails() -> None:
    for count, threshold in ((10, 0.4), (25, 0.2)):
        assert rademacher_tail(count, threshold, 1.0) == pytest.approx(
            stats.binom.sf(math.ceil(count * (1 + threshold) / 2 - 1e-9) - 1, count, 0.5)
        )
    for count, threshold in ((1, 0.3), (5, 0.2), (6, 0.1)):
        shares = np.array([sum(bits) / count for bits in product((0, 1), repeat=count)])
        assert coin_tail(count, threshold, 1.0) == pytest.approx(float(np.mean(abs(shares - 0.5) >= threshold - 1e-12)))
    assert bernstein_bound(30, 0.5, 1.0) == pytest.approx(math.exp(-3.75 / (1 + 1 / 6)))
    assert substituted_term(0.7, 9) == pytest.approx(0.7 * math.sqrt(8) * 2 * 3 / math.sqrt(9) / (6 * 3 * 2))


def test_deviation_by_loops() -> None:
    rng = np.random.default_rng(3)
    x, c = rng.standard_normal((4, 2)), np.array([1.0, 3.0])
    moments = sum(np.outer(row, row) for row in x) / 4
    assert covariance_deviation(x, c) == pytest.approx(np.linalg.norm(moments - np.diag(c)))
    assert covariance_deviation(x, c, True) == pytest.approx(
        np.linalg.norm(np.linalg.inv(np.diag(c)) @ moments - np.eye(2))
    )
    u = rng.standard_normal(5)
    u *= math.sqrt(5) / np.linalg.norm(u)
    assert sphere_distance(5, 1.0) == pytest.approx(np.linalg.norm(np.outer(u, u) - np.eye(5)))


def test_corrected_deviation_tail() -> None:
    """P(‖C_d − C‖ ≥ (1 + t)ε) for d = 1, where it is largest: vectors √n e_i or 0."""
    rng, n = np.random.default_rng(5), 2
    for t in (0.0, 0.3):
        x = np.zeros((20_000, 1, n))
        x[rng.random(20_000) < 0.1, 0, 0] = math.sqrt(n)
        hits = covariance_deviation(x, np.array([0.1 * n, 0.0])) >= (1 + t) * n
        assert hits.mean() <= deviation_tail(t)


# --- batch norm ------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 6, 10])
def test_power_rates(n: int) -> None:
    phi = activation("x**3")
    assert power_local_rate(3, n, 1.0) == pytest.approx(local_rates(phi, n).standard)
    pair = batch_norm_map(np.eye(n), phi).gram
    assert sphere_moment(6, 0, n, 1.0) == pytest.approx(pair[0, 0])
    assert sphere_moment(3, 3, n, 1.0) == pytest.approx(pair[0, 1])
    with pytest.raises(IsometerError, match="odd power"):
        power_local_rate(2, n, 1.0)


def test_cube_leaves_its_fixed_point() -> None:
    """φ(x) = x³, n = 8: one layer of the map by quadrature moves a small deviation away, at the exact rate."""
    n, step = 8, 0.02
    fixed = batch_norm_map(np.eye(n), "x**3").gram
    normal = np.random.default_rng(0).standard_normal((200_000, n))
    found = []
    for sign in (1, -1):  # the same draws on both sides
        moved = fixed.copy()
        moved[0, 0] += sign * step * fixed[0, 0]
        h = normal @ np.linalg.cholesky(moved).T
        h -= h.mean(axis=1, keepdims=True)
        y = (h * math.sqrt(n) / np.linalg.norm(h, axis=1, keepdims=True)) ** 3
        after = y.T @ y / len(y)
        others = np.arange(1, n)
        diagonal = after[0, 0] - after[others, others].mean()
        rest = (after[np.ix_(others, others)].sum() - after[others, others].sum()) / ((n - 1) * (n - 2))
        found.append(diagonal - 2 * (after[0, others].mean() - rest))
    rate = (found[0] - found[1]) / (2 * step * fixed[0, 0])
    assert rate > 1.2
    assert rate == pytest.approx(power_local_rate(3, n, 1.0), rel=0.05)
