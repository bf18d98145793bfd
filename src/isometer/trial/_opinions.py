"""What is said about a model without knowing the truth: by the doctor, on real and on made-up batches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
import xarray

from isometer.doctor.diagnosis._diagnose import diagnose
from isometer.errors import IsometerError
from isometer.trial._family import Blueprint
from isometer.trial._members import specimen
from isometer.trial._specimen import Specimen
from isometer.trial._stressed import FAR, made_up


def _specimen(cell: Mapping[str, Any]) -> Specimen:
    return specimen(cell["family"], Blueprint(**cell["blueprint"]), cell["fault"], cell["severity"], cell["weights"])


def doctor_cell(cell: Mapping[str, Any], seed: int) -> xarray.Dataset:
    """What the probe finds: `family`, `blueprint`, `fault`, `severity`, `weights` (the seed of the model) and `batch`,
    `real` (with the model's own targets and loss) or `gaussian` (made-up inputs, no targets).

    Example:
        >>> from dataclasses import asdict
        >>> import numpy as np
        >>> from isometer.trial import family_named
        >>> drawn = family_named("additive-model").draw(np.random.default_rng(0), False)
        >>> cell = {"family": "additive-model", "blueprint": asdict(drawn), "fault": "one-zero",
        ...         "severity": {"place": 0.5}, "weights": 0, "batch": "real"}
        >>> sorted(json.loads(doctor_cell(cell, 0)["record"].item()))
        ['error', 'findings']
    """
    made = _specimen(cell)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(cell["weights"])
        inputs, targets, _ = made.batch(seed=cell["weights"], step=FAR)
    record: dict[str, Any] = {"findings": [], "error": None}
    try:
        if cell["batch"] == "real":
            report = diagnose(made.model, inputs, target=targets, loss=made.loss, mode=None, stress=False)
        else:
            report = diagnose(made.model, made_up(made, inputs, 0), mode=None, stress=False)
    except (IsometerError, RuntimeError, ValueError, TypeError) as problem:
        record["error"] = f"{type(problem).__name__}: {problem}"
    else:
        record["findings"] = [{"id": one.id, "severity": one.severity} for one in report.findings]
    return xarray.Dataset({"record": json.dumps(record)})
