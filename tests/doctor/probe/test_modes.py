"""Modes that see every call of torch: the caller's stay, a model's go."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from isometer.doctor import probe


class Counting(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return function(*args, **(kwargs or {}))


class Devoted(nn.Module):
    """Sets a default device, which torch keeps as the outermost mode, below those of the caller."""

    def __init__(self, device: str | None) -> None:
        super().__init__()
        self.layer, self.device = nn.Linear(3, 3), device

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.set_default_device(self.device)
        return self.layer(x)


@pytest.mark.parametrize("outer", [None, "meta"])
@pytest.mark.parametrize("inner", [None, "cpu"])
def test_a_default_device_and_a_mode_of_the_caller_are_as_before(outer: str | None, inner: str | None) -> None:
    model, x = Devoted(inner), torch.ones(4, 3)
    torch.set_default_device(outer)
    try:
        with Counting() as counting:
            probe(model, x)
            assert torch._C._get_function_stack_at(torch._C._len_torch_function_stack() - 1) is counting
            before = counting.calls
            assert torch.empty(2).device.type == (outer or "cpu")
            assert counting.calls > before
    finally:
        torch.set_default_device(None)
    assert torch._C._len_torch_function_stack() == 0
    assert torch.empty(2).device.type == "cpu"
