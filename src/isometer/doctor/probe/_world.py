"""What belongs to the process and not to a model: generators, settings of torch, the environment, global hooks."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.nn.modules import module as torch_module
from torch.utils import _device as torch_device

_GLOBAL_TABLES = tuple(
    table for name, table in vars(torch_module).items() if name.startswith("_global_") and isinstance(table, dict)
)
_Setting = tuple[Callable[[], Any], Callable[[Any], Any]]


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


def _anomaly() -> tuple[bool, bool]:
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


def _autocast() -> tuple[Any, ...]:
    devices = ("cpu", "cuda")
    return (
        torch.is_autocast_cache_enabled(),
        *((one, torch.is_autocast_enabled(one), torch.get_autocast_dtype(one)) for one in devices),
    )


def _set_autocast(value: tuple[Any, ...]) -> None:
    cached, *devices = value
    torch.set_autocast_cache_enabled(cached)
    for device, enabled, dtype in devices:
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)


def _environment() -> dict[Any, Any]:
    held: Any = os.environ
    return dict(held._data)  # as the system has it: to decode it all takes longer than a small probe may


def _set_environment(value: dict[Any, Any]) -> None:
    held: Any = os.environ
    for name in held._data.keys() - value.keys():
        del os.environ[held.decodekey(name)]
    for name in value:
        if held._data.get(name) != value[name]:
            os.environ[held.decodekey(name)] = held.decodevalue(value[name])


def _set_collection(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()


def _function_modes() -> list[Any]:
    """The modes that see every call, outermost first; the default device is one of them."""
    return [torch._C._get_function_stack_at(place) for place in range(torch._C._len_torch_function_stack())]


def _set_function_modes(modes: list[Any]) -> None:
    # A mode whose exit was interrupted would see every call from then on.
    while torch._C._len_torch_function_stack():
        torch._C._pop_torch_function_stack()
    for mode in modes:
        torch._C._push_on_torch_function_stack(mode)


def _default_device() -> tuple[Any, Any]:
    """The mode by which torch.set_default_device works, `None` where there is none, and its device."""
    held: Any = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)
    return getattr(held, "device_context", None), torch_device.CURRENT_DEVICE


def _set_default_device(value: tuple[Any, Any]) -> None:
    held: Any = torch._GLOBAL_DEVICE_CONTEXT
    held.device_context, torch_device.CURRENT_DEVICE = value  # its place among the modes is put back with them


def _stance() -> Any:
    """What torch.compile does with compiled functions, where it was imported."""
    return getattr(sys.modules.get("torch._dynamo.eval_frame"), "_stance", None)


def _set_stance(value: Any) -> None:
    if value is not None:
        sys.modules["torch._dynamo.eval_frame"]._stance = value  # type: ignore[attr-defined]


_SETTINGS: tuple[_Setting, ...] = (
    (_function_modes, _set_function_modes),  # first: modes would see the rest
    (_default_device, _set_default_device),
    (gc.isenabled, _set_collection),
    (_stance, _set_stance),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.is_grad_enabled, torch._C._set_grad_enabled),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (_deterministic, _set_deterministic),
    (_anomaly, lambda value: torch.set_anomaly_enabled(*value)),
    (_autocast, _set_autocast),
    (_environment, _set_environment),
    (np.geterr, lambda value: np.seterr(**value)),
)


class World:
    """Generators of torch (CPU and, where in use, CUDA), NumPy and Python, settings, the environment, global hooks.

    Example:
        >>> world, before = World(), torch.get_rng_state()
        >>> world.seed(3)
        >>> torch.set_default_dtype(torch.float64)
        >>> world.restore()
        []
        >>> torch.get_default_dtype(), torch.equal(torch.get_rng_state(), before)
        (torch.float32, True)
    """

    def __init__(self) -> None:
        # To read the states of CUDA generators would initialise CUDA.
        self._cuda = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        self._torch = torch.default_generator.get_state()
        self._on_cuda = torch.cuda.get_rng_state_all() if self._cuda else None
        # The models use the global generator, so it is the one to keep.
        self._numpy: Any = np.random.get_state()  # noqa: NPY002
        self._python = random.getstate()
        self._settings = [(get, put, get()) for get, put in _SETTINGS]
        self._tables = [(table, dict(table)) for table in _GLOBAL_TABLES]

    def seed(self, seed: int) -> None:
        """The same numbers for every run."""
        torch.default_generator.manual_seed(seed)
        if self._cuda:
            torch.cuda.manual_seed_all(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        random.seed(seed)

    def restore(self) -> list[str]:
        """Everything as it was; what could not be put back."""
        problems: list[str] = []
        for step in (self._restore_generators, self._restore_settings, self._restore_tables):
            try:
                step()
            except Exception as problem:
                problems.append(f"global state ({type(problem).__name__}: {problem})")
        return problems

    def _restore_generators(self) -> None:
        torch.default_generator.set_state(self._torch)
        if self._on_cuda is not None:
            torch.cuda.set_rng_state_all(self._on_cuda)
        np.random.set_state(self._numpy)  # noqa: NPY002
        random.setstate(self._python)

    def _restore_settings(self) -> None:
        for get, put, value in self._settings:
            if get() != value:
                put(value)

    def _restore_tables(self) -> None:
        for table, content in self._tables:
            if list(table.items()) != list(content.items()):
                table.clear()
                table.update(content)


@contextmanager
def without_collection() -> Iterator[None]:
    """No search for unreachable objects inside: it takes time where many small ones are made and kept."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def eager() -> Iterator[None]:
    """Compiled functions inside run as they were written; nothing is imported for models without any."""
    if "torch._dynamo" not in sys.modules:
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield
