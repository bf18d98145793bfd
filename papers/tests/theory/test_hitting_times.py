"""Hitting times of isometry and Jacobians of batch norm, against dense chains and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isometer_papers.theory.isometry.hitting_times import (
    batch_norm_jacobian_norm,
    isometry_hitting_time,
    printed_hitting_bound,
)


def test_hitting_times_of_haar_chains() -> None:
    """Dense chains of Haar matrices and row normalisation: the mean time is the predicted one within 15 %.

    100 chains from a gap of ten times the target; the printed bound is larger by orders of magnitude.
    """
    d, rng = 10, np.random.default_rng(0)
    target = 1 / (16 * d)
    times, starts = [], []
    for _ in range(100):
        q = np.linalg.qr(rng.normal(size=(d, d)))[0]
        x = np.exp(rng.normal(size=d) * 0.33)[:, None] * q
        starts.append(_gap(x))
        for step in range(1, 500):
            w = np.linalg.qr(rng.normal(size=(d, d)))[0]
            x = w @ x
            x = x / np.linalg.norm(x, axis=1, keepdims=True)
            if _gap(x) <= target:
                times.append(step)
                break
    expected = float(np.mean([isometry_hitting_time(start, d) for start in starts]))
    assert len(times) == 100
    assert np.mean(times) == pytest.approx(expected, rel=0.15)
    assert printed_hitting_bound(float(np.mean(starts)), d) > 100 * np.mean(times)


def _gap(x: np.ndarray) -> float:
    values = np.linalg.eigvalsh(x @ x.T)
    return float(np.log(values.mean()) - np.log(values).mean())


def test_the_jacobian_norm_is_that_of_the_dense_jacobian_and_below_its_bounds() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        d = int(rng.integers(2, 7))
        x = rng.normal(size=(d, d)) * np.exp(rng.normal(size=(d, 1)))
        dense = np.zeros((d * d, d * d))
        for i, row in enumerate(x):
            unit = row / np.linalg.norm(row)
            block = slice(i * d, (i + 1) * d)
            dense[block, block] = (np.eye(d) - np.outer(unit, unit)) / np.linalg.norm(row)
        step = 1e-6 * rng.normal(size=x.shape)
        moved = (_rows(x + step) - _rows(x - step)).ravel() / 2
        np.testing.assert_allclose(dense @ step.ravel(), moved, atol=1e-12)
        found = batch_norm_jacobian_norm(x)
        assert found.squared == pytest.approx(np.linalg.norm(dense, 2) ** 2)
        assert found.squared <= found.by_eigenvalue * (1 + 1e-9)
        assert found.by_eigenvalue <= found.by_gap * (1 + 1e-9)
    assert batch_norm_jacobian_norm(np.ones((3, 3))).by_eigenvalue == math.inf


def _rows(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))
