"""Causal transformers that differ in what keeps their signal in range: where the norm stands, or what replaces it."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isometer.trial._families._draws import drawn, size
from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

FAULTS = {
    "heads-wrong": "one head per feature, so that every score is a product of two numbers",
    "saturated-norm": "the tanh that replaces the norm starts with a slope at which it saturates",
    "residual-scale": "the branches are initialised without regard to depth, much too loud",
}


def _causal(steps: int, kind: str) -> Tensor:
    """Which position (column) each position (row) may look at."""
    everything = torch.ones(steps, steps, dtype=torch.bool)
    if kind == "reversed":
        return everything.triu()
    if kind == "itself":
        return torch.eye(steps, dtype=torch.bool)
    if kind == "first":
        return everything & (torch.arange(steps) == 0)
    return everything.tril()


_MASKS = drawn(mask=("reversed", "itself", "first"))
_LOUD = drawn(score_scale=(8.0, 15.0, 30.0))


def _draw_gpt(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64, 96), depths=(1, 2, 3, 4, 6, 8), largest=(128, 10))
    return Blueprint(
        task=pick(rng, "markov", "text", "tags"),
        width=width,
        depth=depth,
        batch=16 if depth > 3 else pick(rng, 16, 32),
        options={
            "heads": pick(rng, 2, 4),
            "activation": pick(rng, "GELU", "ReLU", "SiLU"),
            "dropout": pick(rng, 0.0, 0.0, 0.1),
            "bias": pick(rng, True, False),
            "tied": pick(rng, True, False),
        },
    )


class _GPT(nn.Module):
    """Token and position tables, blocks, a last norm, and a readout that may be the token table."""

    class GPTBlock(nn.Module):
        class GPTAttention(nn.Module):
            mask: Tensor

            def __init__(self, width: int, steps: int, o: Options) -> None:
                super().__init__()
                self.heads = o["heads"]
                self.c_attn = nn.Linear(width, 3 * width, bias=o["bias"])
                self.c_proj = nn.Linear(width, width, bias=o["bias"])
                self.drop = nn.Dropout(o["dropout"])
                self.axis = o.get("axis", -1)
                self.scale = o.get("score_scale", 1.0) / math.sqrt(width // o["heads"])
                self.mixed = o.get("mixed", False)
                self.register_buffer("mask", _causal(steps, o.get("mask", "causal")))

            def forward(self, x: Tensor) -> Tensor:
                n, steps, width = x.shape
                q, k, v = (
                    part.view(n, steps, self.heads, -1).transpose(1, 2) for part in self.c_attn(x).split(width, dim=2)
                )
                scores = (q @ k.transpose(-2, -1)) * self.scale
                scores = scores.masked_fill(~self.mask, -1e9)
                y = self.drop(scores.softmax(dim=self.axis)) @ v
                y = y.reshape(n, steps, width) if self.mixed else y.transpose(1, 2).reshape(n, steps, width)
                out: Tensor = self.drop(self.c_proj(y))
                return out

        def __init__(self, width: int, steps: int, o: Options) -> None:
            super().__init__()
            norm = nn.Identity if o.get("norm") == "none" else nn.LayerNorm
            self.ln_1, self.ln_2 = norm(width), norm(width)
            self.attn = self.GPTAttention(width, steps, o)
            activation = nn.Softmax(dim=-1) if o["activation"] == "Softmax" else getattr(nn, o["activation"])()
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width, bias=o["bias"]),
                activation,
                nn.Linear(4 * width, width, bias=o["bias"]),
                nn.Dropout(o["dropout"]),
            )
            self.skip = o.get("skip", 1.0)
            self.after = o.get("norm") == "after"

        def forward(self, x: Tensor) -> Tensor:
            if self.after:  # the norm stands after the sum, where no initialisation for pre-norm expects it
                x = self.ln_1(self.skip * x + self.attn(x))
                out: Tensor = self.ln_2(self.skip * x + self.mlp(x))
            else:
                x = self.skip * x + self.attn(self.ln_1(x))
                out = self.skip * x + self.mlp(self.ln_2(x))
            return out

    def __init__(self, width: int, depth: int, task: Task, o: Options) -> None:
        super().__init__()
        steps = task.shape[0]
        self.wte = nn.Embedding(task.vocabulary, width)
        self.wpe = nn.Embedding(steps, width)
        self.positions = o.get("positions", True)
        self.h = nn.ModuleList(self.GPTBlock(width, steps, o) for _ in range(depth))
        if "bottleneck" in o:
            units = o["bottleneck"]
            self.h.insert(depth // 2, nn.Sequential(nn.Linear(width, units), nn.Linear(units, width)))
        self.ln_f = nn.Identity() if o.get("norm") in ("none", "after") else nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, task.outputs, bias=False)
        self.apply(self._init)
        for name, weight in self.named_parameters():
            if name.endswith(("c_proj.weight", "mlp.2.weight")):
                nn.init.normal_(weight, std=o.get("branch_scale", 0.02 / math.sqrt(2 * depth)))
        if o["tied"] and task.outputs == task.vocabulary:
            self.lm_head.weight = self.wte.weight

    @staticmethod
    def _init(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens)
        if self.positions:
            x = x + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits: Tensor = self.lm_head(self.ln_f(x))
        return logits


@family(
    "gpt-prenorm",
    source="Radford et al. 2019, Language models are unsupervised multitask learners",
    draw=_draw_gpt,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "residual-scale": drawn(branch_scale=(0.3, 1.0)),
        "no-norm": {"norm": "none"},
        "norm-misplaced": {"norm": "after"},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": drawn(activation=("Sigmoid", "Softmax", "Hardtanh")),
        "score-scale": _LOUD,
        "mask-wrong": _MASKS,
        "no-positions": {"positions": False},
        "bottleneck": drawn(bottleneck=(1, 2)),
        "wrong-axis": drawn(axis=(-2, 1, 0)),
        "wrong-reshape": {"mixed": True},
    },
)
def gpt_prenorm(blueprint: Blueprint, task: Task) -> nn.Module:
    """GPT-2 written out, with its initialisation."""
    return _GPT(blueprint.width, blueprint.depth, task, blueprint.options)


# The transformer of 2017.


def _draw_postnorm(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64), depths=(1, 2, 3, 4), largest=(160, 6))
    return Blueprint(
        task=pick(rng, "markov", "text", "tags"),
        width=width,
        depth=depth,
        batch=pick(rng, 16, 32),
        options={
            "heads": pick(rng, 2, 4),
            "activation": pick(rng, "ReLU", "GELU"),
            "widening": pick(rng, 2, 4),
            "dropout": pick(rng, 0.0, 0.1),
        },
    )


def _waves(steps: int, width: int) -> Tensor:
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angle = torch.arange(steps)[:, None] * rate
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)


class _PostNormLayer(nn.Module):
    def __init__(self, width: int, o: Options, allowed: Tensor) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(width, o["heads"], dropout=o["dropout"], batch_first=True)
        self.linear1 = nn.Linear(width, o["widening"] * width)
        self.linear2 = nn.Linear(o["widening"] * width, width)
        self.activation = getattr(nn, o["activation"])()
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(o["dropout"])
        self.forbidden = ~allowed
        self.place = o.get("norm", "post")
        self.skip = o.get("skip", 1.0)
        nn.init.xavier_uniform_(self.linear1.weight)
        nn.init.xavier_uniform_(self.linear2.weight)

    def _add(self, x: Tensor, branch: Tensor, norm: nn.Module) -> Tensor:
        total: Tensor = self.skip * x + self.dropout(branch)
        if self.place == "post":
            total = norm(total)
        return total

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm1(x) if self.place == "pre" else x
        attended, _ = self.self_attn(h, h, h, attn_mask=self.forbidden, need_weights=False)
        x = self._add(x, attended, self.norm1)
        h = self.norm2(x) if self.place == "pre" else x
        return self._add(x, self.linear2(self.activation(self.linear1(h))), self.norm2)


class _PostNorm(nn.Module):
    waves: Tensor

    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        o, steps = blueprint.options, task.shape[0]
        self.width = blueprint.width
        self.embedding = nn.Embedding(task.vocabulary, blueprint.width)
        nn.init.normal_(self.embedding.weight, std=blueprint.width**-0.5)
        self.register_buffer("waves", o.get("positions", 1.0) * _waves(steps, blueprint.width))
        allowed = _causal(steps, o.get("mask", "causal"))
        layers: list[nn.Module] = [_PostNormLayer(blueprint.width, o, allowed) for _ in range(blueprint.depth)]
        if "bottleneck" in o:
            units = o["bottleneck"]
            squeeze = nn.Sequential(nn.Linear(self.width, units), nn.ReLU(), nn.Linear(units, self.width))
            layers.insert(blueprint.depth // 2, squeeze)
        self.layers = nn.Sequential(*layers)
        self.decoder = nn.Linear(blueprint.width, task.outputs)
        self.last = nn.LayerNorm(task.outputs) if o.get("readout_norm") else nn.Identity()

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(self.width) + self.waves
        logits: Tensor = self.last(self.decoder(self.layers(x)))
        return logits


@family(
    "gpt-postnorm",
    source="Vaswani et al. 2017, Attention is all you need",
    draw=_draw_postnorm,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"norm": "none"},
        "norm-misplaced": drawn(norm=("pre", "post"), readout_norm=(True,)),
        "no-activation": {"activation": "Identity"},
        "wrong-activation": drawn(activation=("Sigmoid", "Tanhshrink", "Softsign")),
        "mask-wrong": _MASKS,
        "no-positions": {"positions": 0.0},
        "bottleneck": drawn(bottleneck=(1, 2)),
    },
)
def gpt_postnorm(blueprint: Blueprint, task: Task) -> nn.Module:
    """Multi-head attention of torch, the norm after each sum, waves for positions."""
    return _PostNorm(blueprint, task)


# DeepNorm: the skip is enlarged and the branches are initialised smaller.


def _draw_deepnorm(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 40, 48), depths=(2, 3, 4, 6, 8), largest=(96, 16))
    return Blueprint(
        task=pick(rng, "markov", "text", "tags"),
        width=width,
        depth=depth,
        batch=pick(rng, 16, 24),
        options={"heads": pick(rng, 2, 4), "activation": pick(rng, "relu", "gelu"), "eps": 1e-5},
    )


class _DeepNormBlock(nn.Module):
    """All weights as plain parameters, products by einsum."""

    allowed: Tensor

    def __init__(self, width: int, alpha: float, beta: float, steps: int, o: Options) -> None:
        super().__init__()
        heads, self.size = o["heads"], width // o["heads"]
        self.query = nn.Parameter(torch.empty(heads, self.size, width))
        self.key = nn.Parameter(torch.empty(heads, self.size, width))
        self.value = nn.Parameter(torch.empty(heads, self.size, width))
        self.out = nn.Parameter(torch.empty(width, heads, self.size))
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        for weight, gain in ((self.query, 1.0), (self.key, 1.0), (self.value, beta), (self.out, beta)):
            nn.init.normal_(weight, std=gain / math.sqrt(width))
        nn.init.xavier_normal_(self.up.weight, gain=beta)
        nn.init.xavier_normal_(self.down.weight, gain=beta)
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=o["eps"]) for _ in range(2))
        self.alpha, self.o = alpha, o
        self.register_buffer("allowed", _causal(steps, o.get("mask", "causal")))

    def attend(self, x: Tensor) -> Tensor:
        q = torch.einsum("bsw,hdw->bhsd", x, self.query)
        k = torch.einsum("bsw,hdw->bhsd", x, self.key)
        v = torch.einsum("bsw,hdw->bhsd", x, self.value)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * (self.o.get("score_scale", 1.0) / self.size**0.5)
        weight = torch.softmax(scores.where(self.allowed, torch.tensor(-1e9)), dim=self.o.get("axis", -1))
        return torch.einsum("bhij,bhjd,whd->biw", weight, v, self.out)

    def feed(self, x: Tensor) -> Tensor:
        h = self.up(x)
        kind = self.o["activation"]
        h = h if kind == "linear" else getattr(torch, kind)(h) if kind in ("sigmoid", "sin") else getattr(F, kind)(h)
        out: Tensor = self.down(h)
        return out

    def forward(self, x: Tensor) -> Tensor:
        for norm, branch in zip(self.norms, (self.attend, self.feed), strict=True):
            if self.o.get("norm") == "pre":
                x = self.alpha * x + branch(norm(x))
            elif self.o.get("norm") == "none":
                x = self.alpha * x + branch(x)
            else:
                x = norm(self.alpha * x + branch(x))
        return x


class _DeepNorm(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        o, width, depth = blueprint.options, blueprint.width, blueprint.depth
        alpha = o.get("skip", (2 * depth) ** 0.25)
        beta = o.get("gain", (8 * depth) ** -0.25)
        self.token = nn.Embedding(task.vocabulary, width)
        self.place = nn.Parameter(torch.randn(task.shape[0], width) * o.get("positions", 1.0))
        self.place.requires_grad_(o.get("positions", 1.0) > 0)
        self.blocks = nn.Sequential(*[_DeepNormBlock(width, alpha, beta, task.shape[0], o) for _ in range(depth)])
        self.readout = nn.Linear(width, task.outputs)
        nn.init.xavier_normal_(self.readout.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.readout(self.blocks(self.token(tokens) + self.place))
        return logits


@family(
    "deepnorm-transformer",
    source="Wang et al. 2022, DeepNet: scaling transformers to 1,000 layers",
    draw=_draw_deepnorm,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(0.3, 4.0, 8.0)),
        "residual-scale": drawn(gain=(2.0, 4.0)),
        "no-norm": {"norm": "none"},
        "norm-misplaced": {"norm": "pre"},
        "no-activation": {"activation": "linear"},
        "wrong-activation": drawn(activation=("sigmoid", "hardsigmoid", "sin")),
        "score-scale": _LOUD,
        "mask-wrong": _MASKS,
        "no-positions": {"positions": 0.0},
        "wrong-axis": drawn(axis=(1, 2)),
    },
)
def deepnorm_transformer(blueprint: Blueprint, task: Task) -> nn.Module:
    """Post-norm with DeepNorm's constants for a decoder."""
    return _DeepNorm(blueprint, task)


# No norm at all: a tanh with a learned slope.


def _draw_dyt(rng: np.random.Generator, large: bool) -> Blueprint:
    width, depth = size(rng, large, widths=(32, 48, 64, 80), depths=(1, 2, 3, 4, 6, 8), largest=(128, 10))
    return Blueprint(
        task=pick(rng, "markov", "text", "tags"),
        width=width,
        depth=depth,
        batch=16,
        options={"heads": pick(rng, 2, 4, 8), "slope": pick(rng, 0.5, 0.8, 1.0), "bias": pick(rng, True, False)},
    )


class DyT(nn.Module):
    """Dynamic tanh."""

    def __init__(self, width: int, slope: float) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), slope))
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.alpha * x) * self.weight + self.bias


class _DyTBlock(nn.Module):
    def __init__(self, width: int, depth: int, o: Options) -> None:
        super().__init__()
        self.first: nn.Module = DyT(width, o["slope"]) if o["slope"] else nn.Identity()
        self.second: nn.Module = DyT(width, o["slope"]) if o["slope"] else nn.Identity()
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width, bias=o["bias"]) for _ in range(3))
        self.proj = nn.Linear(width, width, bias=o["bias"])
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        for layer in (self.proj, self.down):
            with torch.no_grad():
                layer.weight /= math.sqrt(2 * depth)
        self.heads = width if o.get("single") else o["heads"]
        self.o = o

    def forward(self, x: Tensor) -> Tensor:
        batch, steps, width = x.shape
        h = self.first(x)
        q, k, v = (
            f(h).reshape(batch, steps, self.heads, -1).permute(0, 2, 1, 3) for f in (self.to_q, self.to_k, self.to_v)
        )
        mask = _causal(steps, self.o.get("mask", "causal")).to(x.device)
        y = F.scaled_dot_product_attention(q * self.o.get("score_scale", 1.0), k, v, attn_mask=mask)
        x = self.o.get("skip", 1.0) * x + self.proj(y.permute(0, 2, 1, 3).reshape(batch, steps, width))
        h = self.second(x)
        kind = self.o.get("activation", "silu")
        gate = self.gate(h) if kind == "linear" else getattr(F, kind)(self.gate(h))
        total: Tensor = self.o.get("skip", 1.0) * x + self.down(gate * self.up(h))
        return total


class _DyTTransformer(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        o, width = blueprint.options, blueprint.width
        self.embed = nn.Embedding(task.vocabulary, width)
        self.pos = nn.Embedding(task.shape[0], width)
        nn.init.normal_(self.pos.weight, std=0.3)
        self.use_pos = o.get("positions", True)
        self.blocks = nn.ModuleList([_DyTBlock(width, blueprint.depth, o) for _ in range(blueprint.depth)])
        self.final = DyT(width, o["slope"]) if o["slope"] else nn.Identity()
        self.out = nn.Linear(width, task.outputs)

    def forward(self, idx: Tensor) -> Tensor:
        x = self.embed(idx)
        if self.use_pos:
            x = x + self.pos.weight[None, : idx.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.out(self.final(x))
        return logits


@family(
    "dyt-transformer",
    source="Zhu et al. 2025, Transformers without normalization",
    draw=_draw_dyt,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": drawn(skip=(2.0, 3.0)),
        "no-norm": {"slope": 0.0},
        "saturated-norm": drawn(slope=(20.0, 100.0)),
        "no-activation": {"activation": "linear"},
        "wrong-activation": drawn(activation=("sigmoid", "softsign")),
        "score-scale": _LOUD,
        "mask-wrong": _MASKS,
        "no-positions": {"positions": False},
        "heads-wrong": {"single": True},
    },
)
def dyt_transformer(blueprint: Blueprint, task: Task) -> nn.Module:
    """Pre-norm blocks with dynamic tanh in the norm's place, and a gated feed-forward part."""
    return _DyTTransformer(blueprint, task)
