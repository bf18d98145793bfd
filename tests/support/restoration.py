"""What a probe has to leave as it was, models that several tests of that share, and how to see that nothing changed."""

from __future__ import annotations

import gc
import random
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from isometer.doctor import diagnose, probe
from isometer.doctor.probe._subject import Subject
from isometer.doctor.stress._plans import Plan
from support.stressing import plan_of

Make = Callable[[], nn.Module]
_PLAIN = (int, float, str, list, dict, set, deque, bytearray, SimpleNamespace, np.ndarray, random.Random, nn.Module)


def _bits(tensor: torch.Tensor | None) -> bytes | None:
    return None if tensor is None else tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def state(model: nn.Module) -> dict[str, object]:
    """Parameters, gradients, buffers, modes, hooks, tables and plain attributes of a model, and all generators."""
    found: dict[str, object] = {}
    for name, parameter in model.named_parameters():
        found[f"p {name}"] = (
            id(parameter),
            _bits(parameter),
            parameter.requires_grad,
            parameter._backward_hooks is None,
        )
        found[f"g {name}"] = (id(parameter.grad), _bits(parameter.grad))
    for name, buffer in model.named_buffers():
        found[f"b {name}"] = (id(buffer), _bits(buffer))
    for name, module in model.named_modules():
        hooks = {key: list(value) for key, value in module.__dict__.items() if key.endswith("_hooks") and value}
        found[f"m {name}"] = (module.training, hooks)
        found[f"t {name}"] = tuple(
            list(table.keys()) for table in (module._parameters, module._buffers, module._modules)
        )
        # Plain attributes: the same objects, and containers among them with the same content.
        found[f"a {name}"] = {
            key: (id(value), repr(value)) for key, value in module.__dict__.items() if isinstance(value, _PLAIN)
        }
    found["rng"] = (
        _bits(torch.get_rng_state()),
        str(np.random.get_state()),  # noqa: NPY002
        random.getstate(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.is_inference_mode_enabled(),
    )
    return found


def settings() -> list[object]:
    """Settings of the process that a model can change."""
    return [
        torch.are_deterministic_algorithms_enabled(),
        len(nn.modules.module._global_forward_hooks),
        np.geterr(),
        gc.isenabled(),
        signal.getsignal(signal.SIGINT),
        torch._C._len_torch_function_stack(),
    ]


def prepare(make: Make) -> tuple[nn.Module, torch.Tensor]:
    """A model, half of whose parameters have gradients, and a batch for it."""
    torch.manual_seed(3)
    model = make()
    for i, parameter in enumerate(model.parameters()):
        if i % 2 == 0:
            parameter.grad = torch.randn_like(parameter)
    return model, torch.randn(5, 6)


def check_probe(make: Make) -> None:
    """A probe with gradients, and one without in train mode, leave the model and the batch as they were."""
    model, x = prepare(make)
    copy, before = x.clone(), state(model)
    probe(model, x)
    assert state(model) == before
    assert torch.equal(x, copy)
    assert not x.requires_grad
    with torch.no_grad():
        probe(model, x, mode="train")
        assert not torch.is_grad_enabled()
    assert state(model) == before


@contextmanager
def short_trainings() -> Iterator[None]:
    """Every run and search of a stress test, in a few steps each: they change a model as hundreds do."""
    with pytest.MonkeyPatch.context() as patch:
        plan_of(patch, Plan("short", rates=2, steps=4, fit=2, long=6, beyond=1))
        yield


def check_probe_and_diagnosis(make: Make, *, copied: bool, also: Callable[[], object] = lambda: None) -> None:
    """Two probes and a diagnosis leave everything as it was, and both probes measure the same.

    Args:
        make: makes the model.
        copied: whether a copy is examined, not the model itself.
        also: gives what else must stay as it was.
    """
    model, x = prepare(make)
    before, around, more = state(model), settings(), also()
    assert (Subject(model).reason == "") == copied
    first, second = probe(model, x), probe(model, x)
    assert state(model) == before
    with short_trainings():
        diagnose(model, x, redraws=3, predict=True)
    assert state(model) == before
    assert settings() == around
    assert also() == more
    # Every pass starts from the same state.
    for one, other in zip(first.values.values(), second.values.values(), strict=True):
        np.testing.assert_array_equal(one, other)


class Forward(nn.Module):
    """A model that is given by its forward function."""

    def __init__(self, function: Callable[..., object], **attributes: object) -> None:
        super().__init__()
        self.linear, self.other = nn.Linear(6, 6), nn.Linear(6, 6)
        self.register_buffer("counter", torch.zeros(2))
        self.function = function
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x):
        return self.function(self, x)


class Index(nn.Module):
    """Numbers as indices of ten rows."""

    def forward(self, x):
        return (x[:, 0].abs() * 3).long().clamp(0, 9)


class Counted(nn.Module):
    """A module to script: it replaces a buffer and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("total", torch.zeros(1))
        self.calls = 0

    def forward(self, x):
        self.total = self.total + 1
        self.calls += 1
        return self.linear(x) + self.total


def scripted() -> nn.Module:
    """A model that neither copies faithfully nor shows its attributes."""
    return torch.jit.script(Counted())


def norms() -> nn.Module:
    """Running statistics, an operation in place and randomness."""
    return nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Linear(6, 2))


def hook_over_the_model() -> nn.Module:
    """A hook that holds the model itself and changes it."""
    model = Forward(lambda m, x: m.other(m.linear(x)))

    def hook(module, inputs):
        model.calls = getattr(model, "calls", 0) + 1
        model.linear.weight.data.mul_(0.9)
        model.counter.add_(1)

    model.linear.register_forward_pre_hook(hook)
    return model


def locked() -> nn.Module:
    """A lock, which cannot be copied, and changes of weights, buffers and attributes."""

    def forward(m, x):
        with m.lock:
            m.linear.weight.data.mul_(0.3)
            m.counter = m.counter + 1
            m.calls = 1
        return m.linear(x)

    return Forward(forward, lock=threading.Lock())
