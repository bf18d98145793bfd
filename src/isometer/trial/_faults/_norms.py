"""Norms: left out, or with wrong gains, eps or statistics."""

from __future__ import annotations

from typing import Any

from torch import nn

from isometer.trial._faults._fault import FaultGroup, NotApplicable, Severity, factor_between, one_of
from isometer.trial._faults._parts import replace
from isometer.trial._specimen import Specimen

NORMS = FaultGroup("norm")


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


@NORMS.fault("norms-left-out", "no normalisation")
def _no_norms(specimen: Specimen, severity: Severity) -> None:
    for norm in _norms(specimen):
        replace(specimen, norm, nn.Identity())


@NORMS.fault("norm-gains", "gains of the norms far from one", one_of(gain=(0.0, 1e-3, 0.1, 5.0, 30.0, -1.0)))
def _gains(specimen: Specimen, severity: Severity) -> None:
    for norm in _norms(specimen, affine=True):
        norm.weight.fill_(severity["gain"])


@NORMS.fault("norm-eps", "the eps of the norms so large that they do nothing", factor_between(1, 1e4))
def _eps(specimen: Specimen, severity: Severity) -> None:
    for norm in _norms(specimen):
        name = next(
            (name for name in ("eps", "variance_epsilon") if isinstance(getattr(norm, name, None), float)), None
        )
        if name is None:
            raise NotApplicable
        setattr(norm, name, severity["factor"])


@NORMS.fault("norm-running", "batch norm with running statistics that never saw data")
def _running(specimen: Specimen, severity: Severity) -> None:
    norms = [m for m in _norms(specimen) if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        raise NotApplicable
    for norm in norms:
        norm.eval()
