"""What is computed from what in one forward pass: a graph of the calls of torch functions.

Unlike the graph of autograd it goes on behind `detach()` and `no_grad`, and it knows which module and which line made a
call. Tensors are known by identity. What torch does not announce (a custom `autograd.Function`, scripted code) is
joined to the graph through the history of its output.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import torch
import torch.utils.checkpoint
from torch import nn
from torch.overrides import TorchFunctionMode

from isometer.doctor.causes._op_names import op_name
from isometer.doctor.probe._call_sites import CodeLine, call_site
from isometer.doctor.probe._module_stack import transforming
from isometer.doctor.probe._tensor_tags import all_tensors, is_parameter
from isometer.doctor.probe._tensor_trees import tensors

Tensor = torch.Tensor
Facts = Mapping[str, Any]
Fact = Callable[[Sequence[Any], Mapping[str, Any], Any], Facts | None]
"""What is to be known of a call whose numbers are gone afterwards, from arguments and output; `None` for nothing."""

# Made in the shape of a tensor, with nothing of its content.
SHAPES = frozenset(
    f"{kind}{like}" for kind in ("zeros", "ones", "empty", "full", "rand", "randn", "randint") for like in ("_like",)
) | frozenset({"new_zeros", "new_ones", "new_empty", "new_full", "new_tensor"})
_EXCHANGES = frozenset({"transpose", "permute", "t", "T", "mT", "H", "mH"})
_LIKE = frozenset({"type_as", "to", "expand_as", "view_as", "reshape_as"})  # of the second tensor only size and kind
_LONGEST_HISTORY = 200
_CHECKPOINT = torch.utils.checkpoint.checkpoint.__code__.co_filename


class FlowStep:
    """A tensor and how it came about.

    Attributes:
        op: name of the function; `parameter`, `input` or `constant` for what was there before.
        inputs: what it was computed from.
        users: what was computed from it.
        content: whether it depends on the input of the model.
        signal: whether it does, or is what layers make of something learned, as in a network that makes weights.
        trained: whether it is a parameter that is trained.
        gradient: whether autograd knows a way back from it.
        shape: shape of the tensor.
        floating: whether it has numbers of floating point.
        axis: that of the samples, `None` where it has none or it is not known.
        module: name of the module that made the call, `None` outside the model and where nobody asked.
        site: line of the call.
        facts: what else was noted.
        muted: the call that had turned gradients off, if they were.
        inner: whether it is inside a function that has a backward of its own.
        order: calls in the order in which they were made.
    """

    __slots__ = (
        *("axis", "content", "facts", "floating", "gradient", "inner", "inputs", "module", "muted", "op", "order"),
        *("shape", "signal", "site", "trained", "users"),
    )

    def __init__(self, op: str, tensor: Tensor, inputs: Sequence[FlowStep] = ()) -> None:
        self.op, self.inputs = op, tuple(inputs)
        self.users: list[FlowStep] = []
        self.content: bool = any(step.content for step in inputs) and op not in SHAPES
        self.signal: bool = (any(step.signal for step in inputs) or _is_layer(op, inputs)) and op not in SHAPES
        self.trained = False
        self.gradient = tensor.requires_grad
        sized = not tensor.is_nested and not nn.parameter.is_lazy(tensor)
        self.shape: tuple[int, ...] = tuple(tensor.shape) if sized else ()
        self.floating = tensor.is_floating_point()
        self.axis: int | None = None
        self.module: str | None = None
        self.site = CodeLine()
        self.facts: Facts = {}
        self.muted: Muting | None = None
        self.inner = False
        self.order = 0
        for step in inputs:
            step.users.append(self)

    @property
    def source(self) -> FlowStep:
        """The largest of its inputs that carry a signal, or of all of them."""
        among = [step for step in self.inputs if step.content and step.floating]
        among = among or [step for step in self.inputs if step.signal and step.floating] or list(self.inputs)
        return max(among, key=lambda step: torch.Size(step.shape).numel())


class Muting:
    """A call that turned gradients off."""

    def __init__(self, module: str | None, site: CodeLine) -> None:
        self.module, self.site = module, site


class ForwardFlow(TorchFunctionMode):
    """The graph of one forward pass; the mode is on while the model runs.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> flow = ForwardFlow(model, samples=3, facts={"relu": lambda args, kwargs, output: {"size": output.numel()}})
        >>> flow.follow(lambda model: model(torch.zeros(3, 2)))
        >>> [step.op for step in flow.steps], flow.outputs[0].module, list(flow.outputs[0].facts)
        (['linear', 'relu'], '1', ['size'])
    """

    def __init__(self, model: nn.Module, *, samples: int, facts: Mapping[str, Fact]) -> None:
        super().__init__()
        self.steps: list[FlowStep] = []
        self.outputs: list[FlowStep] = []
        self._model, self._samples, self._facts = model, samples, facts
        self._names = {id(module): name for name, module in model.named_modules()}
        self._known: dict[int, tuple[Any, FlowStep]] = {}
        self._histories: dict[Any, FlowStep] = {}
        self._muted: Muting | None = None

    def follow(self, forward: Callable[[nn.Module], Any]) -> None:
        """Run the model, and keep what leads from its input to its output."""
        register = nn.Module.register_forward_pre_hook, nn.Module.register_forward_hook
        handles = [
            register[0](self._model, self._start, with_kwargs=True, prepend=True),
            register[1](self._model, self._end),
        ]
        try:
            with torch.enable_grad(), self:
                forward(self._model)
        finally:
            for handle in handles:
                handle.remove()
            self._known, self._histories = {}, {}

    def _start(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        for tensor in all_tensors(args, kwargs):
            step = FlowStep("input", tensor)
            step.content = step.signal = True
            step.axis = self._axis(step, None)
            self._keep(tensor, step)

    def _end(self, module: nn.Module, args: Any, output: Any) -> None:
        returned = [tensor for tensor in tensors(output) if tensor.is_floating_point()]
        # What has no axes is a loss, and may well be cut off from parts of the model.
        self.outputs += [self._step(tensor) for tensor in returned if tensor.dim()] or map(self._step, returned)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if transforming():
            return func(*args, **kwargs)
        name = op_name(func)
        if name == "no_grad":
            self._switch(args, kwargs)
            return func(*args, **kwargs)
        # What a call overwrites must be read before it.
        facts = self._facts.get(name)
        before = [self._step(tensor) for tensor in all_tensors(args, kwargs)] if _computes(func) else []
        if name in _LIKE:
            before = before[:1]
        copied = _saved(args) if facts is not None and _in_place(func) else args
        output = func(*args, **kwargs)  # in here, and below, the mode is off
        given = args[0] if name == "setitem" else output
        found = list(tensors(given)) if isinstance(given, (Tensor, tuple, list)) else []
        if found and before:
            noted = _noted(facts, copied, kwargs, output) if facts is not None else None
            self._see(name, before, found, noted, args)
            if _in_place(func) or name == "setitem":
                self._spread(found[0])
        return output

    def _switch(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        on = bool(args[0] if args else next(iter(kwargs.values()), True))
        if on:
            self._muted = None
        elif torch.is_grad_enabled() and not _is_checkpoint(sys._getframe(1)):
            self._muted = Muting(*self._place())

    def _see(
        self, name: str, before: Sequence[FlowStep], found: Iterable[Tensor], facts: Facts | None, args: Sequence[Any]
    ) -> None:
        module, site = self._place() if facts is not None else (None, CodeLine())
        for tensor in found:
            step = FlowStep(name, tensor, before)
            step.axis = self._axis(step, args)
            step.order, step.module, step.site = len(self.steps), module, site
            step.facts = facts or {}
            if not torch.is_grad_enabled():
                # Without a call that turned gradients off it is a function with a backward of its own that did.
                step.muted, step.inner = self._muted, self._muted is None
            self.steps.append(step)
            self._keep(tensor, step)

    def _place(self) -> tuple[str | None, CodeLine]:
        module, site = call_site(sys._getframe(1), lambda one: id(one) in self._names)
        return (None if module is None else self._names[id(module)]), site

    def _keep(self, tensor: Tensor, step: FlowStep) -> None:
        self._known[id(tensor)] = (weakref.ref(tensor), step)
        history = _history(tensor)
        if history is not None:
            self._histories[history] = step

    def _spread(self, view: Tensor) -> None:
        """What is written to a view is written to what it is a view of."""
        base = view._base
        if base is not None and base is not view:
            step = FlowStep("clone", base, [self._step(base), self._step(view)])
            step.axis = self._axis(step, None)
            self._keep(base, step)

    def _step(self, tensor: Tensor) -> FlowStep:
        known = self._known.get(id(tensor))
        # An id is given again once its tensor is freed; the reference tells the two apart.
        if known is not None and known[0]() is tensor:
            if not known[1].inner or not tensor.requires_grad:
                return known[1]
            behind = [known[1], *self._behind(tensor)]  # what the function returned now has its backward
        else:
            behind = list(self._behind(tensor))
        if is_parameter(tensor):
            step = FlowStep("parameter", tensor)
            step.trained = tensor.requires_grad
        else:
            step = FlowStep("unseen" if behind else "constant", tensor, behind)
            step.axis = self._axis(step, None)
        self._keep(tensor, step)
        return step

    def _behind(self, tensor: Tensor) -> Iterator[FlowStep]:
        """The nearest steps in the history of a tensor that no call announced."""
        seen: set[Any] = set()
        waiting = [_history(tensor)]
        while waiting and len(seen) < _LONGEST_HISTORY:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if node in self._histories:
                yield self._histories[node]
            elif hasattr(node, "variable"):
                yield self._step(node.variable)
            else:
                waiting.extend(before for before, _ in node.next_functions)

    def _axis(self, step: FlowStep, args: Sequence[Any] | None) -> int | None:
        """The axis of the samples: where it was before, or the only one of the right length."""
        if not step.content or self._samples < 2:
            return None
        places = [axis for axis, length in enumerate(step.shape) if length == self._samples]
        before = next((one.axis for one in step.inputs if one.content and one.axis is not None), None)
        if before is not None and args is not None:
            before = _moved(step.op, before, len(step.shape), args[1:])
        if before in places:
            return before
        if before == 0 and step.shape and not step.shape[0] % self._samples:
            return 0  # samples and positions on one axis, samples outermost
        if before is None and 0 in places:
            return 0
        return places[0] if len(places) == 1 else None


def _noted(fact: Fact, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> Facts | None:
    try:
        return fact(args, kwargs, output)
    except Exception:  # a way of calling it that is not foreseen must not stop the model
        return None


def _is_checkpoint(frame: FrameType | None) -> bool:
    """Whether gradients are off since the same is computed again later."""
    while frame is not None and frame.f_code is not nn.Module._call_impl.__code__:
        if frame.f_code.co_filename == _CHECKPOINT:
            return True
        frame = frame.f_back
    return False


def _is_layer(op: str, inputs: Sequence[FlowStep]) -> bool:
    return (op == "linear" or op.startswith("conv")) and sum(step.gradient for step in inputs[:2]) > 0


def _computes(function: Any) -> bool:
    """Whether a call may have tensors to return: most reading of attributes has none."""
    return getattr(function, "__name__", "") != "__get__" or op_name(function) in ("data", "T", "mT", "H", "mH", "real")


def _in_place(function: Any) -> bool:
    name: str = getattr(function, "__name__", "")
    return (name.endswith("_") and not name.endswith("__")) or (name.startswith("__i") and name.endswith("__"))


def _saved(args: Sequence[Any]) -> list[Any]:
    """The arguments of a call that overwrites the first."""
    return [value.detach().clone() if isinstance(value, Tensor) and not at else value for at, value in enumerate(args)]


def _history(tensor: Tensor) -> Any:
    try:
        return tensor.grad_fn
    except RuntimeError:  # a view made without gradients, written to with them: torch will not say
        return None


def _moved(op: str, axis: int, rank: int, places: Sequence[Any]) -> int:
    """Where a function that exchanges axes puts one of them."""
    if op not in _EXCHANGES or not rank:
        return axis
    flat = [one for place in places for one in (place if isinstance(place, (tuple, list)) else (place,))]
    numbers = [one % rank for one in flat if isinstance(one, int)]
    if op == "transpose" and len(numbers) == 2 and axis in numbers:
        return numbers[1 - numbers.index(axis)]
    if op == "permute" and len(numbers) == rank:
        return numbers.index(axis)
    if op in ("t", "T") and rank == 2:
        return 1 - axis
    if op in ("mT", "H", "mH") and axis >= rank - 2:
        return 2 * rank - 3 - axis
    return axis


# Going through the graph.


def reaching(ends: Iterable[FlowStep], through: Callable[[FlowStep], bool] = lambda step: True) -> set[FlowStep]:
    """Every step that the given ones depend on, themselves included; only steps that pass are gone through.

    Example:
        >>> x = FlowStep("input", torch.ones(1))
        >>> y = FlowStep("relu", torch.ones(1), [x])
        >>> reaching([y]) == {x, y}, reaching([y], lambda step: False) == {y}
        (True, True)
    """
    found: set[FlowStep] = set()
    waiting = list(ends)
    while waiting:
        step = waiting.pop()
        if step not in found:
            found.add(step)
            if through(step):
                waiting.extend(step.inputs)
    return found


def following(step: FlowStep, through: Callable[[FlowStep], bool]) -> list[FlowStep]:
    """What is computed from a step, directly or through steps that pass; those that pass are listed too."""
    found: dict[FlowStep, None] = {}
    waiting = list(step.users)
    while waiting:
        user = waiting.pop(0)
        if user not in found:
            found[user] = None
            if through(user):
                waiting.extend(user.users)
    return list(found)
