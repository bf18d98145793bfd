"""One training of one size, watched: sizes of activations, of their changes, of gradients and of updates."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from isometer.doctor.probe._calling import call
from isometer.doctor.probe._examine import probe
from isometer.doctor.probe._tensor_trees import dense, map_tensors, owned
from isometer.doctor.scaling._roles import Role, Roles
from isometer.doctor.scaling._rules import FIXED, OUTPUT, VECTOR
from isometer.doctor.scaling._update_effects import (
    along,
    effects_on_layer,
    effects_on_output,
    noting_gradients,
    rms,
)
from isometer.errors import unknown_name

Tensor = torch.Tensor
MODEL = Role("model", "model")
STREAM = Role("stream", "stream", repeated=True)


@dataclass(frozen=True)
class Quantity:
    """Something that is measured, of the parameters or layers of one role."""

    name: str
    role: Role


@dataclass(eq=False)
class Record:
    """One training: by quantity a number per step; several layers of a role as their geometric mean.

    Attributes:
        values: step 0 is before training; what belongs to an update is filed under the step that it leads to.
        losses: before each step, and after the last.
        shape: shape of the output.
        skip: median cosine between input and output of the repeated blocks, nan where there are none.
    """

    values: dict[Quantity, list[float]] = field(default_factory=lambda: defaultdict(list))
    losses: list[float] = field(default_factory=list)
    shape: tuple[int, ...] = ()
    skip: float = math.nan


@dataclass(eq=False)
class _Seen:
    """What one pass shows."""

    inputs: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    outputs: dict[str, Tensor] = field(default_factory=dict)
    logits: Tensor | None = None
    gradients: dict[str, Tensor] = field(default_factory=dict)


def train_and_measure(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    loss: Callable[[nn.Module], Tensor] | None,
    inputs: Any,
    roles: Roles,
    steps: int,
    metrics: Sequence[str] = (),
) -> Record:
    """Train a model on one batch and measure before, between and after the steps.

    Args:
        model: is changed.
        optimizer: of its parameters; None for no steps.
        loss: of the model on the batch; None for no steps.
        inputs: of the batch.
        roles: of the parameters.
        steps: optimizer steps.
        metrics: further measurements of `isometer.probe`, by site.
    """
    record = Record()
    owners = _owners(model, roles)
    first = last = None
    for step in range(steps + 1):
        seen = _observed(model, inputs, [*{*owners.values()}], roles.blocks)
        _activations(record, seen, first, last, owners, roles)
        _sites(record, model, inputs, metrics)
        first, last = (seen if first is None else first), seen
        if step == steps or optimizer is None or loss is None:
            break
        before = {name: one.detach().clone() for name, one in model.named_parameters()}
        with noting_gradients(model, ["", *owners.values(), *roles.blocks[-1:]], seen.gradients):
            value = loss(model)
        record.losses.append(float(value.detach()))
        if not math.isfinite(record.losses[-1]):
            break
        optimizer.zero_grad(set_to_none=True)
        value.backward()  # type: ignore[no-untyped-call]
        _add(record, "gradient", roles, {n: p.grad for n, p in model.named_parameters() if p.grad is not None})
        optimizer.step()
        _updates(record, model, inputs, before, seen, owners, roles)
    if loss is not None and optimizer is not None and len(record.losses) == steps:
        with torch.no_grad():
            record.losses.append(float(loss(model)))
    return record


def _owners(model: nn.Module, roles: Roles) -> dict[str, str]:
    """The module that holds each parameter that is trained."""
    return {name: name.rpartition(".")[0] for name, one in model.named_parameters() if one.requires_grad}


@contextmanager
def _watching(model: nn.Module, names: Sequence[str], seen: _Seen) -> Iterator[None]:
    modules, handles = dict(model.named_modules()), []

    def before(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: Any, named: Any) -> None:
            seen.inputs.setdefault(name, (_kept(arguments), _kept(named)))

        return hook

    def after(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: Any, output: Any) -> None:
            found = dense(output)
            if found:
                seen.outputs.setdefault(name, found[0].detach().clone())

        return hook

    try:
        for name in names:
            handles.append(modules[name].register_forward_pre_hook(before(name), with_kwargs=True))
            handles.append(modules[name].register_forward_hook(after(name)))
        yield
    finally:
        for one in handles:
            one.remove()


def _kept(tree: Any) -> Any:
    return map_tensors(lambda tensor: tensor.detach().clone(), tree)


def _observed(model: nn.Module, inputs: Any, owners: Sequence[str], blocks: Sequence[str]) -> _Seen:
    """A pass of its own, with the same random numbers each time: what dropout does is no change."""
    seen = _Seen()
    names = [*dict.fromkeys([*owners, *blocks])]
    with torch.random.fork_rng(devices=[]), torch.no_grad(), _watching(model, names, seen):
        torch.default_generator.manual_seed(0)
        found = dense(call(model, owned(inputs)))
    seen.logits = found[0].detach().clone() if found else None
    return seen


def _activations(
    record: Record, seen: _Seen, first: _Seen | None, last: _Seen | None, owners: Mapping[str, str], roles: Roles
) -> None:
    weights = {owners[name]: name for name in reversed(list(owners)) if roles.of[name].group not in (VECTOR, FIXED)}
    shown = {weights[name]: one for name, one in seen.outputs.items() if name in weights}
    _add(record, "activation", roles, shown)
    if seen.logits is not None:
        record.values[Quantity("logits", MODEL)].append(rms(seen.logits))
        record.shape = tuple(seen.logits.shape)
    _branches(record, seen, roles.blocks)
    if first is None or last is None:
        return
    for word, earlier in (("change", first), ("step_change", last)):
        moved = {weights[name]: one - earlier.outputs[name] for name, one in seen.outputs.items() if name in weights}
        _add(record, f"activation_{word}", roles, moved)
        if seen.logits is not None and earlier.logits is not None:
            _changes(record, f"logits_{word}", MODEL, seen.logits - earlier.logits, earlier.gradients.get(""))
        ends = [name for name in roles.blocks if name in seen.outputs]
        if ends:
            change, gradient = seen.outputs[ends[-1]] - earlier.outputs[ends[-1]], earlier.gradients.get(ends[-1])
            _changes(record, f"stream_{word}", STREAM, change, gradient)


def _changes(record: Record, name: str, role: Role, change: Tensor, gradient: Tensor | None) -> None:
    record.values[Quantity(name, role)].append(along(change, gradient))
    record.values[Quantity(f"{name}_rms", role)].append(rms(change))


def _cosine(left: Tensor, entered: Tensor) -> float:
    """Of a block's output with its input, less the mean of the samples: without a skip it is near zero."""
    both = [one.detach().double() for one in (left, entered)]
    if len(left) > 1:
        both = [one - one.mean(0, keepdim=True) for one in both]
    return float(nn.functional.cosine_similarity(both[0].flatten(), both[1].flatten(), dim=0))


def _branches(record: Record, seen: _Seen, blocks: Sequence[str]) -> None:
    added, cosines, last = [], [], None
    for name in blocks:
        entered = dense(seen.inputs.get(name))
        left = seen.outputs.get(name)
        if left is None:
            continue
        last = left
        if entered and entered[0].shape == left.shape:
            added.append(rms(left - entered[0]))
            cosines.append(_cosine(left, entered[0]))
    if last is not None:
        record.values[Quantity("stream", STREAM)].append(rms(last))
    if added:
        record.values[Quantity("branch", STREAM)].append(_geometric(added))
        if math.isnan(record.skip):
            record.skip = sorted(cosines)[len(cosines) // 2]


def _updates(
    record: Record,
    model: nn.Module,
    inputs: Any,
    before: Mapping[str, Tensor],
    seen: _Seen,
    owners: Mapping[str, str],
    roles: Roles,
) -> None:
    now = dict(model.named_parameters())
    sizes = {name: rms(one) for name, one in before.items()}
    relative = {n: rms(now[n] - before[n]) / sizes[n] for n in owners if sizes[n] > 0}
    _add_numbers(record, "relative_update", roles, relative)
    modules = dict(model.named_modules())
    last = {owners[name] for name in owners if roles.of[name].group == OUTPUT}
    effects: dict[str, tuple[float, float]] = {}
    with torch.no_grad():
        for owner in dict.fromkeys(owners.values()):
            if owner in last or owner not in seen.inputs:
                continue  # seen at the output; never called, or its weights are read by another module
            mine = [name for name, one in owners.items() if one == owner]
            gradient = seen.gradients.get(owner)
            effects |= effects_on_layer(modules[owner], owner, mine, seen.inputs[owner], before, now, roles, gradient)
    if seen.logits is not None:
        mine = [name for name, owner in owners.items() if owner in last]
        effects |= effects_on_output(model, mine, inputs, before, seen.logits, seen.gradients.get(""), roles)
    _add_numbers(record, "update", roles, {name: aligned for name, (aligned, _) in effects.items()})
    _add_numbers(record, "update_rms", roles, {name: whole for name, (_, whole) in effects.items()})


def _sites(record: Record, model: nn.Module, inputs: Any, metrics: Sequence[str]) -> None:
    """Measurements of the probe; of several sites of one module their geometric mean."""
    if not metrics:
        return
    found = probe(model, owned(inputs), seed=0)
    for metric in metrics:
        if metric not in found.values:
            raise unknown_name("metric", metric, found.values)
        by_label: dict[str, list[float]] = defaultdict(list)
        for site, value in zip(found.sites[1:], found.values[metric][1:], strict=True):
            by_label[site.name].append(float(value))
        for label, values in by_label.items():
            record.values[Quantity(metric, Role("site", label))].append(_geometric(values))


def _add(record: Record, name: str, roles: Roles, tensors: Mapping[str, Tensor]) -> None:
    _add_numbers(record, name, roles, {one: rms(tensor) for one, tensor in tensors.items()})


def _add_numbers(record: Record, name: str, roles: Roles, numbers: Mapping[str, float]) -> None:
    by_role: dict[Role, list[float]] = defaultdict(list)
    for parameter, number in numbers.items():
        by_role[roles.of[parameter]].append(number)
    for role, found in by_role.items():
        record.values[Quantity(name, role)].append(_geometric(found))


def _geometric(numbers: Sequence[float]) -> float:
    """The geometric mean of those that are not zero."""
    positive = [one for one in numbers if one > 0]
    if not positive or not all(map(math.isfinite, numbers)):
        return math.nan if not all(map(math.isfinite, numbers)) else 0.0
    return math.exp(sum(map(math.log, positive)) / len(positive))
