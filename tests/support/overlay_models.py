"""Models whose blocks the doctor extracts as a spec, small and with weights as their makers draw them.

    model, batch = build("gpt2", seed=3)

`ARCHITECTURES` are models of `transformers`, `MODULES` are written in torch, `IMAGES` convolve. `OUTSIDE` are models of
`transformers` that the language of networks does not describe, with a word of the reason.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, BLOCKS, INNER, TOKENS, VOCABULARY = 64, 4, 3, 128, 12, 101
_COMMON = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": BLOCKS, "intermediate_size": INNER}
_WORDS = {**_COMMON, "vocab_size": VOCABULARY}
_GROUPED = {**_WORDS, "num_key_value_heads": 2}
_PATCHES = {**_COMMON, "image_size": 16, "patch_size": 4}
_GPT = {"n_embd": WIDTH, "n_head": HEADS, "n_layer": BLOCKS, "vocab_size": VOCABULARY, "n_positions": 32}

ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2Model", _GPT),
    "gpt_neo": (
        "GPTNeoModel",
        {
            "hidden_size": WIDTH,
            "num_heads": HEADS,
            "num_layers": 2,
            "attention_types": [[["global"], 2]],
            "vocab_size": VOCABULARY,
            "intermediate_size": INNER,
            "max_position_embeddings": 32,
        },
    ),
    "gpt_neox": ("GPTNeoXModel", {**_WORDS, "rotary_pct": 1.0}),
    "opt": (
        "OPTModel",
        {
            "hidden_size": WIDTH,
            "num_attention_heads": HEADS,
            "num_hidden_layers": BLOCKS,
            "vocab_size": VOCABULARY,
            "ffn_dim": INNER,
            "max_position_embeddings": 32,
            "word_embed_proj_dim": WIDTH,
        },
    ),
    "phi": ("PhiModel", {**_WORDS, "partial_rotary_factor": 1.0}),
    "llama": ("LlamaModel", _GROUPED),
    "mistral": ("MistralModel", _GROUPED),
    "qwen2": ("Qwen2Model", _GROUPED),
    "qwen3": ("Qwen3Model", {**_GROUPED, "head_dim": 16}),
    "gemma": ("GemmaModel", {**_GROUPED, "head_dim": 16}),
    "granite": ("GraniteModel", {**_GROUPED, "residual_multiplier": 0.3}),
    "bert": ("BertModel", _WORDS),
    "roberta": ("RobertaModel", _WORDS),
    "electra": ("ElectraModel", {**_WORDS, "embedding_size": 32}),
    "distilbert": (
        "DistilBertModel",
        {"dim": WIDTH, "n_heads": HEADS, "n_layers": BLOCKS, "vocab_size": VOCABULARY, "hidden_dim": INNER},
    ),
    "vit": ("ViTModel", _PATCHES),
    "deit": ("DeiTModel", _PATCHES),
    "dinov2": (
        "Dinov2Model",
        {**{name: value for name, value in _PATCHES.items() if name != "intermediate_size"}, "mlp_ratio": 2},
    ),
    "clip_vision_model": ("CLIPVisionModel", _PATCHES),
}
OUTSIDE: dict[str, tuple[str, dict[str, Any], str]] = {
    "t5": (
        "T5EncoderModel",
        {
            "d_model": WIDTH,
            "d_kv": 16,
            "num_heads": HEADS,
            "num_layers": BLOCKS,
            "vocab_size": VOCABULARY,
            "d_ff": INNER,
        },
        "adds a bias to its scores",
    ),
    "stablelm": ("StableLmModel", _GROUPED, "rotary positions rotate 4 of 16 features"),
    "olmo2": ("Olmo2Model", _GROUPED, "normalised by something other than the size of each head"),
    "bloom": (
        "BloomModel",
        {"hidden_size": WIDTH, "n_head": HEADS, "n_layer": BLOCKS, "vocab_size": VOCABULARY},
        "queries and keys that are not",
    ),
    "gptj": ("GPTJModel", {**_GPT, "rotary_dim": 16}, "cat comes between"),
}


class OwnBlock(nn.Module):
    """Attention and an MLP from linear layers, layer norms, a softmax and products."""

    def __init__(self, *, fused: bool, post: bool) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.fused, self.post = fused, post

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        n, t, _ = x.shape
        q, k, v = (part(x).view(n, t, HEADS, -1).transpose(1, 2) for part in (self.query, self.key, self.value))
        if self.fused:
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
            scores = (q @ k.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5).masked_fill(hidden, -torch.inf)
            mixed = scores.softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(n, t, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.post:
            x = self.first(x + 0.5 * self.attend(x))
            return self.second(x + 0.5 * self.down(torch.tanh(self.up(x))))
        x = x + self.attend(self.first(x))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class ResidualMLP(nn.Module):
    """Blocks of two linear layers beside a skip connection, without positions."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Linear(10, WIDTH)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH))
            for _ in range(BLOCKS)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.start(x)
        for block in self.blocks:
            x = x + block(x)
        return x


def encoder(*, norm_first: bool, batch_first: bool) -> nn.Module:
    """`nn.TransformerEncoder`, whose blocks are copies of one: each is drawn again, as torch draws it."""
    made = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.0, batch_first=batch_first, norm_first=norm_first)
    model = nn.TransformerEncoder(made, BLOCKS, enable_nested_tensor=False)
    for layer in model.layers:
        fresh = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.0, batch_first=batch_first, norm_first=norm_first)
        layer.load_state_dict(copy.deepcopy(fresh.state_dict()))
    return model


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "softmax written out": (
        lambda: nn.Sequential(*(OwnBlock(fused=False, post=False) for _ in range(BLOCKS))),
        (4, TOKENS, WIDTH),
    ),
    "fused attention, post-norm": (
        lambda: nn.Sequential(*(OwnBlock(fused=True, post=True) for _ in range(BLOCKS))),
        (4, TOKENS, WIDTH),
    ),
    "nn.TransformerEncoder": (lambda: encoder(norm_first=False, batch_first=False), (TOKENS, 4, WIDTH)),
    "nn.TransformerEncoder, norm first": (lambda: encoder(norm_first=True, batch_first=True), (4, TOKENS, WIDTH)),
    "residual MLP": (ResidualMLP, (8, 10)),
}


class ResidualBlock(nn.Module):
    """Two 3 × 3 convolutions with batch norm, before or after the addition that ends it."""

    def __init__(self, width: int, out: int, stride: int, *, pre: bool) -> None:
        super().__init__()
        self.pre = pre
        self.first = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(width if pre else out), nn.BatchNorm2d(out)])
        self.skip: nn.Module | None = None
        if stride != 1 or width != out:
            shortcut = nn.Conv2d(width, out, 1, stride, bias=False)
            self.skip = shortcut if pre else nn.Sequential(shortcut, nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = x if self.skip is None else self.skip(x)
        if self.pre:
            return self.second(torch.relu(self.norms[1](self.first(torch.relu(self.norms[0](x)))))) + kept
        return torch.relu(self.norms[1](self.second(torch.relu(self.norms[0](self.first(x))))) + kept)


def resnet(*, pre: bool, stem: bool = False, width: int = 16) -> nn.Module:
    """A ResNet of two stages; with the stem of large images, a 7 × 7 convolution and a maximum."""
    first: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False)]
    if stem:
        first = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    sizes = [(width, width, 1), (width, width, 1), (width, 2 * width, 2), (2 * width, 2 * width, 1)]
    last = [nn.BatchNorm2d(2 * width), nn.ReLU()] if pre else []
    blocks = [ResidualBlock(*size, pre=pre) for size in sizes]
    return nn.Sequential(*first, *blocks, *last, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10))


def vgg(*, norm: bool) -> nn.Module:
    """A VGG of four convolutions and two dense layers."""
    layers: list[nn.Module] = []
    before = 3
    for width in (16, 16, 0, 32, 32, 0):
        if not width:
            layers.append(nn.MaxPool2d(2, 2))
            continue
        layers += [nn.Conv2d(before, width, 3, padding=1), *([nn.BatchNorm2d(width)] if norm else []), nn.ReLU(True)]
        before = width
    dense = [nn.Linear(before * 4, WIDTH), nn.ReLU(True), nn.Dropout(0.0), nn.Linear(WIDTH, 10)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten(), *dense)


IMAGES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "ResNet": (lambda: resnet(pre=False), (4, 3, 16, 16)),
    "ResNet, stem of large images": (lambda: resnet(pre=False, stem=True), (4, 3, 32, 32)),
    "ResNet, pre-activation": (lambda: resnet(pre=True), (4, 3, 8, 8)),
    "VGG": (lambda: vgg(norm=False), (4, 3, 8, 8)),
    "VGG, batch norm": (lambda: vgg(norm=True), (4, 3, 16, 16)),
}


def build(name: str, seed: int) -> tuple[nn.Module, torch.Tensor]:
    """A model with weights of its own seed, and a batch; batch norm in train mode, dropout off."""
    generator = torch.Generator().manual_seed(1)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if name in MODULES or name in IMAGES:
            make, shape = (MODULES | IMAGES)[name]
            return make().train(), torch.randn(shape, generator=generator)
        known = ARCHITECTURES[name] if name in ARCHITECTURES else OUTSIDE[name][:2]
        model = _transformer(*known)
    if "image_size" in known[1]:
        return model.eval(), torch.randn(4, 3, 16, 16, generator=generator)
    return model.eval(), torch.randint(3, VOCABULARY, (4, TOKENS), generator=generator)


def _transformer(name: str, fields: dict[str, Any]) -> nn.Module:
    import transformers

    transformers.logging.set_verbosity_error()
    kind = getattr(transformers, name)
    made: nn.Module = kind(kind.config_class(**fields))
    return made
