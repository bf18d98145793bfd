"""Networks that return a picture: noise in, picture out."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from isometer.trial._family import Blueprint, family, pick
from isometer.trial._tasks import Task

Tensor = torch.Tensor

FAULTS: dict[str, str] = {
    "output-squashed": "the last layer ends in a function whose range leaves out most of the targets",
    "upsampling-wrong": "the decoder spreads one value over the whole picture",
    "branch-detached": "what the skips carry gets no gradient",
}


# U-Net.


def _draw_unet(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task="denoise",
        width=24 if large else pick(rng, 4, 6, 8),
        depth=2 if large else pick(rng, 1, 2),
        batch=32 if large else pick(rng, 16, 32),
        options={"norm": pick(rng, "batch", "group"), "up": pick(rng, "nearest", "transposed"), "skips": "cat"},
    )


class _UNet(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o = o = blueprint.options
        w, depth = blueprint.width, blueprint.depth
        widths = [w * 2**i for i in range(depth + 1)]
        if "bottleneck" in o:
            widths[-1] = o["bottleneck"]
        self.down = nn.ModuleList(
            [self.twice(task.shape[0] if i == 0 else widths[i - 1], widths[i]) for i in range(depth)]
        )
        self.middle = self.twice(widths[-2], widths[-1])
        self.up, self.merge = nn.ModuleList(), nn.ModuleList()
        for i in reversed(range(depth)):
            transposed = o["up"] == "transposed"
            self.up.append(
                nn.ConvTranspose2d(widths[i + 1], widths[i], 2, 2)
                if transposed
                else nn.Conv2d(widths[i + 1], widths[i], 1)
            )
            self.merge.append(self.twice(2 * widths[i] if o["skips"] in ("cat", "detached") else widths[i], widths[i]))
        self.last = nn.Conv2d(w, task.shape[0], 1)

    def norm(self, channels: int) -> nn.Module:
        if self.o["norm"] == "none":
            return nn.Identity()
        return nn.BatchNorm2d(channels) if self.o["norm"] == "batch" else nn.GroupNorm(math.gcd(2, channels), channels)

    def twice(self, before: int, after: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for channels in (before, after):
            conv = nn.Conv2d(channels, after, 3, padding=1)
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
            layers += [conv, self.norm(after), getattr(nn, self.o.get("activation", "ReLU"))()]
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(kept), strict=True):
            if self.o["up"] == "nearest":
                x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = up(x)
            x = F.pad(x, (0, skip.shape[-1] - x.shape[-1], 0, skip.shape[-2] - x.shape[-2]))  # odd sides lose a pixel
            if self.o["skips"] in ("cat", "detached"):
                x = torch.cat([x, skip.detach() if self.o["skips"] == "detached" else skip], dim=1)
            x = merge(x)
        out: Tensor = self.last(x)
        return F.relu(out) if self.o.get("end") == "relu" else out


@family(
    "unet",
    source="Ronneberger et al. 2015, U-Net",
    draw=_draw_unet,
    structural={
        "no-skips": {"skips": "none"},
        "no-norm": {"norm": "none"},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": lambda b, rng: b.changed(activation=pick(rng, "Sigmoid", "Softmax2d")),
        "bottleneck": lambda b, rng: b.changed(bottleneck=pick(rng, 1, 2)),
        "branch-detached": {"skips": "detached"},
        "output-squashed": {"end": "relu"},
    },
)
def unet(blueprint: Blueprint, task: Task) -> nn.Module:
    """Down and up again, with the way down carried across."""
    return _UNet(blueprint, task)


# Convolutional autoencoder.


def _draw_autoencoder(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task="denoise",
        width=64 if large else pick(rng, 8, 12, 16),
        depth=6 if large else int(rng.integers(0, 4)) + 1,
        batch=32 if large else pick(rng, 16, 32),
        options={"code": pick(rng, 16, 24, 32), "activation": pick(rng, "ReLU", "LeakyReLU", "SiLU"), "norm": True},
    )


@family(
    "conv-autoencoder",
    source="Vincent et al. 2010, Stacked denoising autoencoders; Masci et al. 2011",
    draw=_draw_autoencoder,
    structural={
        "no-norm": {"norm": False},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": {"activation": "Sigmoid"},
        "bottleneck": lambda b, rng: b.changed(code=pick(rng, 1, 2)),
        "output-squashed": lambda b, rng: b.changed(end=pick(rng, "Sigmoid", "ReLU", "Softsign")),
        "upsampling-wrong": {"spread": True},
    },
)
def conv_autoencoder(blueprint: Blueprint, task: Task) -> nn.Module:
    """Strided convolutions to a short code and transposed ones back."""
    o, w = blueprint.options, blueprint.width

    def stage(layer: nn.Module, channels: int) -> list[nn.Module]:
        return [layer, *([nn.BatchNorm2d(channels)] if o["norm"] else []), getattr(nn, o["activation"])()]

    encoder = nn.Sequential(
        *stage(nn.Conv2d(task.shape[0], w, 3, 2, 1), w),
        *[m for _ in range(blueprint.depth) for m in stage(nn.Conv2d(w, w, 3, 1, 1), w)],
        nn.Flatten(),
        nn.Linear(49 * w, o["code"]),
    )
    opened: list[nn.Module] = [nn.Linear(o["code"], 49 * w), nn.Unflatten(1, (w, 7, 7))]
    if o.get("spread"):
        opened = [nn.Linear(o["code"], w), nn.Unflatten(1, (w, 1, 1)), nn.Upsample(scale_factor=7)]
    decoder = nn.Sequential(
        *opened,
        *[m for _ in range(blueprint.depth) for m in stage(nn.ConvTranspose2d(w, w, 3, 1, 1), w)],
        nn.ConvTranspose2d(w, task.shape[0], 4, 2, 1),
    )
    if "end" in o:
        decoder.append(getattr(nn, o["end"])())
    model = nn.Sequential()
    model.add_module("encoder", encoder)
    model.add_module("decoder", decoder)
    for m in model.modules():
        if isinstance(m, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.xavier_uniform_(m.weight, gain=math.sqrt(2))
    return model


# DnCNN.


def _draw_dncnn(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task="denoise",
        width=32 if large else pick(rng, 6, 8, 12),
        depth=10 if large else int(rng.integers(1, 7)),
        batch=32 if large else pick(rng, 16, 32),
        options={"dilated": bool(rng.integers(2)), "norm": True, "residual": True},
    )


class _DnCNN(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, self.o = blueprint.width, blueprint.options
        self.first = nn.Conv2d(task.shape[0], width, 3, padding=1)
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        for i in range(blueprint.depth):
            rate = 1 + i % 3 if self.o["dilated"] else 1
            conv = nn.Conv2d(width, width, 3, padding=rate, dilation=rate, bias=False)
            nn.init.orthogonal_(conv.weight, gain=math.sqrt(2))
            self.convs.append(conv)
            self.norms.append(nn.BatchNorm2d(width))
        self.last = nn.Conv2d(width, task.shape[0], 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first(x))
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = norm(conv(h)) if self.o["norm"] else conv(h)
            kind = self.o.get("activation", "relu")
            h = h if kind == "none" else getattr(torch, kind)(h)
        noise: Tensor = self.last(h)
        if self.o.get("shape") == "mixed":
            noise = noise.permute(1, 2, 3, 0).reshape(noise.shape)  # samples and pixels swapped
        return x - noise if self.o["residual"] else noise


@family(
    "dncnn",
    source="Zhang et al. 2017, Beyond a Gaussian denoiser",
    draw=_draw_dncnn,
    structural={
        "no-skips": {"residual": False},
        "no-norm": {"norm": False},
        "no-activation": {"activation": "none"},
        "wrong-activation": {"activation": "sigmoid"},
        "wrong-reshape": {"shape": "mixed"},
    },
)
def dncnn(blueprint: Blueprint, task: Task) -> nn.Module:
    """A chain of convolutions that finds the noise, which is then subtracted."""
    return _DnCNN(blueprint, task)
