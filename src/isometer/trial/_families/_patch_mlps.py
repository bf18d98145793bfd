"""Perceptrons over patches of pictures: mixing without attention."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

Tensor = torch.Tensor

FAULTS: dict[str, str] = {
    "patch-size": "one patch is the whole picture",
    "gate-closed": "weights and bias of the spatial gate start at zero, so that nothing passes",
    "mixing-left-out": "the layers that mix places are missing",
    "layer-scale-off": "the factors of the branches start at 1e-7, or at 10",
}

_IMAGES = ("fashion-mnist", "mnist", "cifar10", "gratings")


def _whole_patch(blueprint: Blueprint, rng: np.random.Generator) -> Blueprint:
    return blueprint.changed(patch={"cifar10": 16, "gratings": 12}.get(blueprint.task, 14))


def _skip_drawn(blueprint: Blueprint, rng: np.random.Generator) -> Blueprint:
    return blueprint.changed(skip=round(float(rng.uniform(2, 3)), 2))


def _drawn(
    rng: np.random.Generator, large: bool, widths: tuple[int, ...], deepest: int, **options: object
) -> Blueprint:
    task = pick(rng, *_IMAGES)
    patch = {"cifar10": 4, "gratings": int(pick(rng, 2, 3, 4))}.get(task, int(pick(rng, 2, 7)))
    deepest = deepest // 2 + 1 if patch == 2 else deepest  # many patches take longer
    return Blueprint(
        task=task,
        width=80 if large else pick(rng, *widths),
        depth=8 if large else int(rng.integers(1, deepest)),
        batch=32 if large else pick(rng, 16, 32),
        options={"patch": 2 if large else patch, "skip": 1.0, **options},
    )


# MLP-Mixer.


def _draw_mixer(rng: np.random.Generator, large: bool) -> Blueprint:
    return _drawn(rng, large, (24, 32, 48), 9, norm="pre", activation="gelu", ratio=pick(rng, 0.5, 1.0, 2.0))


class _MlpBlock(nn.Module):
    def __init__(self, size: int, hidden: int, activation: str) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(size, hidden), nn.Linear(hidden, size)
        self.activation = activation
        for layer in (self.fc1, self.fc2):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc1(x)
        if self.activation == "gelu":
            h = F.gelu(h)
        elif self.activation == "softmax":
            h = h.softmax(-1)
        elif self.activation == "sigmoid":
            h = h.sigmoid()
        return torch.as_tensor(self.fc2(h))


class _MixerBlock(nn.Module):
    def __init__(self, tokens: int, dim: int, o: Options) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token_mixing = _MlpBlock(tokens, max(4, int(tokens * o["ratio"])), o["activation"])
        self.channel_mixing = _MlpBlock(dim, 2 * dim, o["activation"])
        self.o = o

    def forward(self, x: Tensor) -> Tensor:
        pre, skip = self.o["norm"] == "pre", self.o["skip"]
        h = self.norm1(x) if pre else x
        # Swapped wrongly, places are read as features: the sizes fit, the content does not.
        h = h.reshape(h.shape[0], h.shape[2], h.shape[1]) if self.o.get("reshaped") else h.transpose(1, 2)
        x = self.token_mixing(h).transpose(1, 2) + (skip * x if skip else 0)
        if self.o["norm"] == "post":
            x = self.norm1(x)
        x = self.channel_mixing(self.norm2(x) if pre else x) + (skip * x if skip else 0)
        return torch.as_tensor(self.norm2(x) if self.o["norm"] == "post" else x)


@family(
    "mlp-mixer",
    source="Tolstikhin et al. 2021, MLP-Mixer",
    draw=_draw_mixer,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": _skip_drawn,
        "no-norm": {"norm": "none"},
        "norm-misplaced": {"norm": "post"},
        "no-activation": {"activation": "none"},
        "wrong-activation": lambda b, rng: b.changed(activation=pick(rng, "sigmoid", "softmax")),
        "wrong-reshape": {"reshaped": True},
        "patch-size": _whole_patch,
        "wrong-pooling": lambda b, rng: b.changed(pool=pick(rng, "first", "sum")),
    },
)
def mlp_mixer(blueprint: Blueprint, task: Task) -> nn.Module:
    """Perceptrons across places and across channels in turn."""
    size, dim, o = blueprint.options["patch"], blueprint.width, blueprint.options

    class PatchMixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(task.shape[0], dim, size, stride=size)
            tokens = (task.shape[1] // size) ** 2
            self.blocks = nn.ModuleList([_MixerBlock(tokens, dim, o) for _ in range(blueprint.depth)])
            self.norm = nn.LayerNorm(dim) if o["norm"] == "pre" else nn.Identity()
            self.head = nn.Linear(dim, task.outputs)

        def forward(self, x: Tensor) -> Tensor:
            x = self.stem(x).flatten(2).mT
            for block in self.blocks:
                x = block(x)
            x = self.norm(x)
            pool = o.get("pool")
            x = x[:, 0] if pool == "first" else x.sum(dim=1) if pool == "sum" else x.mean(dim=1)
            return torch.as_tensor(self.head(x))

    return PatchMixer()


# gMLP.


def _draw_gmlp(rng: np.random.Generator, large: bool) -> Blueprint:
    return _drawn(rng, large, (24, 32, 48), 8, norm=True, gate="open", activation="GELU", expansion=pick(rng, 1, 2))


class SpatialGatingUnit(nn.Module):
    """Half of the channels times a mixture over places of the other half."""

    def __init__(self, tokens: int, half: int, kind: str) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(half)
        self.weight = nn.Parameter(torch.empty(tokens, tokens).uniform_(-1e-3, 1e-3))
        self.bias = nn.Parameter(torch.ones(tokens))
        if kind == "closed":
            nn.init.zeros_(self.weight)
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        u, v = x.chunk(2, dim=-1)
        v = torch.einsum("st,ntd->nsd", self.weight, self.norm(v)) + self.bias[:, None]
        return u * v


@family(
    "gmlp",
    source="Liu et al. 2021, Pay attention to MLPs",
    draw=_draw_gmlp,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": _skip_drawn,
        "no-norm": {"norm": False},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": lambda b, rng: b.changed(activation=pick(rng, "Sigmoid", "LogSigmoid")),
        "gate-closed": {"gate": "closed"},
        "patch-size": _whole_patch,
    },
)
def gmlp(blueprint: Blueprint, task: Task) -> nn.Module:
    """Blocks in which a gate mixes places."""
    o, dim, size = blueprint.options, blueprint.width, blueprint.options["patch"]
    tokens, inner = (task.shape[1] // size) ** 2, blueprint.width * o["expansion"]

    class PatchMlpBlock(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            y = x
            for layer in self:
                y = layer(y)
            return x * o["skip"] + y if o["skip"] else y

    def block() -> nn.Module:
        return PatchMlpBlock(
            nn.LayerNorm(dim) if o["norm"] else nn.Identity(),
            nn.Linear(dim, 2 * inner),
            getattr(nn, o["activation"])(),
            SpatialGatingUnit(tokens, inner, o["gate"]),
            nn.Linear(inner, dim),
        )

    model = nn.Sequential(
        nn.Unfold(size, stride=size),
        _Swap(),
        nn.Linear(task.shape[0] * size**2, dim),
        *[block() for _ in range(blueprint.depth)],
        nn.LayerNorm(dim) if o["norm"] else nn.Identity(),
        _Swap(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(dim, task.outputs),
    )
    for m in model.modules():
        if isinstance(m, nn.Linear):
            nn.init.trunc_normal_(m.weight, std=m.in_features**-0.5)
            nn.init.zeros_(m.bias)
    return model


class _Swap(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


# ResMLP.


def _draw_resmlp(rng: np.random.Generator, large: bool) -> Blueprint:
    return _drawn(rng, large, (32, 48, 64), 10, scale=pick(rng, 0.1, 0.2, 1.0), affine=True)


class _Affine(nn.Module):
    def __init__(self, dim: int, scale: float = 1.0) -> None:
        super().__init__()
        self.alpha, self.beta = nn.Parameter(torch.full((dim,), scale)), nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.beta, self.alpha, x)


class _ResMLP(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        dim, self.o = blueprint.width, blueprint.options
        size, scale = self.o["patch"], float(self.o["scale"])
        tokens = (task.shape[1] // size) ** 2
        self.patches = nn.Conv2d(task.shape[0], dim, size, size)
        self.layers = nn.ModuleList()
        for _ in range(blueprint.depth):
            layer = nn.ModuleDict({"before": _Affine(dim), "across": nn.Linear(tokens, tokens)})
            layer["after"], layer["middle"] = _Affine(dim, scale), _Affine(dim)
            layer["up"], layer["down"] = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
            layer["end"] = _Affine(dim, scale)
            self.layers.append(layer)
        self.head = nn.Linear(dim, task.outputs)
        nn.init.normal_(self.head.weight, std=dim**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        x, skip = self.patches(x).flatten(2).transpose(1, 2), self.o["skip"]
        for layer in self.layers:
            assert isinstance(layer, nn.ModuleDict)
            if not self.o.get("unmixed"):
                mixed = layer["across"](layer["before"](x).transpose(1, 2)).transpose(1, 2)
                x = skip * x + layer["after"](mixed)
            h = layer["up"](layer["middle"](x))
            h = h if self.o.get("activation") == "none" else F.gelu(h)
            x = skip * x + layer["end"](layer["down"](h))
        x = x.mean(dim=0, keepdim=True).expand_as(x) if self.o.get("pool") == "batch" else x
        return torch.as_tensor(self.head(x.mean(dim=1) * math.sqrt(x.shape[1]) / 2))


@family(
    "resmlp",
    source="Touvron et al. 2021, ResMLP",
    draw=_draw_resmlp,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": _skip_drawn,
        "no-activation": {"activation": "none"},
        "layer-scale-off": lambda b, rng: b.changed(scale=float(pick(rng, 1e-7, 10.0))),
        "mixing-left-out": {"unmixed": True},
        "wrong-pooling": {"pool": "batch"},
        "patch-size": _whole_patch,
    },
)
def resmlp(blueprint: Blueprint, task: Task) -> nn.Module:
    """Linear layers across places and perceptrons across channels, with affine maps for normalisation."""
    return _ResMLP(blueprint, task)
