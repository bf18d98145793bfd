"""Stable rates and predicted descent against dense matrices, and against trainings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer import IsometerError, empirical_kernel
from isometer.empirical import descent, kernel_alignment, kernel_distance, kernel_drift, largest_stable_rate
from support.small_models import made


def test_the_curvature_of_squared_loss_is_that_of_the_kernel() -> None:
    for name in ("batch_norm_mlp", "encoder_layer", "unrolled_recurrence"):
        model, batch = made(name)
        kernel = empirical_kernel(model, batch, outputs="full")
        target = torch.zeros(5, kernel.matrix.shape[1]).double()
        found = largest_stable_rate(model, batch, target, loss=functional.mse_loss)
        exact = 2.0 * kernel.largest_eigenvalue / target.numel()
        assert abs(found.curvature - exact) <= max(found.error_estimate, 1e-9) * exact, name
        assert found.error_estimate < 2e-4
        assert found.rate == 2.0 / found.curvature


def test_the_curvature_of_cross_entropy_weights_the_kernel() -> None:
    model, batch = made("batch_norm_mlp")
    labels = torch.tensor([0, 1, 1, 0, 1])
    theta = empirical_kernel(model, batch, outputs="full").flat
    p = torch.softmax(model.train()(batch), -1).detach().numpy()
    hessian = np.zeros((10, 10))
    for i in range(5):
        hessian[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = (np.diag(p[i]) - np.outer(p[i], p[i])) / 5
    exact = float(np.linalg.eigvals(theta @ hessian).real.max())
    found = largest_stable_rate(model, batch, labels, loss=functional.cross_entropy, momentum=0.5)
    assert found.curvature == pytest.approx(exact, rel=2e-4)
    assert found.rate == pytest.approx(3.0 / exact, rel=2e-4)


def _last_loss(x: Any, y: Any, rate: float, momentum: float, scale: Any, steps: int = 300) -> float:
    """The loss after heavy-ball steps m ← βm + g, w ← w − η m/scale of a linear model with a constant feature."""
    x = np.hstack([x.numpy(), np.ones((len(x), 1))])
    w, m = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for _ in range(steps):
        m = momentum * m + 2.0 * x.T @ (x @ w - y.numpy()[:, 0]) / len(x)
        w = w - rate * m / scale
    return float(np.mean((x @ w - y.numpy()[:, 0]) ** 2))


def test_rates_below_are_stable_and_rates_above_are_not() -> None:
    """On a quadratic, where the limit is exact."""
    torch.manual_seed(0)
    x, y = torch.randn(20, 3).double(), torch.randn(20, 1).double()
    for momentum in (0.0, 0.9):
        limit = largest_stable_rate(nn.Linear(3, 1).double(), x, y, loss=functional.mse_loss, momentum=momentum).rate
        assert _last_loss(x, y, 0.98 * limit, momentum, 1.0) < 10.0
        assert _last_loss(x, y, 1.02 * limit, momentum, 1.0) > 1e3


def test_adam_is_stable_below_38_over_the_preconditioned_curvature() -> None:
    """Adam whose second moments do not move, on a quadratic: its first moments are means, (1 − β₁) of the sums."""
    torch.manual_seed(1)
    x, y = torch.randn(20, 3).double(), torch.randn(20, 1).double()
    model = nn.Linear(3, 1).double()
    moments = {name: torch.rand(one.shape).double() + 0.1 for name, one in model.named_parameters()}
    found = largest_stable_rate(model, x, y, loss=functional.mse_loss, optimizer="adam", second_moments=moments)
    assert found.factor == pytest.approx(38.0)
    scale = np.sqrt(np.concatenate([moments["weight"][0].numpy(), moments["bias"].numpy()])) + 1e-8
    assert _last_loss(x, y, 0.97 * 0.1 * found.rate, 0.9, scale) < 10.0
    assert _last_loss(x, y, 1.03 * 0.1 * found.rate, 0.9, scale) > 1e3
    gradient = largest_stable_rate(model, x, y, loss=functional.mse_loss, optimizer="adam")
    assert 0 < gradient.rate < math.inf
    with pytest.raises(IsometerError, match="second_moments has none for 'bias'"):
        largest_stable_rate(
            model, x, y, loss=functional.mse_loss, optimizer="adam", second_moments={"weight": torch.ones(1, 3)}
        )


def _wide(width: int, norm: bool) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    between = [nn.BatchNorm1d(width)] if norm else []
    model = nn.Sequential(nn.Linear(3, width), *between, nn.Tanh(), nn.Linear(width, 2)).double()
    return model, torch.randn(8, 3).double(), torch.randn(8, 2).double()


@pytest.mark.parametrize("norm", [False, True])
def test_wide_networks_descend_as_their_kernel_predicts(norm: bool) -> None:
    deviations = []
    for width in (8, 2000):
        model, x, y = _wide(width, norm)
        before = {name: one.clone() for name, one in model.state_dict().items()}
        found = descent(model, x, y, steps=50)
        assert len(found.measured) == len(found.predicted) == 51
        assert found.measured[-1] < 0.9 * found.measured[0]
        assert found.predicted[0] == pytest.approx(found.measured[0], rel=1e-12)
        assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
        deviations.append(found.largest_deviation)
    assert deviations[1] < 0.05
    assert deviations[1] < 0.3 * deviations[0]


def test_time_constants_are_those_of_single_eigenvectors() -> None:
    model = nn.Linear(2, 1, bias=False).double()
    x = torch.diag(torch.tensor([1.0, 3.0])).double()
    found = descent(model, x, torch.zeros(2, 1).double(), rate=0.1, steps=10)
    np.testing.assert_allclose(found.time_constants, [10.0, 10.0 / 9.0], rtol=1e-12)
    same = descent(model, torch.ones(2, 2).double(), torch.zeros(2, 1).double(), rate=0.1, steps=2)
    assert same.time_constants[0] == math.inf


def test_kernels_are_compared() -> None:
    model, batch = made("mlp")
    first = empirical_kernel(model, batch, by="layer")
    still = kernel_drift(first, empirical_kernel(model, batch, by="layer"))
    assert set(still) == {"total", "0", "2", "4"}
    assert all(one.relative == 0.0 and one.turned < 1e-7 and one.growth == 1.0 for one in still.values())
    assert kernel_distance(first.matrix, 3 * first.matrix) < 1e-15
    labels = np.array([0, 1, 0, 1, 1])
    assert first.alignment(labels) == kernel_alignment(first.matrix, labels[:, None] == labels)
    assert -1 <= first.alignment(batch.numpy()) <= 1
    with pytest.raises(IsometerError, match="labels have shape"):
        first.alignment([1, 2])
    with pytest.raises(IsometerError, match="expected the same kind on the same samples"):
        kernel_drift(first, empirical_kernel(model, batch[:3]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"optimizer": "lion"}, "optimizer is 'lion'; expected 'sgd' or 'adam'"),
        ({"momentum": 1.0}, "the momentum is 1.0; expected a number from 0"),
        ({"loss": lambda f, y: f - y}, "loss did not return one number"),
    ],
)
def test_bad_input_gets_one_line(arguments: dict[str, Any], message: str) -> None:
    model, batch = made("mlp")
    given = {"loss": functional.mse_loss, **arguments}
    with pytest.raises(IsometerError, match=message):
        largest_stable_rate(model, batch, torch.zeros(5, 3).double(), **given)
    with pytest.raises(IsometerError, match="expected a number for each of the 3 outputs of 5 samples"):
        descent(model, batch, torch.zeros(5, 2).double())


def test_a_loss_without_curvature_bounds_no_rate() -> None:
    model, batch = made("mlp")
    found = largest_stable_rate(model, batch, None, loss=lambda f, _: f.sum())
    assert (found.rate, found.curvature) == (math.inf, 0.0)
