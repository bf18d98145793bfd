"""Schedules of gains from theory against the trajectories they are meant to shape; isometry times and Jacobians."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isometer import Spec, activation
from isometer.errors import IsometerError
from isometer.theory.batch_norm import (
    fit_gain,
    gain_schedule,
    gradient_growth,
    growth_exponent,
    measured_gain_schedule,
)
from isometer.theory.prediction import predict


@pytest.mark.parametrize(
    ("name", "exponent"),
    [("tanh", 4.0), ("sin", 4.0), ("sigmoid", 4.0), ("gelu", 2.0), ("silu", 2.0), ("softplus", 2.0), ("exp", 2.0)],
)
def test_the_exponent_is_that_of_the_exact_growth(name: str, exponent: float) -> None:
    """Against the log-slope of `gradient_growth` at two small gains."""
    assert growth_exponent(name) == exponent
    floor = gradient_growth("identity", 12)
    low, high = (gradient_growth(activation(name).gain(gain), 12) - floor for gain in (0.05, 0.1))
    assert math.log(high / low) / math.log(2) == pytest.approx(exponent, abs=0.06)


def test_the_schedule_meets_its_target_layer_by_layer() -> None:
    """Rates add up to the target, and each is the exact growth at its gain, up to the interpolation of the table."""
    found = gain_schedule("tanh", 60, 0.4, samples=12)
    assert found.total == pytest.approx(0.4, abs=1e-9)
    for layer in (1, 2, 10, 60):
        gain = found.schedule.at(layer, 60)
        exact = gradient_growth(activation("tanh").gain(gain), 12) - gradient_growth("identity", 12)
        assert found.rates[layer - 1] == pytest.approx(exact, rel=5e-3)


def test_a_network_with_the_schedule_grows_as_planned() -> None:
    """Over 12 layers of one batch, the trajectory with and without shaping; the constant gain grows far more."""
    depth, total = 12, 0.15
    found = gain_schedule("tanh", depth, total, samples=8)
    gram = np.diag(np.linspace(0.9, 1.1, 8))

    def grown(gain: object) -> float:
        spec = Spec(width=50, depth=depth, activation="tanh", norm="batch", activation_gain=gain)  # type: ignore[arg-type]
        logs = predict(spec, gram=gram, metrics=["log_norm"], backward=True)["gradient_log_norm"].values[0]
        # the gradient by the input, so that the size of the layers' own outputs plays no part
        return float(logs[0])

    linear = Spec(width=50, depth=depth, activation="identity", norm="batch")
    base = float(predict(linear, gram=gram, metrics=["log_norm"], backward=True)["gradient_log_norm"].values[0][0])

    def end(gain: float) -> float:
        """The cotangent meets φ′ of the last layer, whose outputs nobody divides by their size again."""
        return 0.5 * math.log(activation("tanh").gain(gain).second_moment)

    assert grown(found.schedule) - base - end(found.schedule.at(depth, depth)) == pytest.approx(total, abs=0.06)
    assert grown(1.0) - base - end(1.0) > 4 * total


def test_a_measured_schedule_is_that_of_its_fit() -> None:
    gains, rates = [1.0, 0.5, 0.25], [0.32, 0.02, 0.00125]
    found = measured_gain_schedule(gains, rates, 50, 0.05, k=1.5)
    fit = fit_gain(gains, rates, k=1.5)
    assert found.exponent == pytest.approx(fit.exponent)
    assert found.schedule.layer == pytest.approx(-1.5 / 4)
    assert found.total == pytest.approx(0.05)
    generous = measured_gain_schedule(gains, rates, 50, 1e9)
    assert generous.schedule.scale == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gain_schedule("relu", 10, 1.0, samples=8), "kink at 0"),
        (lambda: gain_schedule("identity", 10, 1.0, samples=8), "is linear"),
        (lambda: growth_exponent("cos"), "flat at 0"),
        (lambda: gain_schedule("tanh", 0, 1.0, samples=8), "depth is 0"),
        (lambda: gain_schedule("tanh", 5, -1.0, samples=8), "total is -1"),
        (lambda: gain_schedule("tanh", 5, 1.0, samples=8, k=1.0), "above 1"),
    ],
)
def test_schedules_refuse_what_they_cannot_shape(call: object, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        call()  # type: ignore[operator]
