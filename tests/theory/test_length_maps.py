"""Length maps and their contraction against known values and proofs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isometer.errors import IsometerError
from isometer.theory.kernels import LengthMap, SignalFamily, length_bound, length_contraction, settling_depth

# --- 004, inputs of other lengths -------------------------------------------------------------------------------------


def test_constants_of_normrelu() -> None:
    """004/fact-1 to the digits it prints; σ̂_l(½) is 0.53999, printed as .5399, and α′ inherits the cut."""
    family = SignalFamily("normrelu")
    assert family.second_moment(0.5) == pytest.approx(0.5399, abs=2e-4)
    assert round(family.slope(1.0), 4) == 0.8428
    assert round(family.bias(2.0), 4) == 0.0029
    assert family.bias(0.5) == pytest.approx(0.00086, abs=6e-6)
    assert length_contraction("normrelu") == pytest.approx(0.0798, abs=5e-4)


def test_generalised_hermite_series_sums_to_the_kernel() -> None:
    """004/eq-15: E σ(x)σ(y) = Σ_j a_j^{p} a_j^{q} ρ^j, and 004/lem-40, for erf with its closed form."""
    p, q, rho = 0.7, 1.9, 0.4
    family = SignalFamily("erf")
    total = np.sum(family.hermite(p, 60) * family.hermite(q, 60) * rho ** np.arange(61))
    exact = 2 / np.pi * math.asin(2 * rho * math.sqrt(p * q) / math.sqrt((1 + 2 * p) * (1 + 2 * q)))
    assert total == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("name", ["unit(tanh)", "unit(erf)", "unit(arctan)", "unit(softsign)", "unit(hardtanh)"])
def test_lengths_contract_as_proved(name: str) -> None:
    """eq. 12 of 004 (one step, linear in |γ − 1|) holds; the display of 004/thm-37 squares the distance."""
    family, rate = SignalFamily(name), 1 - length_contraction(name)
    for gamma in (0.5, 0.8, 1.2, 3.0):
        assert abs(family.second_moment(gamma) - 1) <= rate * abs(gamma - 1) * (1 + 1e-9) + 1e-13


def test_display_of_theorem_37_fails_where_its_proof_holds() -> None:
    lengths = LengthMap("unit(tanh)")
    start, depth = 1.1, 1
    reached = abs(lengths.iterate(start, depth)[-1] - 1)
    bound = length_bound("unit(tanh)", start, depth)
    assert reached <= bound["proved"]
    assert reached > bound["printed"]


def test_settling_depth_of_theorem_12_is_below_that_of_its_proof() -> None:
    found = settling_depth("unit(tanh)", [0.5, 3.0])
    assert 0 < found["printed"] < found["proved"]
    with pytest.raises(IsometerError, match=r"at least 0\.5"):
        settling_depth("unit(tanh)", [0.1])
    with pytest.raises(IsometerError, match="unit"):
        length_contraction("tanh")


def test_a_jump_at_zero_counts_wherever_others_are() -> None:
    assert SignalFamily("sign(x)").slope_second(0.0) == math.inf
    assert SignalFamily("sign(x + 1) + sign(x)").slope_second(0.0) == math.inf
    assert SignalFamily("sign(x + 1)").slope_second(0.0) == 0.0
