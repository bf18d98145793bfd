"""Networks of the papers: their sizes, the laws of their weights, and what is refused."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import nn

from isometer.activations import TorchForm, register_activation, unregister_activation
from isometer.errors import IsometerError
from isometer.nn import Activation
from isometer_papers.architectures import FixupBlock, deep_alexnet, mlp, resnet, vgg
from isometer_papers.architectures.parts import activation_layer, initialize_, norm_layer

# --- networks ------------------------------------------------------------


def parameters(model: nn.Module, *, norms: bool = True) -> int:
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d)
    return sum(p.numel() for m in model.modules() if norms or not isinstance(m, kinds) for p in m.parameters(False))


@pytest.mark.parametrize(("depth", "millions"), [(20, 0.27), (32, 0.46), (110, 1.73), (50, 23.5)])
def test_residual_networks_have_the_published_sizes(depth: int, millions: float) -> None:
    """0.27, 0.46 and 1.7 million for CIFAR; 23.5 of ResNet-50 without its classifier of 1000 classes."""
    found = parameters(resnet((3, 32, 32), 10, depth=depth)) / 1e6
    assert found == pytest.approx(millions, rel=0.02)


def test_vgg19_has_its_sixteen_convolutions() -> None:
    """The convolutions of VGG-19 have 20 018 880 weights and 5504 biases."""
    convolutions = [m for m in vgg((3, 32, 32), 10).modules() if isinstance(m, nn.Conv2d)]
    assert sum(m.weight.numel() for m in convolutions) == 20_018_880
    assert sum(m.bias.numel() for m in convolutions if m.bias is not None) == 5504


@pytest.mark.parametrize(("convolutions", "blocks"), [(20, 16), (80, 76)])
def test_alexnet_of_table_3(convolutions: int, blocks: int) -> None:
    net = deep_alexnet((3, 32, 32), 10, convolutions=convolutions, channels=(4, 6, 8), hidden=16)
    kinds = [type(m).__name__ for m in net]
    assert kinds.count("Conv2d") == convolutions
    assert sum(a == "Conv2d" and b == "ReLU" for a, b in itertools.pairwise(kinds)) == blocks + 1
    full = deep_alexnet((3, 32, 32), 10, convolutions=4)
    linear = [m for m in full if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == [(1024, 4096), (4096, 4096), (4096, 10)]


def test_fixup_starts_at_the_identity() -> None:
    net = resnet((3, 16, 16), 10, depth=20, norm="none", fixup=True)
    x = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(net(x), torch.zeros(4, 10))
    blocks = [m for m in net.modules() if isinstance(m, FixupBlock)]
    assert len(blocks) == 9
    scale = blocks[-1].first.weight.std().item() / math.sqrt(2 / (64 * 9))
    assert scale == pytest.approx(9**-0.5, rel=0.03)


def test_weights_have_the_laws_they_are_named_after() -> None:
    for name, mean, variance in (
        ("he", 0, 2 / 400),
        ("gaussian", 0, 1 / 400),
        ("default", 0, 1 / 1200),
        ("positive", 1 / 20, 1 / 1200),
        ("xavier", 0, 2 / (400 + 300)),
    ):
        layer = nn.Linear(400, 300)
        initialize_(layer, name, torch.Generator().manual_seed(1))
        sample = layer.weight.detach().double()
        assert abs(sample.mean() - mean) < 5 * math.sqrt(variance / sample.numel())
        assert sample.var().item() == pytest.approx(variance, rel=5 * math.sqrt(2 / sample.numel()))
    with pytest.raises(IsometerError, match="expected one of he"):
        initialize_(nn.Linear(2, 2), "kaiming", torch.Generator())


def test_same_seed_same_network_and_no_global_draws() -> None:
    state = torch.get_rng_state()
    a, b = (vgg((1, 28, 28), 10, plan=(4, 8), seed=3) for _ in range(2))
    c = vgg((1, 28, 28), 10, plan=(4, 8), seed=4)
    assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))
    assert not torch.equal(a[0].weight, c[0].weight)  # type: ignore[arg-type]
    assert torch.equal(torch.get_rng_state(), state)


def test_orthogonal_shaped_mlp() -> None:
    net = mlp(32, 10, depth=5, width=16, norm="batch", activation="tanh", init="orthogonal", gain_exponent=0.5)
    weights = [m.weight.detach().double() for m in net if isinstance(m, nn.Linear)]
    assert all(torch.dist(w @ w.T, torch.eye(16).double()) < 1e-5 for w in weights[1:-1])
    small = torch.full((1, 16), 1e-3)
    shaped = [m for m in net if type(m).__name__ == "Activation"]
    assert len(shaped) == 5
    assert torch.allclose(shaped[4](small), 5**-0.5 * small, rtol=1e-4)  # φ(αx) with α = 5^(−1/2)


@pytest.mark.parametrize("norm", ["none", "batch", "batch-rescale", "layer"])
def test_norms_for_vectors_and_images(norm: str) -> None:
    x = torch.randn(6, 4, 5, 5, generator=torch.Generator().manual_seed(0))
    assert norm_layer(norm, 4, images=True)(x).shape == x.shape
    assert norm_layer(norm, 4, images=False)(x[:, :, 0, 0]).shape == (6, 4)


def test_wrong_networks() -> None:
    calls: list[tuple[Any, str]] = [
        (lambda: resnet((3, 8, 8), 10, depth=21), "6m"),
        (lambda: resnet((3, 8, 8), 10, fixup=True), "fixup has basic blocks"),
        (lambda: resnet((3, 8, 8), 10, channels=(1, 2)), "expected 3"),
        (lambda: mlp(4, 2, depth=0, width=3), "at least 1"),
        (lambda: deep_alexnet((3, 8, 8), 10), "too small"),
        (lambda: deep_alexnet((3, 32, 32), 10, convolutions=3), "at least 4"),
        (lambda: norm_layer("group", 4, images=False), "expected one of none"),
    ]
    for call, message in calls:
        with pytest.raises(IsometerError, match=message):
            call()


# --- the loop ------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"), [("tanh", nn.Tanh), ("selu", nn.SELU), ("gelu", Activation), ("linear", Activation)]
)
def test_architectures_round_as_they_did(text: str, kind: type[nn.Module]) -> None:
    assert type(activation_layer(text)) is kind


def test_networks_are_built_with_the_module_of_a_registered_activation() -> None:
    register_activation("doubled", "2*x", torch=[TorchForm(f"{__name__}.Doubled")])
    try:
        assert isinstance(activation_layer("doubled"), Doubled)
        assert any(isinstance(m, Doubled) for m in mlp(3, 2, depth=2, width=8, activation="doubled").modules())
    finally:
        unregister_activation("doubled")


class Doubled(nn.Module):
    """A module that a user registers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x
