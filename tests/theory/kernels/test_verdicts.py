"""Verdicts of steep, tiny and huge activations, against closed forms; numbers that do not depend on scale; warnings."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from isometer import ActivationError, IsometerError, activation
from isometer.theory import explain, kernel_map
from support.command import as_json, printed
from support.fuzz.activations import _power_kernel

RHO = (-0.8, 0.2, 0.7, 0.97)


def fixed_point(kappa: object, start: float) -> float:
    """Of a formula, with thirty digits."""
    with mp.workdps(30):
        return float(mp.findroot(lambda rho: kappa(rho) - rho, mpf(start)))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "kappa"),
    [
        ("x**24", lambda rho: _power_kernel(24, rho)),
        ("x**40", lambda rho: _power_kernel(40, rho)),
        ("(100*x)**6", lambda rho: _power_kernel(6, rho)),
        ("exp(6*x)", lambda rho: mp.exp(36 * (rho - 1))),
        ("exp(15*x)", lambda rho: mp.exp(225 * (rho - 1))),
        ("cosh(7*x)", lambda rho: mp.cosh(49 * rho) / mp.cosh(49)),
        ("cosh(9*x)", lambda rho: mp.cosh(81 * rho) / mp.cosh(81)),
    ],
)
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100, 1e190])
def test_steep_functions_settle_where_the_formula_says(text: str, kappa: object, scale: float) -> None:
    k = kernel_map(activation(text).scaled(scale))
    exact = fixed_point(kappa, float(kappa(mpf(0))))  # type: ignore[operator]
    assert k.case == 4
    assert k.fixed_point == pytest.approx(exact, rel=1e-11, abs=0)
    with mp.workdps(150):
        assert k.rate == pytest.approx(float(mp.diff(kappa, mpf(exact), h=mpf(10) ** -60)), rel=1e-6, abs=0)
    for rho in RHO:
        assert abs(k(rho) - float(kappa(mpf(rho)))) <= max(3 * k.error, 4e-15)  # type: ignore[operator]
    assert k.error < 1e-12
    assert k.iterate(0.5, 30).cosine[-1] == pytest.approx(exact, rel=1e-9, abs=0)


def test_a_rate_far_below_rounding_is_still_a_rate() -> None:
    """κ of sinh(9x) is sinh(81ρ)/sinh 81: its slope at zero is 1e-33, not zero."""
    k = kernel_map("sinh(9*x)")
    assert (k.case, k.rate_form) == (1, "exponential")
    assert k.rate == pytest.approx(81 / math.sinh(81), rel=1e-12, abs=0)


@pytest.mark.parametrize("text", ["gelu", "relu", "tanh", "elu", "step", "softplus"])
def test_no_verdict_depends_on_scale(text: str) -> None:
    plain = kernel_map(text)
    for scale in (1e-150, 1e-100, 1e100, 1e150, 1e200):
        k = kernel_map(activation(text).scaled(scale))
        assert (k.case, k.rate_form) == (plain.case, plain.rate_form)
        assert k.fixed_point == pytest.approx(plain.fixed_point, rel=1e-12)
        assert k.slope_at_one == pytest.approx(plain.slope_at_one, rel=1e-12)
        assert k.error < 1e-12


def test_a_little_bias_on_a_linear_layer_aligns_slowly() -> None:
    k = kernel_map("x + 1e-5")
    assert (k.case, k.rate_form) == (2, "exponential")
    assert k.depth_scale == pytest.approx(1e10, rel=1e-6)
    assert kernel_map("x + 1e-12").depth_scale == pytest.approx(1e24, rel=1e-6)


@pytest.mark.parametrize("gain", [1e10, 1e50, 1e150])
def test_a_step_of_any_steepness(gain: float) -> None:
    k = kernel_map(f"tanh({gain!r}*x)")
    rho = np.array(RHO)
    assert np.abs(k(rho) - 2 / np.pi * np.arcsin(rho)).max() <= max(3 * k.error, 1e-14)
    assert k.error <= 1e-8
    assert k.slope_at_one == pytest.approx(gain * math.sqrt(8 / math.pi) / 3, rel=1e-9)  # E φ′² = g·p(0)·4/3
    shifted = kernel_map(f"sigmoid({gain!r}*(x - 0.3))")
    known = kernel_map("step(x - 0.3)")
    assert np.abs(shifted(rho) - known(rho)).max() <= 1e-8
    assert shifted.fixed_point == pytest.approx(known.fixed_point, abs=1e-8)


def test_steep_but_not_too_steep_is_resolved() -> None:
    """erf by quadrature, hidden from the closed form, against its arcsine."""
    gain = 2e4
    k = kernel_map(f"erf({gain}*x) + 0*x**2 + erf({gain}*x)")
    assert np.abs(k(np.array(RHO)) - kernel_map(f"erf({gain}*x)")(np.array(RHO))).max() <= 3 * k.error


def test_infinite_slopes_are_not_jumps() -> None:
    for text in ("sqrt(relu(x))", "relu(x)**0.3", "sqrt(abs(x - 0.3))", "1e-100*relu(x)**0.5"):
        assert activation(text).jumps == (), text
    ((place, size),) = activation("1e-100*(step(x - 0.3) + sqrt(relu(x - 0.3)))").jumps
    assert place == pytest.approx(0.3)
    assert size == pytest.approx(1e-100, rel=1e-5)


@pytest.mark.parametrize("text", ["log(abs(x))", "sqrt(abs(x))", "gain(relu, 1e160)"])
def test_an_error_estimate_where_moments_exist(text: str) -> None:
    assert 0.0 <= activation(text).error_estimate < 1e-6


def test_what_floating_point_does_not_hold_is_refused() -> None:
    huge = activation("gain(relu, 1e160)")
    assert huge.gain_forward == pytest.approx(math.sqrt(2) * 1e-160)
    with pytest.raises(ActivationError, match="10\\^320"):
        _ = huge.second_moment
    with pytest.raises(IsometerError):
        huge.kernel(0.5)
    assert kernel_map(huge).case == 3


def test_a_large_error_is_a_warning_everywhere() -> None:
    text = "sigmoid(1e7*(x - 1))"
    card = explain(text)
    assert card.kernel.error > 1e-8
    (words,) = card.kernel.warnings
    assert "relative error" in words
    assert card.to_dict()["warnings"] == [words]
    assert "warning:" in printed("explain", text)
    assert as_json("explain", "relu")["warnings"] == []
