"""Multilayer perceptrons on images and tables."""

from __future__ import annotations

import math
from collections import OrderedDict
from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

Tensor = torch.Tensor

FAULTS: dict[str, str] = {
    "tied-wrongly": "one layer's weights serve all layers",
    "keep-too-low": "the dropout of a self-normalising network is that of another, and as strong as 60–80 %",
}

_TASKS = ("fashion-mnist", "mnist", "cifar10", "teacher", "friedman")


def _narrow(blueprint: Blueprint, rng: np.random.Generator) -> Blueprint:
    return blueprint.changed(bottleneck=pick(rng, 1, 2))


def _rectifier_replaced(blueprint: Blueprint, rng: np.random.Generator) -> Blueprint:
    return blueprint.changed(activation=pick(rng, "Sigmoid", "Hardsigmoid", "LogSigmoid", "Tanhshrink"))


def _draw(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_TASKS),
        width=640 if large else pick(rng, 48, 64, 96, 128),
        depth=32 if large else int(rng.integers(3, 14)),
        batch=pick(rng, 32, 64),
        options={"activation": pick(rng, "ReLU", "GELU", "LeakyReLU"), "norm": None},
    )


def _hidden_sizes(blueprint: Blueprint) -> list[int]:
    sizes = [blueprint.width] * blueprint.depth
    if "bottleneck" in blueprint.options:
        sizes[len(sizes) // 2] = blueprint.options["bottleneck"]
    return sizes


@family(
    "mlp-relu",
    source="He et al. 2015, Delving deep into rectifiers",
    draw=_draw,
    structural={
        "no-activation": {"activation": "Identity"},
        "wrong-activation": _rectifier_replaced,
        "bottleneck": _narrow,
    },
)
def mlp_relu(blueprint: Blueprint, task: Task) -> nn.Module:
    """Linear layers with a rectifier, He's initialisation, no normalisation."""
    sizes = [math.prod(task.shape), *_hidden_sizes(blueprint)]
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(sizes):
        linear = nn.Linear(before, after)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        nn.init.zeros_(linear.bias)
        layers += [linear, getattr(nn, blueprint.options["activation"])()]
    return nn.Sequential(*layers, nn.Linear(blueprint.width, task.outputs))


# With batch normalisation.


def _draw_bn(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "fashion-mnist", "mnist", "teacher", "friedman", "integral"),
        width=768 if large else pick(rng, 32, 64, 100, 128),
        depth=14 if large else int(rng.integers(2, 13)),
        batch=pick(rng, 32, 64),
        options={
            "activation": pick(rng, "ReLU", "ELU", "SiLU"),
            "order": "norm-first",
            "dropout": pick(rng, 0.0, 0.0, 0.05, 0.1),
        },
    )


class _Transposed(nn.Module):
    """Flattens samples and features in the wrong order, so that every row is a mixture of samples."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(-1, len(x)).t()


@family(
    "mlp-bn",
    source="Ioffe and Szegedy 2015, Batch normalization",
    draw=_draw_bn,
    structural={
        "no-norm": {"order": "no-norm"},
        "norm-misplaced": {"order": "norm-after-readout"},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": _rectifier_replaced,
        "bottleneck": _narrow,
        "wrong-reshape": {"flatten": "transposed"},
    },
)
def mlp_bn(blueprint: Blueprint, task: Task) -> nn.Module:
    """Linear layers without bias, each with batch normalisation, rectifier and dropout."""
    options = blueprint.options
    order = options["order"]
    net: OrderedDict[str, nn.Module] = OrderedDict()
    net["flatten"] = _Transposed() if options.get("flatten") == "transposed" else nn.Flatten()
    before = math.prod(task.shape)
    for i, after in enumerate(_hidden_sizes(blueprint), start=1):
        net[f"fc{i}"] = nn.Linear(before, after, bias=order != "norm-first")
        if order == "norm-first":
            net[f"bn{i}"] = nn.BatchNorm1d(after)
        net[f"act{i}"] = getattr(nn, options["activation"])()
        if options["dropout"] and i > 1:
            net[f"drop{i}"] = nn.Dropout(options["dropout"])
        before = after
    net["head"] = nn.Linear(before, task.outputs)
    if order == "norm-after-readout":
        net["bn"] = nn.BatchNorm1d(task.outputs)
    for module in net.values():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
    return nn.Sequential(net)


# Self-normalising.


def _draw_selu(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_TASKS),
        width=640 if large else pick(rng, 40, 64, 96, 128),
        depth=36 if large else int(rng.integers(3, 21)),
        batch=pick(rng, 16, 32, 64),
        options={"activation": "selu", "dropout": pick(rng, 0.0, 0.0, 0.02), "shape": pick(rng, "column", "cone")},
    )


def _heavy_dropout(blueprint: Blueprint, rng: np.random.Generator) -> Blueprint:
    return blueprint.changed(plain_dropout=round(float(rng.uniform(0.6, 0.8)), 2))


class _SelfNormalising(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        options, depth = blueprint.options, blueprint.depth
        cone = options["shape"] == "cone"
        sizes = [math.prod(task.shape)]
        sizes += [
            max(16, blueprint.width * (depth - i // 2) // depth) if cone else blueprint.width for i in range(depth)
        ]
        if "bottleneck" in options:
            sizes[1 + depth // 2] = options["bottleneck"]
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.out = nn.Linear(sizes[-1], task.outputs)
        self.activation, self.dropout = options["activation"], options["dropout"]
        self.plain_dropout = options.get("plain_dropout", 0.0)
        for layer in [*self.hidden, self.out]:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        for layer in self.hidden:
            x = layer(x)
            if self.activation == "selu":
                x = F.selu(x)
            elif self.activation == "sigmoid":
                x = torch.sigmoid(x)
            elif self.activation == "softmax":
                x = F.softmax(x, dim=-1)
            x = F.dropout(x, self.plain_dropout, self.training)
        logits: Tensor = self.out(F.alpha_dropout(x, self.dropout, self.training))
        return logits


@family(
    "mlp-selu",
    source="Klambauer et al. 2017, Self-normalizing neural networks",
    draw=_draw_selu,
    structural={
        "no-activation": {"activation": "none"},
        "wrong-activation": lambda b, rng: b.changed(activation=pick(rng, "sigmoid", "softmax")),
        "bottleneck": _narrow,
        "keep-too-low": _heavy_dropout,
    },
)
def mlp_selu(blueprint: Blueprint, task: Task) -> nn.Module:
    """SELU with LeCun's initialisation, in a column or a cone, alpha-dropout before the readout."""
    return _SelfNormalising(blueprint, task)


# Tanh with orthogonal weights.


def _draw_tanh(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "fashion-mnist", "mnist", "teacher", "friedman", "field"),
        width=512 if large else pick(rng, 32, 64, 96),
        depth=32 if large else int(rng.integers(4, 31)),
        batch=pick(rng, 32, 64),
        options={"gain": pick(rng, 1.0, 1.05, 1.1), "bias": bool(rng.integers(2)), "nonlinearity": "tanh"},
    )


@family(
    "mlp-tanh-orthogonal",
    source="Pennington et al. 2017, Resurrecting the sigmoid",
    draw=_draw_tanh,
    structural={
        "no-activation": {"nonlinearity": "none"},
        "wrong-activation": lambda b, rng: b.changed(steepness=float(pick(rng, 5.0, 10.0, 20.0))),
        "bottleneck": _narrow,
        "tied-wrongly": {"tied": True},
    },
)
def mlp_tanh_orthogonal(blueprint: Blueprint, task: Task) -> nn.Module:
    """A deep chain of orthogonal matrices and tanh, without normalisation."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            bias, sizes = blueprint.options["bias"], _hidden_sizes(blueprint)
            self.inp = nn.Linear(math.prod(task.shape), sizes[0], bias=bias)
            self.mid = nn.ModuleList([nn.Linear(a, b, bias=bias) for a, b in pairwise(sizes)])
            if blueprint.options.get("tied"):
                self.mid = nn.ModuleList([self.mid[0]] * len(self.mid))
            self.readout = nn.Linear(sizes[-1], task.outputs)
            self.steepness = blueprint.options.get("steepness", 1.0)
            for name, p in self.named_parameters():
                if name.endswith("bias"):
                    p.data.zero_()
                elif name.startswith("mid"):
                    nn.init.orthogonal_(p, gain=blueprint.options["gain"])
            # Rows of unit length would shrink the input when there are more pixels than units.
            nn.init.normal_(self.inp.weight, std=1 / math.sqrt(self.inp.in_features))

        def forward(self, x: Tensor) -> Tensor:
            h: Tensor = self.inp(x.flatten(start_dim=1))
            for layer in self.mid:
                h = layer(h if blueprint.options["nonlinearity"] == "none" else torch.tanh(self.steepness * h))
            return torch.as_tensor(self.readout(h.tanh() if blueprint.options["nonlinearity"] == "tanh" else h))

    return Net()


# Residual, normalised before the branch.


def _draw_residual(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_TASKS),
        width=400 if large else pick(rng, 32, 48, 64, 96),
        depth=20 if large else int(rng.integers(2, 19)),
        batch=pick(rng, 16, 32, 64),
        options={
            "norm": pick(rng, "layer", "layer", "batch", "rms"),
            "expansion": pick(rng, 1, 2, 4),
            "activation": pick(rng, "gelu", "relu", "silu"),
            "dropout": pick(rng, 0.0, 0.1),
            "place": "pre",
            "skip": 1.0,
        },
    )


def _norm(kind: str, width: int) -> nn.Module:
    if kind == "batch":
        return nn.BatchNorm1d(width)
    if kind == "rms":
        return nn.RMSNorm(width)
    return nn.LayerNorm(width) if kind == "layer" else nn.Identity()


class _ResidualBlock(nn.Module):
    def __init__(self, width: int, options: Options) -> None:
        super().__init__()
        inner = width * options["expansion"]
        self.norm = _norm(options["norm"], width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.options = options
        for layer in (self.up, self.down):
            nn.init.trunc_normal_(layer.weight, std=layer.in_features**-0.5)
            nn.init.zeros_(layer.bias)

    def branch(self, x: Tensor) -> Tensor:
        kind = self.options["activation"]
        h: Tensor = self.up(x)
        if kind == "softmax":
            h = h.softmax(dim=-1)
        elif kind != "none":
            h = getattr(F, kind)(h)
        return F.dropout(self.down(h), self.options["dropout"], self.training)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.options["skip"]
        if self.options["place"] == "post":
            normed: Tensor = self.norm(skip * x + self.branch(x))
            return normed
        change = self.branch(self.norm(x))
        return skip * x + change if skip else change


@family(
    "mlp-residual-prenorm",
    source="Touvron et al. 2021, ResMLP (its feed-forward blocks)",
    draw=_draw_residual,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": lambda b, rng: b.changed(skip=round(float(rng.uniform(2, 3)), 2)),
        "no-norm": {"norm": "none"},
        "norm-misplaced": {"place": "post"},
        "no-activation": {"activation": "none"},
        "wrong-activation": lambda b, rng: b.changed(activation=pick(rng, "sigmoid", "softmax")),
        "bottleneck": lambda b, rng: b.changed(bottleneck_stem=pick(rng, 1, 2)),
    },
)
def mlp_residual_prenorm(blueprint: Blueprint, task: Task) -> nn.Module:
    """Residual blocks of two linear layers, normalised first; a last normalisation before the readout."""
    width, options = blueprint.width, dict(blueprint.options)
    narrow = options.pop("bottleneck_stem", None)
    stem: nn.Module = nn.Linear(math.prod(task.shape), width)
    if narrow:
        stem = nn.Sequential(nn.Linear(math.prod(task.shape), narrow), nn.Linear(narrow, width))
    blocks = [_ResidualBlock(width, options) for _ in range(blueprint.depth)]
    return nn.Sequential(nn.Flatten(), stem, *blocks, _norm(options["norm"], width), nn.Linear(width, task.outputs))
