"""One neuron per sample, and Fixup."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer.errors import IsometerError
from isometer.init import dedicate_neurons_, fixup_, one_neuron_per_sample_
from support.models import F32, F64, draw, refused

# --- one neuron per sample --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "width"),
    [
        (functional.normalize(draw(12, 5)), 12),
        (functional.normalize(draw(12, 5)), 31),
        (draw(6, 40), 6),
        (torch.diag(torch.tensor([1.0, 10.0, 100.0], dtype=F64)) + 5, 7),
        (torch.tensor([[0.0, 0], [10, 0], [10, 10], [0, 10], [2, -0.1]], dtype=F64), 5),  # a linear program
        (torch.zeros(1, 3, dtype=F64), 4),
    ],
    ids=["sphere", "wide", "few", "lengths", "linear program", "one sample"],
)
def test_each_neuron_answers_to_one_sample(batch: torch.Tensor, width: int) -> None:
    layer = nn.Linear(batch.shape[1], width, dtype=F64)
    one_neuron_per_sample_(layer, batch)
    hidden = torch.relu(layer(batch)).detach()
    samples = len(batch)
    torch.testing.assert_close(hidden @ hidden.mT, torch.eye(samples, dtype=F64), atol=1e-8, rtol=0.0)
    assert torch.equal((hidden > 1e-9).sum(0), torch.ones(width, dtype=torch.long))


def test_linear_programs_are_counted() -> None:
    batch = torch.tensor([[0.0, 0], [10, 0], [10, 10], [0, 10], [2, -0.1]], dtype=F64)
    assert one_neuron_per_sample_(nn.Linear(2, 5), batch).layers[0].numbers["solved"] >= 1


@pytest.mark.parametrize(
    ("batch", "options", "message"),
    [
        (draw(9, 2), {}, "9 samples for 8 neurons"),
        (torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], dtype=F64), {}, "sample 0 equals sample 2"),
        (torch.tensor([[1.0, 1], [-1, 1], [0, -1], [0, 0.1]], dtype=F64), {}, "sample 3 lies within the convex hull"),
        (draw(3, 5), {}, r"expected finite numbers \(samples, 2\)"),
        (draw(3, 2) * math.nan, {}, "expected finite numbers"),
        (draw(3, 2), {"margin": 1.0}, "margin is 1.0"),
    ],
)
def test_one_neuron_per_sample_refuses(batch: torch.Tensor, options: dict, message: str) -> None:
    layer = nn.Linear(2, 8)
    refused(layer, lambda: one_neuron_per_sample_(layer, batch, **options), message)


def test_one_neuron_per_sample_needs_a_bias() -> None:
    with pytest.raises(IsometerError, match="Linear without a bias"):
        one_neuron_per_sample_(nn.Linear(2, 3, bias=False), draw(2, 2))


def deep(width: int = 16, features: int = 6, *, bias: bool = True) -> nn.Sequential:
    hidden = [part for i in range(3) for part in (nn.Linear(width if i else features, width, bias=bias), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(width, 3)).double()


def test_every_hidden_layer_gets_a_neuron_for_each_sample() -> None:
    model, batch = deep(), draw(10, 6)
    readout = model[-1].weight.clone()
    outcome = dedicate_neurons_(model, batch)
    assert [one.name for one in outcome.layers] == ["0", "2", "4"]
    assert dict(outcome.skipped)["6"] == "fewer outputs than samples"
    assert torch.equal(model[-1].weight, readout)
    signal = batch
    for layer in model[:-1]:
        signal = layer(signal)
        if isinstance(layer, nn.ReLU):
            torch.testing.assert_close(signal @ signal.mT, torch.eye(10, dtype=F64), atol=1e-7, rtol=0.0)


def test_dedicated_neurons_refuse_what_is_too_narrow() -> None:
    model = deep(8)
    refused(model, lambda: dedicate_neurons_(model, draw(9, 6)), "at least as many outputs")
    bare = deep(bias=False)
    bare[-1] = nn.Linear(16, 3, dtype=F64)
    refused(bare, lambda: dedicate_neurons_(bare, draw(9, 6)), "no linear layer has a bias")


def test_dedicated_neurons_are_a_treatment_on_request() -> None:
    from isometer.doctor import CONDITIONS, treat

    torch.manual_seed(0)
    model, batch = deep(32), draw(16, 6)
    treated = treat(model, batch=batch, choose=["one-neuron-per-sample"], stress=False)
    assert treated.steps[0].id == "one-neuron-per-sample"
    assert "dedicate_neurons_(model, batch, seed=0)" in treated.code
    assert not any("one-neuron-per-sample" in one.prescriptions for one in CONDITIONS.values())


# --- Fixup ------------------------------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, blocks: int, layers: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList()
        for _ in range(blocks):
            block = nn.Module()
            block.body = nn.Sequential(
                *[p for i in range(layers) for p in ([nn.ReLU()] if i else []) + [nn.Conv2d(8, 8, 3, padding=1)]]
            )
            block.shortcut = nn.Conv2d(8, 8, 1)
            self.blocks.append(block)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block.shortcut(x) + block.body(x)
        result: torch.Tensor = self.head(x.mean((2, 3)))
        return result


@pytest.mark.parametrize(("blocks", "layers", "factor"), [(9, 2, 9**-0.5), (16, 3, 16**-0.25), (4, 1, None)])
def test_fixup_scales_branches_and_starts_them_at_zero(blocks: int, layers: int, factor: float | None) -> None:
    model = Residual(blocks, layers)
    outcome = fixup_(model, "blocks.?" if blocks < 10 else "blocks.*")
    factors = {layer.name: layer.numbers["factor"] for layer in outcome.layers}
    assert factors["stem"] == factors["blocks.0.shortcut"] == 1.0
    assert factors["head"] == 0.0
    for i in range(blocks):
        inner = [factors[f"blocks.{i}.body.{2 * j}"] for j in range(layers)]
        assert inner == pytest.approx([factor] * (layers - 1) + [0.0])
    x = draw(2, 3, 6, 6, dtype=F32)
    assert float(model.blocks[0].body(model.stem(x)).detach().abs().max()) == 0.0
    assert float(model(x).detach().abs().max()) == 0.0
    he = [layer.gain for layer in outcome.layers if layer.numbers["factor"] == 1.0]
    assert np.mean(he) == pytest.approx(math.sqrt(2), rel=0.15)


def test_fixup_refuses() -> None:
    model = Residual(2, 2)
    refused(model, lambda: fixup_(model, "layers.*"), r"no module has a name like layers\.\*")
    refused(model, lambda: fixup_(model, "blocks.?", classifier="out"), "classifier is 'out'")
    refused(model, lambda: fixup_(model, ["blocks.*.shortcut"], shortcuts="*"), "holds no linear layer")


# --- what must not be written to --------------------------------------------------------------------------------------
