"""The truth about a model after the doctor treated it: the same training, of the treated model.

A treatment is of a model at hand, so it is decided anew for the weights of every seed. What it decides is a list of
repairs; they are made again in every copy that is trained.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
import xarray
from torch import nn

from isometer.doctor.causes._data import ScaledLoss
from isometer.doctor.causes._repair import LOSS, Repair
from isometer.doctor.treatment._apply import treat
from isometer.doctor.treatment._causes import loss_factor
from isometer.doctor.treatment._record import Treatment
from isometer.trial._family import Blueprint
from isometer.trial._members import specimen
from isometer.trial._named_causes import FAILURES, loss_and_batches, report_of
from isometer.trial._specimen import Specimen
from isometer.trial._stressed import _SECONDS
from isometer.trial._truth import both_rounds, trained_score

_DRAWS = 20_000  # added to the seed of a model: what a repair draws is not what the model drew


class Decide(Protocol):
    """Decides on the treatment of a model, with its batches and its loss, for an optimizer."""

    def __call__(self, made: Specimen, *, optimizer: str, seed: int) -> Sequence[Repair]:
        """The repairs, in the order in which they are made; none if the model is left as it is."""


def decided(made: Specimen, *, optimizer: str, seed: int) -> Sequence[Repair]:
    """What `treat` does to a model and advises, nothing if the doctor says that it trains, if only slowly, and blames
    no part of it."""
    report = report_of(made, seed=seed, optimizer=optimizer)
    if report.healthy and not report.causes:
        return ()
    loss, batches = loss_and_batches(made, seed=seed)
    found = treat(made.model, report, batch=None, fresh=batches, loss=loss, optimizer=optimizer, budget=_SECONDS)
    plan = []
    if found.calls:
        inputs, _ = next(loss_and_batches(made, seed=seed)[1])
        plan.append(Repair("weights", found.applied, found.summary, "", 0.0, Again(found, inputs)))
    factors = {"turn-loss": -1.0, "scale-loss": loss_factor(found.before.causes)}
    for step in found.advice:
        if step.id in factors:
            plan.append(Repair("loss", (LOSS,), step.reason, "", 0.0, ScaledLoss(factors[step.id])))
    return plan


@dataclass(frozen=True, eq=False)
class Again:
    """The same treatment of another copy of a model."""

    treatment: Treatment
    inputs: Any

    def __call__(self, model: nn.Module) -> None:
        self.treatment.repeat(model, self.inputs)


def repair_in_place(made: Specimen, repairs: Sequence[Repair], *, seed: int) -> Specimen:
    """Make repairs in a model, or in what it is trained on; the specimen that was given.

    A repair changes the model, also where it is about inputs or targets: it standardises what comes in, or gives the
    output the units of the targets. The loss is outside; its repair multiplies it.

    Example:
        >>> from torch import nn
        >>> made = specimen("mlp-relu", Blueprint("friedman", 16, 2, options={"activation": "ReLU"}), None, {}, 0)
        >>> zero = Repair("weights", ("5",), "", "", 1.0, lambda model: nn.init.zeros_(model[5].weight))
        >>> float(repair_in_place(made, [zero], seed=0).model[5].weight.detach().abs().max())
        0.0
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed + _DRAWS)
        for repair in repairs:
            if isinstance(repair.change, ScaledLoss):
                made.objectives.append(partial(torch.mul, repair.change.factor))
            else:
                repair.change(made.model)
    return made


def treated_record(cell: Mapping[str, Any], decide: Decide) -> dict[str, Any]:
    """Train a treated model as `truth_cell` trains the untreated one: a cell as for that.

    Returns:
        The same record, with the `repairs` of every seed and the `errors` of those that could not be examined, which
        are left as they are. A model in which nothing was repaired is not trained again: `second` is empty, and the
        truth about it is the old one.
    """
    optimizer, seeds = cell["optimizer"], cell["seeds"]

    def made(seed: int) -> Specimen:
        return specimen(cell["family"], Blueprint(**cell["blueprint"]), cell["fault"], cell["severity"], seed)

    plans: dict[int, Sequence[Repair]] = {}
    errors: dict[str, str] = {}
    for seed in seeds:
        try:
            plans[seed] = decide(made(seed), optimizer=optimizer, seed=seed)
        except FAILURES as problem:
            plans[seed], errors[str(seed)] = (), f"{type(problem).__name__}: {problem}"

    def score(rate: float, seed: int, steps: int) -> float:
        ready = repair_in_place(made(seed), plans[seed], seed=seed)
        return trained_score(ready, optimizer, rate, seed=seed, steps=steps)

    found: dict[str, Any] = {"first": [], "second": []}
    if any(plans.values()):
        found = both_rounds(score, optimizer, cell)
    listed = [[{"kind": one.kind, "modules": [*one.modules]} for one in plans[seed]] for seed in seeds]
    return {**found, "repairs": listed, "errors": errors}


def treated_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The truth about a model after the doctor's treatment: a cell as for `truth_cell`."""
    return xarray.Dataset({"record": json.dumps(treated_record(cell, decided))})
