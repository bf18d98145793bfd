"""Training studies of 004: networks, what is measured, the printed hyper-parameters, verdicts in both directions."""

from __future__ import annotations

import dataclasses
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray
from torch import nn

from isometer.errors import IsometerError
from isometer.run import Checkpoint
from isometer_papers.studies import find, overridden, read_again, reproduce
from isometer_papers.studies._comparisons import similar
from isometer_papers.studies._readings import epochs_measured
from isometer_papers.studies._records import settings_of
from isometer_papers.studies._running import make_job
from isometer_papers.studies.agarwal2021.curves import ahead, best, edges_told
from isometer_papers.studies.agarwal2021.hyperparameters import TABLE, used_by
from isometer_papers.studies.cells.normrelu_training import METHODS, held_out, network, rates_of, training_cell
from isometer_papers.training import Recipe, fit, fit_together, image_sets

TRAINED = [f"004/fig-{number}" for number in (1, 3, 4, 5, 7, 8)]
TINY: dict[str, Any] = {
    "architecture": "MLP",
    "depth": 3,
    "method": "NormReLU",
    "candidate": 0,
    "data": "digits",
    "device": "cpu",
    "mlp_width": 8,
    "mlp_shrink": 1,
    "mlp_train": 200,
    "mlp_rates": [0.01],
    "resnet_width": 2,
    "resnet_shrink": 1,
    "resnet_train": 60,
    "resnet_rates": [0.01],
    "test": 60,
    "validation": 20,
    "epochs": 4,
    "every": 2,
    "batch": 20,
    "optimizer": "momentum",
    "kernels": "fan out",
}

# --- cells ------------------------------------------------------------


@pytest.mark.parametrize("method", list(METHODS))
def test_residual_networks_of_every_method_are_trained(method: str) -> None:
    cell = {**TINY, "architecture": "ResNet", "depth": 8, "method": method, "epochs": 1, "augment": True}
    curves = training_cell({**cell, "bias_factor": 0.1}, 3)
    assert int(curves["diverged_at"]) == -1
    assert curves["train_loss"].sizes == {"epoch": 2}
    assert 0 <= float(curves["test_accuracy"][-1]) <= 1
    assert -1 <= float(curves["mean_cosine"][-1]) <= 1


def test_epochs_between_measurements_are_missing() -> None:
    curves = training_cell(TINY, 0)
    assert curves["test_accuracy"].notnull().values.tolist() == [True, False, True, False, True]
    assert curves["train_accuracy"].notnull().values.tolist() == [False, True, True, True, True]
    assert float(curves["train_loss"][-1]) < float(curves["train_loss"][1])


def test_a_resumed_cell_is_the_unbroken_one(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = training_cell(TINY, 5)
    saved: list[bytes] = []
    with monkeypatch.context() as patch:
        patch.setitem(fit_together.__kwdefaults__, "pause", 0.0)  # saves every epoch
        training_cell(TINY, 5, Checkpoint(write=saved.append))
    assert len(saved) == 4
    xarray.testing.assert_identical(training_cell(TINY, 5, Checkpoint(saved[1])), whole)


@pytest.mark.parametrize("architecture", ["MLP", "ResNet"])
def test_what_is_held_out_against_plain_numpy(architecture: str) -> None:
    sets = image_sets("digits", 50, 30)
    net = network(architecture, "batch norm", sets, depth=8, width=4, seed=1)
    found = held_out(sets, 10)(net)
    assert net.training
    net.eval()
    seen: list[torch.Tensor] = []
    net[-1].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        right = net(sets.test_inputs).argmax(1).numpy() == sets.test_labels.numpy()
    h = seen[0].double().numpy()[10:]
    gram = h @ h.T
    lengths = np.sqrt(np.diag(gram))
    others = ~np.eye(20, dtype=bool)
    cosine = (gram / lengths[:, None] / lengths)[others].mean()
    product = gram[others].mean() / np.diag(gram).mean()
    np.testing.assert_allclose(found, [right[:10].mean(), right[10:].mean(), cosine, product], rtol=1e-9)
    np.testing.assert_allclose(held_out(sets, 0)(net)[:2], right.mean())


def test_kernels_have_the_printed_variance() -> None:
    """Variance 1/(k² · channels out); 4 · 10⁵ weights or so per layer would be 1 %, here 4 deviations are allowed."""
    sets = image_sets("digits", 20, 10)
    for kernels in ("fan out", "fan in"):
        net = network("ResNet", "NormReLU", sets, depth=8, width=16, kernels=kernels, seed=0)
        for layer in net.modules():
            if isinstance(layer, nn.Conv2d):
                channels = layer.out_channels if kernels == "fan out" else layer.in_channels
                scaled = layer.weight.detach().double().square().mean() * layer.kernel_size[0] ** 2 * channels
                assert abs(float(scaled) - 1) < 4 * math.sqrt(2 / layer.weight.numel())


def test_biases_of_fixup_learn_at_a_tenth() -> None:
    """One step of gradient descent: every bias and factor moves a tenth as far, every kernel as far."""
    sets = image_sets("digits", 40, 10)
    moved: list[dict[str, torch.Tensor]] = []
    for factor in (1.0, 0.1):
        net = network("ResNet", "Fixup", sets, depth=8, width=2, seed=0)
        with torch.no_grad():
            readout = net[-1]
            assert isinstance(readout, nn.Linear)
            readout.weight.fill_(0.1)
            readout.weight[0] = -0.3
        before = {name: p.detach().clone() for name, p in net.named_parameters()}
        fit(net, sets, Recipe(0.1, epochs=1, batch=40, bias_factor=factor), seed=0, test=False)
        moved.append({name: p.detach() - before[name] for name, p in net.named_parameters()})
    small = [name for name in moved[0] if moved[0][name].dim() < 2]
    assert len(small) == 7  # biases and factor of three blocks, bias of the readout
    for name in moved[0]:
        expected = moved[0][name] * (0.1 if name in small else 1.0)
        torch.testing.assert_close(moved[1][name], expected, rtol=1e-3, atol=1e-8)
    assert all(float(moved[0][name].abs().max()) > 0 for name in small if "biases" in name)


def test_unknown_networks_are_refused() -> None:
    sets = image_sets("digits", 20, 10)
    with pytest.raises(IsometerError, match="expected MLP or ResNet"):
        network("VGG", "NormReLU", sets, depth=8, width=4)
    with pytest.raises(IsometerError, match="expected a ResNet"):
        network("MLP", "Fixup", sets, depth=8, width=4)
    assert rates_of([0.1, 0.2], "SeLU", 3) == [0.1, 0.2]


# --- verdicts ------------------------------------------------------------


def synthetic(identifier: str, final: dict[str, float], **changes: Any) -> tuple[xarray.Dataset, dict[str, Any]]:
    """Curves that rise from chance to `final[method]` at the second candidate, then at the first, lower at others."""
    settings = settings_of(overridden(find(identifier), "quick", changes))
    names = ("architecture", "depth", "method", "candidate", "run")
    coordinates = {name: settings[name] for name in names}
    epochs = np.arange(settings["epochs"] + 1)
    rng = np.random.default_rng(0)
    accuracy = np.empty([*map(len, coordinates.values()), len(epochs)])
    for place in np.ndindex(accuracy.shape[:-1]):
        method, candidate = settings["method"][place[2]], settings["candidate"][place[3]]
        top = final[method] - 0.05 * (candidate != 1) - 0.01 * (candidate > 1)
        accuracy[place] = 0.1 + (top - 0.1) * epochs / epochs[-1] + 0.002 * rng.standard_normal(len(epochs))
    dims = (*names, "epoch")
    measured = np.where(epochs % settings["every"] == 0, accuracy, np.nan)
    trained = np.where(epochs > 0, accuracy, np.nan)
    data = {
        "train_accuracy": (dims, trained),
        "test_accuracy": (dims, measured),
        "validation_accuracy": (dims, measured),
        "mean_cosine": (dims, 1 - measured),
        "dot_product": (dims, 1 - measured),
        "diverged_at": (names, np.full(accuracy.shape[:-1], -1)),
    }
    return xarray.Dataset(data, {**coordinates, "epoch": epochs}), settings


def verdict(identifier: str, final: dict[str, float]) -> str:
    result, settings = synthetic(identifier, final)
    return find(identifier).read(result, settings).verdict


@pytest.mark.parametrize(
    ("identifier", "as_published", "otherwise"),
    [
        (
            "004/fig-3",
            {"NormReLU": 0.5, "batch norm": 0.3, "layer norm": 0.3},
            {"NormReLU": 0.3, "batch norm": 0.5, "layer norm": 0.4},
        ),
        ("004/fig-4", {"NormReLU": 0.52, "batch norm": 0.5}, {"NormReLU": 0.3, "batch norm": 0.5}),
        ("004/fig-5", {"NormReLU": 0.51, "Fixup": 0.5}, {"NormReLU": 0.6, "Fixup": 0.4}),
        ("004/fig-7", {"NormReLU": 0.5, "SeLU": 0.51}, {"NormReLU": 0.5, "SeLU": 0.2}),
        ("004/fig-8", {"NormReLU": 0.52, "SeLU": 0.5}, {"NormReLU": 0.2, "SeLU": 0.5}),
    ],
)
def test_verdicts_in_both_directions(
    identifier: str, as_published: dict[str, float], otherwise: dict[str, float]
) -> None:
    assert verdict(identifier, as_published) == "agree"
    assert verdict(identifier, otherwise) == "disagree"


def test_conditioning_is_read_from_both_curves() -> None:
    study = find("004/fig-1")
    result, settings = synthetic("004/fig-1", {"NormReLU": 0.5, "batch norm": 0.4, "layer norm": 0.4})
    assert study.read(result, settings).verdict == "agree"
    assert study.read(result.assign(mean_cosine=1 - result["mean_cosine"]), settings).verdict == "disagree"
    some = result["mean_cosine"].where(result["architecture"] == "MLP", 0.5)
    undecided = study.read(result.assign(mean_cosine=some), settings).statements
    assert [*undecided.values()] == [True] * 3 + [None] * 3
    assert study.read(result.assign(mean_cosine=some), settings).verdict == "partly"
    other = {**settings, "products": "dot_product"}
    assert study.read(result.assign(mean_cosine=some), other).verdict == "agree"


def test_a_difference_that_chance_explains_is_undecided() -> None:
    """Two one-sided tests at 1 % decide 2 % of equal pairs; more than 5 of 50 has probability 1e-4."""
    rng = np.random.default_rng(0)
    found = [ahead(*(0.5 + 0.01 * rng.standard_normal((2, 4)))) for _ in range(50)]
    assert sum(one.seen is not None for one in found) <= 5
    result, settings = synthetic("004/fig-8", {"NormReLU": 0.5, "SeLU": 0.5})
    assert find("004/fig-8").read(result, settings).statements["depth 20: similar test accuracy"] is True
    assert similar(np.array([0.3, 0.5]), np.array([0.4, 0.6]), 0.03).seen is None


def test_the_rate_is_chosen_on_the_validation_images() -> None:
    result, settings = synthetic("004/fig-5", {"NormReLU": 0.5, "Fixup": 0.5})
    assert best(result, settings, "ResNet", 20, "Fixup").rate == settings["resnet_rates"][1]
    lower = result["validation_accuracy"].where(result["candidate"] == 0, 0.1)  # whatever the test says
    found = best(result.assign(validation_accuracy=lower), settings, "ResNet", 20, "Fixup")
    assert found.rate == settings["resnet_rates"][0]
    assert found.test().mean() == pytest.approx(0.45, abs=0.01)


def test_the_activations_get_one_rate() -> None:
    """NormReLU's best candidate is the second, SeLU's the first by less: both are read at the second."""
    result, settings = synthetic("004/fig-7", {"NormReLU": 0.5, "SeLU": 0.5})
    shift = -0.07 * ((result["method"] == "SeLU") & (result["candidate"] == 1))
    result = result.assign(validation_accuracy=result["validation_accuracy"] + shift)
    rates = settings["mlp_rates"]
    assert best(result, settings, "MLP", 64, "SeLU").rate == rates[1]
    assert best(result, {**settings, "chosen": "each"}, "MLP", 64, "SeLU").rate == rates[0]
    assert best(result, {**settings, "chosen": "each"}, "MLP", 64, "NormReLU").rate == rates[1]


def test_a_best_rate_at_the_edge_is_told() -> None:
    result, settings = synthetic("004/fig-7", {"NormReLU": 0.5, "SeLU": 0.5})
    settings = {**settings, "chosen": "each", "depth": [64]}

    def told(candidate: int) -> str:
        own = (result["method"] == "SeLU") & (result["candidate"] == candidate)
        return edges_told(
            result.assign(validation_accuracy=0.4 + 0.3 * own + 0 * result["validation_accuracy"]), settings
        )

    middle = (result["candidate"] == 1) + 0 * result["validation_accuracy"]
    assert edges_told(result.assign(validation_accuracy=middle), settings) == ""
    rates = settings["mlp_rates"]
    assert f"MLP-64 with SeLU ({rates[0]:g})" in told(0)
    assert f"MLP-64 with SeLU ({rates[-1]:g})" in told(len(rates) - 1)
    assert "SeLU" not in told(1)
    assert edges_told(result, {**settings, "candidate": [0]}) == ""


def test_runs_that_diverged_count_as_guessing() -> None:
    result, settings = synthetic("004/fig-5", {"NormReLU": 0.5, "Fixup": 0.5})
    lost = result["method"] == "Fixup"
    late = result["epoch"] >= 3
    names = [name for name in result.data_vars if name != "diverged_at"]
    broken = result.assign({name: result[name].where(~(lost & late)) for name in names})
    broken = broken.assign(diverged_at=broken["diverged_at"].where(~lost, 17))
    reading = find("004/fig-5").read(broken, settings)
    assert reading.verdict == "disagree"
    assert reading.measured["test accuracy, Fixup"].value == pytest.approx(0.1)
    curves = best(broken, settings, "ResNet", 20, "Fixup")
    assert curves.diverged == 4
    assert curves.held("mean_cosine")[:, -1].tolist() == [1.0] * 4
    one = (result["method"] == "Fixup") & (result["run"] == 0)
    broken = result.assign({name: result[name].where(~(one & late)) for name in names})
    broken = broken.assign(diverged_at=broken["diverged_at"].where(~one, 17))
    curves = best(broken, settings, "ResNet", 20, "Fixup")
    assert curves.tested.tolist() == epochs_measured(settings)
    assert curves.test()[0] == pytest.approx(0.1)
    assert curves.test()[1:].min() > 0.4


@pytest.mark.parametrize("identifier", TRAINED)
def test_pictures_are_drawn(identifier: str) -> None:
    methods = find(identifier).quick.axes["method"]
    result, settings = synthetic(identifier, {str(name): 0.4 for name in methods})
    figure = find(identifier).draw(result, settings)
    assert all(axis.lines for axis in figure.axes)


# --- hyper-parameters ------------------------------------------------------------

APPENDIX = {  # typed from the appendix's text, not from the package
    "fig-1": {("MLP", 32): (0.005, 0.003, 0.0009), ("ResNet", 32): (0.1, 0.05, 0.001)},
    "fig-3": {("MLP", 32): (0.01, 0.001, 0.0009), ("MLP", 64): (0.007, 0.001, 0.0009)},
    "fig-4": {("ResNet", 32): (0.1, 0.009), ("ResNet", 110): (0.05, 0.005)},
    "fig-5": {("ResNet", 110): (0.1, 0.005)},
    "fig-7": {("MLP", 32): (0.001, 0.001), ("MLP", 64): (0.0005, 0.0005)},
    "fig-8": {("ResNet", 32): (0.01, 0.01), ("ResNet", 110): (0.009, 0.009)},
}


@pytest.mark.parametrize("figure", list(APPENDIX))
def test_cells_of_the_scale_paper_have_the_printed_rates(figure: str) -> None:
    study = find(f"004/{figure}")
    found: dict[tuple[str, int], list[float]] = {}
    for cell in make_job(study, study.paper).cells:
        c = cell.configuration
        assert (c["epochs"], c["factor"]) == (300, 0.1)
        assert c["milestones"] == [100, 200]
        if c["run"] == 0:
            rates = c[f"{c['architecture'].lower()}_rates"]
            place = found.setdefault((c["architecture"], c["depth"]), [])
            place.append(rates_of(rates, c["method"], c["depth"])[c["candidate"]])
    assert {place: tuple(rates) for place, rates in found.items()} == APPENDIX[figure]
    assert list(study.paper.axes["run"]) == list(range(10))
    assert study.paper.constants["mlp_width"] == 3000
    assert study.paper.reduced == ""


def test_the_table_sees_a_study_that_differs() -> None:
    study = find("004/tab-I3")
    settings = settings_of(study.quick)
    empty = xarray.Dataset()
    assert study.read(empty, settings).verdict == "agree"
    row = TABLE[3]
    scale = find(f"004/{row.figure}").paper
    for change in ({"epochs": 200}, {"resnet_rates": {"batch norm, 32": [0.2]}}, {"milestones": [150]}):
        used = {**settings["used"], row.label: used_by(scale.axes, {**scale.constants, **change}, row)}
        assert study.read(empty, {**settings, "used": used}).verdict == "partly"
    assert used_by({**scale.axes, "method": ["layer norm"]}, scale.constants, row)["learning_rate"] is None


# --- declarations ------------------------------------------------------------


def test_figures_share_the_cells_of_the_same_networks() -> None:
    """Whoever comes second finds its networks in the store."""

    def cells(identifier: str) -> dict[tuple[Any, ...], Any]:
        study = find(identifier)
        names = ("architecture", "depth", "method", "candidate")
        made = [cell.configuration for cell in make_job(study, study.quick).cells]
        return {(*(c[name] for name in names), *c["run"]): c for c in made}

    first, second = cells("004/fig-4"), cells("004/fig-8")
    common = first.keys() & second.keys()
    assert common
    assert all(first[place] == second[place] for place in common)


def test_variations_name_settings_that_exist() -> None:
    for identifier in TRAINED:
        study = find(identifier)
        assert study.medium is not None
        changes = [change for choice in study.choices.values() for change in choice.instead.values()]
        assert len(changes) <= 2
        for change in changes:
            result, settings = synthetic(identifier, dict.fromkeys(map(str, study.quick.axes["method"]), 0.4), **change)
            assert study.read(result, settings).statements


def test_runs_that_diverge_and_what_the_monitor_saw_are_on_the_page(tmp_path: Path) -> None:
    """One rate trains, the other throws both runs of every network out with the first step."""
    changes = {
        "depth": [3],
        "candidate": [0, 1],
        "run": [0, 1],
        "mlp_rates": [0.01, 1e30],
        "mlp_width": 8,
        "mlp_train": 100,
        "mlp_shrink": 1,
        "batch": 20,
        "data": "digits",
        "epochs": 2,
        "every": 2,
        "watch": True,
        "test": 60,
        "validation": 20,
    }
    study = dataclasses.replace(find("004/fig-7"), choices={})
    with ThreadPoolExecutor(1) as pool:
        (made,) = reproduce([study], tmp_path, changes=changes, executor=pool)
    lost = made.record["diverged"]
    assert [row["network"] for row in lost] == [f"MLP, depth 3, {name}, rate 1e+30" for name in ("NormReLU", "SeLU")]
    assert all((row["diverged"], row["runs"]) == (2, 2) and row["steps"] == [1, 1] for row in lost)
    assert all("not finite" in row["because"] for row in lost)
    rows = {row["network"]: row["seen"] for row in made.record["monitor"]}
    before, after = rows["MLP, depth 3, NormReLU, rate 0.01"]["effective_rank/last"]
    assert 1 <= before <= 8
    assert 1 <= after <= 8
    assert before != after
    page = (made.folder / "index.html").read_text()
    assert "Runs that diverged" in page
    assert "What the monitor saw" in page
    again = read_again(tmp_path, [study])[0]
    assert again.record == made.record


@pytest.mark.slow
def test_a_study_from_end_to_end(tmp_path: Path) -> None:
    changes = {
        "depth": [8],
        "candidate": [0],
        "run": [0, 1],
        "resnet_train": 100,
        "resnet_width": 2,
        "epochs": 2,
        "data": "digits",
        "resnet_shrink": 1,
        "test": 60,
        "validation": 20,
    }
    made = reproduce([find("004/fig-5")], tmp_path, changes=changes, workers=1)[0]
    assert made.failures == ()
    assert made.record["cells"] == 4
