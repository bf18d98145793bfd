"""Gradient descent on kernels (paper 004) against exact linear dynamics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from isometer import activation
from isometer.errors import IsometerError
from isometer.theory import kernel_matrix
from isometer_papers.theory.duals.small_interpolation import stochastic_path
from isometer_papers.theory.kernel_learning.optimization import (
    conditioning_depth,
    descent,
    least_squares_bound,
    stochastic_lower_bound,
    stochastic_steps,
)
from support.batches import sphere

# --- gradient descent -------------------------------------------------------------------------------------------------


def features(name: str, x: np.ndarray, width: int, depth: int, seed: int = 0) -> np.ndarray:
    """Φ of a random network, (n, m)."""
    rng, h, phi = np.random.default_rng(seed), x, activation(name)
    for _ in range(depth):
        h = phi(h @ rng.standard_normal((h.shape[1], width))) / math.sqrt(width)
    return np.asarray(h)


@pytest.mark.parametrize("loss", ["mean", "half-sum"])
def test_top_layer_descent_keeps_its_guaranteed_rate(loss: Any) -> None:
    """Gradient descent on v itself, step by step, for random features."""
    x = sphere(7, 5)
    phi = features("normalized(relu)", x, 60, 4)
    y = np.random.default_rng(1).standard_normal(7)
    kernel = phi @ phi.T
    plan = descent(kernel, loss=loss)
    scale = 2.0 / 7 if loss == "mean" else 1.0
    v, losses = np.zeros(60), []
    for _ in range(31):
        residual = phi @ v - y
        losses.append(residual @ residual)
        v = v - plan.learning_rate * scale * phi.T @ residual
    found = np.array(losses) / losses[0]
    kappa = plan.condition_number
    assert plan.factor == pytest.approx(((kappa - 1) / (kappa + 1)) ** 2)
    assert (found <= plan.factor ** np.arange(31) * (1 + 1e-12)).all()
    assert (found <= least_squares_bound(kappa, np.arange(31)) * (1 + 1e-12)).all()  # 004/thm-50
    assert (found[int(plan.steps(1e-3)) :] <= 1e-3).all()


def test_printed_step_sizes_belong_to_another_loss() -> None:
    """η = 1/λ_max with the paper's loss (1/n)Σ: steps grow with n though κ = 1; with ½Σ one step is enough."""
    counts = []
    for n in (10, 100, 1000):
        slow = descent(np.eye(n), learning_rate=1.0)
        counts.append(slow.steps(1e-6))
        assert slow.factor == pytest.approx((1 - 2 / n) ** 2)
        assert descent(np.eye(n), learning_rate=1.0, loss="half-sum").steps(1e-6) == 1.0
    assert counts[1] / counts[0] > 10
    assert counts[2] / counts[1] == pytest.approx(10, rel=0.02)


@pytest.mark.parametrize("name", ["normalized(relu)", "unit(tanh)"])
def test_conditioning_depth_makes_descent_fast(name: str) -> None:
    """004/thm-13: at a depth of order log(n/δ)/μ, κ ≤ 3 and a fixed number of steps for every n."""
    for n in (5, 40):
        x = sphere(n, 6)
        delta = 1.0 - float(np.max(np.abs(x @ x.T - np.eye(n))))
        depth = conditioning_depth(n, delta, activation(name).nonlinearity)
        plan = descent(kernel_matrix(name, x, depth).matrix)
        assert plan.condition_number <= 3
        assert plan.steps(1e-6) <= 10


def test_unstable_and_singular_kernels_have_answers() -> None:
    assert not descent(np.eye(3), learning_rate=10.0).stable
    assert descent(np.eye(3), learning_rate=10.0).steps(0.1) == math.inf
    singular = descent(np.ones((3, 3)))
    assert singular.condition_number == math.inf
    assert singular.exponent == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(IsometerError):
        descent(np.ones(3))


def test_stochastic_descent_in_expectation() -> None:
    """The recursion of second moments against 4000 runs of the algorithm, within 4.5 standard errors."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 9)) / 3
    y, eta, runs, steps = rng.standard_normal(5), 0.2, 4000, 25
    kernel = a @ a.T
    expected, _ = stochastic_path(kernel, -y, steps, eta)
    w = np.zeros((runs, 9))
    for _ in range(steps):
        i = rng.integers(5, size=runs)
        w -= 2 * eta * ((w * a[i]).sum(axis=1) - y[i])[:, None] * a[i]
    losses = ((w @ a.T - y) ** 2).sum(axis=1) / (y @ y)
    error = losses.std() / math.sqrt(runs)
    assert error < 0.05 * expected
    assert abs(losses.mean() - expected) < 4.5 * error


def test_single_samples_need_as_many_steps_as_samples() -> None:
    """004/thm-45 claims O(log 1/ε) steps at κ = 1. For K = I a step fits one sample: after t < n steps at least
    (1 − t/n) of the loss is left, whatever the step size; n(1 − ε) steps are needed."""
    n = 50
    for eta in (0.25, 0.5, 0.75):
        assert all(stochastic_path(np.eye(n), np.ones(n), t, eta)[0] >= 1 - t / n for t in range(n + 1))
    assert stochastic_lower_bound(n, 0.01) == 50
    steps = stochastic_steps(n, 1.0, 1.0, 0.01)
    assert stochastic_path(np.eye(n), np.ones(n), math.ceil(steps["printed"]), 0.5)[0] < 0.01
