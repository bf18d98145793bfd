"""The convnets of 003/table-3, derived from AlexNet."""

from __future__ import annotations

import torch
from torch import nn

from isometer.errors import IsometerError
from isometer_papers.architectures.parts import aside, initialize_


@aside
def deep_alexnet(
    shape: tuple[int, int, int],
    classes: int,
    *,
    convolutions: int = 20,
    channels: tuple[int, int, int] = (64, 192, 256),
    hidden: int = 4096,
    init: str = "xavier",
    seed: int = 0,
) -> nn.Sequential:
    """3×3 convolutions, of which all but four are repeated blocks of convolution and ReLU, and three linear layers.

    Args:
        shape: shape of an image: channels, height, width.
        classes: outputs.
        convolutions: in all, 20 and 80 in the paper.
        channels: of the first, the second and all further convolutions.
        hidden: units of the two hidden linear layers.
        init: see `initialize_`.
        seed: seed of the weights.

    Returns:
        The network.

    Example:
        >>> net = deep_alexnet((3, 32, 32), 10, convolutions=6, channels=(4, 8, 8), hidden=16)
        >>> sum(isinstance(m, nn.Conv2d) for m in net), net(torch.randn(2, 3, 32, 32)).shape
        (6, torch.Size([2, 10]))

    Implements: 003/table-3.
    """
    if convolutions < 4:
        raise IsometerError(f"convolutions is {convolutions}; expected at least 4 — the paper has 20 and 80")
    first, second, third = channels
    layers: list[nn.Module] = [
        *(nn.Conv2d(shape[0], first, 3, 2, 1), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(first, second, 3, 1, 1), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(second, third, 3, 1, 1), nn.Conv2d(third, third, 3, 1, 1), nn.ReLU()),
    ]
    for _ in range(convolutions - 4):
        layers += [nn.Conv2d(third, third, 3, 1, 1), nn.ReLU()]
    side = [-(-size // 2) // 4 // 2 for size in shape[1:]]
    if min(side) < 1:
        raise IsometerError(f"images of {shape[1]}×{shape[2]} are too small; expected at least 15×15 — resize them")
    layers += [nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()]
    layers += [nn.Dropout(0.5), nn.Linear(third * side[0] * side[1], hidden), nn.ReLU()]
    layers += [nn.Dropout(0.5), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes)]
    network = nn.Sequential(*layers)
    initialize_(network, init, torch.Generator().manual_seed(seed))
    return network
