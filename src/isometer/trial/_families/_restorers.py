"""Pictures under noise: nested ways up from every resolution, and blocks without activations."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isometer.trial._families._draws import drawn
from isometer.trial._families._fourth import fourth
from isometer.trial._families._second import ACTIVATION, NORM, RELU, SKIPS, activation, batch_norm, sizes
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "upsampling-wrong": "only the mean of a coarser picture is carried up",
    "paths-cancelled": "the input is subtracted where it is meant to be added",
}


class _Node(nn.Module):
    """Two convolutions over all that came before at this resolution and what comes up from below."""

    def __init__(self, before: int, width: int, o: Options) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for channels in (before, width):
            layers += [nn.Conv2d(channels, width, 3, padding=1), batch_norm(width, o), activation(o)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.layers(x))


@fourth(
    "nested-unet",
    source="Zhou et al. 2018, UNet++: a nested U-Net architecture for medical image segmentation",
    draw=sizes(("denoise",), (4, 6, 8), (1, 2), batches=(16,), activation=RELU),
    structural={
        **NORM,
        **ACTIVATION,
        "no-skips": {"dense": "none"},
        "branch-detached": {"dense": "detached"},
        "upsampling-wrong": {"spread": True},
        "output-squashed": {"end": "ReLU"},
    },
)
class _Nested(nn.Module):
    """Node (i, j) is j steps up the way from resolution i + j; the last one of the finest resolution answers."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, self.levels, width = blueprint.options, blueprint.depth, blueprint.width
        widths = [width * 2 ** min(level, 2) for level in range(self.levels + 1)]
        self.down = nn.ModuleList(
            _Node(widths[level - 1] if level else task.shape[0], widths[level], self.o) for level in range(len(widths))
        )
        self.up = nn.ModuleDict(
            {
                f"{level}-{step}": _Node(step * widths[level] + widths[level + 1], widths[level], self.o)
                for step in range(1, len(widths))
                for level in range(len(widths) - step)
            }
        )
        self.head, self.end = nn.Conv2d(width, task.shape[0], 1), getattr(nn, self.o.get("end", "Identity"))()

    def carried(self, nodes: list[Tensor]) -> list[Tensor]:
        """What the nodes of a resolution hand on to the next one."""
        kind = self.o.get("dense")
        return [node * 0 if kind == "none" else node.detach() if kind == "detached" else node for node in nodes]

    def forward(self, x: Tensor) -> Tensor:
        nodes: list[list[Tensor]] = []
        for level, down in enumerate(self.down):
            nodes.append([down(F.max_pool2d(nodes[-1][0], 2, ceil_mode=True) if level else x)])
        for step in range(1, self.levels + 1):
            for level in range(self.levels + 1 - step):
                below, size = nodes[level + 1][step - 1], nodes[level][0].shape[-2:]
                below = below.mean(dim=(2, 3), keepdim=True) if self.o.get("spread") else below
                raised = F.interpolate(below, size=size)
                seen = torch.cat([*self.carried(nodes[level]), raised], dim=1)
                nodes[level].append(self.up[f"{level}-{step}"](seen))
        return torch.as_tensor(self.end(self.head(nodes[0][-1])))


class _ChannelNorm(nn.Module):
    """A layer norm over the channels of every place."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))


class _Ungated(nn.Module):
    """Products of halves in place of activations, and channels weighted by their means."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o, self.skip = o, o.get("skip", 1.0)
        self.norms = nn.ModuleList(_ChannelNorm(width) if o.get("norm", True) else nn.Identity() for _ in range(2))
        self.widen, self.narrow = nn.Conv2d(width, 2 * width, 1), nn.Conv2d(width, width, 1)
        self.places = nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width)
        self.channels = nn.Conv2d(width, width, 1)
        self.feed, self.back = nn.Conv2d(width, 2 * width, 1), nn.Conv2d(width, width, 1)
        self.beta, self.gamma = (nn.Parameter(torch.zeros(width, 1, 1)) for _ in range(2))

    def gate(self, x: Tensor) -> Tensor:
        first, other = x.chunk(2, dim=1)
        return first * other if self.o.get("gate", True) else first

    def forward(self, x: Tensor) -> Tensor:
        h = self.gate(self.places(self.widen(self.norms[0](x))))
        mean = h.mean(dim=(0, 2, 3) if self.o.get("pool") == "batch" else (2, 3), keepdim=True)
        mean = h.sum(dim=(2, 3), keepdim=True) if self.o.get("pool") == "sum" else mean
        x = self.beta * self.narrow(h * self.channels(mean)) + self.skip * x
        return torch.as_tensor(self.gamma * self.back(self.gate(self.feed(self.norms[1](x)))) + self.skip * x)


@fourth(
    "activation-free-restorer",
    source="Chen et al. 2022, Simple baselines for image restoration (NAFNet)",
    draw=sizes(("denoise",), (6, 8, 12), (1, 2), batches=(16,)),
    structural={
        "skip-scaled": SKIPS["skip-scaled"],
        **NORM,
        "no-activation": {"gate": False},
        "wrong-pooling": drawn(pool=("sum", "batch")),
        "no-skips": {"across": 0.0, "residual": 0.0},
        "paths-cancelled": {"residual": -1.0},
    },
)
class _Restorer(nn.Module):
    """Blocks at full resolution, at half of it, and at full resolution again; what is learned is added to the input."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width, depth = blueprint.options, blueprint.width, blueprint.depth
        self.enter = nn.Conv2d(task.shape[0], width, 3, padding=1)
        self.first, self.last = (_Ungated(width, self.o) for _ in range(2))
        self.down = nn.Conv2d(width, 2 * width, 2, stride=2)
        self.middle = nn.Sequential(*[_Ungated(2 * width, self.o) for _ in range(depth)])
        self.up = nn.Sequential(nn.Conv2d(2 * width, 4 * width, 1, bias=False), nn.PixelShuffle(2))
        self.leave = nn.Conv2d(width, task.shape[0], 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        fine: Tensor = self.first(self.enter(x))
        h = self.up(self.middle(self.down(fine))) + self.o.get("across", 1.0) * fine
        return torch.as_tensor(self.leave(self.last(h)) + self.o.get("residual", 1.0) * x)
