"""Graphs by polynomials of the Laplacian, neighbours summarised in several ways, and pairs of objects."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._second import (
    ACTIVATION,
    GELU,
    POOLING,
    RELU,
    USUAL,
    NormedBranch,
    activation,
    layer_norm,
    pooled,
    sizes,
)
from isometer.trial._families._third import third
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task, graph

FAULTS: dict[str, str] = {
    "laplacian-unscaled": "eigenvalues lie beyond the interval of the polynomials, which grow with their order",
    "order-missing": "only the polynomial of order zero is left, which sees no neighbour",
    "adjacency-wrong": "every node counts as a neighbour",
    "aggregation-sum": "neighbours or pairs are summed where their mean is meant",
    "scaler-wrong": "the scalers of degrees are far from one",
    "pairs-alone": "every object is paired with itself",
}


class _Nodes(nn.Module):
    """Nodes in, blocks, an answer of their mean."""

    def __init__(self, blocks: list[nn.Module], width: int, task: Task, o: Options) -> None:
        super().__init__()
        self.embed, self.blocks, self.o = nn.Linear(task.shape[1], width), nn.Sequential(*blocks), o
        self.last = nn.Sequential(layer_norm(width, o), nn.Linear(width, width), nn.GELU())
        self.head = nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.head(pooled(self.last(self.blocks(self.embed(x))), self.o)))


def _neighbours(o: Options) -> Tensor:
    """Adjacency without self-loops."""
    adjacency = torch.ones_like(graph()) if o.get("complete") else graph()
    return adjacency - torch.diag(torch.diag(adjacency))


class _Chebyshev(nn.Module):
    """A layer for every Chebyshev polynomial of the scaled Laplacian."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        adjacency = _neighbours(o)
        degree = adjacency.sum(dim=1)
        scaled = -adjacency / (degree[:, None] * degree[None, :]).sqrt()  # the Laplacian less one: within -1 and 1
        if o.get("unscaled"):
            scaled = torch.diag(degree) - adjacency
        self.register_buffer("laplacian", scaled, persistent=False)
        self.order, self.act = o["order"], activation(o)
        self.mix, self.out = nn.Linear(self.order * width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        laplacian, parts = self.get_buffer("laplacian"), [x]
        for order in range(1, self.order):
            parts.append(2 * laplacian @ parts[-1] - parts[-2] if order > 1 else laplacian @ x)
        return torch.as_tensor(self.out(self.act(self.mix(torch.cat(parts, dim=-1)))))


@third(
    "chebyshev-graph",
    source="Defferrard et al. 2016, Convolutional neural networks on graphs with fast localized spectral filtering",
    draw=sizes(("graph",), (24, 32, 48), (1, 2, 3), order=(2, 3, 4), activation=RELU),
    structural={
        **USUAL,
        **POOLING,
        "laplacian-unscaled": drawn(unscaled=(True,), order=(4, 6)),
        "order-missing": {"order": 1},
        "adjacency-wrong": {"complete": True},
    },
)
def chebyshev_graph(blueprint: Blueprint, task: Task) -> nn.Module:
    """Residual layers of spectral filters."""
    o, width = blueprint.options, blueprint.width
    return _Nodes([NormedBranch(width, _Chebyshev(width, o), o) for _ in range(blueprint.depth)], width, task, o)


class _Principal(nn.Module):
    """Mean, largest, smallest and deviation of the neighbours, each also scaled by the degree and against it."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        adjacency = _neighbours(o)
        degree = adjacency.sum(dim=1)
        scaler = (degree + 1).log() / (degree + 1).log().mean() * o.get("scaler", 1.0)
        share = adjacency if o.get("summed") else adjacency / degree[:, None]
        self.register_buffer("share", share, persistent=False)
        self.register_buffer("hidden", (adjacency == 0)[..., None], persistent=False)
        self.register_buffer("scaler", scaler[:, None], persistent=False)
        self.pre, self.act = nn.Linear(width, width), activation(o)
        self.post, self.out = nn.Linear(13 * width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        h, share, hidden = self.pre(x), self.get_buffer("share"), self.get_buffer("hidden")
        mean, others = share @ h, h[:, None].expand(-1, h.shape[1], -1, -1)
        deviation = ((share @ h.square() - mean.square()).relu() + 1e-3).sqrt()
        largest, smallest = others.masked_fill(hidden, -1e4).amax(dim=2), others.masked_fill(hidden, 1e4).amin(dim=2)
        several, scaler = torch.cat([mean, largest, smallest, deviation], dim=-1), self.get_buffer("scaler")
        read = self.post(torch.cat([x, several, several * scaler, several / scaler], dim=-1))
        return torch.as_tensor(self.out(self.act(read)))


@third(
    "principal-neighbourhood",
    source="Corso et al. 2020, Principal neighbourhood aggregation for graph nets",
    draw=sizes(("graph",), (16, 24, 32), (1, 2), batches=(16,), activation=RELU),
    structural={
        **USUAL,
        **POOLING,
        "scaler-wrong": drawn(scaler=(1e-3, 300.0)),
        "aggregation-sum": {"summed": True},
        "adjacency-wrong": {"complete": True},
    },
)
def principal_neighbourhood(blueprint: Blueprint, task: Task) -> nn.Module:
    """Residual layers that summarise neighbours in twelve ways."""
    o, width = blueprint.options, blueprint.width
    return _Nodes([NormedBranch(width, _Principal(width, o), o) for _ in range(blueprint.depth)], width, task, o)


@third(
    "relation-network",
    source="Santoro et al. 2017, A simple neural network module for relational reasoning",
    draw=sizes(("cloud", "graph"), (16, 24, 32), (1, 2), batches=(16,), activation=GELU),
    structural={
        **ACTIVATION,
        "aggregation-sum": {"summed": True},
        "pairs-alone": {"alone": True},
        "bottleneck": {"relations": 1},
        "wrong-pooling": {"pool": "batch"},
    },
)
class _Relations(nn.Module):
    """All pairs of objects are looked at by one network; another reads the mean of what it said."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        relations = self.o.get("relations", width)
        self.first, self.other = nn.Linear(task.shape[1], width), nn.Linear(task.shape[1], width, bias=False)
        layers: list[nn.Module] = [activation(self.o)]
        for i in range(blueprint.depth):
            layers += [nn.Linear(width, relations if i == blueprint.depth - 1 else width), activation(self.o)]
        self.pairs = nn.Sequential(*layers)
        self.read = nn.Sequential(nn.Linear(relations, width), activation(self.o), nn.Linear(width, task.outputs))

    def forward(self, x: Tensor) -> Tensor:
        first, other = self.first(x), self.other(x)
        both = first + other if self.o.get("alone") else (first[:, :, None] + other[:, None]).flatten(1, 2)
        said = self.pairs(both)
        return torch.as_tensor(self.read(said.sum(dim=1) if self.o.get("summed") else pooled(said, self.o)))
