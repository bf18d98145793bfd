"""Every public name has a docstring with a runnable example."""

from __future__ import annotations

import pkgutil

import pytest

import isometer.theory
from support.docstrings import without_example
from support.torchless import loads_torch

INNER = {"batches", "depth_free", "explanation", "length_maps", "mixed_lengths", "stages"}  # used through the room
# theory that only claims and studies reach: papers/tests
COMPANION = {"duals", "isometry", "isometry_steps", "mean_field", "odd_point", "orthogonality", "rank"}
COMPANION |= {"interpolation", "one_layer_relu", "optimization", "query_learning"}
THEORY = {module.name for module in pkgutil.iter_modules(isometer.theory.__path__)} - INNER - COMPANION
ROOMS = (
    "isometer",
    "isometer.data",
    "isometer.data._synthetic",
    "isometer.init",
    "isometer.nn",
    "isometer.run",
    "isometer.doctor",
    "isometer.doctor.patients",
    "isometer.doctor.treatment",
    "isometer.report._doctor_page",
    "isometer.activations",
    "isometer.metrics",
    "isometer.spec",
    "isometer.theory",
    "isometer.simulate",
    *(f"isometer.theory.{name}" for name in sorted(THEORY)),
)


TORCH = {"isometer", "isometer.doctor", "isometer.doctor.treatment"} | {
    room for room in ROOMS if loads_torch(room)
}  # the first three hand on names that need it


@pytest.mark.parametrize(
    "room", [pytest.param(room, marks=pytest.mark.torch if room in TORCH else ()) for room in ROOMS]
)
def test_public_names_have_examples(room: str) -> None:
    assert without_example(room) == []
