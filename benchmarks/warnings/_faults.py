"""Faults: what goes wrong with a run, step by step from the onset on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from benchmarks.warnings._networks import HalfStream
from benchmarks.warnings._roster import HEALTHY, STEPS, WatchedRun


class Fault:
    """What goes wrong with a run; `strength` in [0, 1] says how fast."""

    def __init__(self, run: WatchedRun, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.way, self.onset, self.strength = run.way, run.onset, run.strength
        self.model, self.optimizer, self.architecture = model, optimizer, run.network.architecture
        self.since = 0  # steps since the onset
        self.draw = torch.Generator().manual_seed(run.network.number)
        self.directions = {
            name: torch.randn(p.shape, generator=self.draw)
            for name, p in model.named_parameters()
            if _is_hidden_bias(name)
        }

    def part(self, slow: float, fast: float) -> float:
        """The exponent of ten reached by now, if `slow` (at strength 0) to `fast` is reached at the end of the run."""
        whole = slow + (fast - slow) * self.strength
        return whole * self.since / (STEPS - self.onset)

    def before(self, step: int) -> None:
        """Change the rates."""
        self.since = max(0, step - self.onset + 1) if self.way != HEALTHY else 0
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
        if self.way == "input-scale" and self.since:
            return inputs * 10 ** self.part(1.0, 2.5)
        if self.way == "input-offset" and self.since:
            return inputs + self.part(2.0, 6.0)
        return inputs

    @torch.no_grad()
    def with_gradients(self) -> None:
        """Change the gradients."""
        if not self.since:
            return
        for parameter in self.model.parameters():
            if parameter.grad is None:
                continue
            if self.way == "underflow":
                scale = 10 ** (-2 - self.part(4.0, 10.0))
                parameter.grad.copy_((parameter.grad * scale).clamp(-6e4, 6e4).half().float() / scale)
            elif self.way == "gradient-noise":
                size = parameter.grad.square().mean().sqrt() * 10 ** (-1 + self.part(2.0, 4.0))
                parameter.grad.add_(torch.randn(parameter.shape, generator=self.draw) * size)

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
            elif self.way == "low-rank" and _is_hidden_matrix(name, parameter):
                flat = parameter.flatten(1)
                top = torch.linalg.svd(flat, full_matrices=False).Vh[:1]
                kept = (flat @ top.T @ top).view_as(parameter)
                # All but the leading direction shrinks; the norm stays.
                less = kept + (parameter - kept) * 10 ** (-(2.0 + 4.0 * self.strength) / steps)
                parameter.copy_(less * (parameter.norm() / less.norm()))
        if self.way == "half-overflow":
            for module in self.model.modules():
                if isinstance(module, HalfStream):
                    module.gain.mul_(10 ** ((5.0 + 3.0 * self.strength) / steps))


def _is_hidden_bias(name: str) -> bool:
    return "bias" in name and not name.startswith(("readout", "stream"))


def _is_hidden_matrix(name: str, parameter: torch.Tensor) -> bool:
    return parameter.dim() > 1 and not name.startswith(("readout", "embed", "places", "stream"))


def _is_before_relu(architecture: str, name: str) -> bool:
    if not _is_hidden_bias(name):
        return False
    if architecture in ("gpt", "mixer"):
        return name.endswith("up.bias")
    if architecture == "conv":  # all but the first convolutions of a block are normalised
        return "norm" in name or name.startswith("stem")
    return True
