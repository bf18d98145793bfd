"""How a model is called with a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn


def call(model: nn.Module, inputs: Any) -> Any:
    """The model's output: a mapping is passed by name, a tuple or list by position.

    Example:
        >>> import torch
        >>> call(nn.Bilinear(1, 1, 2), (torch.ones(3, 1), torch.ones(3, 1))).shape
        torch.Size([3, 2])
    """
    if isinstance(inputs, Mapping):
        return model(**inputs)
    if isinstance(inputs, (tuple, list)) and not hasattr(inputs, "_fields"):  # a named tuple is one argument
        return model(*inputs)
    return model(inputs)
