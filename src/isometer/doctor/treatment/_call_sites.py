"""Where in a model's own code a function is called: file and line, for what no surgery can change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import isometer
from isometer.doctor.probe._examine import call
from isometer.doctor.probe._subject import examined
from isometer.doctor.stress._material import owned

_LIBRARIES = tuple(str(Path(str(one.__file__)).parent) for one in (torch, isometer))


def call_sites(model: nn.Module, batch: Any, function: str) -> list[str]:
    """File and line of every call of a function of torch, in the order in which they come first.

    Args:
        model: it is run once and left as it was.
        batch: what it is called with.
        function: its name, such as `relu`.

    Example:
        >>> class Block(nn.Linear):
        ...     def forward(self, x: torch.Tensor) -> torch.Tensor:
        ...         return torch.tanh(super().forward(x))
        >>> [place.rpartition(":")[2] for place in call_sites(Block(2, 2), torch.ones(1, 2), "tanh")]
        ['3']
    """
    found: dict[str, None] = {}

    def work(copy: nn.Module) -> None:
        with _Watch(function, found), torch.no_grad():
            call(copy, owned(batch))

    with examined(model) as subject:
        subject.run(work, seed=0, mode="train")
    return list(found)


class _Watch(TorchFunctionMode):
    """Notes who calls a function."""

    def __init__(self, function: str, found: dict[str, None]) -> None:
        super().__init__()
        self._function, self._found = function.removesuffix("_"), found

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "").removesuffix("_") == self._function:
            place = next(_outside(), "")
            if place:
                self._found[place] = None
        return func(*args, **(kwargs or {}))


def _outside() -> Iterator[str]:
    """The frames of code that is neither torch's nor ours, innermost first."""
    frame = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(_LIBRARIES):
            yield f"{Path(path).name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
