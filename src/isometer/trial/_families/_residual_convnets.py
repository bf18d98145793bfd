"""Convolutional networks with residual connections."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

Tensor = torch.Tensor

FAULTS: dict[str, str] = {
    "gate-closed": "the gate of the channels starts at next to nothing",
    "stride-too-large": "the first layers stride over most of the picture",
}

_IMAGES = ("fashion-mnist", "mnist", "cifar10", "gratings")


def _skip_drawn(blueprint: Blueprint, rng: np.random.Generator) -> Blueprint:
    return blueprint.changed(skip=round(float(rng.uniform(2, 3)), 2))


# Normalisation first.


def _draw_resnet(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_IMAGES),
        width=40 if large else pick(rng, 6, 8, 12),
        depth=10 if large else int(rng.integers(2, 9)),
        batch=32 if large else pick(rng, 16, 32),
        options={"order": "pre", "norm": "batch", "activation": pick(rng, "relu", "relu", "elu"), "skip": 1.0},
    )


class _PreBlock(nn.Module):
    def __init__(self, before: int, after: int, stride: int, options: Options) -> None:
        super().__init__()
        self.o = options
        post = options["order"] == "post"
        self.bn1 = nn.BatchNorm2d(after if post else before)
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, stride=1, padding=1, bias=False)
        self.shortcut = nn.Conv2d(before, after, 1, stride, bias=False) if before != after or stride > 1 else None

    def f(self, x: Tensor) -> Tensor:
        return x if self.o["activation"] == "none" else torch.as_tensor(getattr(F, self.o["activation"])(x))

    def forward(self, x: Tensor) -> Tensor:
        if self.o["norm"] == "none":
            out = self.conv2(self.f(self.conv1(self.f(x))))
        elif self.o["order"] == "post":
            out = self.bn2(self.conv2(self.f(self.bn1(self.conv1(x)))))
        else:
            out = self.conv2(self.f(self.bn2(self.conv1(self.f(self.bn1(x))))))
        if self.o["skip"]:
            out = out + self.o["skip"] * (x if self.shortcut is None else self.shortcut(x))
        return torch.as_tensor(out)


class _PreResNet(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, depth, self.o = blueprint.width, blueprint.depth, blueprint.options
        self.stem = nn.Conv2d(task.shape[0], width, 3, self.o.get("stride", 1), 1, bias=False)
        stages = [depth - depth // 2, depth // 2]
        self.stages = nn.ModuleList()
        before = width
        for number, blocks in enumerate(stages):
            after = width * (1 + number)
            stage = [_PreBlock(before, after, 2, self.o)]
            stage += [_PreBlock(after, after, 1, self.o) for _ in range(blocks - 1)]
            self.stages.append(nn.Sequential(*stage))
            before = after
        self.bn = nn.Identity() if self.o["norm"] == "none" else nn.BatchNorm2d(before)
        self.fc = nn.Linear(before, task.outputs)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.fc.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        x = F.relu(self.bn(x))
        x = x[..., -1, -1] if self.o.get("pool") == "corner" else F.adaptive_avg_pool2d(x, (1, 1)).flatten(1)
        logits: Tensor = self.fc(x)
        return logits


@family(
    "resnet-preact",
    source="He et al. 2016, Identity mappings in deep residual networks",
    draw=_draw_resnet,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": _skip_drawn,
        "no-norm": {"norm": "none"},
        "norm-misplaced": {"order": "post"},
        "no-activation": {"activation": "none"},
        "wrong-activation": {"activation": "sigmoid"},
        "wrong-pooling": {"pool": "corner"},
        "stride-too-large": {"stride": 5},
    },
)
def resnet_preact(blueprint: Blueprint, task: Task) -> nn.Module:
    """Two stages of blocks that normalise and rectify before each convolution."""
    return _PreResNet(blueprint, task)


def _draw_post(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_IMAGES),
        width=56 if large else pick(rng, 8, 12, 16),
        depth=9 if large else int(rng.integers(2, 10)),
        batch=32 if large else pick(rng, 16, 32),
        options={"zero_gamma": bool(rng.integers(2)), "norm": "batch", "skip": 1.0, "groups": pick(rng, 2, 4)},
    )


def _bn(options: Options, channels: int) -> nn.Module:
    if options["norm"] == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(options["groups"], channels) if options["norm"] == "group" else nn.Identity()


class BasicBlock(nn.Module):
    """The block of two convolutions that torchvision has, for few channels."""

    def __init__(self, inplanes: int, planes: int, stride: int, options: Options) -> None:
        super().__init__()
        norm_layer = partial(_bn, options)
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = norm_layer(planes)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = norm_layer(planes)
        self.downsample: nn.Module | None = None
        if stride != 1 or inplanes != planes:
            self.downsample = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride, bias=False), norm_layer(planes))
        self.skip, self.last = options["skip"], options.get("misplaced", False)
        if options["zero_gamma"] and isinstance(self.bn2, nn.BatchNorm2d | nn.GroupNorm):
            nn.init.zeros_(self.bn2.weight)

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.conv2(out)
        if self.last:
            return torch.as_tensor(self.bn2(self.relu(out + self.skip * identity)))
        out = self.bn2(out)
        if self.skip:
            out = out + self.skip * identity
        return torch.as_tensor(self.relu(out))


def _resnet_post(blueprint: Blueprint, task: Task) -> nn.Module:
    options, width = blueprint.options, blueprint.width
    net = nn.Sequential()
    net.add_module("conv1", nn.Conv2d(task.shape[0], width, 3, options.get("stride", 2), 1, bias=False))
    net.add_module("bn1", _bn(options, width))
    net.add_module("relu", nn.ReLU())
    for i in range(blueprint.depth):
        half = i == blueprint.depth // 2
        net.add_module(f"block{i}", BasicBlock(width, 2 * width if half else width, 2 if half else 1, options))
        width = 2 * width if half else width
    net.add_module("avgpool", nn.AdaptiveAvgPool2d(1))
    net.add_module("flatten", nn.Flatten())
    net.add_module("fc", nn.Linear(width, task.outputs))
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return net


@family(
    "resnet-postact",
    source="He et al. 2016, Deep residual learning; torchvision's BasicBlock",
    draw=_draw_post,
    structural={
        # A branch that starts at zero and has no skip says nothing: that would be two faults.
        "no-skips": {"skip": 0.0, "zero_gamma": False},
        "skip-scaled": _skip_drawn,
        "no-norm": {"norm": "none"},
        "norm-misplaced": {"misplaced": True, "zero_gamma": False},
        "stride-too-large": {"stride": 7},
    },
)
def resnet_postact(blueprint: Blueprint, task: Task) -> nn.Module:
    """Blocks that rectify the sum, with batch normalisation after each convolution."""
    return _resnet_post(blueprint, task)


def _draw_group(rng: np.random.Generator, large: bool) -> Blueprint:
    drawn = _draw_post(rng, large)
    return drawn.changed(norm="group", zero_gamma=False)


@family(
    "resnet-groupnorm",
    source="Wu and He 2018, Group normalization",
    draw=_draw_group,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": _skip_drawn,
        "no-norm": {"norm": "none"},
        "norm-misplaced": {"misplaced": True},
        "stride-too-large": {"stride": 7},
    },
)
def resnet_groupnorm(blueprint: Blueprint, task: Task) -> nn.Module:
    """The blocks of a residual network with group normalisation."""
    return _resnet_post(blueprint, task)


# Wide, with dropout.


def _draw_wide(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_IMAGES),
        width=96 if large else pick(rng, 24, 32),
        depth=4 if large else int(rng.integers(1, 4)),
        batch=32 if large else pick(rng, 16, 32),
        options={"dropout": pick(rng, 0.0, 0.05, 0.1), "skip": 1.0, "norm": True, "activation": "ReLU"},
    )


@family(
    "wide-resnet",
    source="Zagoruyko and Komodakis 2016, Wide residual networks",
    draw=_draw_wide,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": _skip_drawn,
        "no-norm": {"norm": False},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": {"activation": "Softmax2d"},
        "bottleneck": lambda b, rng: b.changed(bottleneck=pick(rng, 1, 2)),
    },
)
def wide_resnet(blueprint: Blueprint, task: Task) -> nn.Module:
    """Few blocks with many channels, and dropout between their convolutions."""
    options, width = blueprint.options, blueprint.width

    class ShortcutUnit(nn.Module):
        def __init__(self, *branch: nn.Module) -> None:
            super().__init__()
            self.branch = nn.Sequential(*branch)

        def forward(self, x: Tensor) -> Tensor:
            change: Tensor = self.branch(x)
            return options["skip"] * x + change if options["skip"] else change

    def conv(before: int, after: int) -> list[nn.Module]:
        layer = nn.Conv2d(before, after, 3, padding=1, bias=not options["norm"])
        nn.init.kaiming_normal_(layer.weight)
        before_it: list[nn.Module] = [nn.BatchNorm2d(before)] if options["norm"] else []
        return [*before_it, getattr(nn, options["activation"])(), layer]

    narrow = options.get("bottleneck", width)
    blocks = [
        ShortcutUnit(*conv(width, narrow), nn.Dropout(options["dropout"]), *conv(narrow, width))
        for _ in range(blueprint.depth)
    ]
    stem = nn.Conv2d(task.shape[0], width, 4, stride=2, padding=1)
    last = nn.BatchNorm2d(width) if options["norm"] else nn.Identity()
    head = [last, nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(4 * width, task.outputs)]
    return nn.Sequential(stem, *blocks, *head)


# Squeeze and excitation.


def _draw_se(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_IMAGES),
        width=72 if large else pick(rng, 8, 12, 16),
        depth=10 if large else int(rng.integers(2, 8)),
        batch=32 if large else pick(rng, 16, 32),
        options={"ratio": pick(rng, 2, 4), "gate": "sigmoid", "gate_bias": 0.0, "skip": 1.0, "norm": True},
    )


class _SqueezeExcite(nn.Module):
    class Gate(nn.Module):
        def __init__(self, width: int, options: Options) -> None:
            super().__init__()
            self.w1 = nn.Parameter(torch.randn(width // options["ratio"], width) * (2 / width) ** 0.5)
            self.w2 = nn.Parameter(torch.randn(width, width // options["ratio"]) * (options["ratio"] / width) ** 0.5)
            self.b2 = nn.Parameter(torch.full((width,), options["gate_bias"]))
            self.kind = options["gate"]

        def forward(self, x: Tensor) -> Tensor:
            squeezed = x.mean(dim=(2, 3))
            gate = torch.einsum("wr,nr->nw", self.w2, F.relu(torch.einsum("rw,nw->nr", self.w1, squeezed))) + self.b2
            if self.kind == "none":
                return x
            gate = F.softmax(gate, dim=0) if self.kind == "batch" else torch.sigmoid(gate)
            return x * gate[:, :, None, None]

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, self.o = blueprint.width, blueprint.options
        self.stem = nn.Conv2d(task.shape[0], width, 3, 2, 1)
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, 1, 1, bias=False) for _ in range(blueprint.depth))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(blueprint.depth))
        self.gates = nn.ModuleList(self.Gate(width, self.o) for _ in range(blueprint.depth))
        self.fc = nn.Linear(width, task.outputs)
        for conv in self.convs:
            nn.init.kaiming_uniform_(conv.get_parameter("weight"), nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        for conv, norm, gate in zip(self.convs, self.norms, self.gates, strict=True):
            change = gate(norm(conv(x)) if self.o["norm"] else conv(x))
            x = F.relu(self.o["skip"] * x + change if self.o["skip"] else change)
        out: Tensor = self.fc(x.mean(dim=(2, 3)))
        return out


@family(
    "se-resnet",
    source="Hu et al. 2018, Squeeze-and-excitation networks",
    draw=_draw_se,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": _skip_drawn,
        "no-norm": {"norm": False},
        "gate-closed": lambda b, rng: b.changed(gate_bias=float(pick(rng, -6.0, -10.0))),
        "wrong-axis": {"gate": "batch"},
    },
)
def se_resnet(blueprint: Blueprint, task: Task) -> nn.Module:
    """Residual blocks whose channels are weighted by a small network."""
    return _SqueezeExcite(blueprint, task)
