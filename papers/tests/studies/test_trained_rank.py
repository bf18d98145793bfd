"""Rank and training (002 figures 5–8 and 11, 000 figure 2): cells against numpy, verdicts in both directions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
import xarray
from scipy import stats
from torch import nn

from isometer.data import load
from isometer.errors import IsometerError
from isometer.run import Checkpoint
from isometer_papers.architectures import mlp
from isometer_papers.studies import find
from isometer_papers.studies._records import settings_of
from isometer_papers.studies._running import make_job, reproduce
from isometer_papers.studies.cells.rank_training import last_layers, mlp_cell, ranks
from isometer_papers.studies.cells.vision_training import (
    NETWORKS,
    alignments,
    last_on,
    network,
    vision_cell,
    with_noise,
)
from isometer_papers.training import Sets, fit_together, image_sets

Array = np.ndarray[Any, Any]
TINY: dict[str, Any] = {
    "network": "ReLU, pre-trained 25",
    "depth": 4,
    "width": 8,
    "start": "he",
    "ascent": 0.1,
    "plain_ascent": False,
    "data": "digits",
    "train": 60,
    "shrink": 1,
    "device": "cpu",
    "learning_rate": 0.05,
    "epochs": 3,
    "batch": 20,
    "optimizer": "sgd",
}
IMAGES: dict[str, Any] = {
    "network": "VGG19",
    "channels": 1,
    "bottleneck": 1,
    **{name: TINY[name] for name in ("data", "train", "shrink", "device", "learning_rate", "batch", "optimizer")},
    "epochs": 2,
    "every": 1,
}
IDS = ("002/fig-5", "002/fig-6", "002/fig-7", "002/fig-8", "002/fig-11", "000/fig-2")


# --- cells ---------------------------------------------------------------


class Interrupted(Exception):
    pass


@pytest.mark.parametrize(("cell", "configuration"), [(mlp_cell, TINY), (vision_cell, IMAGES)])
def test_resumed_is_unbroken(
    cell: Callable[..., xarray.Dataset], configuration: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop saves after every epoch; the first save ends the first attempt."""
    whole = cell(configuration, 3)
    monkeypatch.setitem(fit_together.__kwdefaults__, "pause", 0.0)
    saved: list[bytes] = []

    def write(state: bytes) -> None:
        saved.append(state)
        raise Interrupted

    with pytest.raises(Interrupted):
        cell(configuration, 3, Checkpoint(write=write))
    xarray.testing.assert_identical(cell(configuration, 3, Checkpoint(saved[0])), whole)
    assert whole["train_accuracy"].shape == (configuration["epochs"] + 1,)
    assert not cell(configuration, 4)["train_loss"].equals(whole["train_loss"])


def test_unknown_networks_are_errors() -> None:
    with pytest.raises(IsometerError, match="expected one of ReLU"):
        mlp_cell({**TINY, "network": "tanh"}, 0)
    with pytest.raises(IsometerError, match="expected one of VGG19"):
        vision_cell({**IMAGES, "network": "AlexNet"}, 0)


def test_a_run_that_diverges_says_so() -> None:
    curves = mlp_cell({**TINY, "network": "ReLU, He", "learning_rate": 1e6}, 0)
    assert curves["diverged_at"].item() >= 0
    assert math.isnan(curves["stable_rank"].values[-1])


def forward_by_hand(net: nn.Sequential, images: Array) -> tuple[Array, Array, Array]:
    """Pre-activations, features and outputs of an MLP with batch norm, in numpy."""
    x = images.reshape(len(images), -1).astype(float)
    h = x
    for module in net:
        weights = {name: p.detach().double().numpy() for name, p in module.named_parameters()}
        if isinstance(module, nn.Linear):
            x = x @ weights["weight"].T + weights["bias"]
        elif isinstance(module, nn.BatchNorm1d):
            x = (x - x.mean(0)) / np.sqrt(x.var(0) + module.eps) * weights["weight"] + weights["bias"]
        elif isinstance(module, nn.ReLU):
            h, x = x, np.maximum(x, 0)
    return h, np.maximum(h, 0), x


def test_ranks_and_last_layers_by_hand() -> None:
    net = mlp(64, 10, depth=3, width=12, norm="batch", init="default", bias=True, seed=1)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    images = image_sets("digits", 30, 1).inputs
    found = last_layers(net, images)
    for ours, theirs in zip(found, forward_by_hand(net, images.numpy()), strict=True):
        assert np.allclose(ours.numpy(), theirs, rtol=1e-10, atol=1e-10)
    singular = np.linalg.svd(found.pre_activations.numpy(), compute_uv=False)
    expected = [(singular**2).sum() ** 2 / (singular**4).sum(), (singular > 1e-9 * singular[0]).sum()]
    assert np.allclose(ranks(found.pre_activations), expected, rtol=1e-9)
    after = net.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert net.training


def test_alignment_is_that_of_gradients_sample_by_sample() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.rand(6, 5, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 3, (6,), generator=generator)
    weight = torch.randn(3, 5, generator=generator, dtype=torch.float64).requires_grad_()
    gradients = []
    for x, y in zip(features, labels, strict=True):
        loss = nn.functional.cross_entropy((weight @ x)[None], y[None])
        gradients.append(torch.autograd.grad(loss, weight)[0].numpy())
    stack = np.stack(gradients)

    def mean_cosine(rows: Array) -> float:
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return float(np.abs(unit @ unit.T)[np.triu_indices(len(rows), 1)].mean())

    outputs = (features @ weight.T).detach()
    by_neuron, of_all = alignments(features, outputs, labels)
    for neuron in range(3):
        assert by_neuron == pytest.approx(mean_cosine(stack[:, neuron]), rel=1e-9)
    assert of_all == pytest.approx(mean_cosine(stack.reshape(6, -1)), rel=1e-9)


def test_measures_of_a_broken_network_are_missing() -> None:
    net = mlp(64, 10, depth=2, width=4)
    with torch.no_grad():
        next(net.parameters()).fill_(math.inf)
    sets = image_sets("digits", 10, 1)
    assert np.isnan(last_on(sets.inputs, sets.labels)(net)).all()


def test_noise_is_uniform_and_labels_stay() -> None:
    """Kolmogorov–Smirnov on 6400 grey levels, at 0.001: a standard deviation 5 % off is seen."""
    page, sets = load("digits"), image_sets("digits", 400, 1, shrink=2)
    noise = with_noise(sets, "digits", 0)
    assert torch.equal(noise.labels, sets.labels)
    assert noise.shape == (1, 4, 4)
    levels = noise.inputs.double().numpy() * page.channel_deviations + page.channel_means
    assert np.allclose(levels, levels.round(), atol=1e-3)
    jittered = levels.round().ravel() + np.random.default_rng(0).random(levels.size)
    assert stats.kstest(jittered, stats.uniform(0, page.levels + 1).cdf).pvalue > 1e-3
    assert not torch.equal(with_noise(sets, "digits", 1).inputs, noise.inputs)


def test_narrow_networks_keep_their_depth() -> None:
    images = torch.zeros(2, 3, 16, 16)
    sets = Sets(images, torch.zeros(2).long(), images, torch.zeros(2).long())
    wide = [m.out_channels for m in network(NETWORKS["VGG19"], 4, sets, 0).modules() if isinstance(m, nn.Conv2d)]
    assert wide == [4] * 2 + [8] * 2 + [16] * 4 + [32] * 8
    deep = [m for m in network(NETWORKS["ResNet50"], 2, sets, 0).modules() if isinstance(m, nn.Conv2d)]
    assert len(deep) == 49 + 4  # with those of the four shortcuts
    weights = [p for p in network(NETWORKS["ResNet50, positive"], 2, sets, 0).parameters() if p.dim() == 4]
    assert all(bool((weight >= 0).all()) for weight in weights)


def test_pretraining_raises_the_rank_of_hidden_layers_alone() -> None:
    """He's initialisation at depth 12 has r below 2; the readout is the one that was drawn."""
    before = mlp_cell({**TINY, "network": "ReLU, He", "depth": 12, "width": 16, "epochs": 1}, 0)["stable_rank"][0]
    after = mlp_cell({**TINY, "depth": 12, "width": 16, "epochs": 1}, 0)["stable_rank"][0]
    assert float(before) < 2 < 3 < float(after)


def test_figures_share_their_cells() -> None:
    texts = {name: {cell.text for cell in make_job(find(name), find(name).quick).cells} for name in IDS}
    assert texts["002/fig-5"] < texts["000/fig-2"]
    assert len(texts["002/fig-7"] & texts["002/fig-8"] & texts["002/fig-11"]) == 1  # its runs are one cell


def test_plain_ascent_adds_the_gradient_and_raises_the_rank() -> None:
    """One step on the whole batch against ∇r by finite differences; then many on a deep network."""
    from isometer.init import rank_pretraining_
    from isometer.metrics import stable_rank

    made = torch.Generator().manual_seed(0)
    x = torch.randn(6, 4, generator=made, dtype=torch.float64)
    layer = nn.Sequential(nn.Linear(4, 3, bias=False)).double()
    w = layer[0].weight.detach().clone()
    rank_pretraining_(layer, x, steps=1, batch_size=6, learning_rate=1e-3, plain=True)
    gradient = torch.zeros_like(w)
    for place in np.ndindex(3, 4):
        moved = torch.zeros_like(w)
        moved[place] = 1e-6
        both = [float(stable_rank(x @ (w + sign * moved).T)) for sign in (1, -1)]
        gradient[place] = (both[0] - both[1]) / 2e-6
    torch.testing.assert_close(layer[0].weight.detach() - w, 1e-3 * gradient, rtol=1e-5, atol=1e-9)
    shape = {**TINY, "depth": 12, "width": 16, "epochs": 1}
    plain = mlp_cell({**shape, "plain_ascent": True}, 0)["stable_rank"][0]
    assert float(mlp_cell({**shape, "network": "ReLU, He"}, 0)["stable_rank"][0]) < 2 < float(plain)


# --- readings ------------------------------------------------------------


def drawn(settings: Mapping[str, Any], values: Callable[..., Mapping[str, float]]) -> xarray.Dataset:
    """Results of a study: `values` gives the last number of each curve for a point of the grid; runs scatter."""
    names = [name for name in ("network", "depth", "learning_rate", "run") if isinstance(settings.get(name), list)]
    sizes = [len(settings[name]) for name in names]
    variables = ("train_accuracy", "stable_rank", "numerical_rank", "neuron_alignment", "gradient_alignment")
    epochs = settings["epochs"] + 1
    data = {name: np.ones((*sizes, epochs)) for name in variables}
    rng = np.random.default_rng(0)
    for place in np.ndindex(*sizes):
        point = {name: settings[name][i] for name, i in zip(names, place, strict=True)}
        for name, value in values(**point).items():
            data[name][place] = value * (1 + 0.002 * rng.standard_normal())
    data["train_accuracy"][..., 0] = np.nan
    coordinates = {**{name: settings[name] for name in names}, "epoch": np.arange(epochs)}
    return xarray.Dataset({name: ((*names, "epoch"), value) for name, value in data.items()}, coordinates)


def published_depths(network: str, depth: int, learning_rate: float, run: int) -> dict[str, float]:
    learned = {"BN": 0.85, "ReLU, He": 0.8, "ReLU": 0.85 if depth <= 10 else 0.1}[network]
    accuracy = learned if learning_rate <= 0.03 else 0.1
    return {"train_accuracy": accuracy, "stable_rank": 15.0 if network == "BN" else 1.1, "numerical_rank": 90.0}


def other_depths(network: str, depth: int, learning_rate: float, run: int) -> dict[str, float]:
    """Vanilla learns at every depth only, batch norm in shallow networks only; ranks the other way round."""
    accuracy = {"BN": 0.8 if depth <= 10 else 0.3, "ReLU, He": 0.1, "ReLU": 0.4}[network]
    rank = {"BN": 15.0 if depth <= 10 else 1.0, "ReLU, He": 30.0, "ReLU": 5.0}[network]
    return {"train_accuracy": accuracy, "stable_rank": rank}


def published_epochs(network: str, run: int, learning_rate: float = 0.03) -> dict[str, float]:
    table = {
        "ReLU": (0.1, 1.0),
        "ReLU, pre-trained 25": (0.4, 5.0),
        "ReLU, pre-trained 75": (0.5, 8.0),
        "BN": (0.8, 15.0),
        "BN, asymmetric": (0.3, 2.0),
    }
    return dict(zip(("train_accuracy", "stable_rank"), table[network], strict=True))


def other_epochs(network: str, run: int, learning_rate: float = 0.03) -> dict[str, float]:
    rows = {"ReLU": (0.5, 1.0), "BN": (0.2, 1.0), "BN, asymmetric": (0.4, 2.0)}
    return dict(zip(("train_accuracy", "stable_rank"), rows.get(network, (0.1, 30.0)), strict=True))


def published_vision(network: str, run: int, learning_rate: float = 0.05) -> dict[str, float]:
    broken = "positive" in network or "without BN" in network
    aligned = 1.0 if "without BN" in network else 0.3
    return {"train_accuracy": 0.1 if broken else 0.4, "neuron_alignment": aligned, "stable_rank": 10.0}


def other_vision(network: str, run: int, learning_rate: float = 0.05) -> dict[str, float]:
    accuracy = {"VGG19": 0.15, "ResNet50": 0.1, "VGG19 without BN": 0.3}.get(network, 0.5)
    if "without mean" in network:
        accuracy = 0.05
    return {
        "train_accuracy": accuracy,
        "neuron_alignment": 0.3 if "without BN" in network else 0.6,
        "stable_rank": 10.0 if network == "VGG19" else 2.0,
    }


@pytest.mark.parametrize(
    ("name", "published", "other"),
    [
        ("002/fig-5", published_depths, other_depths),
        ("000/fig-2", published_depths, other_depths),
        ("002/fig-6", published_epochs, other_epochs),
        ("002/fig-7", published_vision, other_vision),
        ("002/fig-8", published_vision, other_vision),
        ("002/fig-11", published_vision, other_vision),
    ],
)
def test_readings_in_both_directions(name: str, published: Callable[..., Any], other: Callable[..., Any]) -> None:
    study = find(name)
    settings = settings_of(study.quick)
    seen = study.read(drawn(settings, published), settings)
    assert seen.verdict == "agree", seen.statements
    unseen = study.read(drawn(settings, other), settings)
    early = {"vanilla networks of few layers learn"}  # of a shallow network, which the other world leaves out
    assert not any(holds for text, holds in unseen.statements.items() if text not in early), unseen.statements
    study.draw(drawn(settings, published), settings)


@pytest.mark.parametrize("name", IDS)
def test_variants_and_other_scales_can_be_read(name: str) -> None:
    from isometer_papers.studies._settings import overridden

    study = find(name)
    values: dict[str, Callable[..., dict[str, float]]] = {
        "002/fig-5": published_depths,
        "000/fig-2": published_depths,
        "002/fig-6": published_epochs,
    }
    changes = [change for choice in study.choices.values() for change in choice.instead.values()]
    scales = [*(overridden(study, "quick", change) for change in changes), study.scale("medium"), study.scale("paper")]
    assert len(changes) <= 3
    for scale in scales:
        settings = settings_of(scale)
        result = drawn(settings, values.get(name, published_vision))
        assert study.read(result, settings).verdict == "agree"
    assert study.paper.reduced == ""


def test_diverged_runs_count_as_chance() -> None:
    """Missing after the second epoch: no NaN is read, and such a network has not learned."""
    study = find("002/fig-8")
    settings = settings_of(study.quick)
    result = drawn(settings, published_vision)
    where = {"network": "VGG19 without BN, 100 × rate", "epoch": slice(2, None)}
    for variable in result:
        result[variable].loc[where] = np.nan
    reading = study.read(result, settings)
    assert reading.verdict == "agree"
    assert reading.measured["accuracy, VGG19 without BN, 100 × rate"].value == pytest.approx(0.1)
    assert reading.measured["|cos| by neuron, VGG19 without BN, 100 × rate"].value == pytest.approx(1.0, rel=0.01)


@pytest.mark.slow
def test_a_small_study_from_the_command_to_its_record(tmp_path: Any) -> None:
    """Digits, 12 layers of 16 units: asymmetric weights take the rank of batch norm at any size."""
    changes = {"width": 16, "train": 400, "epochs": 2, "shrink": 1, "depth": 12, "run": [0, 1]}
    made = reproduce([find("002/fig-6")], tmp_path, changes=changes, data="digits", workers=1)
    assert not made[0].failures
    assert made[0].record["statements"]["and its rank lower"] is True
