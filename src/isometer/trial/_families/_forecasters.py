"""Forecasters of series: bases, patches, and an encoder with a decoder."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isometer.trial._families._draws import drawn, size
from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

FAULTS = {
    "patch-size": "the whole series is one patch, or every step is one",
    "residual-sign": "a block adds what it explained instead of subtracting it",
    "branch-detached": "what a block explained is subtracted without its gradient",
    "frequency-scale": "the basis holds waves too fast for the steps between them",
    "state-detached": "the decoder gets the encoder's state without its gradient",
    "recurrent-scale": "the recurrent matrix is so large that states saturate, or so small that they are forgotten",
}

# N-BEATS


def _draw_nbeats(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(48, 64, 96, 128), depths=(2, 3, 4, 6, 8), largest=(512, 8))
    return Blueprint(
        task=pick(rng, "forecast", "integral"),
        width=width,
        depth=depth,
        batch=pick(rng, 16, 32, 64),
        options={"layers": pick(rng, 2, 4), "basis": pick(rng, "generic", "waves"), "activation": "relu"},
    )


class _NBeatsBlock(nn.Module):
    back: Tensor
    ahead: Tensor

    def __init__(self, steps: int, outputs: int, width: int, o: Options) -> None:
        super().__init__()
        sizes = [steps, *[width] * o["layers"]]
        if "bottleneck" in o:
            sizes[len(sizes) // 2] = o["bottleneck"]
        self.fc = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.o, terms = o, 8
        if o["basis"] == "waves":
            time = torch.arange(steps + outputs) / steps
            angle = 2 * math.pi * torch.arange(1, terms + 1)[:, None] * time * o.get("frequency", 0.5)
            waves = torch.cat([angle.sin(), angle.cos()]) / math.sqrt(terms)
            self.register_buffer("back", waves[:, :steps])
            self.register_buffer("ahead", waves[:, steps:])
            self.theta = nn.Linear(width, 4 * terms, bias=False)
        else:
            self.theta = nn.Linear(width, 16, bias=False)
            self.back_map, self.ahead_map = nn.Linear(8, steps), nn.Linear(8, outputs)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kind = self.o["activation"]
        for layer in self.fc:
            x = layer(x) if kind == "linear" else getattr(F, kind)(layer(x))
        first, second = self.theta(x).chunk(2, dim=-1)
        if self.o["basis"] == "waves":
            return first @ self.back, second @ self.ahead
        return self.back_map(first), self.ahead_map(second)


class _NBeats(nn.Module):
    def __init__(self, b: Blueprint, task: Task) -> None:
        super().__init__()
        self.o = b.options
        steps = task.shape[0]
        self.blocks = nn.ModuleList(_NBeatsBlock(steps, task.outputs, b.width, b.options) for _ in range(b.depth))

    def forward(self, x: Tensor) -> Tensor:
        rest = x.flatten(1)
        forecast: Tensor | float = 0.0
        for block in self.blocks:
            explained, ahead = block(rest)
            explained = explained.detach() if self.o.get("detached") else explained
            rest = self.o.get("skip", 1.0) * rest - self.o.get("sign", 1.0) * explained
            forecast = forecast + ahead
        assert isinstance(forecast, Tensor)
        return forecast


@family(
    "nbeats",
    source="Oreshkin et al. 2020, N-BEATS: neural basis expansion analysis for time series",
    draw=_draw_nbeats,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "residual-sign": drawn(sign=(-1.0, -3.0)),
        "branch-detached": {"detached": True},
        "no-activation": {"activation": "linear"},
        "wrong-activation": drawn(activation=("sigmoid", "hardtanh")),
        "frequency-scale": drawn(basis=("waves",), frequency=(0.01, 24.0)),
        "bottleneck": drawn(bottleneck=(1, 2)),
    },
)
def nbeats(blueprint: Blueprint, task: Task) -> nn.Module:
    """Blocks that subtract what they explain and add up what they expect."""
    return _NBeats(blueprint, task)


# Patches


def _draw_patches(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64), depths=(1, 2, 3, 4, 6), largest=(160, 9))
    return Blueprint(
        task=pick(rng, "forecast", "rhythms"),
        width=width,
        depth=depth,
        batch=pick(rng, 16, 32),
        options={
            "patch": pick(rng, 4, 6, 8),
            "heads": pick(rng, 2, 4),
            "activation": pick(rng, "GELU", "ReLU"),
            "dropout": pick(rng, 0.0, 0.1),
        },
    )


class _PatchBlock(nn.Module):
    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o = o
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width),
            getattr(nn, o["activation"])(),
            nn.Dropout(o["dropout"]),
            nn.Linear(2 * width, width),
        )

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, self.o["heads"], -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) * self.o.get("score_scale", 1.0)
        mixed = torch.softmax(scores, dim=self.o.get("axis", -1)) @ v
        if not self.o.get("mixed"):
            mixed = mixed.transpose(1, 2)
        out: Tensor = self.merge(mixed.reshape(x.shape))
        return out

    def forward(self, x: Tensor) -> Tensor:
        skip, place = self.o.get("skip", 1.0), self.o.get("norm", "before")
        total: Tensor
        if place == "none":
            x = skip * x + self.attend(x)
            total = skip * x + self.mlp(x)
        elif place == "after":
            x = self.norm1(skip * x + self.attend(x))
            total = self.norm2(skip * x + self.mlp(x))
        else:
            x = skip * x + self.attend(self.norm1(x))
            total = skip * x + self.mlp(self.norm2(x))
        return total


class _PatchTransformer(nn.Module):
    """Patches of the series are tokens; the readout sees all of them."""

    def __init__(self, b: Blueprint, task: Task) -> None:
        super().__init__()
        steps, features = task.shape
        self.patch = b.options["patch"]
        count = steps // self.patch
        self.project = nn.Linear(self.patch * features, b.width)
        self.position = nn.Parameter(0.1 * torch.randn(count, b.width))
        self.keep = b.options.get("positions", 1.0)
        self.blocks = nn.Sequential(*[_PatchBlock(b.width, b.options) for _ in range(b.depth)])
        self.pool = b.options.get("pool")
        self.head = nn.Linear(b.width if self.pool else b.width * count, task.outputs)
        nn.init.xavier_uniform_(self.head.weight, gain=0.5)

    def forward(self, x: Tensor) -> Tensor:
        patches = x.reshape(len(x), -1, self.patch * x.shape[2])
        h = self.blocks(self.project(patches) + self.keep * self.position)
        if self.pool is None:
            h = h.flatten(1)
        elif self.pool == "sum":
            h = h.sum(1) * 10.0
        else:
            h = h.mean((0, 1)).expand(len(x), -1)
        out: Tensor = self.head(h)
        return out


@family(
    "patch-forecaster",
    source="Nie et al. 2023, A time series is worth 64 words",
    draw=_draw_patches,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"norm": "none"},
        "norm-misplaced": {"norm": "after"},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": drawn(activation=("Sigmoid", "Hardtanh")),
        "score-scale": drawn(score_scale=(8.0, 15.0, 30.0)),
        "no-positions": {"positions": 0.0},
        "wrong-pooling": drawn(pool=("sum", "batch")),
        "wrong-axis": drawn(axis=(0, 1, 2)),
        "wrong-reshape": {"mixed": True},
        "patch-size": drawn(patch=(1, 24)),
    },
)
def patch_forecaster(blueprint: Blueprint, task: Task) -> nn.Module:
    """A pre-norm transformer over patches of the series."""
    return _PatchTransformer(blueprint, task)


# Encoder and decoder


def _draw_pair(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task="forecast",
        width=224 if large else pick(rng, 24, 32, 48, 64),
        depth=2 if large else pick(rng, 1, 2),
        batch=32 if large else pick(rng, 16, 32),
        options={"memory": pick(rng, True, False), "gain": 1.0},
    )


class _Pair(nn.Module):
    """A GRU reads, cells write step by step; they may look back at what was read."""

    def __init__(self, b: Blueprint, task: Task) -> None:
        super().__init__()
        features = task.shape[1] if len(task.shape) > 1 else 1
        self.o, self.outputs = b.options, task.outputs
        self.reader = nn.GRU(features, b.width, b.depth, batch_first=True)
        self.writer = nn.GRUCell(1 + b.width, b.width)
        self.query = nn.Linear(b.width, b.width, bias=False)
        self.value = nn.Linear(b.width, 1)
        for name, weight in (*self.reader.named_parameters(), *self.writer.named_parameters()):
            if "weight_hh" in name:
                nn.init.orthogonal_(weight, gain=self.o["gain"])

    def forward(self, series: Tensor) -> Tensor:
        series = series if series.dim() == 3 else series[..., None]
        read, last = self.reader(series)
        state, value, values = last[-1], series[:, -1, :1], []
        if self.o.get("detached"):
            state, read = state.detach(), read.detach()
        for _ in range(self.outputs):
            context = torch.zeros_like(state)
            if self.o["memory"]:
                scores = torch.einsum("nw,nsw->ns", self.query(state), read) * self.o.get("score_scale", 1.0)
                weight = torch.softmax(scores / math.sqrt(state.shape[1]), dim=self.o.get("axis", 1))
                context = torch.einsum("ns,nsw->nw", weight, read)
            state = self.writer(torch.cat([value, context], dim=1), state)
            value = self.value(state)
            values.append(value)
        return torch.cat(values, dim=1)


@family(
    "gru-encoder-decoder",
    source="Sutskever et al. 2014, Sequence to sequence learning; Luong et al. 2015, Effective approaches to attention",
    draw=_draw_pair,
    structural={
        "recurrent-scale": drawn(gain=(0.01, 4.0, 10.0)),
        "state-detached": {"detached": True},
        "score-scale": drawn(memory=(True,), score_scale=(30.0, 100.0)),
        "wrong-axis": {"memory": True, "axis": 0},
    },
)
def gru_encoder_decoder(blueprint: Blueprint, task: Task) -> nn.Module:
    """A reader and a writer; each value that was written is the next input."""
    return _Pair(blueprint, task)
