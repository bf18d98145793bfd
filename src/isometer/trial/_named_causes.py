"""The causes that the doctor names for a model of the trial, in its order."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import torch
import xarray
from torch import nn

from isometer.doctor.causes._search import Cause
from isometer.doctor.diagnosis._diagnose import diagnose
from isometer.doctor.diagnosis._report import Report
from isometer.serialize import json_data
from isometer.trial._family import Blueprint
from isometer.trial._members import specimen
from isometer.trial._specimen import Specimen
from isometer.trial._stressed import _SECONDS, _batches

FAILURES = (Exception,)
"""What an examination may raise: a doctor that breaks on a model is an answer, too, and a record says so."""


def report_of(made: Specimen, *, seed: int, optimizer: str | None = None) -> Report:
    """All that the doctor says about a model with fresh batches of its task, its targets and its loss.

    Args:
        made: the model with its batches and its loss.
        seed: of the batches; none of them is one that the truth of this seed trains on.
        optimizer: what it is to be trained with, Adam and SGD unless given.
    """
    loss, batches = loss_and_batches(made, seed=seed)
    return diagnose(
        made.model, fresh=batches, loss=loss, optimizer=optimizer, mode=None, predict=False, budget=_SECONDS
    )


def loss_and_batches(made: Specimen, *, seed: int) -> tuple[Any, Iterator[Any]]:
    """What a model is trained with: its loss, and fresh batches of its task, faults included."""
    # A loss that holds the model would keep it from being copied.
    return replace(made, model=nn.Identity()).loss, _seeded(made, seed)


def _seeded(made: Specimen, seed: int) -> Iterator[Any]:
    """Batches whose faults draw from the global generator, which is left as it was between them."""
    state = torch.Generator().manual_seed(seed).get_state()
    batches = _batches(made, "fresh", seed)
    while True:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.set_state(state)
            pair = next(batches)
            state = torch.default_generator.get_state()
        yield pair


def cause_records(causes: Iterable[Cause]) -> list[dict[str, Any]]:
    """Causes ready for JSON.

    Example:
        >>> cause_records([Cause(("0",), "Draw `0` anew.", 0.4, "its weights are zero", "weights")])
        [{'modules': ['0'], 'kind': 'weights', 'repair': 'Draw `0` anew.', 'effect': 0.4}]
    """
    found = [
        {"modules": [*one.modules], "kind": one.kind, "repair": one.repair, "effect": one.effect} for one in causes
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
        record["causes"] = cause_records(report.causes)
    record["seconds"] = round(time.perf_counter() - begun, 1)
    return xarray.Dataset({"record": json.dumps(record)})
