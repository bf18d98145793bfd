"""Where depth leads compositions that repeat a block: fixed points, multipliers, gradients."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.integrate import quad

from isometer.spec import Spec
from isometer.theory.prediction import limits, predict
from isometer.theory.prediction._repeated_block import block_limits

MIXED = 0.9 * np.eye(5) + 0.1


def gaussian_mean(function, variance: float = 1.0) -> float:
    """E f(x), x ~ N(0, variance), by adaptive quadrature."""
    size = math.sqrt(variance)

    def weighted(z: float) -> float:
        return function(size * z) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    return float(quad(weighted, -12, 12, epsabs=1e-13, epsrel=1e-13, limit=400)[0])


def test_the_multiplier_of_an_odd_activation_and_a_norm() -> None:
    """Cosines go to 0 with the slope of the kernel map there, (E φ′)² / E φ²; a turn keeps the unit length."""
    found = block_limits(Spec("input(8) > repeat(dense > act('tanh') > dense > norm('rms'), 5)"), MIXED)
    slope = gaussian_mean(lambda x: 1 / math.cosh(x) ** 2) ** 2 / gaussian_mean(lambda x: math.tanh(x) ** 2)
    assert found.diagonal == pytest.approx(1.0, abs=1e-12)
    assert found.off_diagonal == pytest.approx(0.0, abs=1e-8)
    assert found.local_rate == pytest.approx(slope, rel=1e-4)
    assert found.depth_scale == pytest.approx(-1 / math.log(slope), rel=2e-3)


def test_two_kinds_of_layers_in_turn_settle_where_the_length_map_says() -> None:
    """A turn is tanh and then a line: the variance solves q = 1.44 (2.25 E tanh²(√q z) …), by an independent root."""
    text = "input(16) > dense > repeat(dense(gain=1.5) > bias(0.1) > act('tanh') > dense(gain=0.8), 4) > dense(3)"
    found = block_limits(Spec(text), MIXED)
    q = 1.0
    for _ in range(300):
        q = 0.64 * gaussian_mean(lambda x: math.tanh(x) ** 2, 2.25 * q + 0.1)
    assert found.diagonal == pytest.approx(q, rel=1e-8)
    assert "layers 2 to 5" in found.note


def test_a_chain_in_a_composition_has_the_chain_s_fixed_point() -> None:
    chain = limits(Spec(width=16, depth=5, activation="gelu", norm="rms", gain=1.3), 5)
    text = "input(16) > dense > repeat(dense(gain=1.3) > norm('rms') > act('gelu'), 5) > dense(3)"
    block = block_limits(Spec(text), MIXED)
    assert block.diagonal == pytest.approx(chain.diagonal, rel=1e-8)
    assert block.off_diagonal == pytest.approx(chain.off_diagonal, rel=1e-6)
    assert block.local_rate == pytest.approx(chain.local_rate, rel=1e-3)


def test_gradients_grow_per_turn_as_predicted_layer_by_layer() -> None:
    text = "input(64) > repeat(dense(gain=1.5) > act('tanh') > dense(gain=1.3) > norm('rms'), 40)"
    found = predict(Spec(text), gram=MIXED, metrics=["mean_cosine"], backward=True)
    logs = found["gradient_log_norm"].values[0]
    assert found.attrs["gradient_growth_per_layer"] == pytest.approx((logs[22] - logs[30]) / 8, rel=1e-3)


def test_batch_norm_has_its_point_and_no_rate() -> None:
    found = block_limits(Spec("input(64) > dense(32) > repeat(dense > norm('batch') > act('relu'), 5) > dense"), MIXED)
    chain = limits(Spec(width=64, depth=5, norm="batch"), 5)
    assert (found.diagonal, found.off_diagonal) == pytest.approx((chain.diagonal, chain.off_diagonal), rel=1e-9)
    assert found.local_rate is None
    assert "not known" in found.note


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("input(8) > dense(8) > act('relu') > dense", "no block is repeated"),
        ("input(8) > repeat(residual(norm('layer') > dense > act('gelu') > dense), 6)", "within 400 turns"),
        ("input(8) > repeat(dense(gain=3) > act('x**3') > dense(gain=2), 6)", "range of numbers"),
        ("input(3, [8]) > repeat(conv(3) > act('relu'), 4) > pool > dense", "more than two numbers"),
    ],
)
def test_no_fixed_point_is_said_why(text: str, said: str) -> None:
    found = block_limits(Spec(text), MIXED)
    assert found.diagonal is None
    assert said in found.note


def test_predictions_carry_it() -> None:
    spec = Spec("input(8) > repeat(dense > act('tanh') > dense > norm('rms'), 5)")
    attributes = predict(spec, gram=MIXED, metrics=["mean_cosine"]).attrs
    assert json.loads(attributes["fixed_point"])["diagonal"] == pytest.approx(1.0)
    assert 0.9 < attributes["local_rate"] < 0.95
