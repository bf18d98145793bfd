"""The monitor as a callback of Lightning, which is imported when `SignalCallback` is first requested."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
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
        """Watches a Lightning module: numbers to the trainer's loggers, warnings to the log.

        Args:
            inputs: from a batch to what the module is called with; its first element by default.
            options: as for `SignalMonitor`; `log` beside the trainer's loggers.
        """

        def __init__(self, *, inputs: Callable[[Any], Any] = first_of, log: Any = None, **options: Any) -> None:
            super().__init__()
            self._options, self._log = options, log
            self._inputs = inputs
            self._resumed: dict[str, Any] | None = None
            self.monitor: SignalMonitor | None = None

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            def log(step: int, numbers: Any) -> None:
                for logger in getattr(trainer, "loggers", ()):
                    logger.log_metrics(dict(numbers), step=step)

            several = getattr(trainer, "world_size", 1) > 1
            options = {"reduce": several, **self._options}
            optimizer = next(iter(getattr(trainer, "optimizers", ())), None)
            self.monitor = SignalMonitor(pl_module, optimizer, log=[log, self._log], **options)
            if self._resumed is not None:
                self.monitor.load_state_dict(self._resumed)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            if self.monitor is None:
                return
            inputs = self.monitor._guarded(lambda: self._inputs(batch), "inputs(batch) failed")
            loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
            self.monitor.step(loss, batch=inputs)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            if self.monitor is not None:
                self.monitor.close()

        def state_dict(self) -> dict[str, Any]:
            return {} if self.monitor is None else self.monitor.state_dict()

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            self._resumed = dict(state_dict) if state_dict else None

    SignalCallback.__module__, SignalCallback.__qualname__ = __name__, "SignalCallback"  # so that it can be pickled
    return SignalCallback


def __getattr__(name: str) -> Any:
    """`SignalCallback`, made when it is first requested."""
    if name == "SignalCallback":
        made = _make()
        globals()[name] = made
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
