"""What watching costs: processor time of training with a monitor over that without one, in one run.

Two copies of a perceptron, a ResNet and two GPTs train on the same batch, one with `SignalMonitor(model, optimizer)` as
it comes, one without; they take turns step by step, and who goes first alternates, so that a busy machine slows both
alike. The share is what the first takes beyond the second, in processor time.

The monitor's allowance for the first steps, the first observation and a quarter of a second or two observations, is
without the quarter here, so that a short run shows the share that a long one approaches. `share` leaves out the first
three observations, `seconds_first` is what they took. Intervals are 95 %, by resampling tenths of the run.

Run with `python -m benchmarks monitor`.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from isometer.doctor.watch import SignalMonitor, _schedule

LIMIT = 0.03
FIRST = 3  # observations that the allowance pays for
Tensor = torch.Tensor


class ResidualBlock(nn.Module):
    """Two convolutions beside a skip connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.norm_first = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.second, self.norm_second = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.norm_first(self.first(x)))
        return functional.relu(x + self.norm_second(self.second(inner)))


class TinyGpt(nn.Module):
    """Causal attention of PyTorch's own encoder layers."""

    def __init__(self, width: int = 128, depth: int = 4, tokens: int = 64, length: int = 64) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.norm, self.readout = nn.LayerNorm(width), nn.Linear(width, tokens)

    def forward(self, x: Tensor) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        h = self.embed(x) + self.places(torch.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h, src_mask=mask, is_causal=True)
        return self.readout(self.norm(h)).flatten(0, 1)


def _mlp() -> tuple[nn.Module, Tensor, Tensor]:
    layers = [m for _ in range(6) for m in (nn.Linear(128, 128), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(128, 10)), torch.randn(128, 128), torch.randint(10, (128,))


def _resnet() -> tuple[nn.Module, Tensor, Tensor]:
    body = [ResidualBlock(16) for _ in range(4)]
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    )
    return model, torch.randn(64, 3, 32, 32), torch.randint(10, (64,))


def _gpt(width: int = 128, depth: int = 4, batch: int = 16) -> tuple[nn.Module, Tensor, Tensor]:
    tokens = torch.randint(64, (batch, 64))
    return TinyGpt(width, depth), tokens, tokens.roll(-1, 1).flatten()


class Copy:
    """One of the two trainings."""

    def __init__(self, made: tuple[nn.Module, Tensor, Tensor], *, watched: bool) -> None:
        self.model, self.x, self.y = made
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3)
        self.monitor = SignalMonitor(self.model, self.optimizer) if watched else None

    def step(self) -> float:
        """Seconds of processor time that a step takes, the monitor's among them."""
        start = time.process_time()
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        if self.monitor is not None:
            self.monitor.step(loss.detach())
        return time.process_time() - start


def cost(make: Callable[[], tuple[nn.Module, Tensor, Tensor]], steps: int) -> dict[str, Any]:
    """Shares of one run."""
    made = make()
    watched, plain = Copy(copy.deepcopy(made), watched=True), Copy(made, watched=False)
    monitor = watched.monitor
    assert monitor is not None
    plain.step()  # what torch loads at the first step belongs to neither
    times = np.zeros((2, steps))
    begun = steps
    for step in range(steps):
        for which in (0, 1) if step % 2 else (1, 0):
            start = time.perf_counter()
            times[which, step] = (watched, plain)[which].step()
            if which and monitor._clock is not None:
                monitor._clock += time.perf_counter() - start  # the other's step is no training time of this one
        if len(monitor.observations) >= FIRST and begun == steps:
            begun = step + 1
    late = times[:, begun:]
    return {
        "ms_per_step": 1e3 * float(np.median(times[1])),
        "steps": steps,
        "observations": len(monitor.observations),
        "share": _share(late),
        "share_interval": _interval(late),
        "seconds_first": float(times[0, :begun].sum() - times[1, :begun].sum()),
        "share_told": monitor.overhead,
    }


def _share(times: NDArray[np.float64]) -> float:
    return float(times[0].sum() / times[1].sum() - 1) if times.size else math.nan


def _interval(times: NDArray[np.float64]) -> list[float]:
    parts = np.array_split(np.arange(times.shape[1]), 10)
    draw = np.random.default_rng(0)
    chosen = [np.concatenate([parts[i] for i in draw.integers(10, size=10)]) for _ in range(1000)]
    low, high = np.quantile([_share(times[:, some]) for some in chosen], [0.025, 0.975])
    return [float(low), float(high)]


def run() -> dict[str, Any]:
    """All of them; about a minute of processor time."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found: dict[str, Any] = {}
    with mock.patch.object(_schedule, "_ALLOWANCE", 0.0):
        for name, (make, steps) in RUNS.items():
            found[name] = cost(make, steps)
            print(name, found[name], flush=True)
    return {**found, "limits": {"share": LIMIT}}


RUNS: dict[str, tuple[Callable[[], tuple[nn.Module, Tensor, Tensor]], int]] = {
    "mlp_6x128_batch_128": (_mlp, 2000),
    "resnet_9x16_batch_64": (_resnet, 50),
    "gpt_4x128_batch_16x64": (_gpt, 50),
    "gpt_6x256_batch_32x64": (partial(_gpt, 256, 6, 32), 8),
}
