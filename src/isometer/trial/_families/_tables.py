"""Networks for tables: features in no order, one value or a few out."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

Tensor = torch.Tensor

FAULTS: dict[str, str] = {
    "router-sharp": "the router's scores are multiplied, so that one expert gets everything from the start",
    "branch-detached": "the main branch is computed without gradients",
    "basis-scale": "the inputs of the basis functions lie far outside of their domain, or at a single place",
    "cross-scale": "the crossing layers multiply without the projection's scale",
}

_TABLES = ("teacher", "friedman")


def _skip_drawn(blueprint: Blueprint, rng: np.random.Generator) -> Blueprint:
    return blueprint.changed(skip=round(float(rng.uniform(2, 3)), 2))


# The residual network for tables.


def _draw_resnet(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_TABLES, "integral", "field"),
        width=400 if large else pick(rng, 32, 64, 96, 128),
        depth=16 if large else int(rng.integers(2, 17)),
        batch=64 if large else pick(rng, 32, 64),
        options={
            "dropout": pick(rng, 0.0, 0.1),
            "hidden_factor": pick(rng, 1, 2),
            "norm": pick(rng, "BatchNorm1d", "LayerNorm"),
            "skip": 1.0,
            "final": "before",
            "activation": "ReLU",
        },
    )


class _TableResNet(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        d, o = blueprint.width, blueprint.options
        self.o = o
        self.first_layer = nn.Linear(task.shape[0], d)
        self.layers = nn.ModuleList()
        for i in range(blueprint.depth):
            hidden = d * o["hidden_factor"]
            if "bottleneck" in o and i >= blueprint.depth // 2:
                hidden = o["bottleneck"]
            self.layers.append(
                nn.ModuleDict(
                    {
                        "norm": getattr(nn, o["norm"])(d),
                        "linear0": nn.Linear(d, hidden),
                        "activation": getattr(nn, o["activation"])(),
                        "dropout": nn.Dropout(o["dropout"]),
                        "linear1": nn.Linear(hidden, d),
                    }
                )
            )
        self.last_norm = getattr(nn, o["norm"])(task.outputs if o["final"] == "after" else d)
        self.head = nn.Linear(d, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first_layer(x)
        for layer in self.layers:
            z = x
            assert isinstance(layer, nn.ModuleDict)
            for part in layer.values():
                z = part(z)
            if self.o.get("detached"):
                z = z.detach()
            x = self.o["skip"] * x + z if self.o["skip"] else z
        if self.o["final"] == "after":
            return torch.as_tensor(self.last_norm(self.head(F.relu(x))))
        return torch.as_tensor(self.head(F.relu(self.last_norm(x))))


@family(
    "tabular-resnet",
    source="Gorishniy et al. 2021, Revisiting deep learning models for tabular data",
    draw=_draw_resnet,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": _skip_drawn,
        "no-norm": {"norm": "Identity"},
        "norm-misplaced": {"final": "after", "norm": "BatchNorm1d"},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": lambda b, rng: b.changed(activation=pick(rng, "Sigmoid", "Hardsigmoid")),
        "bottleneck": lambda b, rng: b.changed(bottleneck=pick(rng, 1, 2)),
        "branch-detached": {"detached": True},
    },
)
def tabular_resnet(blueprint: Blueprint, task: Task) -> nn.Module:
    """Residual blocks of normalisation, two linear layers and dropout."""
    return _TableResNet(blueprint, task)


# Features as tokens.


def _draw_ft(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_TABLES),
        width=96 if large else pick(rng, 16, 24, 32),
        depth=6 if large else int(rng.integers(1, 7)),
        batch=64 if large else pick(rng, 16, 32),
        options={"heads": pick(rng, 2, 4), "skip": 1.0, "norm": True, "read": "class", "activation": "reglu"},
    )


class _FTBlock(nn.Module):
    def __init__(self, d: int, o: Options, first: bool) -> None:
        super().__init__()
        self.norm_a = nn.Identity() if first or not o["norm"] else nn.LayerNorm(d)
        self.norm_f = nn.LayerNorm(d) if o["norm"] else nn.Identity()
        self.query, self.key, self.value, self.out = (nn.Linear(d, d) for _ in range(4))
        self.wide, self.back = nn.Linear(d, 4 * d), nn.Linear(2 * d, d)
        self.o = o
        for layer in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(layer.weight, gain=1 / math.sqrt(2))
            nn.init.zeros_(layer.bias)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (self.o["heads"], -1)).mT for layer in (self.query, self.key, self.value))
        q, k, v = (t.permute(0, 3, 1, 2) for t in (q, k, v))  # n, heads, tokens, d / heads
        if "score_scale" in self.o:
            weights = torch.softmax(torch.matmul(q, k.mT) * self.o["score_scale"], dim=-1)
            mixed = torch.matmul(weights, v)
        elif self.o.get("axis"):
            mixed = torch.matmul(torch.softmax(torch.matmul(q, k.mT) / math.sqrt(q.shape[-1]), dim=self.o["axis"]), v)
        elif self.o.get("mask"):
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=torch.eye(x.shape[1], dtype=torch.bool))
        else:
            mixed = F.scaled_dot_product_attention(q, k, v)
        return torch.as_tensor(self.out(mixed.permute(0, 2, 1, 3).flatten(2)))

    def forward(self, x: Tensor) -> Tensor:
        skip = self.o["skip"]
        x = self.attend(self.norm_a(x)) + (skip * x if skip else 0)
        a, b = self.wide(self.norm_f(x)).chunk(2, dim=-1)
        gated = a * F.relu(b) if self.o["activation"] == "reglu" else a * b.softmax(-1)
        return torch.as_tensor(self.back(gated) + (skip * x if skip else 0))


class _FTTransformer(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        d, features, self.o = blueprint.width, task.shape[0], blueprint.options
        bound = d**-0.5
        self.weight = nn.Parameter(torch.empty(features, d).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(features, d).uniform_(-bound, bound))
        self.cls = nn.Parameter(torch.empty(d).uniform_(-bound, bound))
        self.blocks = nn.ModuleList(_FTBlock(d, self.o, i == 0) for i in range(blueprint.depth))
        self.last = nn.Sequential(nn.LayerNorm(d) if self.o["norm"] else nn.Identity(), nn.ReLU())
        self.head = nn.Linear(d, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.unsqueeze(-1) * (self.weight[0] if self.o.get("anonymous") else self.weight)
        tokens = tokens if self.o.get("anonymous") else tokens + self.bias
        tokens = torch.cat([tokens, self.cls.expand(len(x), 1, -1)], dim=1)
        for block in self.blocks:
            tokens = block(tokens)
        read = self.o["read"]
        if read == "batch":
            tokens = tokens.mean(dim=0, keepdim=True).expand_as(tokens)
        h = tokens.sum(dim=1) if read == "sum" else tokens[:, 0] if read == "first" else tokens[:, -1]
        return torch.as_tensor(self.head(self.last(h)))


@family(
    "ft-transformer",
    source="Gorishniy et al. 2021, FT-Transformer",
    draw=_draw_ft,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": _skip_drawn,
        "no-norm": {"norm": False},
        "wrong-activation": {"activation": "softmax"},
        "score-scale": lambda b, rng: b.changed(score_scale=float(pick(rng, 1.0, 10.0, 30.0))),
        "mask-wrong": {"mask": "self"},
        "wrong-axis": lambda b, rng: b.changed(axis=pick(rng, 1, 2)),
        "no-positions": {"anonymous": True},
        "wrong-pooling": lambda b, rng: b.changed(read=pick(rng, "batch", "sum", "first")),
    },
)
def ft_transformer(blueprint: Blueprint, task: Task) -> nn.Module:
    """A transformer with a token per feature."""
    return _FTTransformer(blueprint, task)


# Chebyshev polynomials on the edges.


def _draw_kan(rng: np.random.Generator, large: bool) -> Blueprint:
    depth = 8 if large else int(rng.integers(1, 6))
    return Blueprint(
        task=pick(rng, *_TABLES, "field", "integral"),
        width=320 if large else pick(rng, 8, 12, 16, 24),
        depth=depth,
        batch=64 if large else pick(rng, 32, 64),
        options={"degree": pick(rng, 3, 4, 5), "norm": True, "base": depth > 2 or bool(rng.integers(2)), "range": 1.0},
    )


class ChebyKANLayer(nn.Module):
    """Every edge has a polynomial of its own."""

    def __init__(self, before: int, after: int, o: Options) -> None:
        super().__init__()
        self.degree, self.range = o["degree"], o["range"]
        self.coefficients = nn.Parameter(torch.empty(before, after, self.degree + 1))
        nn.init.normal_(self.coefficients, std=1 / math.sqrt(before))
        self.coefficients.data /= 1 + torch.arange(self.degree + 1)  # smooth functions to begin with
        self.base = nn.Linear(before, after, bias=False) if o["base"] else None
        self.norm = nn.LayerNorm(after) if o["norm"] else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        t = torch.tanh(self.range * x) if self.range < 20 else self.range * x
        basis = [torch.ones_like(t), t]
        for _ in range(2, self.degree + 1):
            basis.append(2 * t * basis[-1] - basis[-2])
        y = torch.einsum("nbk,bak->na", torch.stack(basis[: self.degree + 1], dim=-1), self.coefficients)
        if self.base is not None:
            y = y + self.base(F.silu(x))
        return torch.as_tensor(self.norm(y))


@family(
    "kan-chebyshev",
    source="Liu et al. 2024, KAN; Sidharth et al. 2024, Chebyshev polynomials on the edges",
    draw=_draw_kan,
    structural={
        "no-norm": {"norm": False},
        "no-activation": {"degree": 1},
        "bottleneck": lambda b, rng: b.changed(bottleneck=pick(rng, 1, 2)),
        "basis-scale": lambda b, rng: b.changed(range=float(pick(rng, 1e-3, 12.0, 25.0))),
    },
)
def kan_chebyshev(blueprint: Blueprint, task: Task) -> nn.Module:
    """Layers of polynomials, with layer normalisation between them."""
    sizes = [task.shape[0], *[blueprint.width] * blueprint.depth, task.outputs]
    if "bottleneck" in blueprint.options:
        sizes[len(sizes) // 2] = blueprint.options["bottleneck"]
    layers = [ChebyKANLayer(a, b, blueprint.options) for a, b in pairwise(sizes[:-1])]
    return nn.Sequential(*layers, ChebyKANLayer(sizes[-2], sizes[-1], {**blueprint.options, "norm": False}))


# Mixture of experts.


def _draw_moe(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_TABLES, "mnist", "fashion-mnist"),
        width=256 if large else pick(rng, 24, 32, 64),
        depth=6 if large else int(rng.integers(1, 6)),
        batch=64 if large else pick(rng, 32, 64),
        options={"experts": pick(rng, 3, 4, 8), "top": pick(rng, 1, 2), "skip": 1.0, "norm": True, "sharp": 1.0},
    )


class _TableExperts(nn.Module):
    def __init__(self, d: int, o: Options) -> None:
        super().__init__()
        self.router = nn.Linear(d, o["experts"], bias=False)
        self.w_in = nn.Parameter(torch.randn(o["experts"], d, 2 * d) * math.sqrt(2 / d))
        self.b_in = nn.Parameter(torch.zeros(o["experts"], 1, 2 * d))
        self.w_out = nn.Parameter(torch.randn(o["experts"], 2 * d, d) * math.sqrt(1 / (2 * d)))
        self.norm = nn.LayerNorm(d) if o["norm"] else nn.Identity()
        self.o = o

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        scores = self.router(h) * self.o["sharp"]
        share = torch.softmax(scores, dim=0 if self.o.get("axis") == "batch" else -1)
        kept, chosen = share.topk(self.o["top"], dim=-1)
        if not self.o.get("axis"):
            kept = kept / kept.sum(dim=-1, keepdim=True) if self.o["top"] > 1 else kept
        gate = torch.zeros_like(share).scatter(-1, chosen, kept)
        inner = torch.baddbmm(self.b_in, h.expand(self.o["experts"], -1, -1), self.w_in)
        if self.o.get("activation") != "none":
            inner = F.relu(inner)
        mixed = torch.einsum("end,ne->nd", inner @ self.w_out, gate)
        return self.o["skip"] * x + mixed if self.o["skip"] else mixed


@family(
    "moe-mlp",
    source="Shazeer et al. 2017, Outrageously large neural networks; Fedus et al. 2022",
    draw=_draw_moe,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": _skip_drawn,
        "no-norm": {"norm": False},
        "no-activation": {"activation": "none"},
        "wrong-axis": {"axis": "batch"},
        "router-sharp": lambda b, rng: b.changed(sharp=float(pick(rng, 30.0, 100.0))),
    },
)
def moe_mlp(blueprint: Blueprint, task: Task) -> nn.Module:
    """Residual blocks that send each sample to one or two of several experts."""
    d = blueprint.width
    stem = nn.Linear(math.prod(task.shape), d)
    blocks = [_TableExperts(d, blueprint.options) for _ in range(blueprint.depth)]
    return nn.Sequential(nn.Flatten(), stem, *blocks, nn.LayerNorm(d), nn.Linear(d, task.outputs))


# Deep and cross.


def _draw_cross(rng: np.random.Generator, large: bool) -> Blueprint:
    return Blueprint(
        task=pick(rng, *_TABLES),
        width=1000 if large else pick(rng, 32, 64, 100),
        depth=8 if large else int(rng.integers(1, 6)),
        batch=64 if large else pick(rng, 32, 64),
        options={"stacked": bool(rng.integers(2)), "activation": "relu", "cross_gain": 1.0},
    )


class _DeepCross(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        features, width, self.o = task.shape[0], blueprint.width, blueprint.options
        self.cross = nn.ModuleList(nn.Linear(features, features) for _ in range(min(3, blueprint.depth)))
        for layer in self.cross:
            nn.init.xavier_normal_(layer.get_parameter("weight"), gain=self.o["cross_gain"])
        self.deep = nn.ModuleList(nn.Linear(features if i == 0 else width, width) for i in range(blueprint.depth))
        for layer in self.deep:
            nn.init.kaiming_normal_(layer.get_parameter("weight"), nonlinearity="relu")
        self.out = nn.Linear(width if self.o["stacked"] else width + features, task.outputs)

    def tower(self, x: Tensor) -> Tensor:
        for layer in self.deep:
            x = layer(x)
            x = torch.relu(x) if self.o["activation"] == "relu" else torch.sigmoid(x)
        return x

    def forward(self, x: Tensor) -> Tensor:
        crossed = x
        for layer in self.cross:
            product = x * layer(crossed)
            crossed = product if self.o.get("no_skips") else product + crossed
        if self.o["stacked"]:
            return torch.as_tensor(self.out(self.tower(crossed.detach() if self.o.get("detached") else crossed)))
        deep = self.tower(x)
        return torch.as_tensor(self.out(torch.cat([crossed, deep.detach() if self.o.get("detached") else deep], dim=1)))


@family(
    "deep-cross",
    source="Wang et al. 2021, DCN V2",
    draw=_draw_cross,
    structural={
        "no-skips": {"no_skips": True},
        "wrong-activation": {"activation": "sigmoid"},
        "branch-detached": {"detached": True},
        "cross-scale": lambda b, rng: b.changed(cross_gain=float(pick(rng, 5.0, 15.0))),
    },
)
def deep_cross(blueprint: Blueprint, task: Task) -> nn.Module:
    """Layers that multiply features with mixtures of them, beside or below a perceptron."""
    return _DeepCross(blueprint, task)
