"""Residual convolutional networks without normalisation: scale and initialisation take its place."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

Tensor = torch.Tensor

FAULTS: dict[str, str] = {
    "branch-zero": "both layers of every branch start at zero, so that neither gets a gradient",
    "standardisation-missing": "weights that the architecture standardises are used as they are",
    "stride-too-large": "the first layers stride over most of the picture",
}

_IMAGES = ("fashion-mnist", "mnist", "cifar10", "gratings")


# Standardised weights.


def _draw_nf(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_IMAGES),
        width=40 if large else pick(rng, 8, 12, 16),
        depth=10 if large else int(rng.integers(2, 10)),
        batch=32 if large else pick(rng, 16, 32),
        options={"alpha": pick(rng, 0.2, 0.3, 0.5), "activation": pick(rng, "relu", "gelu", "silu"), "skip": 1.0},
    )


class _StandardisedConv(nn.Conv2d):
    def __init__(self, *sizes: int, standardise: bool, **more: int) -> None:
        super().__init__(*sizes, **more)  # type: ignore[arg-type]
        self.gain = nn.Parameter(torch.ones(self.out_channels, 1, 1, 1))
        self.standardise = standardise
        nn.init.zeros_(self.get_parameter("bias"))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        if self.standardise:
            variance, mean = torch.var_mean(weight, dim=(1, 2, 3), keepdim=True)
            weight = (weight - mean) * torch.rsqrt(variance * weight[0].numel() + 1e-4)
        return F.conv2d(x, weight * self.gain, self.bias, self.stride, self.padding)


# They give unit variance for a standard normal input.
_GAINS = {"relu": 1.7139588594436646, "gelu": 1.7015043497085571, "silu": 1.7881293296813965}


class _NFNet(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, self.o = blueprint.width, blueprint.options
        conv = partial(_StandardisedConv, standardise=self.o.get("standardise", True))
        self.stem = conv(task.shape[0], width, 3, stride=2, padding=1)
        self.first = nn.ModuleList(conv(width, width, 3, padding=1) for _ in range(blueprint.depth))
        self.second = nn.ModuleList(conv(width, width, 3, padding=1) for _ in range(blueprint.depth))
        self.head = nn.Linear(width, task.outputs)

    def act(self, x: Tensor) -> Tensor:
        kind = self.o["activation"]
        if kind == "sigmoid":
            return torch.sigmoid(x)
        return x if kind == "none" else torch.as_tensor(getattr(F, kind)(x) * _GAINS[kind])

    def forward(self, x: Tensor) -> Tensor:
        x, variance = self.stem(x), 1.0
        for first, second in zip(self.first, self.second, strict=True):
            change = second(self.act(first(self.act(x / math.sqrt(variance)))))
            x = self.o["skip"] * x + self.o["alpha"] * change if self.o["skip"] else change
            variance = 1.0 if self.o.get("untracked") else variance + self.o["alpha"] ** 2
        return torch.as_tensor(self.head(self.act(x).mean(dim=[2, 3])))


@family(
    "nfnet",
    source="Brock et al. 2021, Normalizer-free ResNets",
    draw=_draw_nf,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": lambda b, rng: b.changed(alpha=float(pick(rng, 2.0, 4.0)), untracked=True),
        "standardisation-missing": {"standardise": False},
        "no-activation": {"activation": "none"},
        "wrong-activation": {"activation": "sigmoid"},
    },
)
def nfnet(blueprint: Blueprint, task: Task) -> nn.Module:
    """Residual blocks with standardised weights and scaled branches, without normalisation."""
    return _NFNet(blueprint, task)


# Branches that start at zero.


def _draw_fixup(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_IMAGES),
        width=40 if large else pick(rng, 8, 12, 16),
        depth=10 if large else int(rng.integers(2, 11)),
        batch=32 if large else pick(rng, 16, 32),
        options={"scheme": pick(rng, "fixup", "skipinit"), "skip": 1.0},
    )


class _FixupBlock(nn.Module):
    def __init__(self, width: int, depth: int, options: Options) -> None:
        super().__init__()
        self.bias1a, self.bias1b = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bias2a, self.bias2b = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        scheme, self.skip = options["scheme"], options["skip"]
        self.scale = nn.Parameter(torch.zeros(1) if scheme in ("skipinit", "dead") else torch.ones(1))
        std = math.sqrt(2 / (9 * width))
        nn.init.normal_(self.conv1.weight, std=std * depth**-0.5 if scheme == "fixup" else std)
        if scheme in ("fixup", "dead"):
            nn.init.zeros_(self.conv2.weight)
        else:
            nn.init.normal_(self.conv2.weight, std=std)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1(x + self.bias1a)
        out = self.conv2(F.relu(out + self.bias1b) + self.bias2a) * self.scale + self.bias2b
        return F.relu(self.skip * x + out if self.skip else out)


@family(
    "fixup",
    source="Zhang et al. 2019, Fixup initialization; De and Smith 2020, SkipInit",
    draw=_draw_fixup,
    structural={
        "no-skips": {"skip": 0.0, "scheme": "unscaled"},
        "skip-scaled": lambda b, rng: b.changed(scheme="unscaled", skip=float(pick(rng, 1.0, 2.0))),
        "branch-zero": {"scheme": "dead"},
        "stride-too-large": {"stride": 7},
    },
)
def fixup(blueprint: Blueprint, task: Task) -> nn.Module:
    """Residual blocks whose branches start at zero, without normalisation."""
    width, depth = blueprint.width, blueprint.depth
    stem = nn.Conv2d(task.shape[0], width, 3, blueprint.options.get("stride", 2), 1)
    nn.init.kaiming_normal_(stem.weight)
    head = nn.Linear(width, task.outputs)
    nn.init.zeros_(head.bias)
    if blueprint.options["scheme"] == "fixup":
        nn.init.normal_(head.weight, std=0.01)
    blocks = [_FixupBlock(width, depth, blueprint.options) for _ in range(depth)]
    return nn.Sequential(stem, nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)
