"""Watching training: the doctor's measurements every k steps, at a bounded cost, without ever stopping anything."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from isometer.doctor.diagnosis._signal_path import View
from isometer.doctor.probe._examination import Examination
from isometer.doctor.probe._examine import probe
from isometer.doctor.probe._tensor_trees import map_tensors, tensors
from isometer.doctor.treatment._surgery import inner
from isometer.doctor.watch._log_writers import Outlet, outlets
from isometer.errors import IsometerError
from isometer.metrics._catalogue import added

_LOGGER = logging.getLogger("isometer.monitor")
_KEPT = 1000  # observations that are remembered
_PER_LAYER = ("rms", "mean_abs_cosine", "effective_rank", "gradient_log_norm", "dead_fraction")


class SignalMonitor:
    """Logs how the signal travels through a model while it trains.

    Call `step` once per training step. Every `every` steps one probe of a few samples of the batch is made and a dozen
    numbers are logged; the model, its gradients, buffers and the generators are left as they were. An observation that
    would bring the time spent above `budget` of the training time is left out. Whatever goes wrong inside is caught and
    logged once.

    Args:
        model: the model that is trained; of a compiled or distributed one, the model within.
        log: where the numbers go: a TensorBoard `SummaryWriter` (anything with `add_scalar`), a W&B run (anything with
            `log`), a function of step and numbers, the path of a CSV file, or a list of those.
        every: steps between observations.
        samples: of the batch that are looked at.
        budget: largest share of the training time that observations may take, `None` for no limit.
        prefix: of the names that are logged.
        layers: patterns of module names whose own numbers are logged too; none unless given.

    Example:
        >>> model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> seen = []
        >>> monitor = SignalMonitor(model, lambda step, numbers: seen.append(step), every=2, budget=None)
        >>> for _ in range(4):
        ...     monitor.step(torch.randn(16, 8))
        >>> seen, sorted(monitor.latest)[:2]
        ([2, 4], ['dead_fraction/largest', 'effective_rank/last'])

    Implements: 002/alg-soft-rank-monitor, 002/alg-grad-align.
    """

    def __init__(
        self,
        model: nn.Module,
        log: Any = None,
        *,
        every: int = 100,
        samples: int = 32,
        budget: float | None = 0.03,
        prefix: str = "signal/",
        layers: Sequence[str] | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise IsometerError(f"model is a {type(model).__name__}; expected a torch.nn.Module — pass one")
        for value, name, least in ((every, "every", 1), (samples, "samples", 2)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise IsometerError(f"{name} is {value!r}; expected a whole number of at least {least} — pass one")
        if budget is not None and not 0 < budget < math.inf:
            raise IsometerError(f"budget is {budget!r}; expected a share above 0, or None for no limit — pass 0.03")
        self.model, self.every, self.samples = model, every, samples
        self.budget, self.prefix, self.layers = budget, prefix, layers
        self.steps = self.observations = self.left_out = 0
        self.latest: dict[str, float] = {}
        self.history: deque[tuple[int, dict[str, float]]] = deque(maxlen=_KEPT)
        self._outlets: list[Outlet] = outlets(log)
        self._spent = self._elapsed = self._last_cost = 0.0
        self._clock: float | None = None
        self._complained: set[str] = set()

    def step(
        self,
        batch: Any,
        *,
        target: Any = None,
        loss: Callable[..., torch.Tensor] | None = None,
        step: int | None = None,
    ) -> None:
        """Count one step of training, and observe if it is time.

        Args:
            batch: what the model was called with.
            target: second argument of the loss.
            loss: as for `isometer.probe`; without one, gradients are those of a Gaussian cotangent.
            step: number of the step, counted unless given.
        """
        now = time.perf_counter()
        if self._clock is not None:
            self._elapsed += now - self._clock
        self.steps = self.steps + 1 if step is None else step
        if self.steps % self.every == 0:
            if self._affordable():
                self._observe(batch, target, loss)
                self._last_cost = time.perf_counter() - now
                self._spent += self._last_cost
            else:
                self.left_out += 1
        # Read after the observation, whose time is not training time.
        self._clock = time.perf_counter()

    def _affordable(self) -> bool:
        # What an observation costs is known once one was made.
        if self.budget is None or not self._last_cost:
            return True
        return self._spent + self._last_cost <= self.budget * self._elapsed

    def _observe(self, batch: Any, target: Any, loss: Callable[..., torch.Tensor] | None) -> None:
        try:
            model = inner(self.model)
            some, few = _first(batch, target, self.samples)
            examination = probe(model, some, target=few, loss=loss, mode=_mode(model))
            numbers = summarize(examination)
            if self.layers is not None:
                numbers |= _by_layer(probe_names(examination, self.layers), examination)
        except Exception as problem:  # nothing that goes wrong here may end a training run
            self._complain(f"the model could not be observed: {type(problem).__name__}: {problem}")
            return
        self.latest = numbers
        self.history.append((self.steps, numbers))
        self.observations += 1
        named = {f"{self.prefix}{name}": value for name, value in numbers.items()}
        for outlet in self._outlets:
            try:
                outlet(self.steps, named)
            except Exception as problem:
                self._complain(f"numbers could not be logged: {type(problem).__name__}: {problem}")

    def _complain(self, message: str) -> None:
        kind = message[:80]
        if kind not in self._complained:
            self._complained.add(kind)
            _LOGGER.warning("%s (said once; training goes on)", message)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs for the monitor to go on."""
        return {
            "steps": self.steps,
            "observations": self.observations,
            "left_out": self.left_out,
            "spent": self._spent,
            "elapsed": self._elapsed,
            "history": [[step, dict(numbers)] for step, numbers in self.history],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a checkpoint ended."""
        self.steps, self.observations = int(state["steps"]), int(state["observations"])
        self.left_out = int(state.get("left_out", 0))
        self._spent, self._elapsed = float(state["spent"]), float(state["elapsed"])
        self.history = deque(((int(step), dict(numbers)) for step, numbers in state["history"]), maxlen=_KEPT)
        self.latest = dict(self.history[-1][1]) if self.history else {}
        # The time between checkpoint and resumption is not training time.
        self._clock = None

    @property
    def overhead(self) -> float:
        """Time spent on observations over the time spent on training, 0 before the second step."""
        return self._spent / self._elapsed if self._elapsed > 0 else 0.0


def summarize(examination: Examination) -> dict[str, float]:
    """A dozen numbers of an examination: the end of the signal forward, the gradients back, and the worst units.

    Args:
        examination: what `isometer.probe` gives.

    Returns:
        Numbers by name, nan where there is none; `nonfinite_layer` is −1 if all values are finite.

    Example:
        >>> found = summarize(probe(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)), torch.randn(8, 4)))
        >>> found["nonfinite_layer"], 0 < found["rms/last"] < 1
        (-1.0, True)
    """
    view = View(examination)
    hidden = view.hidden or tuple(range(len(view.sites)))
    weights = view.weights or tuple(i for i, site in enumerate(view.sites) if site.kind == "weight")
    gradients = view.values["gradient_log_norm"][list(weights)] if weights else np.array([math.nan])
    broken = examination.nonfinite_layer
    return {
        "rms/last": view.best("rms", view.last or hidden, smallest=False),
        "rms/largest": view.best("rms", hidden, smallest=False),
        "mean_abs_cosine/last": view.best("mean_abs_cosine", view.last or hidden, smallest=True),
        "effective_rank/last": view.best("effective_rank", view.last or hidden, smallest=False),
        "gradient_log_norm/first": float(gradients[0]),
        "gradient_log_norm/last": float(gradients[-1]),
        "gradient_growth_per_layer": view.gradient_rate,
        "gradient_alignment/median": _median(view.values["gradient_alignment"]),
        "dead_fraction/largest": view.best("dead_fraction", hidden, smallest=False),
        "saturated_fraction/largest": view.best("saturated_fraction", hidden, smallest=False),
        "weight_gain/median": _median(view.values["weight_gain"]),
        "nonfinite_layer": -1.0 if broken is None else float(broken),
    }


def _median(values: Any) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else math.nan


def probe_names(examination: Examination, patterns: Sequence[str]) -> list[int]:
    """Layers whose module names match one of some patterns."""
    from fnmatch import fnmatchcase

    patterns = [patterns] if isinstance(patterns, str) else patterns
    return [i for i, s in enumerate(examination.sites) if any(fnmatchcase(s.name, pattern) for pattern in patterns)]


def _by_layer(layers: Sequence[int], examination: Examination) -> dict[str, float]:
    found: dict[str, float] = {}
    for layer in layers:
        site = examination.sites[layer]
        label = site.name if site.call == 0 else f"{site.name}#{site.call}"
        for metric in (*_PER_LAYER, *(one.name for one in added() if one.name in examination.values)):
            value = float(examination.values[metric][layer])
            if not math.isnan(value):
                found[f"{metric}/{label}/{site.op}"] = value
    return found


def _first(batch: Any, target: Any, samples: int) -> tuple[Any, Any]:
    """The first samples of whatever has as many as the batch."""
    first = next((tensor for tensor in tensors(batch) if tensor.dim()), None)
    if first is None or first.shape[0] <= samples:
        return batch, target
    count = first.shape[0]

    def some(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[:samples] if tensor.dim() and tensor.shape[0] == count else tensor

    return map_tensors(some, batch), map_tensors(some, target)


def _mode(model: nn.Module) -> str | None:
    """The mode of the model; evaluation where training mode would wait for other processes."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if distributed and any(isinstance(module, nn.SyncBatchNorm) for module in model.modules()):
        return "eval"
    return None
