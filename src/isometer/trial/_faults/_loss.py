"""The loss: its sign and its scale."""

from __future__ import annotations

from isometer.trial._faults._fault import FaultGroup, Severity, one_of
from isometer.trial._specimen import Specimen

LOSS = FaultGroup("loss")


@LOSS.fault("loss-negated", "the loss with the wrong sign")
def _ascent(specimen: Specimen, severity: Severity) -> None:
    specimen.objectives.append(lambda value: -value)


@LOSS.fault(
    "loss-scaled",
    "the loss times a factor, as with a sum in place of a mean",
    one_of(factor=(1e-8, 1e-4, 32.0, 1e4)),
)
def _loss_scaled(specimen: Specimen, severity: Severity) -> None:
    specimen.objectives.append(lambda value: severity["factor"] * value)
