"""Making the trace: from calls of functions, while their tensors are there, to steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from isometer.activations._names import Found
from isometer.doctor.probe import _sites as room
from isometer.doctor.probe._call_facts import facts_of, mask_of, rotation_of
from isometer.doctor.probe._module_stack import Frame
from isometer.doctor.probe._tensor_tags import Operation, Tag, Tags, is_parameter
from isometer.doctor.probe._trace import Held, TraceStep, constant, numbers_of

Tensor = torch.Tensor
_SAME_ENTRIES = frozenset(
    {"view", "reshape", "flatten", "unflatten", "contiguous", "clone", "detach", "squeeze", "unsqueeze", "alias"}
    | {"to", "float", "double", "type_as", "view_as", "reshape_as", "requires_grad"}
)
MATRIX_PRODUCTS = frozenset({"matmul", "mm", "__matmul__"})
"""Products whose second factor may be the weights of a fully connected layer."""
UNKNOWN = "unknown"
"""The kind of a step whose inputs are not known, or only guessed."""
CUSTOM_FUNCTION = "custom function "
"""What the names of steps begin with that torch did not announce."""
_PRODUCTS_BY_NUMBERS = frozenset({"mul", "__mul__", "__rmul__", "__imul__", "multiply"})
_QUOTIENTS = frozenset({"div", "__truediv__", "__div__", "__itruediv__", "true_divide", "divide"})
_LARGEST_FACTOR = 4096  # entries of a tensor that is looked at for being one number


class TraceRecorder:
    """The steps of one pass, in the order of execution.

    Args:
        model: what runs; parameters are recorded by their names in it.
        tags: of the tensors of the pass.
        whole: whether computed weights are read too; a redrawn network has no use for that.
    """

    def __init__(self, model: nn.Module, tags: Tags, *, whole: bool) -> None:
        self.steps: list[TraceStep] = []
        self._tags, self._whole = tags, whole
        self.place = ""  # path of the module that runs
        self.gap = False  # something ran that was not announced: what comes from nowhere may come from it
        self._of_nodes: dict[int, int] = {}  # steps by the number of the node of the graph that made the tensor
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}

    def source(self, name: str, kind: str, tensor: Tensor, layer: int | None = None) -> int:
        """A step that reads nothing: an input, or what comes from nowhere that was seen."""
        angles = rotation_of(tensor) if kind == "other" and self._whole and not tensor.is_nested else ()
        settings = {"rotation": angles} if angles else {}
        return self._remember(
            tensor, self._add(TraceStep(name, kind, layer=layer, shape=_shape(tensor), settings=settings))
        )

    def module(
        self,
        name: str,
        kind: str,
        inputs: Sequence[Tensor],
        output: Tensor,
        layer: int | None = None,
        activation: str | None = None,
    ) -> int:
        """A module that is one step."""
        shape = _shape(inputs[0]) if inputs else ()
        return self._add(TraceStep(name, kind, self._read(inputs), layer, _shape(output), shape, activation=activation))

    def untagged(self, name: str, frame: Frame, output: Tensor) -> int:
        """What a module made of nothing that comes from the input, or of its inputs by ways that were not seen."""
        if self.gap or not frame.functions:
            return self.module(name, UNKNOWN, frame.inputs, output)
        return self.source(name, "other", output)

    def give_layer(self, step: int | None, layer: int, name: str, inputs: Sequence[Tensor], output: Tensor) -> int:
        """The step of a module that is a site: the last one inside it, or one of its own where that has a layer."""
        read = self._read(inputs)
        if step is None or step in read or self.steps[step].layer is not None:
            return self.module(name, "other", inputs, output, layer)
        self.steps[step] = self.steps[step]._replace(layer=layer)
        return step

    def call(
        self,
        call: Operation,
        given: Iterable[tuple[Tensor, Tag]],
        kind: str | None,
        weight: Any,
        found: Found | None,
        layer: int | None,
    ) -> int | None:
        """The step of what a function returned: its own, or that of what it hands on; `None` for indices from values.

        Args:
            call: the function, its arguments and its first output.
            given: the tensors among its arguments that have a tag.
            kind: kind of the site that it is, if any.
            weight: what it applies, if that is known.
            found: what the registry knows of an activation.
            layer: of the site.
        """
        read = self._steps(given)
        if not call.output.is_floating_point():
            values = any(tensor.is_floating_point() for tensor in call.given)
            return read[0] if read and not values else None
        name = call.name[:-1] if call.name.endswith("_") and not call.name.endswith("__") else call.name
        if kind is None and read and _hands_on(name, call):
            return self._remember(call.output, read[0])
        if not read and self.gap:
            read = (self.source(name, UNKNOWN, call.output),)
        return self._remember(call.output, self._add(self._step(name, call, kind, weight, found, read, layer)))

    def write(self, args: Sequence[Any]) -> None:
        """`x[…] = y`, which returns nothing: from now on x comes from both."""
        tag = self._tags.of(args[0]) if isinstance(args[0], Tensor) else None
        if tag is not None and tag.step is not None:
            read = self._read([value for value in (args[0], args[-1]) if isinstance(value, Tensor)])
            tag.step = self._add(TraceStep("__setitem__", "other", read, shape=_shape(args[0])))

    def _read(self, given: Sequence[Tensor]) -> tuple[int, ...]:
        tags = ((tensor, self._tags.of(tensor)) for tensor in given)
        return self._steps((tensor, tag) for tensor, tag in tags if tag is not None)

    def _steps(self, given: Iterable[tuple[Tensor, Tag]]) -> tuple[int, ...]:
        steps = [self.step_of(tensor, tag) if tag.step is None else tag.step for tensor, tag in given]
        return tuple([step for step in steps if step is not None])

    def step_of(self, tensor: Tensor, tag: Tag) -> int | None:
        """The step that made a tensor with a tag; `None` for indices from values."""
        if tag.step is None and tensor.is_floating_point():
            tag.step = self._unannounced(tensor)
        return tag.step

    def _unannounced(self, tensor: Tensor) -> int:
        """The step of a custom function, which reads what autograd says it was given."""
        maker = _maker(tensor)
        name = CUSTOM_FUNCTION + type(maker).__name__.removesuffix("Backward")
        before = getattr(maker, "next_functions", ())
        # Parameters have nodes without a number of their own, and are no inputs.
        nodes = [node for node, _ in before if node is not None and not hasattr(node, "variable")]
        known = {self._of_nodes.get(node._sequence_nr()) for node in nodes}
        inputs = tuple(sorted(step for step in known if step is not None))
        # Autograd has told all that it reads, if it names every tensor that was differentiated.
        kind = "other" if inputs and None not in known else UNKNOWN
        return self._add(TraceStep(name, kind, inputs, shape=_shape(tensor)))

    def _remember(self, tensor: Tensor, step: int) -> int:
        """By the number of its node: the node itself would hold the graph."""
        maker = _maker(tensor)
        if maker is not None:
            self._of_nodes[maker._sequence_nr()] = step
        return step

    def _add(self, step: TraceStep) -> int:
        self.steps.append(step._replace(module=self.place))
        return len(self.steps) - 1

    def _step(
        self,
        name: str,
        call: Operation,
        kind: str | None,
        weight: Any,
        found: Found | None,
        read: tuple[int, ...],
        layer: int | None,
    ) -> TraceStep:
        given = call.given
        activation: str | None = None
        settings: dict[str, Any] = {}
        held: dict[str, Held] = {}
        if name in room.PRODUCTS or kind == "weight":
            kind, settings, held = self._applied(name, call, weight)
        elif kind == "norm":
            settings, held = self._norm(name, call)
        elif kind == "activation":
            activation = found.text if found is not None and len(read) == 1 else None
        elif name in room.ADDITIONS:
            kind = "add" if len(read) == 2 and _same_shapes(call) else "other"
            settings = {"alpha": float(call.kwargs.get("alpha", 1.0)) * (-1.0 if "sub" in name else 1.0)}
        elif kind == "dropout":
            settings = {"p": call.argument(1, "p", 0.5)}
        elif kind is None:
            settings, held = self._scale(name, call) if len(read) == 1 else ({}, {})
            kind = "scale" if settings or held else "other"
            if kind == "other" and self._whole and name in _PRODUCTS_BY_NUMBERS and len(read) == 1:
                settings = self._rotation(call)
        if self._whole:
            settings = {**facts_of(name, call), **settings}
            if "parameters" in settings:
                given_parts = settings.pop("parameters")
                held = {role: self._hold(one, False) for role, one in given_parts.items() if one is not None}
            elif kind == "other" and name in room.ADDITIONS and len(read) == 1 and "number" not in settings:
                settings["mask"] = self._added(call)
        first = bool(given) and self._tags.of(given[0]) is not None
        shape = _shape(given[0]) if given else ()
        return TraceStep(name, kind, read, layer, _shape(call.output), shape, first, activation, settings, held)

    def _applied(self, name: str, call: Operation, weight: Any) -> tuple[str, dict[str, Any], dict[str, Held]]:
        """Weights, or a product of two things that come from the input."""
        if not isinstance(weight, Tensor):
            return ("product" if name in room.PRODUCTS else "weight"), {}, {}
        if name == "addmm" or name in room.CONVOLUTIONS:
            bias = call.argument(0, "input") if name == "addmm" else call.argument(2, "bias")
            both = {"weight": weight, "bias": bias}
            named = {role: self._hold(one, False) for role, one in both.items() if isinstance(one, Tensor)}
            return "weight", {"second": call.given[-1] is weight}, named
        if (name != "linear" and name not in MATRIX_PRODUCTS) or weight.dim() != 2:
            return "weight", {}, {"table": self._hold(weight, False)} if name == "embedding" else {}
        flat = call.output.dim() == 2 and call.given[0].dim() == 2
        held = {"weight": self._hold(weight, flat, transposed=name != "linear")}
        bias = call.argument(2, "bias") if name == "linear" else None
        if isinstance(bias, Tensor):
            held["bias"] = self._hold(bias, flat)
        return "weight", {"second": call.given[-1] is weight}, held

    def _norm(self, name: str, call: Operation) -> tuple[dict[str, Any], dict[str, Held]]:
        place = _NORMS.get(name)
        if place is None:
            return {}, {}
        weight, eps, others = place
        settings = {key: call.argument(position, key, default) for key, (position, default) in others.items()}
        if eps:
            # What torch takes for eps=None.
            value = call.argument(eps, "eps", None if name == "rms_norm" else 1e-5)
            settings["eps"] = float(torch.finfo(call.output.dtype).eps if value is None else value)
        held = {}
        roles = (("weight", weight), ("bias", weight + 1)) if name != "rms_norm" else (("weight", weight),)
        for role, position in roles if weight else ():
            tensor = call.argument(position, role)
            if isinstance(tensor, Tensor):
                held[role] = self._hold(tensor, call.output.dim() == 2)
        return settings, held

    def _scale(self, name: str, call: Operation) -> tuple[dict[str, Any], dict[str, Held]]:
        """The number that a tensor is multiplied by, if it is one."""
        if name == "neg":
            return {"factor": -1.0}, {}
        if name not in _PRODUCTS_BY_NUMBERS | _QUOTIENTS or len(call.args) != 2:
            return {}, {}
        signals = [isinstance(value, Tensor) and self._tags.of(value) is not None for value in call.args]
        if all(signals):
            return {}, {}
        other = call.args[signals.index(False)]
        if name in _QUOTIENTS and other is not call.args[1]:
            return {}, {}  # a number over the signal is no scale
        power = {"power": -1.0} if name in _QUOTIENTS else {"power": 1.0}
        if isinstance(other, Tensor):
            if is_parameter(other) and id(other) in self._names:
                return power, {"factor": Held(self._names[id(other)])}
            number = constant(other) if 0 < other.numel() <= _LARGEST_FACTOR else None
        else:
            number = float(other) if isinstance(other, (int, float)) else None
        return ({}, {}) if number is None else ({"factor": number, **power}, {})

    def _rotation(self, call: Operation) -> dict[str, Any]:
        """How a table that a signal is multiplied by turns features, if it does."""
        tables = [one for one in call.given if self._tags.of(one) is None]
        angles = rotation_of(tables[0]) if len(tables) == 1 else ()
        return {"rotation": angles} if angles else {}

    def _added(self, call: Operation) -> str:
        """What is added to a signal, looked at as a mask."""
        others = [one for one in call.given if self._tags.of(one) is None]
        return mask_of(others[0].detach()) if len(others) == 1 and others[0].is_floating_point() else "other"

    def _hold(self, tensor: Tensor, wanted: bool, *, transposed: bool = False) -> Held:
        """A parameter by its name, and of a computed tensor what is read of it where that is wanted."""
        name = self._names.get(id(tensor), "") if is_parameter(tensor) else ""
        readable = self._whole and tensor.numel() > 0 and tensor.layout is torch.strided
        if name or not wanted or not readable:
            return Held(name)
        return Held(numbers=numbers_of(tensor.mT if transposed else tensor))


# Where the arguments of a normalisation are: weight, eps, and others with their defaults.
_NORMS: Mapping[str, tuple[int, int, Mapping[str, tuple[int, Any]]]] = {
    "batch_norm": (3, 7, {"training": (5, False)}),
    "layer_norm": (2, 4, {"normalized_shape": (1, ())}),
    "rms_norm": (2, 3, {"normalized_shape": (1, ())}),
    "group_norm": (2, 4, {"num_groups": (1, 1)}),
    "normalize": (0, 0, {"p": (1, 2.0), "dim": (2, 1)}),
}


def _hands_on(name: str, call: Operation) -> bool:
    """Whether what comes out is what came in, entry by entry and sample by sample."""
    if name in room.DROPOUTS:  # out of training: what drops nothing in training is a site
        return True
    if name not in _SAME_ENTRIES or not call.given:
        return False
    before, after = call.given[0], call.output
    return before.dtype == after.dtype and before.numel() == after.numel() and before.shape[:1] == after.shape[:1]


def _same_shapes(call: Operation) -> bool:
    if len(call.args) < 2 or not all(isinstance(value, Tensor) for value in call.args[:2]):
        return False
    return bool(call.args[0].shape == call.args[1].shape == call.output.shape)


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return () if tensor.is_nested else tuple(tensor.shape)


def _maker(tensor: Tensor) -> Any:
    """The node of the graph that made a tensor."""
    try:
        return tensor.grad_fn
    except RuntimeError:  # a view made without gradients, written to with them: torch will not say
        return None
