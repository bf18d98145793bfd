"""Optimizers for models whose parameters change: by name, or as a function of parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from isometer.doctor.diagnosis._report import Report

Optimizer = torch.optim.Optimizer


def portable(optimizer: Any, report: Report) -> tuple[Any, float | None]:
    """What to judge with, and at which rate of the caller's: an optimizer holds parameters, and treatments change them.

    Args:
        optimizer: as for `diagnose`; those of the report by default.
        report: of the model.
    """
    own = next((one.at_rate.rate for one in report.trains.values() if one.at_rate is not None), None)
    if isinstance(optimizer, Optimizer):
        return _anew(optimizer), None
    if optimizer is not None or not report.asked:
        return optimizer, own
    return next(iter(report.trains), None), own


def _anew(optimizer: Optimizer) -> Callable[[Iterable[nn.Parameter]], Optimizer]:
    """Makes an optimizer of the same class with the settings of the first group."""
    kind: Any = type(optimizer)
    taken = inspect.signature(kind.__init__).parameters
    group = {**optimizer.defaults, **optimizer.param_groups[0]}
    settings = {key: value for key, value in group.items() if key in taken and key != "params"}
    if not settings.get("lr"):  # before the first step of a warm-up, the rate that it leads to
        settings["lr"] = group.get("initial_lr") or settings.get("lr")
    return lambda parameters: kind(parameters, **settings)
