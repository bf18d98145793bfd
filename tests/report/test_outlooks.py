"""Reports with a stress test: what the terminal, the page and the notebook make of its verdicts."""

from __future__ import annotations

import io
import json
import math
import re
from typing import Any

import pytest
from rich.console import Console

from isometer.report import doctor_page, print_report
from isometer.report._doctor_fragments import notebook_html
from isometer.report._loss_picture import LossCurve, loss_picture
from isometer.report._outlook_page import run_pictures, training_section
from isometer.report._outlook_words import (
    after_words,
    headline,
    next_step,
    outlook_table,
    remarks,
    step_words,
    symptoms,
)
from support.doctor_reports import finding, long_report, outlook, stress_run, stressed

BASE = long_report(30)
OWN = {"rate": 0.1, "verdict": "sick", "probability": 0.1, "progress": 0.0}


def printed(report: dict[str, Any], width: int = 80) -> str:
    file = io.StringIO()
    print_report(Console(width=width, file=file), report, layers=4)
    return file.getvalue()


def mixed() -> dict[str, Any]:
    return stressed(BASE, True, adam=outlook(fresh=0.72), sgd=outlook("sick", fresh=0.0, fit=0.01))


@pytest.mark.parametrize(
    ("healthy", "outlooks", "line"),
    [
        (True, {"adam": outlook()}, "✓ Trains"),
        (True, {"adam": outlook("slow")}, "✓ Trains slowly"),
        (False, {"adam": outlook("sick"), "sgd": outlook("sick")}, "✗ Does not train"),
        (None, {"adam": outlook("unknown")}, "? Not decided"),
        (True, {"adam": outlook(), "sgd": outlook("sick")}, "✓ Trains with adam, does not train with sgd"),
        (True, {"adam": outlook("slow"), "sgd": outlook()}, "✓ Trains with sgd, trains slowly with adam"),
        (False, {"adam": outlook(), "sgd": outlook("sick")}, "✗ Does not train with sgd, trains with adam"),
        (False, {"adam": outlook("trains", at_rate=OWN)}, "✗ Does not train at rate 0.1"),
        (
            True,
            {"adam": outlook(), "adamw": outlook(), "sgd": outlook("trains", at_rate=OWN)},
            "✓ Trains with adam and adamw, does not train with sgd at 0.1",
        ),
    ],
)
def test_first_line(healthy: bool | None, outlooks: dict[str, Any], line: str) -> None:
    report = stressed(BASE, healthy, **outlooks)
    first = printed(report, width=200).splitlines()[0]
    assert first == f"{line} · a chain of 30 layers · 2 severe, 1 moderate findings"
    mark, word = line.split(" ", 1)
    page = doctor_page(report)
    assert f'aria-hidden="true">{mark}</span>' in page
    assert f"<strong>{word}</strong>" in page
    assert f"{mark} {word}</b>" in notebook_html(report)


@pytest.mark.parametrize("keys", [{}, {"trains": {}, "stress": None}])
def test_without_a_stress_test(keys: dict[str, Any]) -> None:
    report = {**BASE, **keys, "reliability": "Trust it a little."}
    text = printed(report)
    assert text.startswith("No stress test · a chain of 30 layers · 2 severe, 1 moderate findings\n")
    assert "optimizer" not in text
    assert text.index("Trust it a little.") < text.index("1 SEVERE")
    assert "What was run" not in text
    assert training_section(report) == ""
    assert "<strong>No stress test</strong>" in doctor_page(report)
    assert printed({**report, "findings": []}).startswith("No stress test · a chain of 30 layers · nothing found\n")


def test_table_reads_as_the_report() -> None:
    table = outlook_table(mixed())
    assert table.headings[-2:] == ("learned fresh / one batch", "reference")
    assert table.rows == (
        ("adam", "yes", "97 %", "0.001–0.016", "72 / 90 %", "80 / 100 %"),
        ("sgd", "no", "2 %", "none", "0 / 1 %", "80 / 100 %"),
    )
    own = stressed(BASE, True, adam=outlook(at_rate={**OWN, "verdict": "slow", "progress": 0.2}), sgd=outlook())
    assert [row[4] for row in outlook_table(own).rows] == ["0.1: slowly (20 %)", "–"]
    sure = outlook_table(stressed(BASE, True, adam=outlook(probability=0.9999), sgd=outlook(probability=1e-9)))
    assert [row[2] for row in sure.rows] == ["> 99 %", "< 1 %"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_terminal_keeps_its_order_and_width(width: int) -> None:
    text = printed({**mixed(), "reliability": "Trust it a little."}, width=width)
    assert max(map(len, text.splitlines())) <= width
    order = ["optimizer", "→ Train it with adam at learning rate 0.004.", "What a step does", "After 10 steps: "]
    order += ["Findings: symptoms, though it trains", "Trust it a little.", "1 SEVERE", "grad: log₁₀", "What was run"]
    places = [text.index(piece) for piece in order]
    assert places == sorted(places)
    if width == 120:
        assert re.search(r"adam +yes +97 % +0.001–0.016 +72 / 90 % +80 / 100 %", text)


def test_what_a_step_does() -> None:
    lines = dict(step_words(mixed()))
    assert lines["adam at rate 0.004"] == [
        "One step changes the loss by −0.048; the gradient predicts −0.05. Outputs change by 14 %.",
        "1 module is frozen: embed.",
    ]
    assert lines["sgd at rate 0.004"] == [
        "One step changes the loss by +0.7; the gradient predicts −0.05: the step is too long. Outputs change by 14 %.",
        "4 modules do not move in 10 steps: a, b … d. "
        "Only one module moves: head by 58 % in 10 steps, the next, fc by 0.001 %.",
        "The largest values grow in 10 steps: act ×∞, fc ×34.2.",
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"predicted": 0.0, "actual": 0.0, "output_change": 0.0}, "One step changes neither the loss nor the outputs."),
        ({"actual": "inf"}, "After one step the loss is not finite; the gradient predicts −0.05."),
        ({"actual": None}, "After one step the loss is not finite"),
        ({"actual": -0.01}, "by −0.01; the gradient predicts −0.05: less than half of that happens."),
        ({"output_change": 0.998}, "Outputs change by 1 times their size."),
        ({"output_change": None}, "Outputs change by an unknown amount."),
        ({"output_change": 3.0}, "Outputs change by 3 times their size."),
        ({"output_change": "inf"}, "Outputs change by ∞ times their size."),
        (
            {"moved": [["", 4.0], ["fc", 1.0]]},
            "the model itself move far: by 4 times their size in 10 steps.",
        ),
    ],
)
def test_steps_of_every_kind(change: dict[str, Any], says: str) -> None:
    report = stressed(BASE, True, adam=outlook())
    report["stress"]["effects"]["adam"].update(change)
    assert says in " ".join(step_words(report)[0][1])


def test_findings_after_some_steps() -> None:
    report = stressed(BASE, True, adam=outlook())
    assert after_words(report) == (
        "After 10 steps: gradient-vanishing (severe) is gone; activation-vanishing (severe) is gone; "
        "dead-units is severe instead of moderate."
    )
    report["stress"]["after"] = [*BASE["findings"], finding("rank-collapse", "moderate", [])]
    assert after_words(report) == "After 10 steps: rank-collapse (moderate) appears."
    report["stress"]["after"] = BASE["findings"]
    assert after_words(report) == "After 10 steps, the findings are the same."
    report["stress"]["after"] = None
    assert after_words(report) == ""


def test_next_step() -> None:
    clean = {**BASE, "findings": []}
    assert next_step(stressed(BASE, True, sgd=outlook("sick"), adam=outlook())) == (
        "Train it with adam at learning rate 0.004."
    )
    works = {**OWN, "verdict": "trains"}
    assert "your rate 0.1 works, the best found is 0.004" in next_step(
        stressed(BASE, True, adam=outlook(at_rate=works))
    )
    assert next_step(stressed(BASE, False, adam=outlook(at_rate=OWN))) == (
        "Change the learning rate: adam trains at 0.004, not at 0.1."
    )
    sick = stressed(BASE, False, adam=outlook("sick"))
    assert next_step(sick).startswith("First step: Replace ReLU by its normalised form. Or run the doctor with --treat")
    assert next_step({**sick, "treatment": {"cured": True}}) == ""
    assert "by the book" in next_step(stressed(clean, False, adam=outlook("sick")))
    lost = stressed(clean, False, adam=outlook("sick"))
    lost["trains"]["adam"]["evidence"]["reference_fit"] = 0.0
    assert "the data and the loss" in next_step(lost)
    assert "is 0.004. First step: Replace ReLU" in next_step(stressed(BASE, True, adam=outlook("slow")))
    unknown = stressed(BASE, None, adam=outlook("unknown"))
    assert next_step(unknown).endswith("pass a larger --budget.")
    unknown["stress"].update(targets="a random teacher", batches=1)
    assert next_step(unknown).endswith("pass labels, more batches or a larger --budget.")
    assert "The stress test says" in next_step(BASE)


def test_nothing_was_run() -> None:
    report = stressed(BASE, None, adam=outlook("unknown", fit=None))
    report["stress"].update(
        skipped="a step takes 30 s — pass a larger budget", effects={}, runs=[], after=None, plan=None
    )
    text = printed(report)
    assert text.startswith("? Not decided")
    assert "Nothing was trained: a step takes 30 s — pass a larger budget." in text
    assert "optimizer" not in text
    assert "Nothing was trained" in training_section(report)
    assert "<table" not in training_section(report)
    assert "<table" not in notebook_html(report)


def test_losses_that_say_nothing() -> None:
    report = stressed(BASE, False, adam=outlook("sick"))
    report["trains"]["adam"]["evidence"]["broken"] = True
    assert remarks(report) == ["With adam, the loss stops being finite at every rate."]
    report["stress"]["chance"] = "-inf"
    assert "The loss has no lower bound" in remarks(report)[0]
    assert 'class="chance"' not in training_section(report)


def test_symptoms_are_named_after_the_verdict() -> None:
    assert symptoms(BASE) == "Findings"
    assert "may explain" in symptoms(stressed(BASE, False, adam=outlook("sick")))
    assert "may explain" in symptoms(stressed(BASE, True, adam=outlook("slow")))
    assert "though it trains" in symptoms(stressed(BASE, True, adam=outlook()))
    unexplained = doctor_page(stressed({**BASE, "findings": []}, False, adam=outlook("sick")))
    assert "what keeps the model from training does not show in one pass" in unexplained


def test_pictures_show_the_best_runs_and_chance() -> None:
    pictures = dict(run_pictures(mixed()))
    assert list(pictures) == ["adam, fresh batches", "adam, one batch", "sgd, fresh batches", "sgd, one batch"]
    one = pictures["adam, fresh batches"]
    assert one.count("<polyline") == 2
    assert one.count('class="chance"') == 1
    assert "model, rate 0.004: 2 → 0.0328" in one, "the longest run at the best rate"
    assert "reference, rate 0.016: 2.1 → 0.000349" in one
    assert "a constant answer: 1.9" in one
    own = dict(run_pictures(stressed(BASE, False, adam=outlook(at_rate=OWN))))["adam, one batch"]
    assert own.count("<polyline") == 3
    assert "model at your rate, rate 0.1: 2 → ∞" in own
    assert not re.search("nan|inf[^i]", re.sub("<li>.*", "", own))


def test_one_batch_may_have_a_best_rate_of_its_own() -> None:
    report = stressed(BASE, True, adam=outlook(fresh=0.7))
    report["stress"]["runs"].append(stress_run("adam", "model", "one batch", 0.02, [2.0] * 39 + [0.001]))
    pictures = dict(run_pictures(report))
    assert "model, rate 0.004: 2 → 0.0328" in pictures["adam, fresh batches"]
    assert "model, rate 0.02: 2 → 0.001" in pictures["adam, one batch"]


def test_rates_that_were_rounded_differently_are_the_same() -> None:
    report = stressed(BASE, True, adam=outlook(best_rate=0.001778))
    report["stress"]["runs"][1]["rate"] = 0.0017783
    assert "model, rate 0.0018" in run_pictures(report)[0][1]


def test_curves_are_to_scale() -> None:
    drawn = loss_picture([LossCurve("", "red", [0, 1, 2], [2.0, 1.0, math.inf])], label="losses", chance=1.0)
    (line,) = re.findall(r'<polyline points="([^"]*)"', drawn)
    points = [tuple(map(float, pair.split(","))) for pair in line.split()]
    (level,) = re.findall(r'class="chance" d="M[\d.]+,([\d.]+) ', drawn)
    assert points[1][1] == float(level), "the loss of chance lies on its line"
    bottom, top = 260 - 34, 12
    assert points[2][1] == top
    assert bottom - points[0][1] == pytest.approx(2 * (bottom - points[1][1]), abs=0.11)
    assert [x for x, _ in points] == [56.0, 344.0, 632.0]


def test_page_and_notebook_hold_everything() -> None:
    page, fragment = doctor_page(mixed()), notebook_html(mixed())
    for text in (
        "rates that work",
        "the step is too long",
        "After 10 steps",
        "What was run",
        "on 4 batches of 16 samples",
    ):
        assert text in page
        assert text in fragment
    assert "<script" not in fragment
    assert fragment.count("<figure") == 0
    assert len(fragment) < 30_000
    assert page.index('id="advice"') < page.index('id="findings"') < page.index('id="training"')
    json.dumps(mixed())


def test_a_sick_model_with_a_fair_chance_of_training_is_doubtful() -> None:
    # Among all models few are sick, so that the limit for a warning is above one half: 56 % and a flat "no" would
    # contradict each other.
    likely = {**outlook("sick"), "probability": 0.56, "rates": [0.001]}
    report = {"healthy": False, "trains": {"adam": likely, "sgd": {**outlook("sick"), "probability": 0.02}}}
    assert headline(report).word == "Does not train with sgd, may not train with adam"
    table = outlook_table(report)
    assert [row[1:4] for row in table.rows] == [("doubtful", "56 %", "0.001"), ("no", "2 %", "none")]
    assert table.verdicts == ("sick", "sick")
