"""Causal transformers that differ in their attention, their positions, or in how layers share and route."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isometer.trial._families._draws import drawn, size
from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

FAULTS = {
    "frequency-scale": "rotary angles turn far too fast or not at all",
    "slope-scale": "the distance penalty of the scores is too steep, or has the wrong sign",
}


def _task(rng: np.random.Generator) -> str:
    return str(pick(rng, "markov", "text", "tags"))


def _triangle(steps: int, kind: str) -> Tensor:
    """What is added to the scores."""
    row, column = torch.arange(steps)[:, None], torch.arange(steps)[None]
    allowed = {
        "causal": column <= row,
        "reversed": column >= row,
        "itself": column == row,
        "first": column < 1 + 0 * row,
    }
    return torch.zeros(steps, steps).masked_fill(~allowed[kind], -1e9)


_MASKS = drawn(mask=("reversed", "itself", "first"))

# Llama


def _draw_llama(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64, 96), depths=(1, 2, 3, 4, 6), largest=(128, 8))
    options = {"heads": pick(rng, 2, 4), "theta": pick(rng, 1e2, 1e4), "std": pick(rng, 0.02, 0.05)}
    return Blueprint(_task(rng), width, depth, batch=16, options=options)


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.eps)


class _Llama(nn.Module):
    angles: Tensor
    mask: Tensor

    def __init__(self, b: Blueprint, task: Task) -> None:
        super().__init__()
        o, width, steps = b.options, b.width, task.shape[0]
        self.heads, self.o = o["heads"], o
        rate = o["theta"] ** (-torch.arange(0, width // self.heads, 2) / (width // self.heads))
        self.register_buffer("angles", o.get("turn", 1.0) * torch.arange(steps)[:, None] * rate)
        self.register_buffer("mask", _triangle(steps, o.get("mask", "causal")))
        hidden = 8 * width // 3
        self.tok_embeddings = nn.Embedding(task.vocabulary, width)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "attention_norm": nn.Identity() if o.get("no_norm") else RMSNorm(width),
                    "ffn_norm": nn.Identity() if o.get("no_norm") else RMSNorm(width),
                    "wq": nn.Linear(width, width, bias=False),
                    "wk": nn.Linear(width, width, bias=False),
                    "wv": nn.Linear(width, width, bias=False),
                    "wo": nn.Linear(width, width, bias=False),
                    "w1": nn.Linear(width, hidden, bias=False),
                    "w2": nn.Linear(hidden, width, bias=False),
                    "w3": nn.Linear(width, hidden, bias=False),
                }
            )
            for _ in range(b.depth)
        )
        self.norm = nn.Identity() if o.get("no_norm") else RMSNorm(width)
        self.output = nn.Linear(width, task.outputs, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.trunc_normal_(module.weight, std=o["std"])

    def rotate(self, x: Tensor) -> Tensor:
        even, odd = x[..., ::2], x[..., 1::2]
        cos, sin = self.angles.cos(), self.angles.sin()
        return torch.cat([even * cos - odd * sin, even * sin + odd * cos], dim=-1)

    def attention(self, layer: nn.ModuleDict, x: Tensor) -> Tensor:
        n, steps, width = x.shape
        shape = (n, steps, self.heads, width // self.heads)
        q, k, v = (layer[name](x).view(shape).transpose(1, 2) for name in ("wq", "wk", "wv"))
        scores = self.rotate(q) @ self.rotate(k).mT * self.o.get("score_scale", 1.0) / math.sqrt(shape[-1])
        y = F.softmax(scores + self.mask, dim=self.o.get("axis", -1)) @ v
        merged = y if self.o.get("mixed") else y.transpose(1, 2)
        out: Tensor = layer["wo"](merged.reshape(n, steps, width))
        return out

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tok_embeddings(tokens)
        gates: dict[str, Any] = {"silu": F.silu, "sigmoid": torch.sigmoid, "linear": nn.Identity()}
        gate = gates[self.o.get("activation", "silu")]
        skip = self.o.get("skip", 1.0)
        for layer in self.layers:
            assert isinstance(layer, nn.ModuleDict)
            if self.o.get("norm_after"):
                x = layer["attention_norm"](skip * x + self.attention(layer, x))
                x = layer["ffn_norm"](skip * x + layer["w2"](gate(layer["w1"](x)) * layer["w3"](x)))
            else:
                x = skip * x + self.attention(layer, layer["attention_norm"](x))
                h = layer["ffn_norm"](x)
                x = skip * x + layer["w2"](gate(layer["w1"](h)) * layer["w3"](h))
        logits: Tensor = self.output(self.norm(x))
        return logits


@family(
    "llama-like",
    source="Touvron et al. 2023, LLaMA: open and efficient foundation language models",
    draw=_draw_llama,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"no_norm": True},
        "norm-misplaced": {"norm_after": True},
        "no-activation": {"activation": "linear"},
        "wrong-activation": {"activation": "sigmoid"},
        "score-scale": drawn(score_scale=(8.0, 20.0, 30.0)),
        "mask-wrong": _MASKS,
        "no-positions": {"turn": 0.0},
        "frequency-scale": drawn(turn=(30.0, 100.0)),
        "wrong-axis": drawn(axis=(-2, 1)),
        "wrong-reshape": {"mixed": True},
    },
)
def llama_like(blueprint: Blueprint, task: Task) -> nn.Module:
    """RMSNorm, rotary positions, a gated feed-forward part, no biases."""
    return _Llama(blueprint, task)


# Norms on both sides of each branch and on queries and keys


def _draw_sandwich(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64), depths=(1, 2, 3, 4, 6), largest=(128, 9))
    options = {"heads": pick(rng, 2, 4), "temperature": pick(rng, 5.0, 10.0), "activation": pick(rng, "GELU", "ReLU")}
    return Blueprint(_task(rng), width, depth, batch=pick(rng, 16, 20), options=options)


class _QKNormAttention(nn.Module):
    def __init__(self, width: int, steps: int, o: Options) -> None:
        super().__init__()
        self.heads, self.plain = o["heads"], o.get("no_norm", False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.temperature = nn.Parameter(torch.full((self.heads, 1, 1), o["temperature"]))
        self.out = nn.Linear(width, width)
        self.mask = _triangle(steps, o.get("mask", "causal"))
        self.axis = o.get("axis", -1)
        nn.init.xavier_uniform_(self.qkv.weight)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if not self.plain:
            q, k = F.normalize(q, dim=self.axis), F.normalize(k, dim=self.axis)
        weight = torch.softmax(torch.einsum("nhid,nhjd->nhij", q, k) * self.temperature + self.mask, dim=-1)
        out: Tensor = self.out(torch.einsum("nhij,nhjd->nihd", weight, v).flatten(2))
        return out


class _Sandwich(nn.Module):
    """A branch between two norms, beside its skip."""

    def __init__(self, width: int, branch: nn.Module, o: Options) -> None:
        super().__init__()
        norm = nn.Identity if o.get("no_norm") else nn.LayerNorm
        self.skip, self.before, self.branch, self.after = o.get("skip", 1.0), norm(width), branch, norm(width)
        self.outside = o.get("outside", False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.branch(self.before(x))
        total: Tensor = self.after(self.skip * x + y) if self.outside else self.skip * x + self.after(y)
        return total


@family(
    "sandwich-transformer",
    source="Ding et al. 2021, CogView; Henry et al. 2020, Query-key normalization for transformers",
    draw=_draw_sandwich,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"no_norm": True},
        "norm-misplaced": {"outside": True},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": drawn(activation=("Sigmoid", "Hardsigmoid")),
        "score-scale": drawn(temperature=(100.0, 300.0)),
        "mask-wrong": _MASKS,
        "no-positions": {"positions": 0.0},
        "wrong-axis": drawn(axis=(0, 2)),
    },
)
def sandwich_transformer(blueprint: Blueprint, task: Task) -> nn.Module:
    """Sandwich norms, cosine attention, put together as one Sequential."""
    o, width = blueprint.options, blueprint.width

    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(0.5 * torch.randn(task.shape[0], width))

        def forward(self, x: Tensor) -> Tensor:
            placed: Tensor = x + o.get("positions", 1.0) * self.table
            return placed

    layers: list[nn.Module] = []
    for _ in range(blueprint.depth):
        feed = nn.Sequential(nn.Linear(width, 3 * width), getattr(nn, o["activation"])(), nn.Linear(3 * width, width))
        layers += [_Sandwich(width, _QKNormAttention(width, task.shape[0], o), o), _Sandwich(width, feed, o)]
    return nn.Sequential(
        nn.Embedding(task.vocabulary, width), Positions(), *layers, nn.LayerNorm(width), nn.Linear(width, task.outputs)
    )


# Grouped queries, distances in the scores


def _draw_alibi(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 64, 96), depths=(1, 2, 3, 4, 6), largest=(128, 10))
    options = {
        "heads": pick(rng, 4, 8),
        "groups": pick(rng, 1, 2),
        "slope": 1.0,
        "activation": pick(rng, "gelu", "relu"),
    }
    return Blueprint(_task(rng), width, depth, batch=16, options=options)


class _AlibiBlock(nn.Module):
    bias: Tensor

    def __init__(self, width: int, steps: int, o: Options) -> None:
        super().__init__()
        self.heads, self.groups, self.size, self.o = o["heads"], o["groups"], width // o["heads"], o
        self.norm = nn.LayerNorm(width) if not o.get("no_norm") else nn.Identity()
        self.q_proj = nn.Linear(width, width, bias=False)
        self.kv_proj = nn.Linear(width, 2 * self.groups * self.size, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)
        self.fc_in, self.fc_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        slope = o["slope"] * 2.0 ** (-8.0 * (torch.arange(self.heads) + 1) / self.heads)
        distance = torch.arange(steps)[None, :] - torch.arange(steps)[:, None]
        mask = _triangle(steps, o.get("mask", "causal"))
        self.register_buffer("bias", slope[:, None, None] * -distance.abs() + mask)

    def forward(self, x: Tensor) -> Tensor:
        """Attention and feed-forward part side by side, as in GPT-J."""
        n, steps, width = x.shape
        h = self.norm(x)
        q = self.q_proj(h).view(n, steps, self.heads, self.size).transpose(1, 2) * self.o.get("score_scale", 1.0)
        k, v = self.kv_proj(h).view(n, steps, 2 * self.groups, self.size).transpose(1, 2).chunk(2, dim=1)
        k, v = (part.repeat_interleave(self.heads // self.groups, dim=1) for part in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias)
        attended = self.o_proj(y.transpose(1, 2).reshape(n, steps, width))
        kind = self.o["activation"]
        middle = self.fc_in(h)
        middle = middle if kind == "linear" else getattr(F, kind)(middle)
        total: Tensor = self.o.get("skip", 1.0) * x + attended + self.fc_out(middle)
        return total


@family(
    "alibi-grouped-transformer",
    source="Press et al. 2022, Train short, test long; Ainslie et al. 2023, GQA",
    draw=_draw_alibi,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"no_norm": True},
        "no-activation": {"activation": "linear"},
        "wrong-activation": drawn(activation=("sigmoid", "hardtanh")),
        "score-scale": drawn(score_scale=(8.0, 20.0, 30.0)),
        "mask-wrong": _MASKS,
        "no-positions": {"slope": 0.0},
        "slope-scale": drawn(slope=(-3.0, 300.0)),
    },
)
def alibi_grouped_transformer(blueprint: Blueprint, task: Task) -> nn.Module:
    """Parallel branches, few keys and values for many queries, linear penalties instead of positions."""
    model = nn.Sequential()
    embed = nn.Embedding(task.vocabulary, blueprint.width)
    nn.init.normal_(embed.weight, std=0.1)
    model.add_module("embed", embed)
    for place in range(blueprint.depth):
        model.add_module(f"block{place}", _AlibiBlock(blueprint.width, task.shape[0], blueprint.options))
    if not blueprint.options.get("no_norm"):
        model.add_module("norm", nn.LayerNorm(blueprint.width))
    model.add_module("head", nn.Linear(blueprint.width, task.outputs))
    return model
