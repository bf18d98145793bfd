"""The monitor as a callback of `transformers.Trainer`; that is imported when the callback is first requested.

A plain loop with Accelerate needs no callback: give what `accelerator.prepare` returned to `SignalMonitor`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from isometer.doctor.watch._monitor import SignalMonitor
from isometer.extras import MissingExtraError
from isometer.files import write_whole

STATE_FILE = "signal_monitor.json"
"""The monitor's state beside the weights in a checkpoint's folder."""


def loss_in(output: Any) -> torch.Tensor | None:
    """The loss in what a model returns: its entry `loss`, or the first of a tuple if that is one number.

    Example:
        >>> loss_in({"loss": torch.tensor(2.0), "logits": torch.ones(3)})
        tensor(2.)
        >>> loss_in(torch.ones(3)) is None
        True
    """
    first = output.get("loss") if isinstance(output, Mapping) else output[0] if isinstance(output, tuple) else None
    return first.detach() if isinstance(first, torch.Tensor) and first.numel() == 1 else None


def _base() -> Any:
    try:
        return importlib.import_module("transformers").TrainerCallback
    except ModuleNotFoundError:
        raise MissingExtraError(
            "the callback needs transformers, which is not installed — pip install transformers accelerate"
        ) from None


def _make() -> Any:
    class SignalTrainerCallback(_base()):  # type: ignore[misc]
        """Watches the model of a `transformers.Trainer`: `Trainer(…, callbacks=[SignalTrainerCallback()])`.

        The state of the monitor is kept in each checkpoint's folder and read from there when training resumes.

        Args:
            options: as for `SignalMonitor`.
        """

        def __init__(self, **options: Any) -> None:
            self._options = options
            self._losses: list[torch.Tensor] = []
            self._hook: Any = None
            self.monitor: SignalMonitor | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            model, optimizer = given["model"], given.get("optimizer")
            options = {"reduce": args.world_size > 1, **self._options}
            self.monitor = SignalMonitor(model, optimizer, **options)
            self._hook = model.register_forward_hook(self._keep_loss)
            saved = _state_file(args, state)
            if state.global_step and saved.is_file():
                self.monitor.load_state_dict(json.loads(saved.read_text(encoding="utf-8")))

        def _keep_loss(self, model: Any, inputs: Any, output: Any) -> None:
            found = loss_in(output) if torch.is_grad_enabled() else None
            if found is not None:
                self._losses.append(found)

        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            if self.monitor is None:
                return
            # A step may have accumulated several batches.
            loss = torch.stack([one.float().mean() for one in self._losses]).mean() if self._losses else None
            self._losses = []
            self.monitor.step(loss, step=state.global_step)

        def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            path = _state_file(args, state)
            if self.monitor is not None and state.is_world_process_zero and path.parent.is_dir():
                text = json.dumps(self.monitor.state_dict())
                self.monitor._guarded(lambda: write_whole(path, text), "the monitor's state could not be written")

        def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            if self.monitor is not None:
                self.monitor.close()
            if self._hook is not None:
                self._hook.remove()
            self._hook = None

    # So that it can be pickled.
    SignalTrainerCallback.__module__, SignalTrainerCallback.__qualname__ = __name__, "SignalTrainerCallback"
    return SignalTrainerCallback


def _state_file(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}" / STATE_FILE


def __getattr__(name: str) -> Any:
    """`SignalTrainerCallback`, made when it is first requested."""
    if name == "SignalTrainerCallback":
        made = _make()
        globals()[name] = made
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
