"""Linear recurrences: state spaces, selective scans, retention and receptance."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from isometer.trial._families._draws import drawn, size
from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

FAULTS = {
    "time-constant": "states decay within a fraction of a step, or hardly move within the whole sequence",
    "gate-closed": "the gate of the output starts shut",
    "decay-wrong": "the past grows instead of decaying, or is forgotten at once",
    "frequency-scale": "the states oscillate so fast that neighbouring steps look unrelated",
    "kernel-noncausal": "the convolution wraps around, so that the end of a sequence reaches its beginning",
}


def _embed(task: Task, width: int) -> nn.Module:
    return nn.Embedding(task.vocabulary, width) if task.vocabulary else nn.Linear(task.shape[1], width)


# S4D


def _draw_s4d(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64), depths=(1, 2, 3, 4), largest=(192, 10))
    return Blueprint(
        task=pick(rng, "markov", "text", "tags", "rows", "rhythms", "forecast"),
        width=width,
        depth=depth,
        batch=16,
        options={"states": pick(rng, 4, 8), "shortest": 0.01, "longest": 0.5, "prenorm": pick(rng, True, False)},
    )


class S4DKernel(nn.Module):
    """The kernel of a diagonal state space: a sum of damped oscillations per channel."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        states = o["states"]
        low, high = math.log(o["shortest"]), math.log(o["longest"])
        self.log_dt = nn.Parameter(torch.rand(width) * (high - low) + low)
        self.C = nn.Parameter(torch.view_as_real(torch.randn(width, states, dtype=torch.cfloat)))
        self.log_A_real = nn.Parameter(torch.log(0.5 * torch.ones(width, states)))
        self.A_imag = nn.Parameter(o.get("frequency", 1.0) * math.pi * torch.arange(states).repeat(width, 1))
        self.growth = o.get("growth", -1.0)

    def forward(self, length: int) -> Tensor:
        dt = self.log_dt.exp()
        a = torch.complex(self.growth * self.log_A_real.exp(), self.A_imag)
        c = torch.view_as_complex(self.C) * (torch.exp(a * dt[:, None]) - 1.0) / a
        powers = (a * dt[:, None]).unsqueeze(-1) * torch.arange(length, device=dt.device)
        return 2 * torch.einsum("hn,hnl->hl", c, torch.exp(powers)).real


class _S4DLayer(nn.Module):
    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.kernel = S4DKernel(width, o)
        self.D = nn.Parameter(torch.randn(width))
        self.mix = nn.Linear(width, 2 * width)
        self.norm = nn.Identity() if o.get("no_norm") else nn.LayerNorm(width)
        self.o = o

    def forward(self, x: Tensor) -> Tensor:
        u = (self.norm(x) if self.o["prenorm"] else x).transpose(1, 2)
        length = u.shape[-1]
        padded = length if self.o.get("wraps") else 2 * length
        spectrum = torch.fft.rfft(self.kernel(length), n=padded) * torch.fft.rfft(u, n=padded)
        y = torch.fft.irfft(spectrum, n=padded)[..., :length] + u * self.D[:, None]
        y = y if self.o.get("linear") else F.gelu(y)
        y = F.glu(self.mix(y.transpose(1, 2)), dim=-1)
        total: Tensor = self.o.get("skip", 1.0) * x + y
        if not self.o["prenorm"]:
            total = self.norm(total)
        return total


class _S4D(nn.Module):
    def __init__(self, b: Blueprint, task: Task) -> None:
        super().__init__()
        self.encoder = _embed(task, b.width)
        self.layers = nn.ModuleList([_S4DLayer(b.width, b.options) for _ in range(b.depth)])
        self.norm = nn.LayerNorm(b.width) if b.options["prenorm"] else nn.Identity()
        self.decoder = nn.Linear(b.width, task.outputs)
        self.every, self.pool = task.per_position, b.options.get("pool", "mean")

    def forward(self, x: Tensor) -> Tensor:
        x = self.encoder(x)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        if not self.every:
            x = {"mean": x.mean(1), "sum": 24.0 * x.sum(1), "first": x[:, 0]}[self.pool]
        elif self.pool != "mean":
            x = x[:, :1].expand_as(x)
        out: Tensor = self.decoder(x)
        return out


@family(
    "s4d",
    source="Gu et al. 2022, On the parameterization and initialization of diagonal state space models",
    draw=_draw_s4d,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"no_norm": True},
        "no-activation": {"linear": True},
        "time-constant": drawn(shortest=(1e-6,), longest=(1e-5,)),
        "decay-wrong": drawn(growth=(1.0, 3.0)),
        "frequency-scale": drawn(frequency=(30.0, 100.0)),
        "wrong-pooling": drawn(pool=("sum", "first")),
        "kernel-noncausal": {"wraps": True},
    },
)
def s4d(blueprint: Blueprint, task: Task) -> nn.Module:
    """Diagonal state spaces as long convolutions, computed by Fourier transform."""
    return _S4D(blueprint, task)


# Mamba


def _draw_mamba(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, "markov", "text", "tags", "rhythms"),
        width=128 if large else pick(rng, 24, 32, 48),
        depth=4 if large else pick(rng, 1, 1, 2),
        batch=16,
        options={"states": pick(rng, 4, 8), "kernel": pick(rng, 2, 4), "shortest": 0.01, "longest": 0.5},
    )


class _Selective(nn.Module):
    """A scan whose step size, input and output maps depend on the input."""

    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        inner, states = 2 * width, o["states"]
        self.rank = max(1, width // 16)
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, o["kernel"], groups=inner, padding=o["kernel"] - 1)
        self.x_proj = nn.Linear(inner, self.rank + 2 * states, bias=False)
        self.dt_proj = nn.Linear(self.rank, inner)
        self.A_log = nn.Parameter(torch.log(torch.arange(1.0, states + 1)).repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, width, bias=False)
        dt = torch.exp(torch.empty(inner).uniform_(math.log(o["shortest"]), math.log(o["longest"])))
        with torch.no_grad():
            self.dt_proj.bias.copy_(dt + torch.log(-torch.expm1(-dt)))  # the inverse of softplus
        self.o = o

    def forward(self, u: Tensor) -> Tensor:
        steps = u.shape[1]
        x, z = self.in_proj(u).chunk(2, dim=-1)
        x = F.silu(self.conv1d(x.transpose(1, 2))[..., :steps].transpose(1, 2))
        states = self.A_log.shape[1]
        dt, b, c = self.x_proj(x).split([self.rank, states, states], dim=-1)
        dt = F.softplus(self.dt_proj(dt))
        decay = torch.exp(self.o.get("growth", -1.0) * dt[..., None] * self.A_log.exp())
        drive = (dt * x)[..., None] * b[:, :, None, :]
        h, states_over_time = torch.zeros_like(drive[:, 0]), []
        for t in range(steps):
            h = torch.addcmul(drive[:, t], decay[:, t], h)
            states_over_time.append(h)
        y = torch.einsum("btds,bts->btd", torch.stack(states_over_time, 1), c) + self.D * x
        gate = z if self.o.get("linear") else F.silu(z - self.o.get("shut", 0.0))
        out: Tensor = self.out_proj(y * gate)
        return out


class _Mamba(nn.Module):
    def __init__(self, b: Blueprint, task: Task) -> None:
        super().__init__()
        self.embedding = _embed(task, b.width)
        self.mixers = nn.ModuleList(_Selective(b.width, b.options) for _ in range(b.depth))
        plain = b.options.get("no_norm")
        self.norms = nn.ModuleList(nn.Identity() if plain else nn.RMSNorm(b.width) for _ in range(b.depth))
        self.norm_f = nn.RMSNorm(b.width)
        self.lm_head = nn.Linear(b.width, task.outputs, bias=False)
        self.every, self.o = task.per_position, b.options

    def forward(self, x: Tensor) -> Tensor:
        x = self.embedding(x)
        for norm, mixer in zip(self.norms, self.mixers, strict=True):
            x = self.o.get("skip", 1.0) * x + mixer(norm(x))
        x = self.norm_f(x)
        if not self.every:
            x = x[:, 0] if self.o.get("pool") == "first" else x[:, -1]
        elif self.o.get("pool") == "first":
            x = x[:, :1].expand_as(x)
        out: Tensor = self.lm_head(x)
        return out


@family(
    "mamba-like",
    source="Gu and Dao 2023, Mamba: linear-time sequence modeling with selective state spaces",
    draw=_draw_mamba,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"no_norm": True},
        "no-activation": {"linear": True},
        "time-constant": drawn(shortest=(1e-7, 30.0), longest=(1e-6, 60.0)),
        "decay-wrong": drawn(growth=(0.3, 1.0)),
        "gate-closed": drawn(shut=(8.0, 15.0)),
        "wrong-pooling": {"pool": "first"},
    },
)
def mamba_like(blueprint: Blueprint, task: Task) -> nn.Module:
    """A selective scan as a loop over the steps."""
    return _Mamba(blueprint, task)


# RetNet in its parallel form


def _draw_retention(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64), depths=(1, 2, 3, 4, 6), largest=(128, 9))
    options = {"heads": pick(rng, 2, 4), "features": pick(rng, "plain", "elu"), "slowest": pick(rng, 5, 7)}
    return Blueprint(pick(rng, "markov", "text", "tags"), width, depth, batch=16, options=options)


class _Retention(nn.Module):
    decay: Tensor

    def __init__(self, width: int, steps: int, o: Options) -> None:
        super().__init__()
        self.heads, self.o = o["heads"], o
        self.q, self.k, self.v, self.g, self.out = (nn.Linear(width, width, bias=False) for _ in range(5))
        for layer in (self.q, self.k, self.v, self.g):
            nn.init.xavier_uniform_(layer.weight, gain=2**-0.5)
        self.group_norm = nn.Identity() if o.get("no_norm") else nn.GroupNorm(self.heads, width)
        gamma = o.get("gamma", 1 - 2.0 ** -torch.linspace(1, o["slowest"], self.heads)) * torch.ones(self.heads)
        distance = torch.arange(steps)[:, None] - torch.arange(steps)[None]
        distance = -distance if o.get("mask") == "reversed" else distance
        past = distance >= 0 if o.get("mask") != "itself" else distance == 0
        self.register_buffer("decay", torch.where(past, gamma[:, None, None] ** distance.clamp(min=0), 0.0))

    def forward(self, x: Tensor) -> Tensor:
        n, s, w = x.shape
        q, k, v = (f(x).view(n, s, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        if self.o["features"] == "elu":
            q, k = F.elu(q) + 1, F.elu(k) + 1
        scores = (q @ k.transpose(2, 3)) * self.decay * self.o.get("score_scale", 1.0) / math.sqrt(w // self.heads)
        y = (scores @ v).transpose(1, 2).reshape(n * s, w)
        y = self.group_norm(y).view(n, s, w)
        out: Tensor = self.out((self.g(x) if self.o.get("linear") else F.silu(self.g(x))) * y)
        return out


@family(
    "retention",
    source="Sun et al. 2023, Retentive network; Katharopoulos et al. 2020, Transformers are RNNs",
    draw=_draw_retention,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"no_norm": True},
        "no-activation": {"linear": True},
        "mask-wrong": drawn(mask=("reversed", "itself")),
        "score-scale": drawn(score_scale=(30.0, 100.0), no_norm=(True,)),
        "decay-wrong": drawn(gamma=(1e-3, 1.3, 1.6)),
    },
)
def retention(blueprint: Blueprint, task: Task) -> nn.Module:
    """Linear attention with a decay per head and a norm per group."""
    o, width = blueprint.options, blueprint.width

    class RetentionBranch(nn.Module):
        def __init__(self, branch: nn.Module) -> None:
            super().__init__()
            self.norm = nn.Identity() if o.get("no_norm") else nn.LayerNorm(width)
            self.branch = branch

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = o.get("skip", 1.0) * x + self.branch(self.norm(x))
            return y

    blocks: list[nn.Module] = []
    for _ in range(blueprint.depth):
        activation = nn.Identity() if o.get("linear") else nn.GELU()
        feed = nn.Sequential(nn.Linear(width, 2 * width), activation, nn.Linear(2 * width, width))
        blocks += [RetentionBranch(_Retention(width, task.shape[0], o)), RetentionBranch(feed)]
    return nn.Sequential(
        nn.Embedding(task.vocabulary, width), *blocks, nn.LayerNorm(width), nn.Linear(width, task.outputs)
    )


# RWKV


def _draw_rwkv(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64), depths=(1, 2, 3, 4), largest=(128, 7))
    return Blueprint(
        task=pick(rng, "markov", "text", "tags"),
        width=width,
        depth=depth,
        batch=16,
        options={"shift": pick(rng, 0.3, 0.5), "widening": pick(rng, 2, 4)},
    )


def _shifted(x: Tensor) -> Tensor:
    return F.pad(x, (0, 0, 1, -1))


class _TimeMix(nn.Module):
    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.full((3, width), o["shift"]))
        self.decay = nn.Parameter(torch.linspace(-5, 2, width) + o.get("faster", 0.0))
        self.bonus = nn.Parameter(torch.full((width,), math.log(0.3)))
        self.key, self.value, self.receptance = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.output = nn.Linear(width, width, bias=False)
        self.shut, self.sign = o.get("shut", 0.0), o.get("sign", -1.0)

    def forward(self, x: Tensor) -> Tensor:
        before, steps = _shifted(x), x.shape[1]
        xk, xv, xr = (x * mix + before * (1 - mix) for mix in self.mix)
        k, v = self.key(xk).clamp(max=20), self.value(xv)
        r = torch.sigmoid(self.receptance(xr) - self.shut)
        age = (torch.arange(steps)[:, None] - torch.arange(steps)[None] - 1).clamp(min=0)[..., None]
        weight = torch.exp(self.sign * age * self.decay.exp())
        weight = (
            weight * torch.ones(steps, steps).tril(-1)[..., None]
            + torch.diag(torch.ones(steps))[..., None] * self.bonus.exp()
        )
        grown = torch.exp(k)
        top = torch.einsum("ijw,njw->niw", weight, grown * v)
        bottom = torch.einsum("ijw,njw->niw", weight, grown)
        out: Tensor = self.output(r * top / (bottom + 1e-8))
        return out


class _ChannelMix(nn.Module):
    def __init__(self, width: int, o: Options) -> None:
        super().__init__()
        self.mix_k, self.mix_r = (nn.Parameter(torch.full((width,), o["shift"])) for _ in range(2))
        self.key = nn.Linear(width, o["widening"] * width, bias=False)
        self.receptance = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(o["widening"] * width, width, bias=False)
        self.kind, self.shut = o.get("activation", "squared"), o.get("shut", 0.0)

    def forward(self, x: Tensor) -> Tensor:
        before = _shifted(x)
        h = self.key(torch.lerp(before, x, self.mix_k))
        h = {"squared": lambda: h.relu().square(), "linear": lambda: h, "sigmoid": h.sigmoid, "exp": h.exp}[self.kind]()
        gate = torch.sigmoid(self.receptance(torch.lerp(before, x, self.mix_r)) - self.shut)
        out: Tensor = gate * self.value(h)
        return out


class _RWKV(nn.Module):
    def __init__(self, b: Blueprint, task: Task) -> None:
        super().__init__()
        norm = nn.Identity if b.options.get("no_norm") else nn.LayerNorm
        self.emb = nn.Embedding(task.vocabulary, b.width)
        nn.init.uniform_(self.emb.weight, -0.1, 0.1)
        self.ln0 = norm(b.width)
        self.blocks = nn.ModuleList()
        for _ in range(b.depth):
            self.blocks.append(nn.Sequential(norm(b.width), _TimeMix(b.width, b.options)))
            self.blocks.append(nn.Sequential(norm(b.width), _ChannelMix(b.width, b.options)))
        self.ln_out = nn.LayerNorm(b.width)
        self.head = nn.Linear(b.width, task.outputs, bias=False)
        self.skip = b.options.get("skip", 1.0)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.ln0(self.emb(tokens))
        for block in self.blocks:
            x = self.skip * x + block(x)
        logits: Tensor = self.head(self.ln_out(x))
        return logits


@family(
    "rwkv-like",
    source="Peng et al. 2023, RWKV: reinventing RNNs for the transformer era",
    draw=_draw_rwkv,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"no_norm": True},
        "no-activation": {"activation": "linear"},
        "wrong-activation": drawn(activation=("sigmoid", "exp")),
        "gate-closed": drawn(shut=(6.0, 12.0)),
        "time-constant": drawn(faster=(6.0, -10.0)),
        "decay-wrong": {"sign": 1.0},
    },
)
def rwkv_like(blueprint: Blueprint, task: Task) -> nn.Module:
    """Receptance, weighted keys and values, and the shift of tokens, in the parallel form."""
    return _RWKV(blueprint, task)
