"""What people get wrong, as changes of a finished model, its batches or its loss.

Each fault draws its severity; mild ones and some that do no harm are wanted, since training decides what is sick.
Faults that need another architecture belong to the families (`Family.structural`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from isometer.trial._family import pick
from isometer.trial._specimen import After, Specimen, called

Tensor = torch.Tensor
Rng = np.random.Generator
Severity = dict[str, Any]


class NotApplicable(Exception):
    """The fault cannot be made in this model."""


@dataclass(frozen=True)
class Fault:
    """A mistake.

    Attributes:
        name: what it is called.
        about: one line for people.
        group: weights, path, norm, activation, input, target, loss, readout or size.
        draw: how severe, as JSON data.
        apply: makes it, in place; raises `NotApplicable` where it cannot be made.
    """

    name: str
    about: str
    group: str
    draw: Callable[[Rng], Severity]
    apply: Callable[[Specimen, Severity], None]


_FAULTS: dict[str, Fault] = {}


def _fault(name: str, about: str, group: str, draw: Callable[[Rng], Severity]) -> Callable[..., Any]:
    def register(apply: Callable[[Specimen, Severity], None]) -> Callable[[Specimen, Severity], None]:
        _FAULTS[name] = Fault(name, about, group, draw, apply)
        return apply

    return register


def _nothing(rng: Rng) -> Severity:
    return {}


def _factor(low: float, high: float, **more: Callable[[Rng], Any]) -> Callable[[Rng], Severity]:
    """A factor, uniform in its logarithm."""

    def draw(rng: Rng) -> Severity:
        value = math.exp(rng.uniform(math.log(low), math.log(high)))
        return {"factor": float(f"{value:.3g}"), **{key: one(rng) for key, one in more.items()}}

    return draw


def _among(**choices: Sequence[Any]) -> Callable[[Rng], Severity]:
    return lambda rng: {key: pick(rng, *values) for key, values in choices.items()}


def _place(rng: Rng) -> float:
    return round(float(rng.uniform()), 3)


def _at(things: Sequence[Any], place: float) -> Any:
    """The thing at a share of the way through a list."""
    if not things:
        raise NotApplicable
    return things[min(int(place * len(things)), len(things) - 1)]


_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)


def _matrices(specimen: Specimen) -> list[nn.Parameter]:
    """Weights of layers: everything with two or more dimensions that is no table of embeddings, each once."""
    tables = {id(m.weight) for m in specimen.model.modules() if isinstance(m, _EMBEDDINGS)}
    found = dict.fromkeys(
        p for p in specimen.model.parameters() if p.dim() > 1 and id(p) not in tables and p.numel() > 8
    )
    if len(found) < 2:
        raise NotApplicable
    return list(found)


def _has_matrix(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(weight, nn.Parameter) and weight.dim() > 1


def _biases(specimen: Specimen) -> list[nn.Parameter]:
    """Biases of layers with weights, not of norms."""
    found = [
        bias
        for m in specimen.model.modules()
        if isinstance(bias := getattr(m, "bias", None), nn.Parameter) and _has_matrix(m)
    ]
    if not found:
        raise NotApplicable
    return found


def _fan_in(weight: Tensor) -> int:
    return max(1, weight[0].numel())


def _readout(specimen: Specimen) -> nn.Module:
    """The last layer with weights that is called."""
    layers = [m for m in called(specimen) if _has_matrix(m)]
    if not layers:
        raise NotApplicable
    return layers[-1]


# Weights.


@_fault("all-too-large", "every weight matrix times a factor", "weights", _factor(1.5, 10))
@_fault("all-too-small", "every weight matrix times a small factor", "weights", _factor(0.03, 0.7))
def _scale_all(specimen: Specimen, severity: Severity) -> None:
    for weight in _matrices(specimen):
        weight.mul_(severity["factor"])


@_fault("one-too-large", "one weight matrix times a large factor", "weights", _factor(5, 1000, place=_place))
@_fault("one-too-small", "one weight matrix times a small factor", "weights", _factor(1e-5, 0.1, place=_place))
def _scale_one(specimen: Specimen, severity: Severity) -> None:
    _at(_matrices(specimen), severity["place"]).mul_(severity["factor"])


@_fault("one-zero", "one weight matrix is zero", "weights", lambda rng: {"place": _place(rng)})
def _zero_one(specimen: Specimen, severity: Severity) -> None:
    _at(_matrices(specimen), severity["place"]).zero_()


@_fault("constant", "weight matrices filled with one number", "weights", _among(share=(0.3, 1.0), zero=(False, True)))
def _constant(specimen: Specimen, severity: Severity) -> None:
    matrices = _matrices(specimen)
    for weight in matrices[: max(1, round(severity["share"] * len(matrices)))]:
        weight.fill_(0.0 if severity["zero"] else 1 / _fan_in(weight))


@_fault(
    "fixed-deviation", "every weight Gaussian with one deviation", "weights", _among(deviation=(1.0, 0.2, 0.02, 0.002))
)
def _fixed(specimen: Specimen, severity: Severity) -> None:
    for weight in _matrices(specimen):
        weight.normal_(0, severity["deviation"])


@_fault("all-positive", "weights drawn from 0 upwards, the sign forgotten", "weights", _nothing)
def _positive(specimen: Specimen, severity: Severity) -> None:
    for weight in _matrices(specimen):
        weight.abs_()


@_fault("torch-default", "layers left at torch's default initialisation", "weights", _nothing)
def _default(specimen: Specimen, severity: Severity) -> None:
    layers = [m for m in specimen.model.modules() if isinstance(m, nn.Linear | nn.Conv1d | nn.Conv2d)]
    if not layers:
        raise NotApplicable
    for layer in layers:
        layer.reset_parameters()


@_fault("low-rank", "weight matrices of rank one or two", "weights", _among(rank=(1, 2), share=(0.3, 1.0)))
def _low_rank(specimen: Specimen, severity: Severity) -> None:
    matrices = _matrices(specimen)
    for weight in matrices[: max(1, round(severity["share"] * len(matrices)))]:
        flat = weight.reshape(len(weight), -1)
        left = torch.randn(len(flat), severity["rank"])
        right = torch.randn(severity["rank"], flat.shape[1])
        made = left @ right
        weight.copy_((made * flat.norm() / made.norm()).reshape(weight.shape))


@_fault("pruned", "most entries of every weight matrix zero", "weights", _among(share=(0.8, 0.95, 0.99)))
def _prune(specimen: Specimen, severity: Severity) -> None:
    for weight in _matrices(specimen):
        weight.mul_(torch.rand(weight.shape) >= severity["share"])


@_fault("outlier-unit", "one row of one weight matrix times a large factor", "weights", _factor(20, 2000, place=_place))
def _outlier(specimen: Specimen, severity: Severity) -> None:
    _at(_matrices(specimen), severity["place"])[0].mul_(severity["factor"])


@_fault("negated", "the sign of one weight matrix flipped", "weights", lambda rng: {"place": _place(rng)})
def _negate(specimen: Specimen, severity: Severity) -> None:
    _at(_matrices(specimen), severity["place"]).neg_()


@_fault("biases-negative", "biases far below zero", "weights", _factor(0.5, 20))
def _negative(specimen: Specimen, severity: Severity) -> None:
    for bias in _biases(specimen):
        bias.fill_(-severity["factor"])


@_fault("biases-random", "biases drawn with a large deviation", "weights", _factor(0.5, 20))
def _random(specimen: Specimen, severity: Severity) -> None:
    for bias in _biases(specimen):
        bias.normal_(0, severity["factor"])


@_fault(
    "embeddings-scaled", "tables of embeddings times a factor", "weights", _among(factor=(0.0, 1e-3, 0.1, 10.0, 300.0))
)
def _embeddings(specimen: Specimen, severity: Severity) -> None:
    tables = [m for m in specimen.model.modules() if isinstance(m, _EMBEDDINGS)]
    if not tables:
        raise NotApplicable
    for table in tables:
        table.weight.mul_(severity["factor"])


# The path of signal and gradient.


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


class _Softmax(nn.Module):
    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(self.axis)


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
    _at(inner, place).register_forward_hook(After(change))


@_fault("detached", "a detach() in the middle", "path", lambda rng: {"place": _place(rng)})
def _detach(specimen: Specimen, severity: Severity) -> None:
    _inside(specimen, severity["place"], _Detach())


@_fault("rounded", "values rounded in the middle, gradient zero", "path", lambda rng: {"place": _place(rng)})
def _rounded(specimen: Specimen, severity: Severity) -> None:
    _inside(specimen, severity["place"], _Round())


@_fault("clamped", "values clamped to a narrow range in the middle", "path", _factor(1e-3, 1.0, place=_place))
def _clamped(specimen: Specimen, severity: Severity) -> None:
    _inside(specimen, severity["place"], _Clamp(severity["factor"]))


@_fault("rescaled", "values multiplied by a factor in the middle", "path", _factor(1e-4, 1e4, place=_place))
def _rescaled(specimen: Specimen, severity: Severity) -> None:
    _inside(specimen, severity["place"], _Scale(severity["factor"]))


@_fault("samples-mixed", "samples exchanged by a reshape in the middle", "path", lambda rng: {"place": _place(rng)})
def _mixed(specimen: Specimen, severity: Severity) -> None:
    _inside(specimen, severity["place"], _Roll())


@_fault(
    "averaged",
    "samples replaced by the mean of the batch, to some share",
    "path",
    lambda rng: {"place": _place(rng), "share": pick(rng, 0.5, 0.9, 1.0)},
)
def _averaged(specimen: Specimen, severity: Severity) -> None:
    _inside(specimen, severity["place"], _Mean(severity["share"]))


@_fault(
    "softmax-inside",
    "a softmax in the middle, over features or over the batch",
    "path",
    lambda rng: {"place": _place(rng), "axis": pick(rng, 0, -1)},
)
def _softmax(specimen: Specimen, severity: Severity) -> None:
    _inside(specimen, severity["place"], _Softmax(severity["axis"]))


@_fault("dropout", "dropout after many layers", "path", _among(share=(0.2, 0.5, 0.8, 0.95)))
def _dropout(specimen: Specimen, severity: Severity) -> None:
    layers = called(specimen, nn.Linear, nn.Conv1d, nn.Conv2d)[:-1]
    if not layers:
        raise NotApplicable
    for layer in layers:
        layer.register_forward_hook(After(_Drop(severity["share"])))


@_fault(
    "frozen",
    "parameters that are not trained",
    "path",
    _among(which=("all but the readout", "readout", "first half", "all but norms and biases")),
)
def _frozen(specimen: Specimen, severity: Severity) -> None:
    parameters, which = list(specimen.model.parameters()), severity["which"]
    last = {id(p) for p in _readout(specimen).parameters()}
    for place, parameter in enumerate(parameters):
        frozen = {
            "all but the readout": id(parameter) not in last,
            "readout": id(parameter) in last,
            "first half": place < len(parameters) / 2,
            "all but norms and biases": parameter.dim() > 1,
        }[which]
        if frozen:
            parameter.requires_grad_(False)


@_fault("unused", "parameters that no output depends on", "path", _nothing)
def _unused(specimen: Specimen, severity: Severity) -> None:
    containers = (nn.Sequential, nn.ModuleList, nn.ModuleDict)  # these would call it
    owner = next(m for m in specimen.model.modules() if not isinstance(m, containers))
    owner.register_module("unused_branch", nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8)))


# Norms and activations.


def _norms(specimen: Specimen, *, affine: bool = False) -> list[Any]:
    found = [
        m
        for m in specimen.model.modules()
        if "norm" in type(m).__name__.lower()
        and not any(m.children())
        and (not affine or isinstance(getattr(m, "weight", None), nn.Parameter))
    ]
    if not found:
        raise NotApplicable
    return found


def _replace(specimen: Specimen, old: nn.Module, new: nn.Module) -> None:
    for parent in list(specimen.model.modules()):
        for name, child in parent.named_children():
            if child is old:
                setattr(parent, name, new)


@_fault("norms-left-out", "no normalisation", "norm", _nothing)
def _no_norms(specimen: Specimen, severity: Severity) -> None:
    for norm in _norms(specimen):
        _replace(specimen, norm, nn.Identity())


@_fault("norm-gains", "gains of the norms far from one", "norm", _among(gain=(0.0, 1e-3, 0.1, 5.0, 30.0, -1.0)))
def _gains(specimen: Specimen, severity: Severity) -> None:
    for norm in _norms(specimen, affine=True):
        norm.weight.fill_(severity["gain"])


@_fault("norm-eps", "the eps of the norms so large that they do nothing", "norm", _factor(1, 1e4))
def _eps(specimen: Specimen, severity: Severity) -> None:
    for norm in _norms(specimen):
        name = next(
            (name for name in ("eps", "variance_epsilon") if isinstance(getattr(norm, name, None), float)), None
        )
        if name is None:
            raise NotApplicable
        setattr(norm, name, severity["factor"])


@_fault("norm-running", "batch norm with running statistics that never saw data", "norm", _nothing)
def _running(specimen: Specimen, severity: Severity) -> None:
    norms = [m for m in _norms(specimen) if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        raise NotApplicable
    for norm in norms:
        norm.eval()


def _activations(specimen: Specimen) -> list[nn.Module]:
    found = [
        m
        for m in called(specimen)
        if next(m.parameters(), None) is None
        and (type(m).__module__.startswith(("torch.nn.modules.activation", "transformers.activations")))
    ]
    if not found:
        raise NotApplicable
    return found


@_fault("activations-left-out", "no nonlinearity", "activation", _nothing)
def _linear(specimen: Specimen, severity: Severity) -> None:
    for module in _activations(specimen):
        _replace(specimen, module, nn.Identity())


_OTHERS: Mapping[str, Callable[[], nn.Module]] = {
    "sigmoid": nn.Sigmoid,
    "softmax": lambda: _Softmax(-1),
    "hardtanh": lambda: nn.Hardtanh(-0.1, 0.1),
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "softplus": nn.Softplus,
}


@_fault("activations-exchanged", "another nonlinearity", "activation", _among(which=tuple(_OTHERS)))
def _exchanged(specimen: Specimen, severity: Severity) -> None:
    for module in _activations(specimen):
        _replace(specimen, module, _OTHERS[severity["which"]]())


@_fault("activations-twice", "a sigmoid behind every nonlinearity", "activation", _nothing)
def _twice(specimen: Specimen, severity: Severity) -> None:
    for module in _activations(specimen):
        module.register_forward_hook(After(nn.Sigmoid()))


# Inputs and targets.


def _floats(specimen: Specimen) -> None:
    if specimen.task.form == "tokens":
        raise NotApplicable


@_fault(
    "input-unscaled", "inputs as they came, 0 to 255", "input", _among(factor=(40.0, 127.0, 1000.0), offset=(0.0, 1.0))
)
def _unscaled(specimen: Specimen, severity: Severity) -> None:
    _floats(specimen)
    factor, offset = severity["factor"], severity["offset"]
    specimen.feeds.append(lambda x, y: (factor * (x + offset), y))


@_fault("input-tiny", "inputs divided by far too much", "input", _factor(1e-6, 0.05))
def _tiny(specimen: Specimen, severity: Severity) -> None:
    _floats(specimen)
    specimen.feeds.append(lambda x, y: (severity["factor"] * x, y))


@_fault("input-offset", "inputs far from zero in the mean", "input", _factor(3, 300))
def _offset(specimen: Specimen, severity: Severity) -> None:
    _floats(specimen)
    specimen.feeds.append(lambda x, y: (x + severity["factor"], y))


@_fault("input-outlier", "one feature far larger than the others", "input", _factor(30, 1e4))
def _outlier_feature(specimen: Specimen, severity: Severity) -> None:
    _floats(specimen)

    def feed(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x = x.clone()
        x[..., 0] *= severity["factor"]
        return x, y

    specimen.feeds.append(feed)


@_fault("input-drowned", "inputs under much noise", "input", _factor(1, 30))
def _drowned(specimen: Specimen, severity: Severity) -> None:
    _floats(specimen)
    specimen.feeds.append(lambda x, y: (x + severity["factor"] * torch.randn(x.shape), y))


@_fault("input-lost", "the same input for every sample", "input", _nothing)
def _lost(specimen: Specimen, severity: Severity) -> None:
    specimen.feeds.append(lambda x, y: (x[:1].expand_as(x).contiguous(), y))


@_fault("input-nan", "a value that is no number in one sample of thirty", "input", _nothing)
def _nan(specimen: Specimen, severity: Severity) -> None:
    _floats(specimen)

    def feed(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x = x.clone()
        x.view(len(x), -1)[torch.rand(len(x)) < 1 / 30, 0] = math.nan
        return x, y

    specimen.feeds.append(feed)


@_fault(
    "input-blank", "most tokens replaced by padding, most features by zero", "input", _among(share=(0.5, 0.9, 0.98))
)
def _blank(specimen: Specimen, severity: Severity) -> None:
    specimen.feeds.append(
        lambda x, y: (torch.where(torch.rand(x.shape) < severity["share"], torch.zeros_like(x), x), y)
    )


@_fault("targets-shuffled", "targets of other samples, to some share", "target", _among(share=(0.3, 0.7, 1.0)))
def _shuffled(specimen: Specimen, severity: Severity) -> None:
    def feed(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        wrong = torch.rand(len(y)) < severity["share"]
        return x, torch.where(wrong.reshape(-1, *[1] * (y.dim() - 1)), y[torch.randperm(len(y))], y)

    specimen.feeds.append(feed)


@_fault(
    "targets-unscaled",
    "targets of a regression with large scale and mean",
    "target",
    lambda rng: {"scale": pick(rng, 0.01, 10.0, 100.0, 1000.0), "mean": pick(rng, 0.0, 3.0, 30.0)},
)
def _units(specimen: Specimen, severity: Severity) -> None:
    if specimen.task.objective != "values":
        raise NotApplicable
    specimen.units = (severity["mean"] * severity["scale"], severity["scale"])


# Loss and readout.


@_fault("loss-negated", "the loss with the wrong sign", "loss", _nothing)
def _ascent(specimen: Specimen, severity: Severity) -> None:
    specimen.objectives.append(lambda value: -value)


@_fault(
    "loss-scaled",
    "the loss times a factor, as with a sum in place of a mean",
    "loss",
    _among(factor=(1e-8, 1e-4, 32.0, 1e4)),
)
def _loss_scaled(specimen: Specimen, severity: Severity) -> None:
    specimen.objectives.append(lambda value: severity["factor"] * value)


def _output(specimen: Specimen, change: nn.Module) -> None:
    specimen.model.register_forward_hook(After(change))


@_fault(
    "readout-activated",
    "an activation behind the readout",
    "readout",
    _among(which=("softmax", "relu", "sigmoid", "tanh", "softplus")),
)
def _activated(specimen: Specimen, severity: Severity) -> None:
    _output(specimen, _OTHERS[severity["which"]]())


@_fault("readout-scaled", "the readout times a factor", "readout", _among(factor=(0.0, 1e-3, 30.0, 1000.0)))
def _readout_scaled(specimen: Specimen, severity: Severity) -> None:
    for parameter in _readout(specimen).parameters():
        parameter.mul_(severity["factor"])


@_fault("readout-biased", "one output far above the others", "readout", _factor(3, 300))
def _biased(specimen: Specimen, severity: Severity) -> None:
    bias = getattr(_readout(specimen), "bias", None)
    if not isinstance(bias, nn.Parameter):
        raise NotApplicable
    bias[0] += severity["factor"]


# Sizes.


@_fault("batch-tiny", "two or three samples per step", "size", _among(samples=(2, 3)))
def _small_batch(specimen: Specimen, severity: Severity) -> None:
    specimen.samples = severity["samples"]


@_fault("batch-repeated", "every sample of a batch many times", "size", _among(different=(1, 2, 4)))
def _repeated(specimen: Specimen, severity: Severity) -> None:
    specimen.different = severity["different"]


FAULTS: Mapping[str, Fault] = MappingProxyType(_FAULTS)
"""The faults that can be made in most models, by name."""

SIZES: Mapping[str, str] = MappingProxyType(
    {
        "too-deep": "four times as many layers as drawn",
        "too-narrow": "an eighth of the width drawn",
    }
)
"""Faults of size, which change the blueprint of any family."""
