"""Where a normalisation stands beside a residual addition."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from isometer.doctor.treatment._norms import observe
from isometer.doctor.treatment._surgery import put
from isometer.errors import IsometerError

Tensor = torch.Tensor
_TOLERANCE = 1e-4


def pre_norm_(model: nn.Module, batch: Any) -> tuple[str, ...]:
    """Move normalisations behind additions into the residual branches, x + f(norm(x)), in place.

    Torch's transformer layers are switched by `norm_first`. In an `nn.Sequential`, a module that computes
    x + child(x) (which is checked on the batch) followed by a layer norm becomes x + child(norm(x)); the last
    normalisation stays where it is, for what comes after.

    Args:
        model: the model.
        batch: what it is called with.

    Returns:
        Names of the modules that were changed.

    Raises:
        IsometerError: there is no such place. The model is then as it was.

    Example:
        >>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> pre_norm_(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(2, 3, 8))
        ('layers.0', 'layers.1')
    """
    switched = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)) and not module.norm_first
    ]
    pairs = _residual_then_norm(model, batch)
    if not switched and not pairs:
        raise IsometerError(
            "no normalisation directly after a residual addition was found in an nn.Sequential or a layer of torch's "
            "transformer; expected one to move — move it in the forward method"
        )
    for _, layer in switched:
        layer.norm_first = True
    for residual, child, norm, last in pairs:
        moved = model.get_submodule(norm)
        branch = model.get_submodule(f"{residual}.{child}")
        put(model, f"{residual}.{child}", nn.Sequential(moved, branch))
        if last:
            put(model, norm, copy.deepcopy(moved))
        else:
            put(model, norm, nn.Identity())
    return (*(name for name, _ in switched), *(residual for residual, *_ in pairs))


def _residual_then_norm(model: nn.Module, batch: Any) -> list[tuple[str, str, str, bool]]:
    """Residual module, its child, the norm that follows, and whether it is the last of its container."""
    candidates: list[tuple[str, str, str]] = []
    for path, container in model.named_modules():
        if not isinstance(container, nn.Sequential):
            continue
        prefix = f"{path}." if path else ""
        children = list(container.named_children())
        for (name, child), (after, norm) in pairwise(children):
            inside = list(child.named_children())
            if isinstance(norm, (nn.LayerNorm, nn.RMSNorm)) and len(inside) == 1:
                candidates.append((f"{prefix}{name}", inside[0][0], f"{prefix}{after}"))
    adds: set[str] = set()
    branch: dict[str, Tensor] = {}

    def watch_branch(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            if isinstance(output, Tensor):
                branch[name] = output

        return hook

    def watch_sum(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            if name in branch and isinstance(output, Tensor) and inputs[0].shape == output.shape == branch[name].shape:
                miss = float((output - inputs[0] - branch[name]).abs().max())
                if miss <= _TOLERANCE * float(output.abs().max()):
                    adds.add(name)

        return hook

    hooks: list[tuple[nn.Module, Callable[..., None]]] = []
    # A child's hook runs before its parent's, so the branch is known when the sum is seen.
    for residual, within, _ in candidates:
        hooks.append((model.get_submodule(f"{residual}.{within}"), watch_branch(residual)))
        hooks.append((model.get_submodule(residual), watch_sum(residual)))
    if hooks:
        observe(model, batch, hooks)
    kept = [one for one in candidates if one[0] in adds]
    last = {one[2].rpartition(".")[0]: one[2] for one in kept}
    return [(*one, last[one[2].rpartition(".")[0]] == one[2]) for one in kept]
