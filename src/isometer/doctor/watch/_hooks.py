"""The hooks of a monitor: on and off as a whole, and gone when the monitor is."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from isometer.doctor.probe._signals import uninterrupted

_ATTEMPTS = 5  # at removing hooks, each of which Ctrl-C may interrupt


class Hooks:
    """Handles of hooks, some of which come and go.

    A hook whose handle is lost stays for ever, so a signal waits until the handle is here. An interruption may also
    arrive before anybody can close the monitor: when its constructor is about to return, or where `with` calls
    `__exit__`. Nobody holds the monitor then, and what ends with it is not lost.

    Example:
        >>> import torch
        >>> model, owner = torch.nn.Linear(2, 1), torch.nn.Identity()
        >>> hooks = Hooks(owner)
        >>> hooks.put(lambda: model.register_forward_pre_hook(lambda *_: None))
        >>> len(model._forward_pre_hooks)
        1
        >>> del owner
        >>> len(model._forward_pre_hooks)
        0
    """

    def __init__(self, owner: object) -> None:
        self._standing: list[Any] = []
        self._passing: list[Any] = []
        self.closed = False
        weakref.finalize(owner, self._remove_all).atexit = False

    @property
    def passing(self) -> bool:
        """Whether hooks that come and go are on."""
        return bool(self._passing)

    def put(self, *registers: Callable[[], Any], passing: bool = False) -> None:
        """Put on hooks; each function registers one and returns its handle."""
        kept = self._passing if passing else self._standing
        uninterrupted(lambda: kept.extend(register() for register in registers))

    def take_off(self) -> None:
        """Remove the hooks that come and go."""
        uninterrupted(lambda: _removed(self._passing))

    def close(self) -> None:
        """Remove all hooks; Ctrl-C, once or again and again, waits until that is done."""
        waiting: KeyboardInterrupt | None = None
        for _ in range(_ATTEMPTS):
            try:
                uninterrupted(self._remove_all)
                break
            except KeyboardInterrupt as problem:  # before the signals were held back, or when they were let go
                waiting = problem
        if waiting is not None:
            raise waiting

    def _remove_all(self) -> None:
        _removed(self._standing)
        _removed(self._passing)
        self.closed = True


def weakly(method: Callable[..., Any]) -> Callable[..., None]:
    """A method as a hook that does not keep its object alive, and does nothing when that is gone.

    Example:
        >>> class Counter:
        ...     calls = 0
        ...     def call(self) -> None:
        ...         self.calls += 1
        >>> counter = Counter()
        >>> hook = weakly(counter.call)
        >>> hook()
        >>> counter.calls
        1
        >>> del counter
        >>> hook()
    """
    reference = weakref.WeakMethod(method)

    def call(*arguments: Any) -> None:
        found = reference()
        if found is not None:
            found(*arguments)

    return call


def _removed(handles: list[Any]) -> None:
    for handle in handles:
        handle.remove()
    handles.clear()
