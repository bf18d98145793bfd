"""Maps between functions: Haar wavelets scale by scale, and kernels that a network makes from coordinates."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._second import ACTIVATION, GELU, activation, sizes
from isometer.trial._families._third import third
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "transform-scale": "each scale of the transform makes the signal larger, or smaller, as if it were not orthogonal",
    "details-lost": "only the coarsest scale passes",
    "initialisation-scale": "the kernels are far too small or far too large",
    "grid-missing": "the kernel does not know the coordinates",
}
_FUNCTIONS = ("integral", "forecast")


class _Haar(nn.Module):
    """A matrix for the details of each scale and one for what remains, between a transform and its inverse."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o, gain = o, o.get("gain", 1.0) * width**-0.5
        self.details = nn.Parameter(gain * torch.randn(o["scales"], width, width))
        self.coarse = nn.Parameter(gain * torch.randn(width, width))
        self.places = nn.Parameter(torch.ones(24 // 2 ** o["scales"], 1))  # the coarsest scale knows where it is

    def forward(self, x: Tensor) -> Tensor:  # (n, places, width)
        scale, details = self.o.get("scale", 0.5**0.5), []
        for matrix in self.details:
            even, odd = x[:, ::2], x[:, 1::2]
            x, detail = scale * (even + odd), scale * (even - odd)
            details.append(0 * detail @ matrix if self.o.get("lost") else detail @ matrix)
        x = (x * self.places) @ self.coarse
        for detail in reversed(details):
            x = scale * torch.stack([x + detail, x - detail], dim=2).flatten(1, 2)
        return x


class _LowRank(nn.Module):
    """An integral over a kernel of two coordinates, which is a sum of products of functions of one."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        rank, gain = o["rank"], o.get("gain", 1.0)
        grid = torch.linspace(-1.7, 1.7, 24)[:, None] * (0.0 if o.get("nowhere") else 1.0)
        self.register_buffer("grid", grid, persistent=False)
        self.kernel = nn.Sequential(nn.Linear(1, 32), nn.GELU(), nn.Linear(32, 2 * rank))
        self.mix = nn.Parameter(gain * torch.randn(rank, width, width) * (width * rank) ** -0.5)

    def forward(self, x: Tensor) -> Tensor:
        to, of = (3 * self.kernel(self.get_buffer("grid"))).chunk(2, dim=1)  # (24, rank) each
        moments = torch.einsum("sr,nsi->nri", of, x) * 24**-0.5
        return torch.einsum("tr,nri,rio->nto", to, moments, self.mix)


class _Operator(nn.Module):
    """A function and its coordinates in, layers of an integral beside a pointwise map, a function out."""

    def __init__(self, integrals: list[nn.Module], width: int, task: Task, o: Options) -> None:
        super().__init__()
        self.lift, self.integrals = nn.Linear(2, width), nn.ModuleList(integrals)
        self.local = nn.ModuleList(nn.Linear(width, width) for _ in (integrals if o.get("pointwise", True) else []))
        self.act, self.project = activation(o), nn.Sequential(nn.Linear(width, 2 * width), nn.GELU())
        self.read = nn.Linear(2 * width, 1)
        self.tail = None if task.outputs == task.shape[0] else nn.Linear(task.shape[0], task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = x.reshape(len(x), -1, 1)
        h = self.lift(torch.cat([x, torch.linspace(-1.7, 1.7, x.shape[1])[:, None].expand_as(x)], dim=2))
        for i, integral in enumerate(self.integrals):
            h = self.act(integral(h) + self.local[i](h) if len(self.local) else integral(h))
        y: Tensor = self.read(self.project(h))[..., 0]
        return y if self.tail is None else torch.as_tensor(self.tail(y))


@third(
    "wavelet-operator",
    source="Tripura and Chakraborty 2023, Wavelet neural operator; Gupta et al. 2021, Multiwavelet-based operators",
    draw=sizes(_FUNCTIONS, (16, 24, 32), (1, 2), batches=(16,), scales=(1, 2, 3), activation=GELU),
    structural={
        **ACTIVATION,
        "no-skips": {"pointwise": False},
        "transform-scale": drawn(scale=(0.1, 3.0), scales=(2, 3)),
        "details-lost": {"lost": True, "pointwise": False},
        "initialisation-scale": drawn(gain=(1e-3, 30.0)),
    },
)
def wavelet_operator(blueprint: Blueprint, task: Task) -> nn.Module:
    """Layers that act on the scales of a function one by one."""
    o, width = blueprint.options, blueprint.width
    return _Operator([_Haar(width, o) for _ in range(blueprint.depth)], width, task, o)


@third(
    "kernel-operator",
    source="Kovachki et al. 2023, Neural operator: learning maps between function spaces (the low-rank operator)",
    draw=sizes(_FUNCTIONS, (16, 24, 32), (1, 2), batches=(16,), rank=(3, 4, 6), activation=GELU),
    structural={
        **ACTIVATION,
        "no-skips": {"pointwise": False},
        "bottleneck": {"rank": 1, "pointwise": False},
        "grid-missing": {"nowhere": True},
        "initialisation-scale": drawn(gain=(1e-3, 30.0)),
    },
)
def kernel_operator(blueprint: Blueprint, task: Task) -> nn.Module:
    """Layers that integrate over a learned kernel."""
    o, width = blueprint.options, blueprint.width
    return _Operator([_LowRank(width, o) for _ in range(blueprint.depth)], width, task, o)
