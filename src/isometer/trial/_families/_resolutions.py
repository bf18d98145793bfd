"""Pictures: streams of several resolutions, kernels of several sizes to choose from, products of two networks."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isometer.trial._families._draws import drawn
from isometer.trial._families._fourth import fourth
from isometer.trial._families._second import (
    ACTIVATION,
    IMAGES,
    NORM,
    POOLING,
    RELU,
    USUAL,
    activation,
    batch_norm,
    pooled,
    sizes,
)
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "streams-apart": "streams of different resolution never exchange what they know",
    "root-missing": "products of features stay squares, whatever their size",
    "temperature": "the choice among kernels is so sharp that it has no gradient",
}


def _conv(
    before: int, after: int, o: Options, *, stride: int = 1, dilation: int = 1, act: bool = True
) -> nn.Sequential:
    """A convolution, its norm, and its activation where there is one."""
    layer = nn.Conv2d(before, after, 3, stride=stride, padding=dilation, dilation=dilation)
    return nn.Sequential(layer, batch_norm(after, o), *([activation(o)] if act else []))


class _Basic(nn.Module):
    """Two convolutions and the skip around them, then an activation."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.branch = nn.Sequential(_conv(width, width, o), _conv(width, width, o, act=False))
        self.act, self.skip = activation(o), o.get("skip", 1.0)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.branch(x)
        return torch.as_tensor(self.act(y + self.skip * x if self.skip else y))


class _Exchange(nn.Module):
    """A block per stream; then each adds what the other knows, brought to its own resolution."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.fine, self.coarse = _Basic(width, o), _Basic(2 * width, o)
        self.down = _conv(width, 2 * width, o, stride=2, act=False)
        self.up = nn.Sequential(nn.Conv2d(2 * width, width, 1), batch_norm(width, o))
        self.act, self.apart = activation(o), o.get("apart")

    def forward(self, streams: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        fine, coarse = self.fine(streams[0]), self.coarse(streams[1])
        if self.apart:
            return fine, coarse
        up = F.interpolate(self.up(coarse), size=fine.shape[-2:])
        return self.act(fine + up), self.act(coarse + self.down(fine))


@fourth(
    "high-resolution-net",
    source="Sun et al. 2019, Deep high-resolution representation learning for human pose estimation; Wang et al. 2020",
    draw=sizes(IMAGES, (8, 12, 16), (1, 2), batches=(16,), activation=RELU),
    structural={**USUAL, **POOLING, "stride-too-large": {"stride": 7}, "streams-apart": {"apart": True}},
)
class _HighResolution(nn.Module):
    """A fine and a coarse stream side by side; both are read by the answer."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        self.stem = _conv(task.shape[0], width, self.o, stride=self.o.get("stride", 2))
        self.split = _conv(width, 2 * width, self.o, stride=2)
        self.stages = nn.ModuleList(_Exchange(width, self.o) for _ in range(blueprint.depth))
        self.join = nn.Sequential(nn.Conv2d(3 * width, 2 * width, 1), batch_norm(2 * width, self.o), activation(self.o))
        self.head = nn.Linear(2 * width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.stem(x)
        coarse = self.split(fine)
        for stage in self.stages:
            fine, coarse = stage((fine, coarse))
        both = torch.cat([fine, F.interpolate(coarse, size=fine.shape[-2:])], dim=1)
        return torch.as_tensor(self.head(pooled(self.join(both).flatten(2).mT, self.o)))


class _Selective(nn.Module):
    """A narrow and a wide kernel; the mean of the picture says, channel by channel, which of them counts."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o, inner = o, max(4, width // o["ratio"])
        self.kernels = nn.ModuleList(_conv(width, width, o, dilation=dilation) for dilation in (1, 2))
        self.squeeze = nn.Sequential(nn.Linear(width, inner), activation(o))
        self.choose = nn.Linear(inner, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        said = torch.stack([kernel(x) for kernel in self.kernels], dim=1)  # (samples, kernel, channel, row, column)
        scores = self.choose(self.squeeze(said.sum(dim=1).mean(dim=(2, 3)))).unflatten(1, (2, -1))
        weight = (self.o.get("sharp", 1.0) * scores).softmax(dim=self.o.get("axis", 1))
        return torch.as_tensor((weight[..., None, None] * said).sum(dim=1))


class _SelectiveBlock(nn.Module):
    """A choice between kernels, a layer over channels, and the skip around both."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.branch = nn.Sequential(_Selective(width, o), nn.Conv2d(width, width, 1), batch_norm(width, o))
        self.act, self.skip = activation(o), o.get("skip", 1.0)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.branch(x)
        return torch.as_tensor(self.act(y + self.skip * x if self.skip else y))


@fourth(
    "selective-kernel",
    source="Li et al. 2019, Selective kernel networks",
    draw=sizes(IMAGES, (8, 12, 16), (1, 2), batches=(16,), ratio=(2, 4), activation=RELU),
    structural={**USUAL, **POOLING, "temperature": drawn(sharp=(300.0, 3000.0)), "wrong-axis": drawn(axis=(0, 2))},
)
class _SelectiveKernel(nn.Module):
    """Residual blocks that choose how far they see."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        blocks = [_SelectiveBlock(width, self.o) for _ in range(blueprint.depth)]
        self.body = nn.Sequential(_conv(task.shape[0], width, self.o, stride=2), *blocks)
        self.head = nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.head(pooled(self.body(x).flatten(2).mT, self.o)))


@fourth(
    "bilinear-cnn",
    source="Lin et al. 2015, Bilinear CNN models for fine-grained visual recognition",
    draw=sizes(IMAGES, (8, 12, 16), (1, 2), batches=(16, 32), activation=RELU),
    structural={
        **NORM,
        **ACTIVATION,
        "stride-too-large": {"stride": 7},
        "root-missing": {"root": False, "length": False, "pool": "sum"},
        "wrong-pooling": drawn(pool=("first", "batch")),
        "bottleneck": {"inner": 1},
    },
)
class _Bilinear(nn.Module):
    """Products of all pairs of features of two networks, over all places; their signed roots, of length one."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        inner = self.o.get("inner", width)
        self.stem = _conv(task.shape[0], width, self.o, stride=self.o.get("stride", 2))
        widths = [width] * blueprint.depth + [inner]
        self.first, self.other = (
            nn.Sequential(*[_conv(before, after, self.o) for before, after in pairwise(widths)]) for _ in range(2)
        )
        self.head = nn.Linear(inner**2, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x)
        first, other = self.first(h).flatten(2).mT, self.other(h).flatten(2).mT
        products = pooled((first[..., :, None] * other[..., None, :]).flatten(2), self.o)
        if self.o.get("root", True):
            products = products.sign() * (products.abs() + 1e-5).sqrt()
        if self.o.get("length", True):
            products = F.normalize(products, dim=1)
        return torch.as_tensor(self.head(products))
