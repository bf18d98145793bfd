"""A weak random layer of a linear residual network: its drift against sampled layers and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isometer.errors import IsometerError
from isometer_papers.theory.rank.residual_step import frobenius_drift


def test_frobenius_drift_is_the_second_order_change():
    rng = np.random.default_rng(3)
    d, gamma = 5, 0.01
    h = rng.normal(size=(d, 8))
    h = h / np.linalg.norm(h, axis=1, keepdims=True)
    m = h @ h.T
    w = gamma * rng.uniform(-math.sqrt(3), math.sqrt(3), size=(200_000, d, d))

    def size_after(weights):
        inner = np.eye(d) + weights
        after = inner @ m @ inner.transpose(0, 2, 1)
        scale = np.sqrt(np.diagonal(after, axis1=1, axis2=2))
        return ((after / (scale[:, :, None] * scale[:, None, :])) ** 2).sum((1, 2))

    changes = ((size_after(w) + size_after(-w)) / 2 - (m**2).sum()) / gamma**2  # odd orders cancel
    error = changes.std() / math.sqrt(len(changes))
    assert error < 0.02 * abs(float(frobenius_drift(m)))
    assert abs(changes.mean() - float(frobenius_drift(m))) < 4 * error + 200 * gamma**2


def test_equal_rows_reduce_the_drift_to_the_spectrum():
    # a Hadamard basis gives unit diagonal and rows of equal norm for every spectrum of trace d
    hadamard = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
    values = np.array([2.5, 1.0, 0.4, 0.1])
    m = hadamard @ np.diag(values) @ hadamard.T
    expected = 2 * 16 - 2 * (values**2).sum() - 8 * (values**3).sum() + 8 * (values**2).sum() ** 2 / 4
    assert float(frobenius_drift(m)) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(IsometerError, match="off 1"):
        frobenius_drift(2 * m)
