"""Sets of points, and graphs."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

Tensor = torch.Tensor

FAULTS: dict[str, str] = {
    "aggregation-sum": "neighbours or points are summed where their mean is meant",
    "neighbours-wrong": "the farthest points in place of the nearest",
}


def _skip_drawn(blueprint: Blueprint, rng: np.random.Generator) -> Blueprint:
    return blueprint.changed(skip=round(float(rng.uniform(2, 3)), 2))


# Deep sets.


def _draw_deepsets(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "cloud", "graph"),
        width=400 if large else pick(rng, 24, 32, 48, 64),
        depth=6 if large else int(rng.integers(1, 6)),
        batch=64 if large else pick(rng, 16, 32),
        options={
            "pool": pick(rng, "mean", "max"),
            "activation": pick(rng, "ReLU", "ELU", "Tanh"),
            "norm": bool(rng.integers(2)),
        },
    )


class _SetPool(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "sum":
            return x.sum(dim=1)
        if self.kind == "first":
            return x[:, 0]
        if self.kind == "batch":
            return x.mean(dim=(0, 1), keepdim=True)[0].expand(len(x), -1)
        if self.kind == "features":
            return x.mean(dim=2, keepdim=True).mean(dim=1).expand(-1, x.shape[2])
        return x.amax(dim=1) if self.kind == "max" else x.mean(dim=1)


@family(
    "deepsets",
    source="Zaheer et al. 2017, Deep sets",
    draw=_draw_deepsets,
    structural={
        "no-activation": {"activation": "Identity"},
        "wrong-activation": lambda b, rng: b.changed(activation=pick(rng, "Sigmoid", "Hardsigmoid")),
        "aggregation-sum": {"pool": "sum"},
        "wrong-pooling": lambda b, rng: b.changed(pool=pick(rng, "first", "batch", "features")),
        "bottleneck": lambda b, rng: b.changed(bottleneck=pick(rng, 1, 2)),
    },
)
def deepsets(blueprint: Blueprint, task: Task) -> nn.Module:
    """A perceptron for every point, a symmetric pool, a perceptron for the set."""
    o, width = blueprint.options, blueprint.width

    def phi(before: int, after: int) -> list[nn.Module]:
        linear = nn.Linear(before, after)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu" if o["activation"] == "ReLU" else "linear")
        nn.init.zeros_(linear.bias)
        return [linear, *([nn.LayerNorm(after)] if o["norm"] and after > 2 else []), getattr(nn, o["activation"])()]

    layers = phi(task.shape[-1], width)
    for _ in range(blueprint.depth - 1):
        layers += phi(width, width)
    narrow = o.get("bottleneck", width)
    layers += [*phi(width, narrow), _SetPool(o["pool"]), *phi(narrow, width)]
    return nn.Sequential(*layers, nn.Linear(width, task.outputs))


# PointNet.


def _draw_pointnet(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "cloud", "cloud", "graph"),
        width=224 if large else pick(rng, 12, 16, 24, 32),
        depth=6 if large else int(rng.integers(2, 6)),
        batch=64 if large else pick(rng, 16, 32),
        options={"align": bool(rng.integers(2)), "norm": True, "pool": "max", "dropout": pick(rng, 0.0, 0.05)},
    )


class _Align(nn.Module):
    """Finds a matrix that turns the points; it starts at the identity."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.size = size
        self.conv = nn.Sequential(nn.Conv1d(size, width, 1), nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU())
        self.fc = nn.Linear(width, size * size)
        nn.init.normal_(self.fc.weight, std=1e-2)
        with torch.no_grad():
            self.fc.bias.copy_(torch.eye(size).flatten())

    def forward(self, x: Tensor) -> Tensor:
        matrix = self.fc(self.conv(x).amax(dim=-1)).view(-1, self.size, self.size)
        return torch.bmm(matrix, x)


class _PointNet(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        w, self.o = blueprint.width, blueprint.options
        self.align = _Align(task.shape[-1], w) if self.o["align"] else nn.Identity()
        widths = [task.shape[-1]] + [w] * (blueprint.depth - 1) + [self.o.get("bottleneck", 4 * w)]
        self.convs = nn.ModuleList()
        self.bns = nn.ModuleList()
        for i in range(len(widths) - 1):
            self.convs.append(nn.Conv1d(widths[i], widths[i + 1], 1))
            self.bns.append(nn.BatchNorm1d(widths[i + 1]) if self.o["norm"] else nn.Identity())
        self.fc1 = nn.Linear(widths[-1], 2 * w)
        self.drop = nn.Dropout(self.o["dropout"])
        self.fc2 = nn.Linear(2 * w, task.outputs)

    def forward(self, points: Tensor) -> Tensor:
        x = points.reshape(points.shape[0], points.shape[2], -1) if self.o.get("reshaped") else points.transpose(2, 1)
        x = self.align(x)
        for i, (conv, bn) in enumerate(zip(self.convs, self.bns, strict=True)):
            x = bn(conv(x))
            if i < len(self.convs) - 1:
                x = torch.sigmoid(x) if self.o.get("activation") == "sigmoid" else F.relu(x)
        pool = self.o["pool"]
        x = x.sum(dim=2) if pool == "sum" else x[:, :, -1] if pool == "last" else x.max(dim=2).values
        if pool == "batch":
            x = x.max(dim=0, keepdim=True).values.expand(len(points), -1)
        return torch.as_tensor(self.fc2(self.drop(F.relu(self.fc1(x)))))


@family(
    "pointnet",
    source="Qi et al. 2017, PointNet",
    draw=_draw_pointnet,
    structural={
        "no-norm": {"norm": False},
        "wrong-activation": {"activation": "sigmoid"},
        "aggregation-sum": {"pool": "sum"},
        "wrong-pooling": lambda b, rng: b.changed(pool=pick(rng, "last", "batch")),
        "wrong-reshape": {"reshaped": True},
        "bottleneck": lambda b, rng: b.changed(bottleneck=pick(rng, 1, 2)),
    },
)
def pointnet(blueprint: Blueprint, task: Task) -> nn.Module:
    """Convolutions over single points, aligned or not, and the maximum over the points."""
    return _PointNet(blueprint, task)


# Set transformer.


def _draw_set(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "cloud", "graph"),
        width=112 if large else pick(rng, 16, 24, 32),
        depth=6 if large else int(rng.integers(1, 5)),
        batch=64 if large else pick(rng, 16, 32),
        options={"heads": pick(rng, 2, 4), "norm": bool(rng.integers(2)), "skip": 1.0, "seeds": pick(rng, 1, 2)},
    )


class MAB(nn.Module):
    """Multihead attention from one set to another, as the paper's code has it."""

    def __init__(self, dim: int, o: Options) -> None:
        super().__init__()
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(dim, dim) for _ in range(4))
        self.ln0, self.ln1 = (nn.LayerNorm(dim) if o["norm"] else nn.Identity() for _ in range(2))
        self.o = o

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        size = queries.shape[-1] // self.o["heads"]
        q, k, v = self.fc_q(queries), self.fc_k(keys), self.fc_v(keys)
        q_, k_, v_ = (torch.cat(torch.split(t, size, 2), 0) for t in (q, k, v))
        scores = q_.bmm(k_.transpose(1, 2)) * self.o.get("sharp", 1 / math.sqrt(size))
        attention = torch.softmax(scores, self.o.get("axis", 2))
        seen = torch.cat(torch.split(attention.bmm(v_), len(queries), 0), 2)
        h = self.ln0(self.o["skip"] * q + seen if self.o["skip"] else seen)
        inner = F.relu(self.fc_o(h))
        return torch.as_tensor(self.ln1(self.o["skip"] * h + inner if self.o["skip"] else inner))


class _SetTransformer(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        dim, o = blueprint.width, blueprint.options
        self.embed = nn.Linear(task.shape[-1], dim)
        self.encoder = nn.ModuleList(MAB(dim, o) for _ in range(blueprint.depth))
        self.seeds = nn.Parameter(torch.empty(1, o["seeds"], dim))
        nn.init.xavier_uniform_(self.seeds)
        self.pool = MAB(dim, o)
        self.out = nn.Linear(o["seeds"] * dim, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for block in self.encoder:
            x = block(x, x)
        return torch.as_tensor(self.out(self.pool(self.seeds.expand(len(x), -1, -1), x).flatten(1)))


@family(
    "set-transformer",
    source="Lee et al. 2019, Set transformer",
    draw=_draw_set,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": _skip_drawn,
        "score-scale": lambda b, rng: b.changed(sharp=float(pick(rng, 1.0, 10.0, 30.0))),
        "wrong-axis": lambda b, rng: b.changed(axis=pick(rng, 0, 1)),
    },
)
def set_transformer(blueprint: Blueprint, task: Task) -> nn.Module:
    """Attention among the points, then attention of learned seeds to them."""
    return _SetTransformer(blueprint, task)


# Edge convolution.


def _draw_edge(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "cloud", "graph"),
        width=176 if large else pick(rng, 12, 16, 24),
        depth=3 if large else int(rng.integers(1, 4)),
        batch=48 if large else pick(rng, 16, 32),
        options={"neighbours": pick(rng, 3, 4, 6), "dynamic": bool(rng.integers(2)), "pool": "max", "farthest": False},
    )


class _EdgeConv(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o = blueprint.options
        w, depth = blueprint.width, blueprint.depth
        self.edges = nn.ModuleList()
        for i in range(depth):
            before = task.shape[-1] if i == 0 else w
            self.edges.append(nn.Sequential(nn.Linear(2 * before, w), nn.LeakyReLU(0.2), nn.Linear(w, w)))
        self.head = nn.Sequential(nn.Linear(2 * w * depth, 2 * w), nn.LeakyReLU(0.2), nn.Linear(2 * w, task.outputs))

    def nearest(self, x: Tensor) -> Tensor:
        distance = (x[:, :, None] - x[:, None]).square().sum(dim=-1)
        return distance.topk(self.o["neighbours"], dim=-1, largest=self.o["farthest"]).indices

    def forward(self, x: Tensor) -> Tensor:
        index, kept = self.nearest(x.detach()), []
        for i, edge in enumerate(self.edges):
            if i and self.o["dynamic"]:
                index = self.nearest(x.detach())
            others = x[torch.arange(len(x))[:, None, None], index]
            own = x[:, :, None].expand_as(others)
            messages = edge(torch.cat([own, others - own], dim=-1))
            x = messages.sum(dim=2) if self.o["pool"] == "sum" else messages.amax(dim=2)
            if self.o["pool"] == "batch":
                x = x.mean(dim=0, keepdim=True).expand_as(x)
            kept.append(x)
        whole = torch.cat(kept, dim=-1)
        summary = (
            [whole.sum(dim=1), whole.amax(dim=1)] if self.o["pool"] == "sum" else [whole.mean(dim=1), whole.amax(dim=1)]
        )
        return torch.as_tensor(self.head(torch.cat(summary, dim=-1)))


@family(
    "edge-conv",
    source="Wang et al. 2019, Dynamic graph CNN for learning on point clouds",
    draw=_draw_edge,
    structural={
        "aggregation-sum": {"pool": "sum"},
        "wrong-pooling": {"pool": "batch"},
        "neighbours-wrong": {"farthest": True},
        "bottleneck": {"neighbours": 1},
    },
)
def edge_conv(blueprint: Blueprint, task: Task) -> nn.Module:
    """Perceptrons on pairs of near points, the nearest found anew in every layer or once."""
    return _EdgeConv(blueprint, task)
