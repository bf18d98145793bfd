"""Convolutional networks, sick and healthy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from isometer.doctor.patients._inputs import Shape, repeated
from isometer.doctor.patients._layers import initialise_
from isometer.doctor.patients._patient import Build, Patient, seeded

Tensor = torch.Tensor
HE = math.sqrt(2)


def _convolution(fan_in: int, fan_out: int, stride: int, law: str, gain: float) -> nn.Conv2d:
    convolution = nn.Conv2d(fan_in, fan_out, 3, stride, 1)
    initialise_(convolution, law, gain)
    return convolution


def _head(channels: int, classes: int, law: str) -> list[nn.Module]:
    linear = nn.Linear(channels, classes)
    initialise_(linear, law if law in ("default", "asymmetric") else "gaussian")
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear]


def vgg(
    stages: Sequence[tuple[int, int]], *, batch_norm: bool = True, law: str = "gaussian", gain: float = HE
) -> Build:
    """A plain stack of 3×3 convolutions with ReLU, the first of every stage with stride 2, and average pooling.

    Args:
        stages: channels and number of layers of each stage.
        batch_norm: whether every convolution is followed by batch norm.
        law: law of the weights, see `initialise_`.
        gain: gain of the weights.

    Example:
        >>> sum(isinstance(m, nn.Conv2d) for m in vgg([(8, 2), (16, 1)])(0, (1, 28, 28), 10).modules())
        3
    """

    def factory(shape: Shape, classes: int) -> nn.Module:
        layers: list[nn.Module] = []
        channels = shape[0]
        for wide, number in stages:
            for index in range(number):
                layers.append(_convolution(channels, wide, 1 if index else 2, law, gain))
                layers += [nn.BatchNorm2d(wide), nn.ReLU()] if batch_norm else [nn.ReLU()]
                channels = wide
        return nn.Sequential(*layers, *_head(channels, classes, law))

    return seeded(factory)


class Block(nn.Module):
    """Two 3×3 convolutions with batch norm and a shortcut, with the activation before or after the addition."""

    def __init__(self, fan_in: int, fan_out: int, stride: int, law: str, gain: float, preactivation: bool) -> None:
        super().__init__()
        self.preactivation = preactivation
        self.first = _convolution(fan_in, fan_out, stride, law, gain)
        self.second = _convolution(fan_out, fan_out, 1, law, gain)
        self.norms = nn.ModuleList([nn.BatchNorm2d(fan_in if preactivation else fan_out), nn.BatchNorm2d(fan_out)])
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or fan_in != fan_out:
            projection = nn.Conv2d(fan_in, fan_out, 1, stride)
            initialise_(projection, law)
            self.shortcut = projection

    def forward(self, x: Tensor) -> Tensor:
        """The shortcut plus the branch."""
        if self.preactivation:
            branch = self.second(torch.relu(self.norms[1](self.first(torch.relu(self.norms[0](x))))))
            total: Tensor = self.shortcut(x) + branch
            return total
        branch = self.norms[1](self.second(torch.relu(self.norms[0](self.first(x)))))
        return torch.relu(self.shortcut(x) + branch)


def resnet(
    stages: Sequence[tuple[int, int]], *, preactivation: bool = True, law: str = "gaussian", gain: float = HE
) -> Build:
    """A residual network: a stem with stride 2 and stages of blocks of two convolutions with batch norm.

    Args:
        stages: channels and number of blocks of each stage.
        preactivation: whether normalisation and activation come before the convolutions.
        law: law of the weights.
        gain: gain of the weights.

    Example:
        >>> sum(isinstance(m, Block) for m in resnet([(8, 2), (16, 1)])(0, (1, 28, 28), 10).modules())
        3
    """

    def factory(shape: Shape, classes: int) -> nn.Module:
        channels = stages[0][0]
        layers: list[nn.Module] = [_convolution(shape[0], channels, 2, law, gain)]
        if not preactivation:
            layers += [nn.BatchNorm2d(channels), nn.ReLU()]
        for stage, (wide, number) in enumerate(stages):
            for index in range(number):
                stride = 2 if stage and not index else 1
                layers.append(Block(channels, wide, stride, law, gain, preactivation))
                channels = wide
        if preactivation:
            layers += [nn.BatchNorm2d(channels), nn.ReLU()]
        return nn.Sequential(*layers, *_head(channels, classes, law))

    return seeded(factory)


class UNet(nn.Module):
    """Down twice, up twice, with concatenated skips, and a pooled linear head."""

    def __init__(self, channels: int, wide: int, classes: int) -> None:
        super().__init__()
        self.enter = self._pair(channels, wide)
        self.down = self._pair(wide, 2 * wide)
        self.bottom = self._pair(2 * wide, 2 * wide)
        self.up = self._pair(4 * wide, wide)
        self.leave = self._pair(2 * wide, wide)
        self.head = nn.Sequential(*_head(wide, classes, "default"))

    @staticmethod
    def _pair(fan_in: int, fan_out: int) -> nn.Module:
        return nn.Sequential(_convolution(fan_in, fan_out, 1, "gaussian", HE), nn.BatchNorm2d(fan_out), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        first = self.enter(nn.functional.avg_pool2d(x, 2))  # (n, c, 14, 14)
        second = self.down(nn.functional.max_pool2d(first, 2))  # (n, 2c, 7, 7)
        third = self.bottom(nn.functional.max_pool2d(second, 2))  # (n, 2c, 3, 3)
        up = nn.functional.interpolate(third, size=second.shape[-2:])
        up = self.up(torch.cat([up, second], 1))
        up = nn.functional.interpolate(up, size=first.shape[-2:])
        logits: Tensor = self.head(self.leave(torch.cat([up, first], 1)))
        return logits


_VGG = ((16, 3), (32, 3), (32, 2))
_RESNET = ((16, 3), (32, 3), (32, 3))

HEALTHY = (
    Patient("vgg-bn-8", "VGG-like net of 8 convolutions with batch norm", (), "convnet", vgg(_VGG), "image"),
    Patient(
        "vgg-8", "VGG-like net of 8 convolutions at the gain of He", (), "convnet", vgg(_VGG, batch_norm=False), "image"
    ),
    Patient("resnet-20", "ResNet-20-like net, activation before convolution", (), "convnet", resnet(_RESNET), "image"),
    Patient(
        "resnet-plain-20",
        "ResNet-20-like net, activation after addition",
        (),
        "convnet",
        resnet(_RESNET, preactivation=False),
        "image",
    ),
    Patient(
        "unet", "small U-Net-like net with a pooled head", (), "convnet", seeded(lambda s, c: UNet(s[0], 8, c)), "image"
    ),
)

SICK = (
    Patient(
        "vgg-bn-asymmetric-8",
        "VGG-like net with batch norm and positive weights",
        ("asymmetric-init",),
        "convnet",
        vgg(_VGG, law="asymmetric"),
        "image",
        "vgg-bn-8",
    ),
    Patient(
        "resnet-asymmetric-20",
        "ResNet-20-like net with batch norm and positive weights",
        ("asymmetric-init",),
        "convnet",
        resnet(_RESNET, preactivation=False, law="asymmetric"),
        "image",
        "resnet-plain-20",
    ),
    Patient(
        "vgg-default-8",
        "VGG-like net of 8 convolutions without normalisation, as PyTorch initialises it",
        ("wrong-gain", "rank-collapse", "gradient-vanishing"),
        "convnet",
        vgg(_VGG, batch_norm=False, law="default"),
        "image",
        "vgg-8",
    ),
    Patient(
        "vgg-large-gain-8",
        "VGG-like net of 8 convolutions without normalisation, with four times the gain of He",
        ("wrong-gain", "activation-explosion", "gradient-explosion"),
        "convnet",
        vgg(_VGG, batch_norm=False, gain=4 * HE),
        "image",
        "vgg-8",
    ),
    Patient(
        "vgg-bn-repeated-8",
        "VGG-like net with batch norm, on batches of one sample repeated 32 times",
        ("degenerate-batch",),
        "convnet",
        vgg(_VGG),
        "image",
        "vgg-bn-8",
        defect=repeated(1),
    ),
)
