"""The flow of data through a model: which operation reads what, with the numbers that a spec needs.

A probe knows the order of its sites, not what each of them reads. `flow` runs the model once more, on a few synthetic
samples of the same shape, and records every operation as a node. Where that is not possible (several inputs, integer
inputs, a model that raises), the nodes are those of the probe, each reading the one before if the depths allow it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from isometer.activations._names import find_call, find_torch
from isometer.doctor.probe import _sites as room
from isometer.doctor.probe._examination import Examination
from isometer.doctor.probe._sites import Site
from isometer.doctor.probe._subject import Subject
from isometer.doctor.probe._tensor_trees import tensors
from isometer.spec import Norm

Tensor = torch.Tensor
_SAMPLES = 2  # of the run that records the flow
_SAME_ENTRIES = frozenset(
    {"view", "reshape", "flatten", "unflatten", "contiguous", "clone", "detach", "squeeze", "unsqueeze", "alias"}
    | {"to", "float", "double", "type_as", "view_as", "reshape_as", "requires_grad"}
)
_PRODUCTS_BY_NUMBERS = frozenset({"mul", "__mul__", "__rmul__", "__imul__", "multiply"})
_QUOTIENTS = frozenset({"div", "__truediv__", "__div__", "__itruediv__", "true_divide", "divide"})


@dataclass(frozen=True, eq=False)
class Node:
    """One operation. `inputs` are indices of nodes; `reason` says why it is no step of a spec, if it is not."""

    kind: str  # input, weight, norm, activation, add, scale or other
    name: str
    inputs: tuple[int, ...] = ()
    weight: Tensor | None = None  # (out, in)
    bias: Tensor | None = None
    norm: Norm | None = None
    activation: str | None = None
    factors: tuple[float, ...] = (1.0,)  # of the inputs of additions, of the input of a scale
    reason: str = ""
    site: int | None = None


@dataclass(frozen=True, eq=False)
class Flow:
    """Nodes in the order of execution; `seen` is false where they were inferred from the order of the sites."""

    nodes: tuple[Node, ...]
    seen: bool

    def consumers(self) -> list[list[int]]:
        """For each node those which read it."""
        readers: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes):
            for source in node.inputs:
                readers[source].append(index)
        return readers


def flow(subject: Subject, examination: Examination) -> Flow:
    """The operations of a model and what each reads, with the sites of a probe that belong to them.

    Example:
        >>> from isometer.doctor import probe
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        >>> [(node.kind, node.inputs) for node in flow(Subject(model), probe(model, torch.ones(2, 3))).nodes]
        [('input', ()), ('weight', (0,)), ('activation', (1,))]
    """
    start = examination.sites[0]
    dtype = getattr(torch, start.dtype, None) if start.dtype else None
    if dtype is not None and dtype.is_floating_point and len(start.shape) > 1:
        # Two samples are cheap; a model with a batch size of its own takes only that.
        for samples in dict.fromkeys((_SAMPLES, start.shape[0])):
            nodes = _recorded(subject, (samples, *start.shape[1:]), dtype)
            if nodes is None:
                continue
            matched = _matched(nodes, examination.sites)
            if matched is not None:
                return Flow(matched, True)
            break  # with more samples the same operations would be recorded
    return Flow(_from_sites(subject.original, examination.sites), False)


def _recorded(subject: Subject, shape: tuple[int, ...], dtype: torch.dtype) -> list[Node] | None:
    device = next((p.device for p in subject.original.parameters()), torch.device("cpu"))
    draw = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device=device, dtype=dtype)
    recorder = _GraphRecorder(draw)

    def record(model: nn.Module) -> list[Node]:
        with torch.no_grad(), recorder.modules_of(model), recorder:
            model(draw)
        return recorder.nodes

    with contextlib.suppress(Exception):  # a model may take no such input, and raise anything
        return subject.run(record, seed=0)
    return None


class _GraphRecorder(TorchFunctionMode):
    """Every torch function whose arguments come from the input, as a node."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.nodes = [Node("input", "input")]
        self._of: dict[int, int] = {id(start): 0}
        self._alive: list[Tensor] = [start]  # so that no identity is used twice
        self._inside = 0  # modules that are one node: what they calculate is not seen

    @contextlib.contextmanager
    def modules_of(self, model: nn.Module) -> Iterator[None]:
        """Makes one node of each module, other than torch's own, which the registry knows."""
        with contextlib.ExitStack() as hooks:
            for module in model.modules():
                found = None if type(module).__module__.startswith("torch.") else find_torch(module)
                if found is not None:
                    hooks.callback(module.register_forward_pre_hook(self._enter).remove)
                    hooks.callback(module.register_forward_hook(partial(self._leave, found.text)).remove)
            yield

    def _enter(self, module: nn.Module, args: Any) -> None:
        self._inside += 1

    def _leave(self, text: str, module: nn.Module, args: Any, output: Any) -> None:
        self._inside -= 1
        read = [self._of[id(tensor)] for tensor in tensors(args) if id(tensor) in self._of]
        if read and isinstance(output, Tensor) and not self._inside:
            self.nodes.append(Node("activation", type(module).__name__, (read[0],), activation=text))
            self._of[id(output)] = len(self.nodes) - 1
            self._alive.append(output)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if self._inside:
            return func(*args, **kwargs)
        given = [*tensors(args), *tensors(kwargs)]
        read = [self._of[id(tensor)] for tensor in given if id(tensor) in self._of]
        before = given[0] if given else None
        # Read before the call, which may reshape in place.
        shape = None if before is None else before.shape
        output = func(*args, **kwargs)
        made = [tensor for tensor in tensors(output) if tensor.is_floating_point()]
        if not read or not made:
            return output
        name = getattr(func, "__name__", "")
        name = name.removeprefix("_") if name[:2] != "__" else name
        name = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        index = read[0]
        if not self._hands_on(name, args, kwargs, given, made):
            self.nodes.append(_node(name, args, kwargs, given, self._of, made[0], shape))
            index = len(self.nodes) - 1
        for tensor in made:
            self._of[id(tensor)] = index
            self._alive.append(tensor)
        return output

    def _hands_on(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], given: Sequence[Tensor], made: Sequence[Tensor]
    ) -> bool:
        if name in room.DROPOUTS:
            return not _argument(args, kwargs, 2, "training", True) or _argument(args, kwargs, 1, "p", 0.5) == 0
        same = made[0].dtype == given[0].dtype and made[0].numel() == given[0].numel() and len(made) == 1
        return name in _SAME_ENTRIES and same and made[0].shape[:1] == given[0].shape[:1]


def _node(
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    given: Sequence[Tensor],
    known: Mapping[int, int],
    output: Tensor,
    shape: torch.Size | None,
) -> Node:
    read = tuple(known[id(tensor)] for tensor in given if id(tensor) in known)
    kind = room.kind_of(name)
    flat = output.dim() == 2 and shape is not None and len(shape) == 2
    if name in room.PRODUCTS or kind == "weight":
        return _weight_node(name, args, kwargs, given, known, read, flat)
    if kind == "norm":
        norm = _norm(name, args, kwargs, output)
        reason = norm if isinstance(norm, str) else "" if flat else f"{name} acts on more than (samples, features)"
        return Node("norm", name, read[:1], norm=None if isinstance(norm, str) else norm, reason=reason)
    if kind == "activation":
        found = find_call(name, args, kwargs) if len(read) == 1 else None
        if found is None:
            return Node("activation", name, read[:1], reason=f"{name} is not in the registry")
        return Node("activation", name, read[:1], activation=found.text)
    if name in room.ADDITIONS and len(read) == 2 and len(args) >= 2 and args[0].shape == args[1].shape == output.shape:
        second = float(kwargs.get("alpha", 1.0)) * (-1.0 if "sub" in name else 1.0)
        return Node("add", name, read, factors=(1.0, second))
    factor = _factor(name, args, known) if len(read) == 1 else None
    if factor is not None:
        return Node("scale", name, read, factors=(factor,))
    return Node("other", name, read, reason=f"{name} is no step of the theory's layer")


def _weight_node(
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    given: Sequence[Tensor],
    known: Mapping[int, int],
    read: tuple[int, ...],
    flat: bool,
) -> Node:
    if name == "linear":
        weight, bias = _argument(args, kwargs, 1, "weight"), _argument(args, kwargs, 2, "bias")
        reason = "" if flat else "linear acts on more than (samples, features)"
        if len(read) != 1 or id(given[0]) not in known:
            reason = "the weights of a layer are computed from the input"
        return Node("weight", name, read[:1], weight=weight.detach(), bias=_detached(bias), reason=reason)
    operands = list(given[-2:])
    free = [t for t in operands if id(t) not in known]
    trained = [t for t in free if t.requires_grad or isinstance(t, nn.Parameter) or isinstance(t._base, nn.Parameter)]
    if name in room.PRODUCTS and not trained:
        return Node("other", name, read, reason=f"{name} multiplies two things that come from the input")
    if name in ("matmul", "mm", "__matmul__", "addmm") and flat and len(operands) == 2 and operands[1] is trained[0]:
        bias = given[0] if name == "addmm" else None
        plain = bias is None or (bias.dim() == 1 and kwargs.get("beta", 1) == 1 and kwargs.get("alpha", 1) == 1)
        reason = "" if plain else "addmm scales or adds a matrix"
        return Node("weight", name, read[:1], weight=trained[0].detach().mT, bias=_detached(bias), reason=reason)
    return Node("weight", name, read[:1], reason=f"{name} is not a fully connected layer")


def _norm(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], output: Tensor) -> Norm | str:
    """The normalisation as a spec has it, or why there is none."""
    width = output.shape[-1]
    if name == "batch_norm":
        if not _argument(args, kwargs, 5, "training", False):
            return "batch norm uses running statistics; the theory has those of the batch — probe in train mode"
        return _with_affine(args, kwargs, 3, 7, {}, 1e-5)
    if name in ("layer_norm", "rms_norm"):
        if tuple(_argument(args, kwargs, 1, "normalized_shape", ())) != (width,):
            return f"{name} does not normalise over the features"
        if name == "rms_norm":
            return _with_affine(args, kwargs, 2, 3, {"over": "features", "recenter": False}, None, output, bias=False)
        return _with_affine(args, kwargs, 2, 4, {"over": "features"}, 1e-5)
    if name == "group_norm":
        groups = int(_argument(args, kwargs, 1, "num_groups", 1))
        return _with_affine(args, kwargs, 2, 4, {"over": "groups", "groups": groups}, 1e-5)
    if name == "normalize":
        plain = _argument(args, kwargs, 1, "p", 2.0) == 2 and _argument(args, kwargs, 2, "dim", 1) in (1, -1)
        return Norm(over="features", recenter=False, size="length") if plain else "normalize is not over the features"
    return f"{name} has no counterpart in a spec"


def _with_affine(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    weight: int,
    eps: int,
    fields: Mapping[str, Any],
    default: float | None,
    output: Tensor | None = None,
    *,
    bias: bool = True,
) -> Norm | str:
    scale = _constant(_argument(args, kwargs, weight, "weight"), 1.0)
    shift = _constant(_argument(args, kwargs, weight + 1, "bias"), 0.0) if bias else 0.0
    if scale is None or shift is None:
        return "the affine part of a normalisation differs from feature to feature"
    value = _argument(args, kwargs, eps, "eps", default)
    if value is None and output is not None:
        value = torch.finfo(output.dtype).eps  # what torch takes for eps=None
    return Norm(**fields, eps=float(value), scale=scale, shift=shift)


def _constant(values: Tensor | None, default: float) -> float | None:
    """The one value of a tensor, `None` if there are several."""
    if values is None:
        return default
    first = values.detach().flatten()[0]
    return float(first) if bool((values == first).all()) else None


def _factor(name: str, args: Sequence[Any], known: Mapping[int, int]) -> float | None:
    """The number that a tensor is multiplied by."""
    if name == "neg":
        return -1.0
    if name not in _PRODUCTS_BY_NUMBERS | _QUOTIENTS or len(args) != 2:
        return None
    other = next((value for value in args if not (isinstance(value, Tensor) and id(value) in known)), None)
    if isinstance(other, Tensor):
        number = _constant(other, 1.0) if other.numel() else None
    else:
        number = float(other) if isinstance(other, (int, float)) else None
    if number is None or not math.isfinite(number):
        return None
    if name in _QUOTIENTS:
        return 1.0 / number if number and other is args[1] else None  # a number over the signal is no scale
    return number


def _argument(args: Sequence[Any], kwargs: Mapping[str, Any], position: int, name: str, default: Any = None) -> Any:
    return args[position] if len(args) > position else kwargs.get(name, default)


def _detached(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.detach()


# --- sites ------------------------------------------------------------------------------------------------------------


def _matched(nodes: Sequence[Node], sites: Sequence[Site]) -> tuple[Node, ...] | None:
    """Nodes with their sites: weights in order, and between two of them each kind in order where the counts agree."""
    found: list[int | None] = [None] * len(nodes)
    for left, right in zip(_pieces([n.kind for n in nodes]), _pieces([s.kind for s in sites]), strict=False):
        for kind in ("input", "weight", "norm", "activation", "add"):
            ours = [i for i in left if nodes[i].kind == kind]
            theirs = [i for i in right if sites[i].kind == kind]
            if len(ours) == len(theirs):
                for ours_, theirs_ in zip(ours, theirs, strict=True):
                    found[ours_] = theirs_
    if sum(n.kind == "weight" for n in nodes) != sum(s.kind == "weight" for s in sites):
        return None
    return tuple(replace(node, site=site) for node, site in zip(nodes, found, strict=True))


def _pieces(kinds: Sequence[str]) -> Iterator[list[int]]:
    piece: list[int] = []
    for index, kind in enumerate(kinds):
        if kind == "weight":
            yield piece
            piece = []
        piece.append(index)
    yield piece


def _from_sites(model: nn.Module, sites: Sequence[Site]) -> tuple[Node, ...]:
    parameters = {id(p): p for p in model.parameters()}
    modules = dict(model.named_modules())
    nodes: list[Node] = []
    for index, site in enumerate(sites):
        node = _node_of_site(site, parameters, modules.get(site.name))
        expected = sites[index - 1].depth + (site.kind == "weight") if index else 0
        fits = index > 0 and site.depth == expected and site.kind != "add"
        if fits and node.weight is not None:
            fits = math.prod(sites[index - 1].shape[1:]) == node.weight.shape[1]
        after = sites[index + 1].kind if index + 1 < len(sites) else ""
        if site.followed and after != ("norm" if site.normalized else "activation"):
            node = replace(node, reason="the probe left out what follows the weights")
        nodes.append(replace(node, inputs=(index - 1,) if fits else (), site=index))
    return tuple(nodes)


def _node_of_site(site: Site, parameters: Mapping[int, Tensor], module: nn.Module | None) -> Node:
    flat = len(site.shape) == 2
    if site.kind == "input":
        return Node("input", "input")
    if site.kind == "activation":
        reason = "" if site.activation else f"{site.op} is not in the registry"
        return Node("activation", site.op, activation=site.activation, reason=reason)
    weight = parameters.get(site.parameters[0]) if len(site.parameters) == 1 else None
    if site.kind == "weight" and isinstance(module, nn.Linear) and weight is not None and flat:
        return Node("weight", site.op, weight=weight.detach(), bias=_detached(module.bias))
    if site.kind == "norm" and flat and module is not None:
        with contextlib.suppress(AttributeError, TypeError):
            norm = _module_norm(module, site.shape[-1])
            if norm is not None:
                return Node("norm", site.op, norm=norm)
    reason = f"{site.op} is no step of the theory's layer, or acts on more than (samples, features)"
    return Node("weight" if site.kind == "weight" else "other", site.op, reason=reason)


def _module_norm(module: nn.Module, width: int) -> Norm | None:
    like = torch.empty(1, width, dtype=next((p.dtype for p in module.parameters()), torch.float32))
    found: Norm | str
    if isinstance(module, nn.BatchNorm1d):
        # Without running statistics a batch norm uses those of the batch in either mode.
        training = module.training or module.running_mean is None
        found = _norm("batch_norm", (like, None, None, module.weight, module.bias, training, 0.1, module.eps), {}, like)
    elif isinstance(module, nn.LayerNorm):
        found = _norm("layer_norm", (like, module.normalized_shape, module.weight, module.bias, module.eps), {}, like)
    elif isinstance(module, nn.RMSNorm):
        found = _norm("rms_norm", (like, module.normalized_shape, module.weight, module.eps), {}, like)
    else:
        return None
    return None if isinstance(found, str) else found
