"""What watching and treating cost: the monitor as a share of training time, initialisation in forward passes.

Training with and without the monitor is timed in turns and the fastest turn of each counts. The budget of the monitor
is off, so that what is measured is the cost of the observation itself. Iterative orthogonalisation is compared with
forward passes of the same batch without gradients.

Run with `python -m benchmarks treatment`.
"""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from isometer.doctor.monitor import SignalMonitor
from isometer.init import iterative_orthogonalization_

STEPS, EVERY, TURNS = 100, 100, 3
DEPTH, WIDTH, SAMPLES = 50, 800, 2400


def _mlp() -> nn.Sequential:
    layers = [m for _ in range(20) for m in (nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(256, 10))


def _convnet() -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(1, 32, 3, 2, 1), nn.ReLU()]
    for _ in range(8):
        layers += [nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def _seconds(model: nn.Module, x: torch.Tensor, y: torch.Tensor, monitored: bool, steps: int) -> float:
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    monitor = SignalMonitor(model, lambda step, numbers: None, every=EVERY, budget=None) if monitored else None
    start = time.perf_counter()
    for _ in range(steps):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if monitor is not None:
            monitor.step(x)
    return time.perf_counter() - start


def monitor_cost(make: Any, x: torch.Tensor, steps: int = STEPS) -> dict[str, float]:
    """Training time with the monitor over that without, and an observation in steps."""
    torch.manual_seed(0)
    model = make()
    y = torch.randint(10, (len(x),))
    _seconds(model, x, y, True, EVERY)  # whatever is done once
    plain, watched = math.inf, math.inf
    for _ in range(TURNS):
        plain = min(plain, _seconds(model, x, y, False, steps))
        watched = min(watched, _seconds(model, x, y, True, steps))
    return {
        "ms_per_step": 1e3 * plain / steps,
        "overhead": watched / plain - 1,
        "observation_in_steps": (watched - plain) / (steps / EVERY) / (plain / steps),
    }


def orthogonalization_cost() -> dict[str, float]:
    """Seconds of iterative orthogonalisation over those of a forward pass."""
    torch.manual_seed(0)
    layers = [m for _ in range(DEPTH) for m in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model, x = nn.Sequential(*layers), torch.randn(SAMPLES, WIDTH)
    with torch.no_grad():
        model(x)
        passes = []
        for _ in range(TURNS):
            start = time.perf_counter()
            model(x)
            passes.append(time.perf_counter() - start)
    start = time.perf_counter()
    iterative_orthogonalization_(model, x)
    taken = time.perf_counter() - start
    return {"forward_seconds": min(passes), "seconds": taken, "forward_passes": taken / min(passes)}


def run() -> dict[str, Any]:
    """All of them."""
    torch.set_num_threads(1)
    return {
        "monitor_mlp_20x256_batch_128": monitor_cost(_mlp, torch.randn(128, 256)),
        "monitor_convnet_9x32_batch_64": monitor_cost(_convnet, torch.randn(64, 1, 28, 28)),
        "iterative_orthogonalization_50x800_n_2400": orthogonalization_cost(),
        "limits": {"monitor_overhead": 0.03, "forward_passes": 20},
    }
