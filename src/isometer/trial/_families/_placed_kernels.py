"""Pictures: kernels made at every place, functions made of the surroundings, attention along one axis at a time."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isometer.trial._families._draws import drawn
from isometer.trial._families._fourth import fourth
from isometer.trial._families._second import (
    ATTENTION,
    GELU,
    IMAGES,
    POOLING,
    RELU,
    USUAL,
    PositionAttention,
    activation,
    batch_norm,
    feed_forward,
    layer_norm,
    pooled,
    sizes,
)
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "generated-scale": "the kernels that are made at every place are far too small or far too large",
    "branch-detached": "what the kernels are made by gets no gradient",
    "axis-missing": "both attentions go along rows, so that rows never meet",
}
STRIDE: Options = {"stride-too-large": {"stride": 7}}


class _Pictures(nn.Module):
    """A picture in, blocks at half its resolution, an answer of all places."""

    def __init__(self, blocks: list[nn.Module], width: int, task: Task, o: Options) -> None:
        super().__init__()
        self.stem = nn.Conv2d(task.shape[0], width, 3, stride=o.get("stride", 2), padding=1)
        self.blocks, self.norm, self.o = nn.Sequential(*blocks), batch_norm(width, o), o
        self.act, self.head = activation(o), nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = self.act(self.norm(self.blocks(self.stem(x))))
        return torch.as_tensor(self.head(pooled(h.flatten(2).mT, self.o)))


class _Bottleneck(nn.Module):
    """A layer over channels, an operator over places, another layer over channels, and the skip around them."""

    def __init__(self, width: int, operator: nn.Module, o: Options) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for layer in (nn.Conv2d(width, width, 1), operator, nn.Conv2d(width, width, 1)):
            layers += [batch_norm(width, o), activation(o), layer]
        self.branch, self.skip = nn.Sequential(*layers), o.get("skip", 1.0)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.branch(x)
        return y + self.skip * x if self.skip else y


class _Involution(nn.Module):
    """Every place makes a kernel of its own from its features; groups of channels share it."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o, self.groups, self.size = o, o["groups"], o["window"]
        inner = max(1, width // o["ratio"])
        self.reduce = nn.Sequential(nn.Conv2d(width, inner, 1), batch_norm(inner, o), activation(o))
        self.span = nn.Conv2d(inner, self.groups * self.size**2, 1)

    def forward(self, x: Tensor) -> Tensor:
        n, width, rows, columns = x.shape
        kernel = self.span(self.reduce(x.detach() if self.o.get("detached") == "input" else x))
        kernel = kernel.detach() if self.o.get("detached") == "kernel" else kernel
        kernel = self.o.get("generated", 1.0) * kernel.view(n, self.groups, 1, self.size**2, rows, columns)
        seen = F.unfold(x, self.size, padding=self.size // 2)
        seen = seen.view(n, self.groups, width // self.groups, self.size**2, rows, columns)
        return torch.as_tensor((kernel * seen).sum(dim=3).view_as(x))


@fourth(
    "involution",
    source="Li et al. 2021, Involution: inverting the inherence of convolution for visual recognition",
    draw=sizes(
        IMAGES, (16, 24, 32), (1, 2), batches=(16,), groups=(2, 4), window=(3, 5), ratio=(2, 4), activation=RELU
    ),
    structural={
        **USUAL,
        **POOLING,
        **STRIDE,
        "generated-scale": drawn(generated=(1e-3, 100.0)),
        "branch-detached": {"detached": "kernel"},
    },
)
def involution(blueprint: Blueprint, task: Task) -> nn.Module:
    """Bottlenecks whose kernels differ between places and not between channels."""
    o, width = blueprint.options, blueprint.width
    return _Pictures([_Bottleneck(width, _Involution(width, o), o) for _ in range(blueprint.depth)], width, task, o)


class _Lambda(nn.Module):
    """The surroundings become a linear function, of contents and of distances, which is applied to every query."""

    def __init__(self, width: int, o: Options, places: int) -> None:
        super().__init__()
        self.o, self.heads, self.keys = o, o["heads"], o["keys"]
        value = width // self.heads
        self.query = nn.Conv2d(width, self.heads * self.keys, 1, bias=False)
        self.key, self.value = nn.Conv2d(width, self.keys, 1, bias=False), nn.Conv2d(width, value, 1, bias=False)
        self.query_norm, self.value_norm = batch_norm(self.heads * self.keys, o), batch_norm(value, o)
        line = torch.arange(places)
        offset = line[None, :] - line[:, None] + places - 1
        self.register_buffer("offset", offset, persistent=False)
        self.distances = None
        if o.get("places", True):
            self.distances = nn.Parameter(torch.randn(2 * places - 1, 2 * places - 1, self.keys))

    def forward(self, x: Tensor) -> Tensor:
        q = self.query_norm(self.query(x)).flatten(2).unflatten(1, (self.heads, self.keys))
        keys = (self.o.get("score", 1.0) * self.key(x).flatten(2)).softmax(dim=self.o.get("axis", -1))
        values = self.value_norm(self.value(x)).flatten(2)
        answer = torch.einsum("nhkp,nkv->nhvp", q, keys @ values.mT)
        if self.distances is not None:
            offset = self.get_buffer("offset")
            rows, columns = offset[:, None, :, None], offset[None, :, None, :]
            table = self.distances[rows, columns].flatten(2, 3).flatten(0, 1)  # (to, from, key)
            answer = answer + torch.einsum("nhkp,npkv->nhvp", q, torch.einsum("pmk,nvm->npkv", table, values))
        return torch.as_tensor(answer.flatten(1, 2).view_as(x))


@fourth(
    "lambda-network",
    source="Bello 2021, LambdaNetworks: modeling long-range interactions without attention",
    draw=sizes(IMAGES, (16, 24, 32), (1, 2), heads=(2, 4), keys=(4, 8), activation=RELU),
    structural={**USUAL, **POOLING, "score-scale": drawn(score=(20.0, 60.0)), "wrong-axis": {"axis": 0}},
)
def lambda_network(blueprint: Blueprint, task: Task) -> nn.Module:
    """Bottlenecks with a lambda layer each."""
    o, width, places = blueprint.options, blueprint.width, -(-task.shape[1] // 2)
    blocks = [_Bottleneck(width, _Lambda(width, o, places), o) for _ in range(blueprint.depth)]
    return _Pictures(list(blocks), width, task, o)


class _Axial(nn.Module):
    """Attention within columns, then within rows, then a feed-forward network; a norm and a skip for each."""

    def __init__(self, width: int, o: Options, places: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(layer_norm(width, o) for _ in range(3))
        self.columns, self.rows = (PositionAttention(width, o, places=places) for _ in range(2))
        self.feed = feed_forward(width, o)
        self.both, self.skip = not o.get("one_axis"), o.get("skip", 1.0)

    def forward(self, x: Tensor) -> Tensor:
        """From and to `(samples, rows, columns, features)`."""
        for norm, attention, turned in zip(self.norms, (self.columns, self.rows), (self.both, False), strict=False):
            h: Tensor = norm(x)
            h = h.transpose(1, 2) if turned else h
            h = attention(h.flatten(0, 1)).view(h.shape)
            x = (h.transpose(1, 2) if turned else h) + self.skip * x
        return torch.as_tensor(self.feed(self.norms[2](x)) + self.skip * x)


@fourth(
    "axial-attention",
    source="Ho et al. 2019, Axial attention in multidimensional transformers; Wang et al. 2020, Axial-DeepLab",
    draw=sizes(("fashion-mnist", "gratings"), (16, 24, 32), (1, 2), batches=(16,), heads=(2, 4), activation=GELU),
    structural={**USUAL, **POOLING, **ATTENTION, "axis-missing": {"one_axis": True}},
)
class _AxialAttention(nn.Module):
    """Places are attended to along columns and rows, never all at once."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        self.stem = nn.Conv2d(task.shape[0], width, 2, stride=2)
        self.blocks = nn.Sequential(*[_Axial(width, self.o, task.shape[1] // 2) for _ in range(blueprint.depth)])
        self.norm, self.head = layer_norm(width, self.o), nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.blocks(self.stem(x).permute(0, 2, 3, 1)))
        return torch.as_tensor(self.head(pooled(h.flatten(1, 2), self.o)))
