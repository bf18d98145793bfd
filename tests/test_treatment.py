"""Treatments: what is applied, refused or undone, that the printed code does the same, that nothing is half done."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional
from typer.testing import CliRunner

from isometer.cli import app
from isometer.doctor import CONDITIONS, PRESCRIPTIONS, diagnose
from isometer.doctor.diagnosis import Report
from isometer.doctor.patients import PATIENTS, patient
from isometer.doctor.treatment import (
    Arm,
    Skip,
    TreatmentTrial,
    add_norm_,
    add_skips_,
    batch_free_norm_,
    fixup_blocks_,
    full_batch_norm_,
    normalize_activations_,
    pre_norm_,
    scale_branches_,
    shape_activations_,
    treat,
    trial,
    zero_biases_,
)
from isometer.errors import IsometerError
from isometer.init import asymmetric_, haar_orthogonal_
from isometer.report._treatment import loss_curves, treatment_section

Tensor = torch.Tensor


def chain(depth: int, width: int = 32, act: type[nn.Module] = nn.ReLU, *, bias: bool = False, gain: float = 1.0):
    torch.manual_seed(depth)
    layers: list[nn.Module] = []
    for _ in range(depth):
        linear = nn.Linear(width, width, bias=bias)
        nn.init.normal_(linear.weight, std=gain / math.sqrt(width))
        layers += [linear, act()]
    return nn.Sequential(*layers, nn.Linear(width, 4))


def batch(n: int = 24, width: int = 32) -> Tensor:
    return torch.randn(n, width, generator=torch.Generator().manual_seed(7))


def state(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


# --- the table --------------------------------------------------------------------------------------------------------


def test_what_is_carried_out_says_why_at_what_price_and_where_not() -> None:
    for one in PRESCRIPTIONS.values():
        if one.calls:
            assert one.kind in ("weights", "architecture")
            assert all((one.theory, one.cost, one.side_effects, one.cannot))
    assert {one.id for one in PRESCRIPTIONS.values() if not one.calls} == {
        "larger-batch",
        "distinct-samples",
        "clip-gradients",
        "fewer-layers",
        "finite-weights",
    }


# --- what each remedy does, against its definition --------------------------------------------------------------------


def test_normalized_activations_have_mean_zero_and_mean_square_one() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    assert normalize_activations_(model, torch.randn(5, 8)) == ("1", "3")
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    smooth = model[1](torch.from_numpy(nodes)).numpy()
    assert abs(weights @ smooth) < 1e-9
    assert abs(weights @ smooth**2 - 1) < 1e-9
    # ReLU: E φ = 1/√2π, Var φ = ½ − 1/2π
    expected = (1.0 - 1 / math.sqrt(2 * math.pi)) / math.sqrt(0.5 - 1 / (2 * math.pi))
    assert float(model[3](torch.tensor(1.0, dtype=torch.float64))) == pytest.approx(expected, abs=1e-12)


def test_shaped_leaky_relu_keeps_samples_apart_at_depth_and_plain_relu_does_not() -> None:
    plain, shaped = chain(60, 256), chain(60, 256)
    names = shape_activations_(shaped, batch(8, 256))
    assert len(names) == 60
    for model, gain in ((plain, math.sqrt(2)), (shaped, 1.0)):
        haar_orthogonal_(model, gain=gain)
    pair = torch.eye(2, 256) * 16.0  # orthogonal samples of mean square 1
    with torch.no_grad():
        cosines = [float(functional.cosine_similarity(*m[:-1](pair), dim=0)) for m in (plain, shaped)]
    assert cosines[0] > 0.99
    assert cosines[1] == pytest.approx(0.9, abs=0.08), "κ_L(0) = 0.9 up to the fluctuation of width 256"


def test_shaping_behind_batch_norm_is_a_falling_gain() -> None:
    layers = [m for _ in range(4) for m in (nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(8, 2))
    shape_activations_(model, torch.randn(16, 8))
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    for layer in range(1, 5):
        expected = np.tanh(layer**-0.4 * nodes)
        expected /= math.sqrt(weights @ expected**2)
        assert np.allclose(model[3 * layer - 1](torch.from_numpy(nodes)).numpy(), expected, atol=1e-8)


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_added_norm_standardises_pre_activations_and_keeps_names(norm: str) -> None:
    model = chain(3, gain=5.0)
    names = [name for name, _ in model.named_parameters()]
    assert add_norm_(model, batch(), norm) == ("1", "3", "5")
    assert set(names) < {name for name, _ in model.named_parameters()}
    seen: list[Tensor] = []
    model[3][1].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    model(batch(200))
    axis = 0 if norm == "batch" else 1
    assert torch.allclose(seen[0].mean(axis), torch.zeros(()), atol=1e-5)
    assert torch.allclose(seen[0].std(axis, correction=0), torch.ones(()), atol=1e-3)


def test_added_norm_of_convolutions_and_functional_activations() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(1, 4, 3), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.relu(self.conv(x)).mean((2, 3)))

    model = Net()
    assert add_norm_(model, torch.randn(4, 1, 8, 8), "batch") == ("conv",)
    assert isinstance(model.conv[1], nn.BatchNorm2d)
    model(torch.randn(4, 1, 8, 8))
    tokens = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(IsometerError, match="tokens"):
        add_norm_(tokens, torch.randn(2, 3, 4), "batch")
    add_norm_(tokens, torch.randn(2, 3, 4), "layer")
    with pytest.raises(IsometerError, match="batch or layer"):
        add_norm_(tokens, torch.randn(2, 3, 4), "group")  # type: ignore[arg-type]


def test_scaled_branches_sum_to_less_than_root_e() -> None:
    torch.manual_seed(0)
    depth, width = 40, 200
    blocks = [Skip(nn.Linear(width, width, bias=False), 1.0) for _ in range(depth)]
    for block in blocks:
        nn.init.normal_(block.branch.weight, std=1 / math.sqrt(width))
    model = nn.Sequential(*blocks)
    x = batch(16, width)
    raw = model(x).square().mean().item() / x.square().mean().item()
    names = scale_branches_(model, x)
    scaled = model(x).square().mean().item() / x.square().mean().item()
    assert len(names) == depth
    assert raw > 1e9, "2^40 in expectation"
    assert scaled == pytest.approx((1 + 1 / depth) ** depth, rel=0.25)


def test_skips_are_the_identity_plus_the_scaled_branch() -> None:
    model = chain(5)
    before = copy.deepcopy(model)
    assert add_skips_(model, batch()) == ("1", "3", "5", "7")
    x = before[0](batch())
    for part in range(4):
        x = x + before[2 * part + 2](before[2 * part + 1](x)) / 2
    assert torch.allclose(model(batch()), before[10](before[9](x)), atol=1e-5)
    with pytest.raises(IsometerError, match="fewer than two parts"):
        add_skips_(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(3, 4))


def test_full_batch_norm_replaces_what_only_recentres() -> None:
    class Recentre(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x - x.mean(0)

    model = nn.Sequential(nn.Linear(6, 6), Recentre(), nn.ReLU(), nn.Linear(6, 6), nn.Identity(), nn.ReLU())
    assert full_batch_norm_(model, torch.randn(9, 6)) == ("1",)
    assert isinstance(model[1], nn.BatchNorm1d)
    with pytest.raises(IsometerError, match="no module subtracts the batch mean"):
        full_batch_norm_(model, torch.randn(9, 6))


def test_batch_free_norm_makes_samples_independent() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU())
    batch_free_norm_(model)
    x = torch.randn(5, 6)
    assert torch.allclose(model(x)[:2], model(x[:2]), atol=1e-6)
    with pytest.raises(IsometerError, match="no batch norm"):
        batch_free_norm_(model)


def test_pre_norm_moves_the_norm_into_the_branch() -> None:
    torch.manual_seed(0)
    layers = [m for _ in range(3) for m in (Skip(nn.Linear(6, 6), 1.0), nn.LayerNorm(6))]
    model = nn.Sequential(*layers)
    branches = [layer.branch for layer in layers[::2]]
    assert pre_norm_(model, torch.randn(4, 6)) == ("0", "2", "4")
    x = torch.randn(4, 6)
    y = x
    for branch in branches:
        y = y + branch(functional.layer_norm(y, (6,)))
    assert torch.allclose(model(x), functional.layer_norm(y, (6,)), atol=1e-5)
    assert len({id(p) for p in model.parameters()}) == len(list(model.parameters())) == 14
    with pytest.raises(IsometerError, match="no normalisation directly after"):
        pre_norm_(nn.Sequential(nn.Linear(6, 6)), torch.randn(4, 6))


def test_fixup_starts_as_the_skip_connections_and_refuses_norms() -> None:
    torch.manual_seed(0)
    blocks = [Skip(nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6)), 1.0) for _ in range(3)]
    model = nn.Sequential(*blocks, nn.Linear(6, 2))
    fixup_blocks_(model, torch.randn(4, 6))
    x = torch.randn(4, 6)
    assert torch.equal(model[:3](x), x)
    with pytest.raises(IsometerError, match="normalises"):
        fixup_blocks_(nn.Sequential(*blocks, nn.LayerNorm(6)), torch.randn(4, 6))


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
    report = diagnose(model, batch(), predict=False)
    assert report.findings
    before = state(model)
    treatment = treat(model, report, batch=batch())
    assert treatment.applied == expected
    assert treatment.cured
    assert same(before, state(model)), "the original is left alone"
    again = diagnose(treatment.model, batch())
    assert again.healthy


@pytest.mark.slow
def test_architecture_is_changed_only_when_weights_do_not_help() -> None:
    model = chain(16, 48, nn.Sigmoid)
    inputs = batch(16, 48)
    treatment = treat(model, diagnose(model, inputs, predict=False), batch=inputs)
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
        treatment = treat(model, diagnose(model, batch(), predict=False), batch=batch(), choose=choose, seed=number)
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
    treatment = treat(model, diagnose(model, batch(), predict=False), batch=batch(), inplace=True)
    assert treatment.model is model
    assert [id(parameter) for parameter in model.parameters()] == held
    assert diagnose(model, batch(), predict=False).healthy


def test_what_makes_things_worse_is_undone_and_said() -> None:
    model = chain(30, gain=math.sqrt(2))
    add_norm_(model, batch(), "layer")
    healthy_state = state(model)
    report = diagnose(model, batch(), predict=False)
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
    report = diagnose(model, batch(), predict=False)
    treatment = treat(model, report, batch=batch(), choose="all")
    listed = {p.id for finding in report.findings for p in finding.prescriptions}
    assert {step.id for step in treatment.steps} == listed
    assert len(treatment.after.findings) <= len(report.findings)


def test_a_healthy_model_is_left_as_it_is() -> None:
    model = chain(3, gain=math.sqrt(2))
    report = diagnose(model, batch(), predict=False)
    assert report.healthy
    treatment = treat(model, report, batch=batch())
    assert (treatment.steps, treatment.code, treatment.after) == ((), "", report)
    assert "healthy" in treatment.summary


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
    treatment = treat(model, diagnose(model, batch(), predict=False), batch=batch(), choose=[choose], inplace=True)
    (step,) = treatment.steps
    assert (step.status, treatment.applied) == ("refused", ())
    assert words in step.reason
    assert same(before, state(model))


def test_frozen_models_get_what_is_still_possible() -> None:
    model = _frozen()
    treatment = treat(model, diagnose(model, batch(), predict=False), batch=batch())
    assert all(PRESCRIPTIONS[one].kind == "architecture" for one in treatment.applied)
    assert not treatment.model[4].weight.requires_grad
    assert torch.equal(treatment.model[4].weight, model[4].weight)


def test_linear_models_get_orthogonal_weights() -> None:
    model = chain(12, act=nn.Identity, gain=0.3)
    treatment = treat(model, diagnose(model, batch(), predict=False), batch=batch(), choose=["orthogonal-init"])
    assert treatment.applied == ("orthogonal-init",)
    weight = treatment.model[2].weight
    assert torch.allclose(weight @ weight.T, torch.eye(32), atol=1e-5)


def test_non_square_layers_are_left_out_of_iterative_orthogonalisation() -> None:
    model = nn.Sequential(nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    first = model[0].weight.detach().clone()
    report = diagnose(model, batch(64), predict=False)
    treatment = treat(model, report, batch=batch(64), choose=["iterative-orthogonalization"])
    assert treatment.applied == ("iterative-orthogonalization",) or "undone" in {s.status for s in treatment.steps}
    gain = treatment.model[0].weight.norm().item() / first.norm().item()
    assert torch.allclose(treatment.model[0].weight, gain * first, atol=1e-6), "rescaled only"


def test_meta_and_quantised_models_are_refused() -> None:
    model = chain(3)
    report = diagnose(model, batch(), predict=False)
    with pytest.raises(IsometerError, match="meta device"):
        treat(copy.deepcopy(model).to("meta"), report, batch=batch())
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
    given = {"model": model, "report": diagnose(model, batch(), predict=False), "batch": batch(), **arguments}
    with pytest.raises(IsometerError, match=words):
        treat(given.pop("model"), given.pop("report"), **given)


def test_models_that_cannot_be_copied_or_break_are_untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stubborn(nn.Sequential):
        def __deepcopy__(self, memo: object) -> nn.Module:
            raise TypeError("no copies")

    model = Stubborn(*chain(12, gain=0.5))
    report = diagnose(model, batch(), predict=False)
    with pytest.raises(IsometerError, match="inplace=True"):
        treat(model, report, batch=batch())
    assert treat(model, report, batch=batch(), inplace=True).cured
    model = chain(12, gain=0.5)
    before = state(model)
    import isometer.doctor.treatment._search as search

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "_told", interrupted)
    with pytest.raises(KeyboardInterrupt):
        treat(model, report, batch=batch(), inplace=True)
    assert same(before, state(model))


def test_functional_and_reused_activations_are_refused_with_their_name() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.relu(self.first(x)))

    with pytest.raises(IsometerError, match="forward method"):
        normalize_activations_(Net(), torch.randn(3, 4))
    act = nn.ReLU()
    shared = nn.Sequential(nn.Linear(4, 4), act, nn.Linear(4, 4), act, nn.Linear(4, 2))
    for surgery in (normalize_activations_, shape_activations_, add_norm_):
        with pytest.raises(IsometerError, match=r"more than once|several places"):
            surgery(shared, torch.randn(3, 4))
    assert shared[1] is act
    with pytest.raises(IsometerError, match="zero already"):
        zero_biases_(nn.Sequential(nn.Linear(4, 4, bias=False)))


# --- trials, report, command ------------------------------------------------------------------------------------------


def test_trial_sees_what_learns_and_leaves_the_models_alone() -> None:
    x = torch.randn(256, 32, generator=torch.Generator().manual_seed(1))
    y = (x[:, 0] > 0).long()
    sick = chain(10, gain=0.2)
    well = treat(sick, diagnose(sick, x[:32]), batch=x[:32]).model
    before = [state(sick), state(well)]
    done = trial(sick, well, x, target=y, loss=functional.cross_entropy, steps=60, seeds=[0, 1], samples=32)
    assert same(before[0], state(sick))
    assert same(before[1], state(well))
    assert done.better
    assert np.shape(done.before.final) == (2, 3)
    assert min(done.before.best_losses) > 0.65, "an untreated one stays at log 2"
    document = done.to_dict()
    json.dumps(document, allow_nan=False)
    assert loss_curves(document).count("<polygon") == 2


def test_trial_counts_divergence_as_infinite_and_checks_its_input() -> None:
    def explode(output: Tensor, target: Tensor) -> Tensor:
        return output.square().sum() * 1e30

    model = chain(2)
    done = trial(model, model, batch(), target=torch.zeros(24), loss=explode, steps=5, seeds=[0])
    assert all(math.isinf(loss) for loss in done.after.best_losses)
    assert not done.better
    loss_curves(done.to_dict())
    for wrong in ({}, {"batch": batch(), "target": None}, {"batch": batch(), "target": 1, "steps": 0}):
        with pytest.raises(IsometerError):
            trial(model, model, loss=explode, **wrong)


def test_section_escapes_texts() -> None:
    treatment = {
        "summary": "<b>",
        "steps": [{"id": "<x>", "kind": "weights", "status": "applied", "reason": "&"}],
        "numbers": [],
        "code": "<script>",
        "trial": None,
    }
    section = treatment_section(treatment)
    assert "<script>" not in section
    assert "&lt;x&gt;" in section


def test_command_treats_tries_and_saves(tmp_path: Path) -> None:
    weights, page = tmp_path / "treated.safetensors", tmp_path / "report.html"
    arguments = [
        "doctor",
        "mlp-relu-default-10",
        "--treat",
        "--trial",
        "3",
        "--save",
        str(weights),
        "--html",
        str(page),
    ]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, (result.output, result.exception)
    treatment = json.loads(result.stdout)["treatment"]
    assert {"applied", "before", "after", "code", "trial"} <= set(treatment)
    assert treatment["applied"] == ["principled-gain"]
    assert treatment["before"]["findings"]
    assert treatment["after"]["healthy"]
    assert treatment["trial"]["steps"] == 3
    model = patient("mlp-relu-default-10").model()
    model.load_state_dict(load_file(weights))
    assert diagnose(model, patient("mlp-relu-default-10").example()[0]).healthy
    assert "In your own code" in page.read_text(encoding="utf-8")


def test_command_on_a_terminal_and_its_errors(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["doctor", "mlp-relu-default-10", "--treat", "zero-bias,pre-norm", "--layers", "2"]
    )
    assert "refused pre-norm" in result.stdout
    for arguments, words in (
        (["--trial", "5"], "need --treat"),
        (["--treat", "--save", "x.pt"], "safetensors"),
        (["--treat", "nonsense"], "unknown prescription"),
        (["--treat", "--trial", "0"], "at least 1"),
    ):
        problem = CliRunner().invoke(app, ["doctor", "mlp-relu-default-10", *arguments]).exception
        assert isinstance(problem, IsometerError)
        assert words in str(problem)


TREATABLE = [n for n, p in PATIENTS.items() if not p.healthy and p.defect is None]


@pytest.mark.slow
@pytest.mark.parametrize("name", TREATABLE)
def test_every_treatable_patient_is_cured(name: str) -> None:
    one = patient(name)
    model, (inputs, targets) = one.model(1), one.example(seed=1)
    report: Report = diagnose(model, inputs, target=targets, loss=one.loss, predict=False)
    assert {f.id for f in report.findings} <= set(CONDITIONS)
    treatment = treat(model, report, batch=inputs, target=targets, loss=one.loss)
    assert treatment.cured, treatment.summary


def test_patients_are_listed_with_condition_and_outcome() -> None:
    import isometer.cli.patients  # noqa: F401  (registers the command)

    result = CliRunner().invoke(app, ["patients", "--json"])
    assert result.exit_code == 0, result.exception
    rows = {row["name"]: row for row in json.loads(result.stdout)["patients"]}
    assert set(rows) == set(PATIENTS)
    assert rows["mlp-dead-10"]["condition"] == list(PATIENTS["mlp-dead-10"].findings)
    assert rows["mlp-dead-10"]["treatment"]["applied"] == ["zero-bias"]
    assert "mlp-dead-10" in CliRunner().invoke(app, ["patients", "--family", "mlp"]).stdout
    assert isinstance(CliRunner().invoke(app, ["patients", "--family", "x"]).exception, IsometerError)


def test_a_loss_that_is_no_number_is_not_written_as_infinite() -> None:
    arm = Arm(((math.nan, math.inf),), 0, ((2.0, math.nan),))
    record = TreatmentTrial(2, (0.1, 0.2), (0,), arm, arm, 2.0).to_dict()
    assert record["before"]["final"] == [[None, "inf"]]
    assert record["after"]["curve"]["mean"] == [2.0, None]
    assert "nan" not in loss_curves(record)
