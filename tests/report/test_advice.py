"""What a report recommends: only what the model can use, causes before symptoms, papers by their titles."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
import torch
from torch import nn

from isometer.doctor import CONDITIONS, PRESCRIPTIONS, diagnose
from isometer.report import doctor_page
from isometer.report._advice import ranked_advice, repair_code
from isometer.report._citations import PAPERS, place
from isometer.report._doctor_metrics import ordered
from isometer.report._evidence_words import evidence_label
from isometer.report._outlook_words import because, next_step
from isometer.report._similarity_words import similarity_words
from support import ROOT
from support.doctor_reports import long_report


def found(name: str, severity: str = "severe", **more: Any) -> dict[str, Any]:
    condition = CONDITIONS[name]
    listed = [PRESCRIPTIONS[one].to_dict() for one in condition.prescriptions]
    return {
        "id": name,
        "severity": severity,
        "layers": [3],
        "evidence": {},
        "explanation": f"{condition.title} is seen. {condition.harm}",
        "references": list(condition.references),
        "prescriptions": listed,
        **more,
    }


def report(*findings: dict[str, Any], kinds: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """A chain of ten layers; layers of these kinds come on top."""
    made = long_report(10)
    made["layers"] += [{**made["layers"][-1], "kind": kind, "op": "BatchNorm1d", "activation": None} for kind in kinds]
    made["metrics"] = {name: [*values, *[None] * len(kinds)] for name, values in made["metrics"].items()}
    return {**made, "findings": list(findings), **more}


def test_causes_come_before_symptoms() -> None:
    both = report(found("rank-collapse"), found("gradient-vanishing"), found("wrong-gain"))
    assert next(one["id"] for one in ordered(both["findings"])) == "wrong-gain"
    assert because(both) == "Wrong gain is seen."
    assert ranked_advice(both)[0].id == "principled-gain"
    assert next_step(both).startswith(f"First step: {PRESCRIPTIONS['principled-gain'].text}")
    mild = report(found("rank-collapse"), found("wrong-gain", "moderate"))
    assert because(mild) == "Rank collapse is seen.", "severity first"


@pytest.mark.parametrize(
    ("kinds", "without", "with_it"),
    [
        ((), {"scale-branches", "fixup"}, {"add-batch-norm", "principled-gain"}),
        (("add", "add"), {"add-residual"}, {"scale-branches", "fixup"}),
        (("add", "add", "norm"), {"fixup", "add-residual"}, {"scale-branches"}),
        (("attention",), {"add-batch-norm"}, {"add-layer-norm"}),
    ],
)
def test_only_what_the_model_can_use(kinds: tuple[str, ...], without: set[str], with_it: set[str]) -> None:
    listed = {
        one.id for one in ranked_advice(report(found("activation-explosion"), found("rank-collapse"), kinds=kinds))
    }
    assert not listed & without
    assert with_it <= listed


def test_advice_that_every_prescription_needs_is_known() -> None:
    from isometer.report._advice import _NEEDS

    assert set(_NEEDS) <= set(PRESCRIPTIONS)


def test_old_reports_get_all_advice() -> None:
    old = report(found("activation-explosion"))
    for row in old["layers"]:
        row.pop("activation")
    assert len(ranked_advice(old)) == len(CONDITIONS["activation-explosion"].prescriptions)


def test_the_first_step_repairs_a_network_as_pytorch_draws_it() -> None:
    """The code that the report offers runs as it stands, and no findings remain."""
    torch.manual_seed(0)
    layers = [module for _ in range(15) for module in (nn.Linear(48, 48), nn.ReLU())]
    model, batch = nn.Sequential(*layers, nn.Linear(48, 10)), torch.randn(16, 48)
    sick = diagnose(model, batch, stress=False, predict=False)
    assert sick.findings
    first = ranked_advice(sick.to_dict())[0]
    assert first.id == "principled-gain"
    exec(first.code, {"model": model, "batch": batch})
    assert not diagnose(model, batch, stress=False, predict=False).findings


def test_repairs_of_causes_run_as_they_are_printed() -> None:
    model, batch = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2)), torch.randn(8, 4)
    nn.init.zeros_(model[0].weight)
    nn.init.zeros_(model[1].weight)
    model[3].requires_grad_(False)
    for kind, name in (("weights", "0"), ("norm", "1"), ("frozen", "3")):
        exec(repair_code({"kind": kind, "modules": [name]}), {"model": model, "batch": batch})
    assert model[0].weight.abs().min() > 0
    assert model[1].weight.tolist() == [1.0] * 4
    assert model[3].weight.requires_grad
    document = report(
        found("rank-collapse"),
        causes=[
            {
                "kind": "weights",
                "modules": ["0", "2"],
                "repair": "Redraw.",
                "evidence": "its weights are zero",
                "effect": 0.5,
            }
        ],
    )
    page = doctor_page({**document, "explanation": {"before": 0.0, "optimizer": "adam"}})
    assert "redraw_(model, batch, modules=[&#x27;0&#x27;, &#x27;2&#x27;], seed=0)" in page
    assert "their weights are zero" in page


def test_papers_are_those_of_the_companion() -> None:
    text = (ROOT / "papers" / "src" / "isometer_papers" / "papers.toml").read_text(encoding="utf-8")
    table = {one["number"]: (one["cited"], one["title"], one["link"]) for one in tomllib.loads(text)["paper"]}
    assert {number: (one.cited, one.title, one.link) for number, one in PAPERS.items()} == table


def test_places_are_named_only_where_the_paper_numbers_them() -> None:
    assert place("004/thm-12") == "Theorem 12"
    assert place("001/tab-5.2") == "Table 5.2"
    assert [place(one) for one in ("001/claim-6.gauss", "001/alg-C.5", "003/alg-iter-mlp", "nonsense")] == [""] * 4


def test_the_panel_starts_at_the_guilty_layer() -> None:
    def guilty(document: dict[str, Any]) -> Any:
        page = doctor_page(document)
        start = page.index('<script id="report" type="application/json">')
        return json.loads(page[page.index(">", start) + 1 : page.index("</script>", start)])["guilty"]

    chain = report(found("rank-collapse", layers=[4, 5]), found("wrong-gain", layers=[7, 9]))
    assert guilty(chain) == 7
    cause = {"modules": ["blocks.2.act"], "repair": "Remove it.", "effect": 0.5, "evidence": "odd", "kind": "weights"}
    assert guilty({**chain, "causes": [cause]}) == 4
    assert guilty(report()) is None


def test_why_a_high_cosine_is_harmless() -> None:
    def words(cosines: list[float], **more: Any) -> str:
        return similarity_words({**report(**more), "metrics": {"mean_abs_cosine": cosines}})

    assert words([0.0, 0.5]) == ""
    assert "7 % of the signal still distinguishes them, and harm begins at 0.975" in words([0.0, 0.93])
    assert "that alike at the input already (0.99)" in words([0.99, 0.999])
    note = {**found("rank-collapse"), "evidence": {"of": "samples", "mean_abs_cosine_at_end": 0.9999}}
    adam = {"evidence": {"fresh": None, "fit": 0.9}}
    told = words([0.0, 0.9999], notes=[note], trains={"adam": adam})
    assert "severe in models that do not learn" in told
    assert "adam removes 90 % of the loss" in told


def test_every_number_of_a_finding_has_plain_words() -> None:
    """Keys that the checks write, read off their source."""
    import re

    folder = ROOT / "src" / "isometer" / "doctor" / "diagnosis" / "checks"
    keys = {key for path in folder.glob("_*.py") for key in re.findall(r'"([a-z_0-9]+)":', path.read_text("utf-8"))}
    assert len(keys) > 30
    raw = {key for key in keys if "_" in key and evidence_label(key) == key.replace("_", " ")}
    assert raw <= {"layers_affected", "distinct_samples", "layers_with_batch_statistics", "principled_gain"}
