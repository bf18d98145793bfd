"""Moments, Hermite coefficients, kernels and fixed points against references of thirty digits; error estimates."""

import math
from functools import cache

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import special

from isometer import Activation, activation
from isometer.activations import expectation, registry
from isometer.theory import KernelMap
from support.references import generate, stored

REFERENCES = stored("activations")
NAMES = sorted(REFERENCES)
EPS = 2.2e-16


@cache
def phi(name: str) -> Activation:
    return activation(name)


@cache
def kernel(name: str) -> KernelMap:
    return KernelMap(phi(name))


def close(value: float, reference: str | float, tolerance: float = 1e-12) -> None:
    """Absolute below one, relative above."""
    expected = float(reference)
    assert abs(value - expected) <= tolerance * max(1.0, abs(expected)), (value, expected, abs(value - expected))


def test_references_cover_a_third_of_the_registry() -> None:
    covered = {name.partition("(")[0] for name in NAMES}
    assert covered <= set(registry())
    assert 3 * len(covered) >= len(registry())


@pytest.mark.parametrize("name", NAMES)
def test_moments(name: str) -> None:
    expected, moments = REFERENCES[name], phi(name).moments
    close(moments["mean"].value, expected["mean"])
    close(moments["second"].value, expected["second_moment"])
    close(moments["slope_second"].value, expected["slope_second_moment"])
    second, slope = float(expected["second_moment"]), float(expected["slope_second_moment"])
    assert phi(name).gain_forward == pytest.approx(second**-0.5, rel=1e-12)
    assert phi(name).gain_backward == pytest.approx(slope**-0.5 if slope else math.inf, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_moment_errors_are_honest_and_small(name: str) -> None:
    expected, moments = REFERENCES[name], phi(name).moments
    keys = {"mean": "mean", "second": "second_moment", "slope_second": "slope_second_moment"}
    for key, reference in keys.items():
        estimate, value = moments[key], float(expected[reference])
        assert abs(estimate.value - value) <= max(2 * estimate.error, 4 * EPS * max(1.0, abs(value)))
        assert estimate.error <= 1e-12 * max(1.0, abs(value))


@pytest.mark.parametrize("name", NAMES)
def test_hermite_coefficients(name: str) -> None:
    computed = phi(name).unit().hermite(10)
    expected = np.array([float(c) for c in REFERENCES[name]["hermite"]])
    assert computed.shape == (11,)
    np.testing.assert_allclose(computed, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_kernel_constants(name: str) -> None:
    expected, k = REFERENCES[name], kernel(name)
    close(k.at_zero, expected["kernel_at_zero"], 1e-13)
    close(k.slope_at_zero, expected["kernel_slope_at_zero"], 1e-13)
    if expected["kernel_slope_at_one"] == "inf":
        assert k.slope_at_one == math.inf
    else:
        close(k.slope_at_one, expected["kernel_slope_at_one"], 1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_kernel_values_and_their_error_estimate(name: str) -> None:
    k = kernel(name)
    rho = np.array([float(text) for text in REFERENCES[name]["kernel"]])
    expected = np.array([float(value) for value in REFERENCES[name]["kernel"].values()])
    error = np.abs(k(rho) - expected)
    assert error.max() <= 1e-13
    assert error.max() <= max(3 * k.error, 4 * EPS)
    assert k.error <= 1e-12
    raw = phi(name).kernel(rho)
    np.testing.assert_allclose(raw, expected * float(REFERENCES[name]["second_moment"]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_gaps_close_to_one_keep_their_digits(name: str) -> None:
    for text, expected in REFERENCES[name]["gap"].items():
        assert kernel(name).gap_after(float(text)) == pytest.approx(float(expected), rel=1e-13, abs=0), text


@pytest.mark.parametrize("name", NAMES)
def test_fixed_points(name: str) -> None:
    expected, k = REFERENCES[name], kernel(name)
    if expected["fixed_point"] is None:
        assert k.fixed_point in (0.0, 1.0)
    else:
        close(k.fixed_point, expected["fixed_point"], 1e-12)
        close(k.slope_at_fixed_point, expected["slope_at_fixed_point"], 1e-12)
        assert k.fixed_point_gap == pytest.approx(1 - float(expected["fixed_point"]), rel=1e-12)


def test_every_registry_activation_states_an_error_below_1e_12() -> None:
    worst = {name: activation(name).error_estimate for name in registry()}
    assert max(worst.values()) <= 1e-12, {k: v for k, v in worst.items() if v > 1e-12}


# --- the stored references themselves ---------------------------------------------------------------------------------


def agree(live: object, stored: str, digits: int) -> None:
    assert abs(mpf(stored) - live) <= mpf(10) ** -digits * max(mpf(1), abs(mpf(stored))), (live, stored)


@pytest.mark.parametrize("name", ["exp", "sin"])
def test_stored_series_references_are_reproduced(name: str) -> None:
    with mp.workdps(60):
        live = generate.smooth_reference(name)
        stored = REFERENCES[name]
        agree(live["mean"], stored["mean"], 29)
        agree(live["second_moment"], stored["second_moment"], 29)
        for a, b in zip(live["hermite"], stored["hermite"], strict=True):
            agree(a, b, 29)
        for text in generate.RHOS:
            agree(live["kernel"][text], stored["kernel"][text], 29)


@pytest.mark.parametrize("name", ["hardtanh", "elu", "relu2", "normrelu(-1.5975)"])
def test_stored_piecewise_references_are_reproduced(name: str) -> None:
    pieces, stored = generate.PIECEWISE[name], REFERENCES[name]
    with mp.workdps(34):
        second = generate.piecewise_moment(pieces, lambda x, y: y * y)
        agree(generate.piecewise_moment(pieces, lambda x, y: y), stored["mean"], 29)
        agree(second, stored["second_moment"], 29)
        order = generate.piecewise_moment(pieces, lambda x, y: y * generate.hermite_value(5, x))
        agree(order / mp.sqrt(second), stored["hermite"][5], 29)


def test_stored_kernel_values_equal_closed_forms() -> None:
    """Formulas that share nothing with the generator."""
    with mp.workdps(40):
        for text in generate.RHOS:
            rho = mpf(text)
            theta = mp.acos(rho)
            agree((mp.sin(theta) + (mp.pi - theta) * rho) / mp.pi, REFERENCES["relu"]["kernel"][text], 30)
            agree(2 * mp.asin(rho) / mp.pi, REFERENCES["sign"]["kernel"][text], 30)
            agree(mp.asin(2 * rho / 3) / mp.asin(mpf(2) / 3), REFERENCES["erf"]["kernel"][text], 30)
            agree(mp.sinh(rho) / mp.sinh(1), REFERENCES["sin"]["kernel"][text], 30)
            agree(mp.sqrt(5 / (9 - 4 * rho * rho)), REFERENCES["gaussian"]["kernel"][text], 30)
        for text in generate.GAPS:
            gap = mpf(text)
            agree(-mp.expm1(-gap) / gap, str(mpf(REFERENCES["exp"]["gap"][text]) / gap), 29)
            # hardtanh: κ'' = Σ J_i J_j p₂(k_i, k_j); κ(1) − κ(1 − δ) = κ'(1)δ − ∫ (t − 1 + δ) κ''(t) dt, t = cos θ
            top = mp.acos(1 - gap)
            bend = mp.quad(
                lambda a, g=gap: (mp.cos(a) - 1 + g) / mp.pi * (mp.exp(-1 / (1 + mp.cos(a))) - _mirrored(a)), [0, top]
            )
            second = mpf(REFERENCES["hardtanh"]["second_moment"])
            deficit = mpf(REFERENCES["hardtanh"]["kernel_slope_at_one"]) - bend / gap / second
            agree(deficit, str(mpf(REFERENCES["hardtanh"]["gap"][text]) / gap), 20)


def _mirrored(angle: mpf) -> mpf:
    return mp.exp(-1 / (2 * mp.sin(angle / 2) ** 2))


# --- arbitrary callables ----------------------------------------------------------------------------------------------


def elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


CALLABLES = {
    "elu": (elu, [0.0]),
    "hardtanh": (lambda x: np.clip(x, -1, 1), [-1.0, 1.0]),
    "relu": (lambda x: x * (x > 0), [0.0]),
    "step": (lambda x: (x >= 0) * 1.0, [0.0]),
    "hardswish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, [-3.0, 3.0]),
    "softsign": (lambda x: x / (1 + np.abs(x)), [0.0]),
    "tanh": (np.tanh, []),
    "mish": (lambda x: x * np.tanh(np.logaddexp(x, 0)), []),
}


@pytest.mark.parametrize(
    ("name", "declared"),
    [*((name, False) for name in sorted(CALLABLES)), ("elu", True), ("hardtanh", True), ("step", True)],
)
def test_callables_reach_1e_10(name: str, declared: bool) -> None:
    function, kinks = CALLABLES[name]
    made = activation(function, name=name, kinks=kinks if declared else None)
    assert made.kinks == pytest.approx(kinks, abs=1e-13)
    expected, k = REFERENCES[name], KernelMap(made)
    keys = {"mean": "mean", "second": "second_moment", "slope_second": "slope_second_moment"}
    for key, reference in keys.items():
        estimate, value = made.moments[key], float(expected[reference])
        close(estimate.value, value, 1e-10)
        assert abs(estimate.value - value) <= max(3 * estimate.error, 8 * EPS * max(1.0, abs(value)))
    np.testing.assert_allclose(made.unit().hermite(10), [float(c) for c in expected["hermite"]], rtol=0, atol=1e-10)
    rho = [float(text) for text in expected["kernel"]]
    error = np.abs(k(rho) - np.array([float(v) for v in expected["kernel"].values()])).max()
    assert error <= 1e-10
    assert error <= max(3 * k.error, 8 * EPS)
    for text, value in expected["gap"].items():
        assert k.gap_after(float(text)) == pytest.approx(float(value), rel=1e-9, abs=0)
    if expected["fixed_point"] is not None:
        close(k.fixed_point, expected["fixed_point"], 1e-10)
        close(k.slope_at_fixed_point, expected["slope_at_fixed_point"], 1e-9)


def test_a_jump_away_from_zero_with_a_slope_beside_it() -> None:
    made = activation(lambda x: np.where(x > 0.3, 1.0, -0.2 * x))
    assert made.kinks == pytest.approx([0.3], abs=1e-13)
    ((place, size),) = made.jumps
    assert (place, size) == pytest.approx((0.3, 1.06), abs=1e-9)
    cut, low, ratio = mpf(3) / 10, mp.ncdf(mpf(3) / 10), mpf(-1) / 5
    edge = generate.density(cut)
    close(made.mean, float(1 - low - ratio * edge), 1e-10)
    second = 1 - low + ratio**2 * (low - cut * edge)
    close(made.second_moment, float(second), 1e-10)


@pytest.mark.slow
def test_kernel_of_a_jump_with_a_slope_beside_it() -> None:
    made = activation(lambda x: np.where(x > 0.3, 1.0, -0.2 * x))
    pieces = generate._pieces([mpf(3) / 10], (0, mpf(-1) / 5), (1,))
    with mp.workdps(25):
        for rho in (-0.5, 0.7):
            expected = float(generate.pair_expectation(pieces, mpf(rho)))
            error = abs(made.kernel(rho) - expected)
            assert error <= 1e-10
            assert error <= max(3 * made.dual.error, 8 * EPS)


@pytest.mark.slow
def test_floor_has_a_jump_at_every_integer() -> None:
    made = activation(np.floor)
    inside = [k for k in made.kinks if abs(k) < 9]
    assert inside == pytest.approx(list(range(-8, 9)), abs=1e-12)
    close(made.mean, -0.5, 1e-10)
    tails = [special.ndtr(-float(k)) for k in range(1, 39)]  # E floor² = Σ (2k − 1)P(X ≥ k) + … on both sides
    second = (
        sum((2 * k - 1) * t for k, t in enumerate(tails, 1))
        + 0.5
        + sum((2 * k + 1) * t for k, t in enumerate(tails, 1))
    )
    close(made.second_moment, second, 1e-10)
    with mp.workdps(25):

        def slope(t: mpf) -> mpf:  # Σ p₂(i, j; t)
            rest = 1 - t * t
            return mp.fsum(
                mp.exp(-(i * i - 2 * t * i * j + j * j) / (2 * rest)) for i in range(-9, 10) for j in range(-9, 10)
            ) / (2 * mp.pi * mp.sqrt(rest))

        for rho in (-0.4, 0.6):
            expected = mpf(1) / 4 + mp.quad(slope, [0, mpf(rho)])
            assert abs(made.kernel(rho) - float(expected)) <= 1e-10


def test_steep_callables() -> None:
    steep = activation(lambda x: special.erf(20 * x))
    r = 800 / 801
    rho = np.array([-0.9, -0.2, 0.5, 0.99, 1.0])
    np.testing.assert_allclose(steep.kernel(rho), 2 / np.pi * np.arcsin(r * rho), rtol=0, atol=1e-10)
    close(steep.moments["slope_second"].value, 2 * r / math.pi / math.sqrt(1 - r * r), 1e-10)
    tanh = activation(lambda x: np.tanh(20 * x))
    with mp.workdps(30):
        edges = [0, 0.05, 0.1, 0.2, 0.4, 0.8, 2, 4, 8, 12]
        second = 2 * mp.quad(lambda x: mp.tanh(20 * x) ** 2 * generate.density(x), edges)
        slope = 2 * mp.quad(lambda x: (20 * mp.sech(20 * x) ** 2) ** 2 * generate.density(x), edges)
    close(tanh.second_moment, float(second), 1e-11)
    close(tanh.moments["slope_second"].value, float(slope), 1e-10)
    assert tanh.mean == 0.0


@pytest.mark.slow
def test_kernel_of_a_steep_callable_equals_that_of_the_expression() -> None:
    rho = np.array([-0.9, -0.2, 0.5, 0.99, 1.0])
    steep = activation(lambda x: np.tanh(20 * x))
    np.testing.assert_allclose(steep.kernel(rho), activation("tanh(20*x)").kernel(rho), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["tanh", pytest.param("relu", marks=pytest.mark.slow)])
def test_float32_callables_say_that_they_are_less_accurate(name: str) -> None:
    functions = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}
    made = activation(lambda x: functions[name](x.astype(np.float32)))
    expected = REFERENCES[name]
    for key, reference in {"mean": "mean", "second": "second_moment"}.items():
        estimate = made.moments[key]
        assert abs(estimate.value - float(expected[reference])) <= max(3 * estimate.error, 2e-7)
    error = max(abs(KernelMap(made)(float(t)) - float(v)) for t, v in expected["kernel"].items())
    assert error <= 2e-6
    assert error <= 3 * made.error_estimate
    assert made.error_estimate >= 1e-9  # nobody can know more than float32 told


@pytest.mark.parametrize(
    ("function", "kinks"),
    [
        (lambda x: np.abs(x - 1 / 3), [1 / 3]),
        (lambda x: np.maximum(x, 0.123456789), [0.123456789]),
        (lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0), [-0.5, 0.5]),
        (lambda x: np.clip(x, -0.001, 0.001), [-0.001, 0.001]),
        (lambda x: np.maximum(np.sin(x), -2), []),
        (lambda x: np.where(x < -math.e, 0.0, x * x), [-math.e]),
        (lambda x: np.maximum(x, 0) ** 2, [0.0]),
        (lambda x: np.abs(np.abs(x) - 2), [-2.0, 0.0, 2.0]),
    ],
)
def test_kinks_are_found_where_they_are(function: object, kinks: list[float]) -> None:
    found = activation(function).kinks
    near = [k for k in found if abs(k) < 12]
    assert near == pytest.approx(kinks, abs=1e-10), found


def test_expectation_of_a_declared_function() -> None:
    result = expectation(lambda x: np.abs(x - 0.7) ** 3, kinks=[0.7])
    a = mpf(0.7)
    exact = (a**3 + 3 * a) * (2 * mp.ncdf(a) - 1) + 2 * (a**2 + 2) * generate.density(a)
    assert abs(result.value - float(exact)) <= max(result.error, 1e-14)
    assert result.error < 1e-12


def test_expectation_without_declared_kinks_is_still_honest() -> None:
    result = expectation(lambda x: np.abs(x - 0.7))
    a = mpf(0.7)
    exact = float(a * (2 * mp.ncdf(a) - 1) + 2 * generate.density(a))
    assert abs(result.value - exact) <= max(3 * result.error, 1e-14)
    assert result.error < 1e-9


def test_expectation_of_an_integrand_with_a_kink_of_its_own_is_honest() -> None:
    """E relu(1 + X) relu(1 − X) = 2p(1): the second factor has a kink that the activation does not know of."""
    phi = activation("relu(x + 1)")
    result = phi.expectation(lambda x, y: y * phi(-x))
    exact = math.sqrt(2 / math.pi) * math.exp(-0.5)
    assert abs(result.value - exact) <= 3 * result.error + 8 * EPS


# --- integrable singularities -----------------------------------------------------------------------------------------


def absolute_moment(power: float) -> float:
    """E |X|^p."""
    return 2 ** (power / 2) * special.gamma((power + 1) / 2) / math.sqrt(math.pi)


@pytest.mark.parametrize("power", [-0.4, -0.2, 0.1, 0.5, 0.8, 1.5])
def test_powers_of_the_absolute_value(power: float) -> None:
    """Finite second moments, however steep at zero: never called infinite, and the error is stated."""
    estimate = activation(f"abs(x)**{power}").moments["second"]
    exact = absolute_moment(2 * power)
    assert abs(estimate.value - exact) <= max(3 * estimate.error, 8 * EPS * exact)
    assert estimate.error <= 1e-6


def test_a_square_integrable_cusp_has_a_finite_slope() -> None:
    """|x|^0.8: E φ′² = 0.64·E|X|^−0.4, so κ'(1) is finite."""
    phi = activation("abs(x)**0.8")
    estimate, exact = phi.moments["slope_second"], 0.64 * absolute_moment(-0.4)
    assert abs(estimate.value - exact) <= max(3 * estimate.error, 8 * EPS)
    assert phi.kernel_slope_at_one == pytest.approx(exact, rel=1e-6)


def test_a_root_of_a_rectifier_is_defined_everywhere() -> None:
    """√relu is zero on the left; only its derivative is 0·∞ there."""
    phi = activation("relu(x)**0.5")
    assert phi(np.array([-6.0, -1.0, 4.0])) == pytest.approx([0, 0, 2])
    assert phi.second_moment == pytest.approx(1 / math.sqrt(2 * math.pi), rel=1e-10)
