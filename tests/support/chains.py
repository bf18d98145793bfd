"""Chains whose law a test knows, for what the doctor extracts and predicts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from isometer.doctor import Examination, probe
from isometer.doctor.prediction import ExtractedChain, extract, why_not

WIDTH, SAMPLES, DEPTH = 48, 6, 6
NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm1d,
    "layer": nn.LayerNorm,
    "rms": nn.RMSNorm,
    "": lambda width: nn.Identity(),
}


class Net(nn.Module):
    """Blocks in a loop; Gaussian or orthogonal weights of a given gain."""

    def __init__(
        self,
        phi: Callable[[torch.Tensor], torch.Tensor] = torch.relu,
        *,
        depth: int = DEPTH,
        width: int = WIDTH,
        norm: str = "",
        form: str = "pre",
        gain: float = 1.0,
        bias: float = 0.0,
        gamma: float = 1.0,
        orthogonal: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.phi, self.form, self.gamma = phi, form, gamma
        self.weights = nn.ModuleList([nn.Linear(width, width, bias=bias > 0) for _ in range(depth)])
        for layer in self.weights:
            if orthogonal:
                nn.init.orthogonal_(layer.weight, gain)
            else:
                nn.init.normal_(layer.weight, 0.0, gain / math.sqrt(width))
            if bias:
                nn.init.normal_(layer.bias, 0.0, math.sqrt(bias))
        self.norms = nn.ModuleList([NORMS[norm](width) for _ in range(depth)])
        self.stem = nn.Linear(width, width)
        self.head = nn.Linear(width, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x) if "skip" in self.form else x
        for weights, norm in zip(self.weights, self.norms, strict=True):
            if self.form == "pre":
                x = self.phi(norm(weights(x)))
            elif self.form == "post":
                x = norm(self.phi(weights(x)))
            elif self.form == "skip":
                x = x + self.gamma * weights(self.phi(norm(x)))
            elif self.form == "skip-alpha":
                x = self.phi(torch.add(x, weights(x), alpha=self.gamma))
            elif self.form == "skip-outside":
                x = x + self.phi(weights(x)) * self.gamma
            elif self.form == "scaled":
                x = self.phi(weights(x)) * self.gamma
            elif self.form == "product":
                x = self.phi(x @ weights.weight.T)
        return self.head(x)


def draw(samples: int = SAMPLES, width: int = WIDTH, seed: int = 0, **options: Any) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(1, width, generator=generator, **options)
    return torch.randn(samples, width, generator=generator, **options) + 0.5 * common


def chain_of(model: nn.Module, batch: Any, **options: Any) -> tuple[ExtractedChain, Examination]:
    found = probe(model, batch, **options)
    chain = extract(model, found)
    assert chain is not None, why_not(model, found)
    return chain, found
