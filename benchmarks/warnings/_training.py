"""The runs of one network: train it, break what is to break, watch."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import xarray
from torch import nn

from benchmarks.warnings._faults import Fault
from benchmarks.warnings._networks import Task, loss_of, made
from benchmarks.warnings._roster import STEPS, WatchedNetwork, WatchedRun
from isometer.doctor.watch import SignalMonitor

_KEPT = ("weight_norm", "gradient_norm", "update_ratio", "update_alignment")


class Training:
    """A run that can begin where another one was: up to the onset of a fault nothing differs from the sound run."""

    def __init__(self, run: WatchedRun) -> None:
        self.run, self.model, self.task = run, made(run.network), Task(run.network)
        self.optimizer = _optimizer(self.model, run.network)
        self.monitor = SignalMonitor(self.model, self.optimizer, budget=None, metrics=["rms"])
        self.fault = Fault(run, self.model, self.optimizer)
        self.losses: list[float] = []

    def state(self) -> dict[str, Any]:
        """Everything that a run needs to go on from here."""
        parts = {name: getattr(self, name).state_dict() for name in ("model", "optimizer", "monitor")}
        return copy.deepcopy({**parts, "draw": self.task.draw.get_state(), "losses": self.losses})

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from there; a state serves once."""
        for name in ("model", "optimizer", "monitor"):
            getattr(self, name).load_state_dict(state[name])
        self.task.draw.set_state(state["draw"])
        self.losses = list(state["losses"])

    def go(self, until: int) -> None:
        """Train up to a step, or until the loss is not finite."""
        while len(self.losses) < until and (not self.losses or math.isfinite(self.losses[-1])):
            self._step(len(self.losses))

    def _step(self, step: int) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.run.network.rate * _scheduled(self.run.network.schedule, step)
        self.fault.before(step)
        inputs, targets = self.task.batch()
        self.optimizer.zero_grad()
        loss = loss_of(self.model, self.fault.seen(inputs), targets)
        loss.backward()
        if self.run.network.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.fault.with_gradients()
        self.optimizer.step()
        self.fault.after()
        self.losses.append(float(loss.detach()))
        self.monitor.step(loss)

    def record(self) -> dict[str, Any]:
        """Losses of every step, infinite where the run had ended, and all that the monitor saw."""
        padded = np.full(STEPS, math.inf)
        padded[: len(self.losses)] = np.nan_to_num(self.losses, nan=math.inf)
        observations = [_thin(one) for one in self.monitor.state_dict()["observations"]]
        return {
            "loss": padded.tolist(),
            "parameters": self.monitor._updates.names,
            "matrices": self.monitor._updates.matrices,
            "observations": observations,
        }


def watched_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The sound run of a network and the faulty ones, as JSON in an attribute; seeds are the network's own."""
    return xarray.Dataset(attrs={"records": json.dumps(records([WatchedRun.from_dict(one) for one in cell["runs"]]))})


def records(runs: list[WatchedRun]) -> dict[str, Any]:
    """Records by the name of the run; the first is the sound one, in which the others begin."""
    sound = Training(runs[0])
    found: dict[str, Any] = {}
    for one in sorted(runs[1:], key=lambda one: one.onset):
        sound.go(one.onset)
        faulty = Training(one)
        faulty.load(sound.state())
        faulty.go(STEPS)
        found[one.name] = faulty.record()
    sound.go(STEPS)
    return {runs[0].name: sound.record(), **found}


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
    parts = {"gpt": ("query.weight", "key.weight"), "rnn": ("weight_hh",), "mixer": ("tokens",)}
    return any(part in name for part in parts.get(architecture, ("readout.weight",)))


def _scheduled(schedule: str, step: int) -> float:
    done = step / STEPS
    if schedule == "cosine":
        return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done))
    if schedule == "warm":
        return min(1.0, (step + 1) / 20) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
    if schedule == "steps":
        return 1.0 if done < 0.6 else 0.1
    return 1.0
