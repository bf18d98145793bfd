"""Interpolation with kernels (paper 004): risk and its bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isometer.theory import kernel_matrix
from isometer_papers.theory.duals.small_interpolation import interpolant_risk
from isometer_papers.theory.kernel_learning.interpolation import excess_risk_bound, interpolation_depth
from support.batches import sphere


def test_depth_by_hand() -> None:
    assert interpolation_depth(10, 0.5, 0.6) == math.ceil(math.log(100) / -math.log(0.75))


@pytest.mark.parametrize("labels", ["noise", "linear", "mixed"])
def test_excess_risk_and_its_bounds(labels: str) -> None:
    x, rng = sphere(300, 10), np.random.default_rng(3)
    kernel = kernel_matrix("unit(tanh)", x, 25).matrix
    means = np.zeros(300) if labels == "noise" else 0.9 * x[:, 0]
    sample = rng.choice(300, size=30, replace=False)
    y = means[sample] if labels == "linear" else np.where(rng.random(30) < (1 + means[sample]) / 2, 1.0, -1.0)
    found = interpolant_risk(kernel, means, sample, y)
    # the same numbers from explicit features K_N^{1/2}
    values, vectors = np.linalg.eigh(kernel)
    phi = vectors * np.sqrt(values)
    v = np.linalg.pinv(phi[sample]) @ y
    best = np.linalg.solve(phi, means)
    sigma = phi.T @ phi / 300
    off = np.eye(300) - np.linalg.pinv(phi[sample]) @ phi[sample]
    assert found["risk"] == pytest.approx((v - best) @ sigma @ (v - best), rel=1e-6)
    assert found["norm"] == pytest.approx(best @ best, rel=1e-6, abs=1e-12)
    assert found["approximation"] == pytest.approx(best @ off @ sigma @ off @ best, rel=1e-6, abs=1e-12)
    assert found["residual"] == pytest.approx(((y - phi[sample] @ best) ** 2).sum(), rel=1e-6, abs=1e-12)
    assert found["risk"] <= 2 * (found["approximation"] + found["noise"]) * (1 + 1e-9)  # 004/lem-55
    assert found["approximation"] <= values[-1] / 300 * found["norm"] * (1 + 1e-9)  # 004/eq-25
    assert found["noise"] <= 2 * 30 * (1 + found["norm"]) * values[-1] / 300  # 004/eq-26
    if labels == "noise":  # 004/thm-16 as printed: bounded by a multiple of ‖v*‖² = 0
        assert found["norm"] == 0.0
        assert found["risk"] > 0.01
        assert excess_risk_bound(30, 0.1, 0.0)["printed"] == 0.0
        assert excess_risk_bound(30, 0.1, 0.0)["proved"] > found["risk"]
