"""From the causes of a report to steps: calls that put them right, or advice where only people can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

from torch import nn

from isometer.doctor.causes._data import InUnits, ScaledLoss
from isometer.doctor.causes._repair import INPUT, TARGETS, Repair
from isometer.doctor.causes._search import Cause
from isometer.doctor.causes._weights import shown
from isometer.doctor.conditions._prescription import Call, Written
from isometer.doctor.treatment._fixes import ByHand
from isometer.doctor.treatment._judges import Candidate
from isometer.doctor.treatment._record import Step
from isometer.errors import IsometerError

_NAMED = 3
_HERE = "isometer.doctor.treatment"
_FIXES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "weights": ("redraw", "weights"),
        "norm": ("reset-norm", "weights"),
        "frozen": ("unfreeze", "weights"),
        "operation": ("remove-operation", "architecture"),
        "activation": ("exchange-activation", "architecture"),
        "input": ("standardise-inputs", "batch"),
        "targets": ("output-units", "batch"),
        "loss": ("scale-loss", "training"),
    }
)
_ADVICE = {
    "input": ("distinct-samples", "batch"),
    "targets": ("check-targets", "batch"),
    "loss": ("turn-loss", "training"),
}
FIXES: tuple[str, ...] = tuple(name for name, kind in _FIXES.values() if kind != "training")
"""Ids of the steps that causes ask for and that change the model."""


def named(cause: Cause) -> tuple[str, str]:
    """Id and kind of the step that puts a cause right.

    Example:
        >>> import math
        >>> named(Cause(("input",), "Pass batches of different samples.", math.nan, "all are alike", "input"))
        ('distinct-samples', 'batch')
    """
    if not cause.fixes and cause.kind in _ADVICE:
        return _ADVICE[cause.kind]
    return _FIXES[cause.kind]


def advised(cause: Cause) -> Step:
    """A step that only people can take."""
    return Step(*named(cause), "advised", _located(cause.where, cause.repair))


def told(cause: Cause) -> str:
    """What is said about a cause that was put right, beside what it brought."""
    if cause.kind == "operation":
        return _located(cause.where, cause.repair)
    if cause.modules[0] in (INPUT, TARGETS):
        return cause.evidence
    names = ", ".join(map(shown, cause.modules[:_NAMED]))
    more = f" and {len(cause.modules) - _NAMED} more" if len(cause.modules) > _NAMED else ""
    return f"{names}{more}" + (f": {cause.evidence}" if cause.evidence else "")


def _located(where: str, advice: str) -> str:
    """Advice with the line that it is about, unless it names it."""
    return f"{where}: {advice}" if where and where not in advice else advice


def outside(cause: Cause) -> bool:
    """Whether only people can put a cause right: nothing in the model is to be changed."""
    return cause.kind == "loss" or not cause.fixes


def loss_factor(causes: Sequence[Cause]) -> float:
    """What the loss has to be multiplied with.

    Example:
        >>> loss_factor([])
        1.0
    """
    changes = (repair.change for cause in causes for repair in cause.fixes)
    return next((one.factor for one in changes if isinstance(one, ScaledLoss)), 1.0)


def in_order(causes: Sequence[Cause]) -> list[Cause]:
    """Redraws last: what is put in before them changes what layers are given."""
    return sorted((one for one in causes if not outside(one)), key=lambda one: one.kind in ("weights", "norm"))


def joined(causes: Sequence[Cause]) -> list[tuple[Cause, tuple[Cause, ...]]]:
    """Causes that one call puts right, as one, with those that it stands for.

    Weights are drawn in one call: two calls with one seed would draw the same numbers twice.
    """
    ordered = in_order(causes)
    found: list[tuple[Cause, tuple[Cause, ...]]] = []
    for kind in dict.fromkeys(one.kind for one in ordered):
        same = tuple(one for one in ordered if one.kind == kind)
        if kind in ("weights", "norm", "frozen"):
            fixes = tuple(repair for one in same for repair in one.fixes)
            found.append((replace(same[0], fixes=fixes), same))
        else:
            found += [(one, (one,)) for one in same]
    return found


def carry_out(cause: Cause, model: nn.Module, batch: Any, seed: int) -> tuple[Written, ...]:
    """Put a cause right in a model, and say by which calls.

    Raises:
        IsometerError: the model cannot be changed that way.
    """
    call = _call(cause, model)
    if call is not None:
        try:
            call.make(model, batch, seed)
            return (call,)
        except IsometerError:  # on one batch nothing may be odd: the repair has seen more of them
            pass
    done = _by_hand(cause)
    for one in done:
        one.make(model, batch, seed)
    return done


def candidate(cause: Cause, model: nn.Module) -> Candidate:
    """A cause, or a treatment of an explanation, as a change that can be tried beside others.

    Args:
        cause: with fixes.
        model: to be changed.
    """
    call = _call(cause, model)
    return Candidate(*named(cause), ((call,) if call is not None else _by_hand(cause),), note=told(cause))


def _by_hand(cause: Cause) -> tuple[ByHand, ...]:
    return tuple(ByHand(_comment(one), one.change) for one in cause.fixes)


def _comment(repair: Repair) -> str:
    return _located(repair.where, repair.advice)


def _call(cause: Cause, model: nn.Module) -> Call | None:
    """The function that makes all repairs of a cause, `None` where there is none."""
    names = list(dict.fromkeys(name for repair in cause.fixes for name in repair.modules))
    if cause.kind == "weights":
        return _on("redraw_", names, batch=True, seeded=True)
    if cause.kind == "norm":
        return _on("reset_norms_", names)
    if cause.kind == "frozen":
        # Where nothing at all is trained, no part was frozen on purpose.
        some = any(parameter.requires_grad for parameter in model.parameters())
        return _on("unfreeze_", names) if some else Call(_HERE, "unfreeze_")
    if cause.kind == "activation":
        layers = any(next(model.get_submodule(name).parameters(), None) is not None for name in names)
        return _on("insert_activations_" if layers else "exchange_activations_", names)
    if cause.kind == "input":
        return Call(_HERE, "standardise_inputs_", batch=True)
    change: Any = cause.fixes[0].change
    if isinstance(change, InUnits):
        units = {key: float(f"{value:.6g}") for key, value in asdict(change).items()}
        return Call(_HERE, "output_units_", options=MappingProxyType(units))
    return None


def _on(function: str, names: list[str], **how: bool) -> Call:
    return Call(_HERE, function, options=MappingProxyType({"modules": names}), **how)
