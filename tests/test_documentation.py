"""Every public name has a docstring with a runnable example."""

from __future__ import annotations

import importlib
import inspect

import pytest

ROOMS = (
    "isometer",
    "isometer.claims",
    "isometer.data",
    "isometer.data.synthetic",
    "isometer.init",
    "isometer.nn",
    "isometer.run",
    "isometer.doctor",
    "isometer.doctor.patients",
    "isometer.doctor.treatment",
    "isometer.theory.batch_norm",
    "isometer.report.claims_page",
    "isometer.report.doctor_page",
    "isometer.simulate.rank_steps",
    "isometer.theory.gain_schedules",
    "isometer.theory.prediction",
    "isometer.theory.rank_bounds",
    "isometer.theory.rank_chain",
    "isometer.activations",
    "isometer.metrics",
    "isometer.spec",
    "isometer.theory",
    "isometer.theory.bounds",
    "isometer.simulate",
)
# records whose fields are documented beside the function that returns them
RECORDS = {"Entry", "DepthOutlook"}


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
