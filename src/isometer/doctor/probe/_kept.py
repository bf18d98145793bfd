"""What a forward pass keeps for the way back: the most of what a model takes in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from isometer.doctor.probe._calling import call
from isometer.doctor.probe._subject import examined
from isometer.work import Work, check_work

_COPIES = 3  # of what is kept: gradients, and what a probe reads


@contextmanager
def keeping(model: nn.Module) -> Iterator[dict[int, int]]:
    """Bytes of every storage that operations inside keep for the backward pass, weights apart.

    Example:
        >>> model, x = nn.Linear(3, 2), torch.ones(4, 3)
        >>> with keeping(model) as kept:
        ...     _ = model(x)
        >>> sum(kept.values())
        48
    """
    kept: dict[int, int] = {}
    held = [p for p in model.parameters() if p.layout is torch.strided]
    weights = {p.untyped_storage().data_ptr() for p in held}  # a transposed weight is a view, no parameter

    def note(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout is torch.strided and not tensor.is_nested:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in weights:
                kept[storage.data_ptr()] = storage.nbytes()
        # Not the tensor itself: an operation that keeps what it returns would hold itself, and no collector sees that.
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        yield kept


def check_pass(model: nn.Module, few: Any, n: int, samples: int) -> None:
    """Refuse so many samples that a forward and a backward pass do not fit into memory, by a pass with a few.

    Args:
        model: that is called; one that fails is not refused here.
        few: a small batch like the one to come.
        n: number of samples in it.
        samples: number of samples to come.

    Raises:
        TooMuchWorkError: they take more than is allowed.

    Example:
        >>> check_pass(nn.Sequential(nn.Linear(9, 9), nn.Linear(9, 9)), torch.ones(2, 9), 2, 10**8)
        Traceback (most recent call last):
        ...
        isometer.work.TooMuchWorkError: the examination needs about 20.1 GiB of memory; ... — use at most ... samples...
    """

    def attempt(copy: nn.Module) -> int:
        try:
            with keeping(copy) as kept:
                call(copy, few)
        except Exception:  # told where it is examined; some operations bear no hooks
            return 0
        return sum(kept.values())

    with examined(model) as subject:
        each = _COPIES * subject.run(attempt, seed=0) / n
    check_work(
        "the examination", Work(each * samples, 0.0), {"samples": (samples, lambda fewer: Work(each * fewer, 0.0))}
    )
