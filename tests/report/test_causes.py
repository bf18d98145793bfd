"""Causes in reports: on the terminal, on the page, in a notebook, in the conclusion."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from rich.console import Console

from isometer.report._cause_page import causes_section, notebook_causes
from isometer.report._cause_words import also_helps, cause_words, first_cause, together, unexplained
from isometer.report._doctor_fragments import notebook_html
from isometer.report._doctor_page import doctor_page
from isometer.report._doctor_terminal import print_report
from isometer.report._outlook_words import next_step


def cause(**more: Any) -> dict[str, Any]:
    """One cause, as `Cause.to_dict` gives it."""
    return {
        "modules": ["blocks.3"],
        "repair": "Redraw the weights of `blocks.3`.",
        "effect": 0.59,
        "evidence": "its weights are 98 times as large as those of its siblings",
        "kind": "weights",
        "where": "",
        **more,
    }


def report(**more: Any) -> dict[str, Any]:
    """A report of a model that does not train."""
    evidence = {"fresh": 0.02, "fit": 0.1, "reference_fresh": 0.6, "reference_fit": 0.9, "broken": False}
    outlook = {
        "verdict": "sick",
        "probability": 0.01,
        "rates": [],
        "best_rate": 0.01,
        "at_rate": None,
        "evidence": evidence,
    }
    finding = {
        "id": "rank-collapse",
        "severity": "severe",
        "layers": [],
        "evidence": {},
        "explanation": "Why.",
        "references": [],
        "prescriptions": [],
    }
    return {
        "schema": 1,
        "model": "tiny",
        "mode": "train",
        "healthy": False,
        "summary": "tiny does not train with sgd.",
        "batch": {"samples": 2, "description": ""},
        "findings": [finding],
        "layers": [],
        "metrics": {},
        "prediction": None,
        "grams": None,
        "comparison": None,
        "trains": {"sgd": outlook},
        "stress": {"effects": {}, "runs": [], "notes": []},
        "causes": [cause()],
        "explanation": {
            "optimizer": "sgd",
            "before": 0.02,
            "after": 0.7,
            "treatments": [],
            "unexplained": "",
        },
        **more,
    }


def printed(document: dict[str, Any]) -> str:
    page = io.StringIO()
    print_report(Console(width=200, file=page), document)
    return page.getvalue()


def test_causes_come_right_under_the_verdict_and_before_the_findings() -> None:
    text = printed(report())
    places = [text.index(word) for word in ("Does not train", "Causes", "rank-collapse")]
    assert places == sorted(places)
    assert "1 `blocks.3` — its weights are 98 times as large as those of its siblings" in text
    assert "→ Redraw the weights of `blocks.3`. (progress 0.02 → 0.61 with sgd)" in text
    page = doctor_page(report())
    places = [page.index(word) for word in ('class="verdict', 'id="causes"', 'id="findings"', 'id="training"')]
    assert places == sorted(places)
    assert "<code>blocks.3</code> — its weights are 98 times" in page
    assert "progress 0.02 → 0.61 with sgd" in page
    assert "<code>blocks.3</code> — its weights are 98 times" in notebook_html(report())


def test_what_else_helps_lines_and_what_stays_unexplained() -> None:
    explained = {**report()["explanation"], "treatments": [cause(evidence="", effect=0.3)], "unexplained": "no luck"}
    one = report(causes=[cause(where="model.py:42")], explanation=explained)
    text = printed(one)
    assert "siblings · model.py:42" in text
    assert "also helps: `blocks.3`" in text
    assert "With everything repaired: progress 0.02 → 0.70 with sgd." in text
    assert "unexplained: No luck." in text
    for page in (causes_section(one), notebook_causes(one)):
        assert "model.py:42" in page
        assert "progress 0.02 → 0.32 with sgd" in page
        assert "No luck." in page
    assert [len(found) for found in (cause_words(one), also_helps(one))] == [1, 1]


def test_texts_are_escaped() -> None:
    one = report(causes=[cause(modules=["<b>"], evidence="<i>", repair="<u>", where="<s>")])
    for page in (causes_section(one), notebook_causes(one)):
        assert not any(mark in page for mark in ("<b>&", "<i>", "<u>", "<s>"))
        assert "&lt;i&gt;" in page


@pytest.mark.parametrize(("effect", "words"), [(0.0, "only together"), (math.nan, ""), (None, ""), (0.2, "0.22")])
def test_effects_in_words(effect: float | None, words: str) -> None:
    told = cause_words(report(causes=[cause(effect=effect)]))[0].effect
    assert words in told
    assert bool(words) == bool(told)


def test_without_causes_nothing_is_shown() -> None:
    for one in (report(causes=[], explanation=None), {k: v for k, v in report().items() if k != "explanation"}):
        one = {**one, "causes": []}
        assert causes_section(one) == notebook_causes(one) == unexplained(one) == together(one) == ""
        assert "Causes" not in printed(one)


def test_conclusions_name_the_first_cause() -> None:
    assert first_cause([cause(), cause(modules=["x"])]).startswith("`blocks.3` — its weights")
    many = cause(modules=[str(number) for number in range(9)], evidence="")
    assert first_cause([many]) == "`0`, `1`, `2` and 6 more"
    assert first_cause([cause(modules=["targets", "input"], evidence="nothing learns from them")]) == (
        "the targets, the input — nothing learns from them"
    )
    assert first_cause([]) == ""
    assert next_step(report()).startswith("First step: Redraw the weights of `blocks.3`.")
