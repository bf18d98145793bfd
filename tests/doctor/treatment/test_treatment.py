"""Treating a model by its findings: what is applied, refused or undone; the printed code does the same."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from isometer.doctor import CONDITIONS, PRESCRIPTIONS
from isometer.doctor.diagnosis import Report
from isometer.doctor.patients import PATIENTS, patient
from isometer.doctor.treatment import add_norm_
from isometer.doctor.treatment import treat as treat_by_any
from isometer.doctor.treatment._judges import FindingsJudge
from isometer.errors import IsometerError
from isometer.init import asymmetric_
from support.models import batch, chain, same, state
from support.quick_look import quick_look

treat = partial(treat_by_any, stress=False)

# --- treat ------------------------------------------------------------------------------------------------------------

SICK = {
    "small gain": (lambda: chain(12, gain=0.5), ("principled-gain",)),
    "biases": (lambda: _with_bias(chain(10, bias=True, gain=math.sqrt(2)), -2.0), ("zero-bias",)),
    "asymmetric": (lambda: _asymmetric(), ("symmetric-init",)),
}


def _with_bias(model: nn.Sequential, value: float) -> nn.Sequential:
    for layer in model[:-1]:
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.bias, value)
    return model


def _asymmetric() -> nn.Sequential:
    layers = [m for _ in range(8) for m in (nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(32, 4))
    asymmetric_(model)
    return model


@pytest.mark.parametrize("name", SICK)
def test_weights_are_set_first_and_the_finding_is_gone(name: str) -> None:
    make, expected = SICK[name]
    model = make()
    report = quick_look(model, batch(), predict=False)
    assert report.findings
    before = state(model)
    treatment = treat(model, report, batch=batch())
    assert treatment.applied == expected
    assert treatment.cured
    assert same(before, state(model)), "the original is left alone"
    again = quick_look(treatment.model, batch())
    assert again.healthy


@pytest.mark.slow
def test_architecture_is_changed_only_when_weights_do_not_help() -> None:
    model = chain(16, 48, nn.Sigmoid)
    inputs = batch(16, 48)
    treatment = treat(model, quick_look(model, inputs, predict=False), batch=inputs)
    assert treatment.cured
    assert [PRESCRIPTIONS[one].kind for one in treatment.applied] == ["architecture"]
    assert any(step.kind == "weights" and step.status in ("undone", "refused") for step in treatment.steps)
    assert all(step.reason for step in treatment.steps)


def test_printed_code_does_the_same_in_another_process(tmp_path: Path) -> None:
    cases: list[tuple[nn.Module, str | list[str]]] = [(make(), "recommended") for make, _ in SICK.values()]
    cases.append(
        (chain(8, gain=math.sqrt(2)), ["add-layer-norm", "orthogonal-init", "shape-activation", "add-residual"])
    )
    script, expected = ["import torch"], []
    for number, (model, choose) in enumerate(cases):
        treatment = treat(model, quick_look(model, batch(), predict=False), batch=batch(), choose=choose, seed=number)
        assert treatment.applied, treatment.steps
        torch.save({"model": model, "batch": batch()}, tmp_path / f"{number}.pt")
        expected.append(treatment.model(batch()))
        script += [
            f"kept = torch.load({str(tmp_path / f'{number}.pt')!r}, weights_only=False)",
            "model, batch = kept['model'], kept['batch']",
            treatment.code,
            f"torch.save(model(batch).detach(), {str(tmp_path / f'{number}-after.pt')!r})",
        ]
    assert len(treatment.applied) >= 3, treatment.steps
    subprocess.run([sys.executable, "-c", "\n".join(script)], check=True, capture_output=True, timeout=200)
    for number, output in enumerate(expected):
        assert torch.allclose(torch.load(tmp_path / f"{number}-after.pt"), output, atol=1e-6)


def test_inplace_keeps_the_parameters_that_an_optimizer_holds() -> None:
    model = chain(12, gain=0.5)
    held = [id(parameter) for parameter in model.parameters()]
    treatment = treat(model, quick_look(model, batch(), predict=False), batch=batch(), inplace=True)
    assert treatment.model is model
    assert [id(parameter) for parameter in model.parameters()] == held
    assert quick_look(model, batch(), predict=False).healthy


def test_what_makes_things_worse_is_undone_and_said() -> None:
    model = chain(30, gain=math.sqrt(2))
    add_norm_(model, batch(), "layer")
    healthy_state = state(model)
    report = quick_look(model, batch(), predict=False)
    treatment = treat(model, report, batch=batch(), choose=["normalize-activation"])
    burden = [sum({"severe": 3, "moderate": 1}[f.severity] for f in r.findings) for r in (report, treatment.after)]
    (step,) = treatment.steps
    assert burden[1] <= burden[0]
    assert (step.status == "undone") == (not treatment.applied)
    assert step.status == "undone", "gradients grow by √1.47 per layer behind a normalised ReLU"
    assert "worse" in step.reason
    assert same(healthy_state, state(treatment.model))
    assert treatment.code == ""


def test_all_carries_out_everything_and_is_never_worse() -> None:
    model = chain(12, gain=0.5)
    report = quick_look(model, batch(), predict=False)
    treatment = treat(model, report, batch=batch(), choose="all")
    listed = {p.id for finding in report.findings for p in finding.prescriptions}
    assert {step.id for step in treatment.steps} == listed
    assert len(treatment.after.findings) <= len(report.findings)


def test_a_healthy_model_is_left_as_it_is() -> None:
    model = chain(3, gain=math.sqrt(2))
    report = quick_look(model, batch(), predict=False)
    assert report.healthy
    treatment = treat(model, report, batch=batch())
    assert (treatment.steps, treatment.code, treatment.after) == ((), "", report)
    assert "nothing to treat" in treatment.summary


# --- bad input: a clear answer and an untouched model -----------------------------------------------------------------


def _frozen() -> nn.Module:
    model = chain(12, gain=0.5)
    model[4].weight.requires_grad_(False)
    return model


def _tied() -> nn.Module:
    model = chain(12, gain=0.5)
    model[6].weight = model[2].weight
    return model


@pytest.mark.parametrize(
    ("make", "choose", "words"),
    [
        (_frozen, "principled-gain", "frozen"),
        (_tied, "principled-gain", "share their memory"),
        (lambda: chain(12, gain=0.5), "iterative-orthogonalization", "samples"),
        (lambda: chain(6, act=nn.Identity, gain=0.1), "principled-gain", "no activation follows"),
        (lambda: chain(6, act=nn.Identity, gain=0.1), "normalize-activation", "no activation"),
        (lambda: chain(12, gain=0.5), "scale-branches", "residual"),
        (lambda: chain(12, gain=0.5), "larger-batch", "not part of the model"),
        (lambda: chain(12, gain=0.5), "pre-norm", "no normalisation"),
    ],
)
def test_refusals_say_why_and_touch_nothing(make: Callable[[], nn.Module], choose: str, words: str) -> None:
    model = make()
    before = state(model)
    treatment = treat(model, quick_look(model, batch(), predict=False), batch=batch(), choose=[choose], inplace=True)
    (step,) = treatment.steps
    assert (step.status, treatment.applied) == ("refused", ())
    assert words in step.reason
    assert same(before, state(model))


def test_frozen_models_get_what_is_still_possible() -> None:
    model = _frozen()
    treatment = treat(model, quick_look(model, batch(), predict=False), batch=batch())
    assert all(PRESCRIPTIONS[one].kind == "architecture" for one in treatment.applied)
    assert not treatment.model[4].weight.requires_grad
    assert torch.equal(treatment.model[4].weight, model[4].weight)


def test_linear_models_get_orthogonal_weights() -> None:
    model = chain(12, act=nn.Identity, gain=0.3)
    treatment = treat(model, quick_look(model, batch(), predict=False), batch=batch(), choose=["orthogonal-init"])
    assert treatment.applied == ("orthogonal-init",)
    weight = treatment.model[2].weight
    assert torch.allclose(weight @ weight.T, torch.eye(32), atol=1e-5)


def test_non_square_layers_are_left_out_of_iterative_orthogonalisation() -> None:
    model = nn.Sequential(nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    first = model[0].weight.detach().clone()
    report = quick_look(model, batch(64), predict=False)
    treatment = treat(model, report, batch=batch(64), choose=["iterative-orthogonalization"])
    assert treatment.applied == ("iterative-orthogonalization",) or "undone" in {s.status for s in treatment.steps}
    gain = treatment.model[0].weight.norm().item() / first.norm().item()
    assert torch.allclose(treatment.model[0].weight, gain * first, atol=1e-6), "rescaled only"


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_meta_scripted_and_quantised_models_are_refused() -> None:
    model = chain(3)
    report = quick_look(model, batch(), predict=False)
    with pytest.raises(IsometerError, match="meta device"):
        treat(copy.deepcopy(model).to("meta"), report, batch=batch())
    scripted = torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))
    for one in (scripted, nn.Sequential(scripted, nn.Linear(2, 2))):
        with pytest.raises(IsometerError, match="scripted"):
            treat(one, report, batch=batch())
    stub = type("Quantised", (nn.Module,), {"__module__": "torch.ao.nn.quantized"})()
    with pytest.raises(IsometerError, match="quantised"):
        treat(nn.Sequential(stub, nn.Linear(2, 2)), report, batch=batch())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"choose": "principled-gian"}, "did you mean 'principled-gain'"),
        ({"choose": []}, "names no prescription"),
        ({"report": 3}, "isometer.diagnose"),
        ({"model": 3}, "torch.nn.Module"),
    ],
)
def test_wrong_arguments(arguments: dict, words: str) -> None:
    model = chain(3)
    given = {"model": model, "report": quick_look(model, batch(), predict=False), "batch": batch(), **arguments}
    with pytest.raises(IsometerError, match=words):
        treat(given.pop("model"), given.pop("report"), **given)


def test_models_that_cannot_be_copied_or_break_are_untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stubborn(nn.Sequential):
        def __deepcopy__(self, memo: object) -> nn.Module:
            raise TypeError("no copies")

    model = Stubborn(*chain(12, gain=0.5))
    report = quick_look(model, batch(), predict=False)
    with pytest.raises(IsometerError, match="inplace=True"):
        treat(model, report, batch=batch())
    assert treat(model, report, batch=batch(), inplace=True).cured
    model = chain(12, gain=0.5)
    before = state(model)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FindingsJudge, "words", interrupted)
    with pytest.raises(KeyboardInterrupt):
        treat(model, report, batch=batch(), inplace=True)
    assert same(before, state(model))


# --- trials, report, command ------------------------------------------------------------------------------------------


TREATABLE = [n for n, p in PATIENTS.items() if not p.healthy and p.defect is None]


@pytest.mark.slow
@pytest.mark.parametrize("name", TREATABLE)
def test_every_treatable_patient_is_cured(name: str) -> None:
    one = patient(name)
    model, (inputs, targets) = one.model(1), one.example(seed=1)
    report: Report = quick_look(model, inputs, target=targets, loss=one.loss, predict=False)
    assert {f.id for f in report.findings} <= set(CONDITIONS)
    treatment = treat(model, report, batch=inputs, target=targets, loss=one.loss)
    assert treatment.cured, treatment.summary


class _Slotted(nn.Linear):
    __slots__ = ("extra",)  # nn.Module's way of copying leaves it out

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs) + self.extra


def test_a_copy_that_does_not_run_is_refused_in_one_line() -> None:
    model = nn.Sequential(_Slotted(32, 32))
    object.__setattr__(model[0], "extra", 0.0)
    report = quick_look(model, batch(), predict=False)
    with pytest.raises(IsometerError, match=r"a copy of the model does not run \(AttributeError: .*inplace=True"):
        treat(model, report, batch=batch())
