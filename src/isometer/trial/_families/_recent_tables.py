"""Tables of features: soft trees, rows that attend to rows, ensembles in one network, sums of functions."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._second import (
    ACTIVATION,
    ATTENTION,
    GELU,
    USUAL,
    NormedBranch,
    PositionAttention,
    activation,
    feed_forward,
    layer_norm,
    second,
    sizes,
)
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "temperature": "splits are so steep that they have no gradient, or so flat that they do not split",
    "thresholds-off": "all thresholds lie beyond the data",
    "members-summed": "the members of the ensemble are summed where their mean is meant",
    "adapters-scale": "the vectors that set members apart are far too small or far too large",
    "features-lost": "most of the features have no function of their own",
}
_TABLES = ("teacher", "friedman", "field")


class _Trees(nn.Module):
    """Oblivious trees: one soft choice of a feature and one threshold per level."""

    def __init__(self, features: int, o: Options, trees: int) -> None:
        super().__init__()
        self.o, levels = o, o["levels"]
        self.choice = nn.Parameter(torch.randn(features, trees, levels))
        self.threshold = nn.Parameter(0.7 * torch.randn(trees, levels) + o.get("offset", 0.0))
        self.log_temperature = nn.Parameter(torch.full((trees, levels), o.get("temperature", 0.0)))
        self.response = nn.Parameter(torch.randn(trees, 2**levels))

    def forward(self, x: Tensor) -> Tensor:
        chosen = torch.einsum("nf,ftl->ntl", x, (2 * self.choice).softmax(dim=self.o.get("axis", 0)))
        right = torch.sigmoid(2 * (chosen - self.threshold) * torch.exp(-self.log_temperature))
        leaves = torch.ones_like(right[..., :1])
        for level in range(right.shape[-1]):
            one = right[..., level, None]
            leaves = torch.cat([leaves * one, leaves * (1 - one)], dim=-1)
        return (leaves * self.response).sum(dim=-1)


@second(
    "soft-trees",
    source="Popov et al. 2020, Neural oblivious decision ensembles",
    draw=sizes(_TABLES, (16, 32, 48), (1, 2), batches=(32, 64), levels=(2, 3, 4)),
    structural={
        "temperature": drawn(temperature=(-6.0, 7.0)),
        "thresholds-off": drawn(offset=(20.0, -20.0)),
        "wrong-axis": {"axis": 1},
    },
)
class _Forest(nn.Module):
    """Each layer of trees reads the inputs and what all earlier layers said."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        features, width = task.shape[0], blueprint.width
        layers = (_Trees(features + i * width, blueprint.options, width) for i in range(blueprint.depth))
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(blueprint.depth * width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        said: list[Tensor] = []
        for layer in self.layers:
            said.append(layer(torch.cat([x, *said], dim=1)))
        return torch.as_tensor(self.head(torch.cat(said, dim=1)))


class _Rows(PositionAttention):
    """Attention among the samples of the batch, feature by feature."""

    def forward(self, x: Tensor) -> Tensor:  # (samples, features, width)
        return super().forward(x.transpose(0, 1)).transpose(0, 1)


@second(
    "saint",
    source="Somepalli et al. 2021, SAINT: improved neural networks for tabular data",
    draw=sizes(_TABLES, (8, 16, 24), (1, 2), batches=(32, 64), rows=(True, True, False), activation=GELU),
    structural={**USUAL, **ATTENTION, "embedding-shared": {"shared": True}},
)
class _Saint(nn.Module):
    """Features attend to features, samples to samples."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        o, width, features = blueprint.options, blueprint.width, task.shape[0]
        own = 1 if o.get("shared") else features
        self.scale, self.shift = nn.Parameter(torch.randn(own, width)), nn.Parameter(torch.randn(own, width))
        branches: list[nn.Module] = []
        for _ in range(blueprint.depth):
            branches += [PositionAttention(width, o), feed_forward(width, o)]
            branches += [_Rows(width, o)] if o["rows"] else []
        self.blocks = nn.Sequential(*(NormedBranch(width, branch, o) for branch in branches))
        self.head = nn.Sequential(layer_norm(width, o), nn.Flatten(), nn.Linear(features * width, task.outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.head(self.blocks(x[..., None] * self.scale + self.shift)))


class _Ensemble(nn.Module):
    """One layer for all members; a vector before and one behind set them apart."""

    def __init__(self, before: int, after: int, o: Options) -> None:
        super().__init__()
        members, scale = o["members"], o.get("adapters", 1.0)
        self.layer = nn.Linear(before, after, bias=False)
        nn.init.kaiming_uniform_(self.layer.weight, nonlinearity="relu")
        self.r = nn.Parameter(scale * torch.randn(members, before).sign())
        self.s = nn.Parameter(torch.full((members, after), float(scale)))
        self.bias = nn.Parameter(torch.zeros(members, after))

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.layer(x * self.r) * self.s + self.bias)


@second(
    "tabm",
    source="Gorishniy et al. 2025, TabM: parameter-efficient ensembling; Wen et al. 2020, BatchEnsemble",
    draw=sizes(_TABLES, (24, 32, 48), (1, 2, 3), batches=(32, 64), members=(4, 8), dropout=(0.0, 0.1), activation=GELU),
    structural={
        **ACTIVATION,
        "members-summed": drawn(summed=(True,), members=(32, 64)),
        "adapters-scale": drawn(adapters=(0.02, 6.0)),
        "bottleneck": {"inner": 1},
        "dropout-high": drawn(dropout=(0.7, 0.95)),
    },
)
class _TabM(nn.Module):
    """Members that share their weights."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        sizes_ = [task.shape[0], *[width] * blueprint.depth]
        if "inner" in self.o:
            sizes_[-1] = self.o["inner"]
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes_):
            layers += [_Ensemble(before, after, self.o), activation(self.o), nn.Dropout(self.o["dropout"])]
        self.body = nn.Sequential(*layers)
        self.heads = nn.Parameter(torch.randn(self.o["members"], sizes_[-1], task.outputs) / sizes_[-1] ** 0.5)

    def forward(self, x: Tensor) -> Tensor:
        answers = torch.einsum("nmw,mwo->nmo", self.body(x[:, None].expand(-1, self.o["members"], -1)), self.heads)
        return answers.sum(dim=1) if self.o.get("summed") else answers.mean(dim=1)


@second(
    "additive-model",
    source="Agarwal et al. 2021, Neural additive models",
    draw=sizes(("friedman", "teacher"), (8, 16, 24), (1, 2, 3), batches=(32, 64), activation=GELU),
    structural={**ACTIVATION, "features-lost": {"lost": True}, "initialisation-scale": drawn(gain=(0.01, 6.0))},
)
class _Additive(nn.Module):
    """A small network for every feature, side by side; the answer is their sum."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, features, width = blueprint.options, task.shape[0], blueprint.width
        self.act, inner = activation(self.o), [1, *[width] * blueprint.depth, task.outputs]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for before, after in pairwise(inner):
            gain = self.o.get("gain", 1.0) * (2 / before) ** 0.5
            spread = 0.5 if before == 1 else 0.0  # kinks at different places
            self.weights.append(nn.Parameter(gain * torch.randn(features, before, after)))
            self.biases.append(nn.Parameter(spread * torch.randn(features, 1, after)))
        self.share = nn.Linear(features, 1)

    def forward(self, x: Tensor) -> Tensor:
        h, last = x.T[..., None], len(self.weights) - 1  # (features, samples, 1)
        if self.o.get("lost"):
            h = h * (torch.arange(len(h)) < 1)[:, None, None]
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = torch.bmm(h, weight) + bias
            h = h if i == last else self.act(h)
        return torch.as_tensor(self.share(h.permute(1, 2, 0))[..., 0])
