"""Kernels of single draws approach those of infinite width like 1/√width."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from isometer import IsometerError
from isometer.empirical import compare_with_limit


def _net(width: int, *, norm: bool, bias: bool, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    features = 6
    for _ in range(3):
        layer = nn.Linear(features, width, bias=bias)
        nn.init.normal_(layer.weight, 0.0, 1.3 * features**-0.5)
        if bias:
            nn.init.normal_(layer.bias, 0.0, 0.3)
        layers += [layer, *([nn.BatchNorm1d(width)] if norm else []), nn.ReLU() if norm or bias else nn.Tanh()]
        features = width
    readout = nn.Linear(features, 4, bias=False)
    nn.init.normal_(readout.weight, 0.0, 1.7 * features**-0.5)  # the readout's own size is divided out
    return nn.Sequential(*layers, readout).double()


@pytest.mark.parametrize(
    ("norm", "bias"), [(False, False), pytest.param(False, True, marks=pytest.mark.slow), (True, False)]
)
@pytest.mark.parametrize("kind", ["ntk", "nngp"])
def test_distances_shrink_like_the_root_of_the_width(kind: str, norm: bool, bias: bool) -> None:
    """16 times as wide is 4 times as near. The mean of three draws varies by a third: a factor of 2 is 3 of them."""
    means = []
    for width in (64, 1024):
        found = []
        for seed in range(3):
            model = _net(width, norm=norm, bias=bias, seed=seed)
            found.append(compare_with_limit(model, torch.randn(6, 6).double(), kind=kind).distance)
        means.append(np.mean(found))
    assert means[1] < 0.15
    assert 2.0 < means[0] / means[1] < 8.0


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.branch(x)


def _residual_net(width: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    body = [_Residual(width) for _ in range(2)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 3)]
    return nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), *body, *head).double()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ntk", "nngp"])
def test_residual_convolutions_with_batch_norm_approach_their_limit(kind: str) -> None:
    """As above, for the spec that is read off a small ResNet, with batch norm over samples and space. At width 16 such
    networks are further away than 1/√width says, so that only a lower limit is asked of the ratio.
    """
    images = torch.randn(3, 3, 4, 4, generator=torch.Generator().manual_seed(0)).double()
    narrow, wide = (compare_with_limit(_residual_net(width, 0), images, kind=kind) for width in (16, 256))
    assert "residual(conv(3" in wide.spec
    assert wide.distance < 0.1
    assert narrow.distance > 2.0 * wide.distance


class _Sorted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sort(dim=1).values


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Linear(6, 2), "the model has no spec at infinite width"),
        (_net(8, norm=False, bias=False, seed=0)[:-1], "the model ends with act; expected a linear readout"),
        (
            nn.Sequential(_Sorted(), _net(8, norm=False, bias=False, seed=0)),
            "describes only a part of the model",
        ),
    ],
)
def test_models_that_are_no_chain_say_where(model: nn.Module, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        compare_with_limit(model.double(), torch.randn(3, 6).double())
