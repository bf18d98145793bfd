"""State of a model in plain Python objects comes back, from every kind of place, on a copy and in place."""

from __future__ import annotations

import array
import functools
import io
import itertools
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from isometer.doctor import probe
from isometer.doctor.probe._subject import Subject
from isometer.errors import IsometerError

Tensor = torch.Tensor


class Slotted:
    __slots__ = ("__hidden", "count")

    def __init__(self) -> None:
        self.count = 0

    def step(self) -> None:
        self.count += 1
        self.__hidden = self.count  # empty before

    def look(self) -> object:
        return self.count, hasattr(self, "_Slotted__hidden")


def _slots() -> tuple[Any, Callable[[], object], Callable[[], object]]:
    one = Slotted()
    return one, one.step, one.look


def _event() -> tuple[Any, Callable[[], object], Callable[[], object]]:
    event = threading.Event()
    return event, event.set, event.is_set


def _queue() -> tuple[Any, Callable[[], object], Callable[[], object]]:
    waiting: queue.Queue[int] = queue.Queue()
    return waiting, lambda: waiting.put(1), lambda: (waiting.qsize(), waiting.unfinished_tasks)


def _array() -> tuple[Any, Callable[[], object], Callable[[], object]]:
    numbers = array.array("d", [1.0])
    return numbers, lambda: numbers.append(2.0), numbers.tolist


def _file() -> tuple[Any, Callable[[], object], Callable[[], object]]:
    file = io.BytesIO(b"before")
    return file, lambda: file.write(b"after"), lambda: (file.getvalue(), file.tell())


def _deque() -> tuple[Any, Callable[[], object], Callable[[], object]]:
    last: deque[int] = deque([1, 2], maxlen=2)
    return last, lambda: last.append(3), lambda: list(last)


def _counter() -> tuple[Any, Callable[[], object], Callable[[], object]]:
    counter = Counter("ab")
    return counter, lambda: counter.update("b"), lambda: list(counter.items())


def _partial() -> tuple[Any, Callable[[], object], Callable[[], object]]:
    items: list[int] = []
    held = functools.partial(items.append, 1)
    return held, held, lambda: list(items)


def _variable() -> tuple[Any, Callable[[], object], Callable[[], object]]:
    calls = 0

    def step() -> None:
        nonlocal calls
        calls += 1

    return step, step, lambda: calls


def _default() -> tuple[Any, Callable[[], object], Callable[[], object]]:
    items: list[int] = []

    def step(seen: list[int] = items) -> None:
        seen.append(1)

    return step, step, lambda: list(items)


def _of_function() -> tuple[Any, Callable[[], object], Callable[[], object]]:
    def step() -> None:
        step.__dict__["calls"] = 1

    return step, step, lambda: dict(step.__dict__)


KINDS = (_slots, _event, _queue, _array, _file, _deque, _counter, _partial, _variable, _default, _of_function)


class Stepping(nn.Module):
    """Does something with what it holds whenever it is called."""

    def __init__(self, held: Any, step: Callable[[], object], *, copied: bool) -> None:
        super().__init__()
        self.held, self.step, self.linear = held, step, nn.Linear(3, 3)
        if not copied:
            self.lock = threading.Lock()

    def forward(self, x: Tensor) -> Tensor:
        self.step()
        return self.linear(x)


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("make", KINDS)
def test_state_comes_back(
    make: Callable[[], tuple[Any, Callable[[], object], Callable[[], object]]], copied: bool
) -> None:
    held, step, look = make()
    model, before = Stepping(held, step, copied=copied), look()
    inside = Subject(model).run(lambda one: (one(torch.ones(2, 3)), look())[1], seed=0)
    assert inside != before or Subject(model).reason == ""
    assert look() == before
    model(torch.ones(2, 3))
    assert look() != before


class Passing(nn.Module):
    """Adds the next number of an iterator, or what a function gives."""

    def __init__(self, held: Any, *, copied: bool) -> None:
        super().__init__()
        self.held, self.linear = held, nn.Linear(3, 3)
        if not copied:
            self.lock = threading.Lock()

    def forward(self, x: Tensor) -> Tensor:
        number = self.held() if callable(self.held) else next(self.held)
        return self.linear(x) + number


def _cached() -> Any:
    calls: list[int] = []

    @functools.lru_cache
    def number() -> int:
        calls.append(1)
        return len(calls)

    return number


ITERATORS = {
    "count": lambda: itertools.count(1),
    "list": lambda: iter([1, 2, 3, 4]),
    "map": lambda: map(abs, [-1, -2, -3, -4]),
    "cycle": lambda: itertools.cycle([1, 2]),
    "cache": _cached,
}


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("name", ITERATORS)
def test_iterators_and_caches_are_not_used_up(name: str, copied: bool) -> None:
    model = Passing(held := ITERATORS[name](), copied=copied)
    subject = Subject(model)
    assert (subject.reason == "") == copied
    outputs = [subject.run(lambda one: one(torch.zeros(2, 3)).detach(), seed=0) for _ in range(2)]
    assert torch.equal(*outputs)
    assert model.held is held
    assert torch.equal(model(torch.zeros(2, 3)), outputs[0])
    if name == "cache":
        assert held.cache_info().misses == 1


@pytest.mark.parametrize("copied", [True, False])
def test_a_generator_is_not_advanced(copied: bool) -> None:
    model = Passing((number for number in range(1, 9)), copied=copied)
    with pytest.raises(IsometerError, match="advances a generator"):
        probe(model, torch.randn(4, 3))
    assert next(model.held) == 1


class Shared:
    """A class with state in it, which is no module."""

    ids = itertools.count()
    seen: list[int] = []  # noqa: RUF012


def test_state_of_the_class_of_an_attribute() -> None:
    model = Stepping(one := Shared(), lambda: None, copied=True)
    model.step = None
    model.forward = functools.partial(_number, one, model.linear)
    probe(model, torch.randn(4, 3))
    assert next(Shared.ids) == 0
    assert Shared.seen == []


def _number(one: Shared, linear: nn.Module, x: Tensor) -> Tensor:
    one.seen.append(next(one.ids))
    return linear(x)
