"""Residual networks for small images: three stages of basic blocks, or four of bottlenecks; and Fixup."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from isometer.errors import IsometerError
from isometer_papers.architectures.parts import activation_layer, aside, initialize_, norm_layer

Tensor = torch.Tensor


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions, each with a normalisation; the shortcut is added before the last activation.

    Example:
        >>> ResidualBlock(4, 8, 2, "batch", "relu")(torch.randn(2, 4, 6, 6)).shape
        torch.Size([2, 8, 3, 3])
    """

    expansion = 1

    def __init__(self, fan_in: int, channels: int, stride: int, norm: str, activation: str) -> None:
        super().__init__()
        bias = norm == "none"
        self.first = nn.Conv2d(fan_in, channels, 3, stride, 1, bias=bias)
        self.first_norm = norm_layer(norm, channels, images=True)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=bias)
        self.second_norm = norm_layer(norm, channels, images=True)
        self.activation = activation_layer(activation)
        self.shortcut = _shortcut(fan_in, channels, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        """Shortcut plus branch, then the activation."""
        branch = self.second_norm(self.second(self.activation(self.first_norm(self.first(x)))))
        total: Tensor = self.activation(self.shortcut(x) + branch)
        return total


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions; the last has four times the channels.

    Example:
        >>> Bottleneck(4, 2, 1, "batch", "relu")(torch.randn(2, 4, 6, 6)).shape
        torch.Size([2, 8, 6, 6])
    """

    expansion = 4

    def __init__(self, fan_in: int, channels: int, stride: int, norm: str, activation: str) -> None:
        super().__init__()
        wide, bias = 4 * channels, norm == "none"
        self.branch = nn.Sequential(
            nn.Conv2d(fan_in, channels, 1, bias=bias),
            norm_layer(norm, channels, images=True),
            activation_layer(activation),
            nn.Conv2d(channels, channels, 3, stride, 1, bias=bias),
            norm_layer(norm, channels, images=True),
            activation_layer(activation),
            nn.Conv2d(channels, wide, 1, bias=bias),
            norm_layer(norm, wide, images=True),
        )
        self.activation = activation_layer(activation)
        self.shortcut = _shortcut(fan_in, wide, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        """Shortcut plus branch, then the activation."""
        total: Tensor = self.activation(self.shortcut(x) + self.branch(x))
        return total


class FixupBlock(nn.Module):
    """Two convolutions without normalisation: scalar biases around each, a scalar factor, the last weights zero.

    Args:
        fan_in: channels that come in.
        channels: channels that go out.
        stride: of the first convolution.
        blocks: of the whole network: the first convolution is scaled by blocks^(−1/2).

    Example:
        >>> block = FixupBlock(4, 4, 1, blocks=54)
        >>> x = torch.randn(2, 4, 6, 6)
        >>> bool((block(x) == torch.relu(x)).all())
        True

    Implements: 004/fig-5.
    """

    expansion = 1

    def __init__(self, fan_in: int, channels: int, stride: int, *, blocks: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(fan_in, channels, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.biases = nn.Parameter(torch.zeros(4))
        self.factor = nn.Parameter(torch.ones(1))
        self.shortcut = _shortcut(fan_in, channels, stride, "none")
        self.blocks = blocks
        self.reset_(torch.Generator().manual_seed(0))

    @torch.no_grad()
    def reset_(self, generator: torch.Generator) -> None:
        """He's variance over `blocks` for the first convolution, zero for the second."""
        deviation = math.sqrt(2 / (self.first.weight[0].numel() * self.blocks))
        self.first.weight.normal_(0, deviation, generator=generator)
        self.second.weight.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """Shortcut plus branch, then ReLU."""
        b = self.biases
        branch = torch.relu(self.first(x + b[0]) + b[1])
        branch = self.second(branch + b[2]) * self.factor + b[3]
        total: Tensor = torch.relu(self.shortcut(x) + branch)
        return total


def _shortcut(fan_in: int, fan_out: int, stride: int, norm: str) -> nn.Module:
    if stride == 1 and fan_in == fan_out:
        return nn.Identity()
    projection = nn.Conv2d(fan_in, fan_out, 1, stride, bias=False)
    return projection if norm == "none" else nn.Sequential(projection, norm_layer(norm, fan_out, images=True))


@aside
def resnet(
    shape: tuple[int, int, int],
    classes: int,
    *,
    depth: int = 20,
    channels: Sequence[int] | None = None,
    norm: str = "batch",
    activation: str = "relu",
    init: str = "he",
    fixup: bool = False,
    seed: int = 0,
) -> nn.Sequential:
    """A residual network of 6m + 2 layers (8, 20, 32, 110 …), or of 50 with bottlenecks.

    Args:
        shape: shape of an image: channels, height, width.
        classes: outputs.
        depth: layers on the longest path.
        channels: of the stages; 16, 32, 64 by default, for depth 50 64, 128, 256, 512 before expansion.
        norm: `none`, `batch`, `batch-rescale`, `batch-rescale-std` or `layer`.
        activation: a name.
        init: see `initialize_`.
        fixup: Fixup blocks and initialisation; no normalisation, ReLU.
        seed: seed of the weights.

    Returns:
        The network.

    Example:
        >>> net = resnet((3, 32, 32), 10, depth=20)
        >>> sum(isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3) for m in net.modules())
        19

    Implements: 002/fig-7, 004/fig-4, 004/fig-5.
    """
    blocks: type[Bottleneck] | type[ResidualBlock]
    if depth == 50:
        sizes, blocks, wide = [3, 4, 6, 3], Bottleneck, list(channels or (64, 128, 256, 512))
    else:
        if depth < 8 or (depth - 2) % 6:
            raise IsometerError(f"depth is {depth}; expected 50 or 6m + 2: 8, 14, 20, 32, 110 — take the nearest")
        sizes, blocks, wide = [(depth - 2) // 6] * 3, ResidualBlock, list(channels or (16, 32, 64))
    if len(wide) != len(sizes):
        raise IsometerError(f"channels has {len(wide)} stages; expected {len(sizes)} for depth {depth}")
    if fixup and (norm != "none" or activation != "relu" or depth == 50):
        raise IsometerError(
            "fixup has basic blocks, ReLU and no normalisation — pass norm='none', another depth than 50"
        )
    bias = norm == "none" and not fixup
    layers: list[nn.Module] = [nn.Conv2d(shape[0], wide[0], 3, 1, 1, bias=bias)]
    layers += [norm_layer(norm, wide[0], images=True)] if norm != "none" else []
    layers.append(activation_layer(activation))
    fan_in = wide[0]
    for stage, (size, number) in enumerate(zip(sizes, wide, strict=True)):
        for index in range(size):
            stride = 2 if stage and not index else 1
            if fixup:
                layers.append(FixupBlock(fan_in, number, stride, blocks=sum(sizes)))
            else:
                layers.append(blocks(fan_in, number, stride, norm, activation))
            fan_in = number * (1 if fixup else blocks.expansion)
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(fan_in, classes)]
    network = nn.Sequential(*layers)
    generator = torch.Generator().manual_seed(seed)
    initialize_(network, init, generator)
    if fixup:
        for module in network.modules():
            if isinstance(module, FixupBlock):
                module.reset_(generator)
        with torch.no_grad():
            network[-1].weight.zero_()  # type: ignore[operator]
    return network
