"""Language: several residual streams, a store of values found by products of keys, a stack, gates by convolution."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isometer.trial._families._draws import drawn
from isometer.trial._families._fourth import fourth
from isometer.trial._families._second import (
    ACTIVATION,
    ATTENTION,
    GELU,
    POOLING,
    USUAL,
    NormedBranch,
    PositionAttention,
    Sequence,
    activation,
    feed_forward,
    layer_norm,
    sizes,
)
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "streams-cancelled": "streams are read with alternating signs, so that what they share is lost",
    "keys-tied": "all keys are the same, so that every query finds the same values",
    "keys-too-few": "one value is found per query, so that keys get no gradient",
    "memory-scale": "the values of the store are far too small or far too large",
    "memory-lost": "the stack is written to and never read",
    "temperature": "the choice between push and pop is so sharp that it has no gradient",
    "gate-closed": "the bias of a gate lets nothing in, or keeps everything",
    "state-detached": "no gradient flows through time",
    "recurrent-scale": "the recurrent weights are far too large",
}
_LANGUAGE = ("markov", "text", "nesting")
_TOKENS = (*_LANGUAGE, "tags")
MASK: Options = {"mask-wrong": {"mask": "reversed"}}


class _Connected(nn.Module):
    """A branch that reads a mixture of the streams and is written to each; weights are in part made of the streams."""

    def __init__(self, width: int, number: int, branch: nn.Module, o: Options) -> None:
        super().__init__()
        streams = o["streams"]
        self.o, self.branch = o, branch
        self.norm = layer_norm(width, o)
        signs = (-1.0) ** torch.arange(streams) if o.get("signs") else torch.ones(streams)
        read = F.one_hot(torch.tensor(number % streams), streams).float()
        self.read, self.write = nn.Parameter(read * signs), nn.Parameter(signs.clone())
        self.mix = nn.Parameter(torch.eye(streams) * o.get("skip", 1.0))
        self.dynamic = o["dynamic"]
        if self.dynamic:
            self.stream_norm = layer_norm(width, o)
            self.weights = nn.Linear(width, streams + 2, bias=False)
            nn.init.zeros_(self.weights.weight)
            self.scale = nn.Parameter(torch.tensor([0.01, 0.01]))

    def forward(self, x: Tensor) -> Tensor:
        """From and to `(samples, steps, streams, features)`."""
        read, write, mix = self.read, self.write, self.mix
        if self.dynamic:
            said = self.weights(self.stream_norm(x)).tanh()  # (samples, steps, streams, what is written, read, mixed)
            write = write + self.scale[0] * said[..., 0]
            read = read + self.scale[1] * said[..., 1]
            mix = mix + self.scale[1] * said[..., 2:].mT
        entered = (read[..., None] * x).sum(dim=2)
        return torch.as_tensor(mix @ x + write[..., None] * self.branch(self.norm(entered))[:, :, None])


@fourth(
    "hyper-connections",
    source="Zhu et al. 2025, Hyper-connections",
    draw=sizes(
        _LANGUAGE, (24, 32), (1, 2), batches=(16,), heads=(2, 4), streams=(2, 4), dynamic=(True, False), activation=GELU
    ),
    structural={**USUAL, **ATTENTION, **MASK, "streams-cancelled": {"signs": True, "cancel": True}},
)
class _HyperConnected(nn.Module):
    """A causal transformer with several residual streams, which learns how they are connected."""

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, width = blueprint.options, blueprint.width
        self.embed = nn.Embedding(task.vocabulary, width)
        self.blocks, number = nn.Sequential(), 0
        for _ in range(blueprint.depth):
            attention = PositionAttention(width, self.o, causal=True, places=task.shape[0])
            for branch in (attention, feed_forward(width, self.o)):
                self.blocks.append(_Connected(width, number, branch, self.o))
                number += 1
        self.norm, self.head = layer_norm(width, self.o), nn.Linear(width, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.blocks(self.embed(x)[:, :, None].expand(-1, -1, self.o["streams"], -1))
        if self.o.get("cancel"):
            h = h * ((-1.0) ** torch.arange(h.shape[2]))[:, None]
        return torch.as_tensor(self.head(self.norm(h.sum(dim=2))))


class _ProductKeys(nn.Module):
    """Half of a query is compared to each of two tables of keys; a value belongs to every pair of keys."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o, self.heads, self.keys, half = o, o["heads"], o["keys"], max(2, width // 4)
        self.query = nn.Linear(width, self.heads * 2 * half)
        self.query_norm = nn.BatchNorm1d(self.heads * 2 * half) if o.get("norm", True) else nn.Identity()
        table = (2 * torch.rand(2, self.heads, self.keys, half) - 1) * half**-0.5
        self.table = nn.Parameter(table[:, :, :1].repeat(1, 1, self.keys, 1) if o.get("tied") else table)
        self.values = nn.EmbeddingBag(self.keys**2, width, mode="sum")
        nn.init.normal_(self.values.weight, std=o.get("memory", 1.0) * width**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        n, found = x.shape[0] * x.shape[1], self.o.get("found", 4)
        query = self.query_norm(self.query(x).flatten(0, 1)).view(n, 2, self.heads, -1)
        scores = self.o.get("score", 1.0) * torch.einsum("nthd,thkd->nthk", query, self.table)
        best = scores.topk(found, dim=-1)
        pairs = (best.values[:, 0, :, :, None] + best.values[:, 1, :, None, :]).flatten(2)
        places = (best.indices[:, 0, :, :, None] * self.keys + best.indices[:, 1, :, None, :]).flatten(2)
        chosen = pairs.topk(found, dim=-1)
        weight = chosen.values.softmax(dim=self.o.get("axis", -1))
        places = places.gather(-1, chosen.indices)
        return torch.as_tensor(self.values(places.flatten(1), per_sample_weights=weight.flatten(1)).view_as(x))


@fourth(
    "product-key-memory",
    source="Lample et al. 2019, Large memory layers with product keys",
    draw=sizes(_LANGUAGE, (24, 32, 48), (1, 2), batches=(16,), heads=(2, 4), keys=(8, 12, 16), activation=GELU),
    structural={
        **USUAL,
        **MASK,
        "score-scale": drawn(score=(20.0, 60.0)),
        "wrong-axis": {"axis": 0},
        "keys-tied": {"tied": True},
        "keys-too-few": {"found": 1},
        "memory-scale": drawn(memory=(1e-4, 100.0)),
    },
)
def product_key_memory(blueprint: Blueprint, task: Task) -> nn.Module:
    """A causal transformer; a store stands where the last feed-forward network would be."""
    o, width = blueprint.options, blueprint.width
    blocks: list[nn.Module] = []
    for layer in range(blueprint.depth):
        attention = PositionAttention(width, {**o, "axis": -1, "score": 1.0}, causal=True, places=task.shape[0])
        last = _ProductKeys(width, o) if layer == blueprint.depth - 1 else feed_forward(width, o)
        blocks += [NormedBranch(width, attention, o), NormedBranch(width, last, o)]
    blocks.append(NormedBranch(width, feed_forward(width, o), o))
    return Sequence(blocks, width, task, o)


class _Stack(nn.Module):
    """A recurrent layer that reads the top of a stack, and pushes, pops or leaves it, each in part."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o, self.cells = o, o["cells"]
        self.enter, self.read = nn.Linear(width, width), nn.Linear(self.cells, width, bias=False)
        self.recurrent = nn.Linear(width, width, bias=False)
        nn.init.orthogonal_(self.recurrent.weight, gain=o.get("recurrent", 1.0))
        self.act_on, self.write = nn.Linear(width, 3), nn.Linear(width, self.cells)
        self.act = activation(o)

    def forward(self, x: Tensor) -> Tensor:
        entered, path = self.enter(x), []
        state, stack = torch.zeros_like(entered[:, 0]), x.new_zeros(len(x), self.o["places"], self.cells)
        for step in range(x.shape[1]):
            if self.o.get("detached"):
                state, stack = state.detach(), stack.detach()
            top = stack[:, 0] * 0 if self.o.get("lost") else stack[:, 0]
            state = self.act(entered[:, step] + self.recurrent(state) + self.read(top))
            scores = self.o.get("sharp", 1.0) * self.act_on(state)
            push, pop, leave = scores.softmax(dim=self.o.get("axis", -1))[:, :, None, None].unbind(dim=1)
            pushed = torch.cat([self.write(state).sigmoid()[:, None], stack[:, :-1]], dim=1)
            stack = push * pushed + pop * F.pad(stack[:, 1:], (0, 0, 0, 1)) + leave * stack
            path.append(state)
        return torch.stack(path, dim=1)


@fourth(
    "stack-rnn",
    source="Joulin and Mikolov 2015, Inferring algorithmic patterns with stack-augmented recurrent nets",
    draw=sizes(_TOKENS, (24, 32, 48), (1,), batches=(16,), cells=(2, 4), places=(6, 8), activation=("Sigmoid", "Tanh")),
    structural={
        **POOLING,
        "no-norm": {"norm": False},
        "no-activation": drawn(activation=("Identity",), recurrent=(1.0, 1.5)),
        "wrong-activation": drawn(activation=("Softplus", "LogSigmoid")),
        "recurrent-scale": drawn(recurrent=(10.0, 30.0)),
        "state-detached": {"detached": True},
        "memory-lost": {"lost": True},
        "temperature": drawn(sharp=(300.0, 3000.0)),
    },
)
def stack_rnn(blueprint: Blueprint, task: Task) -> nn.Module:
    """Recurrent layers, each with a stack of its own."""
    o, width = blueprint.options, blueprint.width
    return Sequence([_Stack(width, o) for _ in range(blueprint.depth)], width, task, o)


class _QuasiRecurrent(nn.Module):
    """Candidates and gates of all steps by one causal convolution; only a mean that forgets runs through time."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o, self.act = o, activation(o)
        self.conv = nn.Conv1d(width, 3 * width, o["window"])
        with torch.no_grad():
            self.conv.weight.mul_(o.get("gain", 1.0))
        if "closed" in o:
            nn.init.constant_(self.conv.get_parameter("bias"), o["closed"])

    def forward(self, x: Tensor) -> Tensor:
        made = self.conv(F.pad(x.mT, (self.o["window"] - 1, 0))).mT
        candidate, forget, output = made.chunk(3, dim=-1)
        candidate, forget, output = self.act(candidate), forget.sigmoid(), output.sigmoid()
        entered = candidate * (1 - forget)
        state, path = torch.zeros_like(entered[:, 0]), []
        for step in range(x.shape[1]):
            before = state.detach() if self.o.get("detached") else state
            state = forget[:, step] * before + entered[:, step]
            path.append(state)
        return torch.as_tensor(output * torch.stack(path, dim=1))


@fourth(
    "quasi-recurrent",
    source="Bradbury et al. 2017, Quasi-recurrent neural networks",
    draw=sizes(
        (*_TOKENS, "majority", "rhythms"), (24, 32, 48), (1, 2), batches=(16,), window=(2, 3), activation=("Tanh",)
    ),
    structural={
        **POOLING,
        **ACTIVATION,
        "no-norm": {"norm": False},
        "gate-closed": drawn(closed=(-8.0, 8.0)),
        "state-detached": {"detached": True},
        "initialisation-scale": drawn(gain=(1e-3, 30.0)),
    },
)
def quasi_recurrent(blueprint: Blueprint, task: Task) -> nn.Module:
    """Layers of gates by convolution and a recurrence without weights."""
    o, width = blueprint.options, blueprint.width
    return Sequence([_QuasiRecurrent(width, o) for _ in range(blueprint.depth)], width, task, o)
