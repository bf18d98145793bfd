"""Steps written out, against autograd: gradients, curves, resumption, and what they refuse."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from isometer.nn import AdaptiveClipping
from isometer.run import Checkpoint
from isometer_papers.architectures import mlp, resnet
from isometer_papers.training import Recipe, Sets, fit, image_sets
from isometer_papers.training._stack import Stack
from isometer_papers.training._written import WrittenSteps, covers

NETWORKS: dict[str, dict[str, Any]] = {
    "relu": {},
    "relu, bias": {"bias": True, "init": "default"},
    "relu, batch norm, bias": {"bias": True, "norm": "batch"},
    "relu, layer norm": {"norm": "layer"},
    "normrelu": {"activation": "normrelu", "init": "gaussian"},
    "selu": {"activation": "selu", "init": "gaussian"},
    **{
        f"{name}, gain": {"activation": name, "norm": "batch", "init": "orthogonal", "gain_exponent": 0.4}
        for name in ("sin", "tanh", "identity")
    },
    "identity": {"activation": "identity", "norm": "batch", "init": "orthogonal"},
    "tanh": {"activation": "tanh"},
}
OPTIMIZERS = ("sgd", "momentum", "adam")


def network(name: str, width: int = 12) -> nn.Sequential:
    return mlp(6, 4, depth=3, width=width, seed=1, **NETWORKS[name])


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_and_outputs_are_autograds(name: str) -> None:
    """In double precision up to rounding; the running statistics of batch norm too."""
    model = network(name).double()
    other = copy.deepcopy(model)
    assert covers(model)
    made = torch.Generator().manual_seed(0)
    x, labels = torch.randn(20, 6, generator=made, dtype=torch.float64), torch.arange(20) % 4
    written = WrittenSteps(Stack([model]), 20, torch.optim.SGD(model.parameters(), lr=0.0))
    (outputs,), (loss,) = written(x.clone()[None], labels[None], keep=True)
    expected = other(x)
    error = nn.functional.cross_entropy(expected, labels)
    error.backward()
    assert torch.allclose(outputs, expected, rtol=1e-12, atol=1e-13)
    assert loss.item() == pytest.approx(error.item(), rel=1e-13)
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert one.grad is not None
        assert two.grad is not None
        assert torch.allclose(one.grad, two.grad, rtol=1e-10, atol=1e-13)
    for one, two in zip(model.buffers(), other.buffers(), strict=True):
        assert torch.allclose(one, two, rtol=1e-13)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_three_steps_are_those_of_the_optimiser(optimizer: str) -> None:
    """Updates on the way back, with the rate of biases apart, against torch's own; the second step keeps gradients."""
    model = network("relu, batch norm, bias").double()
    other = copy.deepcopy(model)
    recipe = Recipe(0.1, 1, batch=20, optimizer=optimizer, bias_factor=0.3)
    steppers = [recipe.stepper(one.parameters()) for one in (model, other)]
    for stepper in steppers:
        for group in stepper.param_groups:
            group["lr"] = 0.1 * group["factor"]
    written = WrittenSteps(Stack([model]), 20, steppers[0])
    made = torch.Generator().manual_seed(0)
    for i in range(3):
        x, labels = torch.randn(20, 6, generator=made, dtype=torch.float64), torch.arange(20) % 4
        written(x.clone()[None], labels[None], keep=i == 1)
        steppers[1].zero_grad()
        nn.functional.cross_entropy(other(x), labels).backward()
        steppers[1].step()
    hidden_bias = {"1.bias", "4.bias", "7.bias"}  # before batch norm their gradients are rounding, which Adam magnifies
    for (name, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
        if name not in hidden_bias:
            assert torch.allclose(one, two, rtol=1e-9, atol=1e-9), name


def test_clipping_is_kept() -> None:
    model = network("relu").double()
    stepper = torch.optim.SGD(model.parameters(), lr=1.0)
    clipping = AdaptiveClipping(stepper, 1e-6)
    before = [p.detach().clone() for p in model.parameters()]
    x, labels = torch.randn(1, 20, 6, dtype=torch.float64), (torch.arange(20) % 4)[None]
    WrittenSteps(Stack([model]), 20, stepper)(x, labels)
    assert clipping.clipped == 4
    weights = [(p, old) for p, old in zip(model.parameters(), before, strict=True) if p.dim() > 1]
    assert all((p - old).norm() <= 1.01e-6 * old.norm() for p, old in weights)


@pytest.fixture(scope="module")
def sets() -> Sets:
    return image_sets("digits", 150, 60)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
def test_each_way_repeats_and_resumes_to_the_same_numbers(sets: Sets, fast: bool, optimizer: str) -> None:
    """Bit by bit, per mode: twice in a row, and from a checkpoint in the middle."""
    recipe = Recipe(0.05, epochs=4, batch=50, optimizer=optimizer, fast=fast)
    net = lambda seed: mlp(64, 10, depth=3, width=16, norm="batch", seed=seed)  # noqa: E731
    norms = {"norms": lambda m: np.array([0.0 if p.grad is None else float(p.grad.norm()) for p in m.parameters()])}
    whole, again = (fit(net(0), sets, recipe, seed=3, measures=norms) for _ in range(2))
    assert whole.identical(again)
    assert (whole["norms"][0] == 0).all()
    assert (whole["norms"][1:, 0] > 0).all()
    saved: list[bytes] = []
    half = dataclasses.replace(recipe, epochs=2)
    fit(net(0), sets, half, seed=3, measures=norms, checkpoint=Checkpoint(write=saved.append), pause=0.0)
    rest = fit(net(9), sets, recipe, seed=3, measures=norms, checkpoint=Checkpoint(saved[-1]))
    assert rest.identical(whole)


def test_both_ways_agree_at_first(sets: Sets) -> None:
    """Three steps in float32: losses to 1e-4; dense and, with channels last, convolutional."""
    dense = mlp(64, 10, depth=3, width=16, norm="batch", activation="tanh")
    colour = Sets(*(part.expand(-1, 3, -1, -1) if part.dim() == 4 else part for part in dataclasses.astuple(sets)[:4]))
    for model, on in ((dense, sets), (resnet((3, 8, 8), 10, depth=8, channels=(4, 4, 4)), colour)):
        losses = [
            fit(copy.deepcopy(model), on, Recipe(0.05, epochs=1, batch=50, fast=fast), seed=0)["train_loss"][1].item()
            for fast in (True, False)
        ]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_convolutions_repeat_bit_by_bit_with_channels_last(sets: Sets) -> None:
    colour = Sets(*(part.expand(-1, 3, -1, -1) if part.dim() == 4 else part for part in dataclasses.astuple(sets)[:4]))
    recipe = Recipe(0.05, epochs=2, batch=50, optimizer="momentum")
    nets = [resnet((3, 8, 8), 10, depth=8, channels=(4, 4, 4)) for _ in range(2)]
    first, second = (fit(net, colour, recipe, seed=0) for net in nets)
    assert first.identical(second)
    kernels = [p for p in nets[0].parameters() if p.dim() == 4 and p.shape[-1] == 3]
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in kernels)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.ReLU(), nn.Linear(6, 4)),  # the second would overwrite the first
        nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.BatchNorm1d(6), nn.Linear(6, 4)),
        nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6, affine=False), nn.Linear(6, 4)),
        nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 4)),
        nn.Sequential(nn.Linear(6, 4), nn.ReLU()),
    ],
)
def test_other_networks_are_left_to_autograd(model: nn.Module) -> None:
    assert not covers(model)


def test_frozen_and_hooked_networks_are_left_to_autograd() -> None:
    frozen, hooked = network("relu"), network("relu")
    frozen[1].weight.requires_grad_(False)  # type: ignore[union-attr]
    hooked[1].register_forward_hook(lambda *_: None)
    assert not covers(frozen)
    assert not covers(hooked)
