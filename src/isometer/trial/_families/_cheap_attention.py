"""Attention without products of queries and keys: random features, and weights that a layer makes up."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isometer.trial._families._draws import drawn
from isometer.trial._families._second import GELU, USUAL, NormedBranch, Sequence, feed_forward, sizes
from isometer.trial._families._third import third
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "features-few": "one random feature stands for the whole kernel",
    "normaliser-missing": "weights are summed where their mean is meant",
    "kernel-sharp": "the weights of a window are next to zero but for one",
    "kernel-noncausal": "the window reaches into the future",
}
_LANGUAGE = ("markov", "text", "nesting")


def _hidden(steps: int, o: Options) -> Tensor:
    """Which positions (columns) are hidden from which (rows)."""
    everything = torch.ones(steps, steps, dtype=torch.bool)
    return everything.tril(-1) if o.get("mask") == "reversed" else everything.triu(1)


class _RandomFeatures(nn.Module):
    """Positive random features of queries and keys, whose products estimate the softmax."""

    def __init__(self, width: int, o: Options, steps: int) -> None:
        super().__init__()
        self.o, self.heads = o, o["heads"]
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        size, number = max(1, width // self.heads), o["features"]
        directions = torch.linalg.qr(torch.randn(-(-number // size), size, size)).Q.flatten(0, 1)[:number]
        self.register_buffer("directions", directions * torch.randn(number, size).norm(dim=1, keepdim=True))
        self.places = nn.Parameter(0.3 * torch.randn(steps, width)) if o.get("places", True) else None

    def features(self, x: Tensor) -> Tensor:
        x = x * (self.o.get("score", 1.0) * x.shape[-1] ** -0.25)
        return (x @ self.get_buffer("directions").T - x.square().sum(dim=-1, keepdim=True) / 2).exp() + 1e-4

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.places is None else x + self.places
        q, k, v = (one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, dim=-1))
        weight = (self.features(q) @ self.features(k).mT).masked_fill(_hidden(x.shape[1], self.o), 0.0)
        if self.o.get("normaliser", True):
            weight = weight / weight.sum(dim=-1, keepdim=True)
        return torch.as_tensor(self.out((weight @ v).transpose(1, 2).flatten(2)))


@third(
    "performer",
    source="Choromanski et al. 2021, Rethinking attention with performers",
    draw=sizes(_LANGUAGE, (24, 32, 48), (1, 2), batches=(16,), heads=(2, 4), features=(8, 16), activation=GELU),
    structural={
        **USUAL,
        "mask-wrong": {"mask": "reversed"},
        "no-positions": {"places": False},
        "score-scale": drawn(score=(6.0, 20.0)),
        "features-few": {"features": 1},
        "normaliser-missing": {"normaliser": False},
    },
)
def performer(blueprint: Blueprint, task: Task) -> nn.Module:
    """A causal transformer with linear attention."""
    o, width, blocks = blueprint.options, blueprint.width, list[nn.Module]()
    for _ in range(blueprint.depth):
        blocks += [NormedBranch(width, _RandomFeatures(width, o, task.shape[0]), o)]
        blocks += [NormedBranch(width, feed_forward(width, o), o)]
    return Sequence(blocks, width, task, o)


class _MadeUp(nn.Module):
    """Weights over positions that are a table of their own, or that every position makes from itself alone."""

    def __init__(self, width: int, o: Options, steps: int) -> None:
        super().__init__()
        self.o, self.value, self.out = o, nn.Linear(width, width), nn.Linear(width, width)
        dense = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, steps))
        self.dense = dense if o["dense"] else None
        self.table = nn.Parameter(torch.randn(steps, steps))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.table if self.dense is None else self.table + self.dense(x)
        scores = (self.o.get("score", 1.0) * scores).masked_fill(_hidden(x.shape[1], self.o), -1e9)
        return torch.as_tensor(self.out(scores.softmax(dim=self.o.get("axis", -1)) @ self.value(x)))


@third(
    "synthesizer",
    source="Tay et al. 2021, Synthesizer: rethinking self-attention for transformer models",
    draw=sizes(_LANGUAGE, (24, 32, 48), (1, 2), batches=(16,), dense=(True, False), activation=GELU),
    structural={
        **USUAL,
        "mask-wrong": {"mask": "reversed"},
        "score-scale": drawn(score=(50.0, 200.0)),
        "wrong-axis": {"axis": -2},
    },
)
def synthesizer(blueprint: Blueprint, task: Task) -> nn.Module:
    """A causal transformer whose attention compares nothing."""
    o, width, blocks = blueprint.options, blueprint.width, list[nn.Module]()
    for _ in range(blueprint.depth):
        blocks += [NormedBranch(width, _MadeUp(width, o, task.shape[0]), o)]
        blocks += [NormedBranch(width, feed_forward(width, o), o)]
    return Sequence(blocks, width, task, o)


class _Lightweight(nn.Module):
    """Depthwise convolutions with kernels that sum to one, shared by the channels of a head; fixed, or by position."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o, self.heads, self.kernel = o, o["heads"], o["kernel"]
        self.enter, self.leave = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.weight = nn.Parameter(torch.randn(self.heads, self.kernel))
        self.dynamic = nn.Linear(width, self.heads * self.kernel) if o["dynamic"] else None

    def forward(self, x: Tensor) -> Tensor:
        h = F.glu(self.enter(x), dim=-1)
        scores = self.weight.expand(*x.shape[:2], -1, -1)
        if self.dynamic is not None:
            scores = scores + self.dynamic(h).unflatten(-1, (self.heads, self.kernel))
        weight = (self.o.get("sharp", 1.0) * scores).softmax(dim=self.o.get("axis", -1))
        pads = (0, self.kernel - 1) if self.o.get("future") else (self.kernel - 1, 0)
        windows = torch.unflatten(F.pad(h, (0, 0, *pads)).unfold(1, self.kernel, 1), 2, (self.heads, -1))
        mixed = torch.einsum("nthck,nthk->nthc", windows, weight)
        return torch.as_tensor(self.leave(mixed.flatten(2)))


@third(
    "lightweight-convolution",
    source="Wu et al. 2019, Pay less attention with lightweight and dynamic convolutions",
    draw=sizes(
        (*_LANGUAGE, "tags"),
        (24, 32, 48),
        (1, 2),
        batches=(16,),
        heads=(2, 4),
        kernel=(3, 5),
        dynamic=(True, False),
        activation=GELU,
    ),
    structural={
        **USUAL,
        "kernel-noncausal": {"future": True},
        "kernel-sharp": drawn(sharp=(50.0, 200.0)),
        "wrong-axis": {"axis": 0},
    },
)
def lightweight_convolution(blueprint: Blueprint, task: Task) -> nn.Module:
    """Windows of a few positions where a transformer attends to all."""
    o, width, blocks = blueprint.options, blueprint.width, list[nn.Module]()
    for _ in range(blueprint.depth):
        blocks += [NormedBranch(width, _Lightweight(width, o), o), NormedBranch(width, feed_forward(width, o), o)]
    return Sequence(blocks, width, task, o)
