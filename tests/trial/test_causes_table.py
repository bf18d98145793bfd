"""What the trial keeps of the causes that the doctor names, and how often they are right."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from isometer.doctor.causes import Cause
from isometer.errors import IsometerError
from isometer.trial import Blueprint, _named_causes
from isometer.trial._causes_table import Accused, accused, naming_rows
from isometer.trial._culprits import Culprits
from isometer.trial._members import Member
from isometer.trial._named_causes import cause_cell
from isometer.trial._records import causes, sibling_name, truths, write_records

BLUEPRINT = Blueprint("friedman", 16, 2, 16, {"activation": "ReLU"})
CELL = {"family": "mlp-relu", "blueprint": asdict(BLUEPRINT), "fault": None, "severity": {}, "weights": 700}
SOUND = {"second": [{"rate": 0.1, "scores": [0.40, 0.41, 0.42]}]}
SICK = {"second": [{"rate": 0.1, "scores": [1.0, 0.99, 1.0]}]}


def kept(monkeypatch: pytest.MonkeyPatch, doctor: Any) -> dict[str, Any]:
    monkeypatch.setattr(_named_causes, "diagnose", doctor)
    return dict(json.loads(cause_cell(CELL, 0)["record"].item()))


def test_a_record_has_the_causes_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def doctor(model: Any, *, fresh: Any, loss: Any, **how: Any) -> Any:
        inputs, targets = next(iter(fresh))
        assert loss(model(inputs), targets).requires_grad
        assert how["mode"] is None
        named = [
            Cause(("3",), "Draw `3` anew.", 0.123456, "", "weights"),
            Cause(("input",), "Standardise.", float("inf"), "", "input"),
        ]
        return SimpleNamespace(trains={"adam": SimpleNamespace(verdict="sick")}, causes=named)

    record = kept(monkeypatch, doctor)
    assert record.pop("seconds") >= 0
    assert record == {
        "error": None,
        "verdicts": {"adam": "sick"},
        "causes": [
            {"modules": ["3"], "kind": "weights", "repair": "Draw `3` anew.", "effect": 0.12346},
            {"modules": ["input"], "kind": "input", "repair": "Standardise.", "effect": "inf"},
        ],
    }


def test_a_doctor_that_fails_is_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def doctor(*_: Any, **__: Any) -> Any:
        raise IsometerError("no")

    record = kept(monkeypatch, doctor)
    assert (record["error"], record["causes"]) == ("IsometerError: no", [])


def one(part: Any, causes: tuple[tuple[str, ...], ...], *optimizers: str) -> Accused:
    modules = frozenset({"4"}) if part == "module" else frozenset()
    return Accused("a/0", "x", optimizers, Culprits(modules, part), causes)


def test_rows_count_first_and_first_two() -> None:
    rows = naming_rows(
        [
            one("module", (("4",), ("0",)), "adam", "sgd"),
            one("module", (("0",), ("4",)), "adam"),
            one("module", (("0",), ("2",), ("4",)), "sgd"),
            one("module", (), "sgd"),
            one("input", (("input",),), "adam"),
        ]
    )
    counts = {(r.part, r.optimizer): (r.first.found, r.first_two.found, r.first.of) for r in rows}
    assert counts == {
        ("module", "adam"): (1, 2, 2),
        ("module", "sgd"): (1, 1, 3),
        ("module", "either"): (1, 2, 4),
        ("input", "adam"): (1, 1, 1),
        ("input", "either"): (1, 1, 1),
    }
    missed = next(r.missed for r in rows if (r.part, r.optimizer) == ("module", "sgd"))
    assert missed == ("a/0 (x): guilty 4, blamed 0; 2", "a/0 (x): guilty 4, blamed nothing")


def test_models_of_a_folder(tmp_path: Path) -> None:
    """Only sick models with a fault at some part, of which the doctor was asked."""

    def member(number: int, fault: str | None, blueprint: Blueprint = BLUEPRINT, **severity: Any) -> Member:
        return Member(f"mlp-relu/{number}", "mlp-relu", "0", BLUEPRINT, blueprint, fault, severity, False, 0.01)

    members = [
        member(0, "one-zero", place=0.5),
        member(1, "negated", place=0.5),  # trains
        member(2, "too-deep", BLUEPRINT.changed(depth=8)),
        member(3, None),
        member(4, "loss-negated"),
        member(5, "input-lost"),  # not asked
    ]
    truth, said = truths(tmp_path, members), causes(tmp_path, members)
    rows = {f"{m.name} adam": SOUND if m.name.endswith(("1", "3")) else SICK for m in members}
    rows |= {f"{sibling_name(members[0])} adam": SOUND}
    write_records(truth.path, {label: {"of": truth._digests[label], **row} for label, row in rows.items()})
    opinion = {"error": None, "verdicts": {}, "causes": [{"modules": ["3"]}], "seconds": 1.0}
    asked = {m.name: {"of": said._digests[m.name], **opinion} for m in members[:5]}
    write_records(said.path, asked)
    found = accused(tmp_path, members)
    assert [(a.name, a.guilty.part, a.optimizers, a.causes) for a in found] == [
        ("mlp-relu/0", "module", ("adam",), (("3",),)),
        ("mlp-relu/4", "loss", ("adam",), (("3",),)),
    ]
