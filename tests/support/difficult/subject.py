"""What a difficult model is made of: a body of some architecture, difficult parts, and what its owner holds besides."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Tensor = torch.Tensor
WIDTH, SAMPLES, TOKENS = 8, 6, 4


class OwnError(RuntimeError):
    """What the models raise that raise."""


@dataclass
class Subject:
    """A model, a batch for it, and what else would show a change: other models, views, optimisers."""

    model: Any
    batch: Any
    outside: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Trait:
    """One difficulty.

    Args:
        name: of the trait.
        group: the class of difficulties that it belongs to.
        apply: puts it into a subject.
        stage: `"part"` adds a part or changes the host, `"kind"` changes what the finished model is, at most one each.
        changes: whether calling the model changes something.
    """

    name: str
    group: str
    apply: Callable[[Subject], None]
    stage: str
    changes: bool


TRAITS: dict[str, Trait] = {}


def _add(function: Callable[..., Any], apply: Callable[[Subject], None], group: str, stage: str, changes: bool) -> None:
    name = function.__name__.strip("_")
    assert name not in TRAITS, name
    TRAITS[name] = Trait(name, group, apply, stage, changes)


def step(group: str, *, setup: Callable[[Part], Any] | None = None, changes: bool = True) -> Callable[..., Any]:
    """Register what a part does in its forward, besides being a layer."""

    def register(act: Callable[[Part, Tensor], Tensor | None]) -> Callable[..., Any]:
        def apply(subject: Subject) -> None:
            part = Part(act)
            if setup is not None:
                setup(part)
            subject.model.parts.append(part)

        _add(act, apply, group, "part", changes)
        return act

    return register


def part(group: str, *, changes: bool = True) -> Callable[..., Any]:
    """Register a function that makes a module from features to features."""

    def register(make: Callable[[], nn.Module]) -> Callable[..., Any]:
        _add(make, lambda subject: subject.model.parts.append(make()), group, "part", changes)
        return make

    return register


def trait(group: str, *, stage: str = "part", changes: bool = True) -> Callable[..., Any]:
    """Register a function that changes the subject."""

    def register(apply: Callable[[Subject], None]) -> Callable[..., Any]:
        _add(apply, apply, group, stage, changes)
        return apply

    return register


class Part(nn.Module):
    """A residual layer that does something besides."""

    def __init__(self, act: Callable[[Part, Tensor], Tensor | None]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / math.sqrt(WIDTH))
        self.bias = nn.Parameter(torch.randn(WIDTH) / 10)
        self.register_buffer("buffer", torch.randn(WIDTH))
        self.tensor, self.items, self.table, self.calls = torch.randn(WIDTH), [], {}, 0
        self.act = act

    def forward(self, h: Tensor) -> Tensor:
        changed = self.act(self, h)
        h = h if changed is None else changed
        return h + functional.linear(h, self.weight.to(h.dtype), self.bias.to(h.dtype)) / 2


class Host(nn.Module):
    """A body, difficult parts and a head."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body, self.parts, self.head = body, nn.ModuleList(), nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Any:
        h = self.body(x)
        for part in self.parts:
            h = part(h)
        return self.head(h)


def _trunk() -> list[nn.Module]:
    """Layers with too small a gain: what is found leads to redraws and treatments."""
    layers: list[nn.Module] = []
    for _ in range(5):
        linear = nn.Linear(WIDTH, WIDTH)
        nn.init.normal_(linear.weight, std=0.5 / math.sqrt(WIDTH))
        layers += [linear, nn.ReLU()]
    return layers


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.trunk = nn.LayerNorm(WIDTH), nn.Sequential(*_trunk())
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        h = x + self.attention(h, h, h, need_weights=False)[0]
        return self.trunk(h).mean(1)


class _Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.trunk = nn.Embedding(11, WIDTH), nn.Sequential(*_trunk())

    def forward(self, x: Tensor) -> Tensor:
        return self.trunk(self.embedding(x).mean(1))


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.trunk = nn.GRU(WIDTH, WIDTH, batch_first=True), nn.Sequential(*_trunk())

    def forward(self, x: Tensor) -> Tensor:
        return self.trunk(self.cell(x)[0][:, -1])


def _mlp() -> Subject:
    return Subject(Host(nn.Sequential(*_trunk())), torch.randn(SAMPLES, WIDTH))


def _conv() -> Subject:
    layers = [nn.Conv2d(2, WIDTH, 3), nn.BatchNorm2d(WIDTH), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return Subject(Host(nn.Sequential(*layers, *_trunk())), torch.randn(SAMPLES, 2, 6, 6))


def _attention() -> Subject:
    return Subject(Host(_Attention()), torch.randn(SAMPLES, TOKENS, WIDTH))


def _embedding() -> Subject:
    return Subject(Host(_Tokens()), torch.randint(0, 11, (SAMPLES, TOKENS)))


def _recurrent() -> Subject:
    return Subject(Host(_Recurrent()), torch.randn(SAMPLES, TOKENS, WIDTH))


BASES: dict[str, Callable[[], Subject]] = {
    "mlp": _mlp,
    "conv": _conv,
    "attention": _attention,
    "embedding": _embedding,
    "recurrent": _recurrent,
}
