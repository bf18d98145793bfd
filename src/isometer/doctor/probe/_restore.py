"""Leaving a model as it was found, whatever happens in between.

Buffers are copied beforehand: batch statistics and the like are written from inside torch's kernels, where nobody sees
it. Parameters are as large as the model, so they are copied only when an in-place operation is about to write to them;
the capture sees those operations and calls `Preserved.before_write`. Gradients are put aside, so that nothing can be
added to them.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

_TABLES = ("_parameters", "_buffers", "_modules")
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
)


def _bitwise_equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.is_quantized or first.layout is not torch.strided:
        return False
    # As bytes: NaN equals itself, and −0 differs from 0.
    return torch.equal(first.contiguous().view(-1).view(torch.uint8), second.contiguous().view(-1).view(torch.uint8))


def _hooked(module: nn.Module) -> tuple[tuple[str, int], ...]:
    """Which hooks a module has."""
    held = module.__dict__
    return tuple([(name, key) for name in _HOOKS if (hooks := held.get(name)) for key in hooks])


def _different(tables: Iterable[tuple[tuple[str, Any], ...]]) -> list[Any]:
    """What the tables of all modules hold, each object once."""
    # Tensors and modules hash by identity.
    return list(dict.fromkeys(value for table in tables for _, value in table if value is not None))


class Preserved:
    """What a model was like, and the way back."""

    def __init__(self, model: nn.Module) -> None:
        self._modules = list(model.modules())
        self._training = [module.training for module in self._modules]
        self._tables = [tuple(tuple(getattr(module, t).items()) for t in _TABLES) for module in self._modules]
        self._hooks = [_hooked(module) for module in self._modules]
        parameters, buffers, _ = zip(*self._tables, strict=True)
        self.parameters: list[nn.Parameter] = _different(parameters)
        self._requires_grad = [p.requires_grad for p in self.parameters]
        self._grads = [p.grad for p in self.parameters]
        self._tensor_hooks = [p._backward_hooks for p in self.parameters]
        self._buffers = [(b, b.detach().clone()) for b in _different(buffers)]
        self._by_storage: dict[int, nn.Parameter] | None = None
        self._written: dict[nn.Parameter, torch.Tensor] = {}

    def hide_gradients(self) -> None:
        """Put the gradients aside; `restore` puts the same objects back."""
        for parameter in self.parameters:
            parameter.grad = None

    def before_write(self, tensor: torch.Tensor) -> None:
        """Keep a copy of the parameter that `tensor` shares its memory with, if there is one and it has none yet."""
        if self._by_storage is None:
            self._by_storage = {p.untyped_storage().data_ptr(): p for p in self.parameters}
        if tensor.layout is not torch.strided:
            return
        # Views, slices and transposes share the storage of their parameter.
        parameter = self._by_storage.get(tensor.untyped_storage().data_ptr())
        if parameter is not None and parameter not in self._written and parameter.numel():
            self._written[parameter] = parameter.detach().clone()

    def restore(self) -> None:
        """Everything back to what it was."""
        with torch.no_grad():
            for buffer, value in self._buffers:
                # A needless write raises the version, and a graph of the caller's that saved the buffer would fail.
                if not _bitwise_equal(buffer, value):
                    buffer.copy_(value)
            for parameter, value in self._written.items():
                parameter.copy_(value)
        for module, training, tables, hooks in zip(
            self._modules, self._training, self._tables, self._hooks, strict=True
        ):
            # Set directly: train() descends to the children, and a model may override it.
            if module.training != training:
                module.training = training
            for name, table in zip(_TABLES, tables, strict=True):
                current = getattr(module, name)
                if len(current) != len(table) or (table and any(current.get(k) is not value for k, value in table)):
                    current.clear()
                    current.update(table)
            if _hooked(module) != hooks:
                for name in _HOOKS:
                    current = module.__dict__.get(name) or {}
                    for key in [key for key in current if (name, key) not in hooks]:
                        del current[key]
        for parameter, required, grad, tensor_hooks in zip(
            self.parameters, self._requires_grad, self._grads, self._tensor_hooks, strict=True
        ):
            if parameter.requires_grad != required:
                parameter.requires_grad_(required)
            if parameter.grad is not grad:
                parameter.grad = grad
            # Taking the last hook off leaves an empty dictionary behind.
            if tensor_hooks is None and parameter._backward_hooks is not None:
                parameter._backward_hooks = None


class _RandomStates:
    """The generators of torch (CPU and, where in use, CUDA), numpy and Python."""

    def __init__(self) -> None:
        # To read the states of CUDA generators would initialise CUDA.
        self._cuda = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        self._states: Any = (
            torch.get_rng_state(),
            torch.cuda.get_rng_state_all() if self._cuda else None,
            np.random.get_state(),  # noqa: NPY002 — the models use the global generator, so it is the one to keep
            random.getstate(),
        )

    def seed(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed)
        if self._cuda:
            torch.cuda.manual_seed_all(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        random.seed(seed)

    def restore(self) -> None:
        torch_state, cuda, numpy_state, python = self._states
        torch.set_rng_state(torch_state)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python)


@contextmanager
def _eager() -> Iterator[None]:
    """Compiled functions inside run as they were written; nothing is imported for models without any."""
    if "torch._dynamo" not in sys.modules:
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


@contextmanager
def preserved(model: nn.Module, *, seed: int, mode: str | None = None) -> Iterator[Preserved]:
    """Run a model with seeded generators and gradients on, and leave it as it was, also if it raises.

    Kept are parameters, buffers, gradients (the same objects, `None` included), `requires_grad`, the mode of every
    submodule, hooks, the tables of parameters, buffers and submodules, the generators of torch, numpy and Python, grad
    mode and the default dtype. Other attributes that a model's own code sets are its own business.

    Args:
        model: the model.
        seed: seeds the generators while the model runs.
        mode: `"train"` or `"eval"` to run in that mode, `None` for the mode each submodule is in.

    Example:
        >>> norm = nn.BatchNorm1d(2)
        >>> with preserved(norm, seed=0):
        ...     output = norm(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> norm.running_mean.tolist(), norm.num_batches_tracked.item()
        ([0.0, 0.0], 0)
    """
    state, generators, dtype = Preserved(model), _RandomStates(), torch.get_default_dtype()
    try:
        generators.seed(seed)
        state.hide_gradients()
        if mode is not None:
            model.train(mode == "train")
        # Under inference mode tensors have no history, even with gradients enabled.
        with torch.inference_mode(False), torch.enable_grad(), _eager():
            yield state
    finally:
        torch.set_default_dtype(dtype)
        generators.restore()
        state.restore()
