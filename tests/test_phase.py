"""Length maps, phases and Jacobians against known values and finite networks."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from isometer import activation
from isometer.cli import app
from isometer.cli import kernel as kernel_commands  # noqa: F401
from isometer.errors import IsometerError
from isometer.theory.phases import (
    LengthMap,
    SignalFamily,
    edge_of_chaos,
    jacobian_moments,
    length_bound,
    length_contraction,
    phase_diagram,
    phase_point,
    settling_depth,
)


def test_relu_is_critical_at_two_only() -> None:
    assert phase_point("relu", 2.0).phase == "critical"
    assert phase_point("relu", 1.9).phase == "ordered"
    assert phase_point("relu", 2.1).phase == "unbounded"
    assert phase_point("relu", 1.0, 0.5).variance == pytest.approx(1.0, rel=1e-14)  # q = q/2 + ½
    assert phase_point("relu", 2.0, 0.5).phase == "unbounded"


def test_sine_has_closed_forms() -> None:
    """E sin²(√q X) = (1 − e^{−2q})/2, E cos² = (1 + e^{−2q})/2: q* and χ from one scalar equation."""
    point = phase_point("sin", 3.0, 0.0)
    assert point.variance == pytest.approx(1.5 * (1 - math.exp(-2 * point.variance)), rel=1e-12)
    assert point.chi == pytest.approx(1.5 * (1 + math.exp(-2 * point.variance)), rel=1e-12)
    assert point.phase == "chaotic"
    assert point.cosine == pytest.approx(0.0, abs=1e-12)


def test_edge_of_chaos_of_tanh() -> None:
    """It starts at σ_w² = 1, σ_b² = 0, and every point on it is critical."""
    edge = edge_of_chaos("tanh")
    assert edge.weight_variance[0] == 1.0
    assert edge.bias_variance[0] == 0.0
    for k in np.searchsorted(edge.variance, [0.1, 3.0]):
        point = phase_point("tanh", float(edge.weight_variance[k]), float(edge.bias_variance[k]))
        assert point.variance == pytest.approx(edge.variance[k], rel=1e-6)
        assert point.chi == pytest.approx(1.0, abs=1e-6)
    assert phase_point("tanh", 1.0).phase == "critical"
    assert phase_point("tanh", edge.weight_at(0.25), 0.25).chi == pytest.approx(1.0, abs=1e-3)
    assert math.isnan(edge.weight_at(1e9))


@pytest.mark.slow
def test_chaotic_fixed_cosine_is_reached_by_iteration() -> None:
    point = phase_point("tanh", 4.0, 0.2)
    family = SignalFamily("tanh")
    view = family.at(point.variance)
    cosine = 0.999
    for _ in range(2000):
        cosine = (4.0 * float(view.dual.value(np.array(cosine))) + 0.2) / point.variance
    assert point.cosine == pytest.approx(cosine, abs=1e-12)
    assert point.correlation_scale > 0


def test_diagram_agrees_with_exact_points() -> None:
    diagram = phase_diagram("erf", points=9)
    for row, column in ((0, 8), (4, 4), (8, 2)):
        exact = phase_point("erf", float(diagram.weight_variances[column]), float(diagram.bias_variances[row]))
        assert diagram.variance[row, column] == pytest.approx(exact.variance, rel=2e-4)
        assert diagram.chi[row, column] == pytest.approx(exact.chi, rel=2e-4)


@pytest.mark.parametrize("name", ["relu", "gelu", "exp", "sign", "sigmoid", "elu"])
def test_diagrams_exist_for_every_kind_of_activation(name: str) -> None:
    diagram = phase_diagram(name, points=5)
    json.dumps(diagram.to_dict(), allow_nan=False)
    assert all(point.verdict for point in diagram.table)


def test_bad_points() -> None:
    with pytest.raises(IsometerError, match="finite number"):
        phase_point("relu", float("nan"))
    with pytest.raises(IsometerError, match="no signal"):
        phase_point("relu", 0.0)
    with pytest.raises(IsometerError, match="at least 2"):
        phase_diagram("relu", points=1)


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


# --- Jacobians --------------------------------------------------------------------------------------------------------


def test_jacobian_of_linear_networks() -> None:
    gaussian, orthogonal = (jacobian_moments("identity", 7, weights=w) for w in ("gaussian", "orthogonal"))
    assert gaussian.mean_square == orthogonal.mean_square == 1.0
    assert orthogonal.relative_variance == pytest.approx(0.0, abs=1e-12)
    assert gaussian.relative_variance == pytest.approx(7.0, rel=1e-12)


def test_jacobian_at_depth_of_a_million() -> None:
    assert jacobian_moments("relu", 10**6).log_mean_square == pytest.approx(-(10**6) * math.log(2), rel=1e-12)
    assert jacobian_moments("unit(tanh)", 10**6).mean_square == math.inf


@pytest.mark.parametrize("law", ["gaussian", "orthogonal"])
def test_jacobian_against_finite_networks(law: str) -> None:
    """Width 300, depth 4, 24 networks: means within 5 standard errors and 3 % of the limit (terms of order 1/width).

    A χ wrong by 3 % per layer moves the mean by 12 % and is caught.
    """
    rng, width, depth, runs = np.random.default_rng(0), 300, 4, 24
    phi = activation("tanh")
    slope = phi.derivative
    first, second = [], []
    for _ in range(runs):
        h = rng.standard_normal(width)
        h *= math.sqrt(width) / np.linalg.norm(h)
        jacobian = np.eye(width)
        for _ in range(depth):
            w = rng.standard_normal((width, width))
            if law == "orthogonal":
                q, r = np.linalg.qr(w)
                w = q * np.sign(np.diag(r)) * math.sqrt(1.5)
            else:
                w *= math.sqrt(1.5 / width)
            z = w @ h
            jacobian = slope(z)[:, None] * (w @ jacobian)
            h = phi(z)
        product = jacobian @ jacobian.T
        first.append(np.trace(product) / width)
        second.append(np.sum(product * product) / width)
    limit = jacobian_moments("tanh", depth, weights=law, weight_variance=1.5)  # type: ignore[arg-type]
    for values, expected in (
        (first, limit.mean_square),
        (second, limit.mean_square**2 * (1 + limit.relative_variance)),
    ):
        error = np.std(values, ddof=1) / math.sqrt(runs)
        assert abs(np.mean(values) - expected) <= 5 * error + 0.03 * expected


def test_phase_command(tmp_path: Path) -> None:
    runner = CliRunner()
    result = runner.invoke(app, ["phase", "--activation", "tanh", "--json", "--plot", str(tmp_path / "p.png")])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["edge_of_chaos"]["weight_variance"][0] == 1.0
    assert (tmp_path / "p.png").stat().st_size > 10_000
    assert "single point" in runner.invoke(app, ["phase", "--activation", "relu"]).output
