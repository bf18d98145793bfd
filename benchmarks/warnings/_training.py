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
from benchmarks.warnings._roster import STEPS, WatchedNetwork, WatchedRun
from isometer.doctor.watch import SignalMonitor

_KEPT = ("weight_norm", "gradient_norm", "update_ratio", "update_alignment")


def watched_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The losses of every step, and all that the monitor saw, as JSON in an attribute; seeds are the network's own."""
    run = WatchedRun.from_dict(cell)
    model, task = made(run.network), ClassTask(run.network)
    optimizer = _optimizer(model, run.network)
    monitor = SignalMonitor(model, optimizer, budget=None, metrics=["rms"])
    fault = Fault(run, model, optimizer)
    losses = []
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
        losses.append(float(loss.detach()))
        monitor.step(loss)
        if not math.isfinite(losses[-1]):
            break
    padded = np.full(STEPS, math.inf)
    padded[: len(losses)] = np.nan_to_num(losses, nan=math.inf)
    state = monitor.state_dict()["observations"]
    seen = {"parameters": monitor._updates.names, "observations": [_thin(one) for one in state]}
    return xarray.Dataset({"loss": ("step", padded)}, attrs={"seen": json.dumps(seen)})


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
    """What goes wrong, step by step from the onset on; `strength` in [0, 1] says how fast."""

    def __init__(self, run: WatchedRun, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.way, self.onset, self.strength = run.way, run.onset, run.strength
        self.model, self.optimizer, self.architecture = model, optimizer, run.network.architecture
        self.since = 0  # steps since the onset
        draw = torch.Generator().manual_seed(run.network.number)
        self.directions = {
            name: torch.randn(p.shape, generator=draw) for name, p in model.named_parameters() if _is_hidden_bias(name)
        }

    def part(self, slow: float, fast: float) -> float:
        """The exponent of ten reached by now, if `slow` (at strength 0) to `fast` is reached at the end of the run."""
        whole = slow + (fast - slow) * self.strength
        return whole * self.since / (STEPS - self.onset)

    def before(self, step: int) -> None:
        """Change the rates."""
        self.since = max(0, step - self.onset + 1) if self.way != "healthy" else 0
        if not self.since:
            return
        for group in self.optimizer.param_groups:
            if self.way == "rate-ramp":
                group["lr"] *= 10 ** self.part(2.0, 3.5)
            elif self.way == "group-rate" and group["name"] == "special":
                group["lr"] *= 10 ** self.part(3.0, 4.5)
            elif self.way == "frozen-body" and group["name"] != "readout" and group["params"]:
                group["lr"] *= 10 ** -self.part(6.0, 20.0) if not self._is_readout(group) else 1.0
            elif self.way == "momentum-ramp":
                group["momentum"] = 1 - 0.1 * 10 ** -self.part(3.0, 5.0)

    def _is_readout(self, group: Mapping[str, Any]) -> bool:
        """In perceptrons and convolutional networks the special group is the readout."""
        return group["name"] == "special" and self.architecture in ("mlp", "conv")

    def seen(self, inputs: torch.Tensor) -> torch.Tensor:
        """The inputs that the model gets."""
        return inputs * 10 ** self.part(1.0, 2.5) if self.way == "input-scale" and self.since else inputs

    @torch.no_grad()
    def with_gradients(self) -> None:
        """Change the gradients."""
        if self.way != "underflow":
            return
        scale = 10 ** (-2 - self.part(4.0, 10.0)) if self.since else 10.0
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
                parameter.mul_(10 ** ((0.7 + 1.0 * self.strength) / steps))
            elif self.way == "strong-decay" and parameter.dim() > 1 and not name.startswith(("readout", "embed")):
                parameter.mul_(10 ** (-(3.0 + 5.0 * self.strength) / steps))
            elif self.way == "dying-units" and _is_before_relu(self.architecture, name):
                parameter.sub_((3 + 6 * self.strength) / steps)
            elif self.way == "common-drift" and name in self.directions:
                parameter.add_(self.directions[name], alpha=(4 + 12 * self.strength) / steps * 2 * self.since / steps)
        if self.way == "half-overflow":
            for module in self.model.modules():
                if isinstance(module, HalfStream):
                    module.gain.mul_(10 ** ((5.0 + 3.0 * self.strength) / steps))


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
