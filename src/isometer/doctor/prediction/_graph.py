"""The flow of data through a model as a spec sees it: a node per operation that the probe recorded.

Nothing is run. What the probe wrote down of an operation says whether it is a step of the theory's layer, and why not;
weights are those of the model, by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from isometer.doctor.probe._recorder import MATRIX_PRODUCTS
from isometer.doctor.probe._trace import Held, Numbers, TraceStep, constant
from isometer.spec import Norm

Tensor = torch.Tensor
Parameters = Mapping[str, Tensor]
_SITED = frozenset({"input", "weight", "norm", "activation", "add"})  # nodes that a chain is compared at


@dataclass(frozen=True, eq=False)
class Node:
    """One operation. `inputs` are indices of nodes; `reason` says why it is no step of a spec, if it is not."""

    kind: str  # input, weight, norm, activation, add, scale or other
    name: str
    inputs: tuple[int, ...] = ()
    weight: Tensor | Numbers | None = None  # (out, in)
    bias: Tensor | Numbers | None = None
    norm: Norm | None = None
    activation: str | None = None
    factors: tuple[float, ...] = (1.0,)  # of the inputs of additions, of the input of a scale
    reason: str = ""
    site: int | None = None


@dataclass(frozen=True, eq=False)
class Flow:
    """Nodes in the order of execution."""

    nodes: tuple[Node, ...]

    def consumers(self) -> list[list[int]]:
        """For each node those which read it."""
        readers: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes):
            for source in node.inputs:
                readers[source].append(index)
        return readers


def flow(model: nn.Module, trace: Sequence[TraceStep]) -> Flow:
    """The operations of a model, what each reads, and what it is in a spec.

    Args:
        model: the model that was probed.
        trace: what the probe recorded.

    Example:
        >>> from isometer.doctor import probe
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        >>> [(node.kind, node.inputs) for node in flow(model, probe(model, torch.ones(2, 3)).trace).nodes]
        [('input', ()), ('weight', (0,)), ('activation', (1,))]
    """
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    nodes: list[Node] = []
    place: list[int] = []  # of each step, among the nodes
    for step in trace:
        inputs = tuple(place[index] for index in step.inputs)
        if step.kind == "dropout" and step.settings["p"] == 0 and inputs:
            place.append(inputs[0])  # it hands on what it reads
            continue
        place.append(len(nodes))
        nodes.append(_node(step._replace(inputs=inputs), parameters))
    return Flow(tuple(nodes))


def _node(step: TraceStep, parameters: Parameters) -> Node:
    name, read = step.name, step.inputs
    common: dict[str, Any] = {"site": step.layer if step.kind in _SITED else None}
    if step.kind == "input":
        return Node("input", name, **common)
    if step.kind == "product":
        return Node("other", name, read, reason=f"{name} multiplies two things that come from the input")
    if step.kind == "weight":
        return _weight_node(step, parameters, **common)
    if step.kind == "norm":
        norm = _norm(step, parameters)
        reason = norm if isinstance(norm, str) else "" if step.flat else f"{name} acts on more than (samples, features)"
        return Node("norm", name, read[:1], norm=None if isinstance(norm, str) else norm, reason=reason, **common)
    if step.kind == "activation":
        reason = f"{name} is not in the registry" if step.activation is None else ""
        return Node("activation", name, read[:1], activation=step.activation, reason=reason, **common)
    if step.kind == "add":
        return Node("add", name, read, factors=(1.0, step.settings["alpha"]), **common)
    factor = _factor(step, parameters) if step.kind == "scale" else None
    if factor is not None:
        return Node("scale", name, read, factors=(factor,))
    return Node("other", name, read, reason=f"{name} is no step of the theory's layer")


def _weight_node(step: TraceStep, parameters: Parameters, site: int | None) -> Node:
    name, read = step.name, step.inputs
    weight, bias = (_held(step, role, parameters) for role in ("weight", "bias"))
    reason = ""
    if name == "linear":
        reason = "" if step.flat else "linear acts on more than (samples, features)"
        if len(read) != 1 or not step.first:
            reason = "the weights of a layer are computed from the input"
    elif not (name in MATRIX_PRODUCTS and step.flat and step.settings.get("second")):
        reason = f"{name} is not a fully connected layer"
    elif isinstance(weight, Tensor):
        weight = weight.mT
    if not reason and (weight is None or ("bias" in step.held and bias is None)):
        reason = "the weights of a layer are not known any more"
    return Node("weight", name, read[:1], weight, bias, reason=reason, site=site)


def _held(step: TraceStep, role: str, parameters: Parameters) -> Tensor | Numbers | None:
    held: Held | None = step.held.get(role)
    return None if held is None else held.of(parameters)


def _norm(step: TraceStep, parameters: Parameters) -> Norm | str:
    """The normalisation as a spec has it, or why there is none."""
    name, settings = step.name, step.settings
    if name == "batch_norm":
        if not settings["training"]:
            return "batch norm uses running statistics; theory uses those of the batch — probe in train mode"
        return _with_affine(step, parameters)
    if name in ("layer_norm", "rms_norm"):
        if tuple(settings["normalized_shape"]) != step.shape[-1:]:
            return f"{name} does not normalise over the features"
        return _with_affine(step, parameters, over="features", recenter=name == "layer_norm")
    if name == "group_norm":
        return _with_affine(step, parameters, over="groups", groups=int(settings["num_groups"]))
    if name == "normalize":
        plain = settings["p"] == 2 and settings["dim"] in (1, -1)
        return Norm(over="features", recenter=False, size="length") if plain else "normalize is not over the features"
    return f"{name} has no counterpart in a spec"


def _with_affine(step: TraceStep, parameters: Parameters, **fields: Any) -> Norm | str:
    scale, shift = _number(step, "weight", parameters, 1.0), _number(step, "bias", parameters, 0.0)
    if scale is None or shift is None:
        return "the affine part of a normalisation differs from feature to feature"
    return Norm(**fields, eps=step.settings["eps"], scale=scale, shift=shift)


def _number(step: TraceStep, role: str, parameters: Parameters, default: float) -> float | None:
    """The one value of a tensor that a step holds, `None` if there are several or it is not known."""
    if role not in step.held:
        return default
    value = _held(step, role, parameters)
    return value.constant if isinstance(value, Numbers) else None if value is None else constant(value)


def _factor(step: TraceStep, parameters: Parameters) -> float | None:
    """The number that a tensor is multiplied by."""
    number = step.settings.get("factor", _number(step, "factor", parameters, math.nan))
    if number is None or not math.isfinite(number):
        return None
    if step.settings.get("power", 1.0) < 0:
        return 1.0 / number if number else None
    return float(number)
