"""Convolutional networks whose layers are groups or branches side by side."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._second import (
    ACTIVATION,
    IMAGES,
    NORM,
    RELU,
    USUAL,
    activation,
    batch_norm,
    second,
    sizes,
)
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "shuffle-missing": "channels stay in their group",
    "cheap-detached": "the cheap half of the features gets no gradient",
    "branch-detached": "all branches but one get no gradient",
    "stride-too-large": "the stem shrinks the picture to a few pixels",
}
_STRIDE: Options = {"stride-too-large": {"stride": 6}}


def _conv(before: int, after: int, size: int, o: Options, *, groups: int = 1, act: bool = True) -> nn.Sequential:
    """A convolution with its norm and nonlinearity."""
    bare = not o.get("norm", True)
    layers = [nn.Conv2d(before, after, size, padding=size // 2, groups=groups, bias=bare), batch_norm(after, o)]
    return nn.Sequential(*layers, *([activation(o)] if act else []))


def _network(blueprint: Blueprint, task: Task, blocks: list[nn.Module], features: int) -> nn.Module:
    o, width = blueprint.options, blueprint.width
    stem = nn.Conv2d(task.shape[0], width, 3, stride=o.get("stride", 2), padding=1)
    return nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, task.outputs))


class _ShuffleUnit(nn.Module):
    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o, self.groups = o, o["groups"]
        self.reduce = _conv(width, width // 2, 1, o, groups=self.groups)
        self.spread = _conv(width // 2, width // 2, 3, o, groups=width // 2, act=False)
        self.expand = _conv(width // 2, width, 1, o, groups=self.groups, act=False)
        self.act = activation(o)

    def forward(self, x: Tensor) -> Tensor:
        y = self.reduce(x)
        if self.o.get("shuffle", True):
            y = y.unflatten(1, (self.groups, -1)).transpose(1, 2).flatten(1, 2)
        y = self.expand(self.spread(y))
        return torch.as_tensor(self.act(y + self.o.get("skip", 1.0) * x))


@second(
    "shufflenet",
    source="Zhang et al. 2018, ShuffleNet",
    draw=sizes(IMAGES, (16, 32, 48), (1, 2, 3), groups=(2, 4), activation=RELU),
    structural={**USUAL, **_STRIDE, "shuffle-missing": {"shuffle": False}, "groups-wrong": {"groups": 8}},
)
def shufflenet(blueprint: Blueprint, task: Task) -> nn.Module:
    """Grouped convolutions with channels exchanged between groups."""
    blocks: list[nn.Module] = [_ShuffleUnit(blueprint.width, blueprint.options) for _ in range(blueprint.depth)]
    return _network(blueprint, task, blocks, blueprint.width)


class _Inception(nn.Module):
    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        part, inner = width // 4, o["reduce"]
        self.o = o
        self.one = _conv(width, part, 1, o)
        self.three = nn.Sequential(_conv(width, inner, 1, o), _conv(inner, part, 3, o))
        self.five = nn.Sequential(_conv(width, inner, 1, o), _conv(inner, part, 3, o), _conv(part, part, 3, o))
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), _conv(width, part, 1, o))

    def forward(self, x: Tensor) -> Tensor:
        several = [self.one(x), self.three(x), self.five(x), self.pool(x)]
        if self.o.get("detached"):
            several = [several[0], *(one.detach() for one in several[1:])]
        if self.o.get("summed"):
            return torch.cat([sum(several[1:], several[0])] * 4, dim=1)
        return torch.cat(several, dim=1)


@second(
    "inception",
    source="Szegedy et al. 2015, Going deeper with convolutions; Ioffe and Szegedy 2015",
    draw=sizes(IMAGES, (16, 24, 32), (1, 2), reduce=(4, 8), activation=RELU),
    structural={
        **NORM,
        **ACTIVATION,
        **_STRIDE,
        "branch-detached": {"detached": True},
        "branches-summed": {"summed": True},
        "bottleneck": {"reduce": 1},
    },
)
def inception(blueprint: Blueprint, task: Task) -> nn.Module:
    """Kernels of several sizes side by side."""
    blocks: list[nn.Module] = [_Inception(blueprint.width, blueprint.options) for _ in range(blueprint.depth)]
    return _network(blueprint, task, blocks, blueprint.width)


class _Ghost(nn.Module):
    def __init__(self, before: int, after: int, o: Options, act: bool) -> None:
        super().__init__()
        self.primary = _conv(before, after // 2, 1, o, act=act)
        self.cheap = _conv(after // 2, after // 2, o["kernel"], o, groups=after // 2, act=act)
        self.detached = o.get("detached", False)

    def forward(self, x: Tensor) -> Tensor:
        intrinsic = self.primary(x)
        ghosts = self.cheap(intrinsic)
        return torch.cat([intrinsic, ghosts.detach() if self.detached else ghosts], dim=1)


class _GhostBlock(nn.Module):
    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.expand, self.project = (
            _Ghost(width, o["expand"] * width, o, True),
            _Ghost(o["expand"] * width, width, o, False),
        )
        self.skip = o.get("skip", 1.0)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.project(self.expand(x)) + self.skip * x)


@second(
    "ghostnet",
    source="Han et al. 2020, GhostNet",
    draw=sizes(IMAGES, (8, 16, 24), (1, 2, 3), expand=(2, 3), kernel=(3, 5), activation=RELU),
    structural={**USUAL, **_STRIDE, "cheap-detached": {"detached": True}},
)
def ghostnet(blueprint: Blueprint, task: Task) -> nn.Module:
    """Half of the features by cheap maps of the other half."""
    blocks: list[nn.Module] = [_GhostBlock(blueprint.width, blueprint.options) for _ in range(blueprint.depth)]
    return _network(blueprint, task, blocks, blueprint.width)


class _Fire(nn.Module):
    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        inner = o["squeeze"]
        self.squeeze = nn.Conv2d(width, inner, 1)
        self.expand1, self.expand3 = nn.Conv2d(inner, width // 2, 1), nn.Conv2d(inner, width // 2, 3, padding=1)
        self.act, self.o = activation(o), o
        for layer in (self.squeeze, self.expand1, self.expand3):
            nn.init.kaiming_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        s = self.act(self.squeeze(x))
        y = self.act(torch.cat([self.expand1(s), self.expand3(s)], dim=1))
        return torch.as_tensor(y + self.o.get("skip", 1.0) * x if self.o["bypass"] else y)


@second(
    "squeezenet",
    source="Iandola et al. 2016, SqueezeNet",
    draw=sizes(IMAGES, (16, 24, 32), (1, 2, 3), squeeze=(8, 12), bypass=(True, False), activation=RELU),
    structural={
        **ACTIVATION,
        **_STRIDE,
        "skip-scaled": drawn(skip=(3.0, 5.0), bypass=(True,)),
        "bottleneck": {"squeeze": 1},
    },
)
def squeezenet(blueprint: Blueprint, task: Task) -> nn.Module:
    """Narrow layers followed by wide ones of two kernels, with bypasses or without."""
    blocks: list[nn.Module] = [_Fire(blueprint.width, blueprint.options) for _ in range(blueprint.depth)]
    return _network(blueprint, task, blocks, blueprint.width)
