"""Tiny models and tasks for tests of the stress test, and the parts it is made of, by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer.doctor.probe._subject import Subject
from isometer.doctor.stress._material import Batches, material
from isometer.doctor.stress._objectives import best_constant
from isometer.doctor.stress._optimizers import OptimizerChoice, optimizer_choices
from isometer.doctor.stress._plans import Plan
from isometer.doctor.stress._race import StressRun, Track, progress

Tensor = torch.Tensor
Pair = tuple[Tensor, Tensor]


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """A Gaussian tensor."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def mlp(depth: int = 2, width: int = 16, *, inputs: int = 8, outputs: int = 3, seed: int = 0) -> nn.Sequential:
    """ReLU layers as torch initialises them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = [inputs, *[width] * depth]
        layers = [m for a, b in itertools.pairwise(sizes) for m in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*layers, nn.Linear(width, outputs))


def deep(depth: int = 30, width: int = 16) -> nn.Sequential:
    """ReLU layers whose signal and gradient vanish."""
    model = mlp(depth, width)
    with torch.no_grad():
        for module in model:
            if isinstance(module, nn.Linear):
                module.weight.mul_(0.3)
                module.bias.zero_()
    return model


def classes(batches: int = 6, samples: int = 16, *, inputs: int = 8) -> list[Pair]:
    """Batches of a task that a linear model can solve: which of three linear functions is largest."""
    truth = drawn(inputs, 3, seed=99)
    found = [drawn(samples, inputs, seed=step) for step in range(batches)]
    return [(x, (x @ truth).argmax(1)) for x in found]


def entropy(labels: Tensor) -> float:
    """Of the frequencies of labels, in nats."""
    shares = [count / labels.numel() for count in torch.bincount(labels.flatten()).tolist() if count]
    return -sum(share * math.log(share) for share in shares)


def chance(loss: Callable[[Any, Any], Tensor], output: Any, targets: Sequence[Any]) -> float:
    """Loss of the best constant, where there are too few samples for one that depends on the position."""
    return best_constant(loss, output, targets, samples=1)


def choice(model: nn.Module, name: Any = "adam", lr: float | None = None, schedule: Any = None) -> OptimizerChoice:
    """One optimizer for a model."""
    return optimizer_choices(name, lr, schedule, Subject(model))[0]


def track(model: nn.Module, batches: Any, loss: Any = None, *, mode: str | None = "train", seed: int = 0) -> Track:
    """Where runs of a model are made."""
    subject = Subject(model)
    read = Batches(batches)
    samples = len(read[0][0])
    return Track(subject, material(subject, read, loss, samples=samples, mode=mode, seed=seed), mode=mode, seed=seed)


def run_of(rate: float, losses: Sequence[float], *, on: Any = "one batch", who: Any = "model") -> StressRun:
    """A run with these losses, at chance 1."""
    return StressRun("adam", who, on, rate, len(losses), tuple(losses), progress(tuple(losses), on, 1.0))


def plan_of(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    """Let stress tests run one plan, however fast the machine is."""
    monkeypatch.setattr("isometer.doctor.stress._stress.plan_within", lambda *_, **__: plan)


def wrong_sign(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy with the wrong sign."""
    return -functional.cross_entropy(output, target)
