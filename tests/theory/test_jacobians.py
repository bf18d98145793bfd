"""Jacobians of deep networks against closed forms and finite networks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isometer import activation
from isometer.theory.phases import jacobian_moments

# --- Jacobians --------------------------------------------------------------------------------------------------------


def test_jacobian_of_linear_networks() -> None:
    gaussian, orthogonal = (jacobian_moments("identity", 7, weights=w) for w in ("gaussian", "orthogonal"))
    assert gaussian.mean_square == orthogonal.mean_square == 1.0
    assert orthogonal.relative_variance == pytest.approx(0.0, abs=1e-12)
    assert gaussian.relative_variance == pytest.approx(7.0, rel=1e-12)


def test_jacobian_at_depth_of_a_million() -> None:
    assert jacobian_moments("relu", 10**6).log_mean_square == pytest.approx(-(10**6) * math.log(2), rel=1e-12)
    assert jacobian_moments("unit(tanh)", 10**6).mean_square == math.inf


@pytest.mark.parametrize("law", ["gaussian", "orthogonal"])
def test_jacobian_against_finite_networks(law: str) -> None:
    """Width 300, depth 4, 24 networks: means within 5 standard errors and 3 % of the limit (terms of order 1/width).

    A χ wrong by 3 % per layer moves the mean by 12 % and is caught.
    """
    rng, width, depth, runs = np.random.default_rng(0), 300, 4, 24
    phi = activation("tanh")
    slope = phi.derivative
    first, second = [], []
    for _ in range(runs):
        h = rng.standard_normal(width)
        h *= math.sqrt(width) / np.linalg.norm(h)
        jacobian = np.eye(width)
        for _ in range(depth):
            w = rng.standard_normal((width, width))
            if law == "orthogonal":
                q, r = np.linalg.qr(w)
                w = q * np.sign(np.diag(r)) * math.sqrt(1.5)
            else:
                w *= math.sqrt(1.5 / width)
            z = w @ h
            jacobian = slope(z)[:, None] * (w @ jacobian)
            h = phi(z)
        product = jacobian @ jacobian.T
        first.append(np.trace(product) / width)
        second.append(np.sum(product * product) / width)
    limit = jacobian_moments("tanh", depth, weights=law, weight_variance=1.5)  # type: ignore[arg-type]
    for values, expected in (
        (first, limit.mean_square),
        (second, limit.mean_square**2 * (1 + limit.relative_variance)),
    ):
        error = np.std(values, ddof=1) / math.sqrt(runs)
        assert abs(np.mean(values) - expected) <= 5 * error + 0.03 * expected
