"""Fully connected networks."""

from __future__ import annotations

import torch
from torch import nn

from isometer.errors import IsometerError
from isometer.nn import Activation
from isometer_papers.architectures.parts import activation_layer, aside, initialize_, norm_layer


@aside
def mlp(
    features: int,
    classes: int,
    *,
    depth: int,
    width: int,
    activation: str = "relu",
    norm: str = "none",
    init: str = "he",
    bias: bool = False,
    gain_exponent: float | None = None,
    seed: int = 0,
) -> nn.Sequential:
    """`depth` hidden layers (linear, normalisation, activation) and a linear readout; images are flattened.

    Args:
        features: of an input.
        classes: outputs.
        depth: hidden layers.
        width: width of each.
        activation: a name.
        norm: `none`, `batch`, `batch-rescale`, `batch-rescale-std` or `layer`.
        init: of the weights, see `initialize_`; `orthogonal` draws Haar-orthogonal square matrices.
        bias: bias of the hidden layers.
        gain_exponent: p of the gains α = ℓ^(−p) that shape the activations, φ(αx), the identity's too; None leaves them
            as they are.
        seed: seed of the weights.

    Returns:
        A sequence: flatten, then per layer linear, (norm,) activation; then the readout.

    Example:
        >>> net = mlp(784, 10, depth=2, width=8, norm="batch")
        >>> [type(m).__name__ for m in net][:4], net(torch.randn(4, 1, 28, 28)).shape
        (['Flatten', 'Linear', 'BatchNorm1d', 'ReLU'], torch.Size([4, 10]))

    Implements: 002/fig-5, 003/net-torch, 001/act-gain.
    """
    if depth < 1 or width < 1:
        raise IsometerError(f"depth is {depth} and width {width}; expected at least 1 of each")
    layers: list[nn.Module] = [nn.Flatten()]
    for i in range(depth):
        layers.append(nn.Linear(features if i == 0 else width, width, bias=bias))
        if norm != "none":
            layers.append(norm_layer(norm, width, images=False))
        if gain_exponent is not None:
            layers.append(Activation(activation, gain=(i + 1) ** -gain_exponent))
        elif activation != "identity":
            layers.append(activation_layer(activation))
    layers.append(nn.Linear(width, classes))
    network = nn.Sequential(*layers)
    if init != "orthogonal":
        initialize_(network, init, torch.Generator().manual_seed(seed))
        return network
    from isometer.init import haar_orthogonal_

    haar_orthogonal_(network, seed=seed)
    for layer in network.modules():
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return network
