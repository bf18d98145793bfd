"""What carries out each prescription: what it changes in a model and what it keeps."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from isometer.doctor import PRESCRIPTIONS
from isometer.doctor.treatment import (
    Skip,
    add_norm_,
    add_skips_,
    batch_free_norm_,
    fixup_blocks_,
    full_batch_norm_,
    normalize_activations_,
    pre_norm_,
    scale_branches_,
    shape_activations_,
    zero_biases_,
)
from isometer.errors import IsometerError
from isometer.init import haar_orthogonal_
from support.models import batch, chain

# --- the table --------------------------------------------------------------------------------------------------------


def test_what_is_carried_out_says_why_at_what_price_and_where_not() -> None:
    for one in PRESCRIPTIONS.values():
        if one.calls:
            assert one.kind in ("weights", "architecture")
            assert all((one.theory, one.cost, one.side_effects, one.cannot))
    assert {one.id for one in PRESCRIPTIONS.values() if not one.calls} == {
        "larger-batch",
        "distinct-samples",
        "clip-gradients",
        "fewer-layers",
        "finite-weights",
    }


# --- what each change does, against its definition --------------------------------------------------------------------


def test_normalized_activations_have_mean_zero_and_mean_square_one() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    assert normalize_activations_(model, torch.randn(5, 8)) == ("1", "3")
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    smooth = model[1](torch.from_numpy(nodes)).numpy()
    assert abs(weights @ smooth) < 1e-9
    assert abs(weights @ smooth**2 - 1) < 1e-9
    # ReLU: E φ = 1/√2π, Var φ = ½ − 1/2π
    expected = (1.0 - 1 / math.sqrt(2 * math.pi)) / math.sqrt(0.5 - 1 / (2 * math.pi))
    assert float(model[3](torch.tensor(1.0, dtype=torch.float64))) == pytest.approx(expected, abs=1e-12)


def test_shaped_leaky_relu_keeps_samples_apart_at_depth_and_plain_relu_does_not() -> None:
    plain, shaped = chain(60, 256), chain(60, 256)
    names = shape_activations_(shaped, batch(8, 256))
    assert len(names) == 60
    for model, gain in ((plain, math.sqrt(2)), (shaped, 1.0)):
        haar_orthogonal_(model, gain=gain)
    pair = torch.eye(2, 256) * 16.0  # orthogonal samples of mean square 1
    with torch.no_grad():
        cosines = [float(functional.cosine_similarity(*m[:-1](pair), dim=0)) for m in (plain, shaped)]
    assert cosines[0] > 0.99
    assert cosines[1] == pytest.approx(0.9, abs=0.08), "κ_L(0) = 0.9 up to the fluctuation of width 256"


def test_shaping_behind_batch_norm_is_a_falling_gain() -> None:
    layers = [m for _ in range(4) for m in (nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(8, 2))
    shape_activations_(model, torch.randn(16, 8))
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    for layer in range(1, 5):
        expected = np.tanh(layer**-0.4 * nodes)
        expected /= math.sqrt(weights @ expected**2)
        assert np.allclose(model[3 * layer - 1](torch.from_numpy(nodes)).numpy(), expected, atol=1e-8)


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_added_norm_standardises_pre_activations_and_keeps_names(norm: str) -> None:
    model = chain(3, gain=5.0)
    names = [name for name, _ in model.named_parameters()]
    assert add_norm_(model, batch(), norm) == ("1", "3", "5")
    assert set(names) < {name for name, _ in model.named_parameters()}
    seen: list[Tensor] = []
    model[3][1].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    model(batch(200))
    axis = 0 if norm == "batch" else 1
    assert torch.allclose(seen[0].mean(axis), torch.zeros(()), atol=1e-5)
    assert torch.allclose(seen[0].std(axis, correction=0), torch.ones(()), atol=1e-3)


def test_added_norm_of_convolutions_and_functional_activations() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(1, 4, 3), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.relu(self.conv(x)).mean((2, 3)))

    model = Net()
    assert add_norm_(model, torch.randn(4, 1, 8, 8), "batch") == ("conv",)
    assert isinstance(model.conv[1], nn.BatchNorm2d)
    model(torch.randn(4, 1, 8, 8))
    tokens = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(IsometerError, match="tokens"):
        add_norm_(tokens, torch.randn(2, 3, 4), "batch")
    add_norm_(tokens, torch.randn(2, 3, 4), "layer")
    with pytest.raises(IsometerError, match="batch or layer"):
        add_norm_(tokens, torch.randn(2, 3, 4), "group")  # type: ignore[arg-type]


def test_scaled_branches_sum_to_less_than_root_e() -> None:
    torch.manual_seed(0)
    depth, width = 40, 200
    blocks = [Skip(nn.Linear(width, width, bias=False), 1.0) for _ in range(depth)]
    for block in blocks:
        nn.init.normal_(block.branch.weight, std=1 / math.sqrt(width))
    model = nn.Sequential(*blocks)
    x = batch(16, width)
    raw = model(x).square().mean().item() / x.square().mean().item()
    names = scale_branches_(model, x)
    scaled = model(x).square().mean().item() / x.square().mean().item()
    assert len(names) == depth
    assert raw > 1e9, "2^40 in expectation"
    assert scaled == pytest.approx((1 + 1 / depth) ** depth, rel=0.25)


def test_skips_are_the_identity_plus_the_scaled_branch() -> None:
    model = chain(5)
    before = copy.deepcopy(model)
    assert add_skips_(model, batch()) == ("1", "3", "5", "7")
    x = before[0](batch())
    for part in range(4):
        x = x + before[2 * part + 2](before[2 * part + 1](x)) / 2
    assert torch.allclose(model(batch()), before[10](before[9](x)), atol=1e-5)
    with pytest.raises(IsometerError, match="fewer than two parts"):
        add_skips_(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(3, 4))


def test_full_batch_norm_replaces_what_only_recentres() -> None:
    class Recentre(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x - x.mean(0)

    model = nn.Sequential(nn.Linear(6, 6), Recentre(), nn.ReLU(), nn.Linear(6, 6), nn.Identity(), nn.ReLU())
    assert full_batch_norm_(model, torch.randn(9, 6)) == ("1",)
    assert isinstance(model[1], nn.BatchNorm1d)
    with pytest.raises(IsometerError, match="no module subtracts the batch mean"):
        full_batch_norm_(model, torch.randn(9, 6))


def test_batch_free_norm_makes_samples_independent() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU())
    batch_free_norm_(model)
    x = torch.randn(5, 6)
    assert torch.allclose(model(x)[:2], model(x[:2]), atol=1e-6)
    with pytest.raises(IsometerError, match="no batch norm"):
        batch_free_norm_(model)


def test_pre_norm_moves_the_norm_into_the_branch() -> None:
    torch.manual_seed(0)
    layers = [m for _ in range(3) for m in (Skip(nn.Linear(6, 6), 1.0), nn.LayerNorm(6))]
    model = nn.Sequential(*layers)
    branches = [layer.branch for layer in layers[::2]]
    assert pre_norm_(model, torch.randn(4, 6)) == ("0", "2", "4")
    x = torch.randn(4, 6)
    y = x
    for branch in branches:
        y = y + branch(functional.layer_norm(y, (6,)))
    assert torch.allclose(model(x), functional.layer_norm(y, (6,)), atol=1e-5)
    assert len({id(p) for p in model.parameters()}) == len(list(model.parameters())) == 14
    with pytest.raises(IsometerError, match="no normalisation directly after"):
        pre_norm_(nn.Sequential(nn.Linear(6, 6)), torch.randn(4, 6))


def test_fixup_starts_as_the_skip_connections_and_refuses_norms() -> None:
    torch.manual_seed(0)
    blocks = [Skip(nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6)), 1.0) for _ in range(3)]
    model = nn.Sequential(*blocks, nn.Linear(6, 2))
    fixup_blocks_(model, torch.randn(4, 6))
    x = torch.randn(4, 6)
    assert torch.equal(model[:3](x), x)
    with pytest.raises(IsometerError, match="normalises"):
        fixup_blocks_(nn.Sequential(*blocks, nn.LayerNorm(6)), torch.randn(4, 6))


class TwoSums(nn.Module):
    """Adds what it is given to what its layers make of it, in its own forward."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.a(x).relu()
        return x + self.b(x).relu()


def test_fixup_refuses_sums_that_belong_to_no_module() -> None:
    with pytest.raises(IsometerError, match="fewer than two modules add"):
        fixup_blocks_(TwoSums(), torch.randn(4, 6))


# --- bad input: a clear answer and an untouched model -----------------------------------------------------------------


class NewGELU(nn.Module):
    """As transformers writes it out."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Rotary(nn.Module):
    """Bends what it is given, and is no activation: it returns two tensors of another shape."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cos(x[..., :2]), torch.sin(x[..., :2])


class Unknown(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x) + 0.3 * torch.sin(5 * x)


@pytest.mark.parametrize("surgery", [normalize_activations_, shape_activations_])
def test_activations_are_known_by_what_they_compute(surgery: Callable[..., tuple[str, ...]]) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = [m for _ in range(6) for m in (nn.Linear(4, 4), NewGELU())]
            self.rotary, self.body, self.head = Rotary(), nn.Sequential(*layers), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            cos, sin = self.rotary(x)
            return self.head(self.body(x)) * cos + sin

    model = Net()
    assert surgery(model, torch.randn(5, 4)) == tuple(f"body.{place}" for place in range(1, 12, 2))
    assert "gelu_tanh" in str(model.body[1])
    with pytest.raises(IsometerError, match="not in the registry"):
        surgery(nn.Sequential(nn.Linear(4, 4), Unknown(), nn.Linear(4, 4)), torch.randn(5, 4))


def test_functional_and_reused_activations_are_refused_with_their_name() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.relu(self.first(x)))

    line = Net.forward.__code__.co_firstlineno + 1
    with pytest.raises(IsometerError, match=rf"test_changes.py:{line};"):
        normalize_activations_(Net(), torch.randn(3, 4))
    act = nn.ReLU()
    shared = nn.Sequential(nn.Linear(4, 4), act, nn.Linear(4, 4), act, nn.Linear(4, 2))
    for surgery in (normalize_activations_, shape_activations_, add_norm_):
        with pytest.raises(IsometerError, match=r"more than once|several places"):
            surgery(shared, torch.randn(3, 4))
    assert shared[1] is act
    with pytest.raises(IsometerError, match="zero already"):
        zero_biases_(nn.Sequential(nn.Linear(4, 4, bias=False)))
