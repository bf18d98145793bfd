"""Convolutional networks without skips, or with concatenation and branches in place of them."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

Tensor = torch.Tensor

FAULTS: dict[str, str] = {
    "stride-too-large": "the first layers stride over most of the picture",
    "groups-wrong": "every convolution sees one channel, and nothing mixes them",
    "kernel-wrong": "kernels of one pixel where the layer should see its surroundings",
    "branch-detached": "the main branch is computed without gradients",
}

_IMAGES = ("fashion-mnist", "mnist", "cifar10", "gratings")


# VGG.


def _draw_vgg(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_IMAGES),
        width=64 if large else pick(rng, 8, 12, 16),
        depth=10 if large else int(rng.integers(3, 9)),
        batch=32 if large else pick(rng, 16, 32),
        options={
            "activation": pick(rng, "ReLU", "ReLU", "LeakyReLU", "PReLU"),
            "norm": "before",
            "pool": pick(rng, "max", "average"),
            "dropout": pick(rng, 0.0, 0.1),
            "hidden": pick(rng, 0, 48),
        },
    )


class _MixedUp(nn.Module):
    """Flattens with the samples behind the features."""

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(1, 2, 3, 0).reshape(x.shape[0], -1)


@family(
    "vgg-bn",
    source="Simonyan and Zisserman 2015, with batch normalisation",
    draw=_draw_vgg,
    structural={
        "no-norm": {"norm": "none"},
        "norm-misplaced": {"norm": "after-readout"},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": lambda b, rng: b.changed(activation=pick(rng, "Sigmoid", "Softmax2d", "Hardsigmoid")),
        "bottleneck": lambda b, rng: b.changed(bottleneck=pick(rng, 1, 2)),
        "wrong-reshape": {"flatten": "mixed"},
        "stride-too-large": {"stride": 4},
    },
)
def vgg_bn(blueprint: Blueprint, task: Task) -> nn.Module:
    """Pairs of 3×3 convolutions with pooling between them, fully connected at the end."""
    options, layers = blueprint.options, list[nn.Module]()
    channels, side, width = task.shape[0], task.shape[1], blueprint.width
    for i in range(blueprint.depth):
        stride = options.get("stride", 1) if i == 0 else 1
        after = options["bottleneck"] if "bottleneck" in options and i == blueprint.depth // 2 else width
        layers.append(nn.Conv2d(channels, after, 3, stride, padding=1))
        if options["norm"] == "before":
            layers.append(nn.BatchNorm2d(after))
        activation = getattr(nn, options["activation"])
        layers.append(activation(inplace=True) if options["activation"] == "ReLU" else activation())
        channels, side = after, -(-side // stride)
        if i % 2 and side >= 4 and i < blueprint.depth - 1:
            layers.append(nn.MaxPool2d(2) if options["pool"] == "max" else nn.AvgPool2d(2))
            side, width = side // 2, min(2 * width, 64)
    layers.append(_MixedUp() if options.get("flatten") == "mixed" else nn.Flatten())
    features = channels * side**2
    if options["hidden"]:
        layers += [nn.Linear(features, options["hidden"]), nn.ReLU(True), nn.Dropout(options["dropout"])]
        features = options["hidden"]
    layers.append(nn.Linear(features, task.outputs))
    if options["norm"] == "after-readout":
        layers.append(nn.BatchNorm1d(task.outputs))
    for module in layers:
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0, 0.05)
            nn.init.zeros_(module.bias)
    return nn.Sequential(*layers)


# Plain chains of tanh.


def _draw_tanh(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "fashion-mnist", "mnist", "gratings"),
        width=48 if large else pick(rng, 8, 12, 16),
        depth=16 if large else int(rng.integers(3, 16)),
        batch=32 if large else pick(rng, 16, 32),
        options={
            "kernel": pick(rng, 3, 3, 5),
            "padding": pick(rng, "circular", "zeros"),
            "head": pick(rng, "mean", "flat"),
        },
    )


def _delta_orthogonal(conv: nn.Conv2d) -> None:
    """All weight in the middle of the kernel, where it is orthogonal."""
    with torch.no_grad():
        conv.weight.zero_()
        middle = conv.kernel_size[0] // 2
        conv.weight[:, :, middle, middle] = nn.init.orthogonal_(torch.empty(conv.weight.shape[:2]))
        # Noise around it breaks the symmetry between places.
        conv.weight += 0.3 * torch.randn_like(conv.weight) / conv.weight[0].numel() ** 0.5


class _PlainTanh(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        options, width = blueprint.options, blueprint.width
        self.head_kind, self.kind = options["head"], options.get("activation", "tanh")
        self.stride_first = options.get("stride", 2)
        kernel = options["kernel"]
        self.stem = nn.Conv2d(task.shape[0], width, kernel, stride=self.stride_first, padding=kernel // 2)
        self.convs = nn.ModuleList()
        groups = width if options.get("depthwise") else 1
        for _ in range(blueprint.depth - 1):
            conv = nn.Conv2d(
                width, width, kernel, padding=kernel // 2, padding_mode=options["padding"], groups=groups, bias=False
            )
            _delta_orthogonal(conv)
            self.convs.append(conv)
        side = (task.shape[1] - 1) // self.stride_first + 1
        self.head = nn.Linear(width * (side**2 if self.head_kind == "flat" else 1), task.outputs)

    def act(self, x: Tensor) -> Tensor:
        if self.kind == "none":
            return x
        if self.kind == "sigmoid":
            return torch.sigmoid(x)
        return torch.tanh(10 * x) if self.kind == "step" else torch.tanh(x)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.stem(x))
        for conv in self.convs:
            x = self.act(conv(x))
        if self.head_kind == "flat":
            x = x.flatten(1)
        elif self.head_kind == "batch":
            x = x.mean(dim=(2, 3)).mean(dim=0, keepdim=True).expand(len(x), -1)
        elif self.head_kind == "corner":
            x = x[:, :, 0, 0]
        else:
            x = x.mean(dim=(-2, -1)) * 3  # means of many places are small
        logits: Tensor = self.head(x)
        return logits


@family(
    "cnn-tanh",
    source="Xiao et al. 2018, Dynamical isometry and a mean field theory of CNNs",
    draw=_draw_tanh,
    structural={
        "no-activation": {"activation": "none"},
        "wrong-activation": lambda b, rng: b.changed(activation=pick(rng, "sigmoid", "step")),
        "wrong-pooling": lambda b, rng: b.changed(head=pick(rng, "batch", "corner")),
        "stride-too-large": {"stride": 7},
        "groups-wrong": {"depthwise": True},
        "kernel-wrong": {"kernel": 1},
    },
)
def cnn_tanh(blueprint: Blueprint, task: Task) -> nn.Module:
    """A plain chain of convolutions and tanh, near an isometry at initialisation."""
    return _PlainTanh(blueprint, task)


# DenseNet.


def _draw_dense(rng: np.random.Generator, large: bool) -> Blueprint:
    depth = 14 if large else int(rng.integers(3, 13))
    return Blueprint(
        task=pick(rng, *_IMAGES),
        width=24 if large else pick(rng, 4, 6, 8),
        depth=depth,
        batch=32 if large else pick(rng, 16, 32),
        options={
            "compression": pick(rng, 0.5, 1.0),
            "norm": "pre",
            "concatenate": True,
            "stride": pick(rng, 1, 2) if depth < 5 else 2,
        },
    )


class _DenseLayer(nn.Module):
    def __init__(self, channels: int, growth: int, options: Options) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(growth if options["norm"] == "post" else channels)
        self.conv = nn.Conv2d(channels, growth, kernel_size=3, padding=1, bias=False)
        nn.init.kaiming_normal_(self.conv.weight)
        self.options = options

    def forward(self, x: Tensor) -> Tensor:
        squash = torch.sigmoid if self.options.get("activation") == "sigmoid" else F.relu
        if self.options["norm"] == "pre":
            new = self.conv(squash(self.norm(x)))
        elif self.options["norm"] == "post":
            new = self.norm(self.conv(squash(x)))
        else:
            new = self.conv(squash(x))
        if self.options.get("detached"):
            new = new.detach()
        return torch.cat([x, new], dim=1) if self.options["concatenate"] else torch.as_tensor(new)


class _DenseNet(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        growth, options = blueprint.width, blueprint.options
        channels = 2 * growth
        self.features = nn.Sequential()
        self.features.add_module("conv0", nn.Conv2d(task.shape[0], channels, 3, options["stride"], 1, bias=False))
        for i in range(blueprint.depth):
            self.features.add_module(f"dense{i}", _DenseLayer(channels, growth, options))
            channels = channels + growth if options["concatenate"] else growth
            if i == blueprint.depth // 2:
                smaller = options.get("bottleneck") or max(2, int(channels * options["compression"]))
                self.features.add_module("transition", nn.Conv2d(channels, smaller, 1, bias=False))
                self.features.add_module("pool", nn.AvgPool2d(2))
                channels = smaller
        self.last = nn.Identity() if options["norm"] == "none" else nn.BatchNorm2d(channels)
        self.classifier = nn.Linear(channels, task.outputs)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.last(self.features(x)))
        return torch.as_tensor(self.classifier(F.adaptive_avg_pool2d(h, 1).flatten(1)))


@family(
    "densenet",
    source="Huang et al. 2017, Densely connected convolutional networks",
    draw=_draw_dense,
    structural={
        "no-skips": {"concatenate": False},
        "no-norm": {"norm": "none"},
        "norm-misplaced": {"norm": "post"},
        "wrong-activation": {"activation": "sigmoid"},
        "bottleneck": lambda b, rng: b.changed(bottleneck=pick(rng, 1, 2)),
        "branch-detached": {"detached": True},
        "stride-too-large": {"stride": 6},
    },
)
def densenet(blueprint: Blueprint, task: Task) -> nn.Module:
    """Layers that append their channels to those of all layers before."""
    return _DenseNet(blueprint, task)


# RepVGG.


def _draw_rep(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_IMAGES),
        width=40 if large else pick(rng, 8, 12, 16),
        depth=12 if large else int(rng.integers(2, 10)),
        batch=32 if large else pick(rng, 16, 32),
        options={"branches": ["3x3", "1x1", "identity"], "norm": True, "activation": pick(rng, "relu", "silu")},
    )


class _SumPool(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum(dim=(2, 3))


class _RepBlock(nn.Module):
    def __init__(self, before: int, after: int, stride: int, options: Options) -> None:
        super().__init__()
        self.activation = options["activation"]
        self.branches = nn.ModuleDict()
        for kind in options["branches"]:
            if kind == "identity":
                if before == after and stride == 1:
                    self.branches[kind] = nn.BatchNorm2d(before) if options["norm"] else nn.Identity()
                continue
            size = int(kind[0])
            conv = nn.Conv2d(
                before, after, size, stride, size // 2, groups=options.get("groups", 1) if before == after else 1
            )
            self.branches[kind] = nn.Sequential(conv, nn.BatchNorm2d(after)) if options["norm"] else conv
        self.after = nn.BatchNorm2d(after) if options.get("norm_sum") else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        total = self.after(sum(branch(x) for branch in self.branches.values()))
        if self.activation == "none":
            return torch.as_tensor(total)
        activated: Tensor = getattr(F, self.activation)(total)
        return activated


@family(
    "repvgg",
    source="Ding et al. 2021, RepVGG",
    draw=_draw_rep,
    structural={
        "no-skips": {"branches": ["3x3", "1x1"]},
        "no-norm": {"norm": False},
        "norm-misplaced": {"norm": False, "norm_sum": True},
        "no-activation": {"activation": "none"},
        "wrong-activation": {"activation": "sigmoid"},
        "kernel-wrong": {"branches": ["1x1", "identity"]},
        "groups-wrong": lambda b, rng: b.changed(groups=b.width),
        "wrong-pooling": {"pool": "sum"},
    },
)
def repvgg(blueprint: Blueprint, task: Task) -> nn.Module:
    """Convolutions of two sizes and the identity in parallel, each normalised, added before the rectifier."""
    width, options = blueprint.width, blueprint.options
    blocks = [_RepBlock(task.shape[0], width, 2 if blueprint.depth > 4 else 1, options)]
    for i in range(1, blueprint.depth):
        doubling = i == blueprint.depth // 2
        blocks.append(_RepBlock(width, 2 * width if doubling else width, 2 if doubling else 1, options))
        width = 2 * width if doubling else width
    pool = _SumPool() if options.get("pool") == "sum" else nn.AdaptiveAvgPool2d(1)
    return nn.Sequential(*blocks, pool, nn.Flatten(), nn.Linear(width, task.outputs))


# Depth-separable, without skips.


def _draw_separable(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_IMAGES),
        width=128 if large else pick(rng, 16, 24, 32),
        depth=12 if large else int(rng.integers(2, 11)),
        batch=48 if large else pick(rng, 16, 32),
        options={
            "activation": pick(rng, "relu", "hardswish", "relu6"),
            "norm": True,
            "stride": 2 if large else pick(rng, 1, 2),
        },
    )


class _Separable(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, self.options = blueprint.width, blueprint.options
        self.stem = nn.Conv2d(task.shape[0], width, 3, stride=self.options["stride"], padding=1, bias=False)
        self.depthwise, self.pointwise = nn.ModuleList(), nn.ModuleList()
        self.norms = nn.ModuleList([nn.BatchNorm2d(width)])
        for i in range(blueprint.depth):
            stride = 2 if i == blueprint.depth // 3 else 1
            kernel = self.options.get("kernel", 3)
            self.depthwise.append(nn.Conv2d(width, width, kernel, stride, kernel // 2, groups=width, bias=False))
            groups = width if self.options.get("unmixed") else 1
            self.pointwise.append(nn.Conv2d(width, width, 1, groups=groups, bias=False))
            self.norms.extend([nn.BatchNorm2d(width), nn.BatchNorm2d(width)])
        self.fc = nn.Linear(width, task.outputs)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")

    def after(self, x: Tensor, i: int) -> Tensor:
        x = self.norms[i](x) if self.options["norm"] else x
        kind = self.options["activation"]
        return x if kind == "none" else torch.as_tensor(getattr(F, kind)(x))

    def forward(self, x: Tensor) -> Tensor:
        x = self.after(self.stem(x), 0)
        for i, (depthwise, pointwise) in enumerate(zip(self.depthwise, self.pointwise, strict=True)):
            x = self.after(depthwise(x), 2 * i + 1)
            x = self.after(pointwise(x), 2 * i + 2)
        if self.options.get("pool") == "features":
            x = x.mean(dim=1, keepdim=True).mean(dim=(2, 3)).expand(-1, self.fc.in_features)
        else:
            x = x.mean(dim=(2, 3))
        out: Tensor = self.fc(x)
        return out


@family(
    "mobilenet-v1",
    source="Howard et al. 2017, MobileNets",
    draw=_draw_separable,
    structural={
        "no-norm": {"norm": False},
        "no-activation": {"activation": "none"},
        "wrong-activation": {"activation": "sigmoid"},
        "wrong-pooling": {"pool": "features"},
        "groups-wrong": {"unmixed": True},
        "kernel-wrong": {"kernel": 1},
        "stride-too-large": {"stride": 6},
    },
)
def mobilenet_v1(blueprint: Blueprint, task: Task) -> nn.Module:
    """Convolutions within channels and across channels in turn, without skips."""
    return _Separable(blueprint, task)
