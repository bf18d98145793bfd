"""Thirty small models, each with a batch: every way in which a model uses its parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

Tensor = torch.Tensor
SAMPLES = 5


def _batch(*shape: int) -> Tensor:
    return torch.randn(SAMPLES, *shape)


def _tokens(length: int, vocabulary: int) -> Tensor:
    return torch.randint(0, vocabulary, (SAMPLES, length))


class Function(nn.Module):
    """A module whose forward pass is a function of its parts."""

    def __init__(self, forward: Callable[[Any, Tensor], Tensor], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._forward_function = forward

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_function(self, x)


def mlp() -> tuple[nn.Module, Any]:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3)), _batch(4)


def mlp_without_bias() -> tuple[nn.Module, Any]:
    return nn.Sequential(nn.Linear(4, 6, bias=False), nn.GELU(), nn.Linear(6, 1, bias=False)), _batch(4)


def batch_norm_mlp() -> tuple[nn.Module, Any]:
    layers = [nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(6, 2)), _batch(4)


def batch_norm_without_gains() -> tuple[nn.Module, Any]:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, affine=False), nn.Tanh(), nn.Linear(6, 2)), _batch(4)


def wide_batch_norm() -> tuple[nn.Module, Any]:
    """More features than samples, so that reads are replaced by coordinates in their span."""
    return nn.Sequential(nn.Linear(30, 20), nn.BatchNorm1d(20), nn.Tanh(), nn.Linear(20, 2)), _batch(30)


def convolution() -> tuple[nn.Module, Any]:
    layers = [nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(3, 4, 3, stride=2), nn.Tanh()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 2)), _batch(2, 6, 6)


def convolution_batch_norm() -> tuple[nn.Module, Any]:
    layers = [nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.Conv2d(3, 3, 2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)), _batch(2, 5, 5)


def convolution_line() -> tuple[nn.Module, Any]:
    layers = [nn.Conv1d(2, 4, 3, dilation=2, padding="same"), nn.GELU(), nn.Conv1d(4, 4, 2, groups=4)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(24, 2)), _batch(2, 7)


def convolution_volume() -> tuple[nn.Module, Any]:
    return nn.Sequential(nn.Conv3d(1, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(16, 2)), _batch(1, 3, 3, 3)


def grouped_convolution() -> tuple[nn.Module, Any]:
    layers = [nn.Conv2d(4, 4, 3, groups=2, padding=1, padding_mode="circular"), nn.SiLU(), nn.Conv2d(4, 8, 3, groups=4)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32, 2)), _batch(4, 4, 4)


def transposed_convolution() -> tuple[nn.Module, Any]:
    layers = [nn.Conv2d(1, 3, 2), nn.Tanh(), nn.ConvTranspose2d(3, 2, 2), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(18, 2)), _batch(1, 3, 3)


def shared_weights() -> tuple[nn.Module, Any]:
    layer = nn.Linear(5, 5)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), layer, nn.Linear(5, 2)), _batch(5)


def shared_and_transposed() -> tuple[nn.Module, Any]:
    """An autoencoder whose decoder is its encoder's transpose."""
    return Function(lambda m, x: torch.tanh(m.w(x)) @ m.w.weight, w=nn.Linear(5, 3)), _batch(5)


def shared_convolution() -> tuple[nn.Module, Any]:
    layer = nn.Conv2d(2, 2, 3, padding=1)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Flatten(), nn.Linear(18, 2)), _batch(2, 3, 3)


def layer_norms() -> tuple[nn.Module, Any]:
    layers = [nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 6), nn.RMSNorm(6), nn.SiLU()]
    return nn.Sequential(*layers, nn.Linear(6, 2)), _batch(4)


def group_and_instance_norm() -> tuple[nn.Module, Any]:
    layers = [nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, 4, 2), nn.InstanceNorm2d(4, affine=True)]
    return nn.Sequential(*layers, nn.Tanh(), nn.Flatten(), nn.Linear(16, 2)), _batch(2, 5, 5)


def attention() -> tuple[nn.Module, Any]:
    part = nn.MultiheadAttention(8, 2, batch_first=True)
    return Function(lambda m, x: m.end(m.mix(x, x, x)[0].mean(1)), mix=part, end=nn.Linear(8, 3)), _batch(4, 8)


def attention_tokens_first() -> tuple[nn.Module, Any]:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = x.transpose(0, 1)
        return m.end(m.mix(h, h, h, need_weights=False)[0].mean(0))

    return Function(forward, mix=nn.MultiheadAttention(8, 2), end=nn.Linear(8, 2)), _batch(4, 8)


def encoder_layer() -> tuple[nn.Module, Any]:
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(24, 2)), _batch(3, 8)


def recurrent_cells() -> tuple[nn.Module, Any]:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = x.new_zeros(len(x), 5)
        for step in x.unbind(1):
            h = m.cell(step, h)
        return m.end(h)

    return Function(forward, cell=nn.GRUCell(3, 5), end=nn.Linear(5, 2)), _batch(4, 3)


def lstm() -> tuple[nn.Module, Any]:
    def forward(m: Any, x: Tensor) -> Tensor:
        return m.end(m.cells(x)[0][:, -1])

    return Function(forward, cells=nn.LSTM(3, 4, num_layers=2, batch_first=True), end=nn.Linear(4, 2)), _batch(4, 3)


def unrolled_recurrence() -> tuple[nn.Module, Any]:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = x.new_zeros(len(x), 5)
        for step in x.unbind(1):
            h = torch.tanh(m.inner(h) + m.outer(step))
        return m.end(h)

    parts = {"inner": nn.Linear(5, 5), "outer": nn.Linear(3, 5), "end": nn.Linear(5, 2)}
    return Function(forward, **parts), _batch(4, 3)


def tied_embedding() -> tuple[nn.Module, Any]:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = torch.tanh(m.mix(m.tokens(x))).mean(1)
        return functional.linear(h, m.tokens.weight)

    return Function(forward, tokens=nn.Embedding(7, 4), mix=nn.Linear(4, 4)), _tokens(6, 7)


def padded_embedding() -> tuple[nn.Module, Any]:
    parts = {"tokens": nn.Embedding(7, 4, padding_idx=0), "end": nn.Linear(4, 2)}
    return Function(lambda m, x: m.end(torch.tanh(m.tokens(x).sum(1))), **parts), _tokens(6, 7)


def language_model() -> tuple[nn.Module, Any]:
    """Positions from an embedding and from a slice of a parameter, a causal block, tied weights."""

    def forward(m: Any, x: Tensor) -> Tensor:
        length = x.shape[1]
        h = m.tokens(x) + m.places(torch.arange(length)) + m.more[:, :length]
        q, k, v = m.project(m.norm(h)).chunk(3, -1)
        h = h + m.back(functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        return functional.linear(m.norm(h)[:, -1], m.tokens.weight)

    parts = {
        "tokens": nn.Embedding(6, 4),
        "places": nn.Embedding(8, 4),
        "more": nn.Parameter(torch.randn(1, 8, 4)),
        "norm": nn.LayerNorm(4),
        "project": nn.Linear(4, 12),
        "back": nn.Linear(4, 4),
    }
    return Function(forward, **parts), _tokens(3, 6)


def weight_norm() -> tuple[nn.Module, Any]:
    first = parametrizations.weight_norm(nn.Linear(4, 5))
    return nn.Sequential(first, nn.Tanh(), nn.Linear(5, 2)), _batch(4)


def free_parameters() -> tuple[nn.Module, Any]:
    """Sums, differences and products with parameters, in place and not, and an einsum."""

    def forward(m: Any, x: Tensor) -> Tensor:
        h = (x - m.shift) * m.scale
        h = m.number * torch.tanh(h)
        h += m.shift
        h = h @ m.matrix
        return torch.einsum("bi,oi->bo", torch.sigmoid(h), m.out) + m.number

    parts = {
        "shift": nn.Parameter(torch.randn(4)),
        "scale": nn.Parameter(torch.randn(1, 4)),
        "number": nn.Parameter(torch.tensor(1.3)),
        "matrix": nn.Parameter(torch.randn(4, 5)),
        "out": nn.Parameter(torch.randn(2, 5)),
    }
    return Function(forward, **parts), _batch(4)


def folded_positions() -> tuple[nn.Module, Any]:
    """Samples and positions in one axis, as in `addmm` of the GPT-2 layers of libraries."""

    def forward(m: Any, x: Tensor) -> Tensor:
        n, t, d = x.shape
        h = torch.tanh(torch.addmm(m.bias, x.reshape(-1, d), m.weight))
        return m.end(h.reshape(n, t * 5))

    parts = {"weight": nn.Parameter(torch.randn(3, 5)), "bias": nn.Parameter(torch.randn(5)), "end": nn.Linear(20, 2)}
    return Function(forward, **parts), _batch(4, 3)


def low_rank_update() -> tuple[nn.Module, Any]:
    """A frozen weight plus a trained product of two narrow ones."""
    frozen = nn.Linear(5, 5)
    frozen.requires_grad_(False)
    parts = {"a": nn.Parameter(torch.randn(2, 5)), "b": nn.Parameter(torch.randn(5, 2)), "frozen": frozen}

    def forward(m: Any, x: Tensor) -> Tensor:
        return functional.linear(torch.tanh(m.frozen(x)), m.frozen.weight + m.b @ m.a)

    return Function(forward, **parts), _batch(5)


def residual_network() -> tuple[nn.Module, Any]:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = m.stem(x)
        h = h + m.second(torch.relu_(m.first(h)))
        return m.end(torch.relu(h).mean((2, 3)))

    parts = {
        "stem": nn.Conv2d(2, 3, 1),
        "first": nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3)),
        "second": nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3)),
        "end": nn.Linear(3, 2),
    }
    return Function(forward, **parts), _batch(2, 4, 4)


def contrast() -> tuple[nn.Module, Any]:
    """Samples that attend to each other without any batch norm."""
    parts = {"q": nn.Linear(4, 3), "k": nn.Linear(4, 3)}
    return Function(lambda m, x: torch.softmax(m.q(x) @ m.k(x).T, -1) @ x, **parts), _batch(4)


def neighbours() -> tuple[nn.Module, Any]:
    """Every sample sees the next one only."""
    parts = {"a": nn.Linear(4, 5), "b": nn.Linear(5, 2)}
    return Function(lambda m, x: m.b(torch.tanh(m.a(x) + m.a(x).roll(1, 0))), **parts), _batch(4)


def mixed_bilinear() -> tuple[nn.Module, Any]:
    parts = {"pair": nn.Bilinear(3, 3, 4), "end": nn.Linear(4, 2)}
    return Function(lambda m, x: m.end(torch.tanh(m.pair(x, x))), **parts), _batch(3)


MODELS: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
    made.__name__: made
    for made in (
        mlp, mlp_without_bias, batch_norm_mlp, batch_norm_without_gains, wide_batch_norm, convolution,
        convolution_batch_norm, convolution_line, convolution_volume, grouped_convolution, transposed_convolution,
        shared_weights, shared_and_transposed, shared_convolution, layer_norms, group_and_instance_norm, attention,
        attention_tokens_first, encoder_layer, recurrent_cells, lstm, unrolled_recurrence, tied_embedding,
        padded_embedding, language_model, weight_norm, free_parameters, folded_positions, low_rank_update,
        residual_network, contrast, neighbours, mixed_bilinear,
    )
}  # fmt: skip


def made(name: str) -> tuple[nn.Module, Any]:
    """A model in double precision with its batch."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(len(name))
        model, batch = MODELS[name]()
    return model.double(), batch.double() if batch.is_floating_point() else batch
