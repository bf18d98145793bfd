"""Convolutional networks of the years after 2017: inverted bottlenecks, large kernels, patches."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

Tensor = torch.Tensor

FAULTS: dict[str, str] = {
    "patch-size": "the patches are most of the picture",
    "groups-wrong": "every convolution sees one channel, and nothing mixes them",
    "stride-too-large": "the first layers stride over most of the picture",
    "layer-scale-off": "the factors of the branches start at 1e-6 times their value, or at 10",
}

_IMAGES = ("fashion-mnist", "mnist", "cifar10", "gratings")


def _skip_drawn(blueprint: Blueprint, rng: np.random.Generator) -> Blueprint:
    return blueprint.changed(skip=round(float(rng.uniform(2, 3)), 2))


# MobileNetV2.


def _draw_inverted(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_IMAGES),
        width=40 if large else pick(rng, 8, 12, 16),
        depth=10 if large else int(rng.integers(2, 8)),
        batch=32 if large else pick(rng, 16, 32),
        options={
            "expansion": pick(rng, 2, 3, 4),
            "activation": pick(rng, "ReLU6", "Hardswish", "ReLU"),
            "linear_end": True,
            "norm": True,
            "skip": 1.0,
            "mix_groups": 1,
        },
    )


class ConvBNActivation(nn.Sequential):
    """A convolution with what follows it."""

    def __init__(
        self, before: int, after: int, kernel: int, stride: int, groups: int, activation: str, norm: bool
    ) -> None:
        layers: list[nn.Module] = [nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=not norm)]
        if norm:
            layers.append(nn.BatchNorm2d(after))
        if activation:
            layers.append(getattr(nn, activation)())
        super().__init__(*layers)


class InvertedResidual(nn.Module):
    """Widens, filters each channel, narrows again."""

    def __init__(self, inp: int, oup: int, stride: int, options: Options) -> None:
        super().__init__()
        hidden, act, norm = inp * options["expansion"], options["activation"], options["norm"]
        mix = options["mix_groups"] or inp
        self.conv = nn.Sequential(
            ConvBNActivation(inp, hidden, 1, 1, mix, act, norm),
            ConvBNActivation(hidden, hidden, 3, stride, hidden, act, norm),
            ConvBNActivation(hidden, oup, 1, 1, mix, "" if options["linear_end"] else act, norm),
        )
        self.skip = options["skip"] if stride == 1 and inp == oup else 0.0

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return x * self.skip + out if self.skip else out


@family(
    "mobilenet-v2",
    source="Sandler et al. 2018, MobileNetV2",
    draw=_draw_inverted,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": _skip_drawn,
        "no-norm": {"norm": False},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": lambda b, rng: b.changed(activation=pick(rng, "Sigmoid", "Softmax2d", "Hardsigmoid")),
        "groups-wrong": {"mix_groups": 0},
        "stride-too-large": {"stride": 7},
    },
)
def mobilenet_v2(blueprint: Blueprint, task: Task) -> nn.Module:
    """Inverted residual bottlenecks with convolutions within channels."""
    o, width = blueprint.options, blueprint.width
    features: list[nn.Module] = [
        ConvBNActivation(task.shape[0], width, 3, o.get("stride", 2), 1, o["activation"], o["norm"])
    ]
    for i in range(blueprint.depth):
        features.append(InvertedResidual(width, width, 2 if i == blueprint.depth // 2 else 1, o))
    features.append(ConvBNActivation(width, 4 * width, 1, 1, 1, o["activation"], o["norm"]))
    model = nn.Sequential()
    model.add_module("features", nn.Sequential(*features))
    model.add_module("pool", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    model.add_module("classifier", nn.Linear(4 * width, task.outputs))
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out")
            if m.bias is not None:
                nn.init.zeros_(m.bias)
    return model


# ConvNeXt.


def _draw_next(rng: np.random.Generator, large: bool) -> Blueprint:
    depth = 12 if large else int(rng.integers(2, 10))
    return Blueprint(
        task=pick(rng, *_IMAGES),
        width=56 if large else pick(rng, 12, 16, 24),
        depth=depth,
        batch=32 if large or depth < 5 else 16,
        options={
            "kernel": pick(rng, 3, 5, 7),
            "layer_scale": pick(rng, 0.1, 1e-2, 1.0),
            "drop_path": pick(rng, 0.0, 0.05, 0.1),
            "patch": 2,
            "norm": "channels",
            "activation": "gelu",
            "skip": 1.0,
        },
    )


class _NextBlock(nn.Module):
    def __init__(self, dim: int, drop: float, o: Options) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, o["kernel"], padding=o["kernel"] // 2, groups=dim)
        self.norm = nn.LayerNorm(dim) if o["norm"] != "none" else nn.Identity()
        self.pwconv1, self.pwconv2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(o["layer_scale"] * torch.ones(dim))
        self.o, self.drop = o, drop

    def forward(self, x: Tensor) -> Tensor:
        h = self.dwconv(x).permute(0, 2, 3, 1)
        if self.o["norm"] == "batch-axis":
            h = (h - h.mean(dim=0)) / (h.std(dim=0, correction=0) + 1e-3)
        elif self.o["norm"] != "last":
            h = self.norm(h)
        h = self.pwconv1(h)
        if self.o["activation"] != "none":
            h = getattr(torch, self.o["activation"])(h) if self.o["activation"] != "gelu" else F.gelu(h)
        h = self.gamma * self.pwconv2(h)
        if self.drop and self.training:
            keep = torch.rand(len(h), 1, 1, 1) >= self.drop
            h = h * keep / (1 - self.drop)
        h = h.permute(0, 3, 1, 2)
        if self.o["skip"]:
            h = self.o["skip"] * x + h
        if self.o["norm"] == "last":
            h = self.norm(h.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return torch.as_tensor(h)


class _ConvNeXt(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        dim, o = blueprint.width, blueprint.options
        self.stem = nn.Conv2d(task.shape[0], dim, o["patch"], stride=o["patch"])
        rates = torch.linspace(0, o["drop_path"], blueprint.depth).tolist()
        self.blocks = nn.ModuleList([_NextBlock(dim, rate, o) for rate in rates])
        self.norm = nn.LayerNorm(dim) if o["norm"] != "none" else nn.Identity()
        self.head = nn.Linear(dim, task.outputs)
        self.summed = o.get("pool") == "sum"
        self.apply(self._init)

    @staticmethod
    def _init(m: nn.Module) -> None:
        if isinstance(m, nn.Conv2d | nn.Linear):
            fan = m.weight[0].numel()
            nn.init.trunc_normal_(m.weight, std=max(0.02, fan**-0.5))
            nn.init.zeros_(m.get_parameter("bias"))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = x.sum(dim=(-2, -1)) if self.summed else x.mean(dim=(-2, -1))
        if self.summed:
            return torch.as_tensor(self.head(x))
        logits: Tensor = self.head(self.norm(x))
        return logits


@family(
    "convnext",
    source="Liu et al. 2022, A ConvNet for the 2020s",
    draw=_draw_next,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": _skip_drawn,
        "no-norm": {"norm": "none"},
        "norm-misplaced": {"norm": "last"},
        "wrong-axis": {"norm": "batch-axis"},
        "no-activation": {"activation": "none"},
        "wrong-activation": {"activation": "sigmoid"},
        "wrong-pooling": {"pool": "sum"},
        "patch-size": {"patch": 6},
        "layer-scale-off": lambda b, rng: b.changed(layer_scale=float(pick(rng, 1e-6, 10.0))),
    },
)
def convnext(blueprint: Blueprint, task: Task) -> nn.Module:
    """Large kernels within channels, then a small perceptron per place, scaled and added."""
    return _ConvNeXt(blueprint, task)


# ConvMixer.


def _draw_mixer(rng: np.random.Generator, large: bool) -> Blueprint:
    depth = 12 if large else int(rng.integers(2, 10))
    return Blueprint(
        task=pick(rng, *_IMAGES),
        width=80 if large else pick(rng, 12, 16, 24),
        depth=depth,
        batch=32 if large or depth < 4 else 16,
        options={"kernel": pick(rng, 3, 5, 7), "patch": 2, "activation": "GELU", "norm": True, "skip": 1.0},
    )


@family(
    "convmixer",
    source="Trockman and Kolter 2022, Patches are all you need?",
    draw=_draw_mixer,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": _skip_drawn,
        "no-norm": {"norm": False},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": lambda b, rng: b.changed(activation=pick(rng, "Sigmoid", "Softmax2d")),
        "patch-size": {"patch": 6},
        "groups-wrong": {"unmixed": True},
        "wrong-reshape": {"mixed": True},
    },
)
def convmixer(blueprint: Blueprint, task: Task) -> nn.Module:
    """Patches, then convolutions within channels (with a skip) and across channels in turn."""
    o, dim = blueprint.options, blueprint.width

    class AddInput(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            y = x
            for layer in self:
                y = layer(y)
            return y + o["skip"] * x if o["skip"] else y

    class Pool(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if o.get("mixed"):
                return x.permute(1, 2, 3, 0).reshape(len(x), dim, -1).mean(dim=2)
            return x.mean((2, 3))

    def after() -> list[nn.Module]:
        return [getattr(nn, o["activation"])(), *([nn.BatchNorm2d(dim)] if o["norm"] else [])]

    return nn.Sequential(
        nn.Conv2d(task.shape[0], dim, o["patch"], stride=o["patch"]),
        *after(),
        *[
            nn.Sequential(
                AddInput(nn.Conv2d(dim, dim, o["kernel"], groups=dim, padding="same"), *after()),
                nn.Conv2d(dim, dim, kernel_size=1, groups=dim if o.get("unmixed") else 1),
                *after(),
            )
            for _ in range(blueprint.depth)
        ],
        Pool(),
        nn.Linear(dim, task.outputs),
    )
