"""Changing a module tree so that it can be changed back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from torch import nn

from isometer.doctor.probe._examine import probe
from isometer.doctor.probe._sites import Site
from isometer.errors import IsometerError


def inner(model: nn.Module) -> nn.Module:
    """Of a compiled or distributed model the one within."""
    parts = dict(model.named_children())
    for name in ("_orig_mod", "module"):
        within = parts.get(name)
        if isinstance(within, nn.Module) and (name == "_orig_mod" or "Parallel" in type(model).__name__):
            return inner(within)
    return model


def put(model: nn.Module, path: str, module: nn.Module) -> None:
    """Put a module at a path of the tree, in the mode of the one it replaces."""
    parent, _, name = path.rpartition(".")
    owner = model.get_submodule(parent)
    old = owner._modules[name]
    assert old is not None
    owner._modules[name] = module.train(old.training)


def is_plain(module: nn.Module) -> bool:
    """Whether a module has neither children nor parameters."""
    return not module._modules and next(module.parameters(), None) is None


def seen(model: nn.Module, batch: Any) -> tuple[Site, ...]:
    """The sites of one run of a model."""
    if not isinstance(model, nn.Module):
        raise IsometerError(f"model is a {type(model).__name__}; expected a torch.nn.Module — pass one")
    return probe(model, batch).sites


def like(module: nn.Module, model: nn.Module) -> nn.Module:
    """A new module on the device and in the precision of a model's parameters."""
    first = next((p for p in model.parameters() if p.is_floating_point()), None)
    return module if first is None else module.to(device=first.device, dtype=first.dtype)


def single_use(sites: Sequence[Site], names: Sequence[str]) -> None:
    """Refuse modules that run more than once."""
    counts = Counter(site.name for site in sites)
    twice = next((name for name in names if counts[name] > 1), None)
    if twice is not None:
        raise IsometerError(
            f"module {twice!r} runs more than once; expected a separate module at every place — make one for each place"
        )


def own_places(model: nn.Module, names: Sequence[str]) -> None:
    """Refuse modules that are used at several places of the tree."""
    places = Counter(id(module) for _, module in model.named_modules(remove_duplicate=False))
    for name in names:
        if places[id(model.get_submodule(name))] > 1:
            raise IsometerError(
                f"module {name!r} is used at several places of the model; expected a separate module at each "
                "— make one for each place"
            )
