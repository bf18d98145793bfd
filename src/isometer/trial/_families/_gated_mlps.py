"""Perceptrons whose layers have gates."""

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
    "gate-closed": "the bias of the gates starts so far on one side that next to nothing passes",
}


# Highway.


def _draw_highway(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "fashion-mnist", "mnist", "teacher", "friedman"),
        width=420 if large else pick(rng, 32, 50, 71),
        depth=24 if large else int(rng.integers(3, 25)),
        batch=pick(rng, 32, 64),
        options={"gate_bias": pick(rng, -1.0, -2.0, -3.0), "activation": pick(rng, "relu", "tanh"), "carry": True},
    )


class _Highway(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, self.options = blueprint.width, blueprint.options
        self.plain = nn.Linear(math.prod(task.shape), width)
        self.transform = nn.ModuleList()
        self.gate = nn.ModuleList()
        for _ in range(blueprint.depth):
            transform, gate = nn.Linear(width, width), nn.Linear(width, width)
            nn.init.xavier_normal_(transform.weight, math.sqrt(2) if self.options["activation"] == "relu" else 1.0)
            nn.init.xavier_normal_(gate.weight)
            nn.init.constant_(gate.bias, self.options["gate_bias"])
            self.transform.append(transform)
            self.gate.append(gate)
        self.classifier = nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        nonlinear = getattr(torch, str(self.options["activation"]).replace("none", "clone"))
        h = nonlinear(self.plain(x.reshape(x.shape[0], -1)))
        for transform, gate in zip(self.transform, self.gate, strict=True):
            t = torch.softmax(gate(h), dim=0) if self.options.get("gate") == "softmax" else torch.sigmoid(gate(h))
            new = nonlinear(transform(h)) * t
            h = new + h * (1 - t) if self.options["carry"] else new
        out: Tensor = self.classifier(h)
        return out


@family(
    "highway",
    source="Srivastava et al. 2015, Training very deep networks",
    draw=_draw_highway,
    structural={
        "no-skips": {"carry": False},
        "no-activation": {"activation": "none"},
        "gate-closed": lambda b, rng: b.changed(gate_bias=float(pick(rng, -8.0, -12.0, 8.0))),
        "wrong-axis": {"gate": "softmax"},
    },
)
def highway(blueprint: Blueprint, task: Task) -> nn.Module:
    """Layers whose gates choose between a transformation and the input."""
    return _Highway(blueprint, task)


# Gated linear units.


def _draw_glu(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "mnist", "fashion-mnist", "teacher", "friedman", "forecast"),
        width=640 if large else pick(rng, 32, 48, 80),
        depth=12 if large else int(rng.integers(2, 9)),
        batch=pick(rng, 16, 32, 64),
        options={"gate": pick(rng, "sigmoid", "silu", "gelu"), "norm": True, "bias": bool(rng.integers(2))},
    )


class _GatedLayer(nn.Module):
    def __init__(self, before: int, after: int, options: Options) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(before) if options["norm"] else nn.Identity()
        self.both = nn.Linear(before, 2 * after, bias=options["bias"] or "gate_bias" in options)
        nn.init.kaiming_uniform_(self.both.weight, nonlinearity="relu")
        if "gate_bias" in options:
            nn.init.constant_(self.both.bias[after:].detach(), options["gate_bias"])
        self.kind = options["gate"]

    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.both(self.norm(x)).chunk(2, dim=-1)
        if self.kind == "none":
            return torch.as_tensor(value + gate)
        if self.kind == "softmax":
            return torch.as_tensor(value * gate.softmax(dim=-1))
        gated: Tensor = value * (torch.sigmoid(gate) if self.kind == "sigmoid" else getattr(F, self.kind)(gate))
        return gated


@family(
    "mlp-glu",
    source="Shazeer 2020, GLU variants improve transformer; Dauphin et al. 2017",
    draw=_draw_glu,
    structural={
        "no-norm": lambda b, rng: b.changed(norm=False, depth=min(b.depth, 4)),  # products of many layers overflow
        "no-activation": {"gate": "none"},
        "wrong-activation": {"gate": "softmax"},
        "gate-closed": lambda b, rng: b.changed(gate="sigmoid", gate_bias=float(pick(rng, -6.0, -9.0))),
        "bottleneck": lambda b, rng: b.changed(bottleneck=pick(rng, 1, 2)),
    },
)
def mlp_glu(blueprint: Blueprint, task: Task) -> nn.Module:
    """Gated linear layers with layer normalisation, without skips."""
    sizes = [math.prod(task.shape), *[blueprint.width] * blueprint.depth]
    if "bottleneck" in blueprint.options:
        sizes[1 + blueprint.depth // 2] = blueprint.options["bottleneck"]
    model = nn.Sequential(nn.Flatten())
    for i in range(blueprint.depth):
        model.add_module(f"gated_{i}", _GatedLayer(sizes[i], sizes[i + 1], blueprint.options))
    model.add_module("readout", nn.Linear(sizes[-1], task.outputs))
    return model
