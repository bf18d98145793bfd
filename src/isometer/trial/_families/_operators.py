"""Functions of coordinates, maps between functions, and forecasts."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from isometer.trial._family import Blueprint, family, pick
from isometer.trial._tasks import Task

Tensor = torch.Tensor

FAULTS: dict[str, str] = {
    "frequency-scale": "the frequencies are many times too high, or too low to tell places apart",
    "initialisation-plain": "sine layers are initialised as layers of rectifiers are",
    "branch-detached": "one of two branches is computed without gradients",
    "modes-missing": "only the constant mode passes",
}


# Sines.


def _draw_siren(rng: np.random.Generator, large: bool) -> Blueprint:
    task = pick(rng, "field", "field", "friedman")
    return Blueprint(
        task=task,
        width=800 if large else pick(rng, 32, 64, 128),
        depth=10 if large else int(rng.integers(2, 8)),
        batch=64 if large else pick(rng, 32, 64),
        options={
            "omega": float(pick(rng, 3.0, 5.0, 8.0) if task == "field" else pick(rng, 0.7, 1.0)),
            "hidden_omega": float(pick(rng, 5.0, 30.0)),
            "init": "siren",
        },
    )


class SineLayer(nn.Module):
    """A linear layer, a frequency and a sine."""

    def __init__(self, before: int, after: int, omega: float, first: bool, init: str) -> None:
        super().__init__()
        self.omega = omega
        self.linear = nn.Linear(before, after)
        bound = 1 / before if first else math.sqrt(6 / before) / omega
        if init == "siren":
            nn.init.uniform_(self.linear.weight, -bound, bound)
        elif init == "plain":
            nn.init.kaiming_normal_(self.linear.weight)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(self.omega * self.linear(x))


@family(
    "siren",
    source="Sitzmann et al. 2020, Implicit neural representations with periodic activation functions",
    draw=_draw_siren,
    structural={
        "frequency-scale": lambda b, rng: b.changed(omega=b.options["omega"] * pick(rng, 0.01, 20.0, 60.0)),
        "initialisation-plain": {"init": "plain"},
        "bottleneck": lambda b, rng: b.changed(bottleneck=pick(rng, 1, 2)),
        "wrong-activation": {"activation": "relu"},
    },
)
def siren(blueprint: Blueprint, task: Task) -> nn.Module:
    """Layers of sines with the initialisation that belongs to them."""
    o, width = blueprint.options, blueprint.width
    sizes = [width] * blueprint.depth
    if "bottleneck" in o:
        sizes[blueprint.depth // 2] = o["bottleneck"]
    layers: list[nn.Module] = [SineLayer(task.shape[0], sizes[0], o["omega"], True, "siren" if o["omega"] > 2 else "")]
    for before, after in pairwise(sizes):
        layers.append(SineLayer(before, after, o["hidden_omega"], False, o["init"]))
        if o.get("activation") == "relu":
            layers[-1] = nn.Sequential(layers[-1].get_submodule("linear"), nn.ReLU())
    return nn.Sequential(*layers, nn.Linear(sizes[-1], task.outputs))


# Random Fourier features.


def _draw_fourier(rng: np.random.Generator, large: bool) -> Blueprint:
    task = pick(rng, "field", "field", "friedman", "teacher")
    return Blueprint(
        task=task,
        width=800 if large else pick(rng, 32, 64, 128),
        depth=10 if large else int(rng.integers(1, 8)),
        batch=64 if large else pick(rng, 32, 64),
        options={
            "sigma": float(pick(rng, 0.15, 0.3, 0.5) if task == "field" else pick(rng, 0.02, 0.05)),
            "features": pick(rng, 32, 64),
            "learned": bool(rng.integers(2)),
            "activation": pick(rng, "relu", "gelu"),
        },
    )


class _FourierNet(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        o, width = blueprint.options, blueprint.width
        frequencies = torch.randn(task.shape[0], o["features"]) * o["sigma"] * 2 * math.pi
        if o["learned"]:
            self.B = nn.Parameter(frequencies)
        else:
            self.register_buffer("B", frequencies)
        self.activation = o["activation"]
        sizes = [2 * o["features"]] + [width] * blueprint.depth
        if "bottleneck" in o:
            sizes[(blueprint.depth + 1) // 2] = o["bottleneck"]
        self.weights = nn.ParameterList()
        self.shifts = nn.ParameterList()
        for before, after in pairwise(sizes):
            self.weights.append(nn.Parameter(torch.randn(after, before) * math.sqrt(2 / before)))
            self.shifts.append(nn.Parameter(torch.zeros(after)))
        self.final = nn.Linear(sizes[-1], task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        phase = x @ self.B
        h = torch.cat([phase.cos(), phase.sin()], dim=-1) * math.sqrt(2)
        for weight, shift in zip(self.weights, self.shifts, strict=True):
            h = F.linear(h, weight, shift)
            if self.activation != "none":
                h = getattr(F, self.activation)(h)
        return torch.as_tensor(self.final(h))


@family(
    "fourier-features",
    source="Tancik et al. 2020, Fourier features let networks learn high frequency functions",
    draw=_draw_fourier,
    structural={
        "frequency-scale": lambda b, rng: b.changed(sigma=b.options["sigma"] * pick(rng, 0.003, 20.0, 50.0)),
        "no-activation": {"activation": "none"},
        "wrong-activation": lambda b, rng: b.changed(activation=pick(rng, "sigmoid", "softsign")),
        "bottleneck": lambda b, rng: b.changed(bottleneck=pick(rng, 1, 2)),
    },
)
def fourier_features(blueprint: Blueprint, task: Task) -> nn.Module:
    """Sines and cosines of random directions, then a perceptron."""
    return _FourierNet(blueprint, task)


# Branch and trunk.


def _draw_deeponet(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "integral", "forecast"),
        width=640 if large else pick(rng, 32, 48, 64),
        depth=10 if large else int(rng.integers(1, 7)),
        batch=64 if large else pick(rng, 32, 64),
        options={"modes": pick(rng, 16, 24, 32), "activation": pick(rng, "Tanh", "GELU"), "combine": "scaled"},
    )


class _DeepONet(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        o, self.o = blueprint.options, blueprint.options
        modes, width, depth = o["modes"], blueprint.width, blueprint.depth
        self.branch = self.mlp([math.prod(task.shape), *[width] * depth, modes])
        self.trunk = self.mlp([1, *[width] * depth, modes])
        self.b0 = nn.Parameter(torch.zeros(task.outputs))
        self.register_buffer("grid", 2 * torch.linspace(-1, 1, task.outputs)[:, None])

    def mlp(self, sizes: list[int]) -> nn.Sequential:
        net = nn.Sequential()
        for i in range(len(sizes) - 1):
            linear = nn.Linear(sizes[i], sizes[i + 1])
            nn.init.xavier_normal_(linear.weight, gain=1.0 if i == len(sizes) - 2 else 1.4)
            nn.init.uniform_(linear.bias, -0.5, 0.5)
            net.append(linear)
            if i < len(sizes) - 2:
                net.append(getattr(nn, self.o["activation"])())
        return net

    def forward(self, x: Tensor) -> Tensor:
        coefficients, basis = self.branch(x.flatten(1)), self.trunk(self.get_buffer("grid"))
        if self.o.get("detached"):
            basis = basis.detach()
        if self.o["combine"] == "first":
            coefficients, basis = coefficients[:, :1], basis[:, :1]
        if self.o["combine"] == "softmax":
            basis = basis.softmax(dim=0)
        scale: float = 1.0 if self.o["combine"] == "sum" else self.o["modes"] ** -0.5
        return self.b0 + torch.einsum("nm,gm->ng", coefficients, basis) * scale


@family(
    "deeponet",
    source="Lu et al. 2021, DeepONet",
    draw=_draw_deeponet,
    structural={
        "no-activation": {"activation": "Identity"},
        "wrong-activation": lambda b, rng: b.changed(activation=pick(rng, "Sigmoid", "Hardshrink")),
        "bottleneck": {"combine": "first"},
        "wrong-axis": {"combine": "softmax"},
        "branch-detached": {"detached": True},
    },
)
def deeponet(blueprint: Blueprint, task: Task) -> nn.Module:
    """A network for the function and one for the place; the output is their inner product."""
    return _DeepONet(blueprint, task)


# Fourier neural operator.


def _draw_fno(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "integral", "forecast"),
        width=96 if large else pick(rng, 12, 16, 24, 32),
        depth=6 if large else int(rng.integers(1, 6)),
        batch=64 if large else pick(rng, 16, 32),
        options={"modes": pick(rng, 6, 8, 12), "coordinates": True, "pointwise": True, "activation": "gelu"},
    )


class SpectralConv1d(nn.Module):
    """Multiplies the lowest modes by matrices."""

    def __init__(self, channels: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.real = nn.Parameter(torch.randn(channels, channels, modes) * (2 * channels) ** -0.5)
        self.imaginary = nn.Parameter(torch.randn(channels, channels, modes) * (2 * channels) ** -0.5)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(x, norm="ortho")[..., : self.modes]
        mixed = torch.einsum("nim,iom->nom", spectrum, torch.complex(self.real, self.imaginary))
        smooth: Tensor = torch.fft.irfft(mixed, n=x.shape[-1], norm="ortho")
        return smooth


class _FNO(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, self.o = blueprint.width, blueprint.options
        self.lift = nn.Conv1d(1 + self.o["coordinates"], width, 1)
        self.spectral = nn.ModuleList(SpectralConv1d(width, self.o["modes"]) for _ in range(blueprint.depth))
        self.local = nn.ModuleList(
            nn.Conv1d(width, width, 1) for _ in range(blueprint.depth if self.o["pointwise"] else 0)
        )
        self.project = nn.Sequential(nn.Conv1d(width, 2 * width, 1), nn.GELU(), nn.Conv1d(2 * width, 1, 1))
        self.read = None if task.outputs == task.shape[0] else nn.Linear(task.shape[0], task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = x.reshape(len(x), 1, -1)
        if self.o["coordinates"]:
            x = torch.cat([x, torch.linspace(-1, 1, x.shape[-1]).expand_as(x)], dim=1)
        x = self.lift(x)
        for i, spectral in enumerate(self.spectral):
            x = spectral(x) + self.local[i](x) if len(self.local) else spectral(x)
            if self.o["activation"] != "none" and i < len(self.spectral) - 1:
                x = getattr(F, self.o["activation"])(x)
        x = self.project(x).squeeze(1)
        return x if self.read is None else torch.as_tensor(self.read(x))


@family(
    "fno",
    source="Li et al. 2021, Fourier neural operator",
    draw=_draw_fno,
    structural={
        "no-skips": {"pointwise": False},
        "no-positions": {"coordinates": False},
        "no-activation": lambda b, rng: b.changed(activation="none", depth=max(2, b.depth)),
        "wrong-activation": lambda b, rng: b.changed(activation="sigmoid", depth=max(2, b.depth)),
        "modes-missing": {"modes": 1, "pointwise": False},
    },
)
def fno(blueprint: Blueprint, task: Task) -> nn.Module:
    """Layers that act on the low frequencies of a function, beside a pointwise map."""
    return _FNO(blueprint, task)
