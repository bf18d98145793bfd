"""Transformers on the sphere, with skipped tokens, or with convolutions inside; and convolutions over words."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isometer.trial._families._draws import drawn
from isometer.trial._families._second import (
    ACTIVATION,
    ATTENTION,
    GELU,
    POOLING,
    USUAL,
    NormedBranch,
    PositionAttention,
    Sequence,
    activation,
    feed_forward,
    second,
    sizes,
)
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "step-size": "the step on the sphere is next to nothing, or leaves only the branch",
    "router-detached": "the router gets no gradient",
    "router-closed": "the bias of the router lets no token pass",
    "logit-scale": "logits are bounded by a number far below one",
}
_LANGUAGE, _CLASSES = ("markov", "text", "nesting"), ("tags", "majority", "rhythms")


_PLACES: Options = {**ATTENTION, "no-positions": {"places": False}}
_LONGEST = 32


class _Sphere(nn.Module):
    """A step from a point of the sphere towards what the branch answers, and back onto it."""

    def __init__(self, width: int, branch: nn.Module, o: Options) -> None:
        super().__init__()
        self.branch, self.o = branch, o
        self.alpha = nn.Parameter(torch.full((width,), float(o["alpha"])))

    def unit(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1) if self.o.get("norm", True) else x

    def forward(self, x: Tensor) -> Tensor:
        towards = self.unit(self.branch(x * x.shape[-1] ** 0.5))
        return self.unit(x + self.alpha * (towards - x))


class _OntoSphere(nn.Module):
    """What is embedded, onto the sphere; or logits with a scale that is learned."""

    def __init__(self, scale: float | None = None) -> None:
        super().__init__()
        self.scale = None if scale is None else nn.Parameter(torch.tensor(scale))

    def forward(self, x: Tensor) -> Tensor:
        x = F.normalize(x, dim=-1)
        return x if self.scale is None else x * self.scale


@second(
    "normalised-transformer",
    source="Loshchilov et al. 2025, nGPT: normalized transformer with representation learning on the hypersphere",
    draw=sizes(
        _LANGUAGE, (32, 48), (1, 2, 3), batches=(16,), heads=(2, 4), alpha=(0.2, 0.5), activation=("SiLU", "GELU")
    ),
    structural={
        **ACTIVATION,
        **_PLACES,
        "no-norm": {"norm": False},
        "mask-wrong": {"mask": "reversed"},
        "step-size": drawn(alpha=(1e-4, 30.0)),
        "logit-scale": drawn(logits=(1e-3, 300.0)),
    },
)
def normalised_transformer(blueprint: Blueprint, task: Task) -> nn.Module:
    """Every state a point of the sphere, every block a step on it."""
    o, width = blueprint.options, blueprint.width
    blocks: list[nn.Module] = [_OntoSphere()]
    for _ in range(blueprint.depth):
        branches = PositionAttention(width, o, causal=True, places=_LONGEST), feed_forward(width, o)
        blocks += [_Sphere(width, branch, o) for branch in branches]
    return Sequence([*blocks, _OntoSphere(o.get("logits", 10.0))], width, task, {**o, "norm": False})


class _Routed(nn.Module):
    """A block that a token passes if its router says so; the others stay as they are."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o, self.router = o, nn.Linear(width, 1)
        nn.init.constant_(self.router.bias, o["open"])
        self.attend = NormedBranch(width, PositionAttention(width, o, causal=True, places=_LONGEST), o)
        self.feed = NormedBranch(width, feed_forward(width, o), o)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.router(x)
        gate = weight.sigmoid() * (weight > 0)  # a threshold, as at inference: the largest few would need the future
        if self.o.get("detached"):
            gate = gate.detach()
        return torch.as_tensor(x + gate * (self.feed(self.attend(x)) - x))


@second(
    "mixture-of-depths",
    source="Raposo et al. 2024, Mixture-of-depths",
    draw=sizes((*_LANGUAGE, "tags"), (32, 48), (2, 3), batches=(16,), heads=(2, 4), open=(0.2, 0.5), activation=GELU),
    structural={**USUAL, **_PLACES, "router-detached": {"detached": True}, "router-closed": {"open": -8.0}},
)
def mixture_of_depths(blueprint: Blueprint, task: Task) -> nn.Module:
    """Blocks that choose their tokens, after one that all tokens pass."""
    o, width = blueprint.options, blueprint.width
    first: list[nn.Module] = [NormedBranch(width, PositionAttention(width, o, causal=True, places=_LONGEST), o)]
    return Sequence([*first, *(_Routed(width, o) for _ in range(blueprint.depth - 1))], width, task, o)


class _ConvModule(nn.Module):
    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.enter, self.leave = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
        groups = width if o.get("depthwise", True) else 1
        self.spread = nn.Conv1d(width, width, o["kernel"], padding=o["kernel"] // 2, groups=groups)
        self.norm = nn.BatchNorm1d(width) if o.get("norm", True) else nn.Identity()
        self.act = activation(o)

    def forward(self, x: Tensor) -> Tensor:
        h = self.spread(F.glu(self.enter(x.mT), dim=1))
        return torch.as_tensor(self.leave(self.act(self.norm(h))).mT)


class _Half(nn.Module):
    def __init__(self, branch: nn.Module, factor: float) -> None:
        super().__init__()
        self.branch, self.factor = branch, factor

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.factor * self.branch(x))


@second(
    "conformer",
    source="Gulati et al. 2020, Conformer: convolution-augmented transformer for speech recognition",
    draw=sizes(
        _CLASSES, (16, 24, 32), (1, 2), batches=(16,), heads=(2, 4), kernel=(3, 5, 7), activation=("SiLU", "GELU")
    ),
    structural={**USUAL, **_PLACES, **POOLING, "residual-scale": drawn(half=(20.0, 100.0))},
)
def conformer(blueprint: Blueprint, task: Task) -> nn.Module:
    """Attention and convolution between two half steps of a perceptron."""
    o, width = blueprint.options, blueprint.width
    blocks: list[nn.Module] = []
    for _ in range(blueprint.depth):
        branches = [
            _Half(feed_forward(width, o), o.get("half", 0.5)),
            PositionAttention(width, o, places=_LONGEST),
            _ConvModule(width, o),
            _Half(feed_forward(width, o), o.get("half", 0.5)),
        ]
        blocks += [*(NormedBranch(width, branch, o) for branch in branches), nn.LayerNorm(width)]
    return Sequence(blocks, width, task, o)


@second(
    "text-cnn",
    source="Kim 2014, Convolutional neural networks for sentence classification",
    draw=sizes(
        ("majority", "rhythms", "rows"),
        (16, 32, 48),
        (1, 2, 3),
        maps=(16, 32),
        dropout=(0.0, 0.3),
        activation=("ReLU", "Tanh"),
    ),
    structural={
        **ACTIVATION,
        "wrong-pooling": drawn(pool=("min", "first")),
        "bottleneck": {"maps": 1},
        "dropout-high": drawn(dropout=(0.9, 0.97)),
    },
)
class _TextCNN(nn.Module):
    """Windows of several lengths, the strongest answer of each."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        self.embed: nn.Module = (
            nn.Embedding(task.vocabulary, width) if task.vocabulary else nn.Linear(task.shape[1], width)
        )
        self.deep = nn.ModuleList(nn.Conv1d(width, width, 3, padding=1) for _ in range(blueprint.depth - 1))
        self.convs = nn.ModuleList(nn.Conv1d(width, self.o["maps"], k) for k in (2, 3, 4))
        self.act, self.drop = activation(self.o), nn.Dropout(self.o["dropout"])
        self.head = nn.Linear(3 * self.o["maps"], task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x).mT
        for layer in self.deep:
            h = self.act(layer(h))
        seen = [self.act(conv(h)) for conv in self.convs]
        kind = self.o.get("pool", "max")
        read = [one.amax(dim=2) if kind == "max" else one.amin(dim=2) if kind == "min" else one[..., 0] for one in seen]
        return torch.as_tensor(self.head(self.drop(torch.cat(read, dim=1))))
