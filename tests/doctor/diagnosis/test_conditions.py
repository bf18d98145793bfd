"""One entry of a table is one condition or one prescription: registered at run time, it appears everywhere."""

from __future__ import annotations

import importlib.util
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from rich.console import Console
from torch import nn
from typer.testing import CliRunner

from isometer.cli import app
from isometer.doctor import (
    CONDITIONS,
    PRESCRIPTIONS,
    Call,
    Condition,
    Limits,
    Prescription,
    Report,
    Variant,
    diagnose,
    treat,
)
from isometer.doctor.diagnosis.checks import Case, Sign
from isometer.doctor.patients import Patient
from isometer.errors import IsometerError
from isometer.metrics import METRICS
from isometer.report import print_report
from isometer.report._treatment import print_treatment, treatment_section
from support import ROOT

DOCS = ROOT / "docs"
HARM = "A readout of loud units overflows first."


def quieter_(model: nn.Module, batch: torch.Tensor, *, factor: float) -> None:
    """A treatment from outside the package: scale the first weights down."""
    with torch.no_grad():
        next(model.parameters()).mul_(factor)


def loud_units(case: Case, condition: Condition) -> Iterator[Sign]:
    """A check from outside the package: the largest entry of the first layer of weights."""
    layer = case.view.weights[0]
    largest = float(case.view.values["max_abs"][layer])
    severity = condition.limits.severity(largest)
    if severity is not None:
        yield Sign(severity, (layer,), {"largest_entry": largest}, f"The largest entry is {largest:.0f}.")


def loud_condition(**changes: object) -> Condition:
    settings: dict[str, object] = {
        "id": "loud-units",
        "title": "Units that are loud",
        "reads": "largest entry of the first layer of weights",
        "metrics": ("max_abs",),
        "limits": Limits(100.0, 1e6, "Ten times what a healthy layer of this test gives.", "this test"),
        "harm": HARM,
        "references": ("001/prop-5.1",),
        "prescriptions": ("quieter", "fewer-layers"),
        "check": loud_units,
    }
    return Condition(**{**settings, **changes})  # type: ignore[arg-type]


@pytest.fixture
def quieter() -> Iterator[Prescription]:
    calls = ((Call(__name__, "quieter_", batch=True, options={"factor": 1e-3}),),)
    yield PRESCRIPTIONS.register(Prescription("quieter", "Turn the first weights down.", "weights", calls=calls))
    PRESCRIPTIONS.unregister("quieter")


@pytest.fixture
def loud(quieter: Prescription) -> Iterator[Condition]:
    yield CONDITIONS.register(loud_condition())
    CONDITIONS.unregister("loud-units")


def loud_model() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    with torch.no_grad():
        model[0].weight.mul_(100)
    return model, torch.randn(8, 16, generator=torch.Generator().manual_seed(1))


def loud_report() -> tuple[nn.Module, torch.Tensor, Report]:
    model, batch = loud_model()
    return model, batch, diagnose(model, batch, predict=False, stress=False, name="loud")


def extension(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- one condition ----------------------------------------------------------------------------------------------------


def test_without_the_condition_nothing_is_found() -> None:
    assert loud_report()[2].healthy


@pytest.mark.usefixtures("loud")
def test_a_registered_condition_is_found_and_reported() -> None:
    _, _, report = loud_report()
    (found,) = report.findings
    assert (found.id, found.severity) == ("loud-units", "moderate")
    assert found.explanation == f"The largest entry is {found.evidence['largest_entry']:.0f}. {HARM}"
    assert [p.id for p in found.prescriptions] == ["quieter", "fewer-layers"]
    document = json.loads(json.dumps(report.to_dict()))
    assert document["findings"][0]["id"] == "loud-units"
    assert document["findings"][0]["references"] == ["001/prop-5.1"]
    assert document["findings"][0]["prescriptions"][0]["text"] == "Turn the first weights down."
    page = io.StringIO()
    print_report(Console(width=100, file=page), document)
    assert "MODERATE loud-units" in page.getvalue()
    assert HARM in page.getvalue()
    for html in (report.to_html(), report._repr_html_()):
        assert "Units that are loud" in html
        assert "Turn the first weights down." in html
    assert 'data-metric="max_abs"' in report.to_html()


@pytest.mark.usefixtures("loud")
def test_a_registered_condition_is_found_by_the_command(tmp_path: Path) -> None:
    factory = tmp_path / "model.py"
    factory.write_text(f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n" + _FACTORY)
    done = CliRunner().invoke(app, ["doctor", f"{factory}:make", "--no-stress", "--json"])
    assert done.exit_code == 1, done.output
    assert [one["id"] for one in json.loads(done.stdout)["findings"]] == ["loud-units"]


_FACTORY = """
import test_conditions

def make():
    return test_conditions.loud_model()
"""


@pytest.mark.usefixtures("loud")
def test_a_registered_condition_is_in_the_tables_of_the_documentation() -> None:
    pytest.importorskip("sphinx", reason="needs sphinx: pip install 'isometer[docs]'")
    rows = list(extension("tables", DOCS / "ext" / "tables.py").condition_rows())
    assert rows[-1][:4] == ["loud-units", "largest entry of the first layer of weights", "100", "1e+06"]
    assert len(rows) == len(CONDITIONS) + 1  # tokens have limits of their own
    treatments = extension("make_treatments", ROOT / "tools" / "make_treatments.py")
    assert treatments.findings_table()[-1] == "| loud-units | `quieter`, `fewer-layers` |"
    assert any(row.startswith("| `quieter` | Turn the first weights down.") for row in treatments.prescriptions_table())


@pytest.mark.usefixtures("loud")
def test_a_patient_may_have_a_registered_condition() -> None:
    one = Patient("loud", "Loud.", ("loud-units",), "mlp", lambda *_: loud_model()[0], "flat")
    assert not one.healthy


def test_the_page_of_treatments_says_what_the_tables_say() -> None:
    treatments = extension("make_treatments", ROOT / "tools" / "make_treatments.py")
    text = (DOCS / "treatments.md").read_text(encoding="utf-8")
    for row in (*treatments.findings_table(), *treatments.prescriptions_table()):
        assert row in text, "run python tools/make_treatments.py --tables"


# --- one prescription -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("loud")
def test_a_registered_prescription_is_carried_out_and_reported() -> None:
    model, batch, report = loud_report()
    treatment = treat(model, report, batch=batch, stress=False)
    assert treatment.applied == ("quieter",)
    assert treatment.cured
    assert torch.equal(treatment.model[0].weight, model[0].weight * 1e-3)
    assert treatment.code.splitlines()[-1] == "quieter_(model, batch, factor=0.001)"
    document = treatment.to_dict()
    assert document["steps"][0]["status"] == "applied"
    page = io.StringIO()
    print_treatment(Console(width=100, file=page), document)
    assert "applied quieter (weights): loud-units gone" in page.getvalue()
    assert "<strong>applied quieter</strong>" in treatment_section(document)


@pytest.mark.usefixtures("loud")
def test_a_registered_prescription_can_be_named_and_one_without_calls_says_why() -> None:
    model, batch, report = loud_report()
    steps = treat(model, report, batch=batch, choose="fewer-layers, quieter", stress=False).steps
    assert [(step.id, step.status) for step in steps] == [("fewer-layers", "refused"), ("quieter", "applied")]
    assert steps[0].reason == PRESCRIPTIONS["fewer-layers"].elsewhere


def test_prescriptions_load_without_treatments_and_conditions_without_torch() -> None:
    """The tables are read where reports are drawn; calls are names until they are made."""
    program = (
        "import sys, isometer.doctor.conditions._prescriptions, isometer.doctor.conditions._conditions\n"
        "sys.exit('torch' in sys.modules or any(n.startswith('isometer.doctor.treatment') for n in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_every_call_names_a_function() -> None:
    for one in PRESCRIPTIONS.values():
        for call in (call for alternative in one.calls for call in alternative):
            assert callable(getattr(importlib.import_module(call.module), call.function))


# --- the tables -------------------------------------------------------------------------------------------------------


def test_entries_are_complete() -> None:
    for one in CONDITIONS.values():
        assert all((one.title, one.reads, one.limits.reason, one.limits.derived, one.harm, one.references))
        assert set(one.metrics) <= set(METRICS)
        assert one.metrics
        assert one.harm.endswith(".")
        assert one.prescriptions
    assert len({one.order for one in CONDITIONS.values()}) == len(CONDITIONS)
    assert max(CONDITIONS.values(), key=lambda one: one.order).id == "wrong-gain", "it explains what the others found"


def test_a_variant_changes_only_what_it_says(quieter: Prescription) -> None:
    def check(case: Case, condition: Condition) -> Iterator[Sign]:
        yield Sign("severe", (0,), {}, "Seen.", variant="deaf")
        yield Sign("severe", (0,), {}, "Seen.", harm="Harm with numbers.")

    variant = Variant("where none listens", harm="None listens.", prescriptions=("fewer-layers",))
    condition = loud_condition(check=check, variants={"deaf": variant})
    deaf, usual = condition.found_in(None)  # type: ignore[arg-type]
    assert (deaf.explanation, deaf.references) == ("Seen. None listens.", condition.references)
    assert [p.id for p in deaf.prescriptions] == ["fewer-layers"]
    assert usual.explanation == "Seen. Harm with numbers."
    assert usual.prescriptions[0] is quieter


@pytest.mark.parametrize(
    ("limits", "values"),
    [
        (Limits(1.0, 4.0, ""), {0.99: None, 1.0: "moderate", 3.99: "moderate", 4.0: "severe", float("inf"): "severe"}),
        (Limits(0.1, 0.01, ""), {0.11: None, 0.1: "moderate", 0.011: "moderate", 0.01: "severe", 0.0: "severe"}),
    ],
)
def test_limits_rise_or_fall(limits: Limits, values: dict[float, str | None]) -> None:
    assert {value: limits.severity(value) for value in values} == values
    assert limits.severity(float("nan")) is None


def test_mistakes_are_told(quieter: Prescription) -> None:
    with pytest.raises(IsometerError, match="there is a prescription 'quieter' already"):
        PRESCRIPTIONS.register(quieter)
    with pytest.raises(IsometerError, match="there is no condition 'loud-units'"):
        CONDITIONS.unregister("loud-units")
    with pytest.raises(IsometerError, match="lists the prescription 'louder'; expected some of principled-gain"):
        loud_condition(prescriptions=("louder",))
    with pytest.raises(IsometerError, match="lists the prescription 'louder'"):
        loud_condition(variants={"deaf": Variant("deaf", prescriptions=("louder",))})
    with pytest.raises(IsometerError, match="has the kind 'noise'; expected one of weights"):
        Prescription("a", "A.", "noise", elsewhere="b")
    with pytest.raises(IsometerError, match="has neither calls nor elsewhere"):
        Prescription("a", "A.", "weights")
    with pytest.raises(IsometerError, match="has both calls and elsewhere"):
        Prescription("a", "A.", "weights", calls=quieter.calls, elsewhere="b")
