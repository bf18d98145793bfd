"""Findings: every built-in condition is found, nothing else is; chance and harm are judged as documented."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from isometer.doctor import CONDITIONS, PRESCRIPTIONS, probe
from isometer.doctor.diagnosis._comparison import compare
from isometer.doctor.diagnosis._redraws import Redraws, Statistic
from isometer.doctor.diagnosis._signal_path import View, robust_slope
from isometer.doctor.diagnosis.checks import Case
from isometer.doctor.diagnosis.checks._units import nonlinear_share
from isometer.doctor.patients import PATIENTS, Patient
from support.quick_look import quick_look

AVAILABLE = [name for name, one in PATIENTS.items() if one.available]
QUICK = (
    "mlp-relu-50",
    "mlp-relu-small-gain-10",
    "mlp-tanh-linear-5",
    "mlp-tanh-large-gain-20",
    "mlp-sigmoid-20",
    "mlp-bn-small-batch-10",
    "mlp-bn-repeated-10",
    "mlp-recentred-100",
    "mlp-dead-10",
    "vgg-bn-asymmetric-8",
    "attention-only-24",
    "mlp-relu-10",
    "mlp-tanh-20",
    "mlp-bn-10",
    "resnet-20",
    "transformer-4",
    "gru",
    "gpt2",
    "bert",
)
"""Every finding is among theirs; the others are examined by the slow tests."""


def _found(patient: Patient, seed: int, n: int | None = None) -> set[str]:
    inputs, targets = patient.example(n, seed)
    report = quick_look(patient.model(seed), inputs, target=targets, loss=patient.loss, predict=False, seed=seed)
    return {finding.id for finding in report.findings}


def _judge(patient: Patient, found: set[str]) -> None:
    if patient.healthy:
        assert not found
    else:
        assert set(patient.findings) <= found


@pytest.mark.parametrize("name", QUICK)
def test_patients(name: str) -> None:
    if not PATIENTS[name].available:
        pytest.skip(f"needs {PATIENTS[name].requires}")
    _judge(PATIENTS[name], _found(PATIENTS[name], 0))


def test_every_finding_has_a_patient() -> None:
    assert {finding for name in QUICK for finding in PATIENTS[name].findings} >= set(CONDITIONS) - {
        "activation-explosion"
    }
    assert {finding for one in PATIENTS.values() for finding in one.findings} == set(CONDITIONS)


@pytest.mark.slow
@pytest.mark.parametrize("name", AVAILABLE)
@pytest.mark.parametrize(("seed", "n"), [(0, None), (1, None), (2, None), (3, 16), (4, 64)])
def test_every_patient(name: str, seed: int, n: int | None) -> None:
    patient = PATIENTS[name]
    if n is not None and ("small-batch-bn" in patient.findings or patient.defect is not None):
        pytest.skip("the batch is the condition")
    if n == 16 and "bn" in name and patient.healthy:
        pytest.skip("batch norm over 16 samples is another condition")
    _judge(patient, _found(patient, seed, n))


def test_healthy_without_a_loss() -> None:
    patient = PATIENTS["mlp-relu-10"]
    inputs, _ = patient.example()
    assert quick_look(patient.model(), inputs, predict=False).healthy
    assert quick_look(patient.model(), inputs[:2], predict=False).healthy  # two samples are enough to look


def _mlp(depth: int, width: int, gain: float, seed: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    for _ in range(depth):
        linear = nn.Linear(width, width, bias=False)
        with torch.no_grad():
            linear.weight.normal_(0, gain / math.sqrt(width), generator=generator)
        layers += [linear, activation()]
    return nn.Sequential(*layers, nn.Linear(width, 4))


def test_evidence_has_the_true_rate() -> None:
    """A gain of 0.5 √2 halves lengths per ReLU layer, back and forth."""
    report = quick_look(_mlp(20, 400, 0.5 * math.sqrt(2), 0), torch.randn(16, 400), predict=False)
    found = {finding.id: finding for finding in report.findings}
    assert found["activation-vanishing"].severity == "severe"
    assert found["activation-vanishing"].evidence["factor_per_layer"] == pytest.approx(0.5, rel=0.05)
    assert found["gradient-vanishing"].evidence["factor_per_layer_toward_input"] == pytest.approx(0.5, rel=0.05)
    assert found["wrong-gain"].evidence["typical_gain"] == pytest.approx(0.5 * math.sqrt(2), rel=0.01)
    assert found["wrong-gain"].evidence["principled_gain"] == pytest.approx(math.sqrt(2), rel=1e-9)
    # float16 ends at 2^-14: 14 halvings from the input's rms of 1
    assert found["activation-vanishing"].evidence["depth_of_float16_underflow"] == pytest.approx(14, abs=1)


def test_harm_is_a_matter_of_depth() -> None:
    """The same gain is harmless in 4 layers and not in 20."""
    batch = torch.randn(16, 256, generator=torch.Generator().manual_seed(3))
    assert quick_look(_mlp(4, 256, 1.0, 1), batch, predict=False).healthy
    assert not quick_look(_mlp(20, 256, 1.0, 1), batch, predict=False).healthy


def test_the_signal_is_lost_where_it_is_lost() -> None:
    model = _mlp(12, 128, math.sqrt(2), 0)
    with torch.no_grad():
        model[8].weight *= 1e-6
        model[8].weight += 1e-3
    report = quick_look(model, torch.randn(16, 128, generator=torch.Generator().manual_seed(0)), predict=False)
    collapse = next(finding for finding in report.findings if finding.id == "rank-collapse")
    assert report.examination.names[collapse.layers[0]] in ("8", "9")


def test_every_finding_is_complete() -> None:
    seen = set()
    for name in ("mlp-relu-100", "mlp-sigmoid-20", "mlp-bn-small-batch-10", "mlp-dead-10", "mlp-recentred-100"):
        patient = PATIENTS[name]
        inputs, targets = patient.example()
        report = quick_look(patient.model(), inputs, target=targets, loss=patient.loss, predict=False)
        for finding in report.findings:
            seen.add(finding.id)
            assert finding.id in CONDITIONS
            assert finding.layers
            assert finding.evidence
            assert finding.references
            assert finding.prescriptions
            assert finding.explanation.count(". ") == 1  # two sentences
            assert finding.explanation.endswith(".")
            if "p_value" in finding.evidence:
                assert finding.evidence["p_value"] < 1e-3
    assert len(seen) >= 6
    assert {p.kind for p in PRESCRIPTIONS.values()} == {"weights", "architecture", "batch", "training"}


# --- chance -----------------------------------------------------------------------------------------------------------


class _Fake(Redraws):
    """Redraws whose statistics are given."""

    def __init__(self, values: list[float]) -> None:
        self._values = values

    def views(self, statistic: Statistic) -> list[View]:
        return self._values  # type: ignore[return-value]


@pytest.mark.slow
def test_p_values_are_probabilities() -> None:
    """Under the null a p-value below α comes with probability at most α: 20 000 cases, binomial at 1e-3 each."""
    generator = np.random.default_rng(0)
    draws = generator.normal(5.0, 2.0, (20_000, 9))
    values = np.array([_Fake(row[1:].tolist()).p_value(float(row[0]), 5.0, lambda x: x) for row in draws])  # type: ignore[arg-type,return-value]
    for level in (0.3, 0.1, 0.01, 0.001):
        seen = int((values < level).sum())
        assert stats.binom.sf(seen - 1, values.size, level) > 1e-3
        assert seen > 0.6 * level * values.size - 4  # and it is not hopelessly careful


def test_p_values_have_power() -> None:
    """Found at 1e-3 from 8 redraws in 95 of 100 cases: 12 deviations in one network, or 3 in all of them."""
    generator = np.random.default_rng(1)
    found = 0
    for _ in range(400):
        draws = generator.normal(0.0, 1.0, 9)
        found += _Fake(draws[1:].tolist()).p_value(float(draws[0]) + 12.0, 0.0, lambda x: x) < 1e-3  # type: ignore[arg-type]
    assert found / 400 > 0.95
    found = 0
    for _ in range(400):
        draws = generator.normal(3.0, 1.0, 9)
        found += _Fake(draws[1:].tolist()).p_value(float(draws[0]), 0.0, lambda x: x) < 1e-3  # type: ignore[arg-type]
    assert found / 400 > 0.95


def test_degenerate_redraws() -> None:
    assert _Fake([1.0, 1.0, 1.0]).p_value(2.0, 0.0, lambda x: x) == 0.0  # type: ignore[arg-type]
    assert _Fake([1.0, math.nan]).p_value(2.0, 0.0, lambda x: x) == 1.0  # type: ignore[arg-type]
    assert _Fake([1.0, 2.0, 3.0]).p_value(math.nan, 0.0, lambda x: x) == 1.0  # type: ignore[arg-type]


def test_symmetric_weights_are_never_called_asymmetric() -> None:
    """Weights of mean zero in layers down to fan-out 1: no false alarm in 150 networks of 5 layers."""
    for seed in range(150):
        generator = torch.Generator().manual_seed(seed)
        layers: list[nn.Module] = []
        for fan_in, fan_out in ((8, 2), (2, 3), (3, 1), (1, 4), (4, 2)):
            linear = nn.Linear(fan_in, fan_out)
            with torch.no_grad():
                linear.weight.normal_(generator=generator)
            layers += [linear, nn.ReLU()]
        examination = probe(nn.Sequential(*layers), torch.randn(4, 8, generator=generator))
        assert not list(CONDITIONS["asymmetric-init"].found_in(Case(View(examination), None)))  # type: ignore[arg-type]


@pytest.mark.slow
def test_narrow_networks_fluctuate_without_a_finding() -> None:
    """Width 8, depth 30, principled gain: the scale wanders by chance, and no growth is claimed in 12 networks."""
    for seed in range(12):
        batch = torch.randn(16, 8, generator=torch.Generator().manual_seed(seed))
        report = quick_look(_mlp(30, 8, math.sqrt(2), seed), batch, predict=False, seed=seed)
        assert not {f.id for f in report.findings} & {"activation-explosion", "gradient-explosion"}


# --- small parts ------------------------------------------------------------------------------------------------------


def test_nonlinear_share_of_known_functions() -> None:
    assert nonlinear_share("relu", 1.0) == pytest.approx(1 - 0.25 / (0.5 - 0.5 / math.pi), abs=2e-3)
    assert nonlinear_share("identity", 1.0) == pytest.approx(0.0, abs=1e-14)
    assert nonlinear_share("x**2", 1.0) == pytest.approx(1.0)
    # tanh(σz) ≈ σz − (σz)³/3: the third Hermite coefficient is σ³ √6 / 3
    assert nonlinear_share("tanh", 0.01) == pytest.approx(6 * 0.01**4 / 9, rel=0.01)


def test_robust_slope() -> None:
    assert math.isnan(robust_slope(np.zeros(5), np.arange(5.0)))
    assert math.isnan(robust_slope(np.arange(2.0), np.arange(2.0)))
    assert robust_slope(np.arange(2000.0), 3 * np.arange(2000.0)) == pytest.approx(3.0)


def test_compare_says_what_changed() -> None:
    batch = torch.randn(16, 256, generator=torch.Generator().manual_seed(0))
    sick = quick_look(_mlp(20, 256, 0.7, 0), batch, predict=False).to_dict()
    well = quick_look(_mlp(20, 256, math.sqrt(2), 0), batch, predict=False).to_dict()
    forward, backward = compare(sick, well), compare(well, sick)
    assert any("activation-vanishing" in line and "gone" in line for line in forward["better"])
    assert any("activation-vanishing" in line and "new" in line for line in backward["worse"])
    assert compare(well, well)["better"] == compare(well, well)["worse"] == []
    assert {row["metric"] for row in forward["numbers"]} >= {"rms", "mean_abs_cosine"}


# --- adversarial use --------------------------------------------------------------------------------------------------


def _state(model: nn.Module) -> list[torch.Tensor]:
    return [t.detach().clone() for t in [*model.parameters(), *model.buffers()]]


@pytest.mark.parametrize("name", [pytest.param("mlp-bn-50", marks=pytest.mark.slow), "mlp-relu-100"])
def test_nothing_changes_also_with_redraws(name: str) -> None:
    patient = PATIENTS[name]
    model = patient.model(0)
    inputs, targets = patient.example()
    before, storages = _state(model), [p.data_ptr() for p in model.parameters()]
    random_state = torch.random.get_rng_state()
    report = quick_look(model, inputs, target=targets, loss=patient.loss)
    assert not report.healthy
    assert all(torch.equal(a, b) for a, b in zip(before, _state(model), strict=True))
    assert storages == [p.data_ptr() for p in model.parameters()]
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(random_state, torch.random.get_rng_state())
    assert model.training


class _Raises(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.inner(x)
        raise ValueError("halfway")


def test_a_model_that_raises_is_restored() -> None:
    model = _Raises()
    before = _state(model)
    with pytest.raises(ValueError, match="halfway"):
        quick_look(model, torch.randn(5, 4))
    assert all(torch.equal(a, b) for a, b in zip(before, _state(model), strict=True))


def test_nan_weights_are_named() -> None:
    model = _mlp(4, 16, 1.4, 0)
    with torch.no_grad():
        model[4].weight[2, 3] = math.nan
    report = quick_look(model, torch.randn(8, 16))
    first = report.findings[0]
    assert (first.id, first.severity) == ("activation-explosion", "severe")
    assert report.examination.names[first.layers[0]] == "4"
    assert first.evidence["weights_finite"] is False
    assert "not finite" in first.explanation
    report.to_dict()


def test_overflow_is_named() -> None:
    model = _mlp(200, 16, 100.0, 0)
    report = quick_look(model, torch.randn(8, 16))
    first = next(finding for finding in report.findings if finding.id == "activation-explosion")
    assert first.evidence["weights_finite"] is True
    assert first.evidence["first_nonfinite_layer"] > 0


class _Odd(nn.Module):
    """No parameters, several outputs, one of them no tensor."""

    def forward(self, x: torch.Tensor) -> dict[str, object]:
        return {"text": "hello", "numbers": [torch.relu(x), x.sum()]}


@pytest.mark.parametrize(
    "model",
    [
        _Odd(),
        nn.Linear(16, 3),
        nn.Sequential(nn.Linear(16, 16), nn.ReLU(inplace=True), nn.Linear(16, 2)),
        nn.Identity(),
    ],
)
def test_small_and_strange_models(model: nn.Module) -> None:
    report = quick_look(model, torch.randn(8, 16, generator=torch.Generator().manual_seed(0)))
    assert report.healthy
    assert report.to_dict()["healthy"] is True


def test_frozen_shared_and_half_precision() -> None:
    shared = nn.Linear(32, 32)
    model = nn.Sequential(shared, nn.ReLU(), shared, nn.ReLU(), nn.Linear(32, 2))
    for parameter in shared.parameters():
        parameter.requires_grad_(False)
    assert quick_look(model, torch.randn(8, 32)).healthy
    half = _mlp(3, 32, 1.4, 0).half()
    assert quick_look(half, torch.randn(8, 32).half(), predict=False).healthy


@pytest.mark.slow
def test_two_thousand_layers() -> None:
    model = _mlp(2000, 16, 1.0, 0, nn.Tanh)
    report = quick_look(model, torch.randn(8, 16), redraws=3, predict=False)
    assert len(report.examination) == 4002
    assert not report.healthy
    assert len(report.summary) < 300


def test_duplicates_and_zeros() -> None:
    model = _mlp(3, 32, 1.4, 0)
    x = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
    x[1] = x[0]
    found = quick_look(model, x, predict=False).findings
    assert [(f.id, f.severity) for f in found] == [("degenerate-batch", "moderate")]
    assert found[0].evidence["distinct_samples"] == 7
    x[2:] = 0
    found = quick_look(model, x, predict=False).findings
    assert (found[0].id, found[0].evidence["distinct_samples"]) == ("degenerate-batch", 1)


def test_report_gives_a_dataset_and_a_dictionary() -> None:
    report = quick_look(_mlp(6, 64, math.sqrt(2), 0), torch.randn(8, 64, generator=torch.Generator().manual_seed(0)))
    document = report.to_dict(grams=True)
    assert {"healthy", "findings", "layers", "metrics", "prediction"} <= set(document)
    assert all(len(column) == len(document["layers"]) for column in document["metrics"].values())
    assert document["prediction"] is not None
    data = report.to_dataset()
    assert "predicted_mean_abs_cosine" in data
    assert data.sizes["layer"] == len(document["layers"])
    gram = np.array(document["grams"]["matrices"][-1])
    assert np.allclose(np.diag(gram), 1.0)
    assert report.summary.split(";")[0].split(".")[0] in report._repr_html_()
