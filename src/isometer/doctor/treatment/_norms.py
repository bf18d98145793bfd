"""Normalisations: where there is none, where there is half of one, and where there should be another."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import nn

from isometer.doctor.probe._subject import examined
from isometer.doctor.probe._tensor_trees import map_tensors
from isometer.doctor.treatment._surgery import is_plain, like, own_places, put, seen, single_use
from isometer.errors import IsometerError
from isometer.init._targets import run
from isometer.nn import BatchNormParts

Tensor = torch.Tensor
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_BATCH_NORMS: dict[type[nn.Module], Callable[[int], nn.Module]] = {
    nn.Linear: nn.BatchNorm1d,
    nn.Conv1d: nn.BatchNorm1d,
    nn.Conv2d: nn.BatchNorm2d,
    nn.Conv3d: nn.BatchNorm3d,
}
_TOLERANCE = 1e-4


def add_norm_(model: nn.Module, batch: Any, norm: Literal["batch", "layer"] = "batch") -> tuple[str, ...]:
    """Insert a normalisation between weights and the activation that follows them, where there is none yet; in place.

    Where the activation is a module, the pair of normalisation and activation takes its place and all parameters keep
    their names; where it is a function, the pair of weights and normalisation takes the place of the weights.

    Args:
        model: the model.
        batch: what it is called with.
        norm: `"batch"` (`nn.BatchNorm…`) or `"layer"` (`nn.LayerNorm`, for convolutions `nn.GroupNorm` of one group).

    Returns:
        Names of the modules that were replaced.

    Raises:
        IsometerError: no weights are followed by an activation without a normalisation between them, a module is used
            twice, or weights act on tokens, over which batch norm has no meaning. The model is then as it was.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
        >>> add_norm_(model, torch.randn(3, 4))
        ('1',)
        >>> type(model[1][0]).__name__, model[1][0].num_features
        ('BatchNorm1d', 6)

    Implements: 002/def-bn, 001/op-ln.
    """
    if norm not in ("batch", "layer"):
        raise IsometerError(f"norm is {norm!r}; expected batch or layer — pass one of them")
    sites = seen(model, batch)
    modules = dict(model.named_modules())
    changes: list[tuple[str, nn.Module]] = []
    for weights, after in pairwise(sites):
        layer = modules.get(weights.name)
        if weights.kind != "weight" or after.kind != "activation" or not isinstance(layer, (nn.Linear, *_CONVOLUTIONS)):
            continue
        made = like(_norm(norm, layer, weights.shape, weights.name), model)
        place = modules.get(after.name)
        if place is not None and after.name and is_plain(place):
            changes.append((after.name, nn.Sequential(made, place)))
        elif weights.name:
            changes.append((weights.name, nn.Sequential(layer, made)))
    if not changes:
        raise IsometerError(
            "no weights of the model are followed by an activation without a normalisation between; expected such a "
            "place — there is none to normalise"
        )
    names = [name for name, _ in changes]
    single_use(sites, names)
    own_places(model, names)
    for name, module in changes:
        put(model, name, module)
    return tuple(names)


def _norm(norm: str, layer: nn.Module, shape: tuple[int, ...], name: str) -> nn.Module:
    width = int(shape[1]) if isinstance(layer, _CONVOLUTIONS) else int(shape[-1])
    if norm == "layer":
        return nn.GroupNorm(1, width) if isinstance(layer, _CONVOLUTIONS) else nn.LayerNorm(width)
    if isinstance(layer, nn.Linear) and len(shape) > 2:
        raise IsometerError(
            f"{name!r} acts on tokens, {'×'.join(map(str, shape))}; batch norm over them mixes samples and positions — "
            "add a layer norm instead"
        )
    return _BATCH_NORMS[type(layer)](width)


def full_batch_norm_(model: nn.Module, batch: Any) -> tuple[str, ...]:
    """Replace modules that subtract the batch mean and do not rescale by batch norm, in place.

    Such modules are recognised by their effect on the batch: they have no parameters, and their output is their input
    minus the mean over the batch.

    Args:
        model: the model.
        batch: what it is called with, at least two samples.

    Returns:
        Names of the modules that were replaced.

    Raises:
        IsometerError: there is no such module. The model is then as it was.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 4), BatchNormParts(4, "batch-recenter"), nn.ReLU())
        >>> full_batch_norm_(model, torch.randn(8, 4))
        ('1',)

    Implements: 000/op-rs, 001/map-3.3.
    """
    found: dict[str, int] = {}

    def watch(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            if len(inputs) != 1 or not isinstance(inputs[0], Tensor) or not isinstance(output, Tensor):
                return
            x = inputs[0]
            if x.dim() < 2 or x.shape != output.shape or x.shape[0] < 2 or not x.is_floating_point():
                return
            # The mean of each entry, or of each channel as batch norm takes it.
            for axes in ([0], [0, *range(2, x.dim())]):
                centred = x - x.mean(axes, keepdim=True)
                size = float(centred.abs().max())
                # On a batch that is centred already the identity looks the same.
                moved = float((x - output).abs().max()) > _TOLERANCE * size
                if size > 0 and moved and float((output - centred).abs().max()) <= _TOLERANCE * size:
                    found[name] = x.dim()

        return hook

    leaves = [(n, m) for n, m in model.named_modules() if n and is_plain(m)]
    observe(model, batch, [(module, watch(name)) for name, module in leaves])
    if not found:
        raise IsometerError(
            "no module subtracts the batch mean without rescaling; expected one to replace — if a forward method "
            "does it, divide by the standard deviation there"
        )
    own_places(model, list(found))
    sites = {site.name: site.shape for site in seen(model, batch)}
    for name, axes in found.items():
        kinds = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
        put(model, name, like(kinds[axes](int(sites[name][1])), model))
    return tuple(found)


def batch_free_norm_(model: nn.Module) -> tuple[str, ...]:
    """Replace every batch norm by a group norm of one group, which normalises each sample by itself; in place.

    Args:
        model: the model.

    Returns:
        Names of the modules that were replaced.

    Raises:
        IsometerError: there is no batch norm. The model is then as it was.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())
        >>> batch_free_norm_(model), type(model[1]).__name__
        (('1',), 'GroupNorm')
    """
    changes: list[tuple[str, nn.Module]] = []
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and name:
            changes.append((name, nn.GroupNorm(1, module.num_features, module.eps, module.affine)))
        elif isinstance(module, BatchNormParts) and name:
            changes.append((name, nn.GroupNorm(1, module.features, affine=module.weight is not None)))
    if not changes:
        raise IsometerError("the model has no batch norm module; expected one to replace — there is nothing to do")
    own_places(model, [name for name, _ in changes])
    for name, module in changes:
        put(model, name, like(module, model))
    return tuple(name for name, _ in changes)


def observe(model: nn.Module, batch: Any, hooks: list[tuple[nn.Module, Callable[..., None]]]) -> None:
    """Run a model once with functions behind some modules, and leave it as it was."""

    def watch(copy: nn.Module) -> None:
        handles = [subject.twin(module).register_forward_hook(hook) for module, hook in hooks]
        try:
            with torch.no_grad():
                run(copy, map_tensors(torch.clone, batch))
        finally:
            for handle in handles:
                handle.remove()

    with examined(model) as subject:
        subject.run(watch, seed=0, mode="train")
