"""Verdicts of two stress tests, one beside the other."""

from __future__ import annotations

from typing import Any

import pytest

from isometer.doctor.diagnosis._comparison import compare


def document(verdict: str | None, own: str | None = None, rate: float = 0.1) -> dict[str, Any]:
    report: dict[str, Any] = {"findings": [], "layers": [], "metrics": {}}
    if verdict is not None:
        at = None if own is None else {"rate": rate, "verdict": own}
        report["trains"] = {"adam": {"verdict": verdict, "at_rate": at}}
    return report


@pytest.mark.parametrize(
    ("before", "after", "key", "text"),
    [
        ("sick", "trains", "better", "adam: does not train → trains"),
        ("slow", "trains", "better", "adam: trains slowly → trains"),
        ("trains", "slow", "worse", "adam: trains → trains slowly"),
        ("trains", "sick", "worse", "adam: trains → does not train"),
        ("sick", "sick", "unchanged", "adam: does not train"),
        ("sick", "unknown", "unchanged", "adam: does not train before, not decided in the other"),
        ("unknown", "trains", "unchanged", "adam: trains now, not decided in the other"),
    ],
)
def test_verdicts_are_told_once(before: str, after: str, key: str, text: str) -> None:
    found = compare(document(before), document(after))
    assert found[key] == [text]
    assert sum(len(found[one]) for one in ("better", "worse", "unchanged")) == 1


def test_what_only_one_report_judges_is_not_compared() -> None:
    for pair in ((None, "sick"), ("sick", None), ("unknown", "unknown")):
        found = compare(*map(document, pair))
        assert found["better"] == found["worse"] == found["unchanged"] == []
    other = document("trains")
    other["trains"] = {"sgd": other["trains"]["adam"]}
    assert compare(document("sick"), other)["better"] == []


def test_the_callers_rate_is_compared_with_itself() -> None:
    better = compare(document("trains", "sick"), document("trains", "trains"))["better"]
    assert better == ["adam at 0.1: does not train → trains"]
    assert compare(document("trains", "sick", 0.1), document("trains", "trains", 0.2))["better"] == []
