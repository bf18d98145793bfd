"""Small models and batches for tests of initialisers, modules and treatments, and how to see that nothing changed."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from isometer.errors import IsometerError

F32, F64 = torch.float32, torch.float64


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = F64) -> torch.Tensor:
    """A standard Gaussian batch."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def mlp(depth: int, width: int, inputs: int | None = None, *, bias: bool = False, seed: int = 0) -> nn.Sequential:
    """ReLU layers with Xavier weights, torch's default biases, in double precision."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        parts: list[nn.Module] = []
        for layer in range(depth):
            linear = nn.Linear(width if layer or inputs is None else inputs, width, bias=bias, dtype=F64)
            nn.init.xavier_uniform_(linear.weight)
            parts += [linear, nn.ReLU()]
        return nn.Sequential(*parts)


def chain(
    depth: int, width: int = 32, act: type[nn.Module] = nn.ReLU, *, bias: bool = False, gain: float = 1.0
) -> nn.Sequential:
    """Gaussian layers of a gain, and a head of four outputs."""
    torch.manual_seed(depth)
    layers: list[nn.Module] = []
    for _ in range(depth):
        linear = nn.Linear(width, width, bias=bias)
        nn.init.normal_(linear.weight, std=gain / math.sqrt(width))
        layers += [linear, act()]
    return nn.Sequential(*layers, nn.Linear(width, 4))


def batch(n: int = 24, width: int = 32) -> torch.Tensor:
    """What a `chain` takes."""
    return draw(n, width, seed=7, dtype=F32)


def state(model: nn.Module) -> dict[str, torch.Tensor]:
    """A copy of the model's state."""
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Whether two states are equal to the last bit."""
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def refused(model: object, call: Callable[[], object], message: str) -> None:
    """An error with that message, and the model as it was."""
    before = {}
    if isinstance(model, nn.Module):
        before = {k: v for k, v in model.state_dict().items() if not nn.parameter.is_lazy(v) and not v.is_meta}
        before = {k: v.clone() for k, v in before.items()}
    with pytest.raises(IsometerError, match=message):
        call()
    if isinstance(model, nn.Module):
        after = model.state_dict()
        assert all(torch.equal(after[k], v) for k, v in before.items())
        assert not any(module._forward_pre_hooks for module in model.modules() if type(module) is nn.Linear)
