"""The reference against what hooks of these tests measure: unit mean squares layer by layer."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from isometer.doctor.stress import by_the_book_
from support.stressing import deep, drawn

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")


class _Recurrent(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.body = kind(8, 16, num_layers=2, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.body(x)[0])
        return found


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(11, 16, padding_idx=3), nn.LayerNorm(16)
        self.hidden, self.head = nn.Linear(16, 16), nn.Linear(16, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.hidden(self.norm(self.embedding(tokens))))
        return found


def _old_weight_norm(*sizes: int) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(
            *(m for a, b in itertools.pairwise(sizes) for m in (nn.utils.weight_norm(nn.Linear(a, b)), nn.ReLU()))
        )[:-1]


def _shared() -> nn.Module:
    layer = nn.Linear(8, 8)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(8, 3))


def _encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), 2)


MODELS: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
    "vanishing": (lambda: deep(12), drawn(16, 8)),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, groups=4, padding=1),
            nn.Flatten(),
            nn.Linear(72, 3),
        ),
        1e3 * drawn(4, 3, 7, 7),
    ),
    "transposed": (
        lambda: (
            nn.Sequential(nn.ConvTranspose2d(3, 4, 4, stride=2), nn.ReLU(), nn.ConvTranspose1d(4, 2, 3, groups=2))[:2]
            .append(nn.Flatten())
            .append(nn.Linear(4 * 256, 2))
        ),
        drawn(4, 3, 7, 7),
    ),
    "transformer": (_encoder, drawn(4, 5, 16)),
    "lstm": (lambda: _Recurrent(nn.LSTM), drawn(4, 5, 8)),
    "gru": (lambda: _Recurrent(nn.GRU), drawn(4, 5, 8)),
    "tied": (_Tied, torch.arange(22).reshape(2, 11) % 11),
    "weight norm": (
        lambda: nn.Sequential(
            parametrizations.weight_norm(nn.Linear(8, 16)), nn.ReLU(), parametrizations.weight_norm(nn.Linear(16, 3))
        ),
        drawn(16, 8),
    ),
    "weight norm of old": (lambda: _old_weight_norm(8, 16, 16, 3), 1e2 * drawn(16, 8)),
    "shared": (_shared, drawn(16, 8)),
    "double": (lambda: deep(3).double(), drawn(16, 8).double()),
    "bfloat16": (lambda: deep(3).bfloat16(), drawn(16, 8).bfloat16()),
}


def _sizes(model: nn.Module, x: Any) -> list[float]:
    """Mean square of what each layer returns when it is first called, in that order."""
    found: dict[int, float] = {}

    def note(module: nn.Module, _: Any, output: torch.Tensor) -> None:
        found.setdefault(id(module), output.detach().float().square().mean().item())

    kinds = (nn.Linear, nn.modules.conv._ConvNd)
    layers = [m for m in model.modules() if isinstance(m, kinds) or type(m).__name__ == "Conv1D"]
    handles = [layer.register_forward_hook(note) for layer in layers]
    model(**x) if isinstance(x, dict) else model(x)
    for handle in handles:
        handle.remove()
    return list(found.values())


def _booked(model: nn.Module, x: torch.Tensor, seed: int = 0) -> list[str]:
    return by_the_book_(model, lambda one: one(x), seed=seed)


@pytest.mark.parametrize("name", MODELS)
def test_layers_return_mean_square_one_and_the_last_a_hundredth(name: str) -> None:
    make, x = MODELS[name]
    model = make()
    assert _booked(model, x) == []
    *hidden, last = _sizes(model, x)
    # The weight of a tied embedding is scaled last: the norm after it hides all but its epsilon.
    precision = 0.05 if x.dtype is torch.bfloat16 or name == "tied" else 1e-3
    assert hidden == pytest.approx([1.0] * len(hidden), rel=precision)
    assert last == pytest.approx(0.01, rel=precision)


@pytest.mark.parametrize("name", MODELS)
def test_it_depends_on_the_seed_and_not_on_what_there_was(name: str) -> None:
    make, x = MODELS[name]

    def weights(seed: int, start: int) -> torch.Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(start)
            model = make()
        before = torch.get_rng_state()
        _booked(model, x, seed)
        assert torch.equal(torch.get_rng_state(), before)
        return torch.cat([p.detach().flatten().double() for p in model.parameters()])

    assert torch.allclose(weights(0, 1), weights(0, 2), rtol=1e-5, atol=1e-8)
    assert not torch.allclose(weights(0, 1), weights(1, 1), rtol=1e-2)


def test_biases_are_zero_norms_have_gain_one_and_everything_is_trained() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.LayerNorm(16), nn.Linear(16, 3))
    for parameter in model.parameters():
        parameter.requires_grad_(False).fill_(7.0)
    _booked(model, drawn(16, 8))
    assert all(p.requires_grad for p in model.parameters())
    assert not model[0].bias.any()
    assert all((model[k].weight == 1).all() and not model[k].bias.any() for k in (1, 2))


def test_recurrent_weights_are_orthogonal_and_forget_gates_open() -> None:
    model = nn.LSTM(8, 16)
    _booked(model, drawn(5, 4, 8))
    for block in model.weight_hh_l0.detach().split(16):
        assert torch.allclose(block @ block.T, torch.eye(16), atol=1e-5)
    assert model.bias_ih_l0.tolist() == [0.0] * 16 + [1.0] * 16 + [0.0] * 32
    assert not model.bias_hh_l0.any()
    assert model.weight_ih_l0.var().item() == pytest.approx(1 / 8, rel=0.2)


def test_a_tied_embedding_stays_tied_and_its_padding_zero() -> None:
    model = _Tied()
    _booked(model, MODELS["tied"][1])
    assert model.head.weight is model.embedding.weight
    assert not model.embedding.weight[3].any()


def test_an_embedding_alone_has_unit_variance() -> None:
    model = nn.Sequential(nn.Embedding(200, 8), nn.Linear(8, 2))
    _booked(model, torch.arange(10))
    assert model[0].weight.var().item() == pytest.approx(1.0, rel=0.1)


def test_a_spectral_norm_keeps_its_norm() -> None:
    model = nn.Sequential(parametrizations.spectral_norm(nn.Linear(8, 16)), nn.ReLU(), nn.Linear(16, 3))
    _booked(model, drawn(16, 8))
    for _ in range(30):
        model(drawn(16, 8))  # the norm is found by iteration
    assert torch.linalg.matrix_norm(model[0].weight, 2).item() == pytest.approx(1.0, rel=0.02)
    assert all(map(math.isfinite, _sizes(model, drawn(16, 8))))


def test_what_belongs_to_no_known_layer_stays_and_is_named() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.matrix = nn.Parameter(drawn(8, 8))
            self.places = nn.Parameter(torch.arange(3), requires_grad=False)
            self.head = nn.Linear(8, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.head(x @ self.matrix)
            return found

    model = Own()
    assert _booked(model, drawn(16, 8)) == ["matrix", "places"]
    assert torch.equal(model.matrix, drawn(8, 8))
    assert model.places.tolist() == [0, 1, 2]


def test_a_zero_batch_does_no_harm() -> None:
    model = deep(3)
    _booked(model, torch.zeros(16, 8))
    assert all(p.isfinite().all() for p in model.parameters())
    assert model[0].weight.any()


def test_no_hook_stays_behind_even_if_the_model_raises() -> None:
    model = deep(3)
    with pytest.raises(RuntimeError):
        _booked(model, torch.zeros(16, 9))
    assert not any(module._forward_hooks for module in model.modules())


def test_a_small_language_model_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=31, n_positions=8, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    assert _booked(model, torch.arange(24).reshape(3, 8)) == []
    *hidden, last = _sizes(model, {"input_ids": torch.arange(24).reshape(3, 8)})
    # The embedding is the readout too, see above.
    assert hidden == pytest.approx([1.0] * len(hidden), rel=0.2)
    assert len(hidden) == 4
    assert last == pytest.approx(0.01, rel=0.2)
