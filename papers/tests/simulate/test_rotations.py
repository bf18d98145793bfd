"""Chains of random rotations: Haar matrices, rows after a rotation, and the law of the engine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from isometer.errors import IsometerError
from isometer.simulate import simulate
from isometer.spec import recurrence
from isometer.theory.batch_norm import isometry_gap_step
from isometer_papers.simulate.rotations import haar_matrices, rotated_row_norms, rotation_chain

RNG = np.random.default_rng


def spectrum(seed: int, d: int) -> Any:
    values = RNG(seed).gamma(0.7, size=d)
    return values * d / values.sum()


# --- draws ------------------------------------------------------------


def test_haar_matrices() -> None:
    """Fourth moments within five standard errors; both components of the group; invariance by a Kolmogorov test."""
    d, draws = 4, 20_000
    w = haar_matrices(draws, d, RNG(0))
    assert np.allclose(w @ w.swapaxes(1, 2), np.eye(d), atol=1e-12)
    for sample, exact in ((w[:, 0, 0] ** 4, 3 / (d * (d + 2))), (w[:, 0, 0] ** 2 * w[:, 1, 1] ** 2, 5 / 72)):
        assert abs(sample.mean() - exact) < 5 * sample.std() / math.sqrt(draws)
    assert abs(np.linalg.det(w).mean()) < 5 / math.sqrt(draws)
    turn = haar_matrices(1, d, RNG(1))[0]
    assert stats.ks_2samp(w[: draws // 2, 0, 0], (w @ turn)[draws // 2 :, 0, 0]).pvalue > 1e-4
    with pytest.raises(IsometerError, match="at least 1"):
        haar_matrices(0, 2, RNG(0))


def test_rows_after_a_rotation() -> None:
    """Their squares sum to d, and the change of the gap has the exact mean within five standard errors."""
    values = spectrum(5, 4)
    squares = rotated_row_norms(values, 20_000, RNG(0))
    assert np.allclose(squares.sum(axis=1), 4)
    change = np.log(squares).mean(axis=1)
    assert abs(change.mean() - isometry_gap_step(values).value) < 5 * change.std() / math.sqrt(len(change))


def test_chain_has_the_law_of_the_engine() -> None:
    x = RNG(0).standard_normal((4, 4))
    own = rotation_chain(x, 6, 400, RNG(1))
    spec = recurrence("001/rec-6.3", width=4, depth=6)
    other = simulate(spec, x.T, runs=400, metrics=["isometry_gap"], seed=3)["isometry_gap"].values
    assert own.gap[:, 0] == pytest.approx(other[:, 0])
    for at in (1, 3, 6):
        assert stats.ks_2samp(own.gap[:, at], other[:, at]).pvalue > 1e-4
    assert own.log_jacobian.shape == (400, 6)
    with pytest.raises(IsometerError, match="square"):
        rotation_chain(np.ones((2, 3)), 1, 1, RNG(0))
