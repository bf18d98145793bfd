"""Rules for many pairs at a time, against quadrature of each pair."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isometer import activation
from isometer.theory.kernels import kernel_matrices
from isometer.theory.kernels._length_map import SignalFamily
from isometer.theory.kernels._mixed_lengths import Architecture, PairMoments, _pair, pieces_of
from isometer.theory.kernels._pair_rules import Factor, PairRule
from isometer.work import TooMuchWorkError

THETA = np.array([1e-6, 0.02, 1.0, math.pi / 2, 3.0])


@pytest.mark.parametrize("name", ["selu", "elu", "normalized(relu)", "hardtanh", "relu6", "softsign", "sign"])
def test_a_rule_agrees_with_quadrature(name: str) -> None:
    phi = activation(name)
    p, q = np.array([0.4, 1.0, 2.5, 0.7, 1.3]), np.array([0.4, 1.1, 0.3, 2.0, 1.3])
    sides = [[phi.gain(math.sqrt(v)) for v in values] for values in (p, q)]
    sizes = [np.sqrt([f.second_moment for f in side]) for side in sides]
    f, g = (Factor(np.sqrt(v), np.zeros(len(p)), size) for v, size in zip((p, q), sizes, strict=True))
    gaps, _, error = PairRule(phi, None, phi.kinks).pairs(f, g, THETA)
    assert error < 1e-12
    for k, theta in enumerate(THETA):
        pieces = pieces_of(sides[0][k]), pieces_of(sides[1][k])
        found = 1.0 - _pair(*pieces, 2.0 * math.sin(theta / 2) ** 2) / (sizes[0][k] * sizes[1][k])
        assert abs(gaps[k] - found) < 1e-12


def test_small_angles_keep_their_digits() -> None:
    """κ of two rays is known: 1 − κ(cos θ) ≈ θ²/2·κ'(1) for equal variances."""
    phi, theta = activation("unit(leaky_relu)"), np.array([1e-7, 1e-5])
    one = Factor(np.ones(2), np.zeros(2), np.ones(2))
    gaps, _, _ = PairRule(phi, None, phi.kinks).pairs(one, one, theta)
    np.testing.assert_allclose(gaps, theta**2 / 2 * phi.kernel_slope_at_one, rtol=1e-5)


def test_what_a_rule_cannot_resolve_is_integrated_pair_by_pair() -> None:
    family = SignalFamily("tanh(200*x)+abs(x)")
    moments = PairMoments(family, np.array([1.0, 4.0]), Architecture(), 1)
    gap = np.array([[0.0, 0.5], [0.5, 0.0]])
    after, rest, _ = moments.block(slice(0, 2), gap, 2.0 - gap, False)
    assert 0.0 < after[0, 1] < 2.0
    assert after[0, 1] == after[1, 0]
    np.testing.assert_allclose(after + rest, 2.0)


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_lengths_that_differ_by_nothing_agree_with_one_length(kind: str) -> None:
    x = np.random.default_rng(0).standard_normal((4, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    several = x * (1.0 + 1e-9 * np.arange(4))[:, None]
    one, other = (kernel_matrices("selu", y, 4, kinds=(kind,))[kind] for y in (x, several))  # type: ignore[arg-type]
    np.testing.assert_allclose(one.matrix, other.matrix, atol=2e-8)
    np.testing.assert_allclose(one.log_diagonal, other.log_diagonal, atol=2e-8)


def test_progress_is_told_layer_by_layer() -> None:
    told: list[tuple[int, int]] = []
    kernel_matrices("selu", [[1.0, 0.0], [0.0, 2.0]], 3, kinds=("nngp",), progress=lambda *at: told.append(at))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_what_takes_too_long_is_refused() -> None:
    x = np.random.default_rng(0).standard_normal((30, 5))
    with pytest.raises(TooMuchWorkError, match=r"takes about .*; 60 min are allowed — use at most .* layers"):
        kernel_matrices("selu", x, 10**6)
