"""Watching training: every metric at every layer, when it matters, at a bounded cost, without changing anything."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from isometer.doctor.probe._examination import Examination
from isometer.doctor.probe._examine import checked, examine
from isometer.doctor.probe._given import BatchReader
from isometer.doctor.probe._signals import guarded
from isometer.doctor.probe._subject import examined
from isometer.doctor.treatment._surgery import inner
from isometer.doctor.watch._hooks import Hooks, weakly
from isometer.doctor.watch._kernel_drift import TangentKernelDrift, at_layers
from isometer.doctor.watch._log_writers import Outlet, outlets
from isometer.doctor.watch._metrics import chosen_metrics, measured, need_gradients
from isometer.doctor.watch._observation import LayerPlace, StepReading, dataset, in_examination, kept
from isometer.doctor.watch._processes import agreed, is_distributed, is_writer, together
from isometer.doctor.watch._rules import NEEDED
from isometer.doctor.watch._schedule import Purse, Schedule, When
from isometer.doctor.watch._summary import summarize
from isometer.doctor.watch._tap import InputTap, ModelCall, few
from isometer.doctor.watch._updates import Updates
from isometer.doctor.watch._warnings import SignWatch, TrainingWarning
from isometer.errors import IsometerError

if TYPE_CHECKING:
    import xarray

_LOGGER = logging.getLogger("isometer.monitor")
_SPECTRA = {"weight_spectral_norm", "weight_isometry_gap"}


class SignalMonitor:
    """Watches how the signal travels through a model while it trains, and warns before the loss shows a problem.

    Call `step` once after each step of the optimizer. The first ten steps are observed, then every second one, later
    one each time the number of steps has grown by 4 %: one probe of a few samples of the batch that the model was
    called with, and the sizes of weights, gradients and updates. An observation that would exceed `budget`, a share of
    the training time, is postponed. The first steps have an allowance: the first observation and a quarter of a second
    (or two more).

    Model, gradients, buffers and generators stay as they were. Errors inside the monitor are caught and logged once.

    Args:
        model: the model that you call; compiled and distributed ones included.
        optimizer: its updates are then measured exactly, by its groups, with gradients as it receives them, accumulated
            and clipped. Without an optimizer, updates are the changes between two calls of `step`.
        metrics: names of the catalogue, and `attention_relative_entropy`, `attention_score_std`,
            `attention_score_largest`; a dozen by default.
        layers: patterns of module names (`"blocks.*"`) to which `history` is restricted; their numbers are logged as
            well.
        budget: largest share of the training time that observations may take, `None` for no limit.
        when: steps between observations, a list of steps, or a function of the step, in place of the usual schedule.
        log: where numbers go: a TensorBoard `SummaryWriter` (anything with `add_scalar`), a W&B run (anything with
            `log`), a function of step and numbers such as `LiveTable()`, which draws a table in the terminal, the path
            of a CSV file, or a list of those.
        samples: how many samples of the batch are observed.
        held: a batch on which the drift of the tangent kernel is followed as well; this costs more than everything
            else.
        prefix: prefix of the names that are logged.
        reduce: whether several processes observe together and average; by default if the model is distributed.

    Example:
        >>> model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> optimizer = torch.optim.SGD(model.parameters(), 0.1)
        >>> with SignalMonitor(model, optimizer, metrics=["stable_rank"]) as monitor:
        ...     for _ in range(3):
        ...         loss = model(torch.randn(16, 8)).square().mean()
        ...         optimizer.zero_grad(); loss.backward(); optimizer.step()
        ...         monitor.step(loss)
        >>> monitor.history["stable_rank"].dims, monitor.history["step"].values.tolist(), monitor.warnings
        (('step', 'layer'), [1, 2, 3], [])

    Implements: 002/alg-soft-rank-monitor, 002/alg-grad-align.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any = None,
        *,
        metrics: Sequence[str] | None = None,
        layers: Sequence[str] | None = None,
        budget: float | None = 0.03,
        when: When = None,
        log: Any = None,
        samples: int = 32,
        held: Any = None,
        prefix: str = "signal/",
        reduce: bool | None = None,
    ) -> None:
        _check(model, samples)
        self.model, self.optimizer = model, _plain(optimizer)
        self.metrics = chosen_metrics(metrics)
        self.layers = [layers] if isinstance(layers, str) else layers
        self.samples, self.prefix = samples, prefix
        self.steps = self.left_out = 0
        self.latest: dict[str, float] = {}
        self.warnings: list[TrainingWarning] = []
        self.observations: list[StepReading] = []
        self._schedule, self._purse = Schedule(when), Purse(budget)
        self._outlets: list[Outlet] = outlets(log)
        self._reduce = is_distributed(model) if reduce is None else reduce
        self._tap, self._updates, self._watch = InputTap(samples), Updates(inner(model), self.optimizer), SignWatch()
        self._drift = None if held is None else TangentKernelDrift(held)
        self._losses: list[tuple[int, Any]] = []
        self._parts: list[Any] = []  # losses of the batches that one step accumulates
        self._clock: float | None = None
        self._aside = 0.0  # seconds in hooks since the clock was read
        self._stepped = False
        self._complained: set[str] = set()
        self._hooks, self._due = Hooks(self), False
        started = list[bool]()

        def start() -> None:
            if self.optimizer is not None:
                optimizer_after, after = self.optimizer.register_step_post_hook, weakly(self._after_update)
                self._hooks.put(lambda: optimizer_after(after))
            if hasattr(model, "_orig_mod"):  # a compiled model would be compiled again whenever a hook comes or goes
                self._hooks.put(self._tapped)
            self._plan(first=True)
            started.append(True)

        def undo() -> None:
            if not started:
                self._hooks.close()

        try:  # taken back if interrupted: nobody could close a monitor that was never returned
            guarded(start, undo)
        except BaseException:
            self.close()
            raise

    # --- the training loop --------------------------------------------------------------------------------------------

    def step(
        self,
        loss: Any = None,
        *,
        batch: Any = None,
        target: Any = None,
        criterion: Callable[..., torch.Tensor] | None = None,
        step: int | None = None,
    ) -> None:
        """Count one step of training, and observe if it is time.

        Where an optimizer was given, calls between its steps only add to the loss, as in gradient accumulation.

        Args:
            loss: loss of the step, a number or a tensor.
            batch: what the model was called with; taken from the call itself by default.
            target: second argument of the criterion.
            criterion: the loss function; without one, gradients by layer are those of a Gaussian cotangent.
            step: number of the step, counted by default.
        """
        start = time.perf_counter()
        if self._clock is not None:
            self._aside, aside = 0.0, self._aside + self._tap.seconds
            self._tap.seconds = 0.0
            self._purse.earn(start - self._clock - aside)
            self._purse.spend(aside)
        self._parts.append(_number(loss))
        observed = False
        if self.optimizer is None or self._stepped:
            planned = self.steps + 1
            self.steps = planned if step is None else step
            self._losses.append((self.steps, _mean(self._parts)))
            self._parts, self._stepped = [], False
            if self.optimizer is None:
                self._guarded(self._follow)
            if self._due if self.steps == planned else self._is_due(self.steps):
                observed = True
                self._observe(batch, target, criterion)
            self._plan()
        self._clock = time.perf_counter()
        # Read after the observation, whose time is not training time.
        self._purse.spend(self._clock - start, observed=observed)

    def _is_due(self, step: int) -> bool:
        last = self.observations[-1].step if self.observations else 0
        if not self._schedule.wanted(step, last):
            return False
        due = self._purse.affords()
        due = agreed(due) if self._reduce else due
        self.left_out += not due
        return due

    def _plan(self, *, first: bool = False) -> None:
        """Open the tap and keep the weights if the next step is to be observed."""
        self._due = self._is_due(self.steps + 1)
        self._tap.open, self._tap.call = self._due, None
        self._hook(self._due or self._updates.following)
        if self._due and self.optimizer is None and not first:
            self._guarded(self._updates.before)

    def _hook(self, needed: bool) -> None:
        """Put on the hooks of observed steps, or take them off: otherwise they would cost more than all the rest."""
        if needed == self._hooks.passing or self._hooks.closed:
            return
        self._hooks.take_off()
        wanted: list[Callable[[], Any]] = []
        if needed and not hasattr(self.model, "_orig_mod"):
            wanted.append(self._tapped)
        if needed and self.optimizer is not None:
            optimizer_before, before = self.optimizer.register_step_pre_hook, weakly(self._before_update)
            wanted.append(lambda: optimizer_before(before))
        self._hooks.put(*wanted, passing=True)

    def _tapped(self) -> Any:
        return self.model.register_forward_pre_hook(self._tap, with_kwargs=True)

    def _before_update(self, *_: Any) -> None:
        start = time.perf_counter()
        self._guarded(self._follow)
        if self._due:
            self._guarded(self._updates.before)
        self._aside += time.perf_counter() - start

    def _after_update(self, *_: Any) -> None:
        start = time.perf_counter()
        self._stepped = True
        if self._due:
            self._guarded(self._updates.after)
        self._aside += time.perf_counter() - start

    def _follow(self) -> None:
        """The gradients after an observed update tell how far it overshot."""
        if self._updates.following and self.observations:
            overshoot = self._updates.overshoot()
            last = self.observations[-1]
            self.observations[-1] = replace(last, scalars={**last.scalars, "overshoot": overshoot})

    # --- observations -------------------------------------------------------------------------------------------------

    def _observe(self, batch: Any, target: Any, criterion: Callable[..., torch.Tensor] | None) -> None:
        if self.optimizer is None:
            self._guarded(self._updates.after)
        parameters, groups = self._updates.numbers()
        seen = StepReading(self.steps, parameters=parameters, groups=groups)
        found = self._guarded(lambda: self._examined(seen, batch, target, criterion))
        seen = seen if found is None else found
        scalars: dict[str, float] = {"loss": float(self._losses[-1][1]), **seen.scalars}
        seen = replace(seen, scalars=scalars)
        if self._reduce:
            seen = together(seen)
        self.observations = kept([*self.observations, seen])
        scores, raised = self._watch.look(self.observations, self._updates.names, self._updates.matrices)
        self.observations[-1] = replace(seen, scalars={**seen.scalars, **scores})
        self.warnings.extend(raised)
        self._tell(seen, raised)

    def _examined(
        self, seen: StepReading, batch: Any, target: Any, criterion: Callable[..., torch.Tensor] | None
    ) -> StepReading:
        model = checked(inner(self.model), target=target, loss=criterion, mode=None)
        call, target = self._call(batch, target)
        wanted = [*self.metrics, *(name for name in NEEDED if name not in self.metrics)]
        with measured(wanted), call.precision():
            examination = _probed(model, call, None if criterion is None else target, criterion, wanted)
            found = in_examination(examination, seen.step, wanted)
        values, scalars = dict(found.values), dict(found.scalars)
        if self._drift is not None:
            drifted, by_layer = self._drift.look(model)
            scalars |= drifted
            values["tangent_kernel_drift"] = at_layers(by_layer, [layer.name for layer in found.layers])
        with_gradients = need_gradients(wanted)
        self.latest = {k: v for k, v in summarize(examination).items() if with_gradients or "gradient" not in k}
        return replace(found, values=values, scalars=scalars, parameters=seen.parameters, groups=seen.groups)

    def _call(self, batch: Any, target: Any) -> tuple[ModelCall, Any]:
        if batch is not None:
            some, few_targets = few(batch, self.samples, target)
            some, few_targets = BatchReader(inner(self.model)).read(some, few_targets)
            return ModelCall(some, "cpu", None), few_targets
        if self._tap.call is None:
            raise IsometerError(
                "the model was not called between two steps, or was called through another object; expected the model "
                "that your loop calls — pass that one, or batch= to step"
            )
        return self._tap.call, few(self._tap.call.batch, self.samples, target)[1] if target is not None else None

    def _tell(self, seen: StepReading, raised: Sequence[TrainingWarning]) -> None:
        if not is_writer():
            return
        for one in raised:
            _LOGGER.warning("%s", one)
        numbers = {name: v for name, v in (*self.latest.items(), *seen.scalars.items()) if not math.isnan(v)}
        if self.layers is not None:
            numbers |= _by_layer(seen, self.layers, self.metrics)
            self.latest = {**self.latest, **numbers}
        numbers |= {f"warning/{one.id}": 1.0 for one in raised}
        named = {f"{self.prefix}{name}": value for name, value in numbers.items()}
        for outlet in self._outlets:
            self._guarded(lambda outlet=outlet: outlet(self.steps, named), "numbers could not be logged")  # type: ignore[misc]

    def _guarded(self, work: Callable[[], Any], what: str = "the model could not be observed") -> Any:
        """What `work` gives, `None` where it fails: nothing that goes wrong here may end a training run."""
        gradients = torch.is_grad_enabled()
        try:
            return work()
        except Exception as problem:
            said = f"{what}: {type(problem).__name__}: {problem}"
            if said[:80] not in self._complained:
                self._complained.add(said[:80])
                _LOGGER.warning("%s (said once; training goes on)", said)
            return None
        finally:
            torch.set_grad_enabled(gradients)  # `no_grad` leaves it off if Ctrl-C comes while it begins

    # --- what was seen ------------------------------------------------------------------------------------------------

    @property
    def history(self) -> xarray.Dataset:
        """All observations: metrics over `(step, layer)`, updates over `(step, parameter)` and `(step, group)`, numbers
        of the whole model over `step`, and the loss of every step over `training_step`.
        """
        self._losses = [(step, float(loss)) for step, loss in self._losses]
        shown = {*self.metrics, "tangent_kernel_drift"}
        chosen = [_restricted(one, self.layers, shown) for one in self.observations]
        return dataset(chosen, self._updates.names, self._updates.groups, self._losses)

    @property
    def overhead(self) -> float:
        """Time spent on observations over the time spent on training, 0 before the second step."""
        return self._purse.share

    def to_html(self, path: str | Path) -> Path:
        """Write a page that opens offline: heat maps over layers and steps, linked curves, warnings on the time line.

        Args:
            path: path of the file, in a folder that exists.

        Returns:
            The path.
        """
        from isometer.report._training_page import save_training_page

        warned = [one.to_dict() for one in self.warnings]
        return save_training_page(self.history, warned, Path(path), title=type(inner(self.model)).__name__)

    # --- resuming -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state with which a monitor resumes, as lists and numbers only."""
        return {
            "steps": self.steps,
            "left_out": self.left_out,
            "purse": self._purse.state(),
            "losses": [[step, float(loss)] for step, loss in self._losses],
            "observations": [one.state() for one in self.observations],
            "warnings": [one.to_dict() for one in self.warnings],
            "raised": self._watch.state(),
            "kernel": {} if self._drift is None else self._drift.state(),
            "latest": dict(self.latest),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a checkpoint; rows of a CSV file beyond that step are dropped."""
        self.steps, self.left_out = int(state["steps"]), int(state["left_out"])
        self._purse.restore(state["purse"])
        self._losses = [(int(step), float(loss)) for step, loss in state["losses"]]
        self.observations = [StepReading.from_state(one) for one in state["observations"]]
        self.warnings = [TrainingWarning(**{**one, "layers": tuple(one["layers"])}) for one in state["warnings"]]
        self._watch.restore(state["raised"])
        if self._drift is not None:
            self._drift.restore(state["kernel"])
        self.latest = dict(state["latest"])
        for outlet in self._outlets:
            if hasattr(outlet, "rewind") and is_writer():
                outlet.rewind(self.steps)
        # The time between checkpoint and resumption is not training time.
        self._clock = None
        self._plan(first=True)

    def close(self) -> None:
        """Remove the hooks from model and optimizer; the history is kept."""
        self._hooks.close()
        for outlet in self._outlets:
            if hasattr(outlet, "close") and is_writer():
                self._guarded(outlet.close, "an outlet could not be closed")

    def __enter__(self) -> SignalMonitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check(model: Any, samples: Any) -> None:
    if not isinstance(model, nn.Module):
        raise IsometerError(f"model is a {type(model).__name__}; expected a torch.nn.Module — pass one")
    if isinstance(model, torch.jit.ScriptModule):
        raise IsometerError(
            "the model is scripted and takes no hooks; expected a Python module — watch it before you script it"
        )
    lazy = next((name for name, one in model.named_parameters() if is_lazy(one)), None)
    if lazy is not None:
        raise IsometerError(
            f"parameter {lazy!r} is lazy and has no shape yet; expected initialised weights — call "
            "the model on one batch first"
        )
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 2:
        raise IsometerError(f"samples is {samples!r}; expected a whole number of at least 2 — pass one")
    meta = next((name for name, one in model.named_parameters() if one.is_meta), None)
    if meta is not None:
        raise IsometerError(
            f"{meta} is on the meta device and has no values; expected a model that can be trained — call "
            "model.to_empty(device=…) and initialise it first"
        )


def _plain(optimizer: Any) -> torch.optim.Optimizer | None:
    """The optimizer within a wrapper such as Accelerate's."""
    within = getattr(optimizer, "optimizer", None)
    if isinstance(within, torch.optim.Optimizer):
        return _plain(within)
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise IsometerError(
            f"optimizer is a {type(optimizer).__name__}; expected a torch.optim.Optimizer — pass it, or "
            "log=… for a place to write to"
        )
    return optimizer


def _number(loss: Any) -> Any:
    """A loss without its graph; on an accelerator still a tensor, since to read it now would wait for it."""
    if loss is None:
        return math.nan
    if isinstance(loss, torch.Tensor):
        loss = loss.detach()
        if loss.device.type == "cpu":
            return loss.item() if loss.numel() == 1 else float(loss.mean())
        return loss.float().mean()
    return float(loss)


def _mean(parts: Sequence[Any]) -> Any:
    return sum(parts[1:], parts[0]) / len(parts)


def _restricted(seen: StepReading, patterns: Sequence[str] | None, metrics: set[str]) -> StepReading:
    """Some layers and metrics of an observation."""
    at = _matching(seen.layers, patterns)
    values = {name: numbers[at] for name, numbers in seen.values.items() if name in metrics}
    return replace(seen, layers=tuple(seen.layers[i] for i in at), values=values)


def _matching(layers: Sequence[LayerPlace], patterns: Sequence[str] | None) -> list[int]:
    if patterns is None:
        return list(range(len(layers)))
    return [i for i, one in enumerate(layers) if any(fnmatchcase(one.name, pattern) for pattern in patterns)]


def _by_layer(seen: StepReading, patterns: Sequence[str], metrics: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for index in _matching(seen.layers, patterns):
        layer = seen.layers[index]
        label = layer.name if layer.call == 0 else f"{layer.name}#{layer.call}"
        for name in metrics:
            value = float(seen.values[name][index])
            if not np.isnan(value):
                found[f"{name}/{label}/{layer.op}"] = value
    return found


def _probed(
    model: nn.Module, call: ModelCall, target: Any, criterion: Callable[..., torch.Tensor] | None, wanted: Sequence[str]
) -> Examination:
    """What `isometer.probe` gives, for a batch that the model takes; backward only if a metric needs it."""
    with examined(model, criterion, target) as subject:
        return examine(
            subject,
            call.batch,
            target=target,
            loss=criterion,
            mode=_mode(model),
            spectra=bool(_SPECTRA & set(wanted)),
            gradients=need_gradients(wanted),
        )


def _mode(model: nn.Module) -> str | None:
    """The mode of the model; evaluation where training mode would wait for other processes."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if distributed and any(isinstance(module, nn.SyncBatchNorm) for module in model.modules()):
        return "eval"
    return None
