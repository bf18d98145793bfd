"""Odd inputs and targets: what is odd is found, what is sound is left alone, and the repair makes it standard."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from isometer.doctor.causes._data import input_repairs, same_for_all, target_repairs

Tensor = torch.Tensor


def inputs(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _outlier(x: Tensor) -> Tensor:
    return torch.cat([1e3 * x[..., :1], x[..., 1:]], dim=-1)


def _lost(x: Tensor) -> Tensor:
    return torch.where(torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.02, math.nan, x)


ODD: dict[str, Callable[[Tensor], Tensor]] = {
    "offset": lambda x: x + 50,
    "large": lambda x: 255 * x,
    "tiny": lambda x: 1e-5 * x,
    "outlier": _outlier,
    "not finite": _lost,
}


@pytest.mark.parametrize("shape", [(64, 10), (64, 3, 8, 8), (64, 12, 6)])
@pytest.mark.parametrize("name", ODD)
def test_odd_inputs_become_standard(name: str, shape: tuple[int, ...]) -> None:
    batches = [ODD[name](inputs(*shape, seed=k)) for k in range(4)]
    (repair,) = input_repairs(batches)
    assert repair.deviation >= 1
    assert repair.evidence
    model = nn.Identity()
    repair.change(model)
    seen = model(batches[0])
    assert bool(seen.isfinite().all())
    assert abs(float(seen.mean())) < 0.2
    assert 0.5 < float(seen.std()) < 2
    features = seen.reshape(-1, shape[-1]).std(0)
    assert float(features.max() / features.min()) < 4


def test_an_edge_that_is_the_same_in_all_pictures_stands_out_by_its_mean() -> None:
    pictures = inputs(64, 1, 14, 14)
    pictures[..., 0] = -500.0
    (repair,) = input_repairs([pictures])
    assert "one input feature is" in repair.evidence
    model = nn.Identity()
    repair.change(model)
    seen = model(pictures)
    assert float(seen[..., 0].abs().max()) < 3
    assert float(seen[..., 1:].std()) > 0.5, "the rest is not pressed together"


@pytest.mark.parametrize("sound", [inputs(64, 10), torch.rand(64, 1, 28, 28), torch.randint(0, 9, (64, 12))])
def test_sound_inputs_are_left_alone(sound: Tensor) -> None:
    assert input_repairs([sound]) == []


def test_keyword_arguments_are_standardised_too() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return x * mask

    x, mask = inputs(64, 5) + 1000, torch.ones(64, 5, dtype=torch.bool)
    (repair,) = input_repairs([{"x": x, "mask": mask}])
    model = Model()
    repair.change(model)
    assert abs(float(model(x=x, mask=mask).mean())) < 0.2


def test_repeated_samples_are_told() -> None:
    one = inputs(1, 5).expand(16, 5)
    assert same_for_all([one]) == "all samples of a batch have the same input"
    assert "2 of 16" in same_for_all([inputs(2, 5).repeat(8, 1)])
    assert same_for_all([inputs(16, 5)]) == ""
    assert same_for_all([one, inputs(16, 5)]) == ""


def test_targets_in_other_units_are_met_by_the_output() -> None:
    targets = [300 + 2 * inputs(64, 1, seed=k) for k in range(3)]
    (repair,) = target_repairs(targets, torch.zeros(64, 1))
    model = nn.Linear(4, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    repair.change(model)
    assert abs(float(model(inputs(64, 4)).detach().mean()) - 300) < 1


@pytest.mark.parametrize("loss", [nn.functional.mse_loss, nn.functional.l1_loss])
@pytest.mark.parametrize("scale", [0.01, 300.0])
def test_units_of_targets_do_not_change_the_gradients(loss: Any, scale: float) -> None:
    """Those of standardised targets, whatever the loss: it has units as well, of the targets or of their squares."""
    x, standard = inputs(256, 4), inputs(256, 1, seed=1)
    standard = (standard - standard.mean()) / standard.std(correction=0)
    targets = 7 * scale + scale * standard

    def gradient(goal: Tensor, *, mended: bool) -> Tensor:
        torch.manual_seed(0)
        model = nn.Linear(4, 1)
        if mended:
            (repair,) = target_repairs([goal], model(x).detach(), loss)
            repair.change(model)
        loss(model(x), goal).backward()
        assert model.weight.grad is not None
        return model.weight.grad

    expected = gradient(standard, mended=False)
    assert torch.allclose(gradient(targets, mended=True), expected, rtol=1e-3, atol=1e-5)
    assert not torch.allclose(gradient(targets, mended=False), expected, rtol=0.5)


def test_a_loss_of_which_nothing_is_known_keeps_its_gradients() -> None:
    def peculiar(output: Tensor, target: Tensor) -> Tensor:
        raise ValueError("only for my own model")

    (repair,) = target_repairs([300 + inputs(64, 1)], torch.zeros(64, 1), peculiar)
    assert repair.change.loss == 1.0  # type: ignore[attr-defined]


@pytest.mark.parametrize("sound", [inputs(64, 1), torch.randint(0, 10, (64,))])
def test_sound_targets_are_left_alone(sound: Tensor) -> None:
    assert target_repairs([sound], torch.zeros(64, 1)) == []
