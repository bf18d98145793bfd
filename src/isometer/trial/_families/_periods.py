"""Series whose periods are found by a Fourier transform and folded into pictures."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isometer.trial._families._fourth import fourth
from isometer.trial._families._second import ACTIVATION, GELU, NORM, SKIPS, activation, layer_norm, sizes
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "periods-wrong": "every series is folded at the same short period, whatever it looks like",
}


class _Inception(nn.Module):
    """The mean of convolutions of several sizes."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(before, after, size, padding=size // 2) for size in (1, 3))
        for conv in self.convs:
            nn.init.kaiming_normal_(conv.get_parameter("weight"), mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(conv.get_parameter("bias"))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([conv(x) for conv in self.convs]).mean(dim=0)


class _Folded(nn.Module):
    """The series folded at each of its strongest periods, seen by convolutions, and mixed by their amplitudes."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o, self.skip = o, o.get("skip", 1.0)
        self.seen = nn.Sequential(_Inception(width, width), activation(o), _Inception(width, width))
        self.norm = layer_norm(width, o)

    def forward(self, x: Tensor) -> Tensor:
        steps = x.shape[1]
        amplitudes = torch.fft.rfft(x, dim=1).abs().mean(dim=-1)
        strongest = amplitudes.detach().mean(dim=0)[1:].nan_to_num().topk(self.o["strongest"]).indices + 1
        said = []
        for frequency in strongest.tolist():
            period = self.o.get("period", steps // frequency)
            folded = F.pad(x, (0, 0, 0, -steps % period)).mT.reshape(len(x), x.shape[2], -1, period)
            said.append(self.seen(folded).flatten(2)[:, :, :steps].mT)
        weight = (self.o.get("sharp", 1.0) * amplitudes[:, strongest]).softmax(dim=self.o.get("axis", 1))
        mixed = torch.einsum("nk,nktc->ntc", weight, torch.stack(said, dim=1))
        return torch.as_tensor(self.norm(mixed + self.skip * x))


@fourth(
    "times-net",
    source="Wu et al. 2023, TimesNet: temporal 2D-variation modeling for general time series analysis",
    draw=sizes(("forecast", "rhythms"), (8, 12, 16), (1, 2), batches=(16,), strongest=(2, 3), activation=GELU),
    structural={**SKIPS, **NORM, **ACTIVATION, "periods-wrong": {"period": 1}, "wrong-axis": {"axis": 0}},
)
class _TimesNet(nn.Module):
    """A series is embedded by a convolution, extended by what is to come, and folded again and again."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        o, width, self.series = blueprint.options, blueprint.width, task.objective == "values"
        steps, features = task.shape
        self.embed = nn.Conv1d(features, width, 3, padding=1, padding_mode="circular", bias=False)
        nn.init.kaiming_normal_(self.embed.weight, mode="fan_in", nonlinearity="leaky_relu")
        self.places = nn.Parameter(0.1 * torch.randn(steps, width))
        self.extend = nn.Linear(steps, steps + task.outputs) if self.series else nn.Identity()
        self.blocks = nn.Sequential(*[_Folded(width, o) for _ in range(blueprint.depth)])
        self.act = nn.Identity() if self.series else activation(o)
        self.head = nn.Linear(width, 1) if self.series else nn.Linear(steps * width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x.mT).mT + self.places
        h = self.act(self.blocks(self.extend(h.mT).mT))
        if not self.series:
            return torch.as_tensor(self.head(h.flatten(1)))
        return torch.as_tensor(self.head(h)[:, x.shape[1] :, 0])
