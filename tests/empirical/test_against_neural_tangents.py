"""Kernels of finite networks against those of neural-tangents, `support/references/generate_empirical_kernels.py`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import support
from isometer import empirical_kernel

Tensor = torch.Tensor
REFERENCES = Path(support.__file__).parent / "references" / "empirical_kernels.json"


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    layer = nn.Linear(*weight.shape).double()
    layer.weight.data, layer.bias.data = weight.T.clone(), bias.flatten().clone()
    return layer


def _conv(weight: Tensor, bias: Tensor) -> nn.Conv2d:
    layer = nn.Conv2d(weight.shape[2], weight.shape[3], 3, padding=1).double()
    layer.weight.data, layer.bias.data = weight.permute(3, 2, 0, 1).clone(), bias.flatten().clone()
    return layer


def _normed(x: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], eps=1e-12)


class Erf(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.erf(x)


class ConvolutionsOfReference(nn.Module):
    """Images come with their channels last."""

    def __init__(self, weights: list[Tensor]) -> None:
        super().__init__()
        self.convs = nn.ModuleList(_conv(*weights[i : i + 2]) for i in range(0, 8, 2))
        self.end = _linear(*weights[8:])

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.convs[0](x.movedim(-1, 1)))
        inner = _normed(self.convs[1](x).movedim(1, -1)).movedim(-1, 1)
        x = functional.relu(x + self.convs[2](functional.relu(inner)))
        x = functional.relu(self.convs[3](functional.avg_pool2d(x, 2)))
        return self.end(x.mean((2, 3)))


class TransformerOfReference(nn.Module):
    """Attention has the tangent parametrisation: factors of the widths stand outside of the weights."""

    def __init__(self, weights: list[Tensor]) -> None:
        super().__init__()
        names = ("query", "key", "value", "out", "bias")
        for name, one in zip(names, weights, strict=False):
            self.register_parameter(name, nn.Parameter(one.clone()))
        self.inner, self.outer, self.end = (_linear(*weights[i : i + 2]) for i in (5, 7, 9))

    def attention(self, x: Tensor) -> Tensor:
        features, keys = self.key.shape[1:]
        q, k, v = (torch.einsum("nti,hij->hntj", x, one) for one in (self.query, self.key, self.value))
        mixed = torch.softmax(2.0 * q @ k.mT / (features * math.sqrt(keys)), -1) @ v
        mixed = mixed.movedim(0, -1).flatten(2)
        return 1.2 * mixed @ self.out / math.sqrt(self.out.shape[0] * features) + 0.3 * self.bias

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(_normed(x))
        x = x + self.outer(torch.erf(self.inner(_normed(x))))
        return self.end(x.mean(1))


def _perceptron(weights: list[Tensor]) -> nn.Module:
    first, second, third, end = (_linear(*weights[i : i + 2]) for i in range(0, 8, 2))
    return nn.Sequential(first, Erf(), second, nn.ReLU(), third, nn.ReLU(), end)


MAKERS: dict[str, Any] = {
    "perceptron": _perceptron,
    "residual convolutions": ConvolutionsOfReference,
    "transformer block": TransformerOfReference,
}


@pytest.mark.parametrize("name", MAKERS)
def test_kernels_of_finite_networks_are_those_of_neural_tangents(name: str) -> None:
    """Their two ways differ by less than 1e-15, so 1e-12 is all ours."""
    reference = json.loads(REFERENCES.read_text())[name]
    assert reference["spread"] < 1e-14
    model = MAKERS[name]([torch.tensor(one, dtype=torch.float64) for one in reference["weights"]])
    batch, other = (torch.tensor(reference[key], dtype=torch.float64) for key in ("batch", "other"))
    for found, key in (
        (empirical_kernel(model, batch, outputs="full"), "full"),
        (empirical_kernel(model, batch, outputs="full", method="contraction"), "full"),
        (empirical_kernel(model, batch, other), "trace_between"),
        (empirical_kernel(model, batch, kind="nngp"), "nngp"),
    ):
        expected = np.asarray(reference[key])
        np.testing.assert_allclose(found.matrix, expected, rtol=0, atol=1e-12 * np.abs(expected).max(), err_msg=key)
