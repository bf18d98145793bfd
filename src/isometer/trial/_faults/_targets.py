"""Targets: of other samples, or in other units."""

from __future__ import annotations

import torch

from isometer.trial._family import pick
from isometer.trial._faults._fault import FaultGroup, NotApplicable, Severity, one_of
from isometer.trial._specimen import Specimen

Tensor = torch.Tensor

TARGETS = FaultGroup("target")


@TARGETS.fault("targets-shuffled", "targets of other samples, to some share", one_of(share=(0.3, 0.7, 1.0)))
def _shuffled(specimen: Specimen, severity: Severity) -> None:
    def feed(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        wrong = torch.rand(len(y)) < severity["share"]
        return x, torch.where(wrong.reshape(-1, *[1] * (y.dim() - 1)), y[torch.randperm(len(y))], y)

    specimen.feeds.append(feed)


@TARGETS.fault(
    "targets-unscaled",
    "targets of a regression with large scale and mean",
    lambda rng: {"scale": pick(rng, 0.01, 10.0, 100.0, 1000.0), "mean": pick(rng, 0.0, 3.0, 30.0)},
)
def _units(specimen: Specimen, severity: Severity) -> None:
    if specimen.task.objective != "values":
        raise NotApplicable
    specimen.units = (severity["mean"] * severity["scale"], severity["scale"])
