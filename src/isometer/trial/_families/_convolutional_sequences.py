"""Convolutions along a sequence: dilated, gated, and as long as the sequence."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isometer.trial._families._draws import drawn, size
from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

FAULTS = {
    "gate-closed": "the sigmoid beside the tanh starts shut",
    "dilation-too-large": "the filters reach beyond the sequence and see padding only",
    "padding-wrong": "padded on the side of the future, so that the answer for a step never sees the step",
    "stride-too-large": "most of the series is skipped before it is read",
    "frequency-scale": "the network behind the filters oscillates so fast that the filters are noise",
    "time-constant": "the long filters decay within a fraction of a step, or stay constant",
    "groups-wrong": "every channel is a group of its own where channels should mix",
}


def _channels_first(task: Task, width: int) -> nn.Module:
    """From a batch of sequences to `[n, width, steps]`."""

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            tokens = task.form == "tokens"
            self.table = nn.Embedding(task.vocabulary, width) if tokens else nn.Linear(task.shape[1], width)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.table(x).transpose(1, 2)
            return out

    return Reader()


# Temporal convolution network


def _draw_tcn(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(40, 48, 64), depths=(2, 3, 4, 5), largest=(176, 6))
    return Blueprint(
        task=pick(rng, "markov", "text", "tags", "rows", "rhythms", "forecast"),
        width=width,
        depth=depth,
        batch=pick(rng, 16, 24),
        options={
            "kernel": pick(rng, 2, 3),
            "activation": pick(rng, "ReLU", "LeakyReLU"),
            "dropout": pick(rng, 0.0, 0.05, 0.1),
            "weight_norm": pick(rng, True, False),
            "dilation": 2,
        },
    )


class _Chomp(nn.Module):
    def __init__(self, size: int, wrong: bool) -> None:
        super().__init__()
        self.size, self.wrong = size, wrong

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, self.size :] if self.wrong else x[:, :, : x.shape[2] - self.size]


class _TemporalBlock(nn.Module):
    def __init__(self, width: int, dilation: int, o: Options) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(2):
            padding = (o["kernel"] - 1) * dilation
            groups = width if o.get("grouped") else 1
            conv = nn.Conv1d(width, width, o["kernel"], padding=padding, dilation=dilation, groups=groups)
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
            if o["weight_norm"]:
                conv = nn.utils.parametrizations.weight_norm(conv)
            layers += [
                conv,
                _Chomp(padding, o.get("late", False)),
                getattr(nn, o["activation"])(),
                nn.Dropout(o["dropout"]),
            ]
        self.net = nn.Sequential(*layers)
        self.skip = o.get("skip", 1.0)
        self.relu = getattr(nn, o["activation"])()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.net(x) + self.skip * x)
        return out


class _TCN(nn.Module):
    def __init__(self, b: Blueprint, task: Task) -> None:
        super().__init__()
        self.reader = _channels_first(task, b.width)
        dilations = [min(b.options["dilation"] ** i, b.options.get("limit", 8)) for i in range(b.depth)]
        self.network = nn.Sequential(*[_TemporalBlock(b.width, d, b.options) for d in dilations])
        if "bottleneck" in b.options:
            units = b.options["bottleneck"]
            self.network.append(nn.Sequential(nn.Conv1d(b.width, units, 1), nn.ReLU(), nn.Conv1d(units, b.width, 1)))
        self.linear = nn.Linear(b.width, task.outputs)
        self.every, self.pool = task.per_position, b.options.get("pool", "last")

    def forward(self, x: Tensor) -> Tensor:
        h = self.network(self.reader(x))
        picked = {"last": h[:, :, -1], "first": h[:, :, 0], "batch": h.mean((0, 2)).expand(len(x), -1)}[self.pool]
        if self.every and self.pool != "last":
            h = picked[:, :, None].expand_as(h)
        out: Tensor = self.linear(h.transpose(1, 2) if self.every else picked)
        return out


@family(
    "tcn",
    source="Bai et al. 2018, An empirical evaluation of generic convolutional and recurrent networks",
    draw=_draw_tcn,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-activation": {"activation": "Identity"},
        "wrong-activation": drawn(activation=("Sigmoid", "Hardtanh")),
        "padding-wrong": {"late": True},
        "dilation-too-large": drawn(dilation=(13, 30), limit=(1000,)),
        "groups-wrong": {"grouped": True},
        "wrong-pooling": drawn(pool=("first", "batch")),
        "bottleneck": drawn(bottleneck=(1, 2)),
    },
)
def tcn(blueprint: Blueprint, task: Task) -> nn.Module:
    """Residual pairs of dilated causal convolutions."""
    return _TCN(blueprint, task)


# WaveNet


def _draw_wavenet(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(24, 32, 48), depths=(3, 4, 6, 8, 10), largest=(112, 12))
    return Blueprint(
        task=pick(rng, "markov", "text", "tags", "forecast", "rhythms"),
        width=width,
        depth=depth,
        batch=16,
        options={"cycle": pick(rng, 3, 4), "sum": pick(rng, "skips", "last")},
    )


class _WaveNet(nn.Module):
    """Two convolutions per layer, one of them a gate; the readout adds what all layers say."""

    def __init__(self, b: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, self.every = b.options, task.per_position
        width = b.width
        self.input = _channels_first(task, width)
        self.filters, self.gates, self.outs, self.skips = (nn.ModuleList() for _ in range(4))
        for i in range(b.depth):
            dilation = 2 ** (i % self.o["cycle"]) * self.o.get("stretch", 1)
            self.filters.append(nn.Conv1d(width, width, 2, dilation=dilation))
            self.gates.append(nn.Conv1d(width, width, 2, dilation=dilation))
            self.outs.append(nn.Conv1d(width, width, 1))
            self.skips.append(nn.Conv1d(width, width, 1))
            nn.init.constant_(self.gates[-1].bias, self.o.get("gate", 0.0))  # type: ignore[arg-type]
            for conv in (self.filters[-1], self.gates[-1], self.outs[-1], self.skips[-1]):
                nn.init.xavier_uniform_(conv.weight)  # type: ignore[arg-type]
        self.end1 = nn.Conv1d(width, width, 1)
        self.end2 = nn.Conv1d(width, task.outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.input(x)
        total = torch.zeros_like(h)
        for conv, gate, out, skip in zip(self.filters, self.gates, self.outs, self.skips, strict=True):
            assert isinstance(conv, nn.Conv1d)
            padded = F.pad(h, (0, conv.dilation[0]) if self.o.get("late") else (conv.dilation[0], 0))
            left = conv(padded) if self.o.get("linear") else torch.tanh(self.o.get("steep", 1.0) * conv(padded))
            y = left * torch.sigmoid(gate(padded))
            total = total + skip(y)
            h = self.o.get("skip", 1.0) * h + out(y)
        if self.o["sum"] == "last":
            total = total / len(self.filters) + h
        logits: Tensor = self.end2(F.relu(self.end1(F.relu(total))))
        if self.every and "read" in self.o:
            logits = logits[:, :, :1].expand_as(logits)
        return logits.transpose(1, 2) if self.every else logits[:, :, self.o.get("read", -1)]


@family(
    "wavenet",
    source="van den Oord et al. 2016, WaveNet: a generative model for raw audio",
    draw=_draw_wavenet,
    structural={
        "no-skips": {"skip": 0.0, "sum": "last"},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-activation": {"linear": True},
        "wrong-activation": drawn(steep=(20.0, 50.0)),
        "gate-closed": drawn(gate=(-6.0, -12.0)),
        "padding-wrong": {"late": True},
        "dilation-too-large": drawn(stretch=(12, 24)),
        "wrong-pooling": {"read": 0},
    },
)
def wavenet(blueprint: Blueprint, task: Task) -> nn.Module:
    """Gated dilated convolutions with skips to the readout."""
    return _WaveNet(blueprint, task)


# Hyena


def _draw_hyena(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64), depths=(1, 2, 3, 4), largest=(160, 7))
    return Blueprint(
        task=pick(rng, "markov", "text", "tags", "rows"),
        width=width,
        depth=depth,
        batch=16,
        options={"waves": pick(rng, 3, 5), "sine": pick(rng, 1.0, 3.0), "window": [0.3, 4.0]},
    )


class _LongFilter(nn.Module):
    """A network of the position gives the filter, a window makes it decay."""

    features: Tensor
    window: Tensor

    def __init__(self, width: int, steps: int, o: Options) -> None:
        super().__init__()
        place = torch.linspace(0, 1, steps)[:, None]
        angle = 2 * math.pi * place * torch.arange(1, o["waves"] + 1)
        self.register_buffer("features", torch.cat([place, angle.sin(), angle.cos()], dim=1))
        self.first, self.second = nn.Linear(2 * o["waves"] + 1, 32), nn.Linear(32, width, bias=False)
        self.sine = o["sine"]
        fast, slow = o["window"]
        rate = torch.linspace(fast, slow, width)
        self.register_buffer("window", torch.exp(-rate * torch.arange(steps)[:, None] * o.get("rate", 0.25)))

    def forward(self) -> Tensor:
        filters: Tensor = self.second(torch.sin(self.sine * self.first(self.features))) * self.window
        return filters.T


class _HyenaBlock(nn.Module):
    def __init__(self, width: int, steps: int, o: Options) -> None:
        super().__init__()
        self.o = o
        self.norm = nn.Identity() if o.get("no_norm") else nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.short = nn.Conv1d(3 * width, 3 * width, 3, padding=2, groups=3 * width)
        self.long = _LongFilter(width, steps, o)
        self.direct = nn.Parameter(torch.randn(width))
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Identity() if o.get("no_norm") else nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            getattr(nn, o.get("activation", "GELU"))(),
            nn.Linear(2 * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        steps = x.shape[1]
        z = self.short(self.project(self.norm(x)).transpose(1, 2))[..., :steps]
        gate1, gate2, v = z.chunk(3, dim=1)
        v = v * gate1
        size = 2 * steps
        long = torch.fft.irfft(torch.fft.rfft(v, n=size) * torch.fft.rfft(self.long(), n=size), n=size)[..., :steps]
        y = gate2 * (long + self.direct[:, None] * v)
        x = self.o.get("skip", 1.0) * x + self.out(y.transpose(1, 2))
        out: Tensor = self.o.get("skip", 1.0) * x + self.mlp(x)
        return out


class _Hyena(nn.Module):
    def __init__(self, b: Blueprint, task: Task) -> None:
        super().__init__()
        self.input = nn.Embedding(task.vocabulary, b.width) if task.vocabulary else nn.Linear(task.shape[1], b.width)
        self.blocks = nn.ModuleList(_HyenaBlock(b.width, task.shape[0], b.options) for _ in range(b.depth))
        self.norm, self.head = nn.LayerNorm(b.width), nn.Linear(b.width, task.outputs)
        self.every, self.pool = task.per_position, b.options.get("pool", "mean")

    def forward(self, x: Tensor) -> Tensor:
        x = self.input(x)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if not self.every:
            x = {"mean": x.mean(1), "first": x[:, 0], "features": x.mean(2, True).mean(1).expand(-1, x.shape[2])}[
                self.pool
            ]
        elif self.pool != "mean":
            x = x[:, :1].expand_as(x)
        out: Tensor = self.head(x)
        return out


@family(
    "hyena-like",
    source="Poli et al. 2023, Hyena hierarchy",
    draw=_draw_hyena,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"no_norm": True},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": drawn(activation=("Sigmoid", "Softsign")),
        "time-constant": drawn(rate=(0.0, 100.0)),
        "frequency-scale": drawn(sine=(100.0, 300.0)),
        "wrong-pooling": drawn(pool=("first", "features")),
    },
)
def hyena_like(blueprint: Blueprint, task: Task) -> nn.Module:
    """Gates around a filter as long as the sequence."""
    return _Hyena(blueprint, task)


# A convolutional classifier of series


def _draw_series(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(24, 32, 48), depths=(2, 3, 4, 6, 8, 12), largest=(144, 18))
    return Blueprint(
        task=pick(rng, "rows", "rhythms", "majority", "forecast"),
        width=width,
        depth=depth,
        batch=pick(rng, 16, 32),
        options={
            "kernel": pick(rng, 3, 5),
            "activation": pick(rng, "ReLU", "ELU"),
            "norm": pick(rng, "batch", "group"),
        },
    )


class _Unit(nn.Sequential):
    def __init__(self, width: int, o: Options, stride: int = 1) -> None:
        norm = {"batch": nn.BatchNorm1d(width), "group": nn.GroupNorm(4, width), "none": nn.Identity()}[o["norm"]]
        conv = nn.Conv1d(width, width, o["kernel"], stride, o["kernel"] // 2, bias=o["norm"] == "none")
        nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
        activation = getattr(nn, o["activation"])()
        super().__init__(*((conv, activation, norm) if o.get("norm_last") else (conv, norm, activation)))


class _SeriesBlock(nn.Module):
    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.units = nn.Sequential(_Unit(width, o), _Unit(width, o))
        self.skip = o.get("skip", 1.0)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.skip * x + self.units(x)
        return out


class _Pool(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "batch":
            return x.mean((0, 2)).expand(x.shape[:2])
        return 10.0 * x.sum(2) if self.how == "sum" else x.mean(2)


@family(
    "series-resnet",
    source="Wang et al. 2017, Time series classification from scratch with deep neural networks",
    draw=_draw_series,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"norm": "none"},
        "norm-misplaced": {"norm_last": True},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": drawn(activation=("Sigmoid", "Hardtanh")),
        "wrong-pooling": drawn(pool=("sum", "batch")),
        "stride-too-large": drawn(stride=(8, 12)),
    },
)
def series_resnet(blueprint: Blueprint, task: Task) -> nn.Module:
    """Residual convolutions over the whole series; forecasts flatten, classes average."""
    o, width = blueprint.options, blueprint.width
    stride = o.get("stride", 1)
    flat = task.name == "forecast" and "pool" not in o
    end: list[nn.Module] = [nn.Flatten()] if flat else [_Pool(o.get("pool", "mean"))]
    remaining = (task.shape[0] - 1) // stride + 1
    return nn.Sequential(
        _channels_first(task, width),
        _Unit(width, o, stride),
        *[_SeriesBlock(width, o) for _ in range(blueprint.depth // 2 or 1)],
        *end,
        nn.Linear(width * remaining if flat else width, task.outputs),
    )
