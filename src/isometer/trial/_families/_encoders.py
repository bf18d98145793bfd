"""Encoders that see the whole sequence: tags, classes of sequences, and series."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isometer.trial._families._draws import drawn, size
from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

FAULTS = {
    "residual-scale": "the branches start much too quiet or much too loud",
    "frequency-scale": "the Fourier transform is not normalised",
    "latents-tied": "all latent vectors start as the same vector and stay equal",
    "imaginary-part": "the mixing keeps the imaginary part, which says nothing of the mean",
    "branch-detached": "what the attention branch says carries no gradient back",
}


def _reader(task: Task, width: int) -> nn.Module:
    return nn.Embedding(task.vocabulary, width) if task.form == "tokens" else nn.Linear(task.shape[1], width)


def _draw_tasks(rng: np.random.Generator) -> str:
    return str(pick(rng, "tags", "majority", "rows"))


# Torch's own layers


def _draw_torch(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64), depths=(1, 2, 3, 4), largest=(128, 10))
    return Blueprint(
        task=_draw_tasks(rng),
        width=width,
        depth=depth,
        batch=pick(rng, 16, 32),
        options={
            "heads": pick(rng, 2, 4),
            "activation": pick(rng, "relu", "gelu"),
            "dropout": pick(rng, 0.0, 0.1),
            "first": pick(rng, True, True, False),
            "widening": pick(rng, 2, 4),
        },
    )


class _PassThrough(nn.Identity):
    """Nothing in the place of a norm; an epsilon of its own keeps torch's fused layer, which has norms, away."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps


class _TorchEncoder(nn.Module):
    def __init__(self, b: Blueprint, task: Task) -> None:
        super().__init__()
        o, width, steps = b.options, b.width, task.shape[0]
        activations: dict[str, Any] = {"sigmoid": torch.sigmoid, "linear": nn.Identity(), "softsign": F.softsign}
        activation: Any = activations.get(o["activation"], o["activation"])
        layer = nn.TransformerEncoderLayer(
            width,
            o["heads"],
            o["widening"] * width,
            o["dropout"],
            activation,
            batch_first=not o.get("steps_first"),  # else the layers take the batch for the steps
            norm_first=o["first"],
        )
        last = nn.LayerNorm(width) if o["first"] and not o.get("no_norm") else None
        self.encoder = nn.TransformerEncoder(layer, b.depth, norm=last, enable_nested_tensor=False)
        for value in self.encoder.parameters():
            if value.dim() > 1:  # the copies of one layer would start equal
                nn.init.xavier_uniform_(value)
        if o.get("no_norm"):
            for module in self.encoder.layers:
                module.norm1, module.norm2 = _PassThrough(0.0), _PassThrough(1.0)
        self.embedding = _reader(task, width)
        self.positions = nn.Parameter(0.2 * torch.randn(steps, width))
        self.head = nn.Linear(width, task.outputs)
        self.mask = {
            "itself": ~torch.eye(steps, dtype=torch.bool),
            "first": torch.arange(steps).expand(steps, -1) > 0,
        }.get(o.get("mask", ""))
        self.every, self.o = task.per_position, o

    def forward(self, x: Tensor) -> Tensor:
        x = self.embedding(x) + self.o.get("positions", 1.0) * self.positions
        x = self.encoder(x, mask=self.mask)
        if not self.every:
            n, _, width = x.shape
            pool = self.o.get("pool", "mean")
            x = {
                "mean": lambda: x.mean(1),
                "sum": lambda: 10 * x.sum(1),
                "batch": lambda: x.mean((0, 1)).expand(n, -1),
                "features": lambda: x.mean((1, 2))[:, None].expand(n, width),
            }[pool]()
        elif "pool" in self.o:
            x = x.mean(0, keepdim=True).expand_as(x)
        out: Tensor = self.head(x)
        return out


@family(
    "torch-encoder",
    source="Vaswani et al. 2017, Attention is all you need; torch.nn.TransformerEncoder",
    draw=_draw_torch,
    structural={
        "no-norm": {"no_norm": True},
        "norm-misplaced": lambda blueprint, rng: blueprint.changed(first=not blueprint.options["first"]),
        "no-activation": {"activation": "linear"},
        "wrong-activation": drawn(activation=("sigmoid", "softsign")),
        "mask-wrong": drawn(mask=("itself", "first")),
        "no-positions": {"positions": 0.0},
        "wrong-pooling": drawn(pool=("sum", "batch", "features")),
        "wrong-axis": {"steps_first": True},
    },
)
def torch_encoder(blueprint: Blueprint, task: Task) -> nn.Module:
    """A stack of torch's encoder layers and the mean over the steps."""
    return _TorchEncoder(blueprint, task)


# A token that collects


def _draw_cls(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64), depths=(1, 2, 3, 4, 5), largest=(128, 9))
    return Blueprint(
        task=_draw_tasks(rng),
        width=width,
        depth=depth,
        batch=16,
        options={
            "heads": pick(rng, 2, 4),
            "activation": pick(rng, "gelu", "relu", "silu"),
            "scale": pick(rng, 0.1, 1.0),
        },
    )


class _CLSEncoder(nn.Module):
    """Layers with LayerScale; the readout looks at an extra token, or at every token but that one."""

    def __init__(self, b: Blueprint, task: Task) -> None:
        super().__init__()
        width, o, depth = b.width, b.options, b.depth
        self.o, self.every = o, task.per_position
        self.embed = _reader(task, width)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.pos = nn.Parameter(torch.randn(1, task.shape[0] + 1, width) * 0.2)
        self.attn = nn.ModuleList(nn.MultiheadAttention(width, o["heads"], batch_first=True) for _ in range(depth))
        self.norms = nn.ModuleList(nn.ModuleList(nn.LayerNorm(width) for _ in range(2)) for _ in range(depth))
        self.fc1 = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(depth))
        self.fc2 = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))
        self.gamma = nn.Parameter(torch.full((depth, 2, width), o["scale"]))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, task.outputs)
        nn.init.normal_(self.cls, std=0.02)
        for layer in (*self.fc1, *self.fc2):
            nn.init.trunc_normal_(layer.weight, std=1 / math.sqrt(width))

    def _normed(self, norm: nn.Module, x: Tensor) -> Tensor:
        if self.o.get("no_norm"):
            return x
        if self.o.get("axis") == "steps":
            return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)
        out: Tensor = norm(x)
        return out

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.cls.expand(len(x), -1, -1), self.embed(x)], dim=1) + self.o.get("positions", 1.0) * self.pos
        kind, skip = self.o["activation"], self.o.get("skip", 1.0)
        for i, attention in enumerate(self.attn):
            h = self._normed(self.norms[i][0], x)  # type: ignore[index]
            y = attention(h, h, h, need_weights=False)[0]
            y = y.detach() if self.o.get("detached") else y
            x = skip * x + self.gamma[i, 0] * y
            h = self.fc1[i](self._normed(self.norms[i][1], x))  # type: ignore[index]
            h = h if kind == "linear" else getattr(F, kind)(h)
            x = skip * x + self.gamma[i, 1] * self.fc2[i](h)
        x = self.norm(x)
        shift = self.o.get("off_by", 0)
        x = x[:, 1:].roll(shift, 1) if self.every else x[:, 0] if not shift else x[:, 0].roll(1, 0)
        out: Tensor = self.head(x)
        return out


@family(
    "cls-encoder",
    source="Devlin et al. 2019, BERT; Touvron et al. 2021, Going deeper with image transformers",
    draw=_draw_cls,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "residual-scale": drawn(scale=(1e-6, 10.0)),
        "no-norm": {"no_norm": True},
        "no-activation": {"activation": "linear"},
        "wrong-activation": drawn(activation=("sigmoid", "hardtanh")),
        "no-positions": {"positions": 0.0},
        "wrong-pooling": drawn(off_by=(1, 5)),
        "wrong-axis": {"axis": "steps"},
        "branch-detached": {"detached": True},
    },
)
def cls_encoder(blueprint: Blueprint, task: Task) -> nn.Module:
    """Attention of torch, scaled branches, and a token that collects."""
    return _CLSEncoder(blueprint, task)


# Fourier mixing


def _draw_fnet(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(48, 64, 96), depths=(1, 2, 3, 4, 6, 8), largest=(160, 12))
    return Blueprint(
        task=str(pick(rng, "majority", "rows", "rhythms")),
        width=width,
        depth=depth,
        batch=pick(rng, 16, 32),
        options={"activation": pick(rng, "GELU", "ReLU"), "norm": "post"},
    )


class _FourierBlock(nn.Module):
    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), getattr(nn, o["activation"])(), nn.Linear(2 * width, width)
        )
        self.o = o

    def forward(self, x: Tensor) -> Tensor:
        axes = self.o.get("axes", (1, 2))
        mixed = torch.fft.fftn(x, dim=tuple(axes), norm=self.o.get("fft", "ortho"))
        y = mixed.imag if self.o.get("imaginary") else mixed.real
        skip = self.o.get("skip", 1.0)
        if self.o["norm"] == "none":
            x = skip * x + y
            out: Tensor = skip * x + self.feed(x)
        else:
            x = self.norm1(skip * x + y)
            out = self.norm2(skip * x + self.feed(x))
        return out


class _FNet(nn.Module):
    def __init__(self, b: Blueprint, task: Task) -> None:
        super().__init__()
        self.stem = _reader(task, b.width)
        self.place = nn.Parameter(0.1 * torch.randn(task.shape[0], b.width))
        self.body = nn.Sequential(*(_FourierBlock(b.width, b.options) for _ in range(b.depth)))
        self.pooler = nn.Linear(b.width, b.width)
        self.classifier = nn.Linear(b.width, task.outputs)
        self.o = b.options

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(self.stem(x) + self.place)
        pool = self.o.get("pool", "mean")
        x = x.mean(1) if pool == "mean" else 10 * x.sum(1) if pool == "sum" else x.mean((0, 1)).expand(len(x), -1)
        out: Tensor = self.classifier(torch.tanh(self.pooler(x)))
        return out


@family(
    "fnet",
    source="Lee-Thorp et al. 2022, FNet: mixing tokens with Fourier transforms",
    draw=_draw_fnet,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(3.0, 10.0)),
        "no-norm": {"norm": "none"},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": drawn(activation=("Sigmoid", "Hardsigmoid")),
        "wrong-axis": drawn(axes=((0, 1), (0, 2))),
        "wrong-pooling": drawn(pool=("sum", "batch")),
        "imaginary-part": {"imaginary": True},
        "frequency-scale": {"fft": "backward"},
    },
)
def fnet(blueprint: Blueprint, task: Task) -> nn.Module:
    """Fourier transforms over steps and features in the place of attention."""
    return _FNet(blueprint, task)


# Latents that read the sequence


def _draw_perceiver(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64), depths=(1, 2, 3, 4), largest=(160, 6))
    return Blueprint(
        task=str(pick(rng, "majority", "rows")),
        width=width,
        depth=depth,
        batch=pick(rng, 16, 32),
        options={"latents": pick(rng, 4, 8), "shared": pick(rng, True, False), "spread": 0.5},
    )


class _Read(nn.Module):
    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.norm_q, self.norm_k = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.kv = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.out, self.o = nn.Linear(width, width), o
        self.feed = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        if self.o.get("no_norm"):
            q, (k, v) = self.q(z), self.kv(x).chunk(2, -1)
        else:
            q, (k, v) = self.q(self.norm_q(z)), self.kv(self.norm_k(x)).chunk(2, -1)
        scores = torch.bmm(q, k.mT) * (self.o.get("score_scale", 1.0) / math.sqrt(q.shape[-1]))
        z = self.o.get("skip", 1.0) * z + self.out(torch.bmm(scores.softmax(self.o.get("axis", 2)), v))
        out: Tensor = self.o.get("skip", 1.0) * z + self.feed(z)
        return out


class _Perceiver(nn.Module):
    def __init__(self, b: Blueprint, task: Task) -> None:
        super().__init__()
        o, width = b.options, b.width
        self.tokenise = _reader(task, width)
        self.place = nn.Parameter(0.2 * torch.randn(task.shape[0], width))
        self.latents = nn.Parameter(o["spread"] * torch.randn(o["latents"], width))
        if o.get("equal"):
            self.latents.data[:] = self.latents.data[0]
        shared = _Read(width, o)
        self.reads = nn.ModuleList(shared if o["shared"] else _Read(width, o) for _ in range(b.depth))
        self.thinks = nn.ModuleList(_Read(width, o) for _ in range(b.depth))
        self.logits = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, task.outputs))
        self.positions = o.get("positions", 1.0)

    def forward(self, x: Tensor) -> Tensor:
        x = self.tokenise(x) + self.positions * self.place
        z = self.latents.expand(len(x), -1, -1)
        for read, think in zip(self.reads, self.thinks, strict=True):
            z = read(z, x)
            z = think(z, z)
        out: Tensor = self.logits(z.mean(dim=1))
        return out


@family(
    "perceiver",
    source="Jaegle et al. 2021, Perceiver: general perception with iterative attention",
    draw=_draw_perceiver,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"no_norm": True},
        "score-scale": drawn(score_scale=(10.0, 30.0)),
        "wrong-axis": drawn(axis=(0, 1)),
        "no-positions": {"positions": 0.0},
        "latents-tied": {"equal": True},
        "bottleneck": {"latents": 1},
    },
)
def perceiver(blueprint: Blueprint, task: Task) -> nn.Module:
    """A few latent vectors read the sequence again and again."""
    return _Perceiver(blueprint, task)
