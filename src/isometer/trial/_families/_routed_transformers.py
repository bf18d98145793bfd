"""Causal transformers whose layers are shared, routed to experts, or know relative positions only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from isometer.trial._families._draws import drawn, size
from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

FAULTS = {
    "tied-wrongly": "query and key share one matrix",
    "router-closed": "the router is so sure of itself that one expert gets everything, or none gets a share",
    "depth-too-large": "the shared layer is applied many more times",
}
_MASKS = drawn(mask=("reversed", "itself", "first"))


def _seen(steps: int, kind: str) -> Tensor:
    lower = torch.tril(torch.ones(steps, steps))
    choices = {"causal": lower, "reversed": lower.T, "itself": torch.eye(steps), "first": torch.eye(steps)[:1]}
    return choices[kind].expand(steps, steps).bool()


# Universal transformer


def _draw_universal(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(48, 64, 96), depths=(2, 3, 4, 6, 8), largest=(160, 10))
    return Blueprint(
        task=pick(rng, "markov", "text", "tags"),
        width=width,
        depth=depth,
        batch=16,
        options={"heads": pick(rng, 2, 4), "activation": pick(rng, "relu", "gelu"), "dropout": pick(rng, 0.0, 0.1)},
    )


class _Through(nn.Identity):
    """Nothing in the place of a norm; an epsilon of its own keeps torch's fused layer, which has norms, away."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps


class _Universal(nn.Module):
    """One layer of torch applied again and again; a table says which time it is."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        o, width, steps = blueprint.options, blueprint.width, task.shape[0]
        self.times = blueprint.depth * o.get("repeat", 1)
        self.embed = nn.Embedding(task.vocabulary, width)
        self.position = nn.Parameter(0.1 * torch.randn(steps, width))
        self.time = nn.Parameter(0.1 * torch.randn(self.times, 1, width))
        activations: dict[str, Any] = {"sigmoid": torch.sigmoid, "linear": nn.Identity()}
        activation: Any = activations.get(o["activation"], o["activation"])
        self.layer = nn.TransformerEncoderLayer(
            width, o["heads"], 2 * width, o["dropout"], activation, batch_first=True, norm_first=not o.get("after")
        )
        if o.get("no_norm"):
            self.layer.norm1, self.layer.norm2 = _Through(0.0), _Through(1.0)  # type: ignore[assignment]
        self.norm = nn.Identity() if o.get("no_norm") or o.get("after") else nn.LayerNorm(width)
        self.head = nn.Linear(width, task.outputs)
        self.squeeze = nn.Linear(width, o["bottleneck"]) if "bottleneck" in o else None
        self.forbidden = ~_seen(steps, o.get("mask", "causal"))
        self.positions, self.skip = o.get("positions", 1.0), o.get("skip", 1.0)
        nn.init.normal_(self.embed.weight, std=0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.positions * self.position
        for time in range(self.times):
            y = self.layer(x + self.time[time], src_mask=self.forbidden)
            x = y + (self.skip - 1.0) * x
            if self.squeeze is not None and time == self.times // 2:
                x = functional.linear(self.squeeze(x), self.squeeze.weight.T)
        logits: Tensor = self.head(self.norm(x))
        return logits


@family(
    "universal-transformer",
    source="Dehghani et al. 2019, Universal transformers",
    draw=_draw_universal,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"no_norm": True},
        "norm-misplaced": {"after": True},
        "no-activation": {"activation": "linear"},
        "wrong-activation": {"activation": "sigmoid"},
        "mask-wrong": _MASKS,
        "no-positions": {"positions": 0.0},
        "bottleneck": drawn(bottleneck=(1, 2)),
        "depth-too-large": drawn(repeat=(3, 4)),
    },
)
def universal_transformer(blueprint: Blueprint, task: Task) -> nn.Module:
    """A layer of torch that all depths share."""
    return _Universal(blueprint, task)


# Mixture of experts


def _draw_experts(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64), depths=(1, 2, 3, 4), largest=(96, 9))
    return Blueprint(
        task=pick(rng, "markov", "text", "tags"),
        width=width,
        depth=depth,
        batch=16,
        options={"experts": pick(rng, 2, 4), "chosen": pick(rng, 1, 2), "router": 0.02},
    )


class _Experts(nn.Module):
    """All experts in one product; a token keeps the few that its router likes most."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.router = nn.Linear(width, o["experts"], bias=False)
        nn.init.normal_(self.router.weight, std=o["router"])
        self.w_in = nn.Parameter(torch.randn(o["experts"], width, 2 * width) * math.sqrt(2 / width))
        self.b_in = nn.Parameter(torch.zeros(o["experts"], 1, 2 * width))
        self.w_out = nn.Parameter(torch.randn(o["experts"], 2 * width, width) * math.sqrt(0.5 / width))
        self.chosen, self.axis, self.linear = o["chosen"], o.get("axis", -1), o.get("activation") == "none"

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        share = self.router(tokens).softmax(dim=self.axis)
        best, which = share.topk(self.chosen, dim=-1)
        weight = torch.zeros_like(share).scatter(1, which, best if self.chosen == 1 else best / best.sum(-1, True))
        hidden = torch.baddbmm(self.b_in, tokens.expand(len(self.w_in), -1, -1), self.w_in)
        hidden = hidden if self.linear else hidden.relu()
        return torch.einsum("etw,te->tw", hidden @ self.w_out, weight).view_as(x)


class _ExpertBlock(nn.Module):
    def __init__(self, width: int, steps: int, o: Options) -> None:
        super().__init__()
        self.norm_a = nn.Identity() if o.get("no_norm") else nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm_e = nn.Identity() if o.get("no_norm") else nn.LayerNorm(width)
        self.experts = _Experts(width, o)
        self.forbidden = ~_seen(steps, o.get("mask", "causal"))
        self.skip = o.get("skip", 1.0)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm_a(x)
        x = self.skip * x + self.attention(h, h, h, attn_mask=self.forbidden, need_weights=False)[0]
        total: Tensor = self.skip * x + self.experts(self.norm_e(x))
        return total


class _ExpertModel(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, o = blueprint.width, blueprint.options
        self.tokens = nn.Embedding(task.vocabulary, width)
        self.places = nn.Embedding(task.shape[0], width)
        nn.init.normal_(self.tokens.weight, std=0.4)
        nn.init.normal_(self.places.weight, std=0.4 * o.get("positions", 1.0))
        self.places.weight.requires_grad_(bool(o.get("positions", 1.0)))
        self.blocks = nn.Sequential(*(_ExpertBlock(width, task.shape[0], o) for _ in range(blueprint.depth)))
        self.readout = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, task.outputs))

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.readout(self.blocks(self.tokens(tokens) + self.places.weight))
        return logits


@family(
    "expert-transformer",
    source="Fedus et al. 2022, Switch transformers",
    draw=_draw_experts,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"no_norm": True},
        "no-activation": {"activation": "none"},
        "mask-wrong": _MASKS,
        "no-positions": {"positions": 0.0},
        "router-closed": drawn(router=(3.0, 10.0)),
        "wrong-axis": {"axis": 0},
    },
)
def expert_transformer(blueprint: Blueprint, task: Task) -> nn.Module:
    """Pre-norm attention of torch, feed-forward parts chosen per token."""
    return _ExpertModel(blueprint, task)


# Relative positions


def _draw_relative(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64), depths=(1, 2, 3, 4, 5), largest=(112, 9))
    return Blueprint(
        task=pick(rng, "markov", "text", "tags"),
        width=width,
        depth=depth,
        batch=16,
        options={
            "heads": pick(rng, 2, 4),
            "activation": pick(rng, "GELU", "Mish", "ReLU"),
            "reach": pick(rng, 4, 8, 16),
        },
    )


class _RelativeAttention(nn.Module):
    """Shaw's attention: a learned key for every clipped distance."""

    distance: Tensor
    seen: Tensor

    def __init__(self, width: int, steps: int, o: Options) -> None:
        super().__init__()
        self.h, self.d, self.o = o["heads"], width // o["heads"], o
        self.q = nn.Linear(width, width)
        self.k = self.q if o.get("tied") else nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.o_proj = nn.Linear(width, width)
        self.relative_key = nn.Embedding(2 * o["reach"] + 1, self.d)
        place = torch.arange(steps)
        self.register_buffer("distance", (place[None] - place[:, None]).clamp(-o["reach"], o["reach"]) + o["reach"])
        self.register_buffer("seen", _seen(steps, o.get("mask", "causal")))
        for layer in (self.q, self.k, self.v, self.o_proj):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        n, s, w = x.shape
        q, k, v = (f(x).view(n, s, self.h, self.d) for f in (self.q, self.k, self.v))
        content = torch.einsum("nihd,njhd->nhij", q, k)
        place = torch.einsum("nihd,ijd->nhij", q, self.relative_key(self.distance))
        logits = (content + self.o.get("positions", 1.0) * place) * self.o.get("score_scale", 1.0) / self.d**0.5
        attention = logits.masked_fill(~self.seen, -1e9).softmax(self.o.get("axis", 3))
        out: Tensor = self.o_proj(torch.einsum("nhij,njhd->nihd", attention, v).reshape(n, s, w))
        return out


class _RelativeTransformer(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, o, depth = blueprint.width, blueprint.options, blueprint.depth
        self.o = o
        self.embedding = nn.Embedding(task.vocabulary, width)
        self.attentions = nn.ModuleList([_RelativeAttention(width, task.shape[0], o) for _ in range(depth)])
        self.feeds = nn.ModuleList(
            [
                nn.Sequential(nn.Linear(width, 4 * width), getattr(nn, o["activation"])(), nn.Linear(4 * width, width))
                for _ in range(depth)
            ]
        )
        norm = nn.Identity if o.get("no_norm") else nn.LayerNorm
        self.norms = nn.ModuleList([norm(width) for _ in range(2 * depth + 1)])
        self.classifier = nn.Linear(width, task.outputs)

    def forward(self, tokens: Tensor) -> Tensor:
        x, skip = self.embedding(tokens), self.o.get("skip", 1.0)
        for i, (attention, feed) in enumerate(zip(self.attentions, self.feeds, strict=True)):
            if self.o.get("after"):
                x = self.norms[2 * i](skip * x + attention(x))
                x = self.norms[2 * i + 1](skip * x + feed(x))
            else:
                x = skip * x + attention(self.norms[2 * i](x))
                x = skip * x + feed(self.norms[2 * i + 1](x))
        x = x if self.o.get("after") else self.norms[-1](x)
        logits: Tensor = self.classifier(x)
        return logits


@family(
    "relative-transformer",
    source="Shaw et al. 2018, Self-attention with relative position representations",
    draw=_draw_relative,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"no_norm": True},
        "norm-misplaced": {"after": True},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": drawn(activation=("Sigmoid", "Hardtanh")),
        "score-scale": drawn(score_scale=(8.0, 20.0, 30.0)),
        "mask-wrong": _MASKS,
        "no-positions": {"positions": 0.0},
        "wrong-axis": drawn(axis=(0, 1, 2)),
        "tied-wrongly": {"tied": True},
    },
)
def relative_transformer(blueprint: Blueprint, task: Task) -> nn.Module:
    """Keys for distances instead of positions."""
    return _RelativeTransformer(blueprint, task)
