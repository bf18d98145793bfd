"""Several processes that train one model: one decision, one set of numbers, one writer."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from isometer.doctor.watch._observation import StepReading

Floats = NDArray[np.float64]
_LARGEST = ("max_abs", "attention_score_largest")
_SMALLEST = ("headroom", "dead_fraction")  # a unit is dead if it is zero in every process


def is_distributed(model: nn.Module) -> bool:
    """Whether a model is trained by several processes: wrapped for data parallelism, or with sharded parameters."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return False
    return "Parallel" in type(model).__name__ or any(hasattr(one, "to_local") for one in model.parameters())


def is_writer() -> bool:
    """Whether this process writes what all of them found."""
    started = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not started or torch.distributed.get_rank() == 0


def agreed(choice: bool) -> bool:
    """What the first process decided: clocks differ, and all have to observe together."""
    told = torch.tensor([int(choice)], device=_device())
    torch.distributed.broadcast(told, 0)
    return bool(told.item())


def together(observation: StepReading) -> StepReading:
    """The numbers of all processes as one: means, the largest of what is a largest value, and the like.

    Those of parameters are left alone: they are the same everywhere, or summed over the shards already.
    """
    values = {name: _reduced(name, numbers) for name, numbers in observation.values.items()}
    names = list(observation.scalars)
    means = _reduced("", np.array([observation.scalars[name] for name in names])) if names else ()
    return replace(observation, values=values, scalars=dict(zip(names, map(float, means), strict=True)))


def _reduced(name: str, numbers: Floats) -> Floats:
    known = np.isfinite(numbers)
    if name in _LARGEST or any(part in name for part in _SMALLEST):
        sign = 1.0 if name in _LARGEST else -1.0
        filled = _tensor(np.where(np.isnan(numbers), -math.inf, sign * numbers))
        torch.distributed.all_reduce(filled, torch.distributed.ReduceOp.MAX)
        found = sign * filled.cpu().numpy()
        return np.where(np.isinf(found) & np.isnan(numbers), math.nan, found)
    parts = _tensor(np.stack([np.where(known, numbers, 0.0), known.astype(np.float64)]))
    torch.distributed.all_reduce(parts)
    total, count = parts.cpu().numpy()
    # Where no process has a finite number, each keeps what it has: nan or an infinity.
    return np.where(count > 0, total / np.maximum(count, 1.0), numbers)


def _tensor(numbers: Any) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(numbers, dtype=np.float64)).to(_device())


def _device() -> torch.device:
    accelerated = torch.distributed.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if accelerated else torch.device("cpu")
