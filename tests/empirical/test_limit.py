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


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Linear(6, 2), "the model has no spec at infinite width"),
        (_net(8, norm=False, bias=False, seed=0)[:-1], "nothing but a linear readout may follow the chain"),
    ],
)
def test_models_that_are_no_chain_say_where(model: nn.Module, message: str) -> None:
    with pytest.raises(IsometerError, match=message):
        compare_with_limit(model.double(), torch.randn(3, 6).double())
