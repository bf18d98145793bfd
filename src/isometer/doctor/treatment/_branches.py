"""Residual branches: their scale, their place beside the normalisation, and skips where there are none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from isometer.doctor.treatment._norms import observe
from isometer.doctor.treatment._surgery import own_places, seen
from isometer.errors import IsometerError
from isometer.init import InitOutcome, fixup_
from isometer.init._targets import WeightTarget, targets

Tensor = torch.Tensor
_WEIGHTS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_SHORTCUTS = ("shortcut", "downsample", "skip", "proj_s")


class Skip(nn.Module):
    """`x + scale · branch(x)`.

    Example:
        >>> Skip(nn.Identity(), 0.5)(torch.ones(2)).tolist()
        [1.5, 1.5]
    """

    def __init__(self, branch: nn.Module, scale: float) -> None:
        super().__init__()
        self.branch, self.scale = branch, scale

    def extra_repr(self) -> str:
        return f"scale={self.scale:.4g}"

    def forward(self, x: Tensor) -> Tensor:
        """Add the branch."""
        return torch.add(x, self.branch(x), alpha=self.scale)


def scale_branches_(model: nn.Module, batch: Any) -> tuple[str, ...]:
    """Divide the last weights of every residual branch by √(number of branches), in place.

    The sum of L branches of equal size then grows by a factor of at most √e instead of √2^L. The bias is divided too.

    Args:
        model: the model.
        batch: what it is called with; the run shows which weights come last before each addition.

    Returns:
        Names of the layers that were scaled.

    Raises:
        IsometerError: fewer than two branches were found, or as `isometer.init.haar_orthogonal_`. The model is then as
            it was.

    Example:
        >>> model = nn.Sequential(Skip(nn.Linear(4, 4), 1.0), Skip(nn.Linear(4, 4), 1.0))
        >>> before = model[0].branch.weight.norm().item()
        >>> scale_branches_(model, torch.randn(3, 4))
        ('0.branch', '1.branch')
        >>> round(before / model[0].branch.weight.norm().item(), 4)
        1.4142
    """
    lasts = _last_of_branches(model, batch)
    found, _ = targets(model, lasts)
    factor = 1.0 / math.sqrt(len(lasts))
    with torch.no_grad():
        for t in found:
            t.weight.mul_(factor)
            if t.bias is not None:
                t.bias.mul_(factor)
    return tuple(t.name for t in found)


def fixup_blocks_(model: nn.Module, batch: Any, *, seed: int = 0) -> InitOutcome:
    """Fixup initialisation of the residual blocks that a run of the model shows, in place.

    Args:
        model: a residual network without normalisation.
        batch: what it is called with.
        seed: seed of the draw.

    Returns:
        What was done.

    Raises:
        IsometerError: the model normalises, fewer than two blocks were found, or as `isometer.init.fixup_`.

    Example:
        >>> def block() -> nn.Module:
        ...     return Skip(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), 1.0)
        >>> fixup_blocks_(nn.Sequential(block(), block(), nn.Linear(4, 2)), torch.randn(3, 4)).scheme
        'fixup'

    Implements: 004/init-fixup.
    """
    sites = seen(model, batch)
    norm = next((site.name for site in sites if site.kind == "norm"), None)
    if norm is not None:
        raise IsometerError(f"the model normalises at {norm!r}; Fixup is meant to replace that — remove it first")
    modules = dict(model.named_modules())
    # A sum in the model's own forward has a name that is no module's.
    blocks = list(dict.fromkeys(site.name for site in sites if site.kind == "add" and site.name in modules))
    blocks = [b for b in blocks if b and any(isinstance(m, _WEIGHTS) for m in modules[b].modules())]
    if len(blocks) < 2:
        raise IsometerError("fewer than two modules add a branch to their input; expected residual blocks")
    # Names are read as patterns there, where a bracket opens a set.
    return fixup_(model, [b.replace("[", "[[]") for b in blocks], seed=seed)


def _last_of_branches(model: nn.Module, batch: Any) -> list[str]:
    """The last layer of weights before every addition, shortcuts left out."""
    sites, modules = seen(model, batch), dict(model.named_modules())
    lasts: list[str] = []
    start = 0
    for index, site in enumerate(sites):
        if site.kind != "add":
            continue
        inside = [
            one.name
            for one in sites[start:index]
            if one.kind == "weight"
            and (one.name.startswith(f"{site.name}.") or not site.name)
            and not any(word in one.name.lower() for word in _SHORTCUTS)
            and isinstance(modules.get(one.name), _WEIGHTS)
        ]
        start = index + 1
        if inside:
            lasts.append(inside[-1])
    lasts = list(dict.fromkeys(lasts))
    if len(lasts) < 2:
        raise IsometerError("fewer than two residual branches with weights were found; expected a residual network")
    return lasts


def add_skips_(model: nn.Module, batch: Any) -> tuple[str, ...]:
    """Put skip connections around the parts of every `nn.Sequential`, with branches scaled by 1/√(their number).

    A part is a composite module with weights, or what stands between one layer of weights and the end of the next
    (normalisation, activation, weights). Only parts whose output has the shape of their input are wrapped. Modules that
    were taken into a branch leave an `nn.Identity` behind, so that all others keep their names.

    Args:
        model: the model.
        batch: what it is called with.

    Returns:
        Names of the places that now hold a branch.

    Raises:
        IsometerError: fewer than two parts qualify. The model is then as it was.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 4), *[m for _ in range(3) for m in (nn.ReLU(), nn.Linear(4, 4))])
        >>> add_skips_(model, torch.randn(5, 4))
        ('1', '3', '5')
    """
    shapes = _shapes(model, batch)
    adding = {site.name for site in seen(model, batch) if site.kind == "add"}
    parts: list[tuple[str, list[str]]] = []  # container, names of the children in the part
    for path, module in model.named_modules():
        if not isinstance(module, nn.Sequential):
            continue
        prefix = f"{path}." if path else ""
        if any(prefix.startswith(f"{p}.{c}." if p else f"{c}.") for p, names in parts for c in names):
            continue  # inside a part already
        if any(prefix.startswith(f"{name}.") for name in adding if name):
            continue  # inside a residual block
        for names in _runs(module, prefix, adding):
            first, last = f"{prefix}{names[0]}", f"{prefix}{names[-1]}"
            if first in shapes and last in shapes and shapes[first][0] == shapes[last][1]:
                parts.append((path, names))
    if len(parts) < 2:
        raise IsometerError(
            "fewer than two parts of nn.Sequential containers keep the shape of their input and have no skip yet; "
            "expected such parts — add the skips in the forward method"
        )
    own_places(model, [f"{p}.{c}" if p else c for p, names in parts for c in names])
    scale = 1.0 / math.sqrt(len(parts))
    for path, names in parts:
        container = model.get_submodule(path)
        members = [container.get_submodule(name) for name in names]
        training = members[0].training
        container._modules[names[0]] = Skip(members[0] if len(members) == 1 else nn.Sequential(*members), scale).train(
            training
        )
        for name in names[1:]:
            container._modules[name] = nn.Identity().train(training)
    return tuple(f"{path}.{names[0]}" if path else names[0] for path, names in parts)


def _runs(container: nn.Sequential, prefix: str, adding: set[str]) -> list[list[str]]:
    """Children that belong together, by their names."""
    runs: list[list[str]] = []
    current: list[str] = []
    for name, child in container.named_children():
        weights = [m for m in child.modules() if isinstance(m, _WEIGHTS)]
        if f"{prefix}{name}" in adding:
            current = []
        elif isinstance(child, _WEIGHTS):
            if current:  # something nonlinear came before
                runs.append([*current, name])
            current = []
        elif weights:
            runs.append([name])
            current = []
        elif not isinstance(child, nn.Flatten):
            current.append(name)
    return runs


def _shapes(model: nn.Module, batch: Any) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Shapes of input and output of the modules that map one tensor to one tensor."""
    found: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def watch(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            if len(inputs) == 1 and isinstance(inputs[0], Tensor) and isinstance(output, Tensor):
                found[name] = (tuple(inputs[0].shape), tuple(output.shape))

        return hook

    observe(model, batch, [(module, watch(name)) for name, module in model.named_modules() if name])
    return found


def zero_biases_(model: nn.Module) -> tuple[str, ...]:
    """Set the biases of linear layers and convolutions to zero, in place.

    Args:
        model: the model.

    Returns:
        Names of the layers whose biases were not zero.

    Raises:
        IsometerError: all of them are zero already, or as `isometer.init.haar_orthogonal_`. The model is then as it
            was.

    Example:
        >>> zero_biases_(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4, bias=False)))
        ('0',)
    """
    found, _ = targets(model)
    changed: list[WeightTarget] = [t for t in found if t.bias is not None and bool((t.bias != 0).any())]
    if not changed:
        raise IsometerError("all biases are zero already; expected one that is not — there is nothing to do")
    with torch.no_grad():
        for t in changed:
            assert t.bias is not None
            t.bias.zero_()
    return tuple(t.name for t in changed)
