"""NormReLU against closed forms and the kernels of networks."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from isometer import activation
from isometer.errors import IsometerError
from isometer.theory import LengthMap, kernel_matrix
from isometer.theory.kernels import (
    NORMRELU_EXCESS,
    NORMRELU_RATE,
    NormReLUMoments,
    conditioning_bounds,
    normrelu_bound,
    normrelu_settling_depth,
)

# --- NormReLU ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", [0.5, 1.0, 1.7])
def test_normrelu_closed_forms(variance: float) -> None:
    unit = NormReLUMoments()
    with mp.workdps(25):
        c, root = mp.mpf(unit.kink), mp.sqrt(variance)

        def sigma(z: mp.mpf) -> mp.mpf:
            return mp.mpf(unit.scale) * (max(z - c, 0) + mp.mpf(unit.shift))

        points = [-12, c / root, 12]
        mean = mp.quad(lambda z: sigma(root * z) * mp.npdf(z), points)
        second = mp.quad(lambda z: sigma(root * z) ** 2 * mp.npdf(z), points)
        slope = mp.quad(lambda z: sigma(root * z) * unit.scale * z / root * mp.npdf(z), points[1:])
    assert unit.mean(variance) == pytest.approx(float(mean), abs=1e-14)
    assert unit.second_moment(variance) == pytest.approx(float(second), rel=1e-13)
    assert unit.slope(variance) == pytest.approx(float(slope), rel=1e-12)


def test_normrelu_constants_as_printed() -> None:
    """004/fact-1 to its digits; σ̂_l(0.5) and α⁻ differ in the last printed digit."""
    unit = NormReLUMoments()
    assert unit.nonlinearity == pytest.approx(activation("normrelu").nonlinearity, rel=1e-12)
    assert round(unit.slope(1.0), 4) == 0.8428
    assert round(unit.bias(2.0), 4) == 0.0029
    assert unit.bias(0.5) == pytest.approx(0.00086, abs=6e-6)
    assert unit.rates[0] == pytest.approx(NORMRELU_RATE, abs=5e-4)
    assert unit.rates[1] == pytest.approx(0.1572, abs=5e-5)
    assert unit.excess == pytest.approx(NORMRELU_EXCESS, abs=2e-4)
    grid = np.linspace(0.5, 2, 61)
    bias = np.array([unit.bias(v) for v in grid])
    length = np.array([unit.second_moment(v) for v in grid])
    assert (np.diff(length) > 0).all()
    assert (np.diff(length, 2) < 0).all()
    assert (np.diff(bias, 2) > 0).all()
    chord = np.where(grid < 1, 2 * unit.bias(0.5) * (1 - grid), unit.bias(2.0) * (grid - 1))  # 004/eq-28
    assert (bias <= chord + 1e-15).all()


@pytest.mark.slow
def test_normrelu_bound_beside_kernels() -> None:
    """004/thm-59 on squared lengths ½ and 2 at δ just above δ′, at the depth it starts from: 1 − 2e-5 against 0.19."""
    rho = 1 - 0.0186
    x = np.array([[1.0, 0.0], [rho, math.sqrt(1 - rho**2)]]) * np.sqrt([[0.5], [2.0]])
    start = math.ceil(normrelu_settling_depth(0.003))
    assert normrelu_bound(start - 1, 0.5, 0.003) == math.inf
    for depth, applies in ((2, False), (start + 1, True)):
        checks = conditioning_bounds(kernel_matrix("normrelu", x, depth))
        found = {check.reference: check for check in checks}["004/thm-59"]
        assert found.applies is applies
    assert found.holds
    assert found.value == pytest.approx(1.0, abs=1e-3)
    assert found.measured == pytest.approx(0.188, abs=0.01)
    for bad in (0.01, 1.5):
        with pytest.raises(IsometerError, match="thm-59"):
            normrelu_bound(500, bad, 0.1)


# --- inequalities about duals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["relu(x) - 1", "unit(relu(x) - 1)"])
def test_shifted_relu_has_one_length(name: str) -> None:
    """004/rem-D4 offers max(x, 0) − 1 as a length map without global convergence; with unit weights it has it."""
    lengths = LengthMap(name)
    (point,) = lengths.fixed_points
    assert point.slope < 0.2
    for start in (1e-6, 0.01, 0.5, 3.0, 1e3, 1e6):
        assert lengths.iterate(start, 100)[-1] == pytest.approx(point.variance, rel=1e-9)
