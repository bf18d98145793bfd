"""An MLP, a ResNet and a GPT at any width and depth, in standard parametrisation and by the published tables.

The tables are those of Yang et al. 2022 (Tensor Programs V, table 8: the output layer has a multiplier 1/n in front of
weights of variance 1) and of Dey et al. 2025 (CompleteP: residual branches times 1/L). They are written here by hand:
measured exponents are compared with parametrisations that Isometer did not make.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Tensor = torch.Tensor
CLASSES, FEATURES, TOKENS, LENGTH, HEAD = 10, 16, 16, 16, 8
PLAIN, SCALED = "standard", "scaled"


@dataclass(frozen=True)
class BaseSize:
    """The size at which standard and scaled models are the same."""

    width: int = 32
    depth: int = 2


BASE = BaseSize()


class PlainMLP(nn.Module):
    """An MLP without skips, He's initialisation."""

    def __init__(self, width: int, depth: int, output: float = 1.0) -> None:
        super().__init__()
        sizes = [FEATURES, *[width] * (depth + 1)]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.head = nn.Linear(width, CLASSES)
        self.output = output
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = functional.relu(layer(x))
        return self.head(x * self.output)


class ConvBlock(nn.Module):
    """A residual block: norm, ReLU, convolution, twice."""

    def __init__(self, width: int, branch: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.branch = branch
        for layer in (self.first, self.second):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(functional.relu(self.norms[0](x)))
        return x + self.branch * self.second(functional.relu(self.norms[1](hidden)))


class SmallResNet(nn.Module):
    """A residual network for images of 8 × 8 pixels."""

    def __init__(self, width: int, depth: int, branch: float = 1.0, output: float = 1.0) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.blocks = nn.Sequential(*(ConvBlock(width, branch) for _ in range(depth)))
        self.norm = nn.BatchNorm2d(width)
        self.head = nn.Linear(width, CLASSES)
        self.output = output
        nn.init.kaiming_normal_(self.stem.weight, nonlinearity="linear")
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.norm(self.blocks(self.stem(x))))
        return self.head(hidden.mean((2, 3)) * self.output)


class GPTBlock(nn.Module):
    """Causal attention and an MLP, each behind a layer norm and beside a skip; heads have a fixed size."""

    def __init__(self, width: int, branch: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.query, self.key, self.value, self.project = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.branch = branch

    def attend(self, x: Tensor) -> Tensor:
        heads = [one(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for one in (self.query, self.key, self.value)]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.project(mixed.transpose(1, 2).flatten(2))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.branch * self.attend(self.norms[0](x))
        return x + self.branch * self.down(functional.gelu(self.up(self.norms[1](x))))


class SmallGPT(nn.Module):
    """Tokens in, tokens out."""

    def __init__(self, width: int, depth: int, branch: float = 1.0, output: float = 1.0) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(TOKENS, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(GPTBlock(width, branch) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, TOKENS, bias=False)
        self.output = output
        for name, parameter in self.blocks.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.tokens(x) + self.places.weight[: x.shape[1]]
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden)) * self.output


def _fixed_head(model: Any, base: BaseSize) -> None:
    """Output weights of a size that does not depend on the width: torch's at the base width."""
    nn.init.uniform_(model.head.weight, -(base.width**-0.5), base.width**-0.5)


def _adam(model: nn.Module, width: int, base: BaseSize, hidden: tuple[str, ...], lr: float) -> torch.optim.Optimizer:
    """Hidden matrices have a rate like 1/n, everything else a constant one."""
    wide = width / base.width
    named = dict(model.named_parameters())
    inside = [p for name, p in named.items() if name.startswith(hidden) and p.dim() > 1]
    chosen = {id(one) for one in inside}
    rest = [p for p in named.values() if id(p) not in chosen]
    return torch.optim.Adam([{"params": rest, "lr": lr}, {"params": inside, "lr": lr / wide}])


def _sgd(model: Any, width: int, depth: int, base: BaseSize, lr: float) -> torch.optim.Optimizer:
    """Vectors, input weights and output weights behind a multiplier 1/n have a rate like n; in branches, times L."""
    wide, deep = width / base.width, depth / base.depth
    groups = []
    for name, parameter in model.named_parameters():
        in_block, matrix = name.startswith("blocks"), parameter.dim() > 1
        rate = (1.0 if in_block and matrix else wide) * (deep if in_block else 1.0)
        if name == "head.bias":  # neither axis grows
            rate = 1.0
        groups.append({"params": [parameter], "lr": lr * rate})
    return torch.optim.SGD(groups, lr=lr, momentum=0.9)


def mlp(width: int, kind: str = PLAIN, base: BaseSize = BASE, depth: int = 3, lr: float = 2e-3) -> Any:
    """An MLP of three hidden layers; scaled is muP with Adam."""
    wide = width / base.width
    model = PlainMLP(width, depth, 1.0 if kind == PLAIN else 1 / wide)
    if kind == PLAIN:
        return model, torch.optim.Adam(model.parameters(), lr=lr)
    _fixed_head(model, base)
    hidden = tuple(f"layers.{place}." for place in range(1, depth + 1))
    return model, _adam(model, width, base, hidden, lr)


def resnet(width: int, depth: int, kind: str = PLAIN, base: BaseSize = BASE, lr: float = 5e-2) -> Any:
    """A ResNet with SGD; scaled is muP in width and CompleteP's branches in depth."""
    wide, deep = width / base.width, depth / base.depth
    if kind == PLAIN:
        model = SmallResNet(width, depth)
        return model, torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    model = SmallResNet(width, depth, branch=1 / deep, output=1 / wide)
    _fixed_head(model, base)
    return model, _sgd(model, width, depth, base, lr)


def gpt(width: int, depth: int, kind: str = PLAIN, base: BaseSize = BASE, lr: float = 2e-3) -> Any:
    """A GPT with Adam; scaled is CompleteP."""
    wide, deep = width / base.width, depth / base.depth
    if kind == PLAIN:
        model = SmallGPT(width, depth)
        return model, torch.optim.Adam(model.parameters(), lr=lr)
    model = SmallGPT(width, depth, branch=1 / deep, output=1 / wide)
    _fixed_head(model, base)
    return model, _adam(model, width, base, ("blocks",), lr)


def images(count: int = 64, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Classes that differ in a fixed pattern, in noise."""
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.randn(CLASSES, 3, 8, 8, generator=torch.Generator().manual_seed(12345))
    labels = torch.randint(CLASSES, (count,), generator=generator)
    return 0.5 * patterns[labels] + torch.randn(count, 3, 8, 8, generator=generator), labels


def vectors(count: int = 64, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The class is the largest of ten random quadratic forms."""
    generator = torch.Generator().manual_seed(seed)
    forms = torch.randn(CLASSES, FEATURES, FEATURES, generator=torch.Generator().manual_seed(12345))
    x = torch.randn(count, FEATURES, generator=generator)
    return x, torch.einsum("bi,cij,bj->bc", x, forms, x).argmax(1)


def texts(count: int = 32, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A chain in which the last two tokens have two successors, and the next tokens."""
    generator = torch.Generator().manual_seed(seed)
    successors = torch.randint(TOKENS, (TOKENS, TOKENS, 2), generator=torch.Generator().manual_seed(12345))
    rows = [torch.randint(TOKENS, (count,), generator=generator) for _ in range(2)]
    for _ in range(LENGTH - 1):
        rows.append(successors[rows[-2], rows[-1], torch.randint(2, (count,), generator=generator)])
    chain = torch.stack(rows, 1)
    return chain[:, :-1], chain[:, 1:]


DATA: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {"mlp": vectors, "resnet": images, "gpt": texts}
FACTORIES: dict[str, Callable[..., Any]] = {"mlp": mlp, "resnet": resnet, "gpt": gpt}
