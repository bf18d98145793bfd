"""Everything that a model's code can reach: modules, tensors, arrays, generators, and the containers that hold them.

Attributes, slots, containers, objects, hooks, weak references, bound methods and `functools.partial` are followed.
What they hold is the model's own. Functions are followed too: the cells of their closures, default arguments,
attributes, and the modules and tensors among the global names that they use, and so are attributes of the model's
classes. All that is state which the model shares with others, its copies among them.
"""

from __future__ import annotations

import array
import enum
import functools
import io
import random
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import nn

from isometer.doctor.probe._places import MISSING, Place, cells_of, slots_of
from isometer.doctor.probe._standins import CACHE, ITERATORS

ATOMIC: frozenset[type] = frozenset(
    {type(None), int, float, bool, complex, str, bytes, type, range, slice, type(Ellipsis), type(NotImplemented)}
    | {torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format, types.ModuleType, types.CodeType}
    | {np.dtype, property, staticmethod, classmethod}
)
# Of the standard library; what else there is there is busy with files, processes and threads.
_TRANSPARENT = ("collections", "types", "functools", "weakref", "dataclasses", "threading", "queue", "argparse")
_OPAQUE = ("torch.fx", "torch.jit", "torch._C", "torch._dynamo", "torch._inductor", "torch.distributed", "numpy")
MOST = 400_000
"""Objects that are looked at; a model that reaches more is connected with something larger than a model."""

_NOTHING: dict[Any, Any] = {}
_EMPTY: dict[type, Any] = {dict: _NOTHING, OrderedDict: _NOTHING, set: set()}
Generator = torch.Generator | np.random.Generator | np.random.RandomState | random.Random | io.BytesIO | io.StringIO


class Reach:
    """What can be reached from some objects, in a fixed order.

    Example:
        >>> linear = nn.Linear(2, 2)
        >>> found = Reach([nn.Sequential(linear, nn.ReLU())])
        >>> [type(module).__name__ for module in found.modules], len(found.tensors)
        (['Sequential', 'Linear', 'ReLU'], 2)

    Attributes:
        modules: every module.
        tensors: every tensor, gradients excepted.
        arrays: NumPy arrays, arrays of Python and bytearrays.
        generators: random generators, and files in memory.
        holders: containers and dictionaries of attributes, each with a shallow copy of what it held.
        places: slots and cells, each with what it held.
        objects: instances that can change their class.
        passing: iterators and caches, which can be used up.
        shared: tensors, and modules with tensors, which only functions and classes lead to.
        returns: a function or class leads back to what is the model's own.
        complete: nothing was left out.

    Args:
        roots: where to start.
        outside: the roots are functions, or like functions: what they hold is shared.
        classes: look at the attributes and methods of classes too.
    """

    def __init__(self, roots: Iterable[Any], *, outside: bool = False, classes: bool = True) -> None:
        self.modules: list[nn.Module] = []
        self.tensors: list[torch.Tensor] = []
        self.arrays: list[Any] = []
        self.generators: list[Generator] = []
        self.holders: list[tuple[Any, Any]] = []
        self.places: list[Place] = []
        self.objects: list[Any] = []
        self.passing: list[Any] = []
        self.shared: list[Any] = []
        self.classes: dict[type, None] = {}
        self.returns = False
        self._seen: dict[int, Any] = {}
        self._functions: list[Any] = []
        self._stack: list[Any] = []
        self._mine: set[int] = set()
        if outside:
            self._functions.extend(roots)
        else:
            self._stack.extend(reversed(list(roots)))
            self._drain()
        self._own = [len(group) for group in self._groups()]
        self._follow_functions(classes)

    @property
    def complete(self) -> bool:
        return len(self._seen) < MOST

    def _groups(self) -> tuple[list[Any], ...]:
        return self.modules, self.tensors, self.arrays, self.generators, self.holders, self.places

    def state_ids(self) -> set[int]:
        """Identities of everything that can change."""
        return _identities(self._groups())

    def own(self) -> list[list[Any]]:
        """Modules, tensors, arrays, generators, holders, places without what only functions and classes lead to."""
        return [group[:count] for group, count in zip(self._groups(), self._own, strict=True)]

    def own_ids(self) -> set[int]:
        """Identities of those."""
        return _identities(self.own())

    def beyond(self) -> list[list[Any]]:
        """What only functions and classes lead to, in the same groups."""
        return [group[count:] for group, count in zip(self._groups(), self._own, strict=True)]

    def meets(self, other: Reach) -> bool:
        """Whether something that can change is the own of one and reached by the other."""
        common = self._seen.keys() & other._seen.keys()
        return any(_can_change(self._seen[key]) for key in common & (self._mine | other._mine)) if common else False

    def weight_ids(self) -> set[int]:
        """Identities of all modules and tensors."""
        return {*map(id, self.modules), *map(id, self.tensors)}

    # --- the model's own ----------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        stack, seen = self._stack, self._seen
        while stack:
            value = stack.pop()
            kind = _kind(_type(value))
            if kind is None:
                continue
            if id(value) in seen or len(seen) >= MOST:
                self.returns = self.returns or (id(value) in self._mine and kind not in _WITHOUT_STATE)
                continue
            seen[id(value)] = value
            kind(self, value)

    def _module(self, module: nn.Module) -> None:
        self.modules.append(module)
        held = module.__dict__
        self.classes.setdefault(type(module))
        self.objects.append(module)
        if isinstance(module, torch.jit.ScriptModule):
            self._script(module)
            return
        content = dict(held)
        self.holders.append((held, content))
        found, seen, hold = [], self._seen, self.holders.append
        for value in content.values():
            kind = type(value)
            if kind in ATOMIC:
                continue
            empty = _EMPTY.get(kind)
            if empty is None or value or id(value) in seen:
                found.append(value)
            else:
                seen[id(value)] = value  # the empty tables of hooks, most of what a module has
                hold((value, empty))
        found.reverse()
        self._stack.extend(found)
        self._slots(module)

    def _slots(self, value: Any) -> None:
        for slot in slots_of(value):
            self.places.append(slot)
            if slot.value is not MISSING:
                self._stack.append(slot.value)

    def _script(self, module: nn.Module) -> None:
        # Compiled code keeps tables of its own and gives views of them.
        tables = [module._modules.values(), module._buffers.values(), module._parameters.values()]
        hooks = [table for name, table in module.__dict__.items() if "_hooks" in name and isinstance(table, dict)]
        self._stack.extend(reversed([*hooks, *(value for table in reversed(tables) for value in table)]))

    def _tensor(self, tensor: torch.Tensor) -> None:
        self.tensors.append(tensor)
        if tensor.__dict__:
            self._stack.append(tensor.__dict__)
        for hooks in (tensor._backward_hooks, tensor._post_accumulate_grad_hooks):
            if hooks:
                self._stack.extend(hooks.values())

    def _mapping(self, table: dict[Any, Any]) -> None:
        content = dict(table.items())
        self.holders.append((table, content))
        self._stack.extend(value for value in reversed(content.values()) if type(value) not in ATOMIC)
        self._stack.extend(key for key in content if type(key) not in ATOMIC)

    def _sequence(self, values: Any) -> None:
        content = list(values)
        self.holders.append((values, content))
        self._stack.extend(value for value in reversed(content) if type(value) not in ATOMIC)

    def _set(self, values: set[Any]) -> None:
        self.holders.append((values, set(values)))
        # The order of a set is not fixed; nothing that has an order may depend on it.
        self._stack.extend(value for value in values if type(value) not in ATOMIC)

    def _tuple(self, values: Any) -> None:
        self._stack.extend(value for value in reversed(values) if type(value) not in ATOMIC)
        if getattr(values, "__dict__", None):
            self._stack.append(values.__dict__)

    def _object(self, value: Any) -> None:
        kind = _type(value)
        if not of_library(kind.__module__):
            self.classes.setdefault(kind)
            self.objects.append(value)
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict):
            self._stack.append(held)
        self._slots(value)
        # Subclasses of containers hold things beside their attributes.
        if isinstance(value, dict):
            self._mapping(value)
        elif isinstance(value, (list, deque)):
            self._sequence(value)
        elif isinstance(value, set):
            self._set(value)
        elif isinstance(value, tuple):
            self._tuple(value)

    def _array(self, array: Any) -> None:
        self.arrays.append(array)
        if isinstance(array, np.ndarray) and array.dtype == object:
            self._stack.extend(array.reshape(-1).tolist())

    def _generator(self, generator: Generator) -> None:
        if not isinstance(generator, random.SystemRandom):  # has no state
            self.generators.append(generator)

    def _passing(self, value: Any) -> None:
        self.passing.append(value)
        if isinstance(value, CACHE):
            self._functions.append(value.__wrapped__)

    def _reference(self, reference: Any) -> None:
        self._stack.append(reference())

    def _method(self, method: Any) -> None:
        self._stack.append(method.__self__)
        self._functions.append(getattr(method, "__func__", None))

    def _partial(self, partial: Any) -> None:
        self._stack.extend([partial.func, partial.args, partial.keywords])
        if partial.__dict__:
            self._stack.append(partial.__dict__)

    def _function(self, function: Any) -> None:
        self._functions.append(function)

    # --- behind functions and classes ---------------------------------------------------------------------------------

    def _follow_functions(self, classes: bool) -> None:
        """What is behind functions and classes; they may lead to each other."""
        done: set[int] = set()
        bases: set[type] = set()
        self._mine = set(self._seen)
        while True:
            queue = [one for one in self._functions if one is not None]
            self._functions = []
            for base in [base for kind in self.classes for base in kind.__mro__] if classes else []:
                if base not in bases:
                    bases.add(base)
                    queue.extend(_of_class(base))
            if not queue:
                return
            while queue:
                value = queue.pop()
                if type(value) in ATOMIC or id(value) in done:
                    continue
                done.add(id(value))
                if isinstance(value, types.FunctionType):
                    queue.extend(self._of_function(value))
                else:
                    self._behind(value)

    def _behind(self, value: Any) -> None:
        tensors = len(self.tensors)
        self._stack.append(value)
        self._drain()
        if len(self.tensors) > tensors:
            self.shared.append(value)

    def _of_function(self, function: types.FunctionType) -> list[Any]:
        """What a function holds on to, and the global names that it uses."""
        held: list[Any] = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        if function.__dict__ or not of_library(function.__module__ or ""):
            held.append(function.__dict__)
        for cell in cells_of(function):
            if not isinstance(cell.value, type):  # the class that super() needs
                self.places.append(cell)
                if cell.value is not MISSING:
                    held.append(cell.value)
        names = function.__globals__
        if not of_library(function.__module__ or ""):
            found = (names.get(name) for name in _names(function.__code__))
            held.extend(value for value in found if isinstance(value, _GLOBALS))
        return held


# Of global names only these: anything else may lead to the whole program.
_GLOBALS = (nn.Module, torch.Tensor)


def _identities(groups: Iterable[list[Any]]) -> set[int]:
    """Of objects, of what holds others, and of the owners of places; a slot is its owner's."""
    *objects, holders, places = groups
    return {
        *(id(one) for group in objects for one in group),
        *(id(holder) for holder, _ in holders),
        *(id(place.owner) for place in places),
    }


def _can_change(value: Any) -> bool:
    look = _kind(_type(value))
    if look is Reach._object:
        return hasattr(value, "__dict__") or bool(slots_of(value)) or isinstance(value, (dict, list, set, deque))
    return look not in _WITHOUT_STATE


def _of_class(kind: type) -> list[Any]:
    """Attributes of a class that are more than a value."""
    if kind is object or of_library(kind.__module__):
        return []
    return [value for name, value in list(vars(kind).items()) if not name.startswith("__") or callable(value)]


def of_library(module: str) -> bool:
    """Whether the attributes of a module's classes are nobody's state."""
    first = module.partition(".")[0]
    return first in ("torch", "numpy") or first in sys.stdlib_module_names


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """Global names in a function's code and in that of functions inside it."""
    inner = [name for part in code.co_consts if isinstance(part, types.CodeType) for name in _names(part)]
    return (*code.co_names, *inner)


def _type(value: Any) -> Any:
    return type(value)


@functools.lru_cache(maxsize=1024)
def _kind(kind: Any) -> Any:
    """How to look into objects of a class, `None` if there is nothing to see."""
    if kind in ATOMIC or issubclass(kind, (type, enum.Enum, frozenset, types.ModuleType)):
        return None
    if kind in ITERATORS or kind is CACHE:
        return Reach._passing
    for classes, look in _KINDS:
        if issubclass(kind, classes):
            return look
    if kind in (dict, OrderedDict) or (issubclass(kind, dict) and kind.__module__ == "collections"):
        return Reach._mapping
    if kind in (list, deque):
        return Reach._sequence
    if kind is set:
        return Reach._set
    if kind is tuple:
        return Reach._tuple
    module = kind.__module__
    if module.partition(".")[0] in sys.stdlib_module_names and module not in _TRANSPARENT:
        return None
    thread = module == "threading" and issubclass(kind, threading.Thread)
    return None if thread or module.startswith(_OPAQUE) else Reach._object


_KINDS: tuple[tuple[Any, Any], ...] = (
    (torch.Tensor, Reach._tensor),
    (nn.Module, Reach._module),
    ((types.FunctionType,), Reach._function),
    ((types.MethodType, types.BuiltinMethodType), Reach._method),
    (functools.partial, Reach._partial),
    (weakref.ReferenceType, Reach._reference),
    ((np.ndarray, bytearray, array.array), Reach._array),
    (Generator, Reach._generator),
)
# What is behind them may change, they do not.
_WITHOUT_STATE = (Reach._function, Reach._method, Reach._partial, Reach._reference, Reach._tuple)
