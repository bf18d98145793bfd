"""What watching costs: time in the monitor over time in training, in one run at default settings.

A perceptron, a ResNet and a GPT train for some hundred steps with `SignalMonitor(model, optimizer)` as it comes. The
time inside `monitor.step`, taken around the calls, and in its hooks is the monitor's; what is left is training.
The monitor has an allowance beside its share: the first observation, which loads what later ones use, and a quarter of
a second. `share_beyond_allowance` is what a long run approaches, `share` is this run's whole.

Run with `python -m benchmarks monitor`.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from isometer.doctor.watch import SignalMonitor

LIMIT = 0.03
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


def _gpt() -> tuple[nn.Module, Tensor, Tensor]:
    tokens = torch.randint(64, (16, 64))
    return TinyGpt(), tokens, tokens.roll(-1, 1).flatten()


def cost(made: tuple[nn.Module, Tensor, Tensor], steps: int) -> dict[str, float]:
    """Shares of one run, by the clock."""
    model, x, y = made
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    with SignalMonitor(model, optimizer) as monitor:
        inside, begun = 0.0, time.perf_counter()
        hooks = 0.0
        for _ in range(steps):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            start, aside = time.perf_counter(), monitor._aside + monitor._tap.seconds
            monitor.step(loss.detach())
            inside += time.perf_counter() - start
            hooks += aside
        whole = time.perf_counter() - begun
    spent, training = inside + hooks, whole - inside - hooks
    allowance = monitor._purse.allowance
    return {
        "ms_per_step": 1e3 * training / steps,
        "steps": steps,
        "observations": len(monitor.observations),
        "share": spent / training,
        "share_told": monitor.overhead,
        "allowance_seconds": allowance,
        "share_beyond_allowance": max(0.0, spent - allowance) / training,
    }


def run() -> dict[str, Any]:
    """All of them; less than a minute of training on a machine that is idle."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return {
        "mlp_6x128_batch_128": cost(_mlp(), 2500),
        "resnet_9x16_batch_64": cost(_resnet(), 100),
        "gpt_4x128_batch_16x64": cost(_gpt(), 80),
        "limits": {"share_beyond_allowance": LIMIT},
    }
