"""Gradients, optimizers and graphs that the caller holds are as they were after a probe."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from isometer.doctor import probe
from isometer.doctor.probe._subject import Subject
from support.restoration import Forward, check_probe, check_probe_and_diagnosis, prepare


def _calls_backward(m, x):
    with torch.enable_grad():
        m.linear(x.detach()).sum().backward()
    return m.other(m.linear(x))


def _checkpointed(m, x):
    return checkpoint(lambda t: torch.relu(m.linear(t)), m.other(x), use_reentrant=False)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "calls backward": lambda: Forward(_calls_backward),
    "checkpointed": lambda: Forward(_checkpointed),
}


@pytest.mark.parametrize("name", MODELS)
def test_state_is_unchanged(name: str) -> None:
    check_probe(MODELS[name])


def _steps(m, x):
    with torch.enable_grad():
        m.linear(x.detach()).sum().backward()
    m.optimizer.step()
    m.optimizer.zero_grad()
    return m.other(m.linear(x))


def _stepping() -> nn.Module:
    model = Forward(_steps)
    model.optimizer = torch.optim.Adam(model.parameters())
    return model


def _keeps(m, x):
    h = m.linear(x) + m.last
    m.last = h
    return m.other(h)


def _keeping() -> nn.Module:
    model = Forward(_keeps)
    model.last = model.linear(torch.ones(5, 6))
    return model


def _transformed(m, x):
    per_sample = torch.func.vmap(torch.func.grad(lambda t: m.linear(t).sin().sum()))(x)
    return m.other(per_sample + torch.func.vmap(lambda t: torch.tanh(m.linear(t)))(x))


DIFFICULT: dict[str, tuple[Callable[[], nn.Module], bool]] = {  # and whether a copy is examined
    "keeps what has a history": (_keeping, True),
    "own optimizer": (_stepping, False),
    "vmap and grad": (lambda: Forward(_transformed), True),
}


@pytest.mark.parametrize("name", DIFFICULT)
def test_difficult_models_are_unchanged(name: str) -> None:
    make, copied = DIFFICULT[name]
    check_probe_and_diagnosis(make, copied=copied)


def test_the_graph_of_the_caller_survives() -> None:
    model, x = prepare(_keeping)
    model.lock = threading.Lock()  # not to be copied
    assert Subject(model).reason
    probe(model, x)
    model.last.sum().backward()
    norm = nn.BatchNorm1d(6).eval()
    norm.lock = threading.Lock()
    output = norm(x.clone().requires_grad_())
    probe(norm, x, mode="train")
    output.sum().backward()  # running statistics that were put back count as untouched


def test_history_is_not_extended() -> None:
    model, x = prepare(_keeping)
    graph = model.last.grad_fn
    probe(model, x)
    assert model.last.grad_fn is graph


def test_a_model_may_ask_for_the_gradient_of_its_input() -> None:
    # As the speech models of transformers do in train mode.
    def forward(m, x):
        hidden = x[:, None]
        hidden.requires_grad = True
        return m.linear(hidden)

    found = probe(Forward(forward), torch.randn(5, 6))
    assert np.isfinite(found.values["gradient_log_norm"]).all()
