"""The monitor as a callback of Lightning, which is imported when `SignalCallback` is first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from isometer.doctor.watch._monitor import SignalMonitor
from isometer.extras import MissingExtraError, missing


def first_of(batch: Any) -> Any:
    """What a model is called with: the first of a tuple or list, anything else as it is.

    Example:
        >>> first_of(("inputs", "labels"))
        'inputs'
    """
    return batch[0] if isinstance(batch, (tuple, list)) else batch


def _base() -> Any:
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            return importlib.import_module(name).Callback
        except ModuleNotFoundError:
            continue
    raise MissingExtraError(missing("lightning", "the callback"))


def _make() -> Any:
    class SignalCallback(_base()):  # type: ignore[misc]
        """Logs how the signal travels through a Lightning module, every k steps, to the trainer's loggers.

        Args:
            every: steps between observations.
            samples: of the batch that are looked at.
            budget: largest share of the training time that observations may take.
            inputs: from a batch to what the module is called with; its first element unless given.
            layers: patterns of module names whose own numbers are logged too.
        """

        def __init__(
            self,
            every: int = 100,
            *,
            samples: int = 32,
            budget: float | None = 0.03,
            inputs: Callable[[Any], Any] = first_of,
            layers: Any = None,
        ) -> None:
            super().__init__()
            self._options: dict[str, Any] = {"every": every, "samples": samples, "budget": budget, "layers": layers}
            self._inputs = inputs
            self._resumed: dict[str, Any] | None = None
            self.monitor: SignalMonitor | None = None

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            def log(step: int, numbers: Any) -> None:
                for logger in getattr(trainer, "loggers", ()):
                    logger.log_metrics(dict(numbers), step=step)

            self.monitor = SignalMonitor(pl_module, log, **self._options)
            if self._resumed is not None:
                self.monitor.load_state_dict(self._resumed)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            if self.monitor is not None and getattr(trainer, "is_global_zero", True):
                try:
                    inputs = self._inputs(batch)
                except Exception as problem:  # the user's own function; training goes on
                    self.monitor._complain(f"inputs(batch) raised {type(problem).__name__}: {problem}")
                    return
                self.monitor.step(inputs)

        def state_dict(self) -> dict[str, Any]:
            return {} if self.monitor is None else self.monitor.state_dict()

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            self._resumed = dict(state_dict) if state_dict else None

    SignalCallback.__module__, SignalCallback.__qualname__ = __name__, "SignalCallback"  # so that it can be pickled
    return SignalCallback


def __getattr__(name: str) -> Any:
    """`SignalCallback`, made when it is first asked for."""
    if name == "SignalCallback":
        made = _make()
        globals()[name] = made
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
