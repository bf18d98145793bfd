"""What is said about a model without knowing the truth: by the doctor on real and on made-up batches, by baselines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
import xarray

from isometer.doctor.diagnosis._diagnose import diagnose
from isometer.errors import IsometerError
from isometer.serialize import json_data
from isometer.trial._baselines import at_initialization, plain_training
from isometer.trial._family import Blueprint
from isometer.trial._members import specimen
from isometer.trial._specimen import Specimen

Tensor = torch.Tensor
_FAR = 10_000
"""The step whose batch the doctor sees: one that no run has trained on."""


def _specimen(cell: Mapping[str, Any]) -> Specimen:
    return specimen(cell["family"], Blueprint(**cell["blueprint"]), cell["fault"], cell["severity"], cell["weights"])


def doctor_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """The doctor's findings: `family`, `blueprint`, `fault`, `severity`, `weights` (the seed of the model) and `batch`,
    `real` (with the model's own targets and loss) or `gaussian` (made-up inputs, no targets).

    Example:
        >>> from dataclasses import asdict
        >>> import numpy as np
        >>> from isometer.trial import family_named
        >>> drawn = family_named("moe-mlp").draw(np.random.default_rng(0), False)
        >>> cell = {"family": "moe-mlp", "blueprint": asdict(drawn), "fault": "one-zero", "severity": {"place": 0.5},
        ...         "weights": 0, "batch": "real"}
        >>> sorted(json.loads(doctor_cell(cell, 0)["record"].item()))
        ['error', 'findings']
    """
    made = _specimen(cell)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(cell["weights"])
        inputs, targets, _ = made.batch(seed=cell["weights"], step=_FAR)
    record: dict[str, Any] = {"findings": [], "error": None}
    try:
        if cell["batch"] == "real":
            report = diagnose(made.model, inputs, target=targets, loss=made.loss, mode=None)
        else:
            report = diagnose(made.model, _made_up(made, inputs), mode=None)
    except (IsometerError, RuntimeError, ValueError, TypeError) as problem:
        record["error"] = f"{type(problem).__name__}: {problem}"
    else:
        record["findings"] = [{"id": one.id, "severity": one.severity} for one in report.findings]
    return xarray.Dataset({"record": json.dumps(record)})


def _made_up(made: Specimen, inputs: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    if inputs.is_floating_point():
        return torch.randn(inputs.shape, generator=generator)
    return torch.randint(made.task.vocabulary, inputs.shape, generator=generator)


def baseline_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """Scores of the baselines: a cell as for `doctor_cell`; weights, batches and steps are not those of the truth.

    Example:
        >>> from dataclasses import asdict
        >>> import numpy as np
        >>> from isometer.trial import family_named
        >>> drawn = family_named("moe-mlp").draw(np.random.default_rng(0), False)
        >>> cell = {"family": "moe-mlp", "blueprint": asdict(drawn), "fault": None, "severity": {}, "weights": 7}
        >>> found = json.loads(baseline_cell(cell, 0)["record"].item())
        >>> sorted(found)
        ['adam', 'initialization', 'sgd']
    """
    record: dict[str, Any] = {"initialization": at_initialization(_specimen(cell), seed=cell["weights"])}
    for optimizer in ("adam", "sgd"):
        record[optimizer] = plain_training(lambda: _specimen(cell), optimizer, seed=cell["weights"])
    return xarray.Dataset({"record": json.dumps(json_data(record))})
