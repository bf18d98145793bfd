"""Graphs and sets of points: attention with the graph as a bias, initial residuals, coordinates that move."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._second import (
    ACTIVATION,
    ATTENTION,
    GELU,
    POOLING,
    RELU,
    SKIPS,
    USUAL,
    NormedBranch,
    PositionAttention,
    activation,
    feed_forward,
    layer_norm,
    pooled,
    second,
    sizes,
)
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task, graph

FAULTS: dict[str, str] = {
    "adjacency-wrong": "every node counts as a neighbour",
    "aggregation-sum": "neighbours or points are summed where their mean is meant",
    "coordinate-scale": "points move by far more than their distances",
    "distance-scale": "squared distances are far larger than features",
}


class _GraphAttention(PositionAttention):
    """All nodes attend to all; a number per head says how much neighbours count."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__(width, o)
        self.near = nn.Parameter(torch.full((self.heads, 1, 1), float(o["near"])))
        adjacency = torch.ones_like(graph()) if o.get("complete") else graph()
        self.register_buffer("adjacency", adjacency - 0.5, persistent=False)

    def bias(self, scores: Tensor) -> Tensor:
        return scores + self.near * self.get_buffer("adjacency")


class _Nodes(nn.Module):
    """Nodes or points in, blocks, an answer of their mean."""

    def __init__(self, blocks: list[nn.Module], width: int, task: Task, o: Options) -> None:
        super().__init__()
        self.embed, self.blocks, self.o = nn.Linear(task.shape[1], width), nn.Sequential(*blocks), o
        self.head = nn.Sequential(layer_norm(width, o), nn.Linear(width, width), nn.GELU())
        self.read = nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.read(pooled(self.head(self.blocks(self.embed(x))), self.o)))


@second(
    "graph-transformer",
    source="Dwivedi and Bresson 2021, A generalization of transformer networks to graphs; Ying et al. 2021, Graphormer",
    draw=sizes(("graph",), (16, 32, 48), (1, 2, 3), heads=(2, 4), near=(2.0, 4.0), activation=GELU),
    structural={**USUAL, **POOLING, "adjacency-wrong": {"complete": True}, **ATTENTION},
)
def graph_transformer(blueprint: Blueprint, task: Task) -> nn.Module:
    """Attention that knows who is a neighbour."""
    o, width, blocks = blueprint.options, blueprint.width, list[nn.Module]()
    for _ in range(blueprint.depth):
        blocks += [NormedBranch(width, _GraphAttention(width, o), o), NormedBranch(width, feed_forward(width, o), o)]
    return _Nodes(blocks, width, task, o)


@second(
    "gcnii",
    source="Chen et al. 2020, Simple and deep graph convolutional networks",
    draw=sizes(("graph",), (32, 64), (4, 8), alpha=(0.1, 0.3), strength=(0.5, 1.0), activation=RELU),
    structural={
        **ACTIVATION,
        **POOLING,
        "no-skips": lambda b, rng: b.changed(alpha=0.0, strength=30.0, depth=b.depth + 12),
        "residual-scale": drawn(strength=(300.0, 3000.0)),
        "aggregation-sum": lambda b, rng: b.changed(summed=True, depth=b.depth + 6),
    },
)
class _GCNII(nn.Module):
    """Diffusion that returns to the first features, and maps close to the identity."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        degree = graph().sum(dim=1)
        near = graph() if self.o.get("summed") else graph() / torch.sqrt(degree[:, None] * degree[None])
        self.register_buffer("near", near, persistent=False)
        self.embed, self.act = nn.Linear(task.shape[1], width), activation(self.o)
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(blueprint.depth))
        self.read = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, task.outputs))

    def forward(self, x: Tensor) -> Tensor:
        first = h = self.act(self.embed(x))
        for i, layer in enumerate(self.layers):
            mixed = (1 - self.o["alpha"]) * (self.get_buffer("near") @ h) + self.o["alpha"] * first
            beta = math.log(self.o["strength"] / (i + 1) + 1)
            h = self.act((1 - beta) * mixed + beta * layer(mixed))
        return torch.as_tensor(self.read(pooled(h, self.o)))


class _Moving(nn.Module):
    """Messages depend on squared distances; features and coordinates change."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o = o
        self.message = nn.Sequential(
            nn.Linear(2 * width + 1, width), activation(o), nn.Linear(width, width), activation(o)
        )
        self.push, self.update = nn.Linear(width, 1), nn.Sequential(nn.Linear(2 * width, width), activation(o))

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        points = h.shape[1]
        apart = x[:, :, None] - x[:, None]
        square = apart.square().sum(dim=-1, keepdim=True) * self.o.get("distance", 0.2)
        pairs = (h[:, :, None].expand(-1, -1, points, -1), h[:, None].expand(-1, points, -1, -1), square)
        m = self.message(torch.cat(pairs, dim=-1))
        x = x + self.o["push"] * (apart * self.push(m)).mean(dim=2)
        total = m.sum(dim=2) if self.o.get("summed") else m.mean(dim=2)
        return self.o.get("skip", 1.0) * h + self.update(torch.cat([h, total], dim=-1)), x


@second(
    "egnn",
    source="Satorras et al. 2021, E(n) equivariant graph neural networks",
    draw=sizes(("cloud",), (12, 16, 24), (1, 2), push=(0.1, 1.0), activation=RELU),
    structural={
        **SKIPS,
        **ACTIVATION,
        **POOLING,
        "coordinate-scale": drawn(push=(30.0, 300.0)),
        "distance-scale": drawn(distance=(30.0, 1000.0)),
        "aggregation-sum": {"summed": True},
    },
)
class _EGNN(nn.Module):
    """Points that send messages and move."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        self.embed = nn.Linear(task.shape[1], width)
        self.layers = nn.ModuleList(_Moving(width, self.o) for _ in range(blueprint.depth))
        # The extent along axes depends on orientation, so that coordinates are read as well.
        self.read = nn.Sequential(nn.Linear(width + task.shape[1], width), nn.SiLU())
        self.head = nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        for layer in self.layers:
            h, x = layer(h, x)
        return torch.as_tensor(self.head(pooled(self.read(torch.cat([h, x], dim=-1)), self.o)))


class _VectorAttention(nn.Module):
    """A weight per feature, from differences of keys and queries and of places."""

    def __init__(self, width: int, o: Options, dimensions: int) -> None:
        super().__init__()
        self.o = o
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.place = nn.Sequential(nn.Linear(dimensions, width), activation(o), nn.Linear(width, width))
        self.weigh = nn.Sequential(nn.Linear(width, width), activation(o), nn.Linear(width, width))

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        where = self.place(x[:, :, None] - x[:, None])
        if self.o.get("places") == "none":
            where = torch.zeros_like(where)
        scores = self.weigh(self.q(h)[:, :, None] - self.k(h)[:, None] + where) * self.o.get("score", 1.0)
        weight = scores.softmax(dim=self.o.get("axis", 2))
        return torch.as_tensor((weight * (self.v(h)[:, None] + where)).sum(dim=2))


@second(
    "point-transformer",
    source="Zhao et al. 2021, Point transformer",
    draw=sizes(("cloud",), (12, 16, 24), (1, 2), activation=GELU, norm=(True, False)),
    structural={
        **SKIPS,
        **ACTIVATION,
        **POOLING,
        "no-positions": {"places": "none"},
        "wrong-axis": {"axis": 0},
        "score-scale": drawn(score=(30.0, 100.0)),
    },
)
class _PointTransformer(nn.Module):
    """Vector attention over a set of points."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        self.embed = nn.Sequential(nn.Linear(task.shape[1], width), nn.ReLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(_VectorAttention(width, self.o, task.shape[1]) for _ in range(blueprint.depth))
        self.norms = nn.ModuleList(layer_norm(width, self.o) for _ in range(blueprint.depth))
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, task.outputs))

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            h = self.o.get("skip", 1.0) * h + layer(norm(h), x)
        return torch.as_tensor(self.head(pooled(h, self.o)))
