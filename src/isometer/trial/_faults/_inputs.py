"""Inputs: units, offsets, noise, and samples that carry nothing."""

from __future__ import annotations

import math

import torch

from isometer.trial._faults._fault import FaultGroup, NotApplicable, Severity, factor_between, one_of
from isometer.trial._specimen import Specimen

Tensor = torch.Tensor

INPUTS = FaultGroup("input")


def _floats(specimen: Specimen) -> None:
    if specimen.task.form == "tokens":
        raise NotApplicable


@INPUTS.fault(
    "input-unscaled", "inputs as they came, 0 to 255", one_of(factor=(40.0, 127.0, 1000.0), offset=(0.0, 1.0))
)
def _unscaled(specimen: Specimen, severity: Severity) -> None:
    _floats(specimen)
    factor, offset = severity["factor"], severity["offset"]
    specimen.feeds.append(lambda x, y: (factor * (x + offset), y))


@INPUTS.fault("input-tiny", "inputs divided by far too much", factor_between(1e-6, 0.05))
def _tiny(specimen: Specimen, severity: Severity) -> None:
    _floats(specimen)
    specimen.feeds.append(lambda x, y: (severity["factor"] * x, y))


@INPUTS.fault("input-offset", "inputs far from zero in the mean", factor_between(3, 300))
def _offset(specimen: Specimen, severity: Severity) -> None:
    _floats(specimen)
    specimen.feeds.append(lambda x, y: (x + severity["factor"], y))


@INPUTS.fault("input-outlier", "one feature far larger than the others", factor_between(30, 1e4))
def _outlier_feature(specimen: Specimen, severity: Severity) -> None:
    _floats(specimen)

    def feed(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x = x.clone()
        x[..., 0] *= severity["factor"]
        return x, y

    specimen.feeds.append(feed)


@INPUTS.fault("input-drowned", "inputs under much noise", factor_between(1, 30))
def _drowned(specimen: Specimen, severity: Severity) -> None:
    _floats(specimen)
    specimen.feeds.append(lambda x, y: (x + severity["factor"] * torch.randn(x.shape), y))


@INPUTS.fault("input-lost", "the same input for every sample")
def _lost(specimen: Specimen, severity: Severity) -> None:
    specimen.feeds.append(lambda x, y: (x[:1].expand_as(x).contiguous(), y))


@INPUTS.fault("input-nan", "a value that is no number in one sample of thirty")
def _nan(specimen: Specimen, severity: Severity) -> None:
    _floats(specimen)

    def feed(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x = x.clone()
        x.view(len(x), -1)[torch.rand(len(x)) < 1 / 30, 0] = math.nan
        return x, y

    specimen.feeds.append(feed)


@INPUTS.fault("input-blank", "most tokens replaced by padding, most features by zero", one_of(share=(0.5, 0.9, 0.98)))
def _blank(specimen: Specimen, severity: Severity) -> None:
    specimen.feeds.append(
        lambda x, y: (torch.where(torch.rand(x.shape) < severity["share"], torch.zeros_like(x), x), y)
    )
