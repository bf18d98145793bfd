"""Times of studies: from measured steps of the very networks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isometer_papers.studies import Scale, all_studies, expected_seconds, find, measure_steps
from isometer_papers.studies._times import (
    SHIPPED,
    estimated_seconds,
    known_steps,
    measured_step,
    networks_of,
    run_seconds,
    step_key,
    steps_in,
)

STATED = {"007/loss", "008/grid"}  # their cells have a loop of their own, whose time the study states
TRAINED = [one for one in all_studies() if one.medium is not None and one.id not in STATED]


def test_measured_steps_are_of_a_small_network_what_a_whole_run_takes() -> None:
    """The estimate of a cell against its own processor time."""
    import time

    study = find("001/fig-2.5")
    cell = {**study.quick.constants, "scheme": "Xavier", "depth": 20, "width": 128, "data": "digits", "shrink": 1}
    cell |= {"train": 1000, "epochs": 10, "gap_batches": 1, "run": 0}
    step = min(measured_step(study, cell, steps=20) for _ in range(3))
    start = time.process_time()
    study.cell(cell, 0)
    taken = time.process_time() - start
    assert taken / 4 < steps_in(cell) * step < taken * 1.5  # loading and measuring take the rest


def test_seconds_follow_from_steps() -> None:
    study = find("001/fig-2.5")
    scale = Scale({"scheme": ["Xavier"], "depth": [3], "run": [0, 1]}, {**study.quick.constants, "epochs": 5})
    (only,) = networks_of(study, scale)
    assert steps_in(only) == 5 * 20
    assert run_seconds(study, scale, {step_key(study, only): 0.94}) == pytest.approx(100)
    assert run_seconds(study, scale, {}) is None


def test_images_that_are_not_counted_are_all_of_the_set() -> None:
    cell = {"architecture": "MLP", "mlp_train": None, "data": "cifar10", "validation": 0, "batch": 128, "epochs": 300}
    assert steps_in(cell) == 300 * 390


def test_networks_that_differ_in_weights_alone_share_a_step() -> None:
    study = find("001/fig-2.5")
    cell = {"depth": 15, "scheme": "Xavier"}
    assert step_key(study, cell) == step_key(study, {**cell, "scheme": "iterative", "run": 3})
    assert step_key(study, cell) != step_key(study, {**cell, "depth": 30})


@pytest.mark.parametrize("study", TRAINED, ids=lambda study: study.id)
def test_steps_of_every_network_were_measured(study) -> None:
    for scale in ("quick", "medium", "paper"):
        seconds = estimated_seconds(study, scale)
        assert seconds is not None, scale
        assert expected_seconds(study, scale) == seconds


def test_the_shipped_steps_name_their_machine() -> None:
    kept = json.loads(SHIPPED.read_text("utf-8"))
    assert {"torch", "python"} <= set(kept["versions"])
    assert kept["machine"]
    assert set(known_steps()) >= set(kept["steps"])


def test_measuring_keeps_what_it_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    study = find("001/fig-2.5")
    constants = {**study.quick.constants, "data": "digits", "shrink": 1, "width": 8}
    small = Scale({"scheme": ["Xavier", "iterative"], "depth": [3], "run": [0]}, constants)
    lines: list[str] = []
    path = measure_steps([dataclasses.replace(study, quick=small)], ("quick",), path=tmp_path / "s", told=lines.append)
    assert len(lines) == 1
    assert measure_steps([dataclasses.replace(study, quick=small)], ("quick",), path=path, told=lines.append) == path
    assert len(lines) == 1  # nothing is measured twice
