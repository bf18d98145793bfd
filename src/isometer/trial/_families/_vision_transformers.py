"""Transformers and perceptrons over patches of pictures."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from isometer.trial._family import Blueprint, Options, family, pick
from isometer.trial._tasks import Task

Tensor = torch.Tensor

FAULTS: dict[str, str] = {
    "patch-size": "the patches are most of the picture",
    "layer-scale-off": "the factors of the branches start at 1e-7, or at 10",
    "token-frozen": "the class token sees itself and no patch",
}

_IMAGES = ("fashion-mnist", "mnist", "cifar10", "gratings")


def _skip_drawn(blueprint: Blueprint, rng: np.random.Generator) -> Blueprint:
    return blueprint.changed(skip=round(float(rng.uniform(2, 3)), 2))


def _patch(task: str, rng: np.random.Generator) -> int:
    """A patch that divides the picture: 14, 16 or 12 pixels a side."""
    return {"cifar10": 4, "gratings": int(pick(rng, 3, 4))}.get(task, 2 if rng.random() < 0.3 else 7)


def _whole_patch(blueprint: Blueprint, rng: np.random.Generator) -> Blueprint:
    return blueprint.changed(patch={"cifar10": 16, "gratings": 12}.get(blueprint.task, 14))


def _cut(x: Tensor, size: int) -> Tensor:
    """Pictures (n, c, h, w) as patches (n, patches, c · size²)."""
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // size, size, w // size, size)
    return x.permute(0, 2, 4, 1, 3, 5).reshape(n, (h // size) * (w // size), c * size * size)


# ViT, with attention written out.


def _draw_vit(rng: np.random.Generator, large: bool) -> Blueprint:
    task = pick(rng, *_IMAGES)
    patch = 2 if large else _patch(task, rng)
    return Blueprint(
        task=task,
        width=48 if large else pick(rng, 24, 32, 48, 64),
        depth=8 if large else int(rng.integers(1, 4 if patch == 2 else 9)),
        batch=32 if large else pick(rng, 16, 32),
        options={
            "patch": patch,
            "heads": pick(rng, 2, 4, 8),
            "mlp_ratio": pick(rng, 2, 4),
            "dropout": pick(rng, 0.0, 0.0, 0.1),
            "pool": pick(rng, "class", "class", "mean"),
            "order": "pre",
            "skip": 1.0,
            "positions": True,
        },
    )


class _Attention(nn.Module):
    def __init__(self, dim: int, options: Options) -> None:
        super().__init__()
        self.heads = options["heads"]
        self.scale = options.get("score_scale", 1.0) * (dim // self.heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(options["dropout"])
        self.axis, self.mask = options.get("softmax_axis", -1), options.get("mask")

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, dim = x.shape
        q, k, v = self.qkv(x).reshape(n, tokens, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) * self.scale
        if self.mask == "first":
            scores = scores.masked_fill(torch.arange(tokens) > 0, -math.inf)
        elif self.mask == "self":
            scores = scores.masked_fill(~torch.eye(tokens, dtype=torch.bool), -math.inf)
        attention = self.drop(scores.softmax(dim=self.axis))
        return torch.as_tensor(self.proj((attention @ v).transpose(1, 2).reshape(n, tokens, dim)))


class _Block(nn.Module):
    def __init__(self, dim: int, o: Options) -> None:
        super().__init__()
        self.norm1 = nn.Identity() if o["order"] == "none" else nn.LayerNorm(dim)
        self.attn = _Attention(dim, o)
        self.norm2 = nn.Identity() if o["order"] == "none" else nn.LayerNorm(dim)
        hidden = dim * o["mlp_ratio"]
        self.mlp = nn.Sequential(
            nn.Linear(dim, hidden), getattr(nn, o.get("activation", "GELU"))(), nn.Linear(hidden, dim)
        )
        self.order, self.skip = o["order"], o["skip"]

    def forward(self, x: Tensor) -> Tensor:
        if self.order == "post":
            x = self.norm1(self.skip * x + self.attn(x))
            return torch.as_tensor(self.norm2(self.skip * x + self.mlp(x)))
        x = self.skip * x + self.attn(self.norm1(x)) if self.skip else self.attn(self.norm1(x))
        change: Tensor = self.mlp(self.norm2(x))
        return x * self.skip + change if self.skip else change


class _ViT(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        dim, self.o = blueprint.width, blueprint.options
        size = self.o["patch"]
        self.embed = nn.Conv2d(task.shape[0], dim, kernel_size=size, stride=size)
        patches = (task.shape[1] // size) ** 2
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, patches + 1, dim) * 0.02) if self.o["positions"] else None
        self.blocks = nn.ModuleList([_Block(dim, self.o) for _ in range(blueprint.depth)])
        self.norm = nn.Identity() if self.o["order"] == "none" else nn.LayerNorm(dim)
        self.head = nn.Linear(dim, task.outputs)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        # Read wrongly, the channels of (n, channels, rows, columns) become patches.
        wrongly = self.o.get("reshape") == "wrong"
        x = x.reshape(len(x), -1, x.shape[1]) if wrongly else x.flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        if self.pos is not None:
            x = x + self.pos
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        pool = self.o["pool"]
        if pool == "batch":
            x = x.mean(dim=1).mean(dim=0, keepdim=True).expand(len(x), -1)
        else:
            x = x[:, 0] if pool == "class" else x[:, 1:].sum(dim=1) if pool == "sum" else x[:, 1:].mean(dim=1)
        logits: Tensor = self.head(x)
        return logits


@family(
    "vit",
    source="Dosovitskiy et al. 2021, An image is worth 16×16 words",
    draw=_draw_vit,
    structural={
        "no-skips": {"skip": 0.0},
        "skip-scaled": _skip_drawn,
        "no-norm": {"order": "none"},
        "norm-misplaced": {"order": "post"},
        "no-activation": {"activation": "Identity"},
        "wrong-activation": lambda b, rng: b.changed(activation=pick(rng, "Sigmoid", "Softsign")),
        "score-scale": lambda b, rng: b.changed(
            score_scale=float(pick(rng, 10.0, 30.0, (b.width / b.options["heads"]) ** 0.5))
        ),
        "mask-wrong": lambda b, rng: b.changed(mask=pick(rng, "first", "self")),
        "no-positions": {"positions": False},
        "wrong-axis": lambda b, rng: b.changed(softmax_axis=pick(rng, -2, 0, 1)),
        "wrong-pooling": lambda b, rng: b.changed(pool=pick(rng, "sum", "batch")),
        "wrong-reshape": {"reshape": "wrong"},
        "patch-size": _whole_patch,
    },
)
def vit(blueprint: Blueprint, task: Task) -> nn.Module:
    """A pre-norm transformer over patches, read at the class token or the mean."""
    return _ViT(blueprint, task)


# With LayerScale and stochastic depth, on torch's own attention.


def _draw_layerscale(rng: np.random.Generator, large: bool) -> Blueprint:
    task = pick(rng, *_IMAGES)
    patch = 2 if large else _patch(task, rng)
    return Blueprint(
        task=task,
        width=72 if large else pick(rng, 24, 32, 48),
        depth=8 if large else int(rng.integers(2, 4 if patch == 2 else 9)),
        batch=32 if large else pick(rng, 16, 32),
        options={
            "patch": patch,
            "heads": pick(rng, 2, 4),
            "scale": pick(rng, 0.1, 1.0, 0.5),
            "drop_path": pick(rng, 0.0, 0.05, 0.1),
            "skip": 1.0,
            "norm": True,
        },
    )


class _ScaledBlock(nn.Module):
    def __init__(self, dim: int, drop: float, o: Options) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = (nn.LayerNorm(dim) if o["norm"] else nn.Identity() for _ in range(2))
        self.attention = nn.MultiheadAttention(dim, o["heads"], batch_first=True)
        self.fc1, self.fc2 = nn.Linear(dim, 3 * dim), nn.Linear(3 * dim, dim)
        self.gamma_1, self.gamma_2 = (nn.Parameter(torch.full((dim,), float(o["scale"]))) for _ in range(2))
        self.drop, self.o = drop, o

    def drop_path(self, x: Tensor) -> Tensor:
        if not self.training or self.drop == 0:
            return x
        return x * torch.bernoulli(torch.full((len(x), 1, 1), 1 - self.drop)) / (1 - self.drop)

    def forward(self, x: Tensor) -> Tensor:
        mask = None
        if self.o.get("mask") == "anticausal":
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)  # the class token comes first
        h = self.ln_1(x)
        x = self.o["skip"] * x + self.drop_path(self.gamma_1 * self.attention(h, h, h, attn_mask=mask)[0])
        inner = torch.relu(self.fc1(self.ln_2(x))) ** 2 if self.o.get("squared") else F.gelu(self.fc1(self.ln_2(x)))
        return torch.as_tensor(self.o["skip"] * x + self.drop_path(self.gamma_2 * self.fc2(inner)))


class _LayerScaleViT(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        dim, self.o = blueprint.width, blueprint.options
        patches = (task.shape[1] // self.o["patch"]) ** 2
        self.to_tokens = nn.Linear(task.shape[0] * self.o["patch"] ** 2, dim)
        self.register_buffer("positions", self.waves(patches + 1, dim))
        self.class_token = nn.Parameter(torch.zeros(dim))
        rates = np.linspace(0, self.o["drop_path"], blueprint.depth)
        self.layers = nn.Sequential(*(_ScaledBlock(dim, float(rate), self.o) for rate in rates))
        self.final = nn.LayerNorm(dim)
        self.classify = nn.Linear(dim, task.outputs)
        nn.init.trunc_normal_(self.class_token, std=0.02)

    @staticmethod
    def waves(tokens: int, dim: int) -> Tensor:
        angle = torch.arange(tokens)[:, None] * 100 ** (-torch.arange(0, dim, 2) / dim)
        return torch.cat([angle.sin(), angle.cos()], dim=1)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.to_tokens(_cut(images, self.o["patch"]))
        tokens = torch.cat([self.class_token.expand(len(images), 1, -1), tokens], dim=1)
        if self.o.get("positions", True):
            tokens = tokens + self.get_buffer("positions")
        tokens = self.layers(tokens)
        if self.o.get("pool") == "features":
            return torch.as_tensor(
                self.classify(tokens.mean(dim=-1).mean(dim=-1, keepdim=True).expand(-1, tokens.shape[-1]))
            )
        if self.o.get("final") == "after":
            return F.layer_norm(self.classify(tokens[:, 0]), (self.classify.out_features,))
        return torch.as_tensor(self.classify(self.final(tokens[:, 0])))


@family(
    "vit-layerscale",
    source="Touvron et al. 2022, DeiT III: LayerScale and stochastic depth",
    draw=_draw_layerscale,
    structural={
        "skip-scaled": _skip_drawn,
        "no-norm": {"norm": False},
        "norm-misplaced": {"final": "after"},
        "no-positions": {"positions": False},
        "mask-wrong": {"mask": "anticausal"},
        "wrong-pooling": {"pool": "features"},
        "wrong-activation": {"squared": True},
        "layer-scale-off": lambda b, rng: b.changed(scale=float(pick(rng, 1e-7, 10.0))),
        "patch-size": _whole_patch,
    },
)
def vit_layerscale(blueprint: Blueprint, task: Task) -> nn.Module:
    """A transformer over patches whose branches have learned factors and are left out at random."""
    return _LayerScaleViT(blueprint, task)


# CaiT: the class token enters late.


def _draw_cait(rng: np.random.Generator, large: bool) -> Blueprint:
    task = pick(rng, *_IMAGES)
    patch = 2 if large else _patch(task, rng)
    return Blueprint(
        task=task,
        width=72 if large else pick(rng, 24, 32, 48),
        depth=8 if large else int(rng.integers(1, 4 if patch == 2 else 7)),
        batch=32 if large else pick(rng, 16, 32),
        options={"patch": patch, "heads": pick(rng, 2, 4), "norm_first": True, "late": 2},
    )


class _ClassAttention(nn.Module):
    def __init__(self, dim: int, o: Options) -> None:
        super().__init__()
        self.heads, self.o = o["heads"], o
        self.norm = nn.LayerNorm(dim)
        self.wq, self.wk, self.wv, self.wo = (nn.Parameter(torch.randn(dim, dim) / dim**0.5) for _ in range(4))
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, token: Tensor, patches: Tensor) -> Tensor:
        own = self.norm(token)
        both = own if self.o.get("alone") else torch.cat([own, self.norm(patches)], dim=1)
        q, k, v = own @ self.wq, both @ self.wk, both @ self.wv
        q, k, v = (t.unflatten(-1, (self.heads, -1)) for t in (q, k, v))
        scores = torch.einsum("nqhd,nkhd->nhqk", q, k)
        if not self.o.get("unscaled"):
            scores = scores / math.sqrt(q.shape[-1])
        axis = 0 if self.o.get("axis") == "batch" else -1
        seen = torch.einsum("nhqk,nkhd->nqhd", F.softmax(scores * self.o.get("sharpness", 1.0), dim=axis), v).flatten(2)
        token = token + seen @ self.wo
        return torch.as_tensor(token + self.ff(token))


class _CaiT(nn.Module):
    def __init__(self, blueprint: Blueprint, task: Task) -> None:
        super().__init__()
        dim, o = blueprint.width, blueprint.options
        self.size = o["patch"]
        self.embed = nn.Sequential(nn.Linear(task.shape[0] * self.size**2, dim), nn.LayerNorm(dim))
        self.place = nn.Embedding((task.shape[1] // self.size) ** 2, dim)
        nn.init.normal_(self.place.weight, std=0.02)
        layer = nn.TransformerEncoderLayer(
            dim, o["heads"], 2 * dim, 0.0, "gelu", batch_first=True, norm_first=o["norm_first"]
        )
        self.encoder = nn.TransformerEncoder(layer, blueprint.depth, enable_nested_tensor=False)
        # The encoder copies one layer; copies with equal weights are not meant.
        for p in self.encoder.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        self.token = nn.Parameter(torch.randn(dim) * 0.02)
        self.late = nn.ModuleList(_ClassAttention(dim, o) for _ in range(o["late"]))
        self.head = nn.Linear(dim, task.outputs)
        self.places = o.get("places", True)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.embed(_cut(x, self.size))
        if self.places:
            patches = patches + self.place.weight
        patches = self.encoder(patches)
        token = self.token.expand(len(x), 1, -1)
        for layer in self.late:
            token = layer(token, patches)
        return torch.as_tensor(self.head(token.squeeze(1)))


@family(
    "cait",
    source="Touvron et al. 2021, Going deeper with image transformers",
    draw=_draw_cait,
    structural={
        "norm-misplaced": {"norm_first": False},
        "score-scale": lambda b, rng: b.changed(unscaled=True, sharpness=float(pick(rng, 1.0, 10.0, 30.0))),
        "wrong-axis": {"axis": "batch"},
        "token-frozen": {"alone": True},
        "no-positions": {"places": False},
        "patch-size": _whole_patch,
    },
)
def cait(blueprint: Blueprint, task: Task) -> nn.Module:
    """An encoder of patches, then layers in which only a class token attends to them."""
    return _CaiT(blueprint, task)
