"""What the stress test sees of a model, without the verdict: that is fitted to it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import torch
import xarray
from torch import nn

from isometer.doctor.causes._explanation import CauseFinder
from isometer.doctor.probe._made_up import with_offsets
from isometer.doctor.probe._subject import examined
from isometer.doctor.stress._material import Batches
from isometer.doctor.stress._optimizers import optimizer_choices
from isometer.doctor.stress._race import StressRun
from isometer.doctor.stress._stress import stress_test
from isometer.errors import IsometerError
from isometer.serialize import json_data
from isometer.trial._family import Blueprint
from isometer.trial._members import specimen
from isometer.trial._specimen import Specimen

Tensor = torch.Tensor
FAR = 10_000
"""The first step whose batch is used: no run of the truth has trained on it."""
_SECONDS = 3600.0  # the whole plan, however slow the machine


def stress_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Progress of a model and its reference: a cell as for `doctor_cell`, `batch` being `fresh` (the model's own
    batches, targets and loss), `one` (the first of them alone) or `gaussian` (made-up inputs, no targets).

    Example:
        >>> from dataclasses import asdict
        >>> import numpy as np
        >>> from isometer.trial import family_named
        >>> drawn = family_named("additive-model").draw(np.random.default_rng(0), False)
        >>> cell = {"family": "additive-model", "blueprint": asdict(drawn), "fault": None, "severity": {}, "weights": 7,
        ...         "batch": "one"}
        >>> found = json.loads(stress_cell(cell, 0)["record"].item())
        >>> sorted(found), sorted(found["adam"])
        (['adam', 'error', 'runs', 'seconds', 'sgd', 'steps'],
         ['broken', 'early', 'fit', 'fresh', 'reference_fit', 'reference_fresh', 'repaired', 'yardstick'])
    """
    made = specimen(cell["family"], Blueprint(**cell["blueprint"]), cell["fault"], cell["severity"], cell["weights"])
    record: dict[str, Any] = {"error": None}
    # A loss that holds the model would keep it from being copied.
    loss = replace(made, model=nn.Identity()).loss
    try:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(cell["weights"])
            batches = Batches(_batches(made, cell["batch"], cell["weights"]))
        with examined(made.model, loss) as subject:
            found = stress_test(
                subject,
                batches,
                loss=None if cell["batch"] == "gaussian" else loss,
                optimizers=optimizer_choices(None, None, None, subject),
                samples=len(batches[0][0]),
                mode=None,
                budget=_SECONDS,
                finder=CauseFinder(searches=False),
            )
    except (IsometerError, RuntimeError, ValueError, TypeError) as problem:
        record["error"] = f"{type(problem).__name__}: {problem}"
    else:
        record |= {name: asdict(one.evidence) for name, one in found.outlooks.items()}
        record |= {"steps": sum(len(run.losses) for run in found.runs), "seconds": found.seconds}
        record["runs"] = [_summed(run) for run in found.runs]
    return xarray.Dataset({"record": json.dumps(json_data(record, digits=5))})


def _summed(run: StressRun) -> list[Any]:
    """Who, optimizer, batches, rate, steps and progress: enough to fit other rules without training again."""
    return [run.optimizer, run.who, run.on.split()[0], run.rate, run.steps, round(run.progress, 4)]


def _batches(made: Specimen, kind: str, seed: int) -> Iterator[Any]:
    for step in itertools.count(FAR) if kind != "one" else (FAR,):
        inputs, targets, _ = made.batch(seed=seed, step=step)
        yield with_offsets(made_up(made, inputs, step), seed=step) if kind == "gaussian" else (inputs, targets)


def made_up(made: Specimen, inputs: Tensor, seed: int) -> Tensor:
    """Gaussian inputs or random tokens of the same shape."""
    generator = torch.Generator().manual_seed(seed)
    if inputs.is_floating_point():
        return torch.randn(inputs.shape, generator=generator)
    return torch.randint(made.task.vocabulary, inputs.shape, generator=generator)
