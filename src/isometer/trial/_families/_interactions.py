"""Tables of features: products of all pairs of fields, attention between fields, polynomials without activations."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._fourth import fourth
from isometer.trial._families._second import ACTIVATION, ATTENTION, NORM, RELU, SKIPS, activation, layer_norm, sizes
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "embedding-scale": "the vectors of the fields are far too small or far too large",
    "squares-kept": "products of features with themselves are not subtracted",
    "branch-detached": "the layers on top get no gradient through the fields' vectors",
}
_TABLES = ("teacher", "friedman")


class _Fields(nn.Module):
    """A vector per field, multiplied by the field's number."""

    def __init__(self, features: int, width: int, o: Options) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(features, width))
        nn.init.xavier_normal_(self.vectors, gain=o.get("embedding", 1.0))

    def forward(self, x: Tensor) -> Tensor:
        return x[..., None] * self.vectors


@fourth(
    "factorisation-machine",
    source="Guo et al. 2017, DeepFM: a factorization-machine based neural network; Rendle 2010, Factorization machines",
    draw=sizes(_TABLES, (16, 24, 32), (1, 2), batches=(32, 64), factors=(4, 8), activation=RELU),
    structural={
        **ACTIVATION,
        "embedding-scale": drawn(embedding=(100.0, 300.0)),
        "squares-kept": {"squares": True},
        "branch-detached": {"detached": True},
        "bottleneck": {"inner": 1},
    },
)
class _FactorisationMachine(nn.Module):
    """A linear answer, the products of all pairs of fields, and layers over the same vectors; their sum."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, features, width = blueprint.options, task.shape[0], blueprint.width
        self.fields = _Fields(features, self.o["factors"], self.o)
        self.linear, layers = nn.Linear(features, task.outputs), list[nn.Module]()
        before = features * self.o["factors"]
        for i in range(blueprint.depth):
            after = self.o.get("inner", width) if i == blueprint.depth - 1 else width
            layers += [nn.Linear(before, after), activation(self.o)]
            before = after
        self.deep = nn.Sequential(*layers, nn.Linear(before, task.outputs))

    def forward(self, x: Tensor) -> Tensor:
        fields = self.fields(x)
        squares = 0.0 if self.o.get("squares") else fields.square().sum(dim=1)
        pairs = 0.5 * (fields.sum(dim=1).square() - squares).sum(dim=1, keepdim=True)
        deep = fields.detach() if self.o.get("detached") else fields
        return torch.as_tensor(self.linear(x) + pairs + self.deep(deep.flatten(1)))


class _Interacting(nn.Module):
    """Heads between fields, without places; a layer around them in place of the skip, then an activation."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o, self.heads = o, o["heads"]
        self.qkv, self.around = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        for layer in (self.qkv, self.around):
            nn.init.xavier_uniform_(layer.weight)
        self.act, self.skip = activation(o), o.get("skip", 1.0)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.mT * self.o.get("score", 1.0)
        mixed = (scores.softmax(dim=self.o.get("axis", -1)) @ v).transpose(1, 2).flatten(2)
        return torch.as_tensor(self.act(mixed + self.skip * self.around(x)))


@fourth(
    "interacting-fields",
    source="Song et al. 2019, AutoInt: automatic feature interaction learning via self-attentive neural networks",
    draw=sizes(_TABLES, (8, 12, 16), (1, 2, 3), batches=(32, 64), heads=(1, 2), activation=("ReLU",)),
    structural={**SKIPS, **ACTIVATION, **ATTENTION, "embedding-scale": drawn(embedding=(30.0, 100.0))},
)
class _InteractingFields(nn.Module):
    """Layers of attention between the vectors of the fields; one layer reads them all."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        o, width, features = blueprint.options, blueprint.width, task.shape[0]
        self.fields = _Fields(features, width, o)
        self.layers = nn.Sequential(*[_Interacting(width, o) for _ in range(blueprint.depth)])
        self.head = nn.Linear(features * width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.head(self.layers(self.fields(x)).flatten(1)))


@fourth(
    "polynomial-net",
    source="Chrysos et al. 2020, Pi-nets: deep polynomial neural networks",
    draw=sizes((*_TABLES, "field"), (24, 32, 48), (1, 2, 3), batches=(32, 64)),
    structural={
        **SKIPS,
        **NORM,
        "no-activation": {"product": False},
        "initialisation-scale": drawn(gain=(10.0, 30.0)),
        "depth-too-large": lambda b, rng: b.changed(depth=b.depth + 9, norm=False, skip=1.0),
    },
)
class _Polynomial(nn.Module):
    """Every layer multiplies what there is by a linear function of the input; the degree grows by one a layer."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, features, width = blueprint.options, task.shape[0], blueprint.width
        self.enter = nn.Linear(features, width)
        self.factors = nn.ModuleList(nn.Linear(features, width) for _ in range(blueprint.depth + 1))
        self.norms = nn.ModuleList(layer_norm(width, self.o) for _ in range(blueprint.depth + 1))
        for layer in (self.enter, *self.factors):
            nn.init.xavier_normal_(layer.get_parameter("weight"), gain=self.o.get("gain", 1.0))
        self.head = nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        h, skip = self.enter(x), self.o.get("skip", 1.0)
        for factor, norm in zip(self.factors, self.norms, strict=True):
            y = factor(x)
            y = y * h if self.o.get("product", True) else y + h
            h = norm(y + skip * h)
        return torch.as_tensor(self.head(h))
