"""What the architectures share: normalisations, activations and initial weights by name."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import ParamSpec

import torch
from torch import nn

from isometer.activations import torch_module
from isometer.errors import unknown_name
from isometer.nn import Activation, BatchNormParts

Tensor = torch.Tensor
Weighted = nn.Linear | nn.Conv2d
NORMS = ("none", "batch", "batch-rescale", "batch-rescale-std", "layer")
"""Names of normalisations that the architectures take."""
ACTIVATIONS = ("relu", "normrelu", "selu", "tanh", "sin", "identity")
"""Names of activations that the architectures take."""
INITIALIZERS = ("he", "default", "xavier", "gaussian", "positive")
"""Names of weight initialisations that the architectures take."""


P = ParamSpec("P")


def aside(build: Callable[P, nn.Sequential]) -> Callable[P, nn.Sequential]:
    """Leaves torch's own generator as it was: layers draw from it as they are made.

    Example:
        >>> before = torch.get_rng_state()
        >>> net = aside(lambda: nn.Sequential(nn.Linear(2, 2)))()
        >>> torch.equal(torch.get_rng_state(), before)
        True
    """

    @functools.wraps(build)
    def quiet(*args: P.args, **options: P.kwargs) -> nn.Sequential:
        with torch.random.fork_rng(devices=[]):
            return build(*args, **options)

    return quiet


def norm_layer(name: str, channels: int, *, images: bool) -> nn.Module:
    """A normalisation over the batch or over the features of a sample, with its affine part.

    Args:
        name: `none`, `batch`, `batch-rescale` (batch norm without the mean, divided by the root mean square),
            `batch-rescale-std` (without the mean, divided by the deviation from it) or `layer`.
        channels: features or channels.
        images: whether inputs are `(n, channels, height, width)`; layer norm then normalises all of a sample.

    Returns:
        The module; the identity for `none`.

    Example:
        >>> norm_layer("batch", 8, images=True)
        BatchNorm2d(8, ...)
    """
    if name == "none":
        return nn.Identity()
    if name == "batch":
        return nn.BatchNorm2d(channels) if images else nn.BatchNorm1d(channels)
    if name in ("batch-rescale", "batch-rescale-std"):
        return BatchNormParts(channels, name, affine=True)
    if name == "layer":
        return nn.GroupNorm(1, channels) if images else nn.LayerNorm(channels)
    raise unknown_name("norm", name, NORMS)


def activation_layer(name: str) -> nn.Module:
    """A module for an activation of `ACTIVATIONS`, or any that `isometer.activation` knows.

    Example:
        >>> activation_layer("relu"), activation_layer("normrelu").kink < 0
        (ReLU(), True)
    """
    own: nn.Module | None = torch_module(name)
    return Activation(name) if own is None else own


def initialize_(module: nn.Module, name: str, generator: torch.Generator) -> nn.Module:
    """Draw the weights of all linear and convolutional layers from a law; biases are zero unless `default`.

    Args:
        module: the network.
        name: `he` (variance 2 over the fan-in), `default` (PyTorch's), `xavier` (uniform), `gaussian` (variance 1 over
            the fan-in) or `positive` (uniform on [0, 2b], b as `default` has it: the same variance, the mean is b).
        generator: source of random numbers; torch's own is not touched.

    Returns:
        The module.

    Example:
        >>> layer = initialize_(nn.Linear(1000, 10), "positive", torch.Generator().manual_seed(0))
        >>> bool((layer.weight >= 0).all())
        True

    Implements: 000/init-he, 002/alg-asym.
    """
    if name not in INITIALIZERS:
        raise unknown_name("init", name, INITIALIZERS)
    for layer in module.modules():
        if isinstance(layer, Weighted):
            _draw(layer, name, generator)
    return module


@torch.no_grad()
def _draw(layer: Weighted, name: str, generator: torch.Generator) -> None:
    weight = layer.weight
    fan_in = weight[0].numel()
    bound = 1 / math.sqrt(fan_in)
    if name == "he":
        weight.normal_(0, math.sqrt(2 / fan_in), generator=generator)
    elif name == "gaussian":
        weight.normal_(0, bound, generator=generator)
    elif name == "xavier":
        fan_out = weight.shape[0] * weight[0, 0].numel()
        edge = math.sqrt(6 / (fan_in + fan_out))
        weight.uniform_(-edge, edge, generator=generator)
    else:
        low, high = (-bound, bound) if name == "default" else (0.0, 2 * bound)
        weight.uniform_(low, high, generator=generator)
    if layer.bias is not None:
        if name == "default":
            layer.bias.uniform_(-bound, bound, generator=generator)
        else:
            layer.bias.zero_()
