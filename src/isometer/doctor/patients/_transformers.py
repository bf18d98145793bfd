"""Transformers, recurrent nets and mixers, sick and healthy; own ones and ones of the package `transformers`."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from isometer.doctor.patients._inputs import LEVELS, Shape
from isometer.doctor.patients._layers import Residual
from isometer.doctor.patients._patient import Build, Patient, seeded

Tensor = torch.Tensor


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.enter, self.leave = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Mix the tokens."""
        n, tokens, width = x.shape
        parts = self.enter(x).view(n, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)  # (3, n, heads, tokens, c)
        mixed = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        left: Tensor = self.leave(mixed.transpose(1, 2).reshape(n, tokens, width))
        return left


class Transformer(nn.Module):
    """An encoder over continuous tokens with learned positions, and a linear head on the mean token."""

    def __init__(
        self,
        shape: Shape,
        classes: int,
        *,
        depth: int,
        width: int,
        heads: int,
        norm: str | None,
        attention_only: bool,
        gain: float,
    ) -> None:
        super().__init__()
        self.embed = nn.Linear(shape[1], width)
        self.position = nn.Parameter(torch.randn(shape[0], width) * 0.5)
        layers: list[nn.Module] = []
        for _ in range(depth):
            parts: list[nn.Module] = [Attention(width, heads)]
            if not attention_only:
                parts.append(nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)))
            for part in parts:
                if norm == "pre":
                    layers.append(Residual(nn.Sequential(nn.LayerNorm(width), part)))
                elif norm == "post":
                    layers += [Residual(part), nn.LayerNorm(width)]
                else:
                    layers.append(part)
        self.layers = nn.Sequential(*layers, *([nn.LayerNorm(width)] if norm == "pre" else []))
        for module in self.layers.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight, gain)
                nn.init.zeros_(module.bias)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.head(self.layers(self.embed(x) + self.position).mean(1))
        return logits


def transformer(
    depth: int,
    *,
    width: int = 64,
    heads: int = 4,
    norm: str | None = "pre",
    attention_only: bool = False,
    gain: float = 1.0,
) -> Build:
    """A transformer encoder on bands of an image.

    Args:
        depth: number of blocks.
        width: width of the tokens.
        heads: number of heads of the attention.
        norm: `pre` or `post` for residual branches with layer norm before the branch or after the addition; `None` for
            no skips and no norm.
        attention_only: whether the blocks have no perceptron.
        gain: gain of the weights, relative to the law of Glorot.

    Example:
        >>> transformer(2)(0, (7, 112), 10)(torch.zeros(3, 7, 112)).shape
        torch.Size([3, 10])
    """
    return seeded(
        lambda shape, classes: Transformer(
            shape, classes, depth=depth, width=width, heads=heads, norm=norm, attention_only=attention_only, gain=gain
        )
    )


class Recurrent(nn.Module):
    """A recurrent net over the tokens and a linear head on its last state."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], features: int, width: int, classes: int) -> None:
        super().__init__()
        self.body = kind(features, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        states, _ = self.body(x)
        logits: Tensor = self.head(states[:, -1])
        return logits


class Mixer(nn.Module):
    """Perceptrons over tokens and over features in turn, residual with layer norm."""

    def __init__(self, shape: Shape, classes: int, *, depth: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Linear(shape[1], width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth + 1))
        self.tokens = nn.ModuleList(self._perceptron(shape[0], 32) for _ in range(depth))
        self.features = nn.ModuleList(self._perceptron(width, 2 * width) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    @staticmethod
    def _perceptron(width: int, hidden: int) -> nn.Module:
        return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.embed(x)
        for index, (tokens, features) in enumerate(zip(self.tokens, self.features, strict=True)):
            x = x + tokens(self.norms[2 * index](x).transpose(1, 2)).transpose(1, 2)
            x = x + features(self.norms[2 * index + 1](x))
        logits: Tensor = self.head(self.norms[-1](x).mean(1))
        return logits


def packaged(model: str, config: str, **options: Any) -> Build:
    """A model of the package `transformers`, built from a small configuration; nothing is downloaded.

    Args:
        model: name of its class.
        config: name of its configuration's class.
        options: options of the configuration.

    Example:
        >>> build = packaged("ViTForImageClassification", "ViTConfig", hidden_size=64)  # imports nothing yet
        >>> callable(build)
        True
    """

    def factory(shape: Shape, classes: int) -> nn.Module:
        package: Any = importlib.import_module("transformers")
        net: nn.Module = getattr(package, model)(getattr(package, config)(num_labels=classes, **options))
        return net

    return seeded(factory)


# the usual 0.02 is made for 768 features; at 64 the same relative size is √12 times larger
_SPREAD = {"initializer_range": 0.07}
_TOKENS = {**_SPREAD, "vocab_size": LEVELS + 1, "pad_token_id": LEVELS, "bos_token_id": None, "eos_token_id": None}

HEALTHY = (
    Patient(
        "transformer-4", "pre-LN transformer of 4 blocks", (), "transformer", transformer(4), "bands", optimizer="adam"
    ),
    Patient(
        "transformer-24",
        "pre-LN transformer of 24 blocks",
        (),
        "transformer",
        transformer(24, width=32),
        "bands",
        optimizer="adam",
    ),
    Patient(
        "transformer-post-2",
        "post-LN transformer of 2 blocks",
        (),
        "transformer",
        transformer(2, norm="post"),
        "bands",
        optimizer="adam",
    ),
    Patient(
        "lstm",
        "LSTM of 2 layers",
        (),
        "recurrent",
        seeded(lambda shape, classes: Recurrent(nn.LSTM, shape[1], 64, classes)),
        "bands",
        optimizer="adam",
    ),
    Patient(
        "gru",
        "GRU of 2 layers",
        (),
        "recurrent",
        seeded(lambda shape, classes: Recurrent(nn.GRU, shape[1], 64, classes)),
        "bands",
        optimizer="adam",
    ),
    Patient(
        "mixer",
        "MLP-Mixer of 4 blocks",
        (),
        "mixer",
        seeded(lambda shape, classes: Mixer(shape, classes, depth=4, width=64)),
        "bands",
        optimizer="adam",
    ),
    Patient(
        "gpt2",
        "GPT-2 of 2 blocks on grey levels",
        (),
        "transformer",
        packaged(
            "GPT2ForSequenceClassification", "GPT2Config", n_embd=64, n_layer=2, n_head=4, n_positions=49, **_TOKENS
        ),
        "tokens",
        optimizer="adam",
        requires="transformers",
    ),
    Patient(
        "llama",
        "Llama of 2 blocks on grey levels",
        (),
        "transformer",
        packaged(
            "LlamaForSequenceClassification",
            "LlamaConfig",
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=49,
            **_TOKENS,
        ),
        "tokens",
        optimizer="adam",
        requires="transformers",
    ),
    Patient(
        "bert",
        "BERT of 2 blocks on grey levels",
        (),
        "transformer",
        packaged(
            "BertForSequenceClassification",
            "BertConfig",
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=49,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            **_TOKENS,
        ),
        "tokens",
        optimizer="adam",
        requires="transformers",
    ),
    Patient(
        "vit",
        "vision transformer of 4 blocks on patches of 7×7",
        (),
        "transformer",
        packaged(
            "ViTForImageClassification",
            "ViTConfig",
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=4,
            num_attention_heads=4,
            image_size=28,
            patch_size=7,
            num_channels=1,
            **_SPREAD,
        ),
        "image",
        optimizer="adam",
        requires="transformers",
    ),
    Patient(
        "hf-resnet",
        "ResNet of the package transformers, 2 stages of 2 blocks",
        (),
        "convnet",
        packaged(
            "ResNetForImageClassification",
            "ResNetConfig",
            num_channels=1,
            embedding_size=16,
            hidden_sizes=[16, 32],
            depths=[2, 2],
            layer_type="basic",
        ),
        "image",
        requires="transformers",
    ),
)

SICK = (
    Patient(
        "transformer-post-24",
        "post-LN transformer of 24 blocks with twice the weights of Glorot",
        ("rank-collapse",),
        "transformer",
        transformer(24, width=32, norm="post", gain=2.0),
        "bands",
        "transformer-24",
        optimizer="adam",
    ),
    Patient(
        "attention-only-24",
        "24 layers of attention alone, without skips or perceptrons: all tokens become one",
        ("rank-collapse",),
        "transformer",
        transformer(24, width=32, norm=None, attention_only=True),
        "bands",
        "transformer-24",
        optimizer="adam",
    ),
)
