"""The curves of 003/fig-3b and 001/fig-6.6 through `SignalMonitor`: the same numbers as the studies measure."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from isometer.doctor import SignalMonitor
from isometer_papers.studies.cells.depth_training import mean_gaps
from isometer_papers.studies.cells.isometry_training import gradient_norms, weight_gaps

STEPS, SAMPLES = 12, 32


def trained(model: nn.Sequential, metrics: list[str], look: Any) -> tuple[Any, list[Any]]:
    """What a monitor saw at every step, and what `look` measures of the same state; it is given the step's inputs."""
    optimizer = torch.optim.SGD(model.parameters(), 0.02)
    monitor = SignalMonitor(model, optimizer, metrics=metrics, samples=SAMPLES, budget=None, when=1)
    found = []
    for step in range(STEPS):
        x = torch.randn(SAMPLES, 16, generator=torch.Generator().manual_seed(step))
        loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss)
        found.append(look(x))
    return monitor.history, found


def network(depth: int, activation: type[nn.Module]) -> nn.Sequential:
    torch.manual_seed(0)
    hidden = [m for _ in range(depth - 1) for m in (nn.Linear(16, 16, bias=False), activation())]
    model = nn.Sequential(*hidden, nn.Linear(16, 3, bias=False))
    for module in model:
        if isinstance(module, nn.Linear):
            nn.init.orthogonal_(module.weight)
    return model


def test_gap_of_the_outputs_and_loss() -> None:
    model = network(6, nn.ReLU)
    parts = (model[:-1], model[-1:])
    history, found = trained(model, ["orthogonality_gap"], lambda x: mean_gaps(parts, (x,)))
    gaps = history["orthogonality_gap"].values
    np.testing.assert_allclose(gaps[:, [-2, -1]], np.array(found), rtol=1e-4)  # float32 activations
    assert history["loss_every_step"].sizes["training_step"] == STEPS


def test_gap_and_gradient_of_every_weight_matrix() -> None:
    model = network(8, nn.Tanh)
    weights = [module.weight for module in model if isinstance(module, nn.Linear)][:-1]
    history, found = trained(model, ["weight_isometry_gap"], lambda _: (weight_gaps(weights), gradient_norms(weights)))
    at = np.flatnonzero(history["kind"].values == "weight")[:-1]
    gaps = np.array([gap for gap, _ in found])
    np.testing.assert_allclose(history["weight_isometry_gap"].values[:, at], gaps, rtol=1e-3, atol=1e-9)
    norms = np.array([norm for _, norm in found])
    np.testing.assert_allclose(history["gradient_norm"].values[:, :-1], norms, rtol=1e-5)
    assert (gaps[-1] > gaps[0]).all()  # the weights move away from orthogonal ones, and both see it
