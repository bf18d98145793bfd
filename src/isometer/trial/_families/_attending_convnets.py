"""Pictures: gates over channels and places, kernels mixed per picture, groups in a row, fractals, a look elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isometer.trial._families._draws import drawn
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
from isometer.trial._families._third import third
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "gate-closed": "the bias of a gate lets nothing in",
    "router-sharp": "the router decides for one kernel, whatever the picture",
    "router-detached": "the router gets no gradient",
    "kernel-scale": "kernels are far too small or far too large",
    "groups-wrong": "only the first group of channels gets through",
    "paths-cancelled": "paths are subtracted where their mean is meant",
    "looks-away": "the grid begins outside the picture",
    "looks-at-a-point": "the grid begins as a point of the picture",
    "initialisation-scale": "the transformation begins far from the identity",
}


class _Pictures(nn.Module):
    """A picture in, blocks at half its resolution, an answer of all places."""

    def __init__(self, blocks: list[nn.Module], width: int, task: Task, o: Options) -> None:
        super().__init__()
        self.stem, self.blocks = nn.Conv2d(task.shape[0], width, 3, stride=2, padding=1), nn.Sequential(*blocks)
        self.norm, self.act, self.o = batch_norm(width, o), activation(o), o
        self.head = nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = self.act(self.norm(self.blocks(self.stem(x))))
        return torch.as_tensor(self.head(pooled(h.flatten(2).mT, self.o)))


class _Residual(nn.Module):
    """A norm, an activation, a branch, and the skip around them."""

    def __init__(self, width: int, branch: nn.Module, o: Options) -> None:
        super().__init__()
        self.norm, self.act, self.branch = batch_norm(width, o), activation(o), branch
        self.skip = o.get("skip", 1.0)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.branch(self.act(self.norm(x)))
        return y + self.skip * x if self.skip else y


def _conv(before: int, after: int, kernel: int = 3) -> nn.Conv2d:
    return nn.Conv2d(before, after, kernel, padding=kernel // 2)


class _Attended(nn.Module):
    """A convolution whose channels, then places, are weighted by what their mean and their largest value say."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.axis, inner = o.get("axis"), max(2, width // o["ratio"])
        self.conv = _conv(width, width)
        self.channels = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
        self.places = _conv(2, 1, o["window"])
        if "closed" in o:
            for layer in (self.channels[2], self.places):
                nn.init.constant_(layer.get_parameter("bias"), o["closed"])

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv(x)
        said = self.channels(h.mean(dim=(2, 3))) + self.channels(h.amax(dim=(2, 3)))
        gate = said.sigmoid() if self.axis is None else said.softmax(dim=self.axis)
        h = h * gate[..., None, None]
        seen = torch.cat([h.mean(dim=1, keepdim=True), h.amax(dim=1, keepdim=True)], dim=1)
        return torch.as_tensor(h * self.places(seen).sigmoid())


@third(
    "cbam-resnet",
    source="Woo et al. 2018, CBAM: convolutional block attention module",
    draw=sizes(IMAGES, (16, 24), (1, 2), batches=(16,), ratio=(2, 4), window=(3, 5), activation=RELU),
    structural={**USUAL, **POOLING, "gate-closed": drawn(closed=(-6.0, -12.0)), "wrong-axis": {"axis": 0}},
)
def cbam_resnet(blueprint: Blueprint, task: Task) -> nn.Module:
    """Residual blocks that attend to channels, then to places."""
    o, width = blueprint.options, blueprint.width
    return _Pictures([_Residual(width, _Attended(width, o), o) for _ in range(blueprint.depth)], width, task, o)


class _MixedKernels(nn.Module):
    """A convolution whose kernel is a mixture, weighted by the mean of the picture."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o, gain = o, o.get("gain", 1.0) * (2 / (9 * width)) ** 0.5
        self.kernels = nn.Parameter(gain * o["experts"] ** 0.5 * torch.randn(o["experts"], width, width, 3, 3))
        self.route = nn.Linear(width, o["experts"])

    def forward(self, x: Tensor) -> Tensor:
        n, width, *places = x.shape
        logits = self.o.get("sharp", 1.0) * self.route(x.mean(dim=(2, 3)))
        weight = logits.softmax(dim=self.o.get("axis", 1))
        weight = weight.detach() if self.o.get("detached") else weight
        kernel = torch.einsum("ne,eoikl->noikl", weight, self.kernels)
        y = F.conv2d(x.reshape(1, n * width, *places), kernel.flatten(0, 1), padding=1, groups=n)
        return y.view(n, width, *places)


@third(
    "conditional-convolution",
    source="Yang et al. 2019, CondConv; Chen et al. 2020, Dynamic convolution: attention over convolution kernels",
    draw=sizes(IMAGES, (8, 12, 16), (1, 2), batches=(16,), experts=(2, 3, 4), activation=RELU),
    structural={
        **USUAL,
        "router-sharp": drawn(sharp=(300.0, 3000.0)),
        "router-detached": {"detached": True},
        "wrong-axis": {"axis": 0},
        "kernel-scale": drawn(gain=(1e-3, 30.0)),
    },
)
def conditional_convolution(blueprint: Blueprint, task: Task) -> nn.Module:
    """Every picture has a mixture of kernels of its own."""
    o, width = blueprint.options, blueprint.width
    return _Pictures([_Residual(width, _MixedKernels(width, o), o) for _ in range(blueprint.depth)], width, task, o)


class _InARow(nn.Module):
    """Groups of channels: each is convolved together with what the group before answered."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o, self.scales = o, o["scales"]
        inner = o.get("inner", max(1, width // self.scales))
        self.enter, self.leave = _conv(width, inner * self.scales, 1), _conv(inner * self.scales, width, 1)
        self.convs = nn.ModuleList(_conv(inner, inner) for _ in range(self.scales - 1))
        self.act = activation(o)

    def forward(self, x: Tensor) -> Tensor:
        first, *others = self.act(self.enter(x)).chunk(self.scales, dim=1)
        said, last = [first], torch.zeros_like(first)
        for conv, group in zip(self.convs, others, strict=True):
            last = self.act(conv(group + last))
            said.append(last * 0 if self.o.get("lost") else last)
        return torch.as_tensor(self.leave(torch.cat(said, dim=1)))


@third(
    "res2net",
    source="Gao et al. 2019, Res2Net: a new multi-scale backbone architecture",
    draw=sizes(IMAGES, (16, 24, 32), (1, 2), batches=(16,), scales=(2, 4), activation=RELU),
    structural={**USUAL, **POOLING, "bottleneck": {"inner": 1}, "groups-wrong": {"lost": True}},
)
def res2net(blueprint: Blueprint, task: Task) -> nn.Module:
    """Residual blocks with several sizes of what one place sees."""
    o, width = blueprint.options, blueprint.width
    return _Pictures([_Residual(width, _InARow(width, o), o) for _ in range(blueprint.depth)], width, task, o)


class _Fractal(nn.Module):
    """A convolution beside two fractals of one column fewer in a row; the mean of both."""

    def __init__(self, width: int, columns: int, o: Options) -> None:
        super().__init__()
        self.o = o
        self.short = nn.Sequential(_conv(width, width), batch_norm(width, o), activation(o))
        inner = [_Fractal(width, columns - 1, o) for _ in range(2)] if columns > 1 else []
        self.long = nn.Sequential(*inner)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.short(x)
        if not len(self.long):
            return y
        other: Tensor = self.long(x)
        if self.o.get("join") == "long":
            return other + 0 * y
        return y - other if self.o.get("join") == "difference" else (y + other) / 2


@third(
    "fractal-net",
    source="Larsson et al. 2017, FractalNet: ultra-deep neural networks without residuals",
    draw=sizes(IMAGES, (12, 16, 24), (1, 1, 2), batches=(16,), columns=(2, 2, 3), activation=RELU),
    structural={
        **NORM,
        **ACTIVATION,
        **POOLING,
        "no-skips": drawn(join=("long",), columns=(4,), norm=(True, False)),
        "paths-cancelled": {"join": "difference"},
    },
)
def fractal_net(blueprint: Blueprint, task: Task) -> nn.Module:
    """Paths of many lengths side by side, without residual connections."""
    o, width = blueprint.options, blueprint.width
    return _Pictures([_Fractal(width, o["columns"], o) for _ in range(blueprint.depth)], width, task, o)


@third(
    "spatial-transformer",
    source="Jaderberg et al. 2015, Spatial transformer networks",
    draw=sizes(IMAGES, (8, 16, 24), (1, 2), affine=(True, False), activation=RELU),
    structural={
        **NORM,
        **ACTIVATION,
        "looks-away": drawn(offset=(2.5, 4.0)),
        "looks-at-a-point": drawn(zoom=(1e-3, 0.02)),
        "initialisation-scale": drawn(spread=(5.0, 30.0)),
    },
)
class _SpatialTransformer(nn.Module):
    """A small network says where to look; the picture is read there, and a convnet classifies what is seen."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        o, width = blueprint.options, blueprint.width
        self.locate = nn.Sequential(
            _conv(task.shape[0], width, 5), nn.MaxPool2d(2), activation(o), nn.AdaptiveAvgPool2d(3), nn.Flatten()
        )
        self.where = nn.Linear(9 * width, 6 if o["affine"] else 2)
        nn.init.normal_(self.where.weight, std=o.get("spread", 0.1) / (9 * width) ** 0.5)
        zoom, offset = o.get("zoom", 1.0), o.get("offset", 0.0)
        start = torch.tensor([zoom, 0.0, offset, 0.0, zoom, offset])
        self.register_buffer("fixed", start if not o["affine"] else torch.zeros(6), persistent=False)
        with torch.no_grad():
            self.where.bias.copy_(start if o["affine"] else torch.zeros(2))
        layers: list[nn.Module] = []
        for before in (task.shape[0], *[width] * blueprint.depth):
            layers += [_conv(before, width), batch_norm(width, o), activation(o)]
        self.body = nn.Sequential(*layers[:3], nn.MaxPool2d(2), *layers[3:], nn.AdaptiveAvgPool2d(3), nn.Flatten())
        self.head = nn.Linear(9 * width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        place = self.where(self.locate(x))
        if place.shape[1] == 2:  # only a shift
            place = F.pad(place, (0, 4))[:, [2, 3, 0, 4, 5, 1]]
        grid = F.affine_grid((place + self.get_buffer("fixed")).view(-1, 2, 3), list(x.shape), align_corners=False)
        return torch.as_tensor(self.head(self.body(F.grid_sample(x, grid, align_corners=False))))
