"""Operations in a model's code that are likely defects, as repairs that take them out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import nn

from isometer.doctor.causes._bypass import BypassedCall, TakenOut, put_back
from isometer.doctor.causes._facts import FACTS
from isometer.doctor.causes._flow import ForwardFlow, reaching
from isometer.doctor.causes._gradient_cuts import gradient_cuts
from isometer.doctor.causes._repair import Repair
from isometer.doctor.causes._suspects import suspects
from isometer.doctor.causes._suspicion import SURE, Suspicion
from isometer.doctor.probe._call_sites import CodeLine
from isometer.doctor.probe._tensor_trees import tensors

Forward = Callable[[nn.Module], Any]
_COMPANY = 0.15  # what the same call in twice as many modules adds
_NAMED = 3  # modules that a sentence names


def operation_repairs(model: nn.Module, forward: Forward, *, samples: int) -> list[Repair]:
    """Find calls that are likely defects, and make a repair of each that takes the call out of the model.

    A call is a function, a line of code and the module that runs it; calls in a loop are one. Where several modules
    make the same call at the same line, there is one more repair that takes out all of them.

    Args:
        model: the model, or rather a copy of it: its buffers change as in any forward pass.
        forward: runs the model on a batch.
        samples: in that batch, along the first axis.

    Returns:
        Repairs of kind `operation`, the most suspicious first.

    Example:
        >>> class Net(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 1)
        ...     def forward(self, x):
        ...         return self.last(self.first(x).relu().detach())
        >>> model = Net()
        >>> repair = operation_repairs(model, lambda model: model(torch.randn(5, 4)), samples=5)[0]
        >>> repair.advice.split(" (")[0], repair.evidence
        ('Remove `detach()` in the model itself', '2 trained parameters get no gradient')
        >>> repair.change(model)
        >>> model(torch.randn(5, 4)).sum().backward()
        >>> model.first.weight.grad is None
        False
    """
    flow = ForwardFlow(model, samples=samples, facts=FACTS)
    flow.follow(forward)
    used = reaching(flow.outputs)
    order = {name: place for place, (name, _) in enumerate(model.named_modules())}
    found = sorted(_worst([*gradient_cuts(flow), *suspects(flow, used, samples)]), key=lambda one: order[one.module])
    sizes = [step.shape for step in flow.outputs]
    found = [one for one in found if one.certain or _runs_without(model, forward, one, sizes)]
    repairs = [_repair(group) for group in _groups(found)] + [_repair([one]) for one in found]
    return sorted(repairs, key=lambda repair: -repair.deviation)


def _worst(suspicions: Iterable[Suspicion]) -> list[Suspicion]:
    """One suspicion per call, the worst."""
    found: dict[tuple[str, str, CodeLine], Suspicion] = {}
    for one in suspicions:
        key = one.module, one.op, one.site
        if key not in found or one.deviation > found[key].deviation:
            found[key] = one
    return list(found.values())


def _groups(found: Sequence[Suspicion]) -> list[list[Suspicion]]:
    """Suspicions about the same call in several modules."""
    alike: dict[tuple[str, CodeLine, str], list[Suspicion]] = {}
    for one in found:
        alike.setdefault((one.op, one.site, one.advice), []).append(one)
    return [group for group in alike.values() if len(group) > 1]


def _repair(group: Sequence[Suspicion]) -> Repair:
    worst = max(group, key=lambda one: one.deviation)
    where = str(worst.site)
    place = _place([one.module for one in group]) + (f" ({where})" if where else "")
    return Repair(
        "operation",
        tuple(one.module for one in group),
        f"{worst.advice} in {place}.",
        worst.evidence,
        round(min(SURE, worst.deviation + _COMPANY * math.log2(len(group))), 2),
        _change(group),
        where,
    )


def _change(group: Sequence[Suspicion]) -> TakenOut:
    return TakenOut(tuple(BypassedCall(one.module, one.op, one.site, one.answer) for one in group))


def _place(names: Sequence[str]) -> str:
    named = [f"`{name}`" if name else "the model itself" for name in names[:_NAMED]]
    if len(names) > _NAMED:
        return f"{', '.join(named)} and {len(names) - _NAMED} more"
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def _runs_without(model: nn.Module, forward: Forward, one: Suspicion, sizes: Sequence[tuple[int, ...]]) -> bool:
    """Whether the model runs, and returns as much, with a call taken out that changes sizes."""
    _change([one])(model)
    sink: list[tuple[int, ...]] = []

    def note(module: nn.Module, args: Any, output: Any) -> None:
        sink.extend(tuple(tensor.shape) for tensor in tensors(output) if tensor.is_floating_point())

    handle = nn.Module.register_forward_hook(model, note)
    try:
        with torch.no_grad():
            forward(model)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return False
    finally:
        handle.remove()
        put_back(model)
    return sink == list(sizes)
