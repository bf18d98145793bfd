"""Calls taken out of a model while it runs, its code unchanged.

Hooks on the module that makes a call put a mode around the module; the mode answers the call with something else. The
call is known by its function and its line, and the module by what is running, so that other modules of the same class,
and modules inside, are left alone. After an interrupt that runs no hooks the mode stays, but since the module no longer
runs it does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from isometer.doctor.causes._op_names import op_name
from isometer.doctor.probe._call_sites import CodeLine, call_site
from isometer.doctor.probe._tensor_tags import all_tensors

Tensor = torch.Tensor
Answer = Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]
_DROPOUT_AT = {"scaled_dot_product_attention": 4, "multi_head_attention_forward": 10}


@dataclass(frozen=True)
class BypassedCall:
    """A call that is taken out.

    Attributes:
        module: name of the module that makes it, empty for the model.
        op: name of the function.
        site: its line.
        answer: what is done in its place, a name in `ANSWERS`.
    """

    module: str
    op: str
    site: CodeLine
    answer: str = "input"


@dataclass(frozen=True)
class TakenOut:
    """A change of a model in place that takes calls out of it, for every later forward pass.

    Example:
        >>> class Cut(nn.Linear):
        ...     def forward(self, x):
        ...         return super().forward(x).detach()
        >>> model = Cut(2, 2)
        >>> model(torch.ones(1, 2)).requires_grad
        False
        >>> TakenOut((BypassedCall("", "detach", CodeLine(Cut.forward.__code__.co_filename, 3)),))(model)
        >>> model(torch.ones(1, 2)).requires_grad
        True
    """

    calls: tuple[BypassedCall, ...]

    def __call__(self, model: nn.Module) -> None:
        """Take the calls out of a model with the same modules."""
        for call in self.calls:
            _bypass_of(model.get_submodule(call.module)).calls[call.op, call.site] = call.answer


def put_back(model: nn.Module) -> None:
    """Undo everything that was taken out."""
    for module in model.modules():
        for table in (module._forward_pre_hooks, module._forward_hooks):
            for number, hook in list(table.items()):
                if isinstance(hook, (_Enter, _Leave)):
                    del table[number]
                    module._forward_hooks_always_called.pop(number, None)


class _Bypass:
    """What is taken out of one module."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, CodeLine], str] = {}
        self.running: list[Any] = []  # modes

    def __getstate__(self) -> dict[str, Any]:
        return {"calls": dict(self.calls), "running": []}  # the copy of a module does not run


class _Enter:
    def __init__(self, bypass: _Bypass) -> None:
        self.bypass = bypass

    def __call__(self, module: nn.Module, args: Any) -> None:
        mode: Any = _Mode(module, self.bypass.calls)
        mode.__enter__()
        self.bypass.running.append(mode)


class _Leave:
    def __init__(self, bypass: _Bypass) -> None:
        self.bypass = bypass

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        if self.bypass.running:
            self.bypass.running.pop().__exit__(None, None, None)


def _bypass_of(module: nn.Module) -> _Bypass:
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, _Enter):
            return hook.bypass
    bypass = _Bypass()
    # First in and last out: calls in the module's other hooks are calls of the module. Not by the module's own method,
    # which scripted modules refuse, though they call the hooks.
    nn.Module.register_forward_pre_hook(module, _Enter(bypass), prepend=True)
    nn.Module.register_forward_hook(module, _Leave(bypass), always_call=True)
    return bypass


class _Mode(TorchFunctionMode):
    """Answers the calls of a module that are taken out, while it runs."""

    def __init__(self, module: nn.Module, calls: Mapping[tuple[str, CodeLine], str]) -> None:
        super().__init__()
        self._module, self._calls = module, calls
        self._names = {op for op, _ in calls}
        self._inside: set[int] | None = None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = {} if kwargs is None else kwargs
        name = op_name(func)
        if name in self._names:
            module, site = call_site(sys._getframe(1), self._knows)
            answer = self._calls.get((name, site)) if module is self._module else None
            if answer is not None:
                return ANSWERS[answer](func, args, kwargs)
        return func(*args, **kwargs)

    def _knows(self, module: nn.Module) -> bool:
        if module is self._module:
            return True
        if self._inside is None:
            self._inside = {id(one) for one in self._module.modules()}
        return id(module) in self._inside


# What is done in the place of a call.


def _input(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Hand on the largest tensor of floating point: the other ones are factors and indices."""
    given = [t for t in all_tensors(args, kwargs) if t.is_floating_point()]
    if not given:
        return function(*args, **kwargs)
    largest = max(given, key=lambda tensor: tensor.numel())  # the first of equals
    dtype = kwargs.get("dtype")
    return largest.to(dtype) if isinstance(dtype, torch.dtype) and dtype.is_floating_point else largest


def _own_sample(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Reduce over all axes but that of the samples."""
    tensor = next(t for t in all_tensors(args, kwargs) if t.is_floating_point())
    axes = reduced_axes(tensor, args, kwargs)
    keep = bool(kwargs.get("keepdim", args[2] if len(args) > 2 else False))
    rest = tuple(axis for axis in axes if axis != 0)
    return function(tensor, dim=rest, keepdim=keep) if rest else tensor


def _gradients_on(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Leave the switch of gradients as it is, unless it turns them on."""
    mode = args[0] if args else next(iter(kwargs.values()), False)
    return function(*args, **kwargs) if mode else None


def _nothing_dropped(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call the function with a share of zero dropped inside it."""
    if "dropout_p" in kwargs:
        return function(*args, **{**kwargs, "dropout_p": 0.0})
    place = dropout_place(op_name(function), args)
    return function(*(0.0 if at == place else value for at, value in enumerate(args)), **kwargs)


def _book_scale(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call attention with its own scale of the scores."""
    return function(*args, **{**kwargs, "scale": None})


ANSWERS: Mapping[str, Answer] = {
    "input": _input,
    "own sample": _own_sample,
    "gradients on": _gradients_on,
    "nothing dropped": _nothing_dropped,
    "book scale": _book_scale,
}
"""By name, what can be done in the place of a call."""


def reduced_axes(tensor: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, ...]:
    """The axes that a reduction is over, counted from the first; all of them unless it says which.

    Example:
        >>> x = torch.ones(2, 3, 4)
        >>> reduced_axes(x, (x, (0, -1)), {}), reduced_axes(x, (x,), {})
        ((0, 2), (0, 1, 2))
    """
    given = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else None))
    if given is None or given == ():
        return tuple(range(tensor.dim()))
    axes = (given,) if isinstance(given, int) else tuple(given)
    return tuple(axis % max(1, tensor.dim()) for axis in axes if isinstance(axis, int))


def dropout_place(op: str, args: Sequence[Any]) -> int | None:
    """Which argument of a function is the share that it drops inside.

    Example:
        >>> dropout_place("lstm", (None, None, None, True, 2, 0.5, True))
        5
    """
    if op in _DROPOUT_AT:
        return _DROPOUT_AT[op]
    return next((at for at, value in enumerate(args) if isinstance(value, float)), None)
