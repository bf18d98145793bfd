"""Graph networks, on the graph that is the same for all samples."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task, graph

Tensor = torch.Tensor

FAULTS: dict[str, str] = {
    "aggregation-sum": "neighbours or nodes are summed where their mean is meant",
    "self-loops-missing": "a node does not see itself",
    "adjacency-wrong": "the graph is complete, or has no edges",
    "eps-off": "a node counts itself many times, or cancels itself",
}


def _adjacency(options: Options) -> Tensor:
    kind = options.get("adjacency", "true")
    if kind == "complete":
        return torch.ones_like(graph())
    if kind == "empty":
        return torch.eye(len(graph()))
    return graph() - torch.eye(len(graph())) if kind == "no-loops" else graph().clone()


def _adjacency_drawn(blueprint: Blueprint, rng: np.random.Generator) -> Blueprint:
    return blueprint.changed(adjacency=pick(rng, "complete", "empty"))


def _read(x: Tensor, kind: str) -> Tensor:
    if kind == "sum":
        return x.sum(dim=1)
    if kind == "batch":
        return x.mean(dim=(0, 1)).expand(len(x), -1)
    return x[:, 0] if kind == "first" else x.mean(dim=1)


def _pool_drawn(blueprint: Blueprint, rng: np.random.Generator) -> Blueprint:
    return blueprint.changed(read=pick(rng, "sum", "batch", "first"))


# Graph convolution.


def _draw_gcn(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task="graph",
        width=256 if large else pick(rng, 24, 32, 64),
        depth=12 if large else int(rng.integers(2, 9)),
        batch=64 if large else pick(rng, 16, 32, 64),
        options={
            "normalise": "symmetric",
            "skip": pick(rng, 0.0, 1.0),
            "norm": bool(rng.integers(2)),
            "activation": pick(rng, "relu", "elu"),
            "read": "mean",
        },
    )


class _GCN(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, depth, self.o = blueprint.width, blueprint.depth, blueprint.options
        adjacency = _adjacency(self.o)
        degree = adjacency.sum(dim=1).clamp(min=1)
        if self.o["normalise"] == "symmetric":
            adjacency = adjacency / torch.sqrt(degree[:, None] * degree[None, :])
        self.register_buffer("propagation", adjacency)
        self.inputs = nn.Linear(task.shape[-1], width)
        self.convs = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) if self.o["norm"] else nn.Identity() for _ in range(depth))
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, task.outputs))
        for conv in self.convs:
            nn.init.xavier_uniform_(conv.get_parameter("weight"), gain=math.sqrt(2))

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.inputs(x))
        for conv, norm in zip(self.convs, self.norms, strict=True):
            new = norm(torch.matmul(self.get_buffer("propagation"), conv(h)))
            if self.o["activation"] != "none":
                new = getattr(F, self.o["activation"])(new)
            h = self.o["skip"] * h + new if self.o["skip"] else new
        return torch.as_tensor(self.mlp(_read(h, self.o["read"])))


@family(
    "gcn",
    source="Kipf and Welling 2017, Graph convolutional networks",
    draw=_draw_gcn,
    structural={
        "no-skips": lambda b, rng: b.changed(skip=0.0, depth=b.depth + 8),
        "skip-scaled": lambda b, rng: b.changed(skip=round(float(rng.uniform(2, 3)), 2)),
        "no-norm": lambda b, rng: b.changed(norm=False, normalise="none"),
        "no-activation": {"activation": "none"},
        "wrong-activation": {"activation": "sigmoid"},
        "aggregation-sum": {"normalise": "none"},
        "self-loops-missing": {"adjacency": "no-loops"},
        "adjacency-wrong": _adjacency_drawn,
        "wrong-pooling": _pool_drawn,
    },
)
def gcn(blueprint: Blueprint, task: Task) -> nn.Module:
    """Linear maps and averages over neighbours in turn, with skips or without."""
    return _GCN(blueprint, task)


# Graph attention.


def _draw_gat(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task="graph",
        width=192 if large else pick(rng, 16, 32, 48),
        depth=5 if large else int(rng.integers(1, 5)),
        batch=64 if large else pick(rng, 16, 32),
        options={"heads": pick(rng, 2, 4), "skip": 1.0, "read": "mean", "second": bool(rng.integers(2)), "axis": -1},
    )


class _GATLayer(nn.Module):
    def __init__(self, before: int, after: int, o: Options) -> None:
        super().__init__()
        self.heads, self.o = o["heads"], o
        self.W = nn.Parameter(torch.empty(before, after))
        self.a_source = nn.Parameter(torch.empty(o["heads"], after // o["heads"]))
        self.a_target = nn.Parameter(torch.empty(o["heads"], after // o["heads"]))
        self.bias = nn.Parameter(torch.zeros(after))
        for p in (self.W, self.a_source, self.a_target):
            nn.init.xavier_uniform_(p, gain=1.414)
        self.res = nn.Linear(before, after, bias=False)
        self.register_buffer("closed", _adjacency(o) == 0)

    def forward(self, x: Tensor) -> Tensor:
        h = (x @ self.W).view(*x.shape[:2], self.heads, -1)
        if self.o["second"]:  # GATv2: the nonlinearity before the vector
            pair = F.leaky_relu(h[:, :, None] + h[:, None], 0.2)
            scores = torch.einsum("nijhd,hd->nhij", pair, self.a_source + self.a_target)
        else:
            source, target = (torch.einsum("nihd,hd->nhi", h, a) for a in (self.a_source, self.a_target))
            scores = F.leaky_relu(source[..., :, None] + target[..., None, :], 0.2)
        scores = (scores * self.o.get("sharp", 1.0)).masked_fill(self.get_buffer("closed"), -1e9)
        attention = F.softmax(scores, dim=self.o["axis"])
        if self.o.get("summed"):
            attention = (~self.get_buffer("closed")).float().expand_as(attention)
        out = torch.einsum("nhij,njhd->nihd", attention, h).flatten(2) + self.bias
        return out + self.o["skip"] * self.res(x) if self.o["skip"] else out


class _GAT(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, self.o = blueprint.width, blueprint.options
        sizes = [task.shape[-1]] + [width] * blueprint.depth
        self.layers = nn.ModuleList(_GATLayer(sizes[i], sizes[i + 1], self.o) for i in range(blueprint.depth))
        self.norm = nn.LayerNorm(width)
        self.hidden, self.out = nn.Linear(width, width), nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = F.elu(layer(x))
        x = F.gelu(self.hidden(self.norm(x)))
        return torch.as_tensor(self.out(_read(x, self.o["read"])))


@family(
    "gat",
    source="Veličković et al. 2018, Graph attention networks; Brody et al. 2022, GATv2",
    draw=_draw_gat,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": lambda b, rng: b.changed(skip=round(float(rng.uniform(2, 3)), 2)),
        "score-scale": lambda b, rng: b.changed(sharp=float(pick(rng, 10.0, 30.0))),
        "mask-wrong": {"adjacency": "empty"},
        "wrong-axis": lambda b, rng: b.changed(axis=pick(rng, 1, 2)),
        "aggregation-sum": {"summed": True},
        "self-loops-missing": {"adjacency": "no-loops"},
        "wrong-pooling": _pool_drawn,
    },
)
def gat(blueprint: Blueprint, task: Task) -> nn.Module:
    """Neighbours weighted by attention, of the first or the second kind."""
    return _GAT(blueprint, task)


# Graph isomorphism.


def _draw_gin(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task="graph",
        width=320 if large else pick(rng, 16, 32, 48),
        depth=5 if large else int(rng.integers(1, 6)),
        batch=64 if large else pick(rng, 16, 32),
        options={"eps": 0.0, "norm": True, "read": "mean", "jumping": bool(rng.integers(2)), "activation": "ReLU"},
    )


class _GINLayer(nn.Module):
    def __init__(self, before: int, after: int, o: Options) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.tensor(float(o["eps"])))
        self.register_buffer("neighbours", _adjacency({**o, "adjacency": o.get("adjacency", "no-loops")}))
        self.first = nn.Linear(before, after)
        self.norm = nn.BatchNorm1d(after) if o["norm"] else nn.Identity()
        self.activation = getattr(nn, o["activation"])()
        self.second = nn.Linear(after, after)

    def forward(self, x: Tensor) -> Tensor:
        x = (1 + self.eps) * x + torch.einsum("ij,njf->nif", self.get_buffer("neighbours"), x)
        n, nodes, _ = x.shape
        x = self.norm(self.first(x).reshape(n * nodes, -1)).view(n, nodes, -1)
        return torch.as_tensor(self.activation(self.second(self.activation(x))))


class _GIN(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, self.o = blueprint.width, blueprint.options
        sizes = [task.shape[-1]] + [width] * blueprint.depth
        self.layers = nn.ModuleList([_GINLayer(sizes[i], sizes[i + 1], self.o) for i in range(blueprint.depth)])
        features = sum(sizes) if self.o["jumping"] else width
        self.out = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, task.outputs))

    def forward(self, x: Tensor) -> Tensor:
        seen = [_read(x, self.o["read"])]
        for layer in self.layers:
            x = layer(x)
            seen.append(_read(x, self.o["read"]))
        return torch.as_tensor(self.out(torch.cat(seen, dim=-1) if self.o["jumping"] else seen[-1]))


@family(
    "gin",
    source="Xu et al. 2019, How powerful are graph neural networks?",
    draw=_draw_gin,
    structural={
        "no-norm": {"norm": False},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": {"activation": "Sigmoid"},
        "eps-off": lambda b, rng: b.changed(eps=float(pick(rng, -1.0, 50.0))),
        "adjacency-wrong": lambda b, rng: b.changed(adjacency="complete"),
        "wrong-pooling": _pool_drawn,
    },
)
def gin(blueprint: Blueprint, task: Task) -> nn.Module:
    """Sums over neighbours followed by perceptrons, read at the last layer or at all."""
    return _GIN(blueprint, task)


# Message passing with a gated update.


def _draw_mpnn(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task="graph",
        width=96 if large else pick(rng, 12, 16, 24, 32),
        depth=5 if large else int(rng.integers(2, 6)),
        batch=48 if large else pick(rng, 16, 32),
        options={"aggregate": "mean", "update": "gru", "read": "mean"},
    )


class _MPNN(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, self.rounds, self.o = blueprint.width, blueprint.depth, blueprint.options
        where = _adjacency({**self.o, "adjacency": self.o.get("adjacency", "no-loops")}).nonzero()
        self.register_buffer("source", where[:, 0])
        self.register_buffer("target", where[:, 1])
        self.embed = nn.Linear(task.shape[-1], width)
        self.message = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))
        self.update = nn.GRUCell(width, width)
        self.out = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, task.outputs))
        nn.init.orthogonal_(self.update.weight_hh)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.embed(x))
        source, target = self.get_buffer("source"), self.get_buffer("target")
        count = torch.bincount(target, minlength=x.shape[1]).clamp(min=1)[:, None]
        for _ in range(self.rounds):
            messages = self.message(torch.cat([h[:, source], h[:, target]], dim=-1))
            total = torch.zeros_like(h).index_add(1, target, messages)
            total = total if self.o["aggregate"] == "sum" else total / count
            if self.o["update"] == "replace":
                h = torch.tanh(total)
            elif self.o["update"] == "mixed":  # nodes and features change places on the way into the cell
                h = self.update(total.transpose(1, 2).reshape(-1, h.shape[-1]), h.flatten(0, 1)).view_as(h)
            else:
                h = self.update(total.flatten(0, 1), h.flatten(0, 1)).view_as(h)
        return torch.as_tensor(self.out(_read(h, self.o["read"])))


@family(
    "mpnn",
    source="Gilmer et al. 2017, Neural message passing for quantum chemistry",
    draw=_draw_mpnn,
    structural={
        "no-skips": {"update": "replace"},
        "aggregation-sum": {"aggregate": "sum"},
        "adjacency-wrong": _adjacency_drawn,
        "wrong-reshape": {"update": "mixed"},
        "wrong-pooling": _pool_drawn,
    },
)
def mpnn(blueprint: Blueprint, task: Task) -> nn.Module:
    """Messages along edges and a recurrent update, the same in every round."""
    return _MPNN(blueprint, task)
