"""Recurrent networks on tokens and on series."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from isometer.trial._families._draws import drawn, size
from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

FAULTS = {
    "recurrent-scale": "the recurrent matrix is so large that states explode, or so small that they are forgotten",
    "gate-closed": "the biases hold a gate shut from the beginning",
    "one-direction": "a tagger that needs the past reads from right to left only",
    "state-detached": "the state is cut from the graph at every step",
    "time-reversed": "the series is read backwards",
}


def _reader(task: Task, width: int) -> nn.Module:
    """From one step's input to a vector."""
    return nn.Embedding(task.vocabulary, width) if task.form == "tokens" else nn.Linear(task.shape[-1], width)


def _pool(x: Tensor, task: Task, how: str) -> Tensor:
    """What the readout sees of `[n, steps, width]`."""
    if task.per_position:
        return {"last": x, "first": x[:, :1].expand_as(x), "batch": x.mean(dim=0, keepdim=True).expand_as(x)}[how]
    return {"last": x[:, -1], "first": x[:, 0], "batch": x[:, -1].mean(dim=0, keepdim=True).expand_as(x[:, -1])}[how]


# LSTM


def _draw_lstm(rng: np.random.Generator, large: bool) -> Blueprint:
    task = pick(rng, "markov", "text", "tags", "rows", "forecast")
    depths = (1, 1, 2) if task == "text" else (1, 2, 2, 3)  # a deeper stack without skips needs longer for text
    width, depth = size(rng, large, widths=(48, 64, 80), depths=depths, largest=(288, 2))
    return Blueprint(
        task=task,
        width=width,
        depth=depth,
        batch=pick(rng, 16, 32),
        options={"dropout": pick(rng, 0.0, 0.1), "forget": pick(rng, 0.0, 1.0)},
    )


class _LSTM(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        o, width, depth = blueprint.options, blueprint.width, blueprint.depth
        self.task, self.o = task, o
        self.encoder = _reader(task, width)
        self.rnn = nn.LSTM(width, width, depth, batch_first=True, dropout=o["dropout"] if depth > 1 else 0.0)
        for name, value in self.rnn.named_parameters():
            if "weight_ih" in name:
                nn.init.xavier_uniform_(value)
            elif "weight_hh" in name:
                for gate in value.data.chunk(4):
                    nn.init.orthogonal_(gate, gain=o.get("gain", 1.0))
            else:
                nn.init.zeros_(value)
                if "bias_ih" in name:
                    value.data[width : 2 * width] = o["forget"]
                    value.data[:width] = o.get("input_gate", 0.0)
                    value.data[3 * width :] = o.get("output_gate", 0.0)
        self.decoder = nn.Linear(width, task.outputs)
        self.squeeze: nn.Module = nn.Identity()
        if "bottleneck" in o:
            self.squeeze = nn.Sequential(
                nn.Linear(width, o["bottleneck"]), nn.Tanh(), nn.Linear(o["bottleneck"], width)
            )

    def forward(self, x: Tensor) -> Tensor:
        h = self.encoder(x)
        h = h.flip(1) if self.o.get("backwards") else h
        h = h.transpose(0, 1) if self.o.get("steps_first") else h  # as if the batch were time
        h = self.rnn(h)[0]
        h = h.transpose(0, 1) if self.o.get("steps_first") else h
        out: Tensor = self.decoder(self.squeeze(_pool(h, self.task, self.o.get("pool", "last"))))
        return out


@family(
    "lstm-stack",
    source="Zaremba et al. 2014, Recurrent neural network regularization",
    draw=_draw_lstm,
    structural={
        "recurrent-scale": drawn(gain=(0.02, 4.0, 10.0)),
        "gate-closed": drawn(forget=(-6.0, 1.0), input_gate=(-8.0,)),
        "wrong-axis": {"steps_first": True},
        "wrong-pooling": drawn(pool=("first", "batch")),
        "bottleneck": drawn(bottleneck=(1, 2)),
        "time-reversed": {"backwards": True},
    },
)
def lstm_stack(blueprint: Blueprint, task: Task) -> nn.Module:
    """Torch's LSTM with orthogonal recurrent weights."""
    return _LSTM(blueprint, task)


# GRU with layer norm between the layers


def _draw_gru(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64), depths=(1, 2, 3, 4), largest=(224, 4))
    return Blueprint(
        task=pick(rng, "markov", "text", "rows", "rhythms", "forecast"),
        width=width,
        depth=depth,
        batch=pick(rng, 16, 32),
        options={"residual": True, "norm": "LayerNorm"},
    )


class _GRULayer(nn.Module):
    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.gru = nn.GRU(width, width, batch_first=True)
        for name, value in self.gru.named_parameters():
            if "weight_hh" in name:
                nn.init.orthogonal_(value, gain=o.get("gain", 1.0))
            if "bias_hh" in name and "update" in o:
                value.data[width : 2 * width] = o["update"]
        self.norm = nn.LayerNorm(width) if o["norm"] == "LayerNorm" else nn.Identity()
        self.o = o

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.gru(self.norm(x) if self.o["norm"] != "batch" else (x - x.mean(0)) / (x.std(0) + 1e-5))[0]
        if self.o["residual"]:
            y = self.o.get("skip", 1.0) * x + y
        return y


class _GRU(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.task, self.pool = task, blueprint.options.get("pool", "last")
        self.inputs = _reader(task, blueprint.width)
        self.layers = nn.ModuleList(_GRULayer(blueprint.width, blueprint.options) for _ in range(blueprint.depth))
        self.head = nn.Sequential(nn.LayerNorm(blueprint.width), nn.Linear(blueprint.width, task.outputs))

    def forward(self, x: Tensor) -> Tensor:
        x = self.inputs(x)
        for layer in self.layers:
            x = layer(x)
        out: Tensor = self.head(_pool(x, self.task, self.pool))
        return out


@family(
    "gru-layernorm",
    source="Cho et al. 2014, Learning phrase representations; Ba et al. 2016, Layer normalization",
    draw=_draw_gru,
    structural={
        "no-norm": {"norm": "none"},
        "no-skips": {"residual": False},
        "skip-scaled": drawn(residual=(True,), skip=(3.0, 10.0)),
        "recurrent-scale": drawn(gain=(0.02, 4.0, 10.0)),
        "gate-closed": drawn(update=(8.0, 12.0)),
        "wrong-axis": {"norm": "batch"},
        "wrong-pooling": drawn(pool=("first", "batch")),
    },
)
def gru_layernorm(blueprint: Blueprint, task: Task) -> nn.Module:
    """Layers of torch's GRU with norms and skips."""
    return _GRU(blueprint, task)


# Plain recurrence


def _draw_irnn(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "markov", "tags", "rows", "rhythms", "forecast"),
        width=512 if large else pick(rng, 32, 64, 96, 128),
        depth=2 if large else pick(rng, 1, 2),
        batch=32 if large else pick(rng, 16, 32, 64),
        options={"start": pick(rng, "identity", "orthogonal"), "gain": 1.0},
    )


class _PlainCell(nn.Module):
    """`h ← φ(W x + U h)`, one step at a time."""

    def __init__(self, inputs: int, width: int, o: Options) -> None:
        super().__init__()
        self.input_map = nn.Linear(inputs, width)
        self.recurrent = nn.Linear(width, width, bias=False)
        nn.init.normal_(self.input_map.weight, std=1.0 / math.sqrt(inputs))
        if o["start"] == "identity":
            self.recurrent.weight.data = o["gain"] * torch.eye(width)
            self.phi: nn.Module = nn.ReLU()
            self.input_map.weight.data *= 0.3
        else:
            nn.init.orthogonal_(self.recurrent.weight, gain=o["gain"])
            self.phi = nn.Tanh()
        if "activation" in o:
            self.phi = getattr(nn, o["activation"])()
        self.detached = o.get("detached", False)

    def forward(self, x: Tensor) -> Tensor:
        drive = self.input_map(x)
        state = drive.new_zeros(drive[:, 0].shape)
        states = []
        for step in drive.unbind(dim=1):
            state = self.phi(step + self.recurrent(state.detach() if self.detached else state))
            states.append(state)
        return torch.stack(states, dim=1)


class _PlainRNN(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        width, o = blueprint.width, blueprint.options
        self.table = nn.Embedding(task.vocabulary, width) if task.form == "tokens" else None
        first = width if task.form == "tokens" else task.shape[-1]
        self.cells = nn.Sequential(*[_PlainCell(width if i else first, width, o) for i in range(blueprint.depth)])
        self.readout = nn.Linear(width, task.outputs)
        self.task, self.pool, self.mixed = task, o.get("pool", "last"), o.get("mixed", False)
        nn.init.xavier_normal_(self.readout.weight)
        nn.init.zeros_(self.readout.bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.table is not None:
            x = self.table(x)
        if self.mixed:
            x = x.reshape(x.shape[1], x.shape[0], -1).transpose(0, 1)
        out: Tensor = self.readout(_pool(self.cells(x), self.task, self.pool))
        return out


@family(
    "plain-rnn",
    source="Le et al. 2015, A simple way to initialize recurrent networks of rectified linear units",
    draw=_draw_irnn,
    structural={
        "recurrent-scale": drawn(gain=(0.01, 1.3, 2.0, 5.0)),
        "no-activation": {"activation": "Identity"},
        "wrong-activation": drawn(activation=("Sigmoid", "Softplus")),
        "wrong-pooling": drawn(pool=("first", "batch")),
        "wrong-reshape": {"mixed": True},
        "state-detached": {"detached": True},
    },
)
def plain_rnn(blueprint: Blueprint, task: Task) -> nn.Module:
    """Recurrence written as a loop, from the identity or an orthogonal matrix."""
    return _PlainRNN(blueprint, task)


# Both directions


def _draw_bilstm(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "tags", "majority", "rhythms"),
        width=128 if large else pick(rng, 24, 32, 48),
        depth=3 if large else pick(rng, 1, 2),
        batch=32 if large else pick(rng, 16, 32),
        options={"dropout": pick(rng, 0.0, 0.1), "hidden": pick(rng, True, False)},
    )


class _BiLSTMTagger(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        self.o, self.task, width = blueprint.options, task, blueprint.width
        self.word = _reader(task, width)
        self.drop = nn.Dropout(self.o["dropout"])
        self.lstm = nn.LSTM(width, width, blueprint.depth, batch_first=True, bidirectional=True)
        self.project = nn.Linear(2 * width, 2 * width if self.o["hidden"] else task.outputs)
        self.tag = nn.Linear(2 * width, task.outputs) if self.o["hidden"] else nn.Identity()
        for name, value in self.lstm.named_parameters():
            if value.dim() > 1:
                nn.init.xavier_normal_(value, gain=self.o.get("gain", 1.0) if "hh" in name else 1.0)
            elif "gate" in self.o:
                nn.init.constant_(value, self.o["gate"])

    def forward(self, x: Tensor) -> Tensor:
        h, (last, _) = self.lstm(self.drop(self.word(x)))
        width = h.shape[-1] // 2
        if self.o.get("direction") == "backward":
            h = torch.cat([torch.zeros_like(h[..., :width]), h[..., width:]], dim=-1)
        if not self.task.per_position:
            pool = self.o.get("pool", "ends")
            if pool == "ends":
                forward = 0.0 * last[-2] if self.o.get("direction") == "backward" else last[-2]
                h = torch.cat([forward, last[-1]], dim=-1)
            else:
                h = {"middle-batch": h.mean(0, keepdim=True)[:, -1].expand(len(x), -1), "sum": h.sum(1)}[pool]
        elif "pool" in self.o:
            h = (
                h.mean(0, keepdim=True).expand_as(h)
                if self.o["pool"] == "middle-batch"
                else h.sum(1, True).expand_as(h)
            )
        h = self.project(h)
        out: Tensor = self.tag(torch.tanh(h)) if self.o["hidden"] else h
        return out


@family(
    "bilstm-tagger",
    source="Huang et al. 2015, Bidirectional LSTM-CRF models for sequence tagging",
    draw=_draw_bilstm,
    structural={
        "recurrent-scale": drawn(gain=(0.01, 5.0, 10.0)),
        "gate-closed": drawn(gate=(-4.0, -8.0)),
        "wrong-pooling": drawn(pool=("middle-batch", "sum")),
        "one-direction": {"direction": "backward"},
    },
)
def bilstm_tagger(blueprint: Blueprint, task: Task) -> nn.Module:
    """Torch's LSTM in both directions, a readout per token or from both ends."""
    return _BiLSTMTagger(blueprint, task)
