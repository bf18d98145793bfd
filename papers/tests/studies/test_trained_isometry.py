"""Training with orthogonal weights, batch norm and shaped activations: cells, readings, and data that are missing."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray

from isometer.metrics import isometry_gap
from isometer.run import Checkpoint
from isometer_papers.architectures import mlp
from isometer_papers.studies._readings import epochs_measured
from isometer_papers.studies._records import settings_of
from isometer_papers.studies._running import make_job, reproduce
from isometer_papers.studies._settings import overridden
from isometer_papers.studies._study import Reading, Study
from isometer_papers.studies.cells.isometry_training import isometry_training_cell, weight_gaps
from isometer_papers.studies.joudaki2024 import trained_isometry, trained_weights
from isometer_papers.training import fit_together, image_sets

Array = np.ndarray[Any, Any]
BY_ID = {study.id: study for study in (*trained_isometry.STUDIES, *trained_weights.STUDIES)}
CELL = {
    "activation": "tanh",
    "exponent": 0.4,
    "depth": 3,
    "width": 8,
    "data": "digits",
    "train": 100,
    "test": 50,
    "shrink": 1,
    "every": 1,
    "learning_rate": 0.05,
    "batch": 20,
    "epochs": 3,
    "optimizer": "sgd",
    "device": "cpu",
    "run": 0,
}

# --- the cell ---------------------------------------------------------------------------------------------------------


def test_weight_gaps_are_those_of_singular_values() -> None:
    rng = np.random.default_rng(0)
    matrices = [rng.standard_normal(shape) for shape in ((6, 6), (4, 9), (6, 6), (9, 4))]
    found = weight_gaps([torch.tensor(matrix) for matrix in matrices])
    for gap, matrix in zip(found, matrices, strict=True):
        squares = np.linalg.svd(matrix, compute_uv=False) ** 2
        assert gap == pytest.approx(np.log(squares.mean()) - np.log(squares).mean(), rel=1e-11)
    assert found[0] == pytest.approx(float(isometry_gap(matrices[0])), rel=1e-11)
    assert weight_gaps([torch.diag(torch.tensor([1.0, 0.0]))]).tolist() == [math.inf]
    orthogonal = np.linalg.qr(rng.standard_normal((50, 50)))[0]
    assert weight_gaps([torch.tensor(orthogonal)])[0] < 1e-14


def test_one_step_moves_every_matrix_by_its_gradient() -> None:
    """With one batch: the gradients are those of an autograd pass of our own, and weights moved by rate times them."""
    c = {**CELL, "batch": 100, "epochs": 1}
    curves = isometry_training_cell(c, 5)
    sets = image_sets("digits", 100, 50)
    net = mlp(64, 10, depth=3, width=8, activation="tanh", norm="batch", init="orthogonal", gain_exponent=0.4, seed=5)
    h = sets.inputs.flatten(1).double()
    weights = [m.weight.detach().double().requires_grad_() for m in net if isinstance(m, torch.nn.Linear)]
    bias = dict(net.named_parameters())[f"{len(net) - 1}.bias"].detach().double()
    for layer, weight in enumerate(weights[:-1], start=1):
        z = h @ weight.T
        z = (z - z.mean(0)) / (z.var(0, unbiased=False) + 1e-5).sqrt()
        h = torch.tanh(layer**-0.4 * z)
    logits = h @ weights[-1].T + bias
    loss = (logits.logsumexp(1) - logits.gather(1, sets.labels[:, None])[:, 0]).mean()
    gradients = torch.autograd.grad(loss, weights)[:-1]
    norms = np.array([float(one.norm()) for one in gradients])
    starts = np.array([float(one.detach().norm()) for one in weights[:-1]])
    assert float(curves["train_loss"][1]) == pytest.approx(loss.item(), rel=1e-5)
    assert curves["gradient_norm"][1].values == pytest.approx(norms, rel=1e-3)
    assert curves["moved"][1].values == pytest.approx(0.05 * norms / starts, rel=1e-3)
    assert np.isnan(curves["gradient_norm"][0].values).all()
    assert (curves["moved"][0].values == 0).all()
    after = [weight_gaps([(weight - 0.05 * one).detach()])[0] for weight, one in zip(weights, gradients, strict=False)]
    assert curves["weight_gap"][1].values == pytest.approx(after, rel=1e-2)


class Stopped(Exception):
    pass


def test_a_cell_that_was_interrupted_ends_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fit_together.__kwdefaults__, "pause", 0.0)  # every epoch is kept
    kept: list[bytes] = []

    def keep(state: bytes) -> None:
        kept.append(state)
        if len(kept) == 2:
            raise Stopped

    whole = isometry_training_cell(CELL, 1)
    with pytest.raises(Stopped):
        isometry_training_cell(CELL, 1, Checkpoint(write=keep))
    again = isometry_training_cell(CELL, 1, Checkpoint(kept[-1]))
    xarray.testing.assert_identical(whole, again)
    assert dict(whole["weight_gap"].sizes) == {"epoch": 4, "layer": 3}
    assert whole["layer"].values.tolist() == [1, 2, 3]
    assert not whole["train_accuracy"].equals(isometry_training_cell(CELL, 2)["train_accuracy"])


def test_every_says_when_it_is_measured() -> None:
    curves = isometry_training_cell({**CELL, "every": 2, "activation": "identity"}, 1)
    assert np.isfinite(curves["weight_gap"].values).all(1).tolist() == [True, False, True, True]
    assert np.isfinite(curves["test_accuracy"].values).tolist() == [True, False, True, True]
    assert epochs_measured({"epochs": 3, "every": 2}) == [0, 2, 3]


def test_a_random_move_has_the_gap_that_the_reading_compares_with() -> None:
    rng = np.random.default_rng(3)
    start = np.linalg.qr(rng.standard_normal((200, 200)))[0]
    move = rng.standard_normal((200, 200))
    move *= 0.02 * np.linalg.norm(start) / np.linalg.norm(move)
    assert weight_gaps([torch.tensor(start + move)])[0] == pytest.approx(0.02**2, rel=0.02)


def test_figures_of_the_same_images_share_their_cells() -> None:
    def texts(number: str, scale: str) -> set[str]:
        study = BY_ID[f"001/fig-{number}"]
        return {cell.text for cell in make_job(study, study.scale(scale)).cells}

    assert texts("6.4", "paper") == texts("C.8", "paper")
    for scale in ("quick", "medium", "paper"):
        assert texts("C.3", scale) == texts("C.4", scale) < texts("6.4", scale)
        assert texts("6.6", scale) < texts("C.3", scale)


# --- readings ---------------------------------------------------------------------------------------------------------


def made(
    study: Study, value: Callable[..., Mapping[str, Any]], **changes: Any
) -> tuple[xarray.Dataset, dict[str, Any]]:
    """A dataset in the form of a result: `value(activation, depth, layers)` gives what each epoch has, up to noise."""
    settings = settings_of(overridden(study, "quick", changes))
    rng = np.random.default_rng(0)
    epochs, runs, longest = settings["epochs"] + 1, len(settings["run"]), max(settings["depth"])
    shape = (len(settings["activation"]), len(settings["depth"]), runs, epochs)
    flat = {name: np.full(shape, np.nan) for name in ("train_accuracy", "test_accuracy")}
    layered = {name: np.full((*shape, longest), np.nan) for name in ("weight_gap", "gradient_norm", "moved")}
    diverged = np.full(shape[:3], -1)
    for i, activation in enumerate(settings["activation"]):
        for j, depth in enumerate(settings["depth"]):
            layers = np.arange(1, depth + 1)
            for name, mean in value(activation, depth, layers).items():
                if name == "diverged_at":
                    diverged[i, j, 0] = mean
                elif name in flat:
                    flat[name][i, j] = mean + 0.002 * rng.standard_normal((runs, epochs))
                else:
                    layered[name][i, j, :, :, :depth] = mean * np.exp(0.02 * rng.standard_normal((runs, epochs, depth)))
    dims = ("activation", "depth", "run", "epoch")
    lost = diverged >= 0
    for array in (*flat.values(), *layered.values()):
        array[lost] = np.nan
    variables: dict[str, Any] = {name: (dims, array) for name, array in flat.items()}
    variables |= {name: ((*dims, "layer"), array) for name, array in layered.items()}
    variables |= {"diverged_at": (dims[:3], diverged), "classes": (dims[:3], np.full(shape[:3], 10))}
    coordinates = {name: settings[name] for name in dims[:3]} | {"epoch": range(epochs), "layer": range(1, longest + 1)}
    return xarray.Dataset(variables, coordinates), settings


def read(number: str, value: Callable[..., Mapping[str, Any]], **changes: Any) -> Reading:
    study = BY_ID[f"001/fig-{number}"]
    result, settings = made(study, value, **changes)
    return study.read(result, settings)


def as_published(activation: str, depth: int, layers: Array) -> dict[str, Any]:
    level = 0.3 if activation.startswith("identity") else 0.5
    bowl = np.abs(layers / depth - 0.5) * 2
    return {
        "train_accuracy": level,
        "test_accuracy": level - 0.05,
        "weight_gap": 1e-3 / depth * (0.1 + bowl),
        "gradient_norm": 0.05 + 0.1 * bowl,
        "moved": np.sqrt(1e-2 / depth * (0.1 + bowl)),
    }


def otherwise(activation: str, depth: int, layers: Array) -> dict[str, Any]:
    level = (0.5 if activation.startswith("identity") else 0.3) / (1 + 0.5 * math.log10(depth))
    bowl = 1 - np.abs(layers / depth - 0.5) * 2
    return {
        "train_accuracy": level,
        "test_accuracy": level,
        "weight_gap": 1e-2 * depth * (0.1 + bowl),
        "gradient_norm": 10.0 ** -(layers / depth * 6),
        "moved": np.sqrt(1e-3 * depth * (0.1 + bowl)),
    }


@pytest.mark.parametrize(("number", "panels"), [("6.6", 2), ("C.4", 4), ("C.8", 8)])
def test_pictures_have_a_panel_each(number: str, panels: int) -> None:
    study = BY_ID[f"001/fig-{number}"]
    figure = study.draw(*made(study, as_published))
    assert len(figure.axes) == panels
    assert all(axis.lines for axis in figure.axes)


@pytest.mark.parametrize("number", ["6.4", "6.6", "C.3", "C.4", "C.5", "C.6", "C.7", "C.8"])
def test_readings_both_ways(number: str) -> None:
    assert read(number, as_published).verdict == "agree"
    other = read(number, otherwise)
    unsure = {"networks of 1000 layers learn", "nor during training"}
    if number == "6.6":
        unsure = {"though the gradients of these layers are not negligible"}
    assert [name for name, seen in other.statements.items() if seen and name not in unsure] == []


def test_vanished_and_negligible_gradients_are_seen() -> None:
    def vanishing(activation: str, depth: int, layers: Array) -> dict[str, Any]:
        bowl = np.abs(layers / depth - 0.5) * 2
        early = np.where(np.arange(trained_isometry.BRIEF["epochs"] + 1) <= 3, 1.0, 0.01)[:, None]  # by epoch
        return as_published(activation, depth, layers) | {"gradient_norm": early * (1e-3 + bowl**4)}

    assert not read("6.6", vanishing).statements["though the gradients of these layers are not negligible"]
    assert read("C.4", vanishing).verdict == "disagree"


def test_chance_is_not_learning_and_one_depth_says_nothing_of_depth() -> None:
    def chance(activation: str, depth: int, layers: Array) -> dict[str, Any]:
        return as_published(activation, depth, layers) | {"train_accuracy": 0.1}

    assert not read("6.4", chance).statements["networks of 1000 layers learn"]
    alone = read("6.4", as_published, depth=[10])
    assert list(alone.statements) == [
        "networks of 10 layers learn",
        "the identity with the gain ends below sin and tanh in training accuracy, 10 layers",
        "the identity without gain ends below sin and tanh in training accuracy, 10 layers",
    ]


def test_both_readings_of_the_identity_have_their_own_verdict() -> None:
    def one_above(activation: str, depth: int, layers: Array) -> dict[str, Any]:
        above = {"train_accuracy": 0.6} if activation == "identity without gain" else {}
        return as_published(activation, depth, layers) | above

    found = read("6.4", one_above)
    assert found.verdict == "partly"
    assert found.remark == "By reading: agree (the identity with the gain), partly (the identity without gain)."


@pytest.mark.parametrize("activation", ["sin", "tanh", "identity"])
def test_no_activation_ignores_the_gain(activation: str) -> None:
    """Layer 4 of a network with gains has 4^(−1/2) of the slope at 0 that one without has; the identity's too."""
    x = torch.full((1, 2), 1e-3, dtype=torch.float64)
    nets = [mlp(2, 2, depth=4, width=2, activation=activation, gain_exponent=p) for p in (0.5, None)]
    gained = [m for m in nets[0] if not isinstance(m, torch.nn.Linear | torch.nn.Flatten)]
    assert len(gained) == 4
    assert gained[3](x).numpy() == pytest.approx(0.5e-3, rel=1e-6)
    assert sum(not isinstance(m, torch.nn.Linear | torch.nn.Flatten) for m in nets[1]) == 4 * (activation != "identity")


def test_depth_independence_is_tested() -> None:
    """What 1000 layers learn above chance: 80 % of the others', 60 %, and 70 % with runs that differ much."""

    def short(share: float) -> Callable[..., dict[str, Any]]:
        def value(activation: str, depth: int, layers: Array) -> dict[str, Any]:
            level = 0.1 + 0.4 * (share if depth == 1000 else 1.0)
            return as_published(activation, depth, layers) | {"train_accuracy": level}

        return value

    name = "with tanh accuracy is nearly the same at all depths"
    assert read("6.4", short(0.8)).statements[name] is True
    assert read("6.4", short(0.6)).statements[name] is False
    study = BY_ID["001/fig-6.4"]
    result, settings = made(study, short(0.7))
    wide = xarray.DataArray([-0.1, 0.1, -0.1, 0.1], dims="run")
    result["train_accuracy"] = result["train_accuracy"] + wide.where(result["depth"] == 1000, 0.0)
    assert study.read(result, settings).statements[name] is None


@pytest.mark.parametrize("number", ["6.4", "6.6", "C.3", "C.4", "C.8"])
def test_runs_that_diverged_count_as_chance_or_as_not_staying(number: str) -> None:
    def lost(activation: str, depth: int, layers: Array) -> dict[str, Any]:
        gone = {"diverged_at": 3} if activation == "tanh" else {}
        return as_published(activation, depth, layers) | gone

    reading = read(number, lost)
    assert "diverged" in reading.remark
    if number in ("6.4", "C.8"):
        tanh = reading.measured["training accuracy, tanh, 10 layers"]
        runs = len(BY_ID[f"001/fig-{number}"].quick.axes["run"])
        assert tanh.value == pytest.approx((0.1 + (runs - 1) * 0.5) / runs, abs=0.005)
        assert reading.verdict == "partly"
    else:
        assert reading.verdict == "disagree"
        assert reading.measured["runs that diverged"].value > 0


@pytest.mark.parametrize("study", BY_ID.values(), ids=list(BY_ID))
def test_variants_can_be_read(study: Study) -> None:
    for choice in study.choices.values():
        for change in choice.instead.values():
            result, settings = made(study, as_published, **change)
            assert study.read(result, settings).verdict == "agree"


# --- data -------------------------------------------------------------------------------------------------------------


def test_missing_images_are_told_with_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ISOMETER_DATA", "HOME", "KERAS_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "empty"))
    monkeypatch.chdir(tmp_path)
    study = BY_ID["001/fig-C.7"]
    with ThreadPoolExecutor(1) as pool:
        record = reproduce([study], tmp_path / "gallery", executor=pool)[0].record
    assert record["verdict"] == "not run"
    assert "cifar100 is not on this computer" in record["why"]
    assert "isometer data get cifar100" in record["why"]
    assert str(tmp_path) not in record["why"], "a gallery may be published"
    assert "--data cifar10" in record["choices"]["images"]["why"]
    for name in ("cifar10", "fashion-mnist", "mnist", "digits"):
        assert name in record["choices"]["images"]["why"]
        assert overridden(study, "quick", {}, data=name).constants["data"] == name


@pytest.mark.slow
def test_a_substitute_takes_the_place_of_missing_images(tmp_path: Path) -> None:
    study = dataclasses.replace(BY_ID["001/fig-C.7"], choices={})
    changes = {"depth": [2, 3], "epochs": 2, "every": 1, "width": 16, "shrink": 1}
    with ThreadPoolExecutor(1) as pool:
        one = reproduce([study], tmp_path, data="digits", changes=changes, executor=pool)[0]
    assert one.failures == ()
    assert one.record["settings"]["data"] == "digits"
    assert 0.1 < one.record["measured"]["training accuracy, tanh, 3 layers"] <= 1
