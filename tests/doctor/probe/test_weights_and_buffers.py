"""Weights and buffers are as they were after a probe, however the model writes them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from isometer.doctor import probe
from isometer.errors import ModelChangedError
from support.restoration import Forward, Index, check_probe, check_probe_and_diagnosis, norms, prepare, state


def _writes_parameter(m, x):
    with torch.no_grad():
        m.linear.weight.mul_(0.5)
        m.other.weight.data.clamp_(-0.1, 0.1)
    return m.other(m.linear(x))


def _in_place(m, x):
    x.add_(1)
    h = m.linear(x)
    h += 1
    h[:, 0] = 0
    m.counter.add_(1)
    return functional.relu_(h)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "batch norm and dropout": norms,
    "evaluating": lambda: norms().eval(),
    "cumulative average": lambda: nn.Sequential(nn.BatchNorm1d(6, momentum=None), nn.Linear(6, 6)),
    "frozen": lambda: norms().requires_grad_(False),
    "no parameters": lambda: nn.Sequential(nn.ReLU(), nn.Tanh()),
    "spectral norm": lambda: nn.Sequential(parametrizations.spectral_norm(nn.Linear(6, 6)), nn.ReLU()),
    "weight norm": lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(6, 6)), nn.ReLU()),
    "writes parameters": lambda: Forward(_writes_parameter),
    "in place": lambda: Forward(_in_place),
    "nan": lambda: Forward(lambda m, x: m.linear(x) * float("nan")),
}


@pytest.mark.parametrize("name", MODELS)
def test_state_is_unchanged(name: str) -> None:
    check_probe(MODELS[name])


def _self_normalising(m, x):
    with torch.no_grad():
        m.linear.weight.div_(m.linear.weight.norm())
        torch._foreach_mul_(list(m.other.parameters()), 0.5)
    return m.other(m.linear(x))


def _assigns_data(m, x):
    m.linear.weight.data = torch.randn(6, 6)
    m.other.weight.data = m.other.weight.data.double()
    return m.linear(x)


def _writes_through_numpy(m, x):
    m.linear.weight.detach().numpy()[:] = 1
    return m.linear(x)


def _resizes(m, x):
    m.counter.resize_(5000).fill_(3)
    return m.linear(x)


def _embedding() -> nn.Module:
    return nn.Sequential(Index(), nn.Embedding(10, 6, max_norm=0.5), nn.Linear(6, 6))


def _tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.Linear(6, 6))
    model[2].weight = model[0].weight
    flat = torch.randn(72)
    model[0].weight.data, model[3].weight.data = flat[:36].view(6, 6), flat[36:].view(6, 6)
    return model


def _viewed() -> nn.Module:
    def forward(m, x):
        m.view[:] = m.view * 0.5
        return m.linear(x)

    model = Forward(forward)
    model.view = model.linear.weight.detach().numpy()
    return model


DIFFICULT: dict[str, tuple[Callable[[], nn.Module], bool]] = {  # and whether a copy is examined
    "renormalised embedding": (_embedding, True),
    "normalises itself": (lambda: Forward(_self_normalising), True),
    "assigns data": (lambda: Forward(_assigns_data), True),
    "writes through numpy": (lambda: Forward(_writes_through_numpy), True),
    "resizes a buffer": (lambda: Forward(_resizes), True),
    "tied": (_tied, True),
    "numpy view": (_viewed, False),
    "old weight norm": (lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 6)), nn.ReLU()), True),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:Warning")
@pytest.mark.parametrize("name", DIFFICULT)
def test_difficult_models_are_unchanged(name: str) -> None:
    make, copied = DIFFICULT[name]
    check_probe_and_diagnosis(make, copied=copied)


def test_memory_that_nobody_can_see() -> None:
    # An address leads to the original; the copy still has the bytes.
    def forward(m, x):
        ctypes.memset(m.address, 0, 16)
        return m.linear(x)

    model, x = prepare(lambda: Forward(forward))
    model.address = model.linear.weight.data_ptr()
    before = state(model)
    probe(model, x)
    assert state(model) == before


def test_what_cannot_be_put_back_is_said() -> None:
    def forward(m, x):
        ctypes.memset(m.address, 0, 16)
        m.linear.weight.data.mul_(2)  # and the copy changes too
        return m.linear(x)

    model, x = prepare(lambda: Forward(forward))
    model.address = model.linear.weight.data_ptr()
    with pytest.raises(ModelChangedError, match=r"'linear\.weight'"):
        probe(model, x)
