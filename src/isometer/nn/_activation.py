"""Activations as modules: any of them, normalised, with a gain, and NormReLU."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from isometer import activations
from isometer.activations import normrelu_constants
from isometer.activations._names import torch_module
from isometer.activations._registry import NORMRELU_KINK
from isometer.spec import Chain
from isometer.spec._activation import resolved

Tensor = torch.Tensor


class Activation(nn.Module):
    """Any activation as a module: `x ↦ φ(gain · x)`, differentiable, on every device.

    Args:
        source: whatever `isometer.activation` takes: a name, an expression, an `isometer.Activation`, a callable.
        gain: α, a factor before φ.
        normalized: subtract the mean of φ(αX) under a standard Gaussian and divide by its deviation.

    Example:
        >>> Activation("leaky_relu(0.5)")(torch.tensor([-2.0, 3.0])).tolist()
        [-1.0, 3.0]
        >>> x = torch.randn(200000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        >>> y = Activation("relu", normalized=True)(x)
        >>> bool(y.mean().abs() < 0.01), bool((y.square().mean() - 1).abs() < 0.02)
        (True, True)

    Implements: 001/act-gain, 004/eq-2.
    """

    def __init__(self, source: Any, *, gain: float = 1.0, normalized: bool = False) -> None:
        super().__init__()
        self.plain, self.gain, self.normalized = activations.activation(source), float(gain), normalized
        phi = self.plain if gain == 1.0 else self.plain.gain(gain)
        self.activation = phi.normalized() if normalized else phi

    def extra_repr(self) -> str:
        return self.activation.name

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.activation(x)
        return result


class NormReLU(nn.Module):
    """`λ(c) [max(x − c, 0) + b(c)]` with λ and b such that a standard Gaussian gets mean 0 and mean square 1.

    Args:
        kink: c.

    Example:
        >>> unit = NormReLU()
        >>> round(unit.scale, 2), round(unit.shift, 4)
        (1.05, -1.6209)

    Implements: 004/eq-4, 004/normrelu.
    """

    def __init__(self, kink: float = NORMRELU_KINK) -> None:
        super().__init__()
        self.kink = float(kink)
        self.shift, self.scale = normrelu_constants(self.kink)

    def extra_repr(self) -> str:
        return f"kink={self.kink:g}"

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * (torch.relu(x - self.kink) + self.shift)


def activation_module(spec: Chain, layer: int) -> nn.Module:
    """The module of a chain's activation at a layer."""
    return step_activation(spec.activation, spec.at("activation_gain", layer))


def step_activation(text: str, gain: float = 1.0) -> nn.Module:
    """The module of an activation in a spec: torch's own where it has one, which other tools recognise.

    Example:
        >>> step_activation("tanh"), step_activation("tanh", 0.5)
        (Tanh(), Activation(gain(tanh, 0.5)))
    """
    own: nn.Module | None = torch_module(text, spec=True) if gain == 1.0 else None
    return Activation(resolved(text), gain=gain) if own is None else own
