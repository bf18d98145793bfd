"""Everything that the owner of a model could notice, as facts that can be compared.

A walk over all that is reachable from the model: modules, tables, hooks, closures, plain attributes, containers, other
objects, tensors with their gradients, hooks and memory. The walk reads memory by address and attributes by
`object.__getattribute__`, so that neither torch nor the model's own code runs; it keeps what it met alive, so that an
address means one object. Nothing here knows how a probe restores a model.
"""

from __future__ import annotations

import collections
import ctypes
import functools
import gc
import hashlib
import inspect
import io
import itertools
import os
import random
import signal
import sys
import types
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules import module as torch_module

_ATOMS = (int, float, complex, str, bytes, type(None), type(Ellipsis), torch.dtype, torch.device, torch.layout, slice)
_CALLABLES = (types.FunctionType, types.MethodType, functools.partial)
_OPAQUE = (types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.FrameType, types.TracebackType)
_GLOBAL_TABLES = tuple(name for name in vars(torch_module) if name.startswith("_global_") and name.endswith("_hooks"))
_PATCHABLE = (torch, torch.nn.functional, torch.Tensor, torch.nn.Module, torch.nn.Parameter, torch.autograd)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def _atom(value: Any) -> str:
    """A value as text: NaN equals itself, −0 differs from 0, True differs from 1."""
    return f"{type(value).__name__} {value!r}"


class Fingerprint:
    """What a model and what its owner holds besides are like at one moment.

    Args:
        roots: objects by name: the model, the batch, other models, views.
    """

    def __init__(self, **roots: Any) -> None:
        self.facts: dict[tuple[str, str], Any] = {}
        self._seen: dict[int, str] = {}
        self._storages: dict[int, str] = {}
        self._alive: list[Any] = []
        self._classes: dict[type, None] = {}
        self._globals()  # first: a walk that drew a number would show
        for name, root in roots.items():
            self._walk(name, root)
        for one in self._classes:
            self._class(one)

    def _note(self, path: str, aspect: str, value: Any) -> None:
        self.facts[path, aspect] = value

    def _first(self, path: str, value: Any) -> bool:
        """Whether the object was not met before; which object it is, either way."""
        self._note(path, "is another object", id(value))
        if id(value) in self._seen:
            self._note(path, "is shared differently", self._seen[id(value)])
            return False
        self._seen[id(value)] = path
        self._alive.append(value)
        return True

    def _walk(self, path: str, value: Any) -> None:
        kind = type(value)
        if isinstance(value, _ATOMS) or (isinstance(value, tuple) and not value):
            self._note(path, "has another value", _atom(value))
        elif isinstance(value, (type, *_OPAQUE)):
            self._note(path, "is another object", id(value))
            self._alive.append(value)
        elif self._first(path, value):
            self._note(path, "has another type", id(kind))
            self._inside(path, value)

    def _inside(self, path: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self._tensor(path, value)
        elif isinstance(value, torch.UntypedStorage):
            self._storage(path, value)
        elif isinstance(value, torch.jit.ScriptModule):
            self._script(path, value)
        elif isinstance(value, _CALLABLES):
            self._callable(path, value)
        elif isinstance(value, dict):
            self._dict(path, value)
        elif isinstance(value, (list, tuple, collections.deque)):
            self._note(path, "has another length", len(value))
            for index, item in enumerate(value):
                self._walk(f"{path}[{index}]", item)
        elif isinstance(value, (set, frozenset)):
            self._note(path, "has other elements", sorted(map(repr, value)))
        else:
            self._special(path, value)
        self._attributes(path, value)

    def _special(self, path: str, value: Any) -> None:
        """Objects whose state is not in attributes."""
        if isinstance(value, np.ndarray):
            self._note(
                path, "has other values", (value.shape, value.strides, value.ctypes.data, _digest(value.tobytes()))
            )
        elif isinstance(value, torch.Generator):
            self._note(path, "has another state", _digest(_memory(value.get_state())))
        elif isinstance(value, random.Random):
            self._note(path, "has another state", _digest(repr(value.getstate()).encode()))
        elif isinstance(value, np.random.Generator):
            self._note(path, "has another state", _digest(repr(value.bit_generator.state).encode()))
        elif isinstance(value, io.IOBase):
            self._note(path, "has another position", _position(value))
        elif isinstance(value, types.GeneratorType):
            state = (inspect.getgeneratorstate(value), value.gi_frame and value.gi_frame.f_lasti)
            self._note(path, "has another position", state)
            for name, item in (value.gi_frame.f_locals if value.gi_frame else {}).items():
                self._walk(f"{path}.{name}", item)
        elif isinstance(value, (itertools.count, bytearray, functools._lru_cache_wrapper)):
            self._note(path, "has another value", repr(getattr(value, "cache_info", value.__repr__)()))
        elif hasattr(type(value), "locked"):
            self._note(path, "is locked differently", value.locked())
        elif isinstance(value, types.CellType):
            self._walk(f"{path}.contents", value.cell_contents if _filled(value) else None)
        elif isinstance(value, weakref.ref):
            self._note(path, "refers to another object", id(value()))

    def _attributes(self, path: str, value: Any) -> None:
        if isinstance(value, nn.Module):
            self._classes[type(value)] = None
        held = _held(value)
        if isinstance(held, dict) and (held or isinstance(value, nn.Module)):
            self._note(path, "has other attributes", sorted(map(str, held)))  # their order says nothing
            for name, item in list(held.items()):
                self._walk(f"{path}.{name}", item)
        for name in _slots(type(value)):
            try:
                item = object.__getattribute__(value, name)
            except AttributeError:
                self._note(path, f"has another slot {name}", None)
                continue
            self._walk(f"{path}.{name}", item)

    def _dict(self, path: str, value: dict[Any, Any]) -> None:
        keys = [_atom(key) if isinstance(key, _ATOMS) else f"object {id(key)}" for key in value]
        self._alive.extend(value)
        self._note(path, "has other keys", keys)
        for (key, item), label in zip(list(value.items()), keys, strict=True):
            self._walk(f"{path}[{key!r}]" if isinstance(key, (int, str)) else f"{path}[{label}]", item)
            if isinstance(key, torch.Tensor):
                self._walk(f"{path}.key[{label}]", key)

    def _callable(self, path: str, value: Any) -> None:
        if isinstance(value, types.MethodType):
            self._walk(f"{path}.self", value.__self__)
            self._note(path, "calls another function", id(value.__func__))
        elif isinstance(value, functools.partial):
            for name in ("func", "args", "keywords"):
                self._walk(f"{path}.{name}", getattr(value, name))
        else:
            self._note(path, "has another code", id(value.__code__))
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
                self._walk(f"{path}.{name}", cell.cell_contents if _filled(cell) else None)
            self._walk(f"{path}.defaults", value.__defaults__ or ())

    def _script(self, path: str, value: torch.jit.ScriptModule) -> None:
        for name, tensor in [*value.named_parameters(), *value.named_buffers()]:
            self._walk(f"{path}.{name}", tensor)
        for name, module in value.named_modules():
            self._note(f"{path}.{name}", "has another mode", module.training)

    def _tensor(self, path: str, value: torch.Tensor) -> None:
        if nn.parameter.is_lazy(value):
            return
        with torch._C.DisableTorchFunctionSubclass():
            self._note(
                path, "has another shape", (tuple(value.shape), value.dtype, str(value.device), str(value.layout))
            )
            self._note(path, "requires gradients differently", (value.requires_grad, value.is_leaf))
            node = value.grad_fn
            self._note(path, "has another history", None if node is None else node.name())
            if node is not None and not value._is_view():  # that of a view is made anew after every write
                self._note(path, "has another node", id(node))
                self._alive.append(node)
            for inner, part in _memories(value):
                self._strided(path + inner, part)
            self._walk(f"{path}.grad", value._grad if value.is_leaf or value.retains_grad else None)
            for table in ("_backward_hooks", "_post_accumulate_grad_hooks"):
                hooks = getattr(value, table, None)
                self._hooks(f"{path}.{table}", hooks or {})

    def _hooks(self, path: str, hooks: Any) -> None:
        self._note(path, "has other hooks", [(key, id(hook)) for key, hook in hooks.items()])
        for key, hook in list(hooks.items()):
            self._walk(f"{path}[{key}]", hook)

    def _strided(self, path: str, value: torch.Tensor) -> None:
        self._note(path, "lies differently in memory", (tuple(value.shape), value.stride(), value.storage_offset()))
        self._storage(path, value.untyped_storage())

    def _storage(self, path: str, storage: torch.UntypedStorage) -> None:
        self._note(path, "has another storage", storage._cdata)
        if storage.device.type != "cpu":
            return
        if storage._cdata in self._storages:
            self._note(path, "shares memory differently", self._storages[storage._cdata])
            return
        self._storages[storage._cdata] = path
        self._alive.append(storage)
        self._note(path, "was moved in memory", (storage.data_ptr(), storage.nbytes()))
        self._note(path, "has other values", _digest(_bytes(storage)))

    def _class(self, one: type) -> None:
        if one.__module__.startswith("torch.") and one is not nn.Module:
            return
        members = {name: id(item) for name, item in vars(one).items() if name not in _LAZY}
        self._note(f"class {one.__name__}", "has other members", members)
        for name, item in vars(one).items():
            if not name.startswith("__") and not callable(item):
                self._walk(f"class {one.__name__}.{name}", item)

    def _globals(self) -> None:
        note = functools.partial(self._note, "the process")
        note("has another state of torch's generator", _digest(_memory(torch.default_generator.get_state())))
        numpy_state = repr(np.random.get_state())  # noqa: NPY002 — the models use it
        note("has another state of numpy's generator", numpy_state)
        note("has another state of Python's generator", _digest(repr(random.getstate()).encode()))
        note("has another default dtype", torch.get_default_dtype())
        note("has another default device", str(torch.get_default_device()))
        note("has another grad mode", (torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        note("has another autocast", (torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled()))
        note("has another anomaly mode", torch.is_anomaly_enabled())
        note("is deterministic differently", torch.are_deterministic_algorithms_enabled())
        note("has another number of threads", torch.get_num_threads())
        note("has another function mode", torch._C._len_torch_function_stack())
        note("has another dispatch mode", torch._C._len_torch_dispatch_stack())
        note("collects garbage differently", gc.isenabled())
        note("has another handler of SIGINT", id(signal.getsignal(signal.SIGINT)))
        note("is traced differently", (id(sys.gettrace()), id(sys.getprofile())))
        note("has another environment", _digest(repr(sorted(os.environ.items())).encode()))
        for table in _GLOBAL_TABLES:
            hooks = getattr(torch_module, table)
            note(f"has other hooks in {table}", [(key, id(hook)) for key, hook in hooks.items()] if hooks else [])
        for place in _PATCHABLE:
            members = {name: id(item) for name, item in vars(place).items() if callable(item)}
            note(f"has other functions in {place.__name__}", members)


_LAZY = {"__annotations__", "__doc__", "__abstractmethods__", "_abc_impl", "__weakref__", "__dict__", "__slotnames__"}


def _filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _position(file: Any) -> Any:
    if file.closed:
        return "closed"
    try:
        return file.tell()
    except OSError:
        return "a stream"


def _held(value: Any) -> Any:
    if isinstance(value, torch.jit.ScriptModule):
        return None
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def _slots(kind: type) -> Iterable[str]:
    for base in kind.__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__"):
                yield f"_{base.__name__.lstrip('_')}{name}" if name.startswith("__") else name


def _memories(value: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """The strided tensors a tensor consists of."""
    if value.layout is torch.sparse_coo:
        return [(".indices", value._indices()), (".values", value._values())]
    if value.layout is torch.sparse_csr:
        return [(".rows", value.crow_indices()), (".columns", value.col_indices()), (".values", value.values())]
    if value.is_nested:
        return [(".values", value._values if value.layout is torch.jagged else value.values())]
    return [] if value.layout is not torch.strided else [("", value)]


def _bytes(storage: torch.UntypedStorage) -> bytes:
    """The memory itself, read past torch: `numpy()` would make the storage unresizable."""
    return ctypes.string_at(storage.data_ptr(), storage.nbytes()) if storage.data_ptr() else b""


def _memory(tensor: torch.Tensor) -> bytes:
    return _bytes(tensor.untyped_storage())


def digest(tensor: torch.Tensor) -> str:
    """Of the values of a tensor, bit by bit."""
    return _digest(_memory(tensor.detach().contiguous().clone()))


def differences(before: Fingerprint, after: Fingerprint) -> list[str]:
    """What changed, one line each; names that a module of torch only loaded do not count."""
    found = []
    for key in dict.fromkeys([*before.facts, *after.facts]):
        old, new = before.facts.get(key, "absent"), after.facts.get(key, "absent")
        if key[0] == "the process" and isinstance(old, dict):
            new = {name: item for name, item in new.items() if name in old}
        if old != new:
            found.append(f"{key[0]} {key[1]}")
    return found
