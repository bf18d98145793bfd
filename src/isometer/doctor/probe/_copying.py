"""Copies of models that have everything the model has and nothing of the model's own.

`copy.deepcopy` alone is not enough: it separates parameters that share memory, drops hooks on tensors and refuses
tensors with a history; functions it does not copy at all, so a hook that is a closure over the model still acts on the
model. Here tensors are copied storage by storage beforehand, and afterwards both sides are compared: same classes, same
tables, the same sharing, and no module, tensor or container that both can reach.
"""

from __future__ import annotations

import copy
import copyreg
from collections import OrderedDict
from functools import lru_cache
from operator import is_
from typing import Any

import torch
from torch import nn

from isometer.doctor.probe._reach import ATOMIC, Reach
from isometer.doctor.probe._snapshot import Snapshot, TensorState
from isometer.doctor.probe._standins import stand_in
from isometer.doctor.probe._storages import Storage, copied_storage, overlapping

Tensor = torch.Tensor


class Unfaithful(Exception):
    """Why a model has no faithful copy."""


class Twin:
    """A faithful copy of a model, and what corresponds to what.

    Gradients are not carried over: they are put aside whenever a model is examined.

    Args:
        model: the model.
        state: its snapshot.

    Raises:
        Unfaithful: there is no such copy.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        >>> model[1].weight = model[0].weight
        >>> twin = Twin(model, Snapshot(Reach([model])))
        >>> twin.model[1].weight is twin.model[0].weight, twin.model[0].weight is model[0].weight
        (True, False)
    """

    def __init__(self, model: nn.Module, state: Snapshot) -> None:
        _check_copyable(state)
        memo: dict[int, Any] = {}
        storages = _copy_tensors(state, memo)
        memo.update((id(one), stand_in(one)) for one in state.reach.passing)
        try:
            self.model: nn.Module = _copied(model, memo)
            for one in state.tensors:
                _copy_extras(one, memo)
        except Exception as problem:  # whatever the model's own code raises
            raise Unfaithful(f"{type(problem).__name__}: {problem}") from problem
        # The classes are those of the original, which were looked at.
        self.state = Snapshot(Reach([self.model], classes=False))
        _compare(state, self.state)
        # The original's bytes are the reference: a copy of the copy is not needed.
        self.state.keep_values({twin._cdata: original for original, twin in storages})
        self.of = {id(one): twin for one, twin in zip(state.reach.own()[0], self.state.reach.own()[0], strict=True)}
        self.original_ids = {
            id(twin.tensor): id(one.tensor)
            for one, twin in zip(state.tensors[: len(self.state.tensors)], self.state.tensors, strict=True)
        }


def _check_copyable(state: Snapshot) -> None:
    reach = state.reach
    if not reach.complete:
        raise Unfaithful("the model refers to more objects than can be copied")
    if reach.shared:
        raise Unfaithful("a function or class that the model uses holds modules or tensors")
    if reach.returns:
        raise Unfaithful("a function that the model uses holds part of the model")
    if any(isinstance(module, torch.jit.ScriptModule) for module in reach.modules):
        raise Unfaithful("the copy of a scripted module has no parameters, only tensors")
    if overlapping(state.storages.values(), reach.arrays):
        raise Unfaithful("memory is shared in a way that a copy would not keep")


# --- tensors ----------------------------------------------------------------------------------------------------------


def _copy_tensors(state: Snapshot, memo: dict[int, Any]) -> list[tuple[Storage, Storage]]:
    """Put a copy of every plain tensor into the memo of deepcopy; returns storages with their copies."""
    storages: dict[int, Storage] = {}
    gradients = {id(one) for one in state.gradients}
    own = [one for one in state.tensors if id(one.tensor) not in gradients]
    for one in own:
        if one.storage is None or not _is_plain(one.tensor):
            continue
        twin = storages.get(one.storage._cdata)
        if twin is None:
            twin = storages[one.storage._cdata] = copied_storage(one.storage)
        memo[id(one.tensor)] = _on(twin, one)
    return [(state.storages[key], twin) for key, twin in storages.items()]


def _is_plain(tensor: Tensor) -> bool:
    kind = type(tensor)
    if kind is Tensor or kind is nn.Parameter:
        special = tensor.is_quantized or tensor.is_conj() or tensor.is_neg()
    else:
        overridden = kind.__torch_dispatch__ is not Tensor.__torch_dispatch__
        special = overridden or tensor.is_quantized or nn.parameter.is_lazy(tensor)
    return not special


def _on(storage: Storage, state: TensorState) -> Tensor:
    """A tensor like another one, on a storage of its own."""
    offset, size, stride, dtype = state.place
    held: Any = torch.empty(0, dtype=dtype, device=storage.device)
    twin: Tensor = held.set_(storage, offset, size, stride)
    kind = type(state.tensor)
    if kind is not Tensor:
        return Tensor._make_subclass(kind, twin, state.requires_grad)
    if state.requires_grad:
        twin.requires_grad_()
        if not state.leaf:
            with torch.enable_grad():
                # Its history stays with the original; in-place operations must still be possible.
                twin = twin.clone()
    return twin


def _copy_extras(state: TensorState, memo: dict[int, Any]) -> None:
    """Attributes and hooks that were put on a tensor."""
    twin = memo.get(id(state.tensor))
    if twin is None or not isinstance(twin, Tensor):
        return
    if state.tensor.__dict__ and not twin.__dict__:
        twin.__dict__.update(copy.deepcopy(state.tensor.__dict__, memo))
    if state.hooks is not None:
        twin._backward_hooks = copy.deepcopy(state.hooks[0], memo)
    if state.late_hooks is not None:
        twin._post_accumulate_grad_hooks = copy.deepcopy(state.late_hooks[0], memo)


# --- modules ----------------------------------------------------------------------------------------------------------


def _copied(module: nn.Module, memo: dict[int, Any]) -> nn.Module:
    """`copy.deepcopy`, several times faster for modules that define nothing about copying."""
    known: nn.Module | None = memo.get(id(module))
    if known is not None:
        return known
    kind: Any = type(module)
    if not _copies_by_default(kind):
        return _in_order(module, copy.deepcopy(module, memo))
    twin: nn.Module = kind.__new__(kind)
    memo[id(module)] = twin
    held = twin.__dict__
    for name, value in module.__dict__.items():
        what = type(value)
        if what in ATOMIC:
            held[name] = value
        elif (what is OrderedDict or what is dict) and id(value) not in memo:
            held[name] = table = memo[id(value)] = what()
            for key, inner in value.items():
                table[key] = _value(inner, memo)
        elif what is set and not value and id(value) not in memo:
            held[name] = memo[id(value)] = set()
        else:
            held[name] = _value(value, memo)
    return twin


def _in_order(module: nn.Module, twin: nn.Module) -> nn.Module:
    """Attributes in the order of the original: a class that restores its own state may have added some at the end."""
    names, held = list(module.__dict__), twin.__dict__
    if twin is not module and list(held) != names and set(held) == set(names):
        values = {name: held[name] for name in names}
        held.clear()
        held.update(values)
    return twin


def _value(value: Any, memo: dict[int, Any]) -> Any:
    if type(value) in ATOMIC:
        return value
    known = memo.get(id(value))
    if known is not None:
        return known
    return _copied(value, memo) if isinstance(value, nn.Module) else copy.deepcopy(value, memo)


@lru_cache(maxsize=1024)
def _copies_by_default(kind: Any) -> bool:
    """Whether deepcopy would make a new object and copy its attributes, no more."""
    base: Any = object
    return (
        not hasattr(kind, "__deepcopy__")
        and kind.__reduce_ex__ is base.__reduce_ex__
        and kind.__reduce__ is base.__reduce__
        and kind.__getstate__ in (base.__getstate__, getattr(nn.Module, "__getstate__", None))
        # Those of torch's own layers fill in what old files lack; recurrent ones renew their references.
        and kind.__setstate__.__module__.startswith("torch.nn.modules.")
        and not issubclass(kind, nn.RNNBase)
        and kind.__new__ is base.__new__
        and not copyreg._slotnames(kind)  # type: ignore[attr-defined]
        and kind not in copyreg.dispatch_table
    )


# --- faithful? --------------------------------------------------------------------------------------------------------


def _compare(original: Snapshot, twin: Snapshot) -> None:
    """Refuse a copy which differs in structure or leads back to the original."""
    mine, its = original.reach, twin.reach
    if its.shared or mine.meets(its):
        raise Unfaithful("the copy refers to the model")
    if original.storages.keys() & twin.storages.keys():
        raise Unfaithful("the copy shares memory with the model")
    own = original.tensors[: len(original.tensors) - len(original.gradients)]
    gradients = {id(one) for one in original.gradients}
    holders, copies = mine.own()[4], its.own()[4]
    alike = len(holders) == len(copies) and all(
        type(one[0]) is type(twin[0]) and (_alike(one, twin) if one[1] else not twin[1])
        for one, twin in zip(holders, copies, strict=True)
    )
    if not alike or any(id(one.tensor) in gradients for one in own):
        raise Unfaithful("the copy has other attributes or containers")
    forms = _form(original, own), _form(twin, twin.tensors)
    for what, form in forms[0].items():
        if form != forms[1][what]:
            raise Unfaithful(f"the copy has other {what}")


def _form(state: Snapshot, tensors: list[TensorState]) -> dict[str, Any]:
    """What a faithful copy has in common with the original."""
    order: dict[Any, int] = {}
    described = []
    for one in tensors:
        key = None if one.storage is None else one.storage._cdata
        place = None if key is None else order.setdefault(key, len(order))
        # A tensor with a history gets memory of its own, as large as it needs.
        where = one.place if one.leaf else one.place[1:2]
        described.append((type(one.tensor), one.tensor.shape, one.tensor.dtype, one.requires_grad, where, place))
    modules, _, arrays, generators, _, places = state.reach.own()
    return {
        "modules or modes": [(type(one), one.training) for one in modules],
        "tensors": described,
        "generators or arrays": [type(one) for one in (*generators, *arrays)],
        "slots": [(type(one.owner), type(one.value)) for one in places],
        "hooks": [(one.hooks and len(one.hooks[1]), one.late_hooks and len(one.late_hooks[1])) for one in tensors],
    }


def _alike(first: tuple[Any, Any], second: tuple[Any, Any]) -> bool:
    """Whether two containers have the same names in them."""
    content, copied = first[1], second[1]
    if len(content) != len(copied):
        return False
    if not isinstance(content, dict) or all(map(is_, content, copied)):
        return True
    # Keys which are no names may have been copied themselves.
    return all(a == b if type(a) in ATOMIC else type(a) is type(b) for a, b in zip(content, copied, strict=True))
