"""Graphs with gates on their edges, clouds seen through kernel points, sets read in several orders."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._fourth import fourth
from isometer.trial._families._second import (
    ACTIVATION,
    POOLING,
    RELU,
    USUAL,
    activation,
    layer_norm,
    pooled,
    sizes,
)
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task, graph

FAULTS: dict[str, str] = {
    "adjacency-wrong": "every node counts as a neighbour, or none but the node itself",
    "normaliser-missing": "gates are not divided by their sum, and are far larger than one",
    "radius": "kernel points reach far less or far more than to the next points",
    "centres-tied": "all kernel points lie in the centre",
    "centres-away": "all kernel points lie beyond the cloud",
    "recurrent-scale": "the recurrent weights are far too large",
}


class _GatedLayer(nn.Module):
    """Nodes add what their neighbours say, weighted by gates; gates are made of nodes and edges, and edges go on."""

    def __init__(self, width: int, o: Options, *, last: bool) -> None:
        super().__init__()
        self.o, self.skip = o, o.get("skip", 1.0)
        self.own, self.other, self.here, self.there, self.edge = (nn.Linear(width, width) for _ in range(5))
        self.norm, self.act = layer_norm(width, o), activation(o)
        self.edge_norm = None if last else layer_norm(width, o)
        adjacency = {"all": torch.ones_like(graph()), "self": torch.eye(len(graph()))}.get(
            o.get("adjacency", ""), graph()
        )
        self.register_buffer("adjacency", adjacency[..., None], persistent=False)

    def forward(self, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        made = self.here(nodes)[:, :, None] + self.there(nodes)[:, None] + self.edge(edges)
        gates = made.sigmoid() * self.get_buffer("adjacency")
        gates = self.o["gates"] * gates if "gates" in self.o else gates / (gates.sum(dim=2, keepdim=True) + 1e-6)
        said = self.own(nodes) + (gates * self.other(nodes)[:, None]).sum(dim=2)
        nodes = self.skip * nodes + self.act(self.norm(said))
        if self.edge_norm is not None:
            edges = self.skip * edges + self.act(self.edge_norm(made))
        return nodes, edges


@fourth(
    "gated-graph",
    source="Bresson and Laurent 2018, Residual gated graph ConvNets; Dwivedi et al. 2023, Benchmarking graph networks",
    draw=sizes(("graph",), (16, 24, 32), (1, 2, 3), batches=(16,), activation=RELU),
    structural={
        **USUAL,
        **POOLING,
        "adjacency-wrong": drawn(adjacency=("all", "self")),
        "normaliser-missing": drawn(gates=(30.0, 100.0), norm=(False,)),
    },
)
class _GatedGraph(nn.Module):
    """Residual layers over nodes and edges; the mean of the nodes answers through two layers."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width, depth = blueprint.options, blueprint.width, blueprint.depth
        self.enter, self.edges = nn.Linear(task.shape[1], width), nn.Parameter(torch.randn(width))
        self.layers = nn.ModuleList(_GatedLayer(width, self.o, last=i == depth - 1) for i in range(depth))
        self.every = nn.Sequential(nn.Linear(width, width), activation(self.o))
        self.head = nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        nodes, edges = self.enter(x), self.edges.expand(len(x), x.shape[1], x.shape[1], -1)
        for layer in self.layers:
            nodes, edges = layer(nodes, edges)
        return torch.as_tensor(self.head(pooled(self.every(nodes), self.o)))


def kernel_points(number: int, radius: float) -> Tensor:
    """One point in the centre and the others spread evenly over a sphere, along a spiral.

    Example:
        >>> kernel_points(7, 2.0).norm(dim=1).tolist()[:2]
        [0.0, 2.0]
    """
    place = torch.arange(number - 1.0)
    height = 1 - 2 * (place + 0.5) / (number - 1)
    angle, across = math.pi * (3 - math.sqrt(5)) * place, (1 - height.square()).sqrt()
    sphere = torch.stack([across * angle.cos(), across * angle.sin(), height], dim=1)
    return torch.cat([torch.zeros(1, 3), radius * (sphere / sphere.norm(dim=1, keepdim=True))])


class _KernelPoints(nn.Module):
    """A layer of weights per kernel point; a neighbour counts the more, the nearer it is to the kernel point."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        number, self.reach = o["points"], o.get("reach", 1.0) * o["radius"]
        points = kernel_points(number, o["radius"] * o.get("spread", 1.0)) + o.get("offset", 0.0)
        self.register_buffer("points", points, persistent=False)
        self.weight = nn.Parameter(torch.empty(number * width, width))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5), mode="fan_out")
        self.act, self.out = activation(o), nn.Linear(width, width)

    def influence(self, places: Tensor) -> Tensor:
        """Of every point on every other by way of each kernel point, `(samples, to, kernel point, from)`."""
        offsets = places[:, None] - places[:, :, None]
        apart = offsets[:, :, None] - self.get_buffer("points")[:, None]
        return torch.as_tensor((1 - (apart.square().sum(dim=-1) + 1e-12).sqrt() / self.reach).relu())

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        seen = torch.einsum("npkm,nmc->npkc", self.influence(places), x).flatten(2)
        return torch.as_tensor(self.out(self.act(seen @ self.weight)))


@fourth(
    "kernel-points",
    source="Thomas et al. 2019, KPConv: flexible and deformable convolution for point clouds",
    draw=sizes(("cloud",), (16, 24, 32), (1, 2), batches=(16,), points=(7, 9), radius=(0.8, 1.2), activation=RELU),
    structural={
        **USUAL,
        **POOLING,
        "radius": drawn(reach=(0.02, 100.0)),
        "centres-tied": {"spread": 0.0},
        "centres-away": drawn(offset=(10.0, 30.0)),
    },
)
class _KernelPointNet(nn.Module):
    """Residual convolutions over a cloud; every point begins with its coordinates."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        self.enter = nn.Sequential(nn.Linear(task.shape[1], width), activation(self.o))
        self.norms = nn.ModuleList(layer_norm(width, self.o) for _ in range(blueprint.depth))
        self.layers = nn.ModuleList(_KernelPoints(width, self.o) for _ in range(blueprint.depth))
        self.last = nn.Sequential(layer_norm(width, self.o), nn.Linear(width, width), activation(self.o))
        self.head = nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        h, skip = self.enter(x), self.o.get("skip", 1.0)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            h = layer(norm(h), x) + skip * h
        return torch.as_tensor(self.head(pooled(self.last(h), self.o)))


class _Ordered(nn.Module):
    """A gated recurrence over a sequence, whose last state counts."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.enter, self.cell = (
            nn.Sequential(nn.Linear(width, width), activation(o)),
            nn.GRU(width, width, batch_first=True),
        )
        with torch.no_grad():
            self.cell.get_parameter("weight_hh_l0").mul_(o.get("recurrent", 1.0))
        self.place = 0 if o.get("end") == "first" else -1

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.cell(self.enter(x))[0][:, self.place])


@fourth(
    "janossy-pooling",
    source="Murphy et al. 2019, Janossy pooling: learning deep permutation-invariant functions",
    draw=sizes(("cloud",), (16, 24, 32), (1, 2), batches=(16,), orders=(2, 3), activation=RELU),
    structural={
        **ACTIVATION,
        "wrong-pooling": drawn(pool=("sum", "batch")),
        "recurrent-scale": drawn(recurrent=(30.0, 100.0)),
        "time-reversed": {"end": "first"},
        "bottleneck": {"inner": 1},
    },
)
class _Janossy(nn.Module):
    """A function of sequences is applied to a set in several orders; layers read the mean of what it said."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        orders = torch.stack([torch.randperm(task.shape[0]) for _ in range(self.o["orders"] - 1)])
        self.register_buffer("orders", torch.cat([torch.arange(task.shape[0])[None], orders]))
        self.enter, self.ordered = nn.Linear(task.shape[1], width), _Ordered(width, self.o)
        layers, before = list[nn.Module](), width
        for i in range(blueprint.depth):
            after = self.o.get("inner", width) if i == 0 else width
            layers += [nn.Linear(before, after), activation(self.o)]
            before = after
        self.read = nn.Sequential(*layers, nn.Linear(width if blueprint.depth > 1 else before, task.outputs))

    def forward(self, x: Tensor) -> Tensor:
        orders = self.get_buffer("orders")
        several = self.enter(x)[:, orders].flatten(0, 1)  # (samples × orders, points, features)
        said = self.ordered(several).unflatten(0, (len(x), len(orders)))
        return torch.as_tensor(self.read(pooled(said, self.o)))
