"""Forecasts, operators, fields, codes and places: regression by networks made for it."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._second import (
    ACTIVATION,
    GELU,
    NORM,
    RELU,
    USUAL,
    NormedBranch,
    activation,
    feed_forward,
    layer_norm,
    second,
    sizes,
)
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "aggregation-sum": "a sum over the grid where a mean is meant",
    "frequency-scale": "the filters turn far too fast or hardly at all",
    "code-saturated": "what enters the bounded code is so large that it has no gradient",
    "code-rounded": "the code is rounded, and no gradient passes",
    "output-squashed": "a sigmoid behind the decoder",
    "temperature": "the softmax over places is flat, or picks one place",
    "pair-summed": "the codes of a pair are added, so that their difference is lost",
}


class _DenseBlock(nn.Module):
    def __init__(self, before: int, inner: int, after: int, o: Options) -> None:
        super().__init__()
        self.first, self.second, self.past = nn.Linear(before, inner), nn.Linear(inner, after), nn.Linear(before, after)
        self.act, self.drop, self.norm = activation(o), nn.Dropout(o["dropout"]), layer_norm(after, o)
        self.skip = o.get("skip", 1.0)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.norm(self.drop(self.second(self.act(self.first(x)))) + self.skip * self.past(x)))


@second(
    "tide",
    source="Das et al. 2023, Long-term forecasting with TiDE: time-series dense encoder",
    draw=sizes(
        ("forecast", "integral"), (16, 32, 48), (1, 2, 3), batches=(32, 64), dropout=(0.0, 0.1), activation=GELU
    ),
    structural={
        **NORM,
        "no-skips": {"skip": 0.0, "around": False},
        "wrong-activation": drawn(activation=("Sigmoid", "Softplus"), around=(False,)),
        "bottleneck": {"code": 1, "around": False},
        "dropout-high": drawn(dropout=(0.9, 0.97)),
    },
)
class _Tide(nn.Module):
    """Dense encoder and decoder, and a linear map around both."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width, steps = blueprint.options, blueprint.width, math.prod(task.shape)
        inner = [steps, *[width] * blueprint.depth]
        code = self.o.get("code", width)
        encode = [_DenseBlock(a, width, b, self.o) for a, b in pairwise(inner)]
        decode = [_DenseBlock(width, width, code, self.o), nn.Linear(code, task.outputs)]
        self.body, self.around = nn.Sequential(*encode, *decode), nn.Linear(steps, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return torch.as_tensor(self.body(x) + (self.around(x) if self.o.get("around", True) else 0.0 * self.around(x)))


class _Galerkin(nn.Module):
    """Keys and values are normalised, and nothing is exponentiated: an integral over the grid."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o = o
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm_k, self.norm_v = layer_norm(width, o), layer_norm(width, o)
        for layer in (self.q, self.k, self.v):
            nn.init.xavier_uniform_(layer.weight, gain=o.get("gain", 1.0))

    def forward(self, x: Tensor) -> Tensor:
        points = 1 if self.o.get("summed") else x.shape[1]
        return torch.as_tensor(self.out(self.q(x) @ (self.norm_k(self.k(x)).mT @ self.norm_v(self.v(x)) / points)))


@second(
    "galerkin-transformer",
    source="Cao 2021, Choose a transformer: Fourier or Galerkin",
    draw=sizes(("integral",), (16, 24, 32), (1, 2), activation=("SiLU", "GELU"), gain=(0.1, 0.5)),
    structural={
        **USUAL,
        "aggregation-sum": {"summed": True},
        "no-positions": {"places": "none"},
        "initialisation-scale": drawn(gain=(1e-3, 20.0)),
    },
)
class _Operator(nn.Module):
    """Linear attention between the points of a grid."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        o, width, points = blueprint.options, blueprint.width, task.shape[0]
        grid = torch.linspace(-1.7, 1.7, points)
        self.register_buffer("grid", grid * (0.0 if o.get("places") == "none" else 1.0), persistent=False)
        self.embed, blocks = nn.Linear(2, width), list[nn.Module]()
        for _ in range(blueprint.depth):
            blocks += [NormedBranch(width, _Galerkin(width, o), {**o, "norm": False})]
            blocks += [NormedBranch(width, feed_forward(width, o), o)]
        self.blocks = nn.Sequential(*blocks)
        self.read = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, x: Tensor) -> Tensor:
        pairs = torch.stack([x, self.get_buffer("grid").expand_as(x)], dim=-1)
        return torch.as_tensor(self.read(self.blocks(self.embed(pairs)))[..., 0])


@second(
    "multiplicative-filters",
    source="Fathony et al. 2021, Multiplicative filter networks",
    draw=sizes(("field", "friedman"), (24, 32, 64), (1, 2, 3), batches=(32, 64), frequency=(0.7, 1.5)),
    structural={
        "frequency-scale": drawn(frequency=(30.0, 100.0, 1e-4)),
        "no-activation": {"plain": True},
        "initialisation-scale": drawn(gain=(0.01, 10.0)),
    },
)
class _Filters(nn.Module):
    """Products of sines of the input; no other nonlinearity."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width, depth = blueprint.options, blueprint.width, blueprint.depth
        self.filters = nn.ModuleList(nn.Linear(task.shape[0], width) for _ in range(depth + 1))
        for layer in self.filters:
            nn.init.normal_(layer.get_parameter("weight"), std=self.o["frequency"] / math.sqrt(depth + 1))
            nn.init.uniform_(layer.get_parameter("bias"), -math.pi, math.pi)
        self.linear = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        for layer in self.linear:
            bound = self.o.get("gain", 1.0) * math.sqrt(6 / width)
            nn.init.uniform_(layer.get_parameter("weight"), -bound, bound)
        self.read = nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        waves = [layer(x) if self.o.get("plain") else torch.sin(layer(x)) for layer in self.filters]
        h = waves[0]
        for layer, wave in zip(self.linear, waves[1:], strict=True):
            h = layer(h) * wave
        return torch.as_tensor(self.read(h))


@second(
    "bounded-code",
    source="Hinton and Salakhutdinov 2006, Autoencoders; Mentzer et al. 2024, Finite scalar quantization",
    draw=sizes(
        ("denoise",),
        (48, 64, 96),
        (1, 2, 3),
        batches=(32, 64),
        code=(12, 24),
        levels=(0, 4),
        activation=("ReLU", "Tanh"),
    ),
    structural={
        **ACTIVATION,
        "code-saturated": drawn(gain=(100.0, 1000.0)),
        "code-rounded": {"levels": 1, "rounded": True},
        "bottleneck": {"code": 1},
        "output-squashed": {"squashed": True},
    },
)
class _Coded(nn.Module):
    """A picture, through a few bounded numbers, to a picture."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width, pixels = blueprint.options, blueprint.width, math.prod(task.shape)
        self.shape, hidden = task.shape, list[nn.Module]()
        for _ in range(blueprint.depth - 1):
            hidden += [nn.Linear(width, width), activation(self.o)]
        self.encode = nn.Sequential(nn.Flatten(), nn.Linear(pixels, width), activation(self.o), *hidden)
        self.code, code = nn.Linear(width, self.o["code"]), self.o["code"]
        self.decode = nn.Sequential(nn.Linear(code, width), activation(self.o), nn.Linear(width, pixels))

    def forward(self, x: Tensor) -> Tensor:
        z = torch.tanh(self.o.get("gain", 1.0) * self.code(self.encode(x)))
        levels = self.o["levels"]
        if levels and self.o.get("rounded"):
            z = torch.round(z * levels) / levels
        elif levels:  # rounded on the way forward, straight through on the way back
            z = z + (torch.round(z * levels) / levels - z).detach()
        y = self.decode(z).view(-1, *self.shape)
        return torch.as_tensor(y.sigmoid() if self.o.get("squashed") else y)


@second(
    "siamese",
    source="Bromley et al. 1994, Signature verification using a Siamese network; Koch et al. 2015",
    draw=sizes(
        ("twins",),
        (16, 32, 48),
        (1, 2),
        batches=(32, 64),
        code=(8, 16),
        squared=(True, False),
        norm=(True, False),
        activation=("ReLU", "Tanh"),
    ),
    structural={
        **ACTIVATION,
        "pair-summed": {"summed": True},
        "branch-detached": {"detached": True},
        "bottleneck": {"code": 1},
    },
)
class _Siamese(nn.Module):
    """One encoder for both of a pair; the answer is read from the distance of their codes, feature by feature."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        layers: list[nn.Module] = []
        for before in (task.shape[1], *[width] * (blueprint.depth - 1)):
            layers += [nn.Linear(before, width), layer_norm(width, self.o), activation(self.o)]
        self.encode = nn.Sequential(*layers, nn.Linear(width, self.o["code"]))
        for layer in self.encode:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight)
        self.read = nn.Sequential(nn.Linear(self.o["code"], width), nn.ReLU(), nn.Linear(width, task.outputs))

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.encode(x[:, 0]), self.encode(x[:, 1])
        if self.o.get("detached"):
            right = right.detach()
        if self.o.get("summed"):
            return torch.as_tensor(self.read(left + right))
        return torch.as_tensor(self.read((left - right).square() if self.o["squared"] else (left - right).abs()))


@second(
    "soft-argmax",
    source="Levine et al. 2016, End-to-end training of deep visuomotor policies",
    draw=sizes(("locate",), (8, 16, 24), (2, 3), kernel=(3, 5), activation=RELU),
    structural={
        **ACTIVATION,
        "temperature": drawn(temperature=(300.0, 1e-3)),
        "wrong-axis": {"axis": 0},
        "stride-too-large": {"stride": 4},
    },
)
class _SoftArgmax(nn.Module):
    """Features vote for a place: the expected coordinates under a softmax over pixels."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        layers: list[nn.Module] = []
        for before in (task.shape[0], *[width] * (blueprint.depth - 1)):
            stride = self.o.get("stride", 1)
            layers += [nn.Conv2d(before, width, self.o["kernel"], stride, self.o["kernel"] // 2), activation(self.o)]
        self.features = nn.Sequential(*layers)
        self.temperature = nn.Parameter(torch.tensor(float(self.o.get("temperature", 0.3))))
        self.read = nn.Linear(2 * width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        maps = self.features(x)
        line = torch.linspace(-1, 1, maps.shape[-1])
        weight = (maps / self.temperature).flatten(2).softmax(dim=self.o.get("axis", 2)).view_as(maps)
        places = [(weight.sum(dim=3) * line).sum(dim=2), (weight.sum(dim=2) * line).sum(dim=2)]
        return torch.as_tensor(self.read(torch.cat(places, dim=1)))
