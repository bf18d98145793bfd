"""Recurrences with gates that can be trained in parallel, and attention without softmax of products."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isometer.trial._families._draws import drawn
from isometer.trial._families._second import (
    GELU,
    NORM,
    POOLING,
    RELU,
    SKIPS,
    USUAL,
    NormedBranch,
    Sequence,
    feed_forward,
    second,
    sizes,
)
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "gate-closed": "the bias of a gate lets nothing in, or keeps nothing",
    "state-detached": "no gradient flows through time",
    "keys-unnormalised": "keys are as long as they come, so that a correction overshoots",
    "gate-scale": "exponential gates whose weights are far too large",
    "correction-scale": "the state is corrected by several times the error",
}
_TOKENS = ("markov", "text", "nesting", "tags")


def _stack(blueprint: Blueprint, task: Task, mixer: type[nn.Module]) -> nn.Module:
    o, width = blueprint.options, blueprint.width
    blocks: list[nn.Module] = []
    for _ in range(blueprint.depth):
        blocks += [NormedBranch(width, mixer(width, o), o), NormedBranch(width, feed_forward(width, o), o)]
    return Sequence(blocks, width, task, o)


class _MinGRU(nn.Module):
    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        inner = o["expand"] * width
        self.both, self.out, self.o = nn.Linear(width, 2 * inner), nn.Linear(inner, width), o
        if "gate_bias" in o:
            nn.init.constant_(self.both.bias[:inner].detach(), o["gate_bias"])

    def forward(self, x: Tensor) -> Tensor:
        gate, new = self.both(x).chunk(2, dim=-1)
        gate, new = gate.sigmoid(), torch.where(new >= 0, new + 0.5, new.sigmoid())
        state, path = torch.zeros_like(new[:, 0]), []
        for step in range(x.shape[1]):
            before = state.detach() if self.o.get("detached") else state
            state = (1 - gate[:, step]) * before + gate[:, step] * new[:, step]
            path.append(state)
        return torch.as_tensor(self.out(torch.stack(path, dim=1)))


@second(
    "min-gru",
    source="Feng et al. 2024, Were RNNs all we needed?",
    draw=sizes(_TOKENS, (24, 32, 48), (1, 2), batches=(16,), expand=(1, 2), activation=GELU),
    structural={
        **USUAL,
        **POOLING,
        "gate-closed": drawn(gate_bias=(-12.0, 12.0)),
        "state-detached": {"detached": True},
    },
)
def min_gru(blueprint: Blueprint, task: Task) -> nn.Module:
    """Gates and candidates that do not see the state."""
    return _stack(blueprint, task, _MinGRU)


class _MatrixMemory(nn.Module):
    """The mLSTM in its parallel form: exponential input gates, decay by forget gates, a normaliser."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.heads, self.o = o["heads"], o
        self.qkv, self.gates = nn.Linear(width, 3 * width), nn.Linear(width, 2 * self.heads)
        self.norm = nn.GroupNorm(self.heads, width) if o.get("norm", True) else nn.Identity()
        self.out = nn.Linear(width, width)
        with torch.no_grad():
            self.gates.weight.mul_(o.get("gate_scale", 0.3))
            self.gates.bias[: self.heads] = -2.0
            self.gates.bias[self.heads :] = o.get("forget", 3.0)

    def forward(self, x: Tensor) -> Tensor:
        n, steps, width = x.shape
        q, k, v = (one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, dim=-1))
        enter, forget = self.gates(x).transpose(1, 2).chunk(2, dim=1)  # (n, heads, steps)
        kept = F.logsigmoid(forget).cumsum(dim=-1)
        weight = kept[..., :, None] - kept[..., None, :] + enter[..., None, :]
        later = torch.ones(steps, steps, dtype=torch.bool).triu(1)
        weight = weight.masked_fill(later, -torch.inf)
        largest = weight.amax(dim=-1, keepdim=True)
        scores = q @ k.mT * (self.o.get("score", 1.0) * q.shape[-1] ** -0.5) * (weight - largest).exp()
        total = torch.maximum(scores.sum(dim=-1, keepdim=True).abs(), (-largest).exp())
        h = (scores / total @ v).transpose(1, 2).reshape(n * steps, width)
        return torch.as_tensor(self.out(self.norm(h).view(n, steps, width)))


@second(
    "mlstm",
    source="Beck et al. 2024, xLSTM: extended long short-term memory",
    draw=sizes(_TOKENS, (32, 48), (1, 2, 3), batches=(16,), heads=(2, 4), activation=("GELU", "SiLU")),
    structural={
        **SKIPS,
        **NORM,
        **POOLING,
        "gate-closed": {"forget": -12.0},
        "gate-scale": drawn(gate_scale=(30.0, 100.0)),
        "score-scale": drawn(score=(30.0, 1e-3)),
    },
)
def mlstm(blueprint: Blueprint, task: Task) -> nn.Module:
    """A matrix as memory, with exponential gates."""
    return _stack(blueprint, task, _MatrixMemory)


class _Delta(nn.Module):
    """The state is corrected towards what a key should answer."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.heads, self.o = o["heads"], o
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.beta, self.decay = nn.Linear(width, self.heads), nn.Linear(width, self.heads)
        nn.init.constant_(self.decay.bias, o.get("decay", 4.0))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)) for layer in (self.q, self.k, self.v))
        if self.o.get("unit", True):
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))  # (n, heads, steps, features)
        beta = self.o.get("beta", 1.0) * self.beta(x).sigmoid().mT[..., None]
        kept = F.logsigmoid(self.decay(x)).mT.cumsum(dim=-1) * self.o["gated"]
        # Γ[t, s] is what remains at t of a correction at s; corrections solve u = β (v − Σ_{s<t} Γ (k·k) u).
        remains = (kept[..., :, None] - kept[..., None, :]).tril().exp().tril()
        before = (beta * (k @ k.mT) * remains).tril(-1)
        corrections = torch.linalg.solve_triangular(before + torch.eye(x.shape[1]), beta * v, upper=False)
        return torch.as_tensor(self.out(((q @ k.mT * remains) @ corrections).transpose(1, 2).flatten(2)))


@second(
    "delta-net",
    source="Yang et al. 2024, Parallelizing linear transformers with the delta rule; Gated delta networks",
    draw=sizes(_TOKENS, (24, 32), (1, 2), batches=(16,), heads=(2, 4), gated=(True, False), activation=RELU),
    structural={
        **USUAL,
        "keys-unnormalised": drawn(unit=(False,), beta=(1.0, 4.0)),
        "correction-scale": {"beta": 5.0},
        "gate-closed": {"decay": -12.0, "gated": True},
    },
)
def delta_net(blueprint: Blueprint, task: Task) -> nn.Module:
    """Linear attention whose state is corrected, with decay or without."""
    return _stack(blueprint, task, _Delta)


class _AttentionFree(nn.Module):
    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.o = o
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.places = nn.Parameter(o.get("places", 0.1) * torch.randn(32, 32))

    def forward(self, x: Tensor) -> Tensor:
        steps, kind = x.shape[1], self.o.get("mask", "causal")
        bias = self.places[:steps, :steps]
        if kind != "full":
            hidden = torch.ones(steps, steps, dtype=torch.bool)
            bias = bias.masked_fill(hidden.triu(1) if kind == "causal" else hidden.tril(-1), -torch.inf)
        keys = self.k(x) * self.o.get("score", 1.0)
        weight = (keys[:, None] + bias[None, :, :, None]).softmax(dim=self.o.get("axis", 2))  # (n, to, from, width)
        return torch.as_tensor(self.out(self.q(x).sigmoid() * torch.einsum("ntsd,nsd->ntd", weight, self.v(x))))


@second(
    "attention-free-transformer",
    source="Zhai et al. 2021, An attention free transformer",
    draw=sizes(_TOKENS, (24, 32, 48), (1, 2), batches=(16,), activation=GELU, places=(0.1, 1.0)),
    structural={
        **USUAL,
        **POOLING,
        "mask-wrong": {"mask": "reversed"},
        "wrong-axis": {"axis": 0},
        "score-scale": drawn(score=(30.0, 100.0)),
    },
)
def attention_free_transformer(blueprint: Blueprint, task: Task) -> nn.Module:
    """Weights of keys and learned positions, a gate in the place of queries."""
    return _stack(blueprint, task, _AttentionFree)
