"""Gradient descent on kernels (paper 004) against exact linear dynamics and training at finite width."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from isometer import activation
from isometer.errors import IsometerError
from isometer.theory import kernel_matrix
from isometer_papers.theory.kernel_learning.optimization import (
    conditioning_depth,
    descent,
    descent_losses,
    least_squares_bound,
    printed_rate,
    stochastic_losses,
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
def test_top_layer_descent_is_the_exact_linear_dynamics(loss: Any) -> None:
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
    found = descent_losses(kernel, -y, np.arange(31), learning_rate=plan.learning_rate, loss=loss)
    np.testing.assert_allclose(found, np.array(losses) / losses[0], rtol=1e-9)
    kappa = plan.condition_number
    assert plan.factor == pytest.approx(((kappa - 1) / (kappa + 1)) ** 2)
    assert (found <= plan.factor ** np.arange(31) * (1 + 1e-12)).all()
    assert (found <= least_squares_bound(kappa, np.arange(31)) * (1 + 1e-12)).all()  # 004/thm-50
    after = plan.steps(1e-3)
    assert float(descent_losses(kernel, -y, after, learning_rate=plan.learning_rate, loss=loss)) <= 1e-3


def test_printed_step_sizes_belong_to_another_loss() -> None:
    """η = 1/λ_max with the paper's loss (1/n)Σ: steps grow with n though κ = 1; with ½Σ one step is enough."""
    counts = []
    for n in (10, 100, 1000):
        slow = descent(np.eye(n), learning_rate=printed_rate(np.eye(n), "004/thm-44"))
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
    assert (descent_losses(np.eye(2), [0.0, 0.0], [0, 1], learning_rate=0.1) == 0).all()
    for bad in (lambda: descent(np.ones(3)), lambda: descent_losses(np.eye(2), [1.0], [1], learning_rate=0.1)):
        with pytest.raises(IsometerError):
            bad()


def test_stochastic_descent_in_expectation() -> None:
    """The recursion of second moments against 4000 runs of the algorithm, within 4.5 standard errors."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 9)) / 3
    y, eta, runs, steps = rng.standard_normal(5), 0.2, 4000, 25
    kernel = a @ a.T
    expected = stochastic_losses(kernel, -y, steps, learning_rate=eta)
    w = np.zeros((runs, 9))
    for _ in range(steps):
        i = rng.integers(5, size=runs)
        w -= 2 * eta * ((w * a[i]).sum(axis=1) - y[i])[:, None] * a[i]
    losses = ((w @ a.T - y) ** 2).sum(axis=1) / (y @ y)
    error = losses.std() / math.sqrt(runs)
    assert error < 0.05 * expected[-1]
    assert abs(losses.mean() - expected[-1]) < 4.5 * error


def test_single_samples_need_as_many_steps_as_samples() -> None:
    """004/thm-45 claims O(log 1/ε) steps at κ = 1. For K = I a step fits one sample: after t < n steps at least
    (1 − t/n) of the loss is left, whatever the step size; n(1 − ε) steps are needed."""
    n = 50
    for eta in (0.25, 0.5, 0.75):
        losses = stochastic_losses(np.eye(n), np.ones(n), n, learning_rate=eta)
        assert (losses >= 1 - np.arange(n + 1) / n).all()
    assert stochastic_lower_bound(n, 0.01) == 50
    steps = stochastic_steps(n, 1.0, 1.0, 0.01)
    enough = stochastic_losses(np.eye(n), np.ones(n), math.ceil(steps["printed"]), learning_rate=0.5)
    assert enough[-1] < 0.01


def trained(x: np.ndarray, width: int, depth: int, seed: int, rate: float, steps: int) -> tuple[Any, Any, Any]:
    """(losses over their start, own NTK, residual at the start) of a tanh network, all layers trained, loss ½Σ."""
    import torch

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(seed)
    sizes = [x.shape[1], *([width] * depth), 1]
    weights = [torch.randn(a, b, generator=generator, dtype=torch.float64) for a, b in pairwise(sizes)]
    weights = [w.requires_grad_() for w in weights]
    data, y = torch.tensor(x), torch.tensor(np.sign(x[:, 0]))

    def output() -> torch.Tensor:
        h = data @ weights[0]
        for w in weights[1:]:
            h = torch.tanh(h) @ w / math.sqrt(width)
        return h[:, 0]

    rows = torch.stack(
        [torch.cat([g.flatten() for g in torch.autograd.grad(output()[i], weights)]) for i in range(len(x))]
    )
    start = (output() - y).detach().numpy()
    losses = []
    for _ in range(steps + 1):
        residual = output() - y
        losses.append(float(residual.detach().square().sum()))
        grads = torch.autograd.grad(0.5 * residual.square().sum(), weights)
        with torch.no_grad():
            for w, g in zip(weights, grads, strict=True):
                w -= rate * g
    return np.array(losses) / losses[0], (rows @ rows.T).numpy(), start


@pytest.mark.slow
def test_training_approaches_the_kernel_with_width() -> None:
    """004/thm-14: tanh, depth 3, n = 6, gradient descent on all layers, half the step size of 004/thm-47, 25 steps.

    The largest distance of log 𝓛_t from the exact dynamics, mean of 6 networks, falls from width 64 to 256 to 1024 by
    more than 0.6 each time (1/√4 is expected at least): on the network's own NTK to below 0.15, on the infinite-width
    NTK, whose distance is that of the kernels at the start, to below 0.5.
    """
    x = sphere(6, 8, seed=3)
    limit = kernel_matrix("tanh", x, 3, "ntk")
    kernel = limit.matrix * np.exp(limit.log_diagonal.max())
    rate, steps = printed_rate(kernel, "004/thm-47") / 2, np.arange(26)
    own_distance, limit_distance = [], []
    for width in (64, 256, 1024):
        apart = []
        for seed in range(6):
            losses, own, start = trained(x, width, 3, seed, rate, 25)
            exact = [descent_losses(k, start, steps, learning_rate=rate, loss="half-sum") for k in (own, kernel)]
            apart.append([np.abs(np.log(losses / e)).max() for e in exact])
        own_distance.append(np.mean(apart, axis=0)[0])
        limit_distance.append(np.mean(apart, axis=0)[1])
    for distance, last in ((own_distance, 0.15), (limit_distance, 0.5)):
        assert distance[1] < 0.6 * distance[0]
        assert distance[2] < 0.6 * distance[1]
        assert distance[2] < last


@pytest.mark.slow
def test_training_obeys_the_printed_rate() -> None:
    """004/thm-47 with its own step size, tanh, depth 3, width 1024, n = 6: 𝓛_t ≤ e^{−t/κ}𝓛_0 (limit: e^{−4t/κ})."""
    x = sphere(6, 8, seed=3)
    limit = kernel_matrix("tanh", x, 3, "ntk")
    kernel = limit.matrix * np.exp(limit.log_diagonal.max())
    plan = descent(kernel, loss="half-sum")
    assert plan.learning_rate == pytest.approx(printed_rate(kernel, "004/thm-47"))
    for seed in range(4):
        losses, _, _ = trained(x, 1024, 3, seed, plan.learning_rate, 15)
        assert (losses <= np.exp(-np.arange(16) / plan.condition_number) * (1 + 1e-12)).all()
