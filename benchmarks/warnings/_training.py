"""One run: train, break what is to break, watch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import xarray
from torch import nn

from benchmarks.warnings._networks import ClassTask, HalfStream, loss_of, made
from benchmarks.warnings._roster import HEALTHY, STEPS, WatchedNetwork, WatchedRun
from benchmarks.warnings._truth import outcome
from isometer.doctor.watch import SignalMonitor

_OCTAVES, _TRIES = 4.0, 5  # of the search for a speed
_NEAR = 20  # steps from the one that was drawn
_KEPT = ("weight_norm", "gradient_norm", "update_ratio", "update_alignment")


def watched_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The losses of every step, and all that the monitor saw, as JSON in an attribute; seeds are the network's own."""
    run = WatchedRun.from_dict(cell)
    speed = 0.0 if run.way == HEALTHY else speed_of(run)
    losses, monitor = trained(run, speed, watch=True)
    assert monitor is not None
    state = monitor.state_dict()["observations"]
    seen = {"parameters": monitor._updates.names, "speed": speed, "observations": [_thin(one) for one in state]}
    return xarray.Dataset({"loss": ("step", losses)}, attrs={"seen": json.dumps(seen)})


def speed_of(run: WatchedRun) -> float:
    """How fast the fault has to grow for the loss to show it at the step that was drawn, by bisection of log₂.

    Of the speeds that were tried the one that comes closest; the largest if none makes the run fail.
    """
    twin = trained(WatchedRun(run.network), 0.0)[0]
    low, high = -_OCTAVES, _OCTAVES
    best, distance = 2.0**_OCTAVES, math.inf
    for _ in range(_TRIES):
        middle = (low + high) / 2
        found = outcome(trained(run, 2.0**middle)[0], twin)
        if found.failed and abs(found.shown - run.shown) < distance:
            best, distance = 2.0**middle, abs(found.shown - run.shown)
        if distance <= _NEAR:
            break
        late = not found.failed or found.shown > run.shown
        low, high = (middle, high) if late else (low, middle)
    return best


def trained(run: WatchedRun, speed: float, *, watch: bool = False) -> tuple[Any, SignalMonitor | None]:
    """The losses of a run, infinite from the first that is not finite on, and its monitor."""
    model, task = made(run.network), ClassTask(run.network)
    optimizer = _optimizer(model, run.network)
    monitor = SignalMonitor(model, optimizer, budget=None, metrics=["rms"]) if watch else None
    fault = Fault(run, speed, model, optimizer)
    losses = np.full(STEPS, math.inf)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = run.network.rate * _scheduled(run.network.schedule, step)
        fault.before(step)
        inputs, targets = task.batch()
        optimizer.zero_grad()
        loss = loss_of(model, fault.seen(inputs), targets)
        loss.backward()
        if run.network.clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        fault.with_gradients()
        optimizer.step()
        fault.after()
        if monitor is not None:
            monitor.step(loss)
        if not math.isfinite(float(loss.detach())):
            break
        losses[step] = float(loss.detach())
    return losses, monitor


def _thin(state: dict[str, Any]) -> dict[str, Any]:
    """What rules can read, in six digits; scores follow from it."""
    short = lambda row: [float(f"{number:.6g}") for number in row]  # noqa: E731
    values = {name: short(row) for name, row in state["values"].items()}
    parameters = {name: short(row) for name, row in state["parameters"].items() if name in _KEPT}
    scalars = {name: number for name, number in state["scalars"].items() if not name.startswith("score_")}
    return {**state, "values": values, "parameters": parameters, "groups": {}, "scalars": scalars}


def _optimizer(model: nn.Module, one: WatchedNetwork) -> torch.optim.Optimizer:
    special = [p for name, p in model.named_parameters() if _is_special(one.architecture, name)]
    readout = [p for name, p in model.named_parameters() if name.startswith("readout")]
    chosen = {id(p) for p in special} | {id(p) for p in readout}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    readout = [p for p in readout if id(p) not in {id(q) for q in special}]
    groups = [
        {"params": part, "name": name} for name, part in (("rest", rest), ("special", special), ("readout", readout))
    ]
    groups = [group for group in groups if group["params"]]
    if one.optimizer == "sgd":
        return torch.optim.SGD(groups, one.rate, momentum=0.9, weight_decay=one.decay)
    kind = torch.optim.Adam if one.optimizer == "adam" else torch.optim.AdamW
    return kind(groups, one.rate, weight_decay=one.decay)


def _is_special(architecture: str, name: str) -> bool:
    """Queries and keys, recurrent weights, or the readout."""
    parts = {"gpt": ("query.weight", "key.weight"), "rnn": ("weight_hh",)}.get(architecture, ("readout.weight",))
    return any(part in name for part in parts)


def _scheduled(schedule: str, step: int) -> float:
    done = step / STEPS
    if schedule == "cosine":
        return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done))
    if schedule == "warm":
        return min(1.0, (step + 1) / 20) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
    if schedule == "steps":
        return 1.0 if done < 0.6 else 0.1
    return 1.0


class Fault:
    """What goes wrong, step by step from the onset on; `speed` says how fast."""

    def __init__(self, run: WatchedRun, speed: float, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.way, self.onset, self.speed = run.way, run.onset, speed
        self.model, self.optimizer, self.architecture = model, optimizer, run.network.architecture
        self.since = 0  # steps since the onset
        draw = torch.Generator().manual_seed(run.network.number)
        self.directions = {
            name: torch.randn(p.shape, generator=draw) for name, p in model.named_parameters() if _is_hidden_bias(name)
        }

    def part(self, whole: float) -> float:
        """The exponent of ten reached by now, if `whole` is reached at the end of the run at speed 1."""
        return whole * self.speed * self.since / (STEPS - self.onset)

    def before(self, step: int) -> None:
        """Change the rates."""
        self.since = max(0, step - self.onset + 1) if self.way != "healthy" else 0
        if not self.since:
            return
        for group in self.optimizer.param_groups:
            if self.way == "rate-ramp":
                group["lr"] *= 10 ** min(self.part(2.5), 30)
            elif self.way == "group-rate" and group["name"] == "special":
                group["lr"] *= 10 ** min(self.part(3.5), 30)
            elif self.way == "frozen-body" and group["name"] != "readout" and group["params"]:
                group["lr"] *= 10 ** -min(self.part(12.0), 30) if not self._is_readout(group) else 1.0
            elif self.way == "momentum-ramp":
                group["momentum"] = 1 - 0.1 * 10 ** -self.part(4.0)

    def _is_readout(self, group: Mapping[str, Any]) -> bool:
        """In perceptrons and convolutional networks the special group is the readout."""
        return group["name"] == "special" and self.architecture in ("mlp", "conv")

    def seen(self, inputs: torch.Tensor) -> torch.Tensor:
        """The inputs that the model gets."""
        return inputs * 10 ** min(self.part(1.5), 30) if self.way == "input-scale" and self.since else inputs

    @torch.no_grad()
    def with_gradients(self) -> None:
        """Change the gradients."""
        if self.way != "underflow":
            return
        scale = 10 ** (-2 - min(self.part(7.0), 28)) if self.since else 10.0
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                parameter.grad.copy_((parameter.grad * scale).clamp(-6e4, 6e4).half().float() / scale)

    @torch.no_grad()
    def after(self) -> None:
        """Change the weights."""
        if not self.since:
            return
        steps = STEPS - self.onset
        for name, parameter in self.model.named_parameters():
            if self.way == "negative-decay" and parameter.dim() > 1:
                parameter.mul_(10 ** (1.2 * self.speed / steps))
            elif self.way == "strong-decay" and parameter.dim() > 1 and not name.startswith(("readout", "embed")):
                parameter.mul_(10 ** (-5.0 * self.speed / steps))
            elif self.way == "dying-units" and _is_before_relu(self.architecture, name):
                parameter.sub_(6 * self.speed / steps)
            elif self.way == "common-drift" and name in self.directions:
                parameter.add_(self.directions[name], alpha=10 * self.speed / steps * 2 * self.since / steps)
        if self.way == "half-overflow":
            for module in self.model.modules():
                if isinstance(module, HalfStream):
                    module.gain.mul_(10 ** (6.5 * self.speed / steps))


def _is_hidden_bias(name: str) -> bool:
    return "bias" in name and not name.startswith(("readout", "stream"))


def _is_before_relu(architecture: str, name: str) -> bool:
    if not _is_hidden_bias(name):
        return False
    if architecture == "gpt":
        return name.endswith("up.bias")
    if architecture == "conv":  # all but the first convolutions of a block are normalised
        return "norm" in name or name.startswith("stem")
    return True
