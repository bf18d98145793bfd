"""Activation shaping: the conditions it promises, recomputed independently of the solver."""

import math

import numpy as np
import pytest

from isometer import IsometerError, activation
from isometer.activations import expectation
from isometer.theory import kernel_map, length_slope, shape_activation, tailored_leaky_relu


def length_map(phi: object, q: float) -> float:
    """Q(q) = E φ(√q X)²."""
    return phi.gain(math.sqrt(q)).second_moment


@pytest.mark.parametrize("name", ["tanh", "softplus", "gelu", "sin", "silu"])
def test_length_slope_is_the_derivative_of_the_length_map(name: str) -> None:
    phi, h = activation(name), 1e-3
    values = [length_map(phi, 1 + step * h) for step in (-2, -1, 1, 2)]
    difference = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
    assert length_slope(name) == pytest.approx(difference, rel=1e-9)


def test_length_slope_by_hand() -> None:
    assert length_slope("unit(relu)") == pytest.approx(1, rel=1e-13)
    assert length_slope("square") == pytest.approx(6, rel=1e-13)  # Q = 3q²
    assert length_slope("exp") == pytest.approx(2 * math.exp(2), rel=1e-12)  # Q = e^{2q}
    assert length_slope("sign") == pytest.approx(0, abs=1e-14)
    # step(x − 1): Q(q) = P(X > 1/√q), Q'(1) = p(1)/2
    assert length_slope("step(x - 1)") == pytest.approx(math.exp(-0.5) / math.sqrt(2 * math.pi) / 2, rel=1e-10)


@pytest.mark.parametrize(("name", "depth"), [("tanh", 100), ("softplus", 50), ("gelu", 30), ("silu", 1000)])
def test_deep_kernel_shaping_meets_its_four_conditions(name: str, depth: int) -> None:
    shaped = shape_activation(name, depth, output_slope=1.5)
    phi = shaped.activation
    x = np.linspace(-3, 3, 41)
    rebuilt = shaped.output_scale * (
        activation(name)(shaped.input_scale * x + shaped.input_shift) + shaped.output_shift
    )
    np.testing.assert_allclose(phi(x), rebuilt, rtol=1e-12, atol=1e-12)
    mean, second = expectation(phi), expectation(lambda t: phi(t) ** 2)
    assert mean.value == pytest.approx(0, abs=1e-9)  # κ(0) = 0
    assert second.value == pytest.approx(1, abs=1e-9)  # Q(1) = 1
    assert length_slope(phi) == pytest.approx(1, abs=1e-7)  # Q'(1) = 1
    assert kernel_map(phi).slope_at_one ** depth == pytest.approx(1.5, rel=1e-7)  # κ_L'(1)
    assert shaped.output_slope == pytest.approx(1.5, rel=1e-7)
    assert shaped.residual < 1e-8
    assert shaped.depth == depth


@pytest.mark.parametrize(
    ("name", "depth", "value"),
    [pytest.param("softplus", 20, 0.9, marks=pytest.mark.slow), ("gelu", 40, 0.8), ("tanh", 20, 0.5)],
)
def test_tailored_transformations_meet_their_conditions(name: str, depth: int, value: float) -> None:
    shaped = shape_activation(name, depth, output_value=value)
    phi, k = shaped.activation, kernel_map(shaped.activation)
    assert expectation(lambda t: phi(t) ** 2).value == pytest.approx(1, abs=1e-8)
    assert k.slope_at_one == pytest.approx(1, abs=1e-8)
    assert length_slope(phi) == pytest.approx(1, abs=1e-7)
    rho = 0.0
    for _ in range(depth):
        rho = k(rho)
    assert rho == pytest.approx(value, abs=1e-7)
    assert shaped.output_value == pytest.approx(value, abs=1e-7)


def test_a_tailored_target_from_another_cosine() -> None:
    shaped = shape_activation("softplus", 10, output_value=0.6, input_cosine=0.2)
    assert kernel_map(shaped.activation).iterate(0.2, 10).cosine[-1] == pytest.approx(0.6, abs=1e-7)


@pytest.mark.parametrize(("depth", "value"), [(1, 0.1), (10, 0.5), (100, 0.9), (1000, 0.99)])
def test_tailored_leaky_relu(depth: int, value: float) -> None:
    phi = tailored_leaky_relu(depth, value)
    assert phi.second_moment == pytest.approx(1, rel=1e-13)
    assert kernel_map(phi).iterate(0.0, depth).cosine[-1] == pytest.approx(value, abs=1e-11)
    assert kernel_map(phi).slope_at_one == pytest.approx(1, rel=1e-13)
    assert 0 <= -phi(-1.0) / phi(1.0) < 1  # the slope on the left


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shape_activation("tanh", 10), "exactly one target"),
        (lambda: shape_activation("tanh", 10, output_slope=1.5, output_value=0.9), "exactly one target"),
        (lambda: shape_activation("tanh", 0, output_slope=1.5), "depth must be a whole number"),
        (lambda: shape_activation("tanh", 2.5, output_slope=1.5), "depth must be a whole number"),
        (lambda: shape_activation("tanh", 10, output_slope=0.9), "must exceed 1"),
        (lambda: shape_activation("tanh", 10, output_slope=math.nan), "must exceed 1"),
        (lambda: shape_activation("tanh", 10, output_value=1.0), "between the input cosine"),
        (lambda: shape_activation("tanh", 10, output_value=-0.1), "between the input cosine"),
        (lambda: shape_activation("2*x", 10, output_slope=1.5), "affine"),
        (lambda: shape_activation("relu", 10, output_slope=1.5), "tailored_leaky_relu"),
        (lambda: shape_activation("step", 10, output_slope=1.5), "jumps"),
        (lambda: tailored_leaky_relu(3, 0.999), "at most"),
        (lambda: tailored_leaky_relu(0), "depth must be a whole number"),
        (lambda: tailored_leaky_relu(10, 0.1, input_cosine=0.5), "got 0.1"),
    ],
)
def test_impossible_targets_are_named(call: object, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        call()
