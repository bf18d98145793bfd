"""State in plain attributes: tensors, containers, counters, caches, objects of any kind."""

from __future__ import annotations

import collections
import functools
import itertools
import queue
import random
import tempfile
import threading
import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from support.difficult.subject import WIDTH, Part, Subject, Tensor, step, trait

A = "attributes"


@step(A)
def tensor_written(p: Part, h: Tensor) -> None:
    p.tensor.add_(1)


@step(A)
def tensor_replaced(p: Part, h: Tensor) -> None:
    p.tensor = p.tensor + 1


@step(A)
def tensor_with_history(p: Part, h: Tensor) -> None:
    p.last = h * 2


@step(A)
def last_output_kept(p: Part, h: Tensor) -> Tensor:
    previous = p.table.get("last")
    p.table["last"] = h.detach()
    return h if previous is None or previous.shape != h.shape else h + 0.1 * previous


@step(A)
def list_grows(p: Part, h: Tensor) -> None:
    p.items.append(h.detach())


@step(A)
def cache_of_keys_and_values(p: Part, h: Tensor) -> Tensor:
    keys = p.table.get("keys")
    keys = h.detach() if keys is None else torch.cat([keys, h.detach()])
    p.table["keys"], p.table["values"] = keys, keys * 2
    return h + keys.mean(0)


@step(A)
def counts_calls(p: Part, h: Tensor) -> Tensor:
    p.calls += 1
    return h * (1 + 0.1 * p.calls)


@step(A)
def attribute_created(p: Part, h: Tensor) -> None:
    if not hasattr(p, "ready"):
        p.ready = True


@step(A)
def attribute_deleted(p: Part, h: Tensor) -> None:
    p.__dict__.pop("calls", None)


@step(A)
def attribute_set_in_dict(p: Part, h: Tensor) -> None:
    p.__dict__["calls"] = p.__dict__["calls"] + 1


def _deque(p: Part) -> None:
    p.history, p.counter, p.names = collections.deque(maxlen=3), collections.Counter(), {"a"}
    p.ordered = collections.OrderedDict(a=1, b=2)


@step(A, setup=_deque)
def containers_of_all_kinds(p: Part, h: Tensor) -> None:
    p.history.append(float(h.detach().mean()))
    p.counter["calls"] += 1
    p.names.add(f"b{len(p.names)}")
    p.ordered.move_to_end("a", last=len(p.history) % 2 == 1)


def _nested(p: Part) -> None:
    p.state = {"deep": [{"values": torch.zeros(2)}, (torch.zeros(1), [0])]}


@step(A, setup=_nested)
def nested_containers(p: Part, h: Tensor) -> None:
    p.state["deep"][0]["values"].add_(1)
    p.state["deep"][1][1][0] += 1
    p.state["deep"][1][0].sub_(1)


def _array(p: Part) -> None:
    p.array = np.zeros(3)


@step(A, setup=_array)
def array_written(p: Part, h: Tensor) -> None:
    p.array += 1


class _Plain:
    def __init__(self) -> None:
        self.count, self.tensor = 0, torch.zeros(2)


def _object(p: Part) -> None:
    p.object = _Plain()


@step(A, setup=_object)
def object_written(p: Part, h: Tensor) -> None:
    p.object.count += 1
    p.object.tensor.add_(1)


class _Slotted:
    __slots__ = ("count", "tensor")

    def __init__(self) -> None:
        self.count, self.tensor = 0, torch.zeros(2)


def _slotted(p: Part) -> None:
    p.object = _Slotted()


@step(A, setup=_slotted)
def slots_written(p: Part, h: Tensor) -> None:
    p.object.count += 1
    p.object.tensor = p.object.tensor + 1


@dataclass
class _Record:
    steps: int = 0
    values: list[float] = field(default_factory=list)


def _record(p: Part) -> None:
    p.record = _Record()


@step(A, setup=_record)
def dataclass_written(p: Part, h: Tensor) -> None:
    p.record.steps += 1
    p.record.values.append(1.0)


class _Counting(Part):
    total = 0
    seen: list[int] = []  # noqa: RUF012 — shared by all, as such a class has it


@trait(A)
def class_attribute_written(subject: Subject) -> None:
    kind = type("Counting", (_Counting,), {"total": 0, "seen": []})

    def act(p: Part, h: Tensor) -> None:
        type(p).total += 1
        type(p).seen.append(type(p).total)

    subject.model.parts.append(kind(act))


class _Property(Part):
    @property
    def reads(self) -> int:
        self.__dict__["calls"] += 1
        return self.__dict__["calls"]


@trait(A)
def property_with_a_side_effect(subject: Subject) -> None:
    subject.model.parts.append(_Property(lambda p, h: h * p.reads))


def _generators(p: Part) -> None:
    p.own = torch.Generator().manual_seed(3)
    p.python, p.array = random.Random(3), np.random.default_rng(3)


@step(A, setup=_generators)
def own_generators(p: Part, h: Tensor) -> Tensor:
    noise = torch.randn(WIDTH, generator=p.own) + p.python.random() + p.array.standard_normal()
    return h + 0.1 * noise.to(h.dtype)


def _count(p: Part) -> None:
    p.ids = itertools.count()


@step(A, setup=_count)
def iterator_advanced(p: Part, h: Tensor) -> Tensor:
    return h + 0.1 * next(p.ids)


def _endless() -> Any:
    value = 0
    while True:
        value += 1
        yield value


def _generator(p: Part) -> None:
    p.stream = _endless()


@step(A, setup=_generator)
def generator_advanced(p: Part, h: Tensor) -> Tensor:
    return h + 0.1 * next(p.stream)


@step(A, setup=_generator, changes=False)
def generator_held(p: Part, h: Tensor) -> None:
    return None


def _locks(p: Part) -> None:
    p.lock, p.event = threading.Lock(), threading.Event()


@step(A, setup=_locks)
def lock_held(p: Part, h: Tensor) -> None:
    with p.lock:
        p.calls += 1
    p.event.set()


def _file(p: Part) -> None:
    p.file = tempfile.TemporaryFile()  # noqa: SIM115 — the part holds it
    weakref.finalize(p, p.file.close)


@step(A, setup=_file, changes=False)
def file_held(p: Part, h: Tensor) -> None:
    return None


@step(A, setup=_file)
def file_written(p: Part, h: Tensor) -> None:
    p.file.write(b"step\n")


def _queue(p: Part) -> None:
    p.queue = queue.Queue()


@step(A, setup=_queue)
def queue_filled(p: Part, h: Tensor) -> None:
    p.queue.put(1)


def _thread(p: Part) -> None:
    p.thread = threading.Thread(target=int, daemon=True)


@step(A, setup=_thread, changes=False)
def thread_held(p: Part, h: Tensor) -> None:
    return None


@trait(A)
def optimiser_held(subject: Subject) -> None:
    def act(p: Part, h: Tensor) -> None:
        for parameter in p.parameters():
            if parameter.grad is None:
                parameter.grad = torch.ones_like(parameter)
        p.optimiser.step()

    mine = Part(act)
    mine.optimiser = torch.optim.Adam(mine.parameters())
    subject.model.parts.append(mine)


@trait(A, changes=False)
def optimiser_outside(subject: Subject) -> None:
    mine = Part(lambda p, h: None)
    optimiser = torch.optim.SGD(subject.model.parameters(), 0.1, momentum=0.9)
    for parameter in subject.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimiser.step()
    subject.model.parts.append(mine)
    subject.outside["optimiser"] = optimiser


class _Cached(Part):
    @functools.lru_cache(maxsize=4)  # noqa: B019 — what such a class does
    def scale(self, rows: int) -> float:
        self.calls += 1
        return 1 + 0.1 * self.calls

    @functools.cached_property
    def factor(self) -> float:
        return 0.5


@trait(A)
def cached_methods(subject: Subject) -> None:
    subject.model.parts.append(_Cached(lambda p, h: h * p.scale(len(h)) * p.factor))


def _weak(p: Part) -> None:
    p.known = weakref.WeakKeyDictionary()


@step(A, setup=_weak)
def weak_dictionary(p: Part, h: Tensor) -> None:
    p.known[p] = p.known.get(p, 0) + 1


@trait(A)
def refers_to_its_parent(subject: Subject) -> None:
    def act(p: Part, h: Tensor) -> None:
        p.parent[0].steps = getattr(p.parent[0], "steps", 0) + 1

    mine = Part(act)
    mine.parent = [subject.model]  # a list hides it from the table of modules
    subject.model.parts.append(mine)


@trait(A)
def module_in_a_list(subject: Subject) -> None:
    def act(p: Part, h: Tensor) -> Tensor:
        return h + p.hidden[0](h)

    mine = Part(act)
    mine.hidden = [torch.nn.BatchNorm1d(WIDTH)]  # not registered
    subject.model.parts.append(mine)


@trait(A)
def written_to_the_batch(subject: Subject) -> None:
    def act(p: Part, h: Tensor) -> None:
        p.batch.zero_()

    mine = Part(act)
    mine.batch = torch.randn(3)
    subject.outside["mine"] = mine.batch
    subject.model.parts.append(mine)


@step(A)
def warns_once(p: Part, h: Tensor) -> None:
    p.table.setdefault("warned", len(p.table))


@step(A)
def step_schedule(p: Part, h: Tensor) -> Tensor:
    p.register = getattr(p, "register", 1.0) * 0.99
    return h * p.register
