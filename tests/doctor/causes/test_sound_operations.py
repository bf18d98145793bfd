"""What sound models do is not suspicious: attention, routing, quantisation, norms, softmaxes, factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from support.operations import SAMPLES, WIDTH, After, Net, Tensor, found, without


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(3)


class Attention(nn.Module):
    """Written by hand, with a mask, scaled queries and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        q, k, v = (one.view(n, t, 4, 8).transpose(1, 2) for one in self.qkv(self.norm(x)).chunk(3, -1))
        scores = (q * 8**-0.5) @ k.transpose(-1, -2)
        scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), -torch.inf)
        weights = functional.dropout(scores.softmax(-1), 0.1, self.training)
        return self.head(x + self.out((weights @ v).transpose(1, 2).reshape(n, t, d)))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(2))
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norms[0](self.a(x)))
        x = torch.relu(x + self.norms[1](self.b(x)))
        return self.head(x.mean((2, 3)))


class Last(nn.Module):
    """An LSTM and a readout of its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.LSTM(8, 16, 2, batch_first=True, dropout=0.1), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[0][:, -1])


class Routed(nn.Module):
    """Two of four experts, by a softmax, with samples sorted by expert and put back."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        weight, expert = self.gate(x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for number, one in enumerate(self.experts):
            share = (weight * (expert == number)).sum(-1, keepdim=True)
            out = out + share * one(x)
        order = expert[:, 0].argsort()
        sorted_back = torch.empty_like(out)
        sorted_back[order] = out[order].relu()
        return self.head(sorted_back)


class Quantised(nn.Module):
    """A straight-through estimator, and a safe softmax pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.score = nn.Linear(WIDTH, 32), nn.Linear(32, 3), nn.Linear(32, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        h = h + (torch.round(4 * h) / 4 - h).detach()
        scores = self.score(h)
        scores = scores - scores.amax(1, keepdim=True).detach()
        return self.b((scores.softmax(1) * h).sum(1))


class Codebook(nn.Module):
    """The nearest of some learned vectors, straight through, with its loss beside the output."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.vectors = nn.Linear(WIDTH, 4), nn.Linear(4, 3), nn.Embedding(16, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.a(x)
        nearest = self.vectors(torch.cdist(h, self.vectors.weight).argmin(-1))
        loss = functional.mse_loss(nearest, h.detach()) + functional.mse_loss(h, nearest.detach())
        return self.b(h + (nearest - h).detach()), loss


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.round(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


class OwnBackward(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(_Rounded.apply(self.first(x)))


class BatchNorm(nn.Module):
    """Written by hand, with running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, 16), nn.Linear(16, 2)
        self.register_buffer("mean", torch.zeros(16))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        mean, var = h.mean(0), h.var(0)
        with torch.no_grad():
            self.mean.mul_(0.9).add_(0.1 * mean.detach())
        return self.b(torch.relu((h - mean) / (var + 1e-5).sqrt()))


class Reentrant(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(checkpoint(self.first, x, use_reentrant=True))


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Linear(32, 5))


SOUND: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "transformer": (transformer, (SAMPLES, 6, 32)),
    "lstm": (Last, (SAMPLES, 6, 8)),
    "residual": (Residual, (SAMPLES, 3, 8, 8)),
    "attention": (Attention, (SAMPLES, 6, 32)),
    "as many tokens as samples": (Attention, (SAMPLES, SAMPLES, 32)),
    "routed": (Routed, (SAMPLES, WIDTH)),
    "quantised": (Quantised, (SAMPLES, 6, WIDTH)),
    "codebook": (Codebook, (SAMPLES, WIDTH)),
    "own backward": (lambda: OwnBackward(nn.Identity()), (SAMPLES, WIDTH)),
    "batch norm": (BatchNorm, (SAMPLES, WIDTH)),
    "checkpoint": (lambda: Reentrant(nn.Identity()), (SAMPLES, WIDTH)),
}


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("name", SOUND)
def test_sound_models_are_not_suspicious(name: str) -> None:
    build, shape = SOUND[name]
    assert [one.advice for one in found(build(), torch.randn(shape)) if one.deviation >= 1] == []


def test_a_library_model_is_not_suspicious() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=16, n_positions=8, n_embd=32, n_layer=2, n_head=2)
    model = transformers.GPT2LMHeadModel(config).train()
    tokens = torch.randint(16, (SAMPLES, 8))
    assert [one.advice for one in found(model, tokens) if one.deviation >= 1] == []


@pytest.mark.parametrize("factor", [0.5, 2.0, 8**-0.5])
def test_usual_factors_are_not_suspicious(factor: float) -> None:
    assert all(one.deviation < 1 for one in found(Net(lambda x: x * factor)))


def test_activations_behind_the_readout() -> None:
    activations = {"softmax": nn.Softmax(-1), "relu": nn.ReLU(), "tanh": nn.Tanh(), "softplus": nn.Softplus()}
    for name in activations:
        model = Net(torch.relu)
        model.register_forward_hook(After(activations[name]))
        worst = found(model)[0]
        assert (worst.deviation, worst.modules) == (2.0, ("",))
        assert f"`{name}()` after the readout" in worst.advice
    assert all(one.deviation < 1 for one in found(nn.Sequential(nn.Linear(WIDTH, 3), nn.LogSoftmax(-1))))


def test_a_softmax_between_layers() -> None:
    worst = found(Net(lambda x: x.softmax(-1)))[0]
    assert worst.deviation == 2.0


def test_a_weight_without_a_gradient() -> None:
    class Fixed(Net):
        def forward(self, x: Tensor) -> Tensor:
            return self.last(functional.linear(x, self.first.weight.detach(), self.first.bias))

    worst = found(Fixed(nn.Identity()))[0]
    assert (worst.deviation, worst.evidence) == (3.0, "one trained parameter gets no gradient")


def test_what_no_parameter_is_behind_is_no_cut() -> None:
    class Plain(Net):
        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.first(x.detach()))

    assert found(Plain(nn.Identity())) == []


def test_scores_of_attention_that_are_far_too_large() -> None:
    class Sharp(Attention):
        def forward(self, x: Tensor) -> Tensor:
            h = self.norm(x)
            return self.head(functional.scaled_dot_product_attention(h, h, h, scale=30.0))

    model, x = Sharp(), torch.randn(SAMPLES, 6, 32)
    worst = found(model, x)[0]
    assert worst.deviation > 2
    h = model.norm(x)
    torch.testing.assert_close(without(model, worst)(x), model.head(functional.scaled_dot_product_attention(h, h, h)))
