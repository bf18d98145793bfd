"""Hooks, modules and attributes are as they were after a probe, on the model, on its class and in what they hold."""

from __future__ import annotations

import functools
import random
import types
import weakref
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer.doctor import probe
from support.restoration import (
    Forward,
    check_probe,
    check_probe_and_diagnosis,
    hook_over_the_model,
    locked,
    norms,
    prepare,
    state,
)


def _reassigns(m, x):
    m.counter = m.counter + 1
    m.register_buffer("late", torch.ones(1))
    m.linear = nn.Linear(6, 6)
    return m.linear(x)


def _registers_hooks(m, x):
    m.other.register_forward_hook(lambda *_: None)
    return m.other(m.linear(x))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "reassigns": lambda: Forward(_reassigns),
    "registers hooks": lambda: Forward(_registers_hooks),
}


@pytest.mark.parametrize("name", MODELS)
def test_state_is_unchanged(name: str) -> None:
    check_probe(MODELS[name])


def test_hooks_of_the_user_stay_and_run(capsys: pytest.CaptureFixture[str]) -> None:
    model, x = prepare(norms)
    seen: list[str] = []

    def say(word: str) -> None:
        seen.append(word)
        print(word)

    handle = model[0].register_forward_hook(lambda *_: say("forward"))
    model[0].weight.register_hook(lambda gradient: say("weight"))
    model[0].weight.register_post_accumulate_grad_hook(lambda parameter: say("accumulated"))
    before = state(model)
    probe(model, x)
    assert state(model) == before
    assert capsys.readouterr().out.split() == ["forward", "weight"]
    assert seen == []  # as it was
    handle.remove()


def _installs(m, x):
    if not getattr(m, "installed", False):  # as libraries do in the first call
        m.linear.register_forward_hook(lambda *_: None)
        m.installed = True
    return m.linear(x)


def _takes_apart(m, x):
    output = m.linear(x)
    del m.other
    m.linear = nn.Identity()
    m._buffers.clear()
    m.apply(lambda part: part.requires_grad_(False))
    return output


def _counts(m, x):
    m.record.calls += 1
    m.record.seen.append(len(m.queue))
    m.queue.append(1)
    m.numbers += 1
    m.tree["a"][0]["b"].append(2)
    m.raw[0] += 1
    return m.linear(x) + m.own.random() + torch.randn(6, generator=m.generator)


def _counting() -> nn.Module:
    return Forward(
        _counts,
        record=SimpleNamespace(calls=0, seen=[]),
        queue=deque([1]),
        numbers=np.zeros(3),
        tree={"a": [{"b": [1]}]},
        raw=bytearray(b"abc"),
        own=random.Random(3),
        generator=torch.Generator().manual_seed(1),
    )


def _hook_that_leaves() -> nn.Module:
    model = Forward(lambda m, x: m.other(m.linear(x)))
    handles = [model.linear.register_forward_hook(lambda *_: handles[0].remove())]
    handles.append(model.linear.weight.register_hook(lambda gradient: handles[1].remove()))
    model.handle = model.other.register_forward_pre_hook(lambda module, inputs: None)
    return model


def _patched() -> nn.Module:
    model = norms()
    before = model.forward

    def forward(x):
        model[0].weight.data.mul_(0.5)
        return before(x)

    model.forward = forward
    return model


def _bound() -> nn.Module:
    model = nn.Linear(6, 6)

    def forward(self, x):
        self.weight.data.mul_(2)
        return functional.linear(x, self.weight)

    model.forward = types.MethodType(forward, model)
    return model


def _through_a_partial() -> nn.Module:
    hidden = [nn.Linear(6, 6), nn.BatchNorm1d(6)]
    function = functools.partial(lambda layers, m, x: layers[1](layers[0](x)), hidden)
    return Forward(function, hidden=hidden)


def _weak() -> nn.Module:
    model = Forward(lambda m, x: m.reference().linear(x) * m.reference().counter.add_(1).sum())
    model.reference = weakref.ref(model)
    return model


def _lstm() -> nn.Module:
    def forward(m, x):
        output, m.hidden = m.cell(x[:, None], m.hidden)
        return output

    return Forward(forward, cell=nn.LSTM(6, 6, batch_first=True), hidden=None)


class OfClass(nn.Module):
    calls = 0
    cache: dict[int, int] = {}  # noqa: RUF012 — shared by all instances on purpose
    table = torch.zeros(3)

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        type(self).calls += 1
        self.cache[len(self.cache)] = 1
        self.table.add_(1)
        return self.linear(x) * (1 + self.table.sum())


class Numbered(nn.Module):
    """Counts the calls of all its instances."""

    calls = 0
    cache: dict[int, int] = {}  # noqa: RUF012 — shared by all instances on purpose

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        type(self).calls += 1
        type(self).new = 1
        self.cache[len(self.cache)] = 1
        return self.linear(x) * (1 + self.calls)


def _classes() -> list[object]:
    return [
        OfClass.calls,
        dict(OfClass.cache),
        OfClass.table.tolist(),
        Numbered.calls,
        dict(Numbered.cache),
        hasattr(Numbered, "new"),
    ]


DIFFICULT: dict[str, tuple[Callable[[], nn.Module], bool]] = {  # and whether a copy is examined
    "installs hooks": (lambda: Forward(_installs), True),
    "takes itself apart": (lambda: Forward(_takes_apart), True),
    "counts": (_counting, True),
    "bound method": (_bound, True),
    "lstm": (_lstm, True),
    "hooks that leave": (_hook_that_leaves, False),
    "hook over the model": (hook_over_the_model, False),
    "patched forward": (_patched, False),
    "modules behind a partial": (_through_a_partial, True),
    "weak reference": (_weak, False),
    "lock": (locked, False),
    "state of a class": (OfClass, False),
    "counter of a class": (Numbered, True),
}


@pytest.mark.parametrize("name", DIFFICULT)
def test_difficult_models_are_unchanged(name: str) -> None:
    make, copied = DIFFICULT[name]
    check_probe_and_diagnosis(make, copied=copied, also=_classes)
