"""Slots that compete for what is seen, and memories that are read several times."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._second import RELU, activation, layer_norm, sizes
from isometer.trial._families._third import third
from isometer.trial._family import Blueprint
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "slots-tied": "all slots begin as the same vector, so that they never differ",
    "state-detached": "no gradient flows through the rounds before the last",
    "memory-lost": "all places of the memory hold their mean",
}


@third(
    "slot-attention",
    source="Locatello et al. 2020, Object-centric learning with slot attention",
    draw=sizes(
        ("gratings", "gratings", "mnist", "locate"),
        (16, 24, 32),
        (1, 2),
        batches=(16,),
        slots=(2, 3, 4),
        rounds=(2, 3),
        activation=RELU,
    ),
    structural={
        "no-norm": {"norm": False},
        "wrong-axis": {"axis": 0},
        "score-scale": drawn(score=(30.0, 100.0)),
        "slots-tied": {"tied": True},
        "state-detached": {"detached": True},
        "no-positions": {"places": False},
        "no-activation": {"activation": "Identity"},
    },
)
class _SlotAttention(nn.Module):
    """Slots compete for the places of a picture, round by round; the answer is read from all of them."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        o, width = blueprint.options, blueprint.width
        self.o = o
        layers: list[nn.Module] = [nn.Conv2d(task.shape[0], width, 5, stride=2, padding=2), activation(o)]
        for _ in range(blueprint.depth - 1):
            layers += [nn.Conv2d(width, width, 3, padding=1), activation(o)]
        self.conv = nn.Sequential(*layers)
        side = (task.shape[1] + 1) // 2
        self.places = nn.Parameter(0.3 * torch.randn(side**2, width)) if o.get("places", True) else None
        self.seen, self.before = layer_norm(width, o), layer_norm(width, o)
        self.slots = nn.Parameter(torch.randn(1 if o.get("tied") else o["slots"], width))
        self.q, self.kv = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.update = nn.GRUCell(width, width)
        self.head = nn.Linear(o["slots"] * width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.conv(x).flatten(2).mT
        k, v = self.kv(self.seen(seen if self.places is None else seen + self.places)).chunk(2, dim=-1)
        slots = self.slots.expand(len(x), self.o["slots"], -1)
        for _ in range(self.o["rounds"]):
            slots = slots.detach() if self.o.get("detached") else slots
            scores = self.q(self.before(slots)) @ k.mT * (self.o.get("score", 1.0) * k.shape[-1] ** -0.5)
            weight = scores.softmax(dim=self.o.get("axis", 1)) + 1e-6  # slots compete for places
            update = weight / weight.sum(dim=-1, keepdim=True) @ v
            slots = self.update(update.flatten(0, 1), slots.flatten(0, 1)).view_as(update)
        return torch.as_tensor(self.head(slots.flatten(1)))


@third(
    "memory-network",
    source="Sukhbaatar et al. 2015, End-to-end memory networks",
    draw=sizes(("majority", "majority", "rhythms", "rows"), (16, 32, 48), (1, 2, 3), own=(True, False)),
    structural={
        "no-skips": {"skip": 0.0},
        "score-scale": drawn(score=(30.0, 100.0)),
        "wrong-axis": {"axis": 0},
        "embeddings-scaled": drawn(embedding=(1e-3, 30.0)),
        "no-positions": {"places": False},
        "memory-lost": {"lost": True},
    },
)
class _MemoryNetwork(nn.Module):
    """A question reads a memory of all positions, adds what it read, and asks again."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, self.hops, width = blueprint.options, blueprint.depth, blueprint.width
        kept = self.hops + 1 if self.o["own"] else 2  # what one hop reads is what the next one looks at, or all share
        make = (
            (lambda: nn.Embedding(task.vocabulary, width))
            if task.vocabulary
            else (lambda: nn.Linear(task.shape[1], width))
        )
        self.memories = nn.ModuleList(make() for _ in range(kept))
        with torch.no_grad():
            for memory in self.memories:
                memory.get_parameter("weight").mul_(self.o.get("embedding", 1.0))
        self.places = nn.Parameter(0.3 * torch.randn(task.shape[0], width)) if self.o.get("places", True) else None
        self.question, self.pass_on = nn.Parameter(torch.randn(width)), nn.Linear(width, width)
        self.head = nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        kept = [memory(x) for memory in self.memories]
        kept = kept if self.places is None else [one + self.places for one in kept]
        kept = [one.mean(dim=1, keepdim=True).expand_as(one) for one in kept] if self.o.get("lost") else kept
        state = self.question.expand(len(x), -1)
        for hop in range(self.hops):
            keys, values = (kept[hop], kept[hop + 1]) if self.o["own"] else (kept[0], kept[1])
            scores = (keys @ state[..., None])[..., 0] * (self.o.get("score", 1.0) * keys.shape[-1] ** -0.5)
            read = (scores.softmax(dim=self.o.get("axis", 1))[..., None] * values).sum(dim=1)
            state = self.o.get("skip", 1.0) * self.pass_on(state) + read
        return torch.as_tensor(self.head(state))
