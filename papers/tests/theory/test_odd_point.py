"""The odd point in trees, layers and chains (paper 000) against enumeration, draws and quadrature."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import integrate

from isometer.errors import IsometerError
from isometer.theory.batch_norm import gram_map
from isometer_papers.simulate.tree import brute_force_tree, evolve_tree
from isometer_papers.theory.odd_point.chain import cluster_spread, sampled_last_layer
from isometer_papers.theory.odd_point.layer import (
    centred_batch,
    expected_length,
    expected_product,
    expected_square,
    expected_squared_distance,
    invariance_factor,
    invariant_batch,
    invariant_defects,
    mean_image_product,
    odd_distance,
    recentred_relu_gram,
    stability_factor,
)
from isometer_papers.theory.odd_point.tree import (
    cosine_limit,
    inner_gaps,
    norm_ratio_limit,
    pair_energy_bound,
    pair_energy_sum,
    split_energies_after,
    split_gram,
    three_cluster_energies,
    two_cluster_sum,
)


def relu(x: Any) -> Any:
    return np.maximum(x, 0.0)


# --- the tree ------------------------------------------------------------


def test_split_energies_against_all_rows() -> None:
    """Two rows of five samples, five layers, every descendant computed."""
    rows = [np.array([0.0, 0.0, 3.0, 3.0, 3.0]), np.array([2.0, 2.0, 2.0, 2.0, 0.0])]
    lower, upper = np.zeros(4), np.zeros(4)
    upper[1], lower[3] = 9.0, 4.0
    below = np.concatenate([brute_force_tree(row, 5) for row in rows])
    unit = ((1 + 16) / 25) ** 4
    gram = split_gram(*split_energies_after(lower, upper, 5)) * unit
    np.testing.assert_allclose(gram, below.T @ below, rtol=1e-12)
    assert two_cluster_sum(3.0, 2, 5, 5) == pytest.approx((brute_force_tree(rows[0], 5)[:, 0] ** 2).sum())


def test_limits_of_a_symmetric_tree() -> None:
    """Equal energies at both ends: the sharp constants of Theorem 11."""
    n = 6
    tree = evolve_tree([-5.0, -2.0, -1.0, 1.0, 2.0, 5.0], 300)
    gram = tree.gram(300)
    assert gram[2, 2] / gram[0, 0] == pytest.approx(norm_ratio_limit(1.0, n), rel=1e-9)
    assert norm_ratio_limit(1.0, n) == pytest.approx(2 / (25 + 1))
    cosine = gram[2, 0] / math.sqrt(gram[2, 2] * gram[0, 0])
    assert cosine == pytest.approx(cosine_limit(1.0, n), rel=1e-9)


@pytest.mark.parametrize(("middle", "n"), [(0.3, 4), (0.9, 6), (0.05, 5)])
def test_three_clusters_against_all_rows(middle: float, n: int) -> None:
    row = np.array([0.0, middle] + [1.0] * (n - 2))
    for layers in (1, 2, 6):
        below = brute_force_tree(row, layers)
        pairs = [r for r in below if abs(r[0] - r[1]) < 1e-14 and r.max() > 0 and abs(r[1] - r[2]) > 1e-14]
        second, other, largest = three_cluster_energies(middle, 1.0, n, layers)
        assert second == pytest.approx(sum(r[1] ** 2 for r in pairs), abs=1e-14)
        assert other == pytest.approx(sum(r[2] ** 2 for r in pairs), abs=1e-14)
        three = [r.max() for r in below if len(np.unique(r.round(13))) == 3]
        assert largest == pytest.approx(max(three))
        if layers > 1:
            assert max(second, other) <= pair_energy_sum(n, layers) <= pair_energy_bound(n, layers)


def test_inner_gaps_survive_a_negative_transformation() -> None:
    row = np.array([0, 1, 2, 4, 100])
    image = relu(row.mean() - row)
    assert inner_gaps(row.tolist()) == inner_gaps(image.round(9).tolist()) == [1, 2]


# --- the invariant geometry ------------------------------------------------------------


def test_invariant_representation() -> None:
    turn, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))
    batch = invariant_batch(7, 5) @ turn
    assert max(abs(float(v)) for v in invariant_defects(batch)) < 1e-12
    assert float(odd_distance(batch)) == pytest.approx(math.sqrt(1 + 1 / 36))
    assert float(odd_distance(batch)) < 7 / 6  # what 000/thm-14 asks for is out of reach
    with pytest.raises(IsometerError, match="at least 2"):
        invariant_batch(1)


def test_expectations_against_draws() -> None:
    """Mean matrix, mean square and mean length of relu(Wx̃), within five standard errors."""
    rng = np.random.default_rng(2)
    n, d = 4, 3
    tilde = np.asarray(centred_batch(invariant_batch(n)))
    energy = 2 * invariance_factor(n)
    w = rng.standard_normal((60_000, d, 2)) * math.sqrt(energy / d)
    odd, centre = relu(w @ tilde[0]), relu(w @ tilde[-1])
    square = (odd**2).sum(axis=1)
    assert abs(square.mean() - 1) < 5 * square.std() / math.sqrt(60_000)
    assert expected_square(tilde[0], energy) == pytest.approx(1)
    length = np.sqrt(square)
    exact = float(expected_length(tilde[0], d, energy / d))
    assert abs(length.mean() - exact) < 5 * length.std() / math.sqrt(60_000)
    assert exact < 1
    assert odd.mean(axis=0) @ centre.mean(axis=0) == pytest.approx(
        float(mean_image_product(tilde[0], tilde[-1], energy)), rel=0.03
    )
    assert float(mean_image_product(tilde[0], tilde[0], energy)) == pytest.approx(1 / math.pi)
    assert (odd * centre).sum() == 0


@pytest.mark.parametrize("rho", [-0.7, 0.0, 0.4, 0.95])
def test_kernel_against_quadrature(rho: float) -> None:
    """E relu(u)relu(v) in polar coordinates: ½ E r² times a mean over the circle."""
    x, y = np.array([1.0, 0.0]), np.array([rho, math.sqrt(1 - rho**2)])
    turn = math.acos(rho)
    ends = sorted({-math.pi / 2, math.pi / 2, turn - math.pi / 2, min(turn + math.pi / 2, math.pi)})
    value, _ = integrate.quad(
        lambda t: max(math.cos(t), 0) * max(math.cos(t - turn), 0), -math.pi, math.pi, points=ends, epsabs=1e-12
    )
    assert float(expected_product(x, y, 2.0)) == pytest.approx(2 * 2 * value / (2 * math.pi), abs=1e-9)
    distance = float(expected_squared_distance(x, y, 2.0))
    assert distance == pytest.approx(2 - 2 * float(expected_product(x, y, 2.0)))
    assert distance < (x - y) @ (x - y)


def test_gram_step_in_two_ways() -> None:
    x = np.random.default_rng(3).standard_normal((6, 4))
    other = gram_map(x @ x.T, "relu", recenter=True)
    np.testing.assert_allclose(recentred_relu_gram(x @ x.T), other / np.trace(other), rtol=1e-9)
    lift = np.vectorize(mpmath.mpf, otypes=[object])
    np.testing.assert_allclose(recentred_relu_gram(lift(x @ x.T)).astype(float), other / np.trace(other), rtol=1e-12)


def test_chain_in_law() -> None:
    """Mean Gram matrix of one layer against the kernel map, for k below and above n; five standard errors."""
    rng = np.random.default_rng(4)
    for k in (2, 9):
        x = rng.standard_normal((5, k))
        last = sampled_last_layer(np.repeat(x[None], 3000, axis=0), width=40, depth=1, rng=rng)
        grams = last @ np.swapaxes(last, 1, 2)
        ratio = grams[:, 0, 1].mean() / grams[:, 0, 0].mean()
        exact = gram_map(x @ x.T, "relu", recenter=True)
        error = grams[:, 0, 1].std() / math.sqrt(3000) / grams[:, 0, 0].mean()
        assert abs(ratio - exact[0, 1] / exact[0, 0]) < 6 * error + 5e-3
    normalized = sampled_last_layer(x[None], width=50, depth=3, rng=rng, rescale=True)
    assert ((normalized**2).mean(axis=1) <= 1 + 1e-9).all()
    with pytest.raises(IsometerError, match="expected \\(runs, n, k\\)"):
        sampled_last_layer(x, width=5, depth=1, rng=rng)


def test_spread_by_hand() -> None:
    batch = np.array([[[10.0, 0.0], [0.0, 2.0], [0.0, -2.0], [0.0, 0.0]]])
    assert cluster_spread(batch) == pytest.approx([0.2])


# --- verdicts ------------------------------------------------------------


def test_stability_factor_of_the_theorem() -> None:
    """α‖x̃_1‖² = 1 for any place of the cluster."""
    x = np.array([[5.0, 1.0], [0.2, 0.1], [0.1, 0.2]])
    assert stability_factor(3, odd_distance(x)) * (centred_batch(x)[0] ** 2).sum() == pytest.approx(1)
