"""What a model is called with, taken where it is called."""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from isometer.doctor.probe._tensor_trees import map_tensors, tensors
from isometer.doctor.treatment._surgery import inner


@dataclass(frozen=True)
class ModelCall:
    """The first samples of what a model was called with, and the precision it was called in."""

    batch: Any
    device: str
    autocast: torch.dtype | None

    @contextlib.contextmanager
    def precision(self) -> Iterator[None]:
        """The same mixed precision as in the call."""
        if self.autocast is None:
            yield
            return
        with torch.autocast(self.device, dtype=self.autocast):
            yield


class InputTap:
    """A hook before `forward` that keeps a copy of the inputs while it is open, and knows nothing of the model.

    A copy of it, as in a copy of the model or in a file, stays closed.

    Example:
        >>> model, tap = torch.nn.Linear(2, 1), InputTap(samples=3)
        >>> handle = model.register_forward_pre_hook(tap, with_kwargs=True)
        >>> _ = model(torch.ones(8, 2))
        >>> tap.call is None
        True
        >>> tap.open = True
        >>> _ = model(torch.ones(8, 2))
        >>> tap.call.batch.shape
        torch.Size([3, 2])
    """

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.open = False
        self.called = False
        self.call: ModelCall | None = None
        self.seconds = 0.0  # that the copies took

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, module: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.called = True
        # A call that needs no gradient is an evaluation, not a step of training.
        if not self.open or not torch.is_grad_enabled():
            return
        start = time.perf_counter()
        batch = _as_batch(module, arguments, keywords)
        first = next(tensors(batch), None)
        device = "cpu" if first is None else first.device.type
        used = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        self.call = ModelCall(map_tensors(lambda one: one.detach().clone(), few(batch, self.samples)), device, used)
        self.seconds += time.perf_counter() - start

    def __deepcopy__(self, memo: dict[int, Any]) -> InputTap:
        return InputTap(self.samples)

    def __reduce__(self) -> Any:
        return InputTap, (self.samples,)


def _as_batch(module: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Arguments in the form that `probe` takes: one tensor, some by position, or all by name."""
    if keywords and arguments:
        names = list(inspect.signature(inner(module).forward).parameters)
        return {**dict(zip(names, arguments, strict=False)), **keywords}
    if keywords:
        return dict(keywords)
    return arguments[0] if len(arguments) == 1 and isinstance(arguments[0], torch.Tensor) else tuple(arguments)


def few(batch: Any, samples: int, *beside: Any) -> Any:
    """The first samples of whatever has as many as the batch; with `beside`, a tuple of all of them.

    Example:
        >>> few({"x": torch.ones(9, 2), "scale": torch.ones(3)}, 4)["x"].shape
        torch.Size([4, 2])
    """
    first = next((tensor for tensor in tensors(batch) if tensor.dim()), None)
    count = 0 if first is None else first.shape[0]

    def some(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[:samples] if tensor.dim() and tensor.shape[0] == count else tensor

    cut = tuple(map_tensors(some, one) if count > samples else one for one in (batch, *beside))
    return cut if beside else cut[0]
