"""VGG-shaped networks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from isometer_papers.architectures.parts import activation_layer, aside, initialize_, norm_layer

VGG19: tuple[int | str, ...] = (
    *(64, 64, "pool", 128, 128, "pool", 256, 256, 256, 256, "pool"),
    *(512, 512, 512, 512, "pool", 512, 512, 512, 512, "pool"),
)


@aside
def vgg(
    shape: tuple[int, int, int],
    classes: int,
    *,
    plan: Sequence[int | str] = VGG19,
    norm: str = "batch",
    activation: str = "relu",
    init: str = "default",
    seed: int = 0,
) -> nn.Sequential:
    """3×3 convolutions with normalisation and activation, pooling in between, average pooling and a linear readout.

    Args:
        shape: shape of an image: channels, height, width.
        classes: outputs.
        plan: channels of each convolution, and `"pool"` where the size is halved (left out once it is 1).
        norm: after each convolution: `none`, `batch`, `batch-rescale`, `batch-rescale-std` or `layer`.
        activation: a name.
        init: see `initialize_`.
        seed: seed of the weights.

    Returns:
        The network.

    Example:
        >>> net = vgg((3, 32, 32), 10)
        >>> sum(isinstance(m, nn.Conv2d) for m in net)
        16
        >>> vgg((1, 28, 28), 10, plan=(8, "pool", 16), norm="none")(torch.randn(2, 1, 28, 28)).shape
        torch.Size([2, 10])

    Implements: 002/fig-7, 002/fig-8, 002/fig-11.
    """
    layers: list[nn.Module] = []
    channels, size = shape[0], min(shape[1:])
    for entry in plan:
        if isinstance(entry, str):
            if size >= 2:
                layers.append(nn.MaxPool2d(2))
                size //= 2
            continue
        layers.append(nn.Conv2d(channels, entry, 3, padding=1))
        if norm != "none":
            layers.append(norm_layer(norm, entry, images=True))
        layers.append(activation_layer(activation))
        channels = entry
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
    network = nn.Sequential(*layers)
    initialize_(network, init, torch.Generator().manual_seed(seed))
    return network
