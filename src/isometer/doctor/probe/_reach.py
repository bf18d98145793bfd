"""Everything that a model's code can reach: modules, tensors, arrays, generators, and the containers that hold them.

Attributes, containers, objects, hooks, weak references, bound methods and `functools.partial` are followed. What they
hold is the model's own. Functions are followed too: the cells of their closures, default arguments, attributes, and
the global names that they use, and so are attributes of the model's classes. Modules and tensors behind functions are
state that the model shares with others; lists and dictionaries there are the business of whoever wrote the function.
"""

from __future__ import annotations

import enum
import functools
import random
import sys
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import nn

ATOMIC: frozenset[type] = frozenset(
    {type(None), int, float, bool, complex, str, bytes, type, range, slice, type(Ellipsis), type(NotImplemented)}
    | {torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format, types.ModuleType, types.CodeType}
    | {np.dtype, property, staticmethod, classmethod}
)
_TRANSPARENT = ("collections", "types", "functools", "weakref", "dataclasses")  # of the standard library
_OPAQUE = ("torch.fx", "torch.jit", "torch._C", "torch._dynamo", "torch._inductor", "torch.distributed", "numpy")
MOST = 400_000
"""Objects that are looked at; a model that reaches more is connected with something larger than a model."""

_NOTHING: dict[Any, Any] = {}
_NONE: set[Any] = set()
Generator = torch.Generator | np.random.Generator | np.random.RandomState | random.Random


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
        arrays: NumPy arrays and bytearrays.
        generators: random generators.
        holders: containers and dictionaries of attributes, each with a shallow copy of what it held.
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
        self.shared: list[Any] = []
        self.classes: dict[type, None] = {}
        self.returns = False
        self._seen: dict[int, Any] = {}
        self._functions: list[Any] = []
        self._stack: list[Any] = []
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
        return self.modules, self.tensors, self.arrays, self.generators, self.holders

    def state_ids(self) -> set[int]:
        """Identities of everything that can change."""
        *objects, holders = self._groups()
        return {*(id(one) for group in objects for one in group), *(id(holder) for holder, _ in holders)}

    def own(self) -> list[list[Any]]:
        """Modules, tensors, arrays, generators and holders without those that only functions and classes lead to."""
        return [group[:count] for group, count in zip(self._groups(), self._own, strict=True)]

    def own_ids(self) -> set[int]:
        """Identities of those."""
        *objects, holders = self.own()
        return {*(id(one) for group in objects for one in group), *(id(holder) for holder, _ in holders)}

    # --- the model's own ----------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        stack, seen = self._stack, self._seen
        while stack:
            value = stack.pop()
            kind = _kind(_type(value))
            if kind is None or id(value) in seen or len(seen) >= MOST:
                continue
            seen[id(value)] = value
            kind(self, value)

    def _module(self, module: nn.Module) -> None:
        self.modules.append(module)
        held = module.__dict__
        self.classes.setdefault(type(module))
        if isinstance(module, torch.jit.ScriptModule):
            self._script(module)
            return
        content = dict(held)
        self.holders.append((held, content))
        push, found = self._stack.append, []
        for value in content.values():
            kind = type(value)
            if kind in ATOMIC:
                continue
            if (kind is OrderedDict or kind is dict) and not value and id(value) not in self._seen:
                self._seen[id(value)] = value  # the empty tables of hooks, most of what a module has
                self.holders.append((value, _NOTHING))
                continue
            if kind is set and not value and id(value) not in self._seen:
                self._seen[id(value)] = value
                self.holders.append((value, _NONE))
                continue
            found.append(value)
        for value in reversed(found):
            push(value)

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
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict):
            self._stack.append(held)
        for name in _slots(_type(value)):
            if hasattr(value, name):
                self._stack.append(getattr(value, name))
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
        self.generators.append(generator)

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
        """Modules and tensors behind functions; containers there are searched, and not recorded."""
        done: set[int] = set()
        bases: set[type] = set()
        own = set(self._seen)
        while True:
            queue = [one for one in self._functions if one is not None]
            self._functions = []
            for base in [base for kind in self.classes for base in kind.__mro__] if classes else []:
                if base not in bases:
                    bases.add(base)
                    queue.extend(_of_class(base))
            if not queue:
                return
            while queue and len(done) < MOST:
                value = queue.pop()
                if type(value) in ATOMIC or id(value) in done:
                    continue
                done.add(id(value))
                if isinstance(value, (nn.Module, torch.Tensor)):
                    if id(value) not in self._seen:
                        tensors = len(self.tensors)
                        self._stack.append(value)
                        self._drain()
                        if len(self.tensors) > tensors:
                            self.shared.append(value)
                    elif id(value) in own:
                        self.returns = True
                elif isinstance(value, types.FunctionType):
                    queue.extend(_of_function(value))
                elif isinstance(value, dict):
                    queue.extend([*dict.values(value)])
                elif isinstance(value, (list, tuple, set, frozenset, deque)):
                    queue.extend(value)
                elif isinstance(value, functools.partial):
                    queue.extend([value.func, value.args, value.keywords])
                elif isinstance(value, (types.MethodType, types.BuiltinMethodType)):
                    queue.extend([value.__self__, getattr(value, "__func__", None)])
                elif isinstance(value, weakref.ReferenceType):
                    queue.append(value())
                elif _kind(_type(value)) is Reach._object:
                    queue.append(getattr(value, "__dict__", None))
                    queue.extend(getattr(value, name, None) for name in _slots(_type(value)))


def _of_function(function: types.FunctionType) -> list[Any]:
    """What a function holds on to, and the global names that it uses."""
    held: list[Any] = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    held.extend(function.__dict__.values())
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    names = function.__globals__
    if not _of_library(function.__module__ or ""):
        found = (names.get(name) for name in _names(function.__code__))
        held.extend(value for value in found if isinstance(value, _GLOBALS))
    return held


# Of global names only these: anything else may lead to the whole program.
_GLOBALS = (nn.Module, torch.Tensor)


def _of_class(kind: type) -> list[Any]:
    """Tensors, modules, containers and methods among the attributes of a class."""
    if kind is object or _of_library(kind.__module__):
        return []
    wanted = (types.FunctionType, nn.Module, torch.Tensor, dict, list, set, tuple)
    return [value for value in list(vars(kind).values()) if isinstance(value, wanted)]


def _of_library(module: str) -> bool:
    return module.partition(".")[0] in ("torch", "builtins", "numpy")


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """Global names in a function's code and in that of functions inside it."""
    inner = [name for part in code.co_consts if isinstance(part, types.CodeType) for name in _names(part)]
    return (*code.co_names, *inner)


def _type(value: Any) -> Any:
    return type(value)


@functools.lru_cache(maxsize=1024)
def _slots(kind: Any) -> tuple[str, ...]:
    names: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ()) if base.__module__ not in sys.stdlib_module_names else ()
        names.extend([slots] if isinstance(slots, str) else slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__") and not name.startswith("__"))


@functools.lru_cache(maxsize=1024)
def _kind(kind: Any) -> Any:
    """How to look into objects of a class, `None` if there is nothing to see."""
    if kind in ATOMIC or issubclass(kind, (type, enum.Enum, frozenset, types.ModuleType)):
        return None
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
    return None if module.startswith(_OPAQUE) else Reach._object


_KINDS: tuple[tuple[Any, Any], ...] = (
    (torch.Tensor, Reach._tensor),
    (nn.Module, Reach._module),
    ((types.FunctionType,), Reach._function),
    ((types.MethodType, types.BuiltinMethodType), Reach._method),
    (functools.partial, Reach._partial),
    (weakref.ReferenceType, Reach._reference),
    ((np.ndarray, bytearray), Reach._array),
    ((torch.Generator, np.random.Generator, np.random.RandomState, random.Random), Reach._generator),
)
