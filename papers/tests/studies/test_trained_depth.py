"""Training with depth and orthogonality: cells, verdicts in both directions, the table of the convnets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
import xarray

from isometer.errors import IsometerError
from isometer.run import Checkpoint
from isometer_papers.studies import find
from isometer_papers.studies._records import settings_of
from isometer_papers.studies._running import make_job, reproduce
from isometer_papers.studies.cells.convolution_training import (
    PUBLIC,
    SHAPE,
    convolution_training_cell,
    deep_convolutions,
    table_cell,
)
from isometer_papers.studies.cells.depth_training import (
    SCHEMES,
    deep_network,
    depth_training_cell,
    mean_gaps,
    signed_sets,
)
from isometer_papers.studies.daneshmand2021.trained import (
    CHANCE,
    final_losses,
    read_depths,
    read_epochs,
    read_schemes,
)
from isometer_papers.studies.daneshmand2021.trained_convolutions import draw_table, read_convolutions, read_table
from isometer_papers.studies.joudaki2024.trained_depth import read_clipping
from isometer_papers.training import Sets, fit_together

TINY: dict[str, Any] = {
    "scheme": "Xavier",
    "depth": 4,
    "width": 8,
    "gain": 2**0.5,
    "exponent": 0.5,
    "frame": "polar",
    "output_norm": 1.0,
    "data": "digits",
    "train": 60,
    "shrink": 1,
    "gap_batches": 2,
    "every": 1,
    "learning_rate": 0.1,
    "batch": 20,
    "epochs": 3,
    "device": "cpu",
}
SMALL: dict[str, Any] = {
    "scheme": "iterative",
    "convolutions": 6,
    "channels": [3, 4, 5],
    "hidden": 8,
    "gain": 2**0.5,
    "exponent": 0.5,
    "output_norm": 1.0,
    "data": "drawn",
    "train": 60,
    "shrink": 1,
    "every": 1,
    "learning_rate": 0.05,
    "batch": 20,
    "epochs": 3,
    "device": "cpu",
}


def defined_gap(rows: np.ndarray[Any, Any]) -> float:
    """V of 003/def-V from the Gram matrix of the samples."""
    gram = rows @ rows.T
    return float(np.linalg.norm(gram / np.trace(gram) - np.eye(len(rows)) / len(rows)))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Sets:
    """Random images of 16×16 in place of a data set."""
    source = np.random.default_rng(0)
    images = torch.from_numpy(source.random((60, 3, 16, 16), dtype=np.float32))
    sets = Sets(images, torch.from_numpy(source.integers(0, 10, 60)), images[:1], torch.zeros(1).long())
    monkeypatch.setattr("isometer_papers.training.image_sets", lambda *_, **__: sets)
    return sets


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every epoch."""
    monkeypatch.setitem(fit_together.__kwdefaults__, "pause", 0.0)


# --- cells ---------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_dense_cell_resumes_to_the_same_numbers(scheme: str, hurried: None) -> None:
    cell = {**TINY, "scheme": scheme}
    saved: list[bytes] = []
    whole = depth_training_cell(cell, 3, Checkpoint(write=saved.append))
    assert len(saved) == 3
    assert depth_training_cell(cell, 3, Checkpoint(saved[0])).identical(whole)
    assert whole["train_loss"].shape == whole["output_gap"].shape == whole["hidden_gap"].shape == (4,)
    assert np.isfinite(whole["hidden_gap"]).all()


def test_gaps_are_those_of_the_definition() -> None:
    """Forward pass and definition again in NumPy, from the weights alone."""
    sets = signed_sets("digits", 60, 1)
    weights = [p.detach().double().numpy() for p in deep_network(TINY, sets, 1).parameters()]
    gaps: dict[str, list[float]] = {"hidden_gap": [], "output_gap": []}
    for start in (0, 20):
        x = sets.inputs[start : start + 20].flatten(1).double().numpy()
        for weight in weights[:-1]:
            x = np.maximum(x @ weight.T, 0)
        gaps["hidden_gap"].append(defined_gap(x))
        gaps["output_gap"].append(defined_gap(x @ weights[-1].T))
    curves = depth_training_cell(TINY, 1)
    for name, values in gaps.items():
        assert float(curves[name][0]) == pytest.approx(np.mean(values), abs=1e-5)


def test_weights_of_every_scheme() -> None:
    sets = signed_sets("digits", None, 1)
    big = {**TINY, "width": 48, "depth": 6}  # not as many as pixels
    plain, ours, turned = (
        list(deep_network({**big, "scheme": scheme}, sets, 0).parameters())
        for scheme in ("Xavier", "iterative", "orthogonal Xavier")
    )
    assert len(plain) == 6  # no biases
    for weight in plain[1:-1]:
        sample = weight.detach()
        assert sample.var().item() == pytest.approx(2 * 2 / 96, rel=5 * math.sqrt(0.8 / sample.numel()))
        assert sample.abs().max().item() <= math.sqrt(2) * math.sqrt(6 / 96)
    for weight in turned[1:-1]:  # mean singular value of a square Gaussian matrix of variance 1/d: 8/(3π), times √2
        square = (weight @ weight.T).detach()
        size = square.diagonal().mean().sqrt().item()
        assert torch.allclose(square, size**2 * torch.eye(48), atol=1e-4)
        assert size == pytest.approx(math.sqrt(2) * 8 / (3 * math.pi), rel=0.075)  # 5 deviations, 1 / (√2 d)
    assert torch.equal(ours[0], plain[0])
    assert torch.equal(ours[-1], plain[-1])
    chosen = np.random.default_rng(0).permutation(len(sets.inputs))[:144]
    x = torch.relu(sets.inputs[torch.from_numpy(chosen)].flatten(1) @ ours[0].T)
    for weight in ours[1:-1]:
        produced = x @ weight.T
        assert produced.norm().item() == pytest.approx(1.0, rel=1e-4)
        x = torch.relu(produced)


def test_iterative_weights_keep_samples_apart() -> None:
    sets = signed_sets("digits", None, 1)
    batches = (sets.inputs[:50],)
    deep = {**TINY, "width": 32, "depth": 30}
    plain, ours = (mean_gaps([deep_network({**deep, "scheme": s}, sets, 0)[:-1]], batches)[0] for s in SCHEMES[:2])
    assert ours < 0.5 < 0.9 < plain


def test_clipping_acts_on_large_gradients_only() -> None:
    """λ = 1 never acts on small gradients, so the run is Xavier's; with large ones λ = 0.1 does."""
    calm = {**TINY, "gain": 1.0}
    curves = [depth_training_cell({**calm, "scheme": scheme}, 0) for scheme in ("Xavier", "AGC, λ = 1")]
    for one, other in zip(*(curve.drop_vars("diverged_because").values() for curve in curves), strict=True):
        assert one.values == pytest.approx(other.values, rel=1e-4, nan_ok=True)  # steps are rounded another way
    wild = {**TINY, "gain": 8.0, "epochs": 1, "learning_rate": 1e-4}
    losses = [float(depth_training_cell({**wild, "scheme": s}, 0)["train_loss"][1]) for s in ("Xavier", "AGC, λ = 0.1")]
    assert losses[0] != losses[1]


def test_unknown_schemes_are_named() -> None:
    with pytest.raises(IsometerError, match="expected one of Xavier"):
        depth_training_cell({**TINY, "scheme": "He"}, 0)
    with pytest.raises(IsometerError, match="unknown scheme 'He'"):
        convolution_training_cell({**SMALL, "scheme": "He"}, 0)


def test_convolutional_cell_resumes_to_the_same_numbers(drawn: Sets, hurried: None) -> None:
    saved: list[bytes] = []
    whole = convolution_training_cell(SMALL, 3, Checkpoint(write=saved.append))
    assert convolution_training_cell(SMALL, 3, Checkpoint(saved[0])).identical(whole)
    assert whole["feature_gap"].shape == (4,)
    features = deep_convolutions(SMALL, drawn, 3)[:-7]  # up to the flattening
    with torch.no_grad():
        gaps = [defined_gap(features(x).flatten(1).double().numpy()) for x in torch.split(drawn.inputs, 20)]
    assert float(whole["feature_gap"][0]) == pytest.approx(np.mean(gaps), abs=1e-5)


def test_iterative_convolutions_have_unit_outputs(drawn: Sets) -> None:
    net, plain = (deep_convolutions({**SMALL, "scheme": scheme}, drawn, 0) for scheme in ("iterative", "Xavier"))
    x = drawn.inputs[torch.from_numpy(np.random.default_rng(0).permutation(60))]
    with torch.no_grad():
        for layer, before in zip(list(net)[:-7], list(plain)[:-7], strict=True):
            x = layer(x)
            if isinstance(layer, torch.nn.Conv2d) and isinstance(before, torch.nn.Conv2d):
                if layer.in_channels == layer.out_channels:
                    assert x.norm().item() == pytest.approx(1.0, rel=1e-4)
                else:
                    assert torch.equal(layer.weight, before.weight)
    assert all(torch.equal(a, b) for a, b in zip(net[-7:].parameters(), plain[-7:].parameters(), strict=True))


# --- the table -----------------------------------------------------------


def test_table_of_the_convnets_counts_what_it_prints() -> None:
    """3×3 kernels with biases: 9ab + b; linear layers: ab + b."""
    study = find("003/table-3")
    cells = [table_cell(cell.configuration, 0) for cell in make_job(study, study.quick).cells]
    result = xarray.concat(cells, xarray.DataArray([20, 80], dims="convolutions", name="convolutions"))
    for count, repeats in ((20, 16), (80, 76)):
        pairs = [(3, 64), (64, 192), (192, 256), *[(256, 256)] * (1 + repeats)]
        expected = sum(9 * a * b + b for a, b in pairs)
        expected += sum(a * b + b for a, b in ((1024, 4096), (4096, 4096), (4096, 10)))
        assert int(result["parameters"].sel(convolutions=count).sum()) == expected
    settings = settings_of(study.quick)
    assert read_table(result, settings).verdict == "agree"
    assert len(draw_table(result, settings).axes[0].tables) == 1
    other = result.copy(deep=True)
    other["agrees"][1, 3] = False
    other["largest_kernel"][0, 0] = 11
    seen = list(read_table(other, settings).statements.values())
    assert seen == [True, True, False, True, False, True]
    with pytest.raises(IsometerError, match="expected 20 or 80"):
        table_cell({"convolutions": 21}, 0)
    assert SHAPE == (3, 32, 32)


# --- verdicts ------------------------------------------------------------

Curve = Callable[[Mapping[str, Any]], tuple[float, float, float]]
RUNS = list(range(4))


def made_up(axes: Mapping[str, Any], names: tuple[str, ...], curve: Curve, epochs: int = 4) -> xarray.Dataset:
    """Loss from log 10 to a last value, measures from a first to a last one, with a little noise."""
    source = np.random.default_rng(0)
    axes = {**axes, "run": RUNS}
    shape = [len(values) for values in axes.values()]
    data = {name: np.full((*shape, epochs + 1), np.nan) for name in ("train_loss", *names)}
    for place in itertools.product(*(range(size) for size in shape)):
        point = {name: values[i] for (name, values), i in zip(axes.items(), place, strict=True)}
        loss, first, last = curve(point)
        noise = 0.01 * source.normal()
        data["train_loss"][place][1:] = np.linspace(CHANCE, loss, epochs) + noise
        for name in names:
            data[name][place][[0, -1]] = first + noise, last + noise
    dims = (*axes, "epoch")
    return xarray.Dataset(
        {name: (dims, values) for name, values in data.items()}, {**axes, "epoch": np.arange(epochs + 1)}
    )


GAPS = ("output_gap", "hidden_gap")


@pytest.mark.parametrize("sign", [1, -1])
def test_reading_of_depths(sign: int) -> None:
    axes = {"scheme": ["Xavier"], "depth": [15, 30, 45]}
    result = made_up(axes, GAPS, lambda p: (1 + sign * p["depth"] / 50, 0.5 + p["depth"] / 100, 0.4))
    found = read_depths(result, axes)
    assert list(found.statements.values()) == [True, sign > 0, sign > 0]
    assert found.measured["training loss, depth 45"].value == pytest.approx(1 + sign * 0.9, abs=0.05)
    assert sign * found.measured["rank correlation of gap and loss over depths"].value == pytest.approx(1)
    falling = made_up(axes, GAPS, lambda p: (2 - p["depth"] / 50, 0.9 - p["depth"] / 100, 0.4))
    assert list(read_depths(falling, axes).statements.values()) == [False, False, True]


def test_reading_of_epochs() -> None:
    axes = {"scheme": ["Xavier"], "depth": [20]}
    falls = made_up(axes, GAPS, lambda _: (1.0, 0.9, 0.5))
    assert read_epochs(falls, axes).verdict == "agree"
    stays = made_up(axes, GAPS, lambda _: (CHANCE, 0.5, 0.9))
    assert read_epochs(stays, axes).verdict == "disagree"


def test_reading_of_schemes() -> None:
    axes = {"scheme": ["Xavier", "iterative"], "depth": [15, 30, 45]}

    def published(p: Mapping[str, Any]) -> tuple[float, float, float]:
        return (p["depth"] / 30 if p["scheme"] == "Xavier" else 0.7), 0.5, 0.5

    def reverse(p: Mapping[str, Any]) -> tuple[float, float, float]:
        return (p["depth"] / 30 if p["scheme"] == "iterative" else 0.5), 0.5, 0.5

    found = read_schemes(made_up(axes, GAPS, published), axes)
    assert found.verdict == "agree"
    assert found.remark == "At depth 15 Xavier's loss is the lower one."
    assert read_schemes(made_up(axes, GAPS, reverse), axes).verdict == "disagree"
    assert not read_schemes(made_up(axes, GAPS, reverse), axes).remark
    one = {**axes, "depth": [45]}
    assert list(read_schemes(made_up(one, GAPS, published), one).statements.values()) == [True]


def test_reading_of_clipping() -> None:
    axes = {"scheme": list(SCHEMES), "depth": [15, 45]}
    published = dict(zip(SCHEMES, (1.8, 0.9, 2.3, 1.4, 1.5, 1.4, 1.5), strict=True))
    assert read_clipping(made_up(axes, GAPS, lambda p: (published[p["scheme"]], 1, 1)), axes).verdict == "agree"
    reverse = dict(zip(SCHEMES, (1.0, 2.0, 0.9, 1.4, 1.5, 1.4, 1.5), strict=True))
    found = read_clipping(made_up(axes, GAPS, lambda p: (reverse[p["scheme"]], 1, 1)), axes)
    assert found.verdict == "disagree"
    assert found.measured["training loss with iterative, depth 45"].value == pytest.approx(2.0, abs=0.03)


def test_reading_of_convolutions() -> None:
    """The published curves cross in the shallow network and do not in the deep one."""
    axes = {"scheme": ["Xavier", PUBLIC], "convolutions": [20, 80]}
    settings = {**axes, "epochs": 4}

    def late(p: Mapping[str, Any]) -> tuple[float, float, float]:
        return (1.0 if (p["scheme"] == "Xavier") == (p["convolutions"] == 20) else 2.0), 0.5, 0.5

    flat = made_up(axes, ("feature_gap",), late)
    early = xarray.where(flat["scheme"] == "Xavier", 2.5, 2.4) + 0.01 * flat["run"]
    published = flat.assign(train_loss=flat["train_loss"].where(flat["epoch"] != 1, early))
    found = read_convolutions(published, settings)
    assert found.verdict == "agree"
    assert found.measured["late training loss, Xavier, 80 convolutions"].value == pytest.approx(2.0, abs=0.03)
    apart = found.measured[f"distance from the published curve, {PUBLIC}, 80 convolutions"].value
    mean = published["train_loss"].sel(scheme=PUBLIC, convolutions=80).mean("run").values[1:]
    theirs = np.array([math.nan, 2.202, 2.087, 2.015, 1.955, 1.901])[: len(mean)]
    assert apart == pytest.approx(np.nanmean(np.abs(mean - theirs)), rel=1e-12)
    turned = published.assign_coords(scheme=[PUBLIC, "Xavier"])
    assert read_convolutions(turned, settings).verdict == "disagree"
    shallow = {"scheme": axes["scheme"], "convolutions": [20], "epochs": 4}
    assert len(read_convolutions(published, shallow).statements) == 2


def test_diverged_runs_count_as_chance() -> None:
    axes = {"scheme": ["Xavier", "iterative"], "depth": [15, 30]}
    result = made_up(axes, GAPS, lambda _: (1.0, 0.5, 0.5))
    result["train_loss"].loc[{"scheme": "Xavier", "depth": 30, "run": 2, "epoch": [2, 3, 4]}] = np.nan
    for name in GAPS:
        result[name].loc[{"scheme": "Xavier", "depth": 30, "run": 2, "epoch": [2, 3, 4]}] = np.nan
    assert final_losses(result, "Xavier")[2, 1] == pytest.approx(math.log(10))
    for read in (read_schemes, read_depths):
        assert all(math.isfinite(one.value) for one in read(result, axes).measured.values())
    network = result.sel(scheme=["Xavier"], depth=[30])
    found = read_epochs(network, {"scheme": ["Xavier"], "depth": [30]})
    assert all(math.isfinite(one.value) for one in found.measured.values())


# --- studies -------------------------------------------------------------


@pytest.mark.parametrize(("one", "other"), [("fig-2.4a", "fig-3a"), ("fig-2.4b", "fig-3b"), ("fig-2.5", "fig-4")])
def test_the_same_figure_of_two_papers_shares_its_cells(one: str, other: str) -> None:
    for scale in ("quick", "medium", "paper"):
        jobs = [make_job(study, study.scale(scale)) for study in (find(f"001/{one}"), find(f"003/{other}"))]
        assert [cell.text for cell in jobs[0].cells] == [cell.text for cell in jobs[1].cells]
        assert jobs[0].function == jobs[1].function


def test_figures_of_one_setup_share_cells() -> None:
    texts = {
        name: {cell.text for cell in make_job(find(name), find(name).quick).cells}
        for name in ("003/fig-3a", "003/fig-4", "001/fig-A.1")
    }
    assert len(texts["003/fig-3a"] & texts["003/fig-4"]) == 3  # three depths, the runs of each in one cell
    assert len(texts["001/fig-A.1"] & texts["003/fig-4"]) == 2 * 2  # Xavier and iterative, two depths


@pytest.mark.slow
def test_figures_from_end_to_end(tmp_path: Any) -> None:
    changes = {"width": 8, "depth": [3, 5], "train": 100, "batch": 20, "epochs": 2, "shrink": 1}
    made = reproduce(
        [find("003/fig-3a"), find("003/fig-4"), find("001/fig-A.1")],
        tmp_path,
        changes=changes,
        data="digits",
        workers=1,
    )
    for one in made:
        assert not one.failures
        assert (one.folder / "figure.png").exists()
        assert one.record["verdict"] != "unclear"
