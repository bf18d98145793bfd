"""The conjugate kernel: inner products of the representations at a site of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from isometer.doctor.probe._calling import call
from isometer.doctor.probe._tensor_trees import dense, map_tensors
from isometer.empirical._linearisation import sample_count
from isometer.empirical._result import KernelRun
from isometer.errors import IsometerError, unknown_name

Tensor = torch.Tensor


def conjugate_kernel(model: nn.Module, batch: Any, other: Any, site: str | None) -> KernelRun:
    """H H′ᵀ/d of one run; every batch has its own pass."""
    left = representation(model, batch, site)
    right = left if other is None else representation(model, other, site)
    if left.shape[1] != right.shape[1]:
        raise IsometerError(
            f"the representations have {left.shape[1]} and {right.shape[1]} features; expected the same number — "
            "pass batches of the same shape"
        )
    epsilon = float(torch.finfo(left.dtype).eps)
    a, b = (one.double().cpu().numpy() for one in (left, right))
    place = f"the output of {site!r}" if site is not None else "what the last linear layer reads"
    note = f"inner products of {place}, over its {left.shape[1]} features"
    return KernelRun({"all": np.asarray(a @ b.T / left.shape[1])}, "gram", note, epsilon, epsilon)


def representation(model: nn.Module, batch: Any, site: str | None = None) -> Tensor:
    """(samples, features) at a site: the output of a module, or what the last linear layer reads.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> representation(model, torch.ones(4, 2)).shape
        torch.Size([4, 3])
    """
    samples = sample_count(batch)
    found: list[Tensor] = []
    handles = []
    if site is None:
        for module in model.modules():
            if isinstance(module, nn.Linear):
                handles.append(module.register_forward_pre_hook(lambda _, args: found.append(args[0].detach().clone())))
    else:
        modules = dict(model.named_modules())
        if site not in modules:
            raise unknown_name("module", site, [name for name in modules if name], fix="see model.named_modules()")
        handles.append(
            modules[site].register_forward_hook(
                lambda _, __, out: found.extend(one.detach().clone() for one in dense(out)[:1])
            )
        )
    try:
        with torch.no_grad():
            call(model, map_tensors(lambda one: one.detach().clone(), batch))
    finally:
        for handle in handles:
            handle.remove()
    if not found:
        raise IsometerError(
            "the model ran no linear layer; expected one whose input is the representation — pass "
            "site='…', a module's name"
            if site is None
            else f"module {site!r} returned no floating-point tensor in this pass; expected one — pass another site"
        )
    last = found[-1]
    if last.shape[0] != samples:
        raise IsometerError(
            f"the representation has shape {tuple(last.shape)}; expected the {samples} samples as its first axis — "
            "pass site='…', a module's name"
        )
    return last.flatten(1)
