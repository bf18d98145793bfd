"""What a model is like, down to the bytes, and the way back to it."""

from __future__ import annotations

import copy
import io
import random
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from isometer.doctor.probe._places import MISSING, Place
from isometer.doctor.probe._reach import Reach, of_library
from isometer.doctor.probe._standins import stand_in
from isometer.doctor.probe._storages import (
    Storage,
    checksum,
    copied_storage,
    same_bytes,
    storage_of,
    write_bytes,
)

Tensor = torch.Tensor


class TensorState(NamedTuple):
    """One tensor: where its numbers are, and what autograd knows of it."""

    tensor: Tensor
    storage: Storage | None
    place: tuple[Any, ...]  # offset, size, stride, dtype
    requires_grad: bool
    leaf: bool
    grad: Tensor | None
    hooks: Any
    late_hooks: Any
    version: int
    bare: bool  # has no attributes
    whole: Tensor | None  # a copy of what has no storage


class Snapshot:
    """The state of everything that some objects reach.

    Structure is kept always: attributes and containers (shallow, each by itself), slots, variables of closures, tables
    of parameters, buffers, submodules and hooks, modes, gradients, generators, attributes of classes. Bytes are kept by
    `keep_values`, once per storage, so that views stay views; until then there are checksums only.

    Args:
        reach: what is to be kept.

    Example:
        >>> norm = nn.BatchNorm1d(2)
        >>> before = Snapshot.of(norm)
        >>> _ = norm.eval()(torch.ones(3, 2)); norm.running_mean.resize_(5).fill_(7.0); norm.weight.data = torch.ones(1)
        tensor([7., 7., 7., 7., 7.])
        >>> before.restore()
        []
        >>> norm.training, norm.running_mean, norm.weight.shape
        (True, tensor([0., 0.]), torch.Size([2]))
    """

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self.tensors: list[TensorState] = []
        self.storages: dict[int, Storage] = {}
        gradients: dict[int, Tensor] = {}
        for tensor in reach.tensors:
            self._add(tensor)
            if (grad := self.tensors[-1].grad) is not None:
                gradients[id(grad)] = grad
        self.gradients = list(gradients.values())
        for grad in self.gradients:
            self._add(grad)
        self._classes = _class_state(reach.classes)
        self._kinds = [(one, type(one)) for one in reach.objects]
        self._scripted = [one for module in reach.modules for one in _script_state(module)]
        self._generators = [(one, _generator_state(one)) for one in reach.generators]
        self._arrays = [(one, copy.copy(one)) for one in reach.arrays]
        self.values: dict[int, Storage] = {}
        self.checksums: dict[int, Any] = {}

    @classmethod
    def of(cls, model: nn.Module) -> Snapshot:
        """A snapshot of a model with its bytes."""
        state = cls(Reach([model]))
        state.keep_values()
        return state

    def _add(self, tensor: Tensor) -> None:
        storage = storage_of(tensor)
        whole = None
        if storage is None:
            place: tuple[Any, ...] = (tensor.layout, tensor.dtype)
            whole = _whole(tensor)
        else:
            self.storages.setdefault(storage._cdata, storage)
            place = (tensor.storage_offset(), tensor.size(), tensor.stride(), tensor.dtype)
        hooks: Any = tensor._backward_hooks
        late: Any = tensor._post_accumulate_grad_hooks
        leaf = tensor.is_leaf
        self.tensors.append(
            TensorState(
                tensor,
                storage,
                place,
                tensor.requires_grad,
                leaf,
                tensor.grad if leaf else None,
                None if hooks is None else (hooks, dict(hooks)),
                None if late is None else (late, dict(late)),
                -1 if tensor.is_inference() else tensor._version,
                not tensor.__dict__,
                whole,
            )
        )

    # --- bytes --------------------------------------------------------------------------------------------------------

    def keep_values(self, known: Mapping[int, Storage] | None = None) -> None:
        """Copy the bytes of every storage; of those that `known` has a reference for, keep the reference."""
        for key, storage in self.storages.items():
            value = None if known is None else known.get(key)
            self.values[key] = copied_storage(storage) if value is None else value

    def keep_checksums(self) -> None:
        """Remember a checksum of every storage."""
        # Other processes may write to shared memory at any time.
        self.checksums = {key: checksum(s) for key, s in self.storages.items() if not _is_shared(s)}

    # --- the way back -------------------------------------------------------------------------------------------------

    def hide_gradients(self) -> None:
        """Put the gradients aside, so that nothing can be added to them; `restore` puts the same objects back."""
        for state in self.tensors:
            if state.grad is not None:
                state.tensor.grad = None

    def restore(self) -> list[str]:
        """Put everything back that can be; what could not, in words. One thing never keeps another from its turn."""
        problems: list[str] = []
        with torch.inference_mode(False), torch.no_grad():
            each(problems, _restore_kind, self._kinds, "the class of an object")
            each(problems, _restore_holder, self.reach.holders, "an attribute or container")
            each(problems, _restore_place, self.reach.places, "a slot or a variable of a function")
            each(problems, _restore_class, self._classes, "a class attribute")
            each(problems, _restore_script, self._scripted, "an attribute of a scripted module")
            each(problems, self._restore_storage, self.storages.items(), "memory")
            each(problems, self._restore_tensor, self.tensors, "a tensor")
            each(problems, _restore_generator, self._generators, "a generator")
            each(problems, _restore_array, self._arrays, "an array")
        return problems

    def restore_common(self) -> list[str]:
        """Put back what a model and its copy share: what functions hold, and attributes of classes."""
        problems: list[str] = []
        _, _, arrays, generators, holders, places = self.reach.beyond()
        each(problems, _restore_holder, holders, "a container")
        each(problems, _restore_place, places, "a variable of a function")
        each(problems, _restore_class, self._classes, "a class attribute")
        each(problems, _restore_generator, self._generators[-len(generators) :] if generators else (), "a generator")
        each(problems, _restore_array, self._arrays[-len(arrays) :] if arrays else (), "an array")
        return problems

    def put_stand_ins(self, *, common: bool = False) -> None:
        """Let copies of iterators and empty caches be used instead of them; the ways back put the same objects back.

        Args:
            common: only where `restore_common` puts them back.
        """
        if not self.reach.passing:
            return
        instead = {id(one): stand_in(one) for one in self.reach.passing}
        *_, holders, places = self.reach.beyond() if common else (self.reach.holders, self.reach.places)
        for holder, content in holders:
            _exchange(holder, content, instead)
        for place in places:
            if id(place.value) in instead:
                place.put(instead[id(place.value)])
        for owner, attributes in self._classes:
            for name, value in attributes.items():
                if id(value) in instead:
                    type.__setattr__(owner, name, instead[id(value)])

    def _restore_storage(self, entry: tuple[int, Storage]) -> None:
        key, storage = entry
        value = self.values.get(key)
        if value is not None and not same_bytes(storage, value):
            write_bytes(storage, value)

    def _restore_tensor(self, state: TensorState) -> None:
        tensor, storage = state.tensor, state.storage
        if storage is not None:
            if not _in_place(state):
                offset, size, stride, dtype = state.place
                held: Any = torch.empty(0, dtype=dtype, device=storage.device)
                tensor.data = held.set_(storage, offset, size, stride)
        elif state.whole is not None and not _equal(tensor, state.whole):
            tensor.data = state.whole.clone()
        if state.bare and tensor.__dict__:
            tensor.__dict__.clear()
        if tensor.requires_grad != state.requires_grad:
            tensor.requires_grad_(state.requires_grad)
        if state.leaf and tensor.grad is not state.grad:
            tensor.grad = state.grad
        _restore_hooks(tensor, "_backward_hooks", state.hooks)
        _restore_hooks(tensor, "_post_accumulate_grad_hooks", state.late_hooks)
        if state.version >= 0 and tensor._version != state.version:
            # A graph that saved the tensor checks the version; the bytes are those it saved.
            torch._C._autograd._unsafe_set_version_counter((tensor,), (state.version,))

    # --- what is different --------------------------------------------------------------------------------------------

    def differences(self) -> list[str]:
        """What is not as it was, in words."""
        found: list[str] = []
        for holder, content in self.reach.holders:
            if (len(holder) or content) and not _same_content(holder, content):
                found.append(self._holder_name(holder))
        found += [f"what a {type(p.owner).__name__} holds" for p in self.reach.places if p.now() is not p.value]
        found += [f"the class of a {kind.__name__}" for one, kind in self._kinds if type(one) is not kind]
        changed = {
            key
            for key, storage in self.storages.items()
            if (key in self.checksums and checksum(storage) != self.checksums[key])
            or (key in self.values and not same_bytes(storage, self.values[key]))
        }
        for state in self.tensors:
            tensor = state.tensor
            moved = state.storage is not None and not _in_place(state)
            written = state.storage is not None and state.storage._cdata in changed
            if moved or written or (state.whole is not None and not _equal(tensor, state.whole)):
                found.append(f"the values of {self._tensor_name(tensor)}")
            if tensor.requires_grad != state.requires_grad or (state.leaf and tensor.grad is not state.grad):
                found.append(f"requires_grad or the gradient of {self._tensor_name(tensor)}")
            if state.bare and tensor.__dict__:
                found.append(f"attributes of {self._tensor_name(tensor)}")
            if not _same_hooks(tensor._backward_hooks, state.hooks):
                found.append(f"the hooks of {self._tensor_name(tensor)}")
        found += [f"{name!r} of a scripted module" for core, name, value in self._scripted if _moved(core, name, value)]
        return list(dict.fromkeys(found))

    def _tensor_name(self, tensor: Tensor) -> str:
        for module in self.reach.modules[:1]:
            for name, other in [*module.named_parameters(), *module.named_buffers()]:
                if other is tensor:
                    return f"{name!r}"
                if other.grad is tensor:
                    return f"the gradient of {name!r}"
        return f"a tensor of shape {tuple(tensor.shape)}"

    def _holder_name(self, holder: Any) -> str:
        for module in self.reach.modules[:1]:
            for path, part in module.named_modules():
                label = repr(path) if path else "the model"
                if part.__dict__ is holder:
                    return f"attributes of {label}"
                for name, value in part.__dict__.items():
                    if value is holder:
                        return f"{name} of {label}"
        return f"a {type(holder).__name__} that the model holds"


def each(problems: list[str], work: Callable[[Any], None], entries: Iterable[Any], what: str) -> None:
    """Do something for every entry; what goes wrong is added to the problems."""
    for entry in entries:
        try:
            work(entry)
        except Exception as problem:  # a class of the user's own may raise anything
            problems.append(f"{what} ({type(problem).__name__}: {problem})")


# --- containers -------------------------------------------------------------------------------------------------------


def _same_content(holder: Any, content: Any) -> bool:
    """The same objects in the same order."""
    if len(holder) != len(content):
        return False
    if isinstance(content, dict):
        return all(map(is_, holder, content)) and all(map(is_, dict.values(holder), content.values()))
    if isinstance(content, set):
        return bool(set.__eq__(holder, content))
    return all(map(is_, holder, content))


def _restore_holder(entry: tuple[Any, Any]) -> None:
    holder, content = entry
    if (len(holder) or content) and not _same_content(holder, content):
        _refill(holder, content)


def _refill(holder: Any, content: Any) -> None:
    # By the methods of the plain classes: a subclass may do more when something is put in.
    if isinstance(content, dict):
        _refill_mapping(holder, content)
    elif isinstance(content, set):
        set.clear(holder)
        set.update(holder, content)
    elif isinstance(holder, deque):
        deque.clear(holder)
        deque.extend(holder, content)
    else:
        list.__setitem__(holder, slice(None), content)


def _refill_mapping(holder: Any, content: dict[Any, Any]) -> None:
    if len(holder) == len(content) and all(map(is_, holder, content)):
        # Other threads that look at the rest find it.
        for key, value in content.items():
            if dict.get(holder, key, MISSING) is not value:
                dict.__setitem__(holder, key, value)
        return
    dict.clear(holder) if type(holder) is dict else holder.clear()
    if isinstance(holder, dict) and type(holder).__module__ not in ("builtins", "collections"):
        for key, value in content.items():
            dict.__setitem__(holder, key, value)
    else:
        holder.update(content)


def _exchange(holder: Any, content: Any, instead: Mapping[int, Any]) -> None:
    """Put something else in the place of some values of a container."""
    if isinstance(content, set):
        return
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        if id(value) in instead:
            holder[key] = instead[id(value)]


def _restore_place(place: Place) -> None:
    if place.now() is not place.value:
        place.put(place.value)


def _restore_kind(entry: tuple[Any, type]) -> None:
    one, kind = entry
    if type(one) is not kind:
        object.__setattr__(one, "__class__", kind)


# --- classes ----------------------------------------------------------------------------------------------------------


def _is_class_state(name: str, value: Any) -> bool:
    if name.startswith(("__", "_abc_")):
        return False
    return not isinstance(
        value, (types.FunctionType, property, staticmethod, classmethod, types.MemberDescriptorType, type)
    )


def _class_state(kinds: Iterable[type]) -> list[tuple[type, dict[str, Any]]]:
    """Attributes of classes and their bases that are no code."""
    owners = dict.fromkeys(owner for kind in kinds for owner in kind.__mro__ if not of_library(owner.__module__))
    return [
        (owner, {name: value for name, value in vars(owner).items() if _is_class_state(name, value)})
        for owner in owners
    ]


def _restore_class(entry: tuple[type, dict[str, Any]]) -> None:
    owner, attributes = entry
    now = {name: value for name, value in vars(owner).items() if _is_class_state(name, value)}
    for name in now.keys() - attributes.keys():
        type.__delattr__(owner, name)
    for name, value in attributes.items():
        if now.get(name, MISSING) is not value:
            type.__setattr__(owner, name, value)


# --- scripted modules -------------------------------------------------------------------------------------------------


def _script_state(module: nn.Module) -> list[tuple[Any, str, Any]]:
    """Attributes that compiled code keeps for itself, its mode among them."""
    if not isinstance(module, torch.jit.ScriptModule):
        return []
    core: Any = getattr(module, "_c", None)
    known: Any = getattr(module, "_concrete_type", None)
    if core is None:
        return []
    names = ["training", *(known.get_attributes() if known is not None else [])]
    return [(core, name, core.getattr(name)) for name in dict.fromkeys(names) if core.hasattr(name)]


def _moved(core: Any, name: str, value: Any) -> bool:
    now = core.getattr(name)
    if isinstance(value, Tensor) or isinstance(now, Tensor):
        return now is not value
    return type(now) is not type(value) or (not isinstance(now, torch._C.ScriptObject) and now != value)


def _restore_script(entry: tuple[Any, str, Any]) -> None:
    core, name, value = entry
    if _moved(core, name, value):
        core.setattr(name, value)


# --- tensors ----------------------------------------------------------------------------------------------------------


def _in_place(state: TensorState) -> bool:
    """Whether a tensor shows the same part of the same storage."""
    tensor, storage = state.tensor, storage_of(state.tensor)
    assert state.storage is not None
    return (
        storage is not None
        and storage._cdata == state.storage._cdata
        and (tensor.storage_offset(), tensor.size(), tensor.stride(), tensor.dtype) == state.place
    )


def _whole(tensor: Tensor) -> Tensor | None:
    """A copy of a tensor without a storage of its own, `None` if there is nothing to copy."""
    if tensor.is_meta or nn.parameter.is_lazy(tensor):
        return None
    try:
        return tensor.detach().clone()
    except Exception:  # what a wrapper's own code raises
        return None


def _equal(tensor: Tensor, whole: Tensor) -> bool:
    if tensor.layout is not whole.layout or tensor.dtype is not whole.dtype or tensor.is_nested != whole.is_nested:
        return False
    try:
        parts = [_parts(one.detach()) for one in (tensor, whole)]
        return len(parts[0]) == len(parts[1]) and all(map(_same_numbers, *parts))
    except (RuntimeError, NotImplementedError, TypeError):
        return True  # cannot be compared, hence cannot be found different


def _parts(tensor: Tensor) -> list[Tensor]:
    """Dense tensors that make up a sparse or nested one."""
    if tensor.is_nested:
        return list(tensor.unbind())
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor.to_dense()] if tensor.layout is not torch.strided else [tensor]


def _same_numbers(first: Tensor, second: Tensor) -> bool:
    if first.shape != second.shape or first.dtype is not second.dtype:
        return False
    a, b = (one.contiguous().view(-1) for one in (first, second))
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8)) if a.numel() else True


def _same_hooks(now: Any, kept: tuple[Any, dict[Any, Any]] | None) -> bool:
    if kept is None:
        return now is None
    return now is kept[0] and _same_content(now, kept[1])


def _restore_hooks(tensor: Tensor, name: str, kept: tuple[Any, dict[Any, Any]] | None) -> None:
    now = getattr(tensor, name)
    if _same_hooks(now, kept):
        return
    if kept is None:
        # Taking the last hook off leaves an empty dictionary behind.
        setattr(tensor, name, None)
        return
    table, content = kept
    if not _same_content(table, content):
        _refill(table, content)
    if now is not table:
        setattr(tensor, name, table)


def _is_shared(storage: Storage) -> bool:
    return storage.device.type == "cpu" and bool(storage.is_shared())


# --- generators and arrays --------------------------------------------------------------------------------------------


def _generator_state(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, (io.BytesIO, io.StringIO)):
        return None if generator.closed else generator.__getstate__()
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state() if isinstance(generator, np.random.RandomState) else generator.getstate()


def _restore_generator(entry: tuple[Any, Any]) -> None:
    generator, state = entry
    if isinstance(generator, (io.BytesIO, io.StringIO)):
        file: Any = generator
        if state is not None:
            file.__setstate__(state)
    elif isinstance(generator, (torch.Generator, np.random.RandomState)):
        generator.set_state(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)


def _restore_array(entry: tuple[Any, Any]) -> None:
    array, value = entry
    if not isinstance(array, np.ndarray):
        if array != value:
            array[:] = value
    elif array.shape != value.shape:
        array.resize(value.shape, refcheck=False)
        array[...] = value
    elif array.tobytes() != value.tobytes():
        array[...] = value
