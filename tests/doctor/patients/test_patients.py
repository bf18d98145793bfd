"""The built-in patients: they build, run, and train or fail to."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch
from scipy import stats

from isometer.doctor.conditions._conditions import CONDITIONS
from isometer.doctor.patients import PATIENTS, Images, Patient, Trial, judge, patient, trial
from isometer.doctor.patients._inputs import INPUTS, LEVELS, repeated
from isometer.doctor.patients._layers import initialise_
from isometer.doctor.patients._outcomes import CHANCE
from isometer.doctor.training import TrainingCurve, train
from isometer.doctor.training._loop import LEARNING_RATES, WINDOW
from isometer.errors import IsometerError
from support import ROOT

NAMES = [
    pytest.param(name, marks=pytest.mark.skipif(not one.available, reason=f"pip install {one.requires}"))
    for name, one in PATIENTS.items()
]


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_enough_patients_and_every_finding() -> None:
    sick = [one for one in PATIENTS.values() if not one.healthy]
    assert len(sick) >= 22
    assert len(PATIENTS) - len(sick) >= 12
    assert {finding for one in sick for finding in one.findings} == set(CONDITIONS)
    assert sum(one.requires == "transformers" for one in PATIENTS.values()) >= 4


def test_names_and_siblings_agree() -> None:
    for name, one in PATIENTS.items():
        assert one.name == name
        if one.healthy:
            assert one.sibling is None
            assert one.defect is None
            continue
        sibling = PATIENTS[one.sibling]
        assert sibling.healthy
        assert (sibling.family, sibling.optimizer, sibling.input) == (one.family, one.optimizer, one.input)
        # same depth and about the same size
        assert name.rsplit("-", 1)[1] == sibling.name.rsplit("-", 1)[1]
        sizes = [sum(p.numel() for p in x.model().parameters()) for x in (one, sibling)]
        assert 0.4 < sizes[0] / sizes[1] < 2.5


@pytest.mark.parametrize("name", NAMES)
def test_builds_and_runs(name: str) -> None:
    one = patient(name)
    random.seed(5), np.random.seed(5), torch.manual_seed(5)  # noqa: NPY002
    before = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state())  # noqa: NPY002
    model, again, other = one.model(3), one.model(3), one.model(4)
    batches = [one.example(n, seed=1) for n in ((one.samples,) if one.samples < 8 else (8, 32))]
    after = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state())  # noqa: NPY002
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])
    state = model.state_dict()
    assert all(torch.equal(value, again.state_dict()[key]) for key, value in state.items())
    assert any(not torch.equal(value, other.state_dict()[key]) for key, value in state.items())
    assert model.training
    for inputs, targets in batches:
        assert inputs.shape == (len(targets), *INPUTS[one.input].shape)
        model.zero_grad()
        loss = one.loss(model(inputs), targets)
        loss.backward()
        assert loss.isfinite()
        assert all(p.grad is not None for p in model.parameters())


def test_examples_are_reproducible_and_take_images() -> None:
    rng = np.random.default_rng(0)
    data = Images.of(rng.integers(256, size=(20, 1, 28, 28)), rng.integers(10, size=20))
    assert abs(float(data.images.mean())) < 1e-5
    assert float(data.images.std(correction=0)) == pytest.approx(1.0, abs=1e-5)
    for name in ("mlp-relu-10", "vgg-bn-8", "lstm", "gpt2"):
        one = patient(name)
        for source in ("gaussian", data):
            first, second, third = (one.example(8, seed, source) for seed in (0, 0, 1))
            assert torch.equal(first[0], second[0])
            assert torch.equal(first[1], second[1])
            assert not torch.equal(first[0], third[0])
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))[:8]
    assert torch.equal(patient("mlp-relu-10").example(8, 0, data)[0], data.images[order].reshape(8, 784))
    assert torch.equal(patient("lstm").example(8, 0, data)[0][:, 1, :28], data.images[order][:, 0, 4])
    grey = INPUTS["tokens"].of_images(torch.tensor([-9.0, 0.0, 9.0]).reshape(3, 1, 1, 1).expand(3, 1, 28, 28))
    assert grey[:, 0].tolist() == [0, LEVELS // 2, LEVELS - 1]


def test_constant_images_are_not_nan() -> None:
    assert torch.equal(Images.of(np.ones((2, 1, 28, 28)), np.zeros(2)).images, torch.zeros(2, 1, 28, 28))


def test_defects_keep_labels_with_their_samples() -> None:
    inputs, targets = patient("mlp-bn-repeated-10").example(32)
    assert len(torch.unique(inputs, dim=0)) == 2
    for row in range(32):
        assert torch.equal(inputs[row], inputs[row % 2])
        assert targets[row] == targets[row % 2]
    assert repeated(3)(torch.arange(7), torch.arange(7))[1].tolist() == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize(
    ("law", "mean", "variance"),
    [
        ("gaussian", 0.0, 4 / 400),
        ("orthogonal", 0.0, 4 / 400),
        ("asymmetric", 1 / 20, 1 / 1200),
        ("default", 0.0, 1 / 1200),
    ],
)
def test_weight_laws(law: str, mean: float, variance: float) -> None:
    """Moments of 90 000 weights; tolerances are over 5 standard errors."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = torch.nn.Linear(400, 225)
        initialise_(layer, law, 2.0, bias=0.5)
    weight = layer.weight.detach().double()
    assert float(weight.mean()) == pytest.approx(mean, abs=5 * (variance / weight.numel()) ** 0.5)
    assert float(weight.var()) == pytest.approx(variance, rel=0.03)
    if law == "orthogonal":
        torch.testing.assert_close(weight @ weight.T, 4 * torch.eye(225, dtype=torch.float64), atol=1e-4, rtol=0)
    assert (law == "default") != bool((layer.bias == 0.5).all())


def test_the_committed_truth_agrees() -> None:
    """docs/patients-truth.json knows every patient as it is, and says that the sick fail and the healthy train."""
    committed = json.loads((ROOT / "docs" / "patients-truth.json").read_text())
    assert committed["patients"].keys() == PATIENTS.keys()
    for name, row in committed["patients"].items():
        one = PATIENTS[name]
        assert (tuple(row["findings"]), row["sibling"], row["samples"]) == (one.findings, one.sibling, one.samples)
        assert tuple(row["learning_rates"]) == LEARNING_RATES[one.optimizer]
        assert row["steps"] == 200
        assert row["trains"] == one.healthy, name
        if not one.healthy:
            assert row["ratio"] < 0.75
            assert row["p_value"] < 0.01
        if "control" in row:  # the batch alone does not explain it
            assert row["control"]["ratio"] < 0.75
            assert row["control"]["p_value"] < 0.01


def _clusters(count: int) -> Images:
    """Ten random pictures with noise: easy for any net that passes its input on."""
    rng = np.random.default_rng(1)
    labels = rng.integers(10, size=count)
    return Images.of(rng.normal(size=(10, 1, 28, 28))[labels] + rng.normal(size=(count, 1, 28, 28)), labels)


@pytest.mark.slow
def test_training_separates_sick_from_healthy() -> None:
    data = _clusters(32 * 60)
    own, sibling = (
        trial(patient(name), data=data, steps=60, seeds=(0, 1, 2)) for name in ("mlp-relu-small-gain-10", "mlp-relu-10")
    )
    assert judge(sibling).trains
    truth = judge(own, sibling)
    assert not truth.trains
    assert truth.ratio < 0.1
    again = trial(patient("mlp-relu-10"), data=data, steps=60, seeds=(1,))
    assert again.losses[0] == sibling.losses[1]


def test_divergence_counts_as_chance() -> None:
    own = trial(patient("mlp-relu-large-gain-10"), data=_clusters(32 * 10), steps=10, seeds=(0,))
    assert any(own.diverged[0])
    assert own.losses == ((CHANCE,) * 3,)
    assert own.reductions == (0.0,)


def test_final_loss_is_the_mean_of_the_window() -> None:
    losses = tuple(np.random.default_rng(0).random(100))
    assert TrainingCurve(losses, 100).final == pytest.approx(sum(losses[-WINDOW:]) / WINDOW)
    assert TrainingCurve((1.0, float("nan")), 5).final == float("inf")


def test_sgd_steps_are_those_of_the_textbook() -> None:
    """One weight under w²/2: momentum 0.9 gives v ← 0.9 v + w, w ← w − 0.1 v."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    batch = (torch.ones(1, 1), torch.zeros(1))
    curve = train(model, lambda step: batch, loss=lambda out, _: out.square().sum() / 2, learning_rate=0.1, steps=5)
    weight, velocity, expected = 1.0, 0.0, []
    for _ in range(5):
        expected.append(weight**2 / 2)
        velocity = 0.9 * velocity + weight
        weight -= 0.1 * velocity
    assert curve.losses == pytest.approx(expected, rel=1e-5)


def _trial(*losses: float) -> Trial:
    return Trial(
        "x", (0.1,), tuple(range(len(losses))), tuple((x,) for x in losses), ((False,),) * len(losses), 200, 1.0
    )


def test_verdicts() -> None:
    well = _trial(0.6, 0.62, 0.58)
    p = judge(_trial(1.5, 1.6, 1.4), well).p_value
    expected = stats.ttest_ind(
        [CHANCE - x for x in (1.5, 1.6, 1.4)], well.reductions, equal_var=False, alternative="less"
    )
    assert p == pytest.approx(expected.pvalue)
    assert not judge(_trial(1.5, 1.6, 1.4), well).trains
    assert judge(_trial(0.8, 0.81, 0.79), well).trains  # significant, not material
    assert judge(_trial(0.6, 2.3, 0.6), well).trains  # material, not significant
    assert not judge(_trial(CHANCE, CHANCE, CHANCE), well).trains
    assert judge(_trial(CHANCE, CHANCE), _trial(1.0, 1.0)).p_value == 0
    assert judge(_trial(1.0, 1.0), _trial(1.0, 1.0)).p_value == 1
    assert judge(_trial(1.0), _trial(0.5)).p_value == 1  # one seed shows nothing
    assert not judge(_trial(1.5)).trains
    assert judge(_trial(1.0)).trains


def test_best_learning_rate_is_one_for_all_seeds() -> None:
    two = Trial("x", (0.1, 0.01), (0, 1), ((1.0, 0.9), (0.5, 0.9)), ((False,) * 2,) * 2, 200, 1.0)
    assert two.best_learning_rate == 0.1
    assert two.best_losses == (1.0, 0.5)
    assert all(len(rates) == 3 for rates in LEARNING_RATES.values())


def test_errors_name_the_fix() -> None:
    with pytest.raises(IsometerError, match="did you mean 'mlp-relu-50'"):
        patient("mlp_relu_50")
    one = patient("mlp-relu-10")
    with pytest.raises(IsometerError, match="the number of samples is 0; expected a whole number"):
        one.example(0)
    with pytest.raises(IsometerError, match="data is 'cifar'; expected 'gaussian'"):
        one.example(data="cifar")
    with pytest.raises(IsometerError, match=r"shape \(2, 28, 28\)"):
        Images.of(np.zeros((2, 28, 28)), np.zeros(2))
    with pytest.raises(IsometerError, match="5 images; expected 64 for 2 fresh batches"):
        trial(one, data=_clusters(5), steps=2)
    with pytest.raises(IsometerError, match="unknown optimizer 'lion'"):
        train(one.model(), lambda step: one.example(), loss=one.loss, optimizer="lion", learning_rate=0.1)
    with pytest.raises(IsometerError, match=r"unknown finding of the patient .*'flu'"):
        Patient("x", "", ("flu",), "mlp", one.build, "flat")
    with pytest.raises(IsometerError, match=r"unknown input of the patient .*'sound'"):
        Patient("x", "", (), "mlp", one.build, "sound")
    with pytest.raises(IsometerError, match=r"needs the package 'no_such_package'.*pip install"):
        Patient("x", "", (), "mlp", one.build, "flat", requires="no_such_package").model()
