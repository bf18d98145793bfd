"""Networks of the kind "a network within": weights that another network makes, one layer used as a flow."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from isometer.trial._family import Blueprint, family, pick
from isometer.trial._tasks import Task

Tensor = torch.Tensor

FAULTS: dict[str, str] = {
    "step-size": "the steps of the integration are too large, or too small to do anything",
    "generated-scale": "generated weights have the scale of activations, not of weights",
    "branch-detached": "what the weights are made from gets no gradient",
    "fixed-point-lost": "the layer that is iterated expands by so much that it has no fixed point",
}


# Euler steps.


def _draw_ode(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "teacher", "friedman", "integral", "mnist"),
        width=384 if large else pick(rng, 24, 48, 64),
        depth=20 if large else int(rng.integers(4, 25)),
        batch=64 if large else pick(rng, 32, 64),
        options={
            "tied": bool(rng.integers(2)),
            "time": bool(rng.integers(2)),
            "horizon": pick(rng, 1.0, 2.0),
            "field": "tanh",
        },
    )


class _EulerNet(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, self.o, self.steps = blueprint.width, blueprint.options, blueprint.depth
        self.encode = nn.Linear(math.prod(task.shape), width)
        count = 1 if self.o["tied"] else self.steps
        extra = int(self.o["time"])
        self.fields = nn.ModuleList(
            nn.ModuleList([nn.Linear(width + extra, width), nn.Linear(width, width)]) for _ in range(count)
        )
        self.decode = nn.Linear(width, task.outputs)

    def velocity(self, h: Tensor, step: int) -> Tensor:
        first, second = self.fields[step % len(self.fields)].children()
        if self.o["time"]:
            h = F.pad(h, (0, 1), value=step / self.steps)
        h = first(h)
        if self.o["field"] != "linear":
            h = getattr(torch, self.o["field"])(h)
        return torch.as_tensor(second(h))

    def forward(self, x: Tensor) -> Tensor:
        h = self.encode(x.flatten(1))
        size = self.o.get("step", self.o["horizon"] / self.steps)
        for step in range(self.steps):
            change = self.velocity(h, step)
            h = change if self.o.get("no_skips") else h + size * change
        return torch.as_tensor(self.decode(h))


@family(
    "euler-net",
    source="Chen et al. 2018, Neural ordinary differential equations; Haber and Ruthotto 2017",
    draw=_draw_ode,
    structural={
        "no-skips": {"no_skips": True},
        "skip-scaled": {"step": 1.0},
        "no-activation": {"field": "linear"},
        "wrong-activation": {"field": "sigmoid"},
        "step-size": lambda b, rng: b.changed(step=float(pick(rng, 3.0, 1e-5))),
    },
)
def euler_net(blueprint: Blueprint, task: Task) -> nn.Module:
    """Euler steps along a learned field, the same at every step or one for each."""
    return _EulerNet(blueprint, task)


# Hypernetwork.


def _draw_hyper(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "teacher", "friedman", "field"),
        width=176 if large else pick(rng, 12, 16, 24),
        depth=4 if large else int(rng.integers(1, 4)),
        batch=64 if large else pick(rng, 32, 64),
        options={"code": pick(rng, 8, 16), "hidden": pick(rng, 16, 32), "dynamic": bool(rng.integers(2)), "gain": 1.0},
    )


class _Hypernetwork(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o = o = blueprint.options
        width = blueprint.width
        self.sizes = [task.shape[0], *[width] * blueprint.depth, task.outputs]
        self.codes = nn.Parameter(torch.randn(len(self.sizes) - 1, o["code"]))
        self.look = nn.Linear(task.shape[0], o["code"]) if o["dynamic"] else None
        self.body = nn.Sequential(nn.Linear(o["code"], o["hidden"]), nn.Tanh())
        self.heads = nn.ModuleList()
        self.biases = nn.ParameterList()
        for a, b in zip(self.sizes[:-1], self.sizes[1:], strict=True):
            head = nn.Linear(o["hidden"], a * b, bias=False)
            # Hyperfan: what comes out has the variance 2 / fan-in of weights, tanh having about 0.4.
            nn.init.normal_(head.weight, std=o["gain"] * math.sqrt(2 / (0.4 * o["hidden"] * a)))
            self.heads.append(head)
            self.biases.append(nn.Parameter(torch.zeros(b)))

    def forward(self, x: Tensor) -> Tensor:
        h, last = x, len(self.heads) - 1
        for i, head in enumerate(self.heads):
            code = self.codes[i].expand(len(x), -1) if self.look is None else self.codes[i] + self.look(x)
            if self.o.get("detached"):
                code = code.detach()
            weight = head(self.body(code)).view(len(x), self.sizes[i], self.sizes[i + 1])
            h = torch.bmm(h[:, None, :], weight)[:, 0] + self.biases[i]
            if i < last and self.o.get("activation") != "none":
                h = F.leaky_relu(h, 0.05)
        return h


@family(
    "hypernetwork",
    source="Ha et al. 2017, HyperNetworks; Chang et al. 2020 for the initialisation",
    draw=_draw_hyper,
    structural={
        "no-activation": {"activation": "none"},
        "generated-scale": lambda b, rng: b.changed(gain=float(pick(rng, 0.02, 4.0, 10.0))),
        "branch-detached": {"detached": True},
    },
)
def hypernetwork(blueprint: Blueprint, task: Task) -> nn.Module:
    """A perceptron whose weights another network makes, for the layer or for layer and sample."""
    return _Hypernetwork(blueprint, task)


# An equilibrium, by iteration.


def _draw_equilibrium(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "teacher", "friedman", "mnist", "fashion-mnist"),
        width=640 if large else pick(rng, 32, 64, 100),
        depth=24 if large else int(rng.integers(5, 25)),
        batch=64 if large else pick(rng, 32, 64),
        options={"contraction": pick(rng, 0.5, 0.7, 0.9), "norm": bool(rng.integers(2)), "inject": True},
    )


class _Equilibrium(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, self.o, self.iterations = blueprint.width, blueprint.options, blueprint.depth
        self.inject = nn.Linear(math.prod(task.shape), width)
        self.again = nn.Linear(width, width, bias=False)
        nn.init.orthogonal_(self.again.weight, gain=self.o["contraction"])
        self.norm = nn.LayerNorm(width) if self.o["norm"] else nn.Identity()
        self.read = nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        source = self.inject(x.flatten(1))
        z = torch.zeros_like(source) if self.o["inject"] else source
        for _ in range(self.iterations):
            pushed = self.again(z) + source if self.o["inject"] else self.again(z)
            z = pushed if self.o.get("activation") == "none" else F.relu(pushed)
        return torch.as_tensor(self.read(self.norm(z)))


@family(
    "equilibrium-net",
    source="Bai et al. 2019, Deep equilibrium models (unrolled)",
    draw=_draw_equilibrium,
    structural={
        "no-skips": {"inject": False},
        "no-activation": {"activation": "none"},
        "fixed-point-lost": lambda b, rng: b.changed(contraction=float(pick(rng, 2.0, 3.0))),
    },
)
def equilibrium_net(blueprint: Blueprint, task: Task) -> nn.Module:
    """One layer iterated towards a fixed point, the input added every time."""
    return _Equilibrium(blueprint, task)
