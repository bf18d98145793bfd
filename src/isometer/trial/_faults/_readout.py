"""The readout: what is behind it, its scale and its bias."""

from __future__ import annotations

from torch import nn

from isometer.trial._faults._activations import NONLINEARITIES
from isometer.trial._faults._fault import FaultGroup, NotApplicable, Severity, factor_between, one_of
from isometer.trial._faults._parts import readout_layer
from isometer.trial._specimen import After, Specimen

READOUT = FaultGroup("readout")


def _output(specimen: Specimen, change: nn.Module) -> None:
    specimen.model.register_forward_hook(After(change))


@READOUT.fault(
    "readout-activated",
    "an activation behind the readout",
    one_of(which=("softmax", "relu", "sigmoid", "tanh", "softplus")),
)
def _activated(specimen: Specimen, severity: Severity) -> None:
    _output(specimen, NONLINEARITIES[severity["which"]]())


@READOUT.fault("readout-scaled", "the readout times a factor", one_of(factor=(0.0, 1e-3, 30.0, 1000.0)))
def _readout_scaled(specimen: Specimen, severity: Severity) -> None:
    for parameter in readout_layer(specimen).parameters():
        parameter.mul_(severity["factor"])


@READOUT.fault("readout-biased", "one output far above the others", factor_between(3, 300))
def _biased(specimen: Specimen, severity: Severity) -> None:
    bias = getattr(readout_layer(specimen), "bias", None)
    if not isinstance(bias, nn.Parameter):
        raise NotApplicable
    bias[0] += severity["factor"]
