"""Phases and the edge of chaos against known values."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from isometer.errors import IsometerError
from isometer.theory.kernels import SignalFamily
from isometer.theory.phases import edge_of_chaos, phase_diagram, phase_point


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
