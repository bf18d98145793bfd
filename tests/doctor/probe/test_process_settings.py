"""Generators and settings of the process are as they were after a probe, also those that the model sets."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer.doctor import probe
from support.restoration import Forward, check_probe, check_probe_and_diagnosis, norms, prepare


def _switches_modes(m, x):
    m.eval()
    m.linear.requires_grad_(False)
    torch.set_default_dtype(torch.float64)
    return m.other(m.linear(x))


def _draws(m, x):
    random.random()
    np.random.rand()  # noqa: NPY002
    return functional.dropout(m.linear(x) + torch.randn(6), 0.5)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "switches modes": lambda: Forward(_switches_modes),
    "draws": lambda: Forward(_draws),
}


@pytest.mark.parametrize("name", MODELS)
def test_state_is_unchanged(name: str) -> None:
    check_probe(MODELS[name])


def _sets_globals(m, x):
    nn.modules.module.register_module_forward_hook(lambda *_: None)
    torch.use_deterministic_algorithms(True)
    torch.set_grad_enabled(False)
    np.seterr(all="ignore")
    return m.linear(x)


DIFFICULT: dict[str, Callable[[], nn.Module]] = {"sets globals": lambda: Forward(_sets_globals)}


@pytest.mark.parametrize("name", DIFFICULT)
def test_difficult_models_are_unchanged(name: str) -> None:
    check_probe_and_diagnosis(DIFFICULT[name], copied=True)


def test_inference_mode_outside() -> None:
    model, x = prepare(norms)
    with torch.inference_mode():
        found = probe(model, x)
    assert np.isfinite(found.values["gradient_log_norm"][1])
