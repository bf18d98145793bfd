"""The path of signal and gradient: what happens between layers, and what is not trained."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from isometer.trial._family import pick
from isometer.trial._faults._activations import softmax
from isometer.trial._faults._fault import FaultGroup, NotApplicable, Severity, anywhere, factor_between, one_of
from isometer.trial._faults._parts import at, readout_layer
from isometer.trial._specimen import After, Specimen, called

Tensor = torch.Tensor

PATH = FaultGroup("path")


class _Detach(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.detach()


class _Round(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.round(x)


class _Clamp(nn.Module):
    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(-self.limit, self.limit)


class _Roll(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.roll(1, 0)


class _Drop(nn.Module):
    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.share, self.training)


class _Scale(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


class _Mean(nn.Module):
    """Every sample gets the mean of the batch, to some share."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        return (1 - self.share) * x + self.share * x.mean(0, keepdim=True)


def _inside(specimen: Specimen, place: float, change: nn.Module) -> None:
    """Pass what one inner module returns through a change."""
    inner = [m for m in called(specimen) if not isinstance(m, nn.Flatten | nn.Identity | nn.Dropout)][:-1]
    at(inner, place).register_forward_hook(After(change))


@PATH.fault("detached", "a detach() in the middle", lambda rng: {"place": anywhere(rng)})
def _detach(specimen: Specimen, severity: Severity) -> None:
    _inside(specimen, severity["place"], _Detach())


@PATH.fault("rounded", "values rounded in the middle, gradient zero", lambda rng: {"place": anywhere(rng)})
def _rounded(specimen: Specimen, severity: Severity) -> None:
    _inside(specimen, severity["place"], _Round())


@PATH.fault("clamped", "values clamped to a narrow range in the middle", factor_between(1e-3, 1.0, place=anywhere))
def _clamped(specimen: Specimen, severity: Severity) -> None:
    _inside(specimen, severity["place"], _Clamp(severity["factor"]))


@PATH.fault("rescaled", "values multiplied by a factor in the middle", factor_between(1e-4, 1e4, place=anywhere))
def _rescaled(specimen: Specimen, severity: Severity) -> None:
    _inside(specimen, severity["place"], _Scale(severity["factor"]))


@PATH.fault("samples-mixed", "samples exchanged by a reshape in the middle", lambda rng: {"place": anywhere(rng)})
def _mixed(specimen: Specimen, severity: Severity) -> None:
    _inside(specimen, severity["place"], _Roll())


@PATH.fault(
    "averaged",
    "samples replaced by the mean of the batch, to some share",
    lambda rng: {"place": anywhere(rng), "share": pick(rng, 0.5, 0.9, 1.0)},
)
def _averaged(specimen: Specimen, severity: Severity) -> None:
    _inside(specimen, severity["place"], _Mean(severity["share"]))


@PATH.fault(
    "softmax-inside",
    "a softmax in the middle, over features or over the batch",
    lambda rng: {"place": anywhere(rng), "axis": pick(rng, 0, -1)},
)
def _softmax(specimen: Specimen, severity: Severity) -> None:
    _inside(specimen, severity["place"], softmax(severity["axis"]))


@PATH.fault("dropout", "dropout after many layers", one_of(share=(0.2, 0.5, 0.8, 0.95)))
def _dropout(specimen: Specimen, severity: Severity) -> None:
    layers = called(specimen, nn.Linear, nn.Conv1d, nn.Conv2d)[:-1]
    if not layers:
        raise NotApplicable
    for layer in layers:
        layer.register_forward_hook(After(_Drop(severity["share"])))


@PATH.fault(
    "frozen",
    "parameters that are not trained",
    one_of(which=("all but the readout", "readout", "first half", "all but norms and biases")),
)
def _frozen(specimen: Specimen, severity: Severity) -> None:
    parameters, which = list(specimen.model.parameters()), severity["which"]
    last = {id(p) for p in readout_layer(specimen).parameters()}
    for place, parameter in enumerate(parameters):
        frozen = {
            "all but the readout": id(parameter) not in last,
            "readout": id(parameter) in last,
            "first half": place < len(parameters) / 2,
            "all but norms and biases": parameter.dim() > 1,
        }[which]
        if frozen:
            parameter.requires_grad_(False)


@PATH.fault("unused", "parameters that no output depends on")
def _unused(specimen: Specimen, severity: Severity) -> None:
    containers = (nn.Sequential, nn.ModuleList, nn.ModuleDict)  # these would call it
    owner = next(m for m in specimen.model.modules() if not isinstance(m, containers))
    owner.register_module("unused_branch", nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8)))
