"""Every public name has a docstring with a runnable example."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import isometer.theory

INNER = {"batches", "depth_free", "explanation", "length_maps", "mixed_lengths", "stages"}  # used through the room
ROOMS = (
    "isometer",
    "isometer_papers.claims",
    "isometer.data",
    "isometer.data._synthetic",
    "isometer.init",
    "isometer.nn",
    "isometer.run",
    "isometer.doctor",
    "isometer.doctor.patients",
    "isometer.doctor.treatment",
    "isometer_papers.architectures",
    "isometer_papers.report.ledger_page",
    "isometer_papers.report.gallery",
    "isometer_papers.studies",
    "isometer_papers.training",
    "isometer.report._doctor_page",
    "isometer_papers.simulate.rank_steps",
    "isometer.activations",
    "isometer.metrics",
    "isometer.spec",
    "isometer.theory",
    "isometer.simulate",
    *(f"isometer.theory.{m.name}" for m in pkgutil.iter_modules(isometer.theory.__path__) if m.name not in INNER),
)
# records whose fields are documented beside the function that returns them
RECORDS = {"ActivationEntry", "DepthOutlook", "Dual"}


def public(room: str) -> list[tuple[str, object]]:
    module = importlib.import_module(room)
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", None) == room and n[0] != "_"]
    names = getattr(module, "__all__", own)
    return [(name, getattr(module, name)) for name in names]


@pytest.mark.parametrize("room", ROOMS)
def test_public_names_have_examples(room: str) -> None:
    bare = []
    for name, value in public(room):
        if (
            not (inspect.isclass(value) or inspect.isfunction(value))
            or name in RECORDS
            or issubclass_named_tuple(value)
        ):
            continue
        if ">>>" not in (inspect.getdoc(value) or ""):
            bare.append(name)
    assert not bare, f"{room}: no example in the docstring of {', '.join(bare)}"


def issubclass_named_tuple(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, tuple)
