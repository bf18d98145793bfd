"""The causes that the doctor names for a model of the trial, in its order."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol, cast

import torch
import xarray
from torch import nn

from isometer.doctor.causes._repair import Repair
from isometer.doctor.diagnosis._diagnose import diagnose
from isometer.doctor.diagnosis._report import Report
from isometer.errors import IsometerError
from isometer.serialize import json_data
from isometer.trial._family import Blueprint
from isometer.trial._members import specimen
from isometer.trial._specimen import Specimen
from isometer.trial._stressed import _SECONDS, _batches

FAILURES = (IsometerError, RuntimeError, ValueError, TypeError)
"""What a model that cannot be examined may raise; a record says so."""


class NamedCause(Protocol):
    """What the trial reads of a cause."""

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of modules, or `input`, `targets`, `loss`."""

    @property
    def repair(self) -> str:
        """What to change, for people."""

    @property
    def effect(self) -> float:
        """How much the repair helps."""

    @property
    def fix(self) -> Repair:
        """The repair itself."""


def report_of(made: Specimen, *, seed: int, optimizer: str | None = None) -> Report:
    """All that the doctor says about a model with fresh batches of its task, its targets and its loss.

    Args:
        made: the model with its batches and its loss.
        seed: of the batches; none of them is one that the truth of this seed trains on.
        optimizer: what it is to be trained with, Adam and SGD unless given.
    """
    # A loss that holds the model would keep it from being copied.
    loss = replace(made, model=nn.Identity()).loss
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        batches = _batches(made, "fresh", seed)
        return diagnose(
            made.model, fresh=batches, loss=loss, optimizer=optimizer, mode=None, predict=False, budget=_SECONDS
        )


def causes_of(report: Report) -> tuple[NamedCause, ...]:
    """The causes of a report, the likeliest first."""
    return tuple(cast(Any, report).causes)


def cause_records(causes: Iterable[NamedCause]) -> list[dict[str, Any]]:
    """Causes ready for JSON.

    Example:
        >>> from types import SimpleNamespace
        >>> fix = Repair("weights", ("0",), "Draw `0` anew.", "", 5.0, lambda model: None)
        >>> cause_records([SimpleNamespace(modules=("0",), repair="Draw `0` anew.", effect=0.4, fix=fix)])
        [{'modules': ['0'], 'kind': 'weights', 'repair': 'Draw `0` anew.', 'effect': 0.4}]
    """
    found = [
        {"modules": [*one.modules], "kind": one.fix.kind, "repair": one.repair, "effect": one.effect} for one in causes
    ]
    return cast(list[dict[str, Any]], json_data(found, digits=5))


def cause_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """What the doctor blames: `family`, `blueprint`, `fault`, `severity` and `weights`, the seed of the model.

    The record has the `causes` in their order, the doctor's verdict by optimizer, and the seconds it took.
    """
    made = specimen(cell["family"], Blueprint(**cell["blueprint"]), cell["fault"], cell["severity"], cell["weights"])
    record: dict[str, Any] = {"error": None, "verdicts": {}, "causes": []}
    begun = time.perf_counter()
    try:
        report = report_of(made, seed=cell["weights"])
    except FAILURES as problem:
        record["error"] = f"{type(problem).__name__}: {problem}"
    else:
        record["verdicts"] = {name: one.verdict for name, one in report.trains.items()}
        record["causes"] = cause_records(causes_of(report))
    record["seconds"] = round(time.perf_counter() - begun, 1)
    return xarray.Dataset({"record": json.dumps(record)})
