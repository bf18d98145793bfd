"""Nonlinearities: left out, exchanged, or one too many."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor, nn

from isometer.trial._faults._fault import FaultGroup, NotApplicable, Severity, one_of
from isometer.trial._faults._parts import replace
from isometer.trial._specimen import After, Specimen, called

ACTIVATIONS = FaultGroup("activation")


class _Softmax(nn.Module):
    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(self.axis)


def softmax(axis: int) -> nn.Module:
    """A softmax over the features (-1) or, by mistake, over the batch (0)."""
    return _Softmax(axis)


NONLINEARITIES: Mapping[str, Callable[[], nn.Module]] = {
    "sigmoid": nn.Sigmoid,
    "softmax": lambda: softmax(-1),
    "hardtanh": lambda: nn.Hardtanh(-0.1, 0.1),
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "softplus": nn.Softplus,
}
"""By name, what can stand in the place of an activation or behind a readout."""


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


@ACTIVATIONS.fault("activations-left-out", "no nonlinearity")
def _linear(specimen: Specimen, severity: Severity) -> None:
    for module in _activations(specimen):
        replace(specimen, module, nn.Identity())


@ACTIVATIONS.fault("activations-exchanged", "another nonlinearity", one_of(which=tuple(NONLINEARITIES)))
def _exchanged(specimen: Specimen, severity: Severity) -> None:
    for module in _activations(specimen):
        replace(specimen, module, NONLINEARITIES[severity["which"]]())


@ACTIVATIONS.fault("activations-twice", "a sigmoid behind every nonlinearity")
def _twice(specimen: Specimen, severity: Severity) -> None:
    for module in _activations(specimen):
        module.register_forward_hook(After(nn.Sigmoid()))
