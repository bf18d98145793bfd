"""Uploaded reports: refused in one line, or shown as text."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

from isometer.errors import IsometerError

pytest.importorskip("dash", reason="needs Dash: pip install 'isometer[explore]'")


from isometer.explore import LIMITS
from isometer.explore._reports import Shelf, decoded, parsed
from isometer.explore.labs import _clinic_pieces as clinic_pieces
from isometer.explore.pictures import _clinic as clinic_pictures
from isometer.report._citations import PAPERS
from support.doctor_reports import HOSTILE, hostile_report, long_report, outlook, stressed


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"not json", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1, 2]", "the report is a list; expected an object"),
        (b'{"schema": 2, "layers": [], "metrics": {}, "findings": []}', "schema 2; expected 1"),
        (b'{"schema": 1, "layers": 3, "metrics": {}, "findings": []}', "the report has 3 at layers; expected a list"),
        (b'{"schema": 1, "layers": [], "metrics": {"rms": [1]}, "findings": []}', "1 numbers for 0 layers"),
        (b'{"schema": 1, "layers": [], "metrics": {}, "findings": [{"id": "x"}]}', "no 'severity' in findings"),
        (b'{"schema": 1, "layers": [], "metrics": {}, "findings": [], "prediction": {"layers": [5]}}', "names layer 5"),
        (b" " * int(LIMITS["upload"].high + 1), "at most 16 MB"),
    ],
)
def test_files_that_are_no_reports_are_refused(content: bytes, says: str) -> None:
    with pytest.raises(IsometerError, match=says):
        parsed(content)


def test_reports_are_shown_as_text() -> None:
    report = parsed(json.dumps(hostile_report()).encode())
    shown = [
        clinic_pieces.verdict_card(report),
        *(clinic_pieces.finding_card(one, report) for one in report["findings"]),
    ]
    shown += clinic_pieces.layer_facts(report, 3)
    written = json.dumps(
        [json.loads(json.dumps(one.to_plotly_json(), default=lambda c: c.to_plotly_json())) for one in shown]
    )
    assert json.dumps(HOSTILE[0])[1:-1] in written, "the text is there, as the child of an element"
    for danger in ("dangerously", "Markdown", "srcDoc", '"src"'):
        assert danger not in written
    assert set(re.findall(r'"href": "([^"]*)"', written)) <= {paper.link for paper in PAPERS.values()}, "known papers"
    figure = clinic_pictures.metric_picture([("a", report)], "rms", "layer", 3, [1], "light")
    assert "<img" not in json.dumps(figure)
    assert "<svg" not in json.dumps(figure)


def written(component: Any) -> str:
    return json.dumps(component.to_plotly_json(), default=lambda one: one.to_plotly_json(), ensure_ascii=False)


def test_verdicts_of_stress_tests_are_shown() -> None:
    at = {"rate": 0.1, "verdict": "sick", "probability": 0.1, "progress": "inf"}
    report = stressed(long_report(30), None, adam=outlook("unknown", fit=None), sgd=outlook("sick", at_rate=at))
    read = parsed(json.dumps(report).encode())
    assert read["healthy"] is None
    card = written(clinic_pieces.verdict_card(read))
    for expected in ("? Not decided with adam, does not train with sgd at 0.1", "undecided", "act ×∞", "What was run"):
        assert expected in card
    assert "runs" not in read["stress"], "loss curves are not shown and not kept"


def test_uploads_without_a_stress_test_still_work() -> None:
    older = parsed(json.dumps(long_report(30)).encode())
    bare = parsed(json.dumps({**long_report(30), "trains": {}, "stress": None}).encode())
    assert older == bare
    assert older["healthy"] is False
    assert "No stress test" in written(clinic_pieces.verdict_card(older))


@pytest.mark.parametrize(
    "damage",
    [
        {"trains": {"adam": {}}},
        {"trains": {"adam": 3}},
        {"stress": {"after": 5}},
        {"stress": {"effects": {"adam": {"grown": [1]}}}},
        {"stress": {"plan": {"rounds": ["x"]}}},
    ],
)
def test_damaged_stress_tests_are_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(IsometerError, match=r"the report has .*; expected .* — write one with"):
        parsed(json.dumps({**long_report(3), **damage}).encode())


def test_shelf_keeps_a_few() -> None:
    shelf = Shelf()
    keys = []
    for i in range(int(LIMITS["uploads"].high) + 3):
        raw = {"schema": 1, "layers": [], "metrics": {}, "findings": [], "model": str(i)}
        content = "data:application/json;base64," + base64.b64encode(json.dumps(raw).encode()).decode()
        keys.append(shelf.put(f"{i}.json", decoded(f"{i}.json", content)))
    assert len(shelf.titles()) == LIMITS["uploads"].high
    assert shelf.get(keys[0]) is None
    last = shelf.get(keys[-1])
    assert last is not None
    assert last["model"] == str(len(keys) - 1)
    with pytest.raises(IsometerError, match="arrived incomplete"):
        decoded("x.json", "data:;base64,!!!")
