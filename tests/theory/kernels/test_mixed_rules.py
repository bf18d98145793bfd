"""What kernels of several lengths are made of, against rules in two dimensions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isometer import activation
from isometer.theory.kernels import SignalFamily, kernel_matrices
from isometer.theory.kernels._hermite_tables import HermiteTables
from isometer.theory.kernels._length_map import gaussian_rule
from isometer.theory.kernels._mixed_lengths import Architecture, PairMoments, _Views
from isometer.theory.kernels._pair_rules import Factor, PairRule
from isometer.theory.kernels._quadratic_pairs import QuadraticPieces

VARIANCES = np.array([0.4, 1.0, 1.0 + 1e-7, 2.7])
ANGLES = (1e-3, 0.3, 1.4, 2.0, 3.1)


def block(views: _Views, variances: np.ndarray, gap: float, net: Architecture) -> list[np.ndarray]:
    """(1 − cosine, E φ′φ′) of all pairs, all at one angle."""
    moments = PairMoments(views.family, variances, net, 1, views)
    gaps = np.where(np.eye(len(variances)) > 0, 0.0, gap)
    after, _, slope = moments.block(slice(0, len(variances)), gaps, 2.0 - gaps, True)
    assert slope is not None
    return [after, slope]


@pytest.mark.parametrize(
    "name",
    [
        "elu",
        "selu",
        "softsign",
        "hardtanh",
        "hardswish",
        "hardsigmoid",
        "2*relu(x) - 0.3",
        "relu(x) + 0.3*x**2",
        "gelu",
    ],
)
@pytest.mark.parametrize("net", [Architecture(), Architecture(norm="layer", norm_position="post")])
def test_pairs_agree_with_a_rule_in_two_dimensions(name: str, net: Architecture) -> None:
    phi = activation(name)
    sides = [phi.gain(math.sqrt(v)) for v in VARIANCES]
    power = np.array([f.variance if net.centring else f.second_moment for f in sides])
    means = np.array([f.mean if net.centring else 0.0 for f in sides])
    factor = Factor(np.sqrt(VARIANCES), means, np.sqrt(power))
    i, j = np.array([0, 1, 2, 3]), np.array([1, 2, 3, 0])
    rule, views = PairRule(phi, phi.derivative, phi.kinks), _Views(SignalFamily(name))
    for theta in ANGLES:
        expected, slopes, error = rule.pairs(factor.taken(i), factor.taken(j), np.full(4, theta))
        assert error < 1e-12
        after, slope = block(views, VARIANCES, 2.0 * math.sin(theta / 2) ** 2, net)
        np.testing.assert_allclose(after[i, j], expected, atol=1e-12)
        np.testing.assert_allclose(slope[i, j], slopes, atol=1e-12)


@pytest.mark.parametrize("name", ["elu", "softsign", "hardtanh", "hardswish", "2*relu(x) - 0.3"])
def test_near_duplicates_keep_their_digits(name: str) -> None:
    """1 − cosine ≈ θ²/2·q E φ′²/E φ² at one variance, up to a kink's share of θ."""
    theta, q = 1e-7, 1.7
    after, slope = block(_Views(SignalFamily(name)), np.array([q, q]), 2.0 * math.sin(theta / 2) ** 2, Architecture())
    scaled = activation(name).gain(math.sqrt(q))
    expected = theta**2 / 2 * scaled.kernel_slope_at_one / scaled.second_moment
    assert after[0, 1] == pytest.approx(expected, rel=1e-6)
    assert slope[0, 1] == pytest.approx(scaled.kernel_slope_at_one / q, rel=1e-6)


def test_pieces_of_degree_two_are_recognised() -> None:
    found = QuadraticPieces.of(activation("hardswish"))
    assert found is not None
    np.testing.assert_allclose(found.kinks, [-3.0, 3.0])
    np.testing.assert_allclose(found.masses, [-0.5, -0.5])  # φ′: 0 → −½ and 3/2 → 1
    np.testing.assert_allclose(found.steps, [1 / 3, -1 / 3])
    for name in ("elu", "softsign", "sign", "gelu", "relu(x)**3", "relu(x)*sin(x)"):
        assert QuadraticPieces.of(activation(name)) is None, name


@pytest.mark.parametrize("name", ["tanh", "gelu", "sin", "softplus"])
def test_series_in_log_q_agree_with_coefficients(name: str) -> None:
    family, variances = SignalFamily(name), np.array([0.7, 0.9, 1.0, 1.3, 1.6])
    tables = HermiteTables(family)
    for _ in range(4):  # the first are computed as they are
        found = tables.coefficients(variances)
    assert found is not None
    direct = family.coefficients(variances)
    assert direct is not None
    np.testing.assert_allclose(found @ found.T, direct @ direct.T, rtol=2e-14)
    assert any(table is not None for table in tables._kept.values())


def test_variances_on_two_sides_of_a_panel_keep_their_digits() -> None:
    """The difference of two coefficient vectors is what tells near duplicates of nearly equal lengths apart."""
    q = math.exp(0.5) * (1.0 + np.array([-1e-9, 1e-9]))
    family = SignalFamily("tanh")
    views = _Views(family)
    for _ in range(4):
        moments = PairMoments(family, q, Architecture(), 1, views)
        after, _, _ = moments.block(slice(0, 2), np.zeros((2, 2)), np.full((2, 2), 2.0), False)
    # half the square of the change of the unit vector: the part of dφ/dq that is orthogonal to φ
    x, weight = gaussian_rule()
    root = math.sqrt(math.exp(0.5))
    value, change = np.tanh(root * x), x / (2 * root) / np.cosh(root * x) ** 2
    second = value**2 @ weight
    apart = (change**2 @ weight - (value * change @ weight) ** 2 / second) / second
    assert after[0, 1] == pytest.approx(0.5 * apart * (q[1] - q[0]) ** 2, rel=1e-5)


def test_layers_share_their_tables() -> None:
    family = SignalFamily("selu")
    views = _Views(family)
    for spread in (0.3, 0.2, 0.1):
        moments = PairMoments(family, np.array([1.0 - spread, 1.0 + spread]), Architecture(), 1, views)
        gaps = np.array([[0.0, 0.5], [0.5, 0.0]])
        moments.block(slice(0, 2), gaps, 2.0 - gaps, False)
    assert views.rays is not None
    assert len(views.rays._kept) == 1


@pytest.mark.parametrize("name", ["step", "sign"])
def test_lengths_do_not_matter_to_steps(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((5, 4))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    several, one = (kernel_matrices(name, y, 6, kinds=("nngp",))["nngp"].matrix for y in (x, unit))
    np.testing.assert_allclose(several, one, atol=1e-13)
