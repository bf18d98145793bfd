"""Pieces the patients are built from: weight laws, residual branches, recentring."""

from __future__ import annotations

import math

import torch
from torch import nn

Tensor = torch.Tensor


def initialise_(layer: nn.Linear | nn.Conv2d, law: str, gain: float = 1.0, bias: float = 0.0) -> None:
    """Draw the weights of a layer, in place.

    `gaussian` has variance gain²/fan-in, `orthogonal` is a random orthogonal matrix times the gain, `asymmetric` is
    uniform on [0, 2/√fan-in], the law of 002 that breaks batch norm, and `default` leaves what PyTorch drew.

    Args:
        layer: the layer.
        law: one of the four.
        gain: gain of the first two laws.
        bias: what every bias is set to, except under `default`.

    Example:
        >>> layer = nn.Linear(100, 50)
        >>> initialise_(layer, "asymmetric")
        >>> 0 <= layer.weight.min().item() and layer.weight.max().item() <= 0.2
        True

    Implements: 002/init-asym, 002/alg-asym-init.
    """
    fan_in = layer.weight[0].numel()
    if law == "gaussian":
        nn.init.normal_(layer.weight, std=gain / math.sqrt(fan_in))
    elif law == "orthogonal":
        nn.init.orthogonal_(layer.weight, gain)
    elif law == "asymmetric":
        nn.init.uniform_(layer.weight, 0.0, 2 / math.sqrt(fan_in))
    if law != "default" and layer.bias is not None:
        nn.init.constant_(layer.bias, bias)


class Residual(nn.Module):
    """`x + branch(x)`."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: Tensor) -> Tensor:
        """Add the branch."""
        branch: Tensor = self.branch(x)
        return x + branch


class Recentre(nn.Module):
    """Subtract the mean over the batch and do not rescale: half of batch norm.

    Implements: the recentring of 000/net-rc-relu.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Subtract the mean over the batch."""
        return x - x.mean(0)


class Scaled(nn.Module):
    """An activation between two constants: `outer * activation(inner * x) - shift`."""

    def __init__(self, activation: nn.Module, *, inner: float = 1.0, outer: float = 1.0, shift: float = 0.0) -> None:
        super().__init__()
        self.activation, self.inner, self.outer, self.shift = activation, inner, outer, shift

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        y: Tensor = self.activation(self.inner * x)
        return self.outer * y - self.shift
