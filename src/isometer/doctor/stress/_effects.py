"""What a step does to a model: outputs, loss, values and weights before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from isometer.doctor.probe._calling import call
from isometer.doctor.probe._tensor_trees import dense, owned
from isometer.doctor.stress._optimizers import OptimizerChoice
from isometer.doctor.stress._race import Track

Tensor = torch.Tensor
_GROWS = 10.0  # times larger: worth naming
_MOST = 5


@dataclass(frozen=True)
class StepEffects:
    """The effect of one step at the best rate, and of several.

    Attributes:
        rate: the learning rate.
        steps: after which values and weights are compared; output and loss are compared after one.
        output_change: size of the change of the outputs by one step, relative to the outputs.
        predicted: change of the loss of the batch that the gradient predicts for the step.
        actual: the change that there was.
        grown: modules whose largest value grew more than tenfold, with that factor, largest first; nan where a
            value was not a number.
        moved: modules whose weights changed most, relative to their size.
        unmoved: modules whose weights are trained and did not change at all.
        frozen: modules whose weights are not trained.
    """

    rate: float
    steps: int
    output_change: float
    predicted: float
    actual: float
    grown: tuple[tuple[str, float], ...]
    moved: tuple[tuple[str, float], ...]
    unmoved: tuple[str, ...]
    frozen: tuple[str, ...]


def effects(track: Track, choice: OptimizerChoice, rate: float, steps: int) -> StepEffects:
    """Measure them on the copy."""
    return track.subject.run(
        lambda model: _measured(model, track, choice, rate, steps), seed=track.seed, mode=track.mode
    )


def _measured(model: nn.Module, track: Track, choice: OptimizerChoice, rate: float, steps: int) -> StepEffects:
    before = _weights(model, track)
    own = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with _largest(model) as first:
        output = _output(model, track)
    loss = _loss(model, track)
    optimizer = choice.make(model, rate) if own else None
    predicted = actual = change = 0.0
    for step in range(steps):
        value = loss if step == 0 else _loss(model, track, step if track.material.fresh else 0)
        if optimizer is None or not value.requires_grad or not bool(value.isfinite()):
            break
        optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step == 0:
            predicted = sum(
                float((p.grad.double() * (p.detach() - before[name]).double()).sum())
                for name, p in own.items()
                if p.grad is not None and p.grad.layout is torch.strided
            )
            actual = float(_loss(model, track).detach()) - float(value.detach())
            change = _relative(_output(model, track), output)
    with _largest(model) as last:
        _output(model, track)
    grown = sorted(
        ((name, last[name] / size) for name, size in first.items() if 0 < size < math.inf and name in last),
        key=lambda one: -_size(one[1]),
    )
    moved = _moved(model, before)
    return StepEffects(
        rate,
        steps,
        change,
        predicted,
        actual,
        tuple(one for one in grown if not one[1] <= _GROWS)[:_MOST],
        tuple(sorted(((n, v) for n, v in moved.items() if v > 0), key=lambda one: -one[1])[:_MOST]),
        tuple(name for name, value in moved.items() if value == 0),
        tuple(_named(model, lambda p: not p.requires_grad)),
    )


def _weights(model: nn.Module, track: Track) -> dict[str, Tensor]:
    """The weights at the start: those of the original where a copy runs, since memory is scarce."""
    if track.subject.model is track.subject.original:
        return {name: p.detach().clone() for name, p in model.named_parameters()}
    return {name: p.detach() for name, p in track.subject.original.named_parameters()}


def _loss(model: nn.Module, track: Track, step: int = 0) -> Tensor:
    torch.default_generator.manual_seed(track.seed + step)  # the same dropout before and after
    return track.material.loss_of(model, track.material.batch(step))


def _output(model: nn.Module, track: Track) -> list[Tensor]:
    torch.default_generator.manual_seed(track.seed)
    with torch.no_grad():
        return [t.clone() for t in dense(call(model, owned(track.material.batch(0)[0])))]


def _relative(after: list[Tensor], before: list[Tensor]) -> float:
    size = math.sqrt(sum(float(t.double().square().sum()) for t in before))
    change = math.sqrt(
        sum(float((a.double() - b.double()).square().sum()) for a, b in zip(after, before, strict=False))
    )
    return change / size if size > 0 else (math.inf if change else 0.0)


def _size(value: float) -> float:
    """For comparisons: what is not a number counts as infinite."""
    return math.inf if math.isnan(value) else value


@contextmanager
def _largest(model: nn.Module) -> Iterator[dict[str, float]]:
    """Largest absolute value that each module without children returns, filled while the model runs."""
    found: dict[str, float] = {}
    handles = []
    for name, module in model.named_modules():
        if any(module.children()) or isinstance(module, torch.jit.ScriptModule):  # those take no hooks
            continue

        def note(_: nn.Module, __: Any, output: Any, name: str = name) -> None:
            for tensor in dense(output):
                try:
                    value = float(tensor.detach().abs().max())
                except RuntimeError:  # under vmap there is no number to read
                    continue
                found[name] = max(found.get(name, 0.0), value, key=_size)

        handles.append(module.register_forward_hook(note))
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _moved(model: nn.Module, before: dict[str, Tensor]) -> dict[str, float]:
    """Relative change of the weights of each module that has trained ones of its own."""
    found: dict[str, float] = {}
    for name, module in model.named_modules():
        pairs = [
            (p.detach().double(), before[key].double())
            for own, p in module.named_parameters(recurse=False)
            if p.requires_grad and (key := f"{name}.{own}" if name else own) in before
        ]
        if pairs:
            change = math.sqrt(sum(float((a - b).square().sum()) for a, b in pairs))
            size = math.sqrt(sum(float(b.square().sum()) for _, b in pairs))
            found[name] = change / size if size > 0 else (math.inf if change else 0.0)
    return found


def _named(model: nn.Module, which: Any) -> Iterator[str]:
    for name, module in model.named_modules():
        own = list(module.parameters(recurse=False))
        if own and all(which(p) for p in own):
            yield name
