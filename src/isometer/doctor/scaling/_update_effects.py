"""What the update of one parameter does to the output of its layer, or of the model.

An update of a matrix with n inputs changes an output coordinate by a part that is aligned with the gradient, of order n
times the entries, and by a part without direction, of order √n times as many samples as there are: the sum over j of
sign(Σ_b δ_b x_bj) x_j is n for the samples b that made the update and √n for the others. At the widths that one can
afford, and many samples, the second hides the first, and neither exponent is that of theory. Training moves along the
first. So changes are measured along the gradient δ of the loss by that output, where it is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from isometer.doctor.probe._tensor_trees import dense, owned
from isometer.doctor.scaling._roles import Roles
from isometer.doctor.scaling._rules import HIDDEN, OUTPUT

Tensor = torch.Tensor


def rms(tensor: Tensor) -> float:
    """Root of the mean square, in float64.

    Example:
        >>> rms(torch.tensor([3.0, -3.0]))
        3.0
    """
    return math.sqrt(float(tensor.detach().double().square().mean())) if tensor.numel() else math.nan


def along(change: Tensor, gradient: Tensor | None) -> float:
    """The size per coordinate of the part of a change that is along a gradient; of the change if there is none.

    Example:
        >>> along(torch.tensor([5.0, 4.0, 1.0, 0.0]), torch.tensor([0.0, 2.0, 0.0, 0.0]))
        2.0
    """
    if gradient is None or gradient.shape != change.shape:
        return rms(change)
    direction = gradient.double()
    norm = float(direction.norm())
    if norm == 0:
        return 0.0
    return abs(float((change.detach().double() * direction).sum())) / norm / math.sqrt(change.numel())


@contextmanager
def noting_gradients(model: nn.Module, names: Sequence[str], found: dict[str, Tensor]) -> Iterator[None]:
    """Note the gradients by the first outputs of modules, where the first call of each gives one."""
    modules, handles, seen = dict(model.named_modules()), [], set()

    def hook_of(name: str) -> Callable[..., None]:
        def note(gradient: Tensor) -> None:
            found[name] = gradient.detach().clone()

        def hook(module: nn.Module, arguments: Any, output: Any) -> None:
            outputs = dense(output)
            if name not in seen and outputs and outputs[0].requires_grad:
                seen.add(name)
                outputs[0].register_hook(note)  # type: ignore[no-untyped-call]

        return hook

    try:
        for name in dict.fromkeys(names):
            handles.append(modules[name].register_forward_hook(hook_of(name)))
        yield
    finally:
        for one in handles:
            one.remove()


def effects_on_layer(
    module: nn.Module,
    owner: str,
    names: Sequence[str],
    inputs: tuple[Any, Any],
    before: Mapping[str, Tensor],
    now: Mapping[str, Tensor],
    roles: Roles,
    gradient: Tensor | None,
) -> dict[str, tuple[float, float]]:
    """What the update of each parameter changes in the output of its module, for the inputs that this had before.

    Returns:
        By name, the size of the change along the gradient, for matrices that sum over the width, and its whole size.
    """
    leaf = next(module.children(), None) is None
    found = {}
    changed: Tensor | None = None
    for name in names:
        if not leaf and roles.of[name].group not in (HIDDEN, OUTPUT):
            size = rms(now[name] - before[name])  # its module does much more than add it
            found[name] = (size, size)
            continue
        if changed is None:
            changed = _evaluated(module, {}, inputs)
        back = _evaluated(module, {name.removeprefix(f"{owner}.") if owner else name: before[name]}, inputs)
        if changed is not None and back is not None:
            change = changed - back
            found[name] = (along(change, gradient if roles.of[name].group == HIDDEN else None), rms(change))
    return found


def effects_on_output(
    model: nn.Module,
    names: Sequence[str],
    inputs: Any,
    before: Mapping[str, Tensor],
    logits: Tensor,
    gradient: Tensor | None,
    roles: Roles,
) -> dict[str, tuple[float, float]]:
    """The same for the model's output, where multipliers behind the last layer count too."""
    now = dict(model.named_parameters())
    found = {}
    for name in names:
        only = {**before, name: now[name].detach()}
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.default_generator.manual_seed(0)
            outputs = dense(_called_with(model, only, inputs))
        if outputs:
            change = outputs[0] - logits
            found[name] = (along(change, gradient if roles.of[name].group == OUTPUT else None), rms(change))
    return found


def _called_with(model: nn.Module, weights: Mapping[str, Tensor], inputs: Any) -> Any:
    given = owned(inputs)
    if isinstance(given, Mapping):
        return functional_call(model, dict(weights), (), dict(given))
    if isinstance(given, (tuple, list)) and not hasattr(given, "_fields"):
        return functional_call(model, dict(weights), tuple(given))
    return functional_call(model, dict(weights), (given,))


def _evaluated(module: nn.Module, weights: dict[str, Tensor], inputs: tuple[Any, Any]) -> Tensor | None:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        output = functional_call(module, weights, owned(inputs[0]), owned(inputs[1]))
    found = dense(output)
    return found[0].detach().clone() if found else None
