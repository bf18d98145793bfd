"""Classes that overwrite what a probe may rely on."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from support.difficult.subject import WIDTH, Host, OwnError, Part, Subject, Tensor, trait

O = "methods"  # noqa: E741


def _nothing(p: Part, h: Tensor) -> None:
    return None


def _writes(p: Part, h: Tensor) -> None:
    p.weight.data.mul_(0.9)
    p.calls += 1


def _as(subject: Subject, kind: type[Host], act: Any = _writes) -> None:
    """The host becomes of a class, with a part that changes things."""
    subject.model.parts.append(Part(act))
    subject.model.__class__ = kind


@trait(O)
def forward_is_a_partial(subject: Subject) -> None:
    mine = Part(_writes)
    subject.model.parts.append(mine)
    mine.forward = functools.partial(Part.forward, mine)


@trait(O)
def forward_is_a_closure(subject: Subject) -> None:
    host, calls = subject.model, [0]
    original = host.forward

    def forward(x: Tensor) -> Tensor:
        calls[0] += 1
        return original(x) * (1 + 0.1 * calls[0])

    host.forward = forward


@trait(O)
def forward_counts_by_nonlocal(subject: Subject) -> None:
    host = subject.model
    original, calls = host.forward, 0

    def forward(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return original(x) * (1 + 0.1 * calls)

    host.forward = forward


@trait(O)
def state_in_default_arguments(subject: Subject) -> None:
    def act(p: Part, h: Tensor, seen: list[int] = []) -> Tensor:  # noqa: B006 — what such code does
        seen.append(1)
        return h + 0.1 * len(seen)

    act.__defaults__ = ([],)
    subject.model.parts.append(Part(act))


@trait(O)
def train_raises(subject: Subject) -> None:
    class Fixed(Host):
        def train(self, mode: bool = True) -> Fixed:
            raise OwnError("this model has one mode")

    _as(subject, Fixed)


@trait(O)
def train_does_more(subject: Subject) -> None:
    class Counting(Host):
        def train(self, mode: bool = True) -> Counting:
            self.__dict__["switches"] = self.__dict__.get("switches", 0) + 1
            self.head.bias.data.add_(1)
            return super().train(mode)

    _as(subject, Counting)


@trait(O)
def setattr_refuses(subject: Subject) -> None:
    class Locked(Host):
        def __setattr__(self, name: str, value: Any) -> None:
            raise OwnError(f"{name} is locked")

    _as(subject, Locked)


@trait(O)
def setattr_counts(subject: Subject) -> None:
    class Counting(Host):
        def __setattr__(self, name: str, value: Any) -> None:
            self.__dict__["written"] = self.__dict__.get("written", 0) + 1
            super().__setattr__(name, value)

    _as(subject, Counting)


@trait(O)
def delattr_refuses(subject: Subject) -> None:
    class Locked(Host):
        def __delattr__(self, name: str) -> None:
            raise OwnError(f"{name} stays")

        def forward(self, x: Tensor) -> Tensor:
            self.__dict__["extra"] = self.__dict__.get("extra", 0) + 1
            return super().forward(x)

    _as(subject, Locked)


@trait(O)
def getattr_creates(subject: Subject) -> None:
    class Creating(Host):
        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name.startswith("_") or name == "shape":
                    raise
                self.__dict__[name] = None
                return None

    _as(subject, Creating)


@trait(O)
def getattribute_counts(subject: Subject) -> None:
    class Counting(Host):
        def __getattribute__(self, name: str) -> Any:
            if name == "body":
                held = object.__getattribute__(self, "__dict__")
                held["reads"] = held.get("reads", 0) + 1
            return super().__getattribute__(name)

    _as(subject, Counting)


@trait(O)
def deepcopy_raises(subject: Subject) -> None:
    class Single(Host):
        def __deepcopy__(self, memo: Any) -> Any:
            raise OwnError("there is one of me")

    _as(subject, Single)


@trait(O)
def deepcopy_gives_itself(subject: Subject) -> None:
    class Single(Host):
        def __deepcopy__(self, memo: Any) -> Any:
            return self

    _as(subject, Single)


@trait(O)
def deepcopy_shares_weights(subject: Subject) -> None:
    class Sharing(Host):
        def __deepcopy__(self, memo: Any) -> Any:
            other = object.__new__(type(self))
            other.__dict__.update(self.__dict__)
            return other

    _as(subject, Sharing)


@trait(O)
def pickling_raises(subject: Subject) -> None:
    class Unpicklable(Host):
        def __getstate__(self) -> Any:
            raise OwnError("no state")

        def __reduce_ex__(self, protocol: Any) -> Any:
            raise OwnError("no pickle")

    _as(subject, Unpicklable)


@trait(O)
def parameters_hidden(subject: Subject) -> None:
    class Hiding(Host):
        def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
            return iter(())

        def parameters(self, recurse: bool = True) -> Iterator[Any]:
            return iter(())

        def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
            return iter(())

        def buffers(self, recurse: bool = True) -> Iterator[Any]:
            return iter(())

    _as(subject, Hiding)


@trait(O)
def modules_hidden(subject: Subject) -> None:
    class Hiding(Host):
        def modules(self) -> Iterator[Any]:
            return iter([self])

        def named_modules(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
            return iter([("", self)])

        def children(self) -> Iterator[Any]:
            return iter(())

    _as(subject, Hiding)


@trait(O)
def state_dict_overwritten(subject: Subject) -> None:
    class Own(Host):
        def state_dict(self, *args: Any, **kwargs: Any) -> Any:
            self.__dict__["saved"] = self.__dict__.get("saved", 0) + 1
            return {}

        def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
            raise OwnError("cannot be loaded")

    _as(subject, Own)


@trait(O)
def call_overwritten(subject: Subject) -> None:
    class Calling(Host):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            self.__dict__["entered"] = self.__dict__.get("entered", 0) + 1
            return super().__call__(*args, **kwargs)

    _as(subject, Calling)


@trait(O)
def equal_to_everything(subject: Subject) -> None:
    class Equal(Part):
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

    subject.model.parts.extend([Equal(_writes), Equal(_writes)])


@trait(O)
def comparison_raises(subject: Subject) -> None:
    class Incomparable:
        def __init__(self) -> None:
            self.count = 0

        def __eq__(self, other: object) -> bool:
            raise OwnError("do not compare")

        __hash__ = None  # type: ignore[assignment]

        def __bool__(self) -> bool:
            raise OwnError("neither true nor false")

    def act(p: Part, h: Tensor) -> None:
        p.odd.count += 1
        p.several.append(Incomparable())

    mine = Part(act)
    mine.odd, mine.several = Incomparable(), [Incomparable()]
    subject.model.parts.append(mine)


@trait(O)
def length_zero(subject: Subject) -> None:
    class Nothing(Part):
        def __len__(self) -> int:
            return 0

        def __iter__(self) -> Iterator[Any]:
            raise OwnError("not iterable")

    subject.model.parts.append(Nothing(_writes))


@trait(O)
def copying_an_attribute_raises(subject: Subject) -> None:
    class Single:
        def __init__(self) -> None:
            self.count = 0

        def __copy__(self) -> Any:
            raise OwnError("no copy")

        def __deepcopy__(self, memo: Any) -> Any:
            raise OwnError("no deep copy")

        def __reduce_ex__(self, protocol: Any) -> Any:
            raise OwnError("no pickle")

    def act(p: Part, h: Tensor) -> Tensor:
        p.single.count += 1
        return h + 0.1 * p.single.count

    mine = Part(act)
    mine.single = Single()
    subject.model.parts.append(mine)


class _Tagged(torch.Tensor):
    """A subclass that a library would have."""


@trait(O)
def tensor_subclass(subject: Subject) -> None:
    def act(p: Part, h: Tensor) -> None:
        p.tensor.add_(1)
        p.tensor.note = getattr(p.tensor, "note", 0) + 1

    mine = Part(act)
    mine.tensor = torch.zeros(2).as_subclass(_Tagged)
    mine.bias = nn.Parameter(torch.zeros(WIDTH).as_subclass(_Tagged))
    subject.model.parts.append(mine)


@trait(O)
def attribute_on_a_parameter(subject: Subject) -> None:
    def act(p: Part, h: Tensor) -> None:
        p.weight.steps = getattr(p.weight, "steps", 0) + 1

    subject.model.parts.append(Part(act))


@trait(O)
def state_in_slots(subject: Subject) -> None:
    class Slotted(Part):
        __slots__ = ("_inner",)

    def act(p: Part, h: Tensor) -> Tensor:
        seen = object.__getattribute__(p, "_inner")
        object.__setattr__(p, "_inner", seen + 1)
        return h + 0.1 * seen

    mine = Slotted(act)
    object.__setattr__(mine, "_inner", 0)
    subject.model.parts.append(mine)


@trait(O)
def training_is_a_property(subject: Subject) -> None:
    class Always(Part):
        @property
        def training(self) -> bool:
            return True

        @training.setter
        def training(self, value: bool) -> None:
            self.__dict__["asked"] = self.__dict__.get("asked", 0) + 1

    subject.model.parts.append(Always(_writes))


@trait(O)
def dictionary_of_modules_replaced(subject: Subject) -> None:
    def act(p: Part, h: Tensor) -> None:
        p.__dict__["_buffers"] = dict(p._buffers, extra=torch.ones(1))
        p.__dict__["_parameters"] = dict(p._parameters)

    subject.model.parts.append(Part(act))
