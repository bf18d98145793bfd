"""What watching and treating cost: the monitor as a share of training time, initialisation in forward passes.

Processor time of one thread; steps of training and observations in turns, and the fastest of each counts. The budget
of the monitor is off, so that what is measured is the cost of the observation itself. Iterative orthogonalisation is
compared with forward passes of the same batch without gradients.

Run with `python -m benchmarks treatment`.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from isometer.doctor.watch import SignalMonitor
from isometer.init import iterative_orthogonalization_

EVERY, TURNS = 100, 6
DEPTH, WIDTH, SAMPLES = 50, 800, 2400


def _mlp() -> nn.Sequential:
    layers = [m for _ in range(20) for m in (nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(256, 10))


def _convnet() -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(1, 32, 3, 2, 1), nn.ReLU()]
    for _ in range(8):
        layers += [nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def monitor_cost(make: Any, x: torch.Tensor) -> dict[str, float]:
    """Processor time of an observation and of the calls between two, over that of the steps between them."""
    torch.manual_seed(0)
    model, y = make(), torch.randint(10, (len(x),))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    monitor = SignalMonitor(model, log=lambda step, numbers: None, when=2, budget=None)
    steps, observed, idle = [], [], []
    for _ in range(2 * (TURNS + 1)):
        start = time.process_time()
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        steps.append(time.process_time() - start)
        start = time.process_time()
        monitor.step(batch=x)
        (idle if monitor.steps % 2 else observed).append(time.process_time() - start)
    step, observation = min(steps[2:]), min(observed[1:])
    return {
        "ms_per_step": 1e3 * step,
        "observation_in_steps": observation / step,
        "overhead": (observation + (EVERY - 1) * min(idle[1:])) / (EVERY * step),
    }


def orthogonalization_cost() -> dict[str, float]:
    """Seconds of iterative orthogonalisation over those of a forward pass."""
    torch.manual_seed(0)
    layers = [m for _ in range(DEPTH) for m in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model, x = nn.Sequential(*layers), torch.randn(SAMPLES, WIDTH)
    with torch.no_grad():
        model(x)
        passes = []
        for _ in range(2):
            start = time.process_time()
            model(x)
            passes.append(time.process_time() - start)
    start = time.process_time()
    iterative_orthogonalization_(model, x)
    taken = time.process_time() - start
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
