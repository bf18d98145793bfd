"""Gains and variances from theory: principled gains, asymmetric weights, the odd point."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from isometer import Spec
from isometer.errors import IsometerError
from isometer.init import (
    asymmetric_,
    invariance_variance,
    iterative_orthogonalization_,
    odd_point_,
    principled_gain_,
    rank_pretraining_,
    stability_variance,
)
from isometer.nn import build
from support.models import F64, draw, mlp, refused

# --- orthogonal -------------------------------------------------------------------------------------------------------


class Compiled(nn.Module):
    """As `torch.compile` wraps a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._orig_mod = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._orig_mod(x)
        return result


class Backwards(nn.Module):
    """Layers that run in another order than they are defined in, one that never runs and weights of another kind."""

    def __init__(self) -> None:
        super().__init__()
        self.second, self.first, self.idle = (nn.Linear(6, 6, dtype=F64) for _ in range(3))
        self.mixing = nn.ParameterDict({"weight": nn.Parameter(torch.eye(6, dtype=F64))})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.second(torch.relu(self.first(x)) @ self.mixing["weight"]))


@pytest.mark.parametrize("wrap", [lambda model: model, Compiled])
def test_the_order_of_execution_and_what_is_left_alone(wrap: Callable[[nn.Module], nn.Module]) -> None:
    x = draw(20, 6)
    for call in (
        lambda model: principled_gain_(model, x),
        lambda model: iterative_orthogonalization_(model, x),
        lambda model: rank_pretraining_(model, x, steps=2),
    ):
        model = Backwards()
        idle = model.idle.weight.detach().clone()
        outcome = call(wrap(model))
        assert [layer.name for layer in outcome.layers] == ["first", "second"]
        assert {name for name, _ in outcome.skipped} == {"idle", "mixing"}
        assert torch.equal(idle, model.idle.weight)
    gains = [layer.numbers["principled"] for layer in principled_gain_(wrap(Backwards()), x).layers]
    assert gains == pytest.approx([math.sqrt(2), 1.5925374], rel=1e-6)  # ReLU first, then tanh


# --- variances --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", ["gaussian", "uniform", "orthogonal", "keep"])
def test_principled_gains_keep_the_second_moment(law: str) -> None:
    """ReLU, width 400, six layers: E h² changes by a factor with relative deviation about √(5 · 6/400) = 0.27."""
    model, x = mlp(6, 400), draw(4, 400)
    outcome = principled_gain_(model, x, law=law)
    assert [layer.numbers["principled"] for layer in outcome.layers] == pytest.approx([math.sqrt(2)] * 6)
    assert all(layer.gain == pytest.approx(math.sqrt(2), rel=0.02) for layer in outcome.layers)
    ratio = model(x).detach().square().mean() / x.square().mean()
    assert 0.3 < float(ratio) < 3.3  # Xavier weights give 2^−6


def test_principled_gains_see_what_follows() -> None:
    model = nn.Sequential(
        nn.Linear(6, 6),
        nn.BatchNorm1d(6),
        nn.Tanh(),
        nn.Linear(6, 6),
        nn.Dropout(0.1),
        nn.GELU(),
        nn.Linear(6, 6),
        nn.Linear(6, 2),
    )
    numbers = [layer.numbers["principled"] for layer in principled_gain_(model, torch.ones(4, 6)).layers]
    # 1/√E tanh² and 1/√E gelu² by quadrature
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    tanh = 1 / math.sqrt(weights @ np.tanh(nodes) ** 2)
    gelu = 1 / math.sqrt(weights @ (nodes * stats.norm.cdf(nodes)) ** 2)
    assert numbers == pytest.approx([tanh, gelu, 1.0, 1.0], rel=1e-6)
    network = build(Spec(width=6, depth=2, norm="batch", activation="normalized(x * tanh(x))"), classes=3)
    found = principled_gain_(network, torch.randn(5, 6, generator=torch.Generator().manual_seed(0)))
    assert [layer.numbers["principled"] for layer in found.layers] == pytest.approx([1.0, 1.0, 1.0])
    network = build(Spec(width=6, depth=2, activation="x * tanh(x)"))
    found = principled_gain_(network, draw(5, 6).float())
    xtanh = 1 / math.sqrt(weights @ (nodes * np.tanh(nodes)) ** 2)
    assert [layer.numbers["principled"] for layer in found.layers] == pytest.approx([xtanh] * 2, rel=1e-6)
    assert principled_gain_(nn.Linear(4, 4), activation="relu").layers[0].numbers["principled"] == math.sqrt(2)


def test_principled_gains_refuse() -> None:
    linear = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    for call, message in [
        (lambda: principled_gain_(linear, torch.ones(2, 4)), "no activation follows any weights"),
        (lambda: principled_gain_(linear), "either a batch"),
        (lambda: principled_gain_(linear, activation="relu", law="cauchy"), "law is 'cauchy'"),
        (lambda: principled_gain_(torch.zeros(3, 3), activation="relu", law="keep"), "are zero; expected"),
        (lambda: principled_gain_(nn.Sequential(nn.Linear(4, 4), nn.RReLU()), torch.ones(2, 4)), "not in the registry"),
    ]:
        refused(linear, call, message)


def test_asymmetric_weights_have_the_moments_of_their_law() -> None:
    """Mean gain/√fan_in, variance gain²/(3 fan_in); kurtosis of a uniform 1.8."""
    weight = torch.empty(300, 10, 10, dtype=F64)
    asymmetric_(weight, gain=1.5)
    count, fan_in = weight.numel(), 100
    mean, variance = 1.5 / math.sqrt(fan_in), 1.5**2 / (3 * fan_in)
    assert abs(float(weight.mean()) - mean) < 5 * math.sqrt(variance / count)
    assert abs(float(weight.var()) / variance - 1) < 5 * math.sqrt(0.8 / count)
    assert float(weight.min()) >= 0
    assert float(weight.max()) <= 2 * mean


@pytest.mark.parametrize(("samples", "radius"), [(5, None), (10, None), (5, 1.6), (10, 3.0)])
def test_the_odd_point_keeps_its_length_in_mean_square(samples: int, radius: float | None) -> None:
    """relu(W(x − x̄)) of the invariant batch (000/def-12), or of an odd point at distance R: E‖x₁⁺‖² = 1."""
    n, width, runs = samples, 60, 600
    x = np.zeros((n, 3))
    x[1:, 1] = 1 / (n - 1)
    x[0, 0] = 1.0 if radius is None else math.sqrt(radius**2 - 1 / (n - 1) ** 2)
    centred = torch.tensor(x - x.mean(0))
    first, cluster = [], []
    for seed in range(runs):
        weight = torch.empty(width, 3, dtype=F64)
        odd_point_(weight, samples=n, radius=radius, seed=seed)
        after = torch.relu(centred @ weight.mT)
        first.append(float(after[0].square().sum()))
        cluster.append(float(after[1].square().sum()))
        assert float(after[0] @ after[1]) == pytest.approx(0.0, abs=1e-12)
    for values, expected in ((first, 1.0), (cluster, 1 / (n - 1) ** 2)):
        assert abs(np.mean(values) - expected) < 5 * np.std(values) / math.sqrt(runs)


def test_variances_of_the_theorems_refuse() -> None:
    assert invariance_variance(10, 100) == pytest.approx(2 * 100 / 82 / 100)
    with pytest.raises(IsometerError, match="samples is 1"):
        invariance_variance(1, 10)
    with pytest.raises(IsometerError, match=r"more than n/\(n − 1\) = 1.25"):
        stability_variance(5, 1.2, 10)


# --- what must not be written to --------------------------------------------------------------------------------------
