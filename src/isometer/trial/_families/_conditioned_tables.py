"""Tables of features: features chosen step by step, distances to centres, one half that modulates the other."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isometer.trial._families._draws import drawn
from isometer.trial._families._second import ACTIVATION, GELU, NORM, SKIPS, activation, layer_norm, sizes
from isometer.trial._families._third import third
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "temperature": "the choice of features is so sharp that it has no gradient",
    "features-lost": "the choice lets only one feature through",
    "branch-detached": "one of two branches is computed without gradients",
    "centres-away": "all centres lie beyond the data",
    "centres-tied": "all centres are the same point",
    "radius": "the radius is far smaller or far larger than the distances",
    "modulation-scale": "what one half multiplies the other by is far too large",
    "modulation-off": "the factors begin at zero where they are meant to begin at one",
}
_TABLES = ("teacher", "friedman", "field")


def sparsemax(scores: Tensor, dim: int) -> Tensor:
    """The point of the simplex that is nearest to the scores.

    Example:
        >>> sparsemax(torch.tensor([[2.0, 1.5, -3.0]]), 1)
        tensor([[0.7500, 0.2500, 0.0000]])
    """
    ordered = scores.sort(dim=dim, descending=True).values
    shape = [-1 if axis == dim % scores.dim() else 1 for axis in range(scores.dim())]
    rank = torch.arange(1.0, scores.shape[dim] + 1).view(shape)
    excess = ordered.cumsum(dim=dim) - 1
    support = (rank * ordered > excess).sum(dim=dim, keepdim=True).clamp(min=1)  # scores may be no numbers
    return (scores - excess.gather(dim, support - 1) / support).relu()


class _Gated(nn.Module):
    """A gated layer, normalised over the batch."""

    def __init__(self, before: int, after: int, o: Options) -> None:
        super().__init__()
        self.layer = nn.Linear(before, 2 * after)
        self.norm = nn.BatchNorm1d(2 * after) if o.get("norm", True) else nn.Identity()
        self.gate = o.get("gate", True)

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.norm(self.layer(x))
        return F.glu(h, dim=1) if self.gate else h.chunk(2, dim=1)[0]


@third(
    "tabnet",
    source="Arik and Pfister 2021, TabNet: attentive interpretable tabular learning",
    draw=sizes(("teacher", "friedman"), (16, 24, 32), (2, 3), batches=(32, 64), relax=(1.3, 2.0), sparse=(True, False)),
    structural={
        **NORM,
        "no-activation": {"gate": False, "rectify": False},
        "temperature": drawn(sharp=(100.0, 1000.0)),
        "wrong-axis": {"axis": 0},
        "features-lost": {"lost": True},
        "branch-detached": {"detached": True},
    },
)
class _TabNet(nn.Module):
    """Each step chooses features, decides a part of the answer, and says what the next step is to choose by."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        o, width, features = blueprint.options, blueprint.width, task.shape[0]
        self.o, self.steps = o, blueprint.depth
        self.first, self.shared = _Gated(features, 2 * width, o), _Gated(features, 2 * width, o)
        self.own = nn.ModuleList(_Gated(2 * width, 2 * width, o) for _ in range(self.steps))
        self.choose = nn.ModuleList(nn.Linear(width, features) for _ in range(self.steps))
        self.head = nn.Linear(width, task.outputs)

    def mask(self, choose: nn.Module, attended: Tensor, prior: Tensor) -> Tensor:
        scores = prior * choose(attended) * self.o.get("sharp", 1.0)
        axis = self.o.get("axis", 1)
        mask = sparsemax(scores, axis) if self.o["sparse"] else scores.softmax(dim=axis)
        return mask.detach() if self.o.get("detached") else mask

    def forward(self, x: Tensor) -> Tensor:
        attended, prior = self.first(x).chunk(2, dim=1)[1], torch.ones_like(x)
        decided: list[Tensor] = []
        for choose, own in zip(self.choose, self.own, strict=True):
            mask = self.mask(choose, attended, prior)
            prior = prior * (self.o["relax"] - mask)
            seen = x * mask * x.shape[1] ** 0.5  # of the scale of the features
            if self.o.get("lost"):
                seen = seen * (torch.arange(x.shape[1]) < 1)
            h = self.shared(seen)
            decision, attended = (0.5**0.5 * (h + own(h))).chunk(2, dim=1)
            decided.append(decision.relu() if self.o.get("rectify", True) else decision)
        # The last step's choice of what comes next is read by the answer, so that nothing is computed in vain.
        return torch.as_tensor(self.head(torch.stack(decided).sum(dim=0) + attended))


@third(
    "radial-basis",
    source="Broomhead and Lowe 1988, Multivariable functional interpolation; Moody and Darken 1989",
    draw=sizes(
        _TABLES, (32, 48, 64), (1, 2), batches=(32, 64), radius=(0.5, 0.8), normalised=(True, False), activation=GELU
    ),
    structural={
        "centres-away": drawn(offset=(6.0, 20.0)),
        "centres-tied": {"tied": True},
        "radius": drawn(radius=(0.03, 100.0)),
        "wrong-axis": {"normalised": True, "axis": 0},
        "no-activation": lambda b, rng: b.changed(activation="Identity", depth=b.depth + 1),
    },
)
class _RadialBasis(nn.Module):
    """Bumps around centres, then layers on top of them."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, features, width = blueprint.options, task.shape[0], blueprint.width
        centres = torch.randn(1 if self.o.get("tied") else width, features) + self.o.get("offset", 0.0)
        self.centres = nn.Parameter(centres.repeat(width // len(centres), 1))
        self.log_radius = nn.Parameter(torch.full((width,), self.o["radius"] * (2 * features) ** 0.5).log())
        layers: list[nn.Module] = []
        for _ in range(blueprint.depth):
            layers += [nn.Linear(width, width), activation(self.o)]
        self.body, self.head = nn.Sequential(*layers), nn.Linear(width, task.outputs)
        self.linear = nn.Linear(features, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        distance = (x[:, None] - self.centres).square().sum(dim=-1)
        exponent = -distance / 2 * (-2 * self.log_radius).exp()
        bumps = exponent.softmax(dim=self.o.get("axis", 1)) if self.o["normalised"] else exponent.exp()
        # Centred and of the scale of one, so that what is common to all samples does not dominate.
        bumps = (bumps * bumps.shape[1] if self.o["normalised"] else bumps * 3) - 1
        return torch.as_tensor(self.head(self.body(bumps)) + self.linear(x))


class _Modulated(nn.Module):
    """A layer whose normalised values are scaled and shifted by the other half of the features."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.layer, self.norm, self.act = nn.Linear(width, width), layer_norm(width, o), activation(o)
        self.modulate = nn.Linear(width, 2 * width)
        self.start, self.skip = o.get("start", 1.0), o.get("skip", 1.0)
        with torch.no_grad():
            self.modulate.weight.mul_(o.get("modulation", 1.0))
            self.modulate.bias.zero_()

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        scale, shift = self.modulate(condition).chunk(2, dim=1)
        if not self.start:  # begins at nothing
            scale, shift = scale * 1e-3, shift * 1e-3
        y: Tensor = self.act((self.start + scale) * self.norm(self.layer(x)) + shift)
        return y + self.skip * x if self.skip else y


@third(
    "film",
    source="Perez et al. 2018, FiLM: visual reasoning with a general conditioning layer",
    draw=sizes(_TABLES, (24, 32, 48), (1, 2, 3), batches=(32, 64), activation=GELU),
    structural={
        **SKIPS,
        **NORM,
        **ACTIVATION,
        "modulation-scale": drawn(modulation=(30.0, 300.0)),
        "modulation-off": {"start": 0.0, "skip": 0.0},
        "branch-detached": {"detached": True},
    },
)
class _FiLM(nn.Module):
    """One half of the features modulates the network that reads the other."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        half = int(torch.Size(task.shape).numel()) // 2
        self.condition = nn.Sequential(nn.Linear(half, width), activation(self.o), nn.Linear(width, width))
        self.enter = nn.Linear(half, width)
        self.blocks = nn.ModuleList(_Modulated(width, self.o) for _ in range(blueprint.depth))
        self.head = nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        first, other = x.flatten(1).chunk(2, dim=1)
        condition = self.condition(first)
        condition = condition.detach() if self.o.get("detached") else condition
        h = self.enter(other)
        for block in self.blocks:
            h = block(h, condition)
        return torch.as_tensor(self.head(h))
