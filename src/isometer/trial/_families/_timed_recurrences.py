"""Recurrences with clocks, with units of their own, with a window of Legendre polynomials, and with spikes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from isometer.trial._families._draws import drawn
from isometer.trial._families._second import GELU, POOLING, USUAL, NormedBranch, Sequence, activation, sizes
from isometer.trial._families._third import third
from isometer.trial._family import Blueprint, Options
from isometer.trial._tasks import Task

FAULTS: dict[str, str] = {
    "clocks-slow": "every group of units is updated only once in many steps",
    "recurrent-scale": "the recurrent weights are far too large",
    "state-detached": "no gradient flows through time",
    "time-constant": "the window is far shorter or far longer than the sequence",
    "decay-wrong": "the memory grows where it should fade",
    "memory-scale": "what the memory holds is far too small or far too large",
    "threshold-high": "units need more to spike than they ever get",
    "surrogate-narrow": "the surrogate of the spike has a gradient only next to the threshold",
    "surrogate-missing": "spikes have no gradient",
}
_TOKENS, _CLASSES = ("markov", "text", "nesting", "tags"), ("tags", "majority", "rhythms", "rows")


class _Clockwork(nn.Module):
    """Groups of units with periods; a group reads itself and the slower ones, when it is its turn."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        groups = o["groups"]
        group = torch.arange(width) * groups // width
        period = torch.full_like(group, o["slowest"]) if "slowest" in o else 2**group
        self.register_buffer("period", period, persistent=False)
        self.register_buffer("reads", (group[:, None] <= group[None, :]).float(), persistent=False)
        self.enter, self.recurrent = nn.Linear(width, width), nn.Parameter(torch.empty(width, width))
        nn.init.orthogonal_(self.recurrent, gain=o.get("recurrent", 1.0))
        self.act, self.detached = activation(o), o.get("detached", False)

    def forward(self, x: Tensor) -> Tensor:
        entered, weight, period = self.enter(x), self.recurrent * self.get_buffer("reads"), self.get_buffer("period")
        state, path = torch.zeros_like(entered[:, 0]), []
        for step in range(x.shape[1]):
            before = state.detach() if self.detached else state
            new = self.act(torch.addmm(entered[:, step], before, weight.T))
            state = torch.where(step % period == 0, new, before)
            path.append(state)
        return torch.stack(path, dim=1)


@third(
    "clockwork-rnn",
    source="Koutník et al. 2014, A clockwork RNN",
    draw=sizes(_TOKENS, (32, 48, 64), (1, 2), batches=(16,), groups=(2, 3), activation=("Tanh", "Hardtanh")),
    structural={
        **POOLING,
        "no-norm": {"norm": False},
        "no-activation": drawn(activation=("Identity",), recurrent=(1.0, 1.5)),
        "wrong-activation": drawn(activation=("Softplus", "Sigmoid")),
        "recurrent-scale": drawn(recurrent=(5.0, 20.0)),
        "clocks-slow": drawn(slowest=(12, 32)),
        "state-detached": {"detached": True},
    },
)
def clockwork_rnn(blueprint: Blueprint, task: Task) -> nn.Module:
    """Recurrent layers in which some units hold their state for several steps."""
    o, width = blueprint.options, blueprint.width
    return Sequence([_Clockwork(width, o) for _ in range(blueprint.depth)], width, task, o)


class _Independent(nn.Module):
    """Every unit remembers itself alone."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(width, width), nn.Linear(width, width)
        self.own = nn.Parameter(torch.rand(width) * o.get("recurrent", 1.0))
        self.act, self.detached = activation(o), o.get("detached", False)

    def forward(self, x: Tensor) -> Tensor:
        entered = self.enter(x)
        state, path = torch.zeros_like(entered[:, 0]), []
        for step in range(x.shape[1]):
            state = self.act(entered[:, step] + self.own * (state.detach() if self.detached else state))
            path.append(state)
        return torch.as_tensor(self.leave(torch.stack(path, dim=1)))


@third(
    "independent-rnn",
    source="Li et al. 2018, Independently recurrent neural network (IndRNN)",
    draw=sizes(_TOKENS, (24, 32, 48), (1, 2), batches=(16,), activation=("ReLU", "Tanh")),
    structural={
        **USUAL,
        **POOLING,
        "recurrent-scale": drawn(recurrent=(3.0, 6.0)),
        "state-detached": {"detached": True},
    },
)
def independent_rnn(blueprint: Blueprint, task: Task) -> nn.Module:
    """Units that only see themselves in time, between layers that mix them."""
    o, width = blueprint.options, blueprint.width
    return Sequence([NormedBranch(width, _Independent(width, o), o) for _ in range(blueprint.depth)], width, task, o)


def legendre_response(order: int, steps: int, window: float, sign: float = 1.0) -> Tensor:
    """What a Legendre memory of a window holds so many steps after an impulse, `(steps, order)`.

    Example:
        >>> held = legendre_response(4, 24, 12.0)
        >>> held.shape, bool(held[-1].norm() < 0.2 * held[0].norm())
        (torch.Size([24, 4]), True)
    """
    i, j = torch.arange(order, dtype=torch.float64)[:, None], torch.arange(order, dtype=torch.float64)[None, :]
    signs = torch.where(i < j, -1.0, (-1.0) ** (i - j + 1))
    a, b = (2 * i + 1) * signs / window, ((2 * i + 1) * (-1.0) ** i / window)[:, 0]
    step, held = (
        torch.linalg.matrix_exp(sign * a),
        [torch.linalg.solve(a, (torch.linalg.matrix_exp(a) - torch.eye(order)) @ b)],
    )
    for _ in range(steps - 1):
        held.append(step @ held[-1])
    return torch.stack(held).float()


class _LegendreMemory(nn.Module):
    """A few channels are remembered as polynomials over a window; a layer reads the polynomials."""

    def __init__(self, width: int, o: Options, steps: int) -> None:
        super().__init__()
        order, channels = o["order"], o["channels"]
        held = legendre_response(order, steps, o.get("window", 12.0), -1.0 if o.get("grows") else 1.0)
        ago = torch.arange(steps)[:, None] - torch.arange(steps)[None, :]
        table = held[ago.clamp(min=0)] * (ago >= 0)[..., None] * o.get("scale", 1.0)
        self.register_buffer("table", table, persistent=False)  # (to, from, order)
        self.write = nn.Linear(width, channels)
        self.read, self.out, self.act = (
            nn.Linear(channels * order + width, width),
            nn.Linear(width, width),
            activation(o),
        )

    def forward(self, x: Tensor) -> Tensor:
        memory = torch.einsum("tso,nsc->ntco", self.get_buffer("table"), self.write(x)).flatten(2)
        return torch.as_tensor(self.out(self.act(self.read(torch.cat([memory, x], dim=-1)))))


@third(
    "legendre-memory",
    source="Voelker et al. 2019, Legendre memory units; Chilkuri and Eliasmith 2021, in parallel",
    draw=sizes(
        (*_TOKENS, "rhythms"), (24, 32, 48), (1, 2, 3), batches=(16,), order=(4, 6), channels=(4, 8), activation=GELU
    ),
    structural={
        **USUAL,
        **POOLING,
        "time-constant": drawn(window=(0.3, 3e4)),
        "decay-wrong": {"grows": True},
        "memory-scale": drawn(scale=(1e-4, 100.0)),
    },
)
def legendre_memory(blueprint: Blueprint, task: Task) -> nn.Module:
    """Residual layers with a fixed linear memory inside."""
    o, width, steps = blueprint.options, blueprint.width, task.shape[0]
    layers = (_LegendreMemory(width, o, steps) for _ in range(blueprint.depth))
    return Sequence([NormedBranch(width, layer, o) for layer in layers], width, task, o)


class _Spiking(nn.Module):
    """Units leak, integrate and spike; the gradient of a spike is that of a steep sigmoid."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.enter, self.o = nn.Linear(width, width), o
        nn.init.normal_(self.enter.weight, std=o.get("gain", 1.5) * width**-0.5)
        self.decay = nn.Parameter(torch.full((width,), float(o["decay"])))

    def forward(self, x: Tensor) -> Tensor:
        entered, slope = self.enter(x), self.o.get("slope", 4.0)
        decay, charge, path = self.decay.sigmoid(), torch.zeros_like(entered[:, 0]), []
        for step in range(x.shape[1]):
            charge = decay * charge + entered[:, step]
            excess = charge - self.o.get("threshold", 1.0)
            spike = (excess > 0).float()
            if slope:
                soft = torch.sigmoid(slope * excess)
                spike = spike.detach() + soft - soft.detach()
            charge = charge - spike.detach()
            path.append(spike)
        return torch.stack(path, dim=1)


@third(
    "spiking-net",
    source="Neftci et al. 2019, Surrogate gradient learning in spiking neural networks",
    draw=sizes(_CLASSES, (32, 48, 64), (1, 2), batches=(16, 32), decay=(0.0, 1.5), slope=(2.0, 4.0)),
    structural={
        **POOLING,
        "threshold-high": drawn(threshold=(20.0, 100.0)),
        "surrogate-narrow": drawn(slope=(200.0, 2000.0)),
        "surrogate-missing": {"slope": 0.0},
        "initialisation-scale": drawn(gain=(0.02, 100.0)),
        "decay-wrong": drawn(decay=(-9.0, 12.0)),
    },
)
def spiking_net(blueprint: Blueprint, task: Task) -> nn.Module:
    """Layers of spiking units; the answer is read from how often they spike."""
    o, width = blueprint.options, blueprint.width
    return Sequence([_Spiking(width, o) for _ in range(blueprint.depth)], width, task, {**o, "norm": False})
