"""A small model with something between its layers, and what the search for suspicious operations says of a model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from isometer.doctor.causes._operations import operation_repairs
from isometer.doctor.causes._repair import Repair

Tensor = torch.Tensor
Change = Callable[[Tensor], Tensor]
SAMPLES, WIDTH = 12, 8


def found(model: nn.Module, inputs: Tensor | None = None) -> list[Repair]:
    x = torch.randn(SAMPLES, WIDTH) if inputs is None else inputs
    return operation_repairs(model, lambda one: one(x), samples=len(x))


class Net(nn.Module):
    """Two layers with something between them."""

    def __init__(self, between: Change) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        self.between = between

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.between(self.first(x)))


def without(model: nn.Module, repair: Repair) -> nn.Module:
    twin = copy.deepcopy(model)
    repair.change(twin)
    return twin


class After:
    def __init__(self, change: nn.Module) -> None:
        self.change = change

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        return self.change(output)
