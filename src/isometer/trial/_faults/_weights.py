"""Weights and biases: scale, sign, rank and distribution."""

from __future__ import annotations

import torch
from torch import nn

from isometer.trial._faults._fault import FaultGroup, NotApplicable, Severity, anywhere, factor_between, one_of
from isometer.trial._faults._parts import EMBEDDINGS, at, layer_biases, weight_matrices
from isometer.trial._specimen import Specimen

WEIGHTS = FaultGroup("weights")


@WEIGHTS.fault("all-too-large", "every weight matrix times a factor", factor_between(1.5, 10))
@WEIGHTS.fault("all-too-small", "every weight matrix times a small factor", factor_between(0.03, 0.7))
def _scale_all(specimen: Specimen, severity: Severity) -> None:
    for weight in weight_matrices(specimen):
        weight.mul_(severity["factor"])


@WEIGHTS.fault("one-too-large", "one weight matrix times a large factor", factor_between(5, 1000, place=anywhere))
@WEIGHTS.fault("one-too-small", "one weight matrix times a small factor", factor_between(1e-5, 0.1, place=anywhere))
def _scale_one(specimen: Specimen, severity: Severity) -> None:
    at(weight_matrices(specimen), severity["place"]).mul_(severity["factor"])


@WEIGHTS.fault("one-zero", "one weight matrix is zero", lambda rng: {"place": anywhere(rng)})
def _zero_one(specimen: Specimen, severity: Severity) -> None:
    at(weight_matrices(specimen), severity["place"]).zero_()


@WEIGHTS.fault("constant", "weight matrices filled with one number", one_of(share=(0.3, 1.0), zero=(False, True)))
def _constant(specimen: Specimen, severity: Severity) -> None:
    matrices = weight_matrices(specimen)
    for weight in matrices[: max(1, round(severity["share"] * len(matrices)))]:
        weight.fill_(0.0 if severity["zero"] else 1 / max(1, weight[0].numel()))


@WEIGHTS.fault("fixed-deviation", "every weight Gaussian with one deviation", one_of(deviation=(1.0, 0.2, 0.02, 0.002)))
def _fixed(specimen: Specimen, severity: Severity) -> None:
    for weight in weight_matrices(specimen):
        weight.normal_(0, severity["deviation"])


@WEIGHTS.fault("all-positive", "weights drawn from 0 upwards, the sign forgotten")
def _positive(specimen: Specimen, severity: Severity) -> None:
    for weight in weight_matrices(specimen):
        weight.abs_()


@WEIGHTS.fault("torch-default", "layers left at torch's default initialisation")
def _default(specimen: Specimen, severity: Severity) -> None:
    layers = [m for m in specimen.model.modules() if isinstance(m, nn.Linear | nn.Conv1d | nn.Conv2d)]
    if not layers:
        raise NotApplicable
    for layer in layers:
        layer.reset_parameters()


@WEIGHTS.fault("low-rank", "weight matrices of rank one or two", one_of(rank=(1, 2), share=(0.3, 1.0)))
def _low_rank(specimen: Specimen, severity: Severity) -> None:
    matrices = weight_matrices(specimen)
    for weight in matrices[: max(1, round(severity["share"] * len(matrices)))]:
        flat = weight.reshape(len(weight), -1)
        left = torch.randn(len(flat), severity["rank"])
        right = torch.randn(severity["rank"], flat.shape[1])
        made = left @ right
        weight.copy_((made * flat.norm() / made.norm()).reshape(weight.shape))


@WEIGHTS.fault("pruned", "most entries of every weight matrix zero", one_of(share=(0.8, 0.95, 0.99)))
def _prune(specimen: Specimen, severity: Severity) -> None:
    for weight in weight_matrices(specimen):
        weight.mul_(torch.rand(weight.shape) >= severity["share"])


@WEIGHTS.fault(
    "outlier-unit", "one row of one weight matrix times a large factor", factor_between(20, 2000, place=anywhere)
)
def _outlier(specimen: Specimen, severity: Severity) -> None:
    at(weight_matrices(specimen), severity["place"])[0].mul_(severity["factor"])


@WEIGHTS.fault("negated", "the sign of one weight matrix flipped", lambda rng: {"place": anywhere(rng)})
def _negate(specimen: Specimen, severity: Severity) -> None:
    at(weight_matrices(specimen), severity["place"]).neg_()


@WEIGHTS.fault("biases-negative", "biases far below zero", factor_between(0.5, 20))
def _negative(specimen: Specimen, severity: Severity) -> None:
    for bias in layer_biases(specimen):
        bias.fill_(-severity["factor"])


@WEIGHTS.fault("biases-random", "biases drawn with a large deviation", factor_between(0.5, 20))
def _random(specimen: Specimen, severity: Severity) -> None:
    for bias in layer_biases(specimen):
        bias.normal_(0, severity["factor"])


@WEIGHTS.fault("embeddings-scaled", "tables of embeddings times a factor", one_of(factor=(0.0, 1e-3, 0.1, 10.0, 300.0)))
def _embeddings(specimen: Specimen, severity: Severity) -> None:
    tables = [m for m in specimen.model.modules() if isinstance(m, EMBEDDINGS)]
    if not tables:
        raise NotApplicable
    for table in tables:
        table.weight.mul_(severity["factor"])
