"""Cells, ranks and exponents of ReLU layers (paper 000) against sign patterns, draws and exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import optimize, stats

from isometer.errors import IsometerError
from isometer_papers.theory.rank.relu import (
    chernoff_exponent,
    circle_batch,
    circle_cell_volumes,
    full_rank_exponent,
    full_rank_exponent_simple,
    image_points,
    least_cell_volume,
    nearest_column,
    neurons_until_full_rank,
    pair_step_tail,
    pair_steps_joint,
    plane_cells,
    rank_gain_probability,
    sampled_least_cell_volume,
    sign_flip,
)


def relu(x: Any) -> Any:
    return np.maximum(x, 0.0)


# --- cells and ranks ------------------------------------------------------------


def test_cells_against_sign_patterns() -> None:
    """Frequencies of sign patterns of Gaussian weights, within five standard errors of the arcs."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 2))
    cells = plane_cells(x)
    assert cells.volumes.sum() == pytest.approx(1)
    assert len(cells.volumes) == 8  # central arrangement of 4 lines
    signs = rng.standard_normal((100_000, 2)) @ x.T > 0
    for volume, inner in zip(cells.volumes, cells.inside, strict=True):
        share = (signs == (x @ inner > 0)).all(axis=1).mean()
        assert abs(share - volume) < 5 * math.sqrt(volume / 100_000)
    estimate = sampled_least_cell_volume(x, draws=100_000, rng=rng)
    assert estimate == pytest.approx(least_cell_volume(x), rel=0.1)


@pytest.mark.parametrize("n", [1, 3, 5, 9])
def test_circle_has_2n_cells_of_one_volume(n: int) -> None:
    assert circle_cell_volumes(n) == [Fraction(1, 2 * n)] * (2 * n)
    assert plane_cells(circle_batch(n)).volumes == pytest.approx([1 / (2 * n)] * (2 * n))


def test_zero_samples_have_no_cells() -> None:
    with pytest.raises(IsometerError, match="without a zero sample"):
        plane_cells([[0.0, 0.0]])


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_rank_gain_against_draws(seed: int) -> None:
    """Share of new neurons that raise the rank by NumPy's matrix_rank; mpmath gives the same number."""
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((4, 2)), np.zeros((0, 2))
    while len(w) == 0 or np.linalg.matrix_rank(relu(w @ x[:3].T)) < 3:
        w = np.concatenate([w, rng.standard_normal((1, 2))])
    chance = float(rank_gain_probability(x, w))
    new = rng.standard_normal((1500, 2))
    hits = [np.linalg.matrix_rank(relu(np.concatenate([w, row[None]]) @ x.T)) == 4 for row in new]
    assert abs(np.mean(hits) - chance) < 5 * math.sqrt(max(chance * (1 - chance), 1e-3) / 1500)
    lift = np.vectorize(mpmath.mpf, otypes=[object])
    with mpmath.workdps(50):
        assert float(rank_gain_probability(lift(x), lift(w))) == pytest.approx(chance)


def test_exponent_is_the_best_chernoff_bound() -> None:
    for alpha, gamma in ((2.5, 0.3), (4.0, 0.05), (1.2, 0.5)):
        top = -math.log(1 - gamma)
        found = optimize.minimize_scalar(
            lambda s, a=alpha, g=gamma: -chernoff_exponent(a, g, s), bounds=(0, top - 1e-9)
        )
        assert -found.fun == pytest.approx(full_rank_exponent(alpha, gamma), rel=1e-6)
        assert full_rank_exponent(alpha, 1e-6) == pytest.approx(full_rank_exponent_simple(alpha), rel=1e-4)


def test_two_steps_against_a_plain_simulation() -> None:
    """Two samples at the angle π/4: rows are added and ranks taken by NumPy."""
    rng = np.random.default_rng(5)
    share, x = 0.25, np.array([[1.0, 0.0], [math.sqrt(0.5), math.sqrt(0.5)]])
    steps = []
    for _ in range(4000):
        w = rng.standard_normal((60, 2))
        hidden = relu(w @ x.T)
        first = int(np.argmax(hidden[:, 0] > 0)) + 1
        second = next(r for r in range(1, 61) if np.linalg.matrix_rank(hidden[:r]) == 2)
        steps.append((first, second - first))
    steps = np.array(steps)
    together, apart = pair_steps_joint(share)
    assert np.mean((steps[:, 0] == 1) & (steps[:, 1] == 0)) == together == 0
    assert np.mean(steps[:, 0] == 1) * np.mean(steps[:, 1] == 0) == pytest.approx(apart, abs=0.02)
    for first, more in ((1, 1), (1, 3), (2, 0), (2, 1)):
        chosen = steps[steps[:, 0] == first, 1]
        tail = pair_step_tail(share, first, more)
        assert abs(np.mean(chosen > more) - tail) < 5 * math.sqrt(tail * (1 - tail) / len(chosen)) + 1e-9
    mine = np.array([neurons_until_full_rank(x, rng=rng, limit=500) for _ in range(2000)])
    assert stats.ks_2samp(mine, steps.sum(axis=1)).pvalue > 1e-4
    parts = np.array([neurons_until_full_rank(x, rng=rng, limit=500, steps=True) for _ in range(1000)])
    assert stats.ks_2samp(parts[:, 1], steps[:, 1]).pvalue > 1e-4


def test_centred_batches_can_lose_rank() -> None:
    rng = np.random.default_rng(0)
    line = np.array([[1.0, 1.0], [2.0, 1.0], [-3.0, 1.0]])
    assert neurons_until_full_rank(line, rng=rng, limit=200, recenter=True) == 200
    assert neurons_until_full_rank(line, rng=rng, limit=200) < 200


def test_image_of_the_plane() -> None:
    w = np.random.default_rng(1).standard_normal((6, 2))
    dense = relu(circle_batch(2000) @ w.T)
    assert np.linalg.matrix_rank(image_points(w)) == np.linalg.matrix_rank(dense) == 6


def test_flip_of_the_nearest_sign() -> None:
    x, w = np.array([[0.5, 0.0], [4.0, -2.0]]), np.array([1.0, 1.0])
    assert nearest_column(x, w, normalized=False) == 0
    assert (sign_flip(x, w, 0, squared=True) < 0).all()  # both signs change
    after = sign_flip(x, w, nearest_column(x, w, normalized=True), squared=True)
    assert (after > 0).tolist() == [True, False]


# --- verdicts ------------------------------------------------------------
