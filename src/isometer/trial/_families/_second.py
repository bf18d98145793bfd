"""What the families of the second round share: how they are drawn, and faults that most of them have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isometer.trial._families._draws import drawn, size
from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

second = partial(family, round=2)
"""Registers a family of the second round."""

GELU, RELU = ("GELU", "ReLU"), ("ReLU", "ELU", "SiLU")
SKIPS: Options = {"no-skips": {"skip": 0.0}, "skip-scaled": drawn(skip=(2.0, 3.0))}
NORM: Options = {"no-norm": {"norm": False}}
ACTIVATION: Options = {
    "no-activation": {"activation": "Identity"},
    "wrong-activation": drawn(activation=("Sigmoid", "Softplus", "Hardtanh")),
}
USUAL: Options = {**SKIPS, **NORM, **ACTIVATION}
POOLING: Options = {"wrong-pooling": drawn(pool=("sum", "first", "batch"))}
IMAGES = ("fashion-mnist", "mnist", "gratings")


def sizes(
    tasks: tuple[str, ...],
    widths: tuple[int, ...],
    depths: tuple[int, ...],
    *,
    batches: tuple[int, ...] = (16, 32),
    **choices: tuple[Any, ...],
) -> Callable[[np.random.Generator, bool], Blueprint]:
    """A draw of task, size and batch, and of every option from its choices; large models are twice the largest size.

    Example:
        >>> blueprint = sizes(("teacher",), (16, 32), (2,), dropout=(0.1,))(np.random.default_rng(0), True)
        >>> blueprint.width, blueprint.depth, blueprint.options
        (64, 4, {'dropout': 0.1})
    """

    def draw(rng: np.random.Generator, large: bool) -> Blueprint:
        task = str(pick(rng, *tasks))
        width, depth = size(rng, large, widths=widths, depths=depths, largest=(2 * widths[-1], 2 * depths[-1]))
        options = {name: pick(rng, *several) for name, several in choices.items()}
        return Blueprint(task, width, depth, batch=pick(rng, *batches), options=options)

    return draw


def activation(options: Options) -> nn.Module:
    """A new module of the kind that the options name."""
    made: nn.Module = getattr(nn, options["activation"])()
    return made


def layer_norm(width: int, options: Options) -> nn.Module:
    """A layer norm, unless the options leave norms out."""
    return nn.LayerNorm(width) if options.get("norm", True) else nn.Identity()


def batch_norm(width: int, options: Options) -> nn.Module:
    """A batch norm over pictures, unless the options leave norms out."""
    return nn.BatchNorm2d(width) if options.get("norm", True) else nn.Identity()


def pooled(x: Tensor, options: Options) -> Tensor:
    """The mean over positions, of `(samples, positions, features)`, or what a fault takes for it."""
    kind = options.get("pool", "mean")
    if kind == "batch":
        return x.mean(dim=(0, 1)).expand(len(x), -1)
    return {"sum": x.sum(dim=1), "first": x[:, 0]}.get(kind, x.mean(dim=1))


class NormedBranch(nn.Module):
    """A norm, a branch, and the skip around both."""

    def __init__(self, width: int, branch: nn.Module, options: Options) -> None:
        super().__init__()
        self.norm, self.branch = layer_norm(width, options), branch
        self.skip = options.get("skip", 1.0)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.branch(self.norm(x))
        return y + self.skip * x if self.skip else y


class PositionAttention(nn.Module):
    """Heads over positions; a table of positions is added to what comes in, where there are any."""

    def __init__(self, width: int, options: Options, *, causal: bool = False, places: int = 0) -> None:
        super().__init__()
        self.o, self.heads, self.causal = options, options.get("heads", 1), causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        placed = places and options.get("places", True)
        self.places = nn.Parameter(0.3 * torch.randn(places, width)) if placed else None

    def bias(self, scores: Tensor) -> Tensor:
        """Scores with what is known of pairs of positions: that the future is hidden."""
        if not self.causal:
            return scores
        hidden = torch.ones_like(scores[0, 0], dtype=torch.bool)
        return scores.masked_fill(hidden.tril(-1) if self.o.get("mask") == "reversed" else hidden.triu(1), -1e9)

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.places is None else x + self.places[: x.shape[1]]
        q, k, v = (one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, dim=-1))
        scores = self.bias(q @ k.mT * (self.o.get("score", 1.0) * q.shape[-1] ** -0.5))
        mixed = scores.softmax(dim=self.o.get("axis", -1)) @ v
        return torch.as_tensor(self.out(mixed.transpose(1, 2).flatten(2)))


ATTENTION: Options = {"score-scale": drawn(score=(20.0, 60.0)), "wrong-axis": drawn(axis=(0, -2))}


def feed_forward(width: int, options: Options, ratio: int = 2) -> nn.Sequential:
    """Two layers with a nonlinearity between them."""
    return nn.Sequential(nn.Linear(width, ratio * width), activation(options), nn.Linear(ratio * width, width))


class Sequence(nn.Module):
    """Tokens or series in, blocks, an answer per position or of the mean of positions."""

    def __init__(self, blocks: list[nn.Module], width: int, task: Task, options: Options) -> None:
        super().__init__()
        self.embed: nn.Module = (
            nn.Embedding(task.vocabulary, width) if task.vocabulary else nn.Linear(task.shape[1], width)
        )
        self.blocks = nn.Sequential(*blocks)
        self.norm = layer_norm(width, options)
        self.head = nn.Linear(width, task.outputs)
        self.every, self.options = task.per_position, options

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.norm(self.blocks(self.embed(x)))
        if not self.every:
            h = pooled(h, self.options)
        elif "pool" in self.options:  # one answer for all positions
            h = pooled(h, self.options)[:, None].expand_as(h)
        answer: Tensor = self.head(h)
        return answer
