"""Pictures by other means: capsules, reversible blocks, rotated filters, maxout and shifts."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isometer.trial._families._draws import drawn
from isometer.trial._families._second import (
    ACTIVATION,
    GELU,
    IMAGES,
    NORM,
    POOLING,
    RELU,
    USUAL,
    NormedBranch,
    activation,
    batch_norm,
    feed_forward,
    pooled,
    second,
    sizes,
)
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "squash-missing": "capsules keep their length",
    "vote-scale": "votes are so small that squashing makes them vanish, or so large that all have length one",
    "halves-not-exchanged": "both halves of a reversible block read the same half, so that they never meet",
    "rotation-missing": "the four filters of a group are the same",
    "shift-missing": "no layer moves anything between places",
}


@second(
    "capsule-net",
    source="Sabour et al. 2017, Dynamic routing between capsules",
    draw=sizes(IMAGES, (16, 24, 32), (1, 2), routing=(1, 2, 3), capsule=(4, 8)),
    structural={
        "squash-missing": {"squash": False},
        "vote-scale": drawn(vote=(1e-3, 30.0)),
        "wrong-axis": {"axis": 0},
        "bottleneck": {"capsule": 1},
    },
)
class _Capsules(nn.Module):
    """Primary capsules vote for class capsules; agreement decides the routing."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, self.size = blueprint.options, blueprint.options["capsule"]
        width = blueprint.width
        layers: list[nn.Module] = [nn.Conv2d(task.shape[0], width, 5, stride=2), nn.ReLU()]
        for _ in range(blueprint.depth - 1):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        self.conv = nn.Sequential(*layers)
        self.primary = nn.Conv2d(width, 4 * self.size, 3, stride=2)
        side = ((task.shape[1] - 5) // 2 + 1 - 3) // 2 + 1
        gain = self.o.get("vote", 1.0) / self.size**0.5
        self.votes = nn.Parameter(gain * torch.randn(4 * side**2, task.outputs, self.size, self.size))
        self.scale = nn.Parameter(torch.tensor(8.0))

    def squash(self, s: Tensor) -> Tensor:
        if self.o.get("squash", True):
            length = s.norm(dim=-1, keepdim=True)
            s = s * length / (1 + length**2)
        return s

    def forward(self, x: Tensor) -> Tensor:
        u = self.primary(self.conv(x)).unflatten(1, (4, self.size)).permute(0, 1, 3, 4, 2).flatten(1, 3)
        votes = torch.einsum("pcde,npe->npcd", self.votes, self.squash(u))
        logits = torch.zeros_like(votes[..., 0])
        for _ in range(self.o["routing"]):
            coupling = logits.softmax(dim=self.o.get("axis", 2))
            v = self.squash((coupling[..., None] * votes).sum(dim=1))
            logits = logits + (votes * v[:, None]).sum(dim=-1)
        return self.scale * (v.square().sum(dim=-1) + 1e-8).sqrt()


class _Coupling(nn.Module):
    def __init__(self, half: int, o: Options) -> None:
        super().__init__()
        self.o = o
        self.f, self.g = (
            nn.Sequential(batch_norm(half, o), activation(o), nn.Conv2d(half, half, 3, padding=1)) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=1)
        skip, apart = self.o.get("skip", 1.0), self.o.get("apart", False)
        a = skip * a + self.f(a if apart else b)
        b = skip * b + self.g(b if apart else a)
        return torch.cat([a, b], dim=1)


@second(
    "revnet",
    source="Gomez et al. 2017, The reversible residual network; Jacobsen et al. 2018, i-RevNet",
    draw=sizes(IMAGES, (16, 24, 32), (1, 2, 3), down=("pool", "fold"), activation=RELU),
    structural={**USUAL, "halves-not-exchanged": {"apart": True}},
)
def revnet(blueprint: Blueprint, task: Task) -> nn.Module:
    """Two halves that change each other in turn; resolution goes by pooling or into channels."""
    o, width = blueprint.options, blueprint.width
    fold = o["down"] == "fold"
    stem = nn.Conv2d(task.shape[0], width // 4 if fold else width, 3, padding=1)
    down: nn.Module = nn.PixelUnshuffle(2) if fold else nn.AvgPool2d(2)
    blocks = [_Coupling(width // 2, o) for _ in range(blueprint.depth)]
    tail = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, task.outputs)]
    return nn.Sequential(stem, down, *blocks, batch_norm(width, o), nn.ReLU(), *tail)


class _RotatedConv(nn.Module):
    """A convolution over the group of quarter turns: the filter, turned, with its orientations moved on."""

    def __init__(self, before: int, after: int, o: Options, *, lifting: bool = False) -> None:
        super().__init__()
        self.o, self.lifting = o, lifting
        self.weight = nn.Parameter(torch.empty(after, before, 1 if lifting else 4, 3, 3))
        nn.init.kaiming_normal_(self.weight)

    def forward(self, x: Tensor) -> Tensor:  # (n, c, 4, h, w), or (n, c, 1, h, w) where lifting
        turned = []
        for k in range(4):
            w = self.weight if self.o.get("same") else self.weight.rot90(k, (3, 4))
            turned.append(w if self.lifting or self.o.get("same") else w.roll(k, 2))
        kernel = torch.stack(turned, dim=1).flatten(0, 1).flatten(1, 2)  # (after · 4, before · 4, 3, 3)
        return torch.unflatten(F.conv2d(x.flatten(1, 2), kernel, padding=1), 1, (-1, 4))


@second(
    "group-equivariant-cnn",
    source="Cohen and Welling 2016, Group equivariant convolutional networks",
    draw=sizes(("mnist", "fashion-mnist"), (6, 8, 12), (1, 2), invariant=(True, False), activation=RELU),
    structural={**NORM, **ACTIVATION, **POOLING, "rotation-missing": {"same": True}},
)
class _Equivariant(nn.Module):
    """Filters in four orientations."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        self.lift = _RotatedConv(task.shape[0], width, self.o, lifting=True)
        self.convs = nn.ModuleList(_RotatedConv(width, width, self.o) for _ in range(blueprint.depth))
        norm = nn.BatchNorm3d if self.o.get("norm", True) else nn.Identity
        norms = (norm(width) for _ in range(blueprint.depth + 1))
        self.norms, self.act = nn.ModuleList(norms), activation(self.o)
        self.head = nn.Linear(width * (1 if self.o["invariant"] else 4), task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = F.avg_pool3d(self.act(self.norms[0](self.lift(x[:, :, None]))), (1, 2, 2))
        for conv, norm in zip(self.convs, self.norms[1:], strict=True):
            h = self.act(norm(conv(h)))
        h = h.amax(dim=2) if self.o["invariant"] else h.flatten(1, 2)
        return torch.as_tensor(self.head(pooled(h.flatten(2).mT, self.o)))


class _Maxout(nn.Module):
    def __init__(self, before: int, after: int, kernel: int, o: Options) -> None:
        super().__init__()
        self.pieces, self.average = o["pieces"], o.get("average", False)
        self.conv = nn.Conv2d(before, after * self.pieces, kernel, padding=kernel // 2)
        nn.init.kaiming_normal_(self.conv.weight, nonlinearity="linear")

    def forward(self, x: Tensor) -> Tensor:
        several = self.conv(x).unflatten(1, (-1, self.pieces))
        return torch.as_tensor(several.mean(dim=2) if self.average else several.amax(dim=2))


@second(
    "maxout-in-network",
    source="Lin et al. 2014, Network in network; Goodfellow et al. 2013, Maxout networks",
    draw=sizes(IMAGES, (12, 16, 24), (1, 2), pieces=(2, 3), dropout=(0.0, 0.2), kernel=(3, 5)),
    structural={
        "no-activation": {"average": True},
        "dropout-high": drawn(dropout=(0.9, 0.97)),
        "bottleneck": drawn(inner=(1, 2)),
    },
)
def maxout_in_network(blueprint: Blueprint, task: Task) -> nn.Module:
    """The largest of several linear maps, place by place; classes are averaged over places."""
    o, width = blueprint.options, blueprint.width
    layers: list[nn.Module] = []
    for before in (task.shape[0], *[width] * (blueprint.depth - 1)):
        inner = o.get("inner", width)
        layers += [_Maxout(before, inner, o["kernel"], o), _Maxout(inner, width, 1, o)]
        layers += [nn.MaxPool2d(2), nn.Dropout(o["dropout"])]
    return nn.Sequential(*layers, nn.Conv2d(width, task.outputs, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class _Shifted(nn.Module):
    """A quarter of the channels moves by a place in each direction between two layers."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.act, self.still = activation(o), o.get("still", False)

    def forward(self, x: Tensor) -> Tensor:  # (n, rows, columns, width)
        h = self.act(self.before(x))
        if not self.still:
            up, down, left, right = h.chunk(4, dim=-1)
            h = torch.cat([up.roll(1, 1), down.roll(-1, 1), left.roll(1, 2), right.roll(-1, 2)], dim=-1)
        return torch.as_tensor(self.after(h))


@second(
    "shift-mlp",
    source="Yu et al. 2022, S2-MLP; Lian et al. 2022, AS-MLP",
    draw=sizes(IMAGES, (16, 24, 32), (1, 2, 3), activation=GELU),
    structural={**USUAL, **POOLING, "shift-missing": {"still": True}},
)
class _ShiftNet(nn.Module):
    """Perceptrons at every place, and shifts between them."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        self.patches = nn.Conv2d(task.shape[0], width, 2, stride=2)
        blocks = []
        for _ in range(blueprint.depth):
            blocks += [NormedBranch(width, _Shifted(width, self.o), self.o)]
            blocks += [NormedBranch(width, feed_forward(width, self.o), self.o)]
        self.blocks, self.norm = nn.Sequential(*blocks), nn.LayerNorm(width)
        self.head = nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.blocks(self.patches(x).permute(0, 2, 3, 1)))
        return torch.as_tensor(self.head(pooled(h.flatten(1, 2), self.o)))
