"""Studies of chapter 6 of the thesis: cells against dense computations, readings in both directions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
import xarray
from scipy import stats

from isometer.errors import IsometerError
from isometer_papers.studies import Study, find, overridden
from isometer_papers.studies._readings import jackknife, line_slope, measured, straightness
from isometer_papers.studies._records import settings_of
from isometer_papers.studies._running import make_job, reproduce
from isometer_papers.studies._study import Measured, Scale
from isometer_papers.studies.cells.data_ranks import rank_and_cosine, rank_cell
from isometer_papers.studies.cells.first_gradient import first_gradient_cell, rate_cell
from isometer_papers.studies.cells.images import images
from isometer_papers.studies.cells.isometry import gap_metric, image_gap_cell, isometry_gap_cell, near_identity
from isometer_papers.studies.joudaki2024.depths import explodes, flat, growth

IDS = (
    "001/fig-6.1",
    "001/fig-6.2",
    "001/fig-6.3",
    "001/fig-6.5",
    "001/fig-C.1",
    "001/fig-C.2",
    "001/fig-C.9-left",
    "001/fig-C.9-right",
    "001/fig-C.10",
    "001/tab-C.1",
)
SMALL: dict[str, Any] = {
    "data": "gaussian:7",
    "samples": 6,
    "distinct": 6,
    "width": 6,
    "depth": 12,
    "weights": "orthogonal",
    "norm": "batch",
    "activation": "tanh",
    "gain": 1.0,
    "exponent": 0.4,
    "loss": "gaussian",
    "runs": 3,
}


def settings(study: Study, scale: str = "quick") -> dict[str, Any]:
    return settings_of(study.scale(scale))


# --- cells ------------------------------------------------------------------------------------------------------------


def rotation(size: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """A Haar matrix, from the polar factor of a Gaussian one."""
    left, _, right = np.linalg.svd(rng.standard_normal((size, size)))
    return np.asarray(left @ right)


def log_mean_ratio(x: np.ndarray[Any, Any]) -> float:
    """The isometry gap from trace and determinant."""
    gram = x @ x.T
    return float(math.log(np.trace(gram) / len(gram)) - np.linalg.slogdet(gram)[1] / len(gram))


def dense_gradients(c: Mapping[str, Any], rng: np.random.Generator) -> list[float]:
    """Log-norms of weight gradients by autograd, of one network made with numpy's and torch's own means."""
    h = torch.as_tensor(rng.standard_normal((c["samples"], 7)))
    weights = []
    for layer in range(1, c["depth"] + 1):
        size = max(c["width"], h.shape[1])
        frame = torch.as_tensor(rotation(size, rng)[: c["width"], : h.shape[1]].copy())
        weights.append(frame.requires_grad_())
        z = h @ frame.T
        if c["norm"] == "batch":
            z = torch.nn.functional.batch_norm(z, None, None, training=True, eps=1e-30)
        else:
            z = z / z.square().mean(0).sqrt()
        h = z * layer ** -c["exponent"] if c["activation"] == "identity" else torch.tanh(z * layer ** -c["exponent"])
    h.backward(torch.as_tensor(rng.standard_normal(tuple(h.shape))))
    return [float(w.grad.norm().log()) for w in weights]


@pytest.mark.parametrize(
    ("norm", "activation", "exponent"), [("batch", "tanh", 0.4), ("batch-rescale", "identity", 0.0)]
)
def test_gradients_have_the_law_of_dense_networks(norm: str, activation: str, exponent: float) -> None:
    """Kolmogorov–Smirnov at 0.001 with 120 against 120 runs: sees a shift of 0.8 standard deviations in 95 %."""
    c = {**SMALL, "norm": norm, "activation": activation, "exponent": exponent, "runs": 120}
    ours = first_gradient_cell(c, 5)["gradient"]
    rates = rate_cell({**c, "layers": [12], "lag": 10}, 6)["rate"].values[:, 0]
    rng = np.random.default_rng(1)
    dense = np.array([dense_gradients(c, rng) for _ in range(120)])
    for layer in (1, 2):
        assert stats.ks_2samp(ours.sel(layer=layer).values, dense[:, layer - 1]).pvalue > 1e-3
    assert stats.ks_2samp(rates, (dense[:, 1] - dense[:, 11]) / 10).pvalue > 1e-3


def test_gradients_of_another_gain_have_another_law() -> None:
    """The test above can fail."""
    rng = np.random.default_rng(1)
    dense = np.array([dense_gradients({**SMALL, "exponent": 0.0}, rng)[1] for _ in range(120)])
    ours = first_gradient_cell({**SMALL, "runs": 120}, 5)["gradient"].sel(layer=2).values
    assert stats.ks_2samp(ours, dense).pvalue < 1e-3


def test_repeated_images_are_equal() -> None:
    batch = images("gaussian:5", 10, 4, 2, 3)
    assert len(np.unique(batch[0], axis=0)) == 4
    assert not np.array_equal(batch[0], batch[1])
    with pytest.raises(IsometerError, match="1 to 4"):
        images("gaussian:5", 4, 5, 2, 3)


def test_a_rate_outside_the_network_is_an_error() -> None:
    with pytest.raises(IsometerError, match="expected 11 to 12"):
        rate_cell({**SMALL, "layers": [10], "lag": 10}, 0)


def test_gap_of_one_layer_is_that_of_dense_rotations() -> None:
    """Inputs of the cell, one Haar layer and division by lengths, the gap from determinants."""
    c = {"width": 5, "depth": 1, "mixing": 0.5, "weights": "orthogonal", "runs": 300}
    ours = isometry_gap_cell(c, 2)["isometry_gap"]
    inputs = near_identity(5, 0.5, 300, 2)
    assert np.allclose(ours.sel(layer=0), [log_mean_ratio(x) for x in inputs], rtol=1e-9)
    rng = np.random.default_rng(0)
    products = [x @ rotation(5, rng).T for x in inputs]
    after = [z / np.linalg.norm(z, axis=0) for z in products]
    assert stats.ks_2samp(ours.sel(layer=1).values, [log_mean_ratio(x) for x in after]).pvalue > 1e-3


def test_gap_in_the_directions_that_centring_leaves() -> None:
    """From the eigenvalues of the centred Gram matrix, the one along (1, …, 1) left out."""
    h = np.random.default_rng(0).standard_normal((2, 6, 9))
    found = gap_metric("centred", 6, 0)(torch.as_tensor(h))
    for one, value in zip(h, found, strict=True):
        centred = one - one.mean(0)
        eigenvalues = np.linalg.eigvalsh(centred @ centred.T)[1:]
        assert math.isclose(float(value), math.log(eigenvalues.mean()) - np.log(eigenvalues).mean(), rel_tol=1e-9)


def test_biases_make_the_gap_of_centred_batches_finite() -> None:
    """Against a rotation and the biases of torch.nn.Linear themselves; centred samples are dependent."""
    n, runs, rng = 8, 400, np.random.default_rng(0)
    h = rng.standard_normal((n, n))
    h -= h.mean(0)
    found = gap_metric("biased", n, 3)(torch.as_tensor(h).expand(runs, n, n)).numpy()
    dense = [log_mean_ratio(h @ rotation(n, rng).T + rng.uniform(-1, 1, n) / math.sqrt(n)) for _ in range(runs)]
    assert bool(np.isfinite(found).all())
    assert stats.ks_2samp(found, dense).pvalue > 1e-3
    with pytest.raises(IsometerError, match="'centred' or 'biased'"):
        gap_metric("whole", 3, 0)


def test_gap_at_chosen_layers() -> None:
    c = {name: value for name, value in SMALL.items() if name != "loss"}
    found = image_gap_cell({**c, "gap": "centred", "at": [2, 12], "chunk": 0}, 0)["isometry_gap"]
    assert found["layer"].values.tolist() == [2, 12]
    assert bool(np.isfinite(found).all())


def test_ranks_are_those_of_matrix_rank() -> None:
    rng = np.random.default_rng(0)
    batch = (rng.random((30, 12)) @ np.diag(0.3 ** np.arange(12)) @ rng.random((12, 80))).astype(np.float32)
    for precision in ("float32", "float64"):
        own = torch.as_tensor(batch.astype(precision))
        gram, whole = (int(torch.linalg.matrix_rank(matrix)) for matrix in (own @ own.T, own))
        assert rank_and_cosine(batch, precision, "gram")[0] == gram
        assert rank_and_cosine(batch, precision, "batch")[0] == whole
    unit = batch / np.linalg.norm(batch, axis=1, keepdims=True)
    cosine = (unit @ unit.T)[~np.eye(30, dtype=bool)].mean()
    assert math.isclose(rank_and_cosine(batch, "float32", "gram")[1], cosine, rel_tol=1e-5)
    for precision, of in (("float16", "gram"), ("float32", "rows")):
        with pytest.raises(IsometerError, match="expected"):
            rank_and_cosine(batch, precision, of)


def test_batches_of_a_cell_differ() -> None:
    c = {"data": "digits", "samples": 64, "batches": 3, "centre": "none", "scale": "unit"}
    found = rank_cell({**c, "precision": "float32", "of": "gram"}, 0)
    assert len(set(found["cosine"].values.tolist())) == 3


# --- slopes -----------------------------------------------------------------------------------------------------------


def test_line_slope_covers_the_truth() -> None:
    """95 % of intervals; 400 draws put a count below 360 out of reach (p < 1e-4)."""
    rng, x = np.random.default_rng(0), np.array([0.0, 1.0, 4.0, 9.0])
    found = [line_slope(x, 2 * x + rng.standard_normal((5, 4))) for _ in range(400)]
    assert sum(abs(one.value - 2) <= one.uncertainty for one in found) in range(360, 396)
    assert straightness(x, np.array([x**4])) < 0.9
    with pytest.raises(IsometerError, match="line"):
        line_slope([1.0, 1.0, 1.0], [1.0, 2.0, 3.0])


def test_jackknife_is_exact_for_means() -> None:
    """Leaving one run out of a mean gives Student's interval."""
    runs = np.random.default_rng(0).standard_normal((7, 3))
    found, known = jackknife(runs, lambda mean: float(mean.sum())), measured(runs.sum(1))
    assert math.isclose(found.value, known.value, rel_tol=1e-12)
    assert math.isclose(found.uncertainty, known.uncertainty, rel_tol=1e-12)
    with pytest.raises(IsometerError, match="2 runs"):
        jackknife(runs[:1], lambda mean: float(mean.sum()))


# --- readings ---------------------------------------------------------------------------------------------------------


def gradient_result(study: Study, slopes: Mapping[tuple[Any, ...], float], scale: str = "quick") -> xarray.Dataset:
    """Log-gradients that grow by the given slope at each place of the axes other than depth."""
    axes = {name: list(values) for name, values in study.scale(scale).axes.items()}
    names = [name for name in axes if name != "depth"]
    rng, runs = np.random.default_rng(0), 6
    values = np.zeros([len(axes[name]) for name in names] + [len(axes["depth"]), runs, 2])
    for place in np.ndindex(*values.shape[: len(names)]):
        key = tuple(axes[name][i] for name, i in zip(names, place, strict=True))
        values[place] = slopes[key] * np.array(axes["depth"])[:, None, None] + 0.02 * rng.standard_normal((runs, 2))
    return xarray.Dataset({"gradient": ((*names, "depth", "run", "layer"), values)}, {**axes, "layer": [1, 2]})


@pytest.mark.parametrize(
    ("identifier", "shown", "other"),
    [
        ("001/fig-6.2", {(10,): 0.0, (5,): 0.05}, {(10,): 0.04, (5,): 0.05}),
        ("001/fig-6.3", {("orthogonal",): 0.0, ("gaussian",): 0.005}, {("orthogonal",): 0.005, ("gaussian",): 0.005}),
        (
            "001/fig-C.9-left",
            {("identity",): 0.0, ("sin",): 0.1, ("tanh",): 0.1},
            {("identity",): 0.1, ("sin",): 0.1, ("tanh",): 0.1},
        ),
        ("001/fig-C.10", {("batch",): 0.0, ("batch-rescale",): 0.0}, {("batch",): 0.005, ("batch-rescale",): 0.0}),
    ],
)  # fmt: skip
def test_gradients_are_read(identifier: str, shown: dict[Any, float], other: dict[Any, float]) -> None:
    study = find(identifier)
    assert study.read(gradient_result(study, shown), settings(study)).verdict == "agree"
    assert study.read(gradient_result(study, other), settings(study)).verdict == "partly"


def test_no_growth_at_all_is_no_explosion() -> None:
    study = find("001/fig-6.3")
    result = gradient_result(study, {("orthogonal",): 0.0, ("gaussian",): 0.0})
    assert study.read(result, settings(study)).verdict == "disagree"


def test_gains_are_read() -> None:
    study = find("001/fig-6.5")
    places = [(name, exponent) for name in ("identity", "sin", "tanh") for exponent in (0.0, 0.4)]
    shown = {key: 0.1 if key[0] != "identity" and key[1] == 0 else 0.0 for key in places}
    useless = {key: 0.1 if key[0] != "identity" else 0.0 for key in places}
    assert study.read(gradient_result(study, shown), settings(study)).verdict == "agree"
    seen = study.read(gradient_result(study, useless), settings(study)).statements
    assert seen["without gain gradients explode with sin and tanh"] is True
    assert seen["with gain they do not"] is False


def test_growth_is_that_of_the_deepest_networks() -> None:
    study = find("001/fig-6.3")
    result = gradient_result(study, {("orthogonal",): 0.0, ("gaussian",): 0.005})
    early = np.minimum(np.array(settings(study)["depth"]), 100) * 0.02
    result["gradient"] += xarray.DataArray(early, dims="depth")
    found = growth(result, settings(study), weights="orthogonal")
    assert abs(found.value) < 1e-4
    assert not explodes(result, settings(study), weights="orthogonal")
    assert flat(found, Measured(0.005))
    assert not flat(Measured(0.0, 0.001), Measured(0.005))
    assert not flat(found, Measured(0.0))


def gap_result(rates: Mapping[int, float], curved: float = 0.0) -> xarray.Dataset:
    layers, rng = np.arange(101), np.random.default_rng(0)
    values = [
        [1e-3 * np.exp(-(rate + 1e-4 * rng.standard_normal()) * layers - curved * layers**2) for _ in range(10)]
        for rate in rates.values()
    ]
    return xarray.Dataset(
        {"isometry_gap": (("width", "run", "layer"), np.array(values))}, {"width": list(rates), "layer": layers}
    )


def test_decay_of_the_gap_is_read() -> None:
    study = find("001/fig-6.1")
    assert study.read(gap_result({50: 2 / 51, 100: 2 / 101}), settings(study)).verdict == "agree"
    slow = study.read(gap_result({50: 2 / 101, 100: 2 / 51}), settings(study)).statements
    assert slow["the rate depends on the width: wider networks are slower"] is False
    bent = study.read(gap_result({50: 0.0, 100: 0.0}, 1e-3), settings(study)).statements
    assert bent["the gap vanishes at an exponential rate"] is False
    still = study.read(gap_result({50: 1e-3, 100: 5e-4}), settings(study)).statements
    assert still["it stays under Theorem 6.1 with C = 0.015"] is False


def test_gaps_of_activations_are_read() -> None:
    study = find("001/fig-C.9-right")
    own = settings(study)
    at, rng = np.array(own["at"]), np.random.default_rng(0)

    def made(identity: np.ndarray[Any, Any], curved: np.ndarray[Any, Any]) -> xarray.Dataset:
        noise = np.exp(0.01 * rng.standard_normal((3, 2, 4, len(at))))
        values = noise * np.array([identity, curved, curved])[:, None, None]
        return xarray.Dataset(
            {"isometry_gap": (("activation", "chunk", "run", "layer"), values)},
            {"activation": own["activation"], "layer": at},
        )

    falling, level = 2 * np.exp(-at / 100), np.ones(len(at))
    assert study.read(made(falling, level), own).verdict == "agree"
    assert study.read(made(level, falling), own).verdict == "disagree"


def rate_result(study: Study, rates: np.ndarray[Any, Any]) -> xarray.Dataset:
    """Rates by the last axis of the study, the same elsewhere, for four runs."""
    own = settings(study)
    axes = {name: list(values) for name, values in study.quick.axes.items()}
    shape = [len(values) for values in axes.values()]
    noise = 1 + 0.01 * np.random.default_rng(0).standard_normal((*shape, 4, len(own["layers"])))
    values = noise * np.broadcast_to(rates, shape)[..., None, None]
    return xarray.Dataset({"rate": ((*axes, "run", "layer"), values)}, {**axes, "layer": own["layers"]})


def test_rates_are_read() -> None:
    study = find("001/fig-C.1")
    own = settings(study)
    gains = np.array(own["gain"])
    found = study.read(rate_result(study, 0.1 * gains**3), own)
    assert found.verdict == "agree"
    assert math.isclose(found.measured["c₂, tanh"].value, 3, abs_tol=0.05)
    bent = study.read(rate_result(study, np.array([1.0, 1.01, 1.02, 100.0])), own).statements
    assert bent["it is close to a power of the gain (R² above 0.95 in log–log)"] is False
    result = rate_result(study, 0.1 * gains**3)
    result["rate"] *= xarray.DataArray([1.0, 1.5, 2.0], dims="layer")
    assert study.read(result, own).statements["the same at all layers"] is False


def test_exponents_are_read() -> None:
    study = find("001/fig-C.2")
    own = settings(study)
    falling = 0.1 * np.exp(-6 * np.array(own["exponent"]))
    assert study.read(rate_result(study, falling), own).verdict == "agree"
    assert study.read(rate_result(study, np.full(len(falling), 0.1)), own).verdict == "disagree"
    last = np.array([0.1] * (len(falling) - 1) + [0.05])
    assert study.read(rate_result(study, last), own).verdict == "partly"


def rank_result(own: Mapping[str, Any], shift: float = 0.0) -> xarray.Dataset:
    from isometer_papers.studies.joudaki2024.data_ranks import COSINES, RANKS

    rng, batches = np.random.default_rng(0), own["batches"]
    ranks, cosines = [], []
    for data in own["data"]:
        ranks.append([rng.normal(*RANKS[data][n], batches) + (shift if n == 512 else 0) for n in own["samples"]])
        cosines.append([rng.normal(COSINES[data], 0.005, batches) for _ in own["samples"]])
    dims = ("data", "samples", "batch")
    return xarray.Dataset(
        {"rank": (dims, np.array(ranks)), "cosine": (dims, np.array(cosines))},
        {"data": own["data"], "samples": own["samples"]},
    )


def test_ranks_are_read() -> None:
    study = find("001/tab-C.1")
    own = settings(study)
    found = study.read(rank_result(own), own)
    assert found.verdict == "agree"
    assert {name for name in study.published if "100" not in name.rpartition(",")[2]} <= set(found.measured)
    moved = study.read(rank_result(own, 10.0), own).statements
    assert [seen for name, seen in moved.items() if name.startswith("ranks of")] == [False] * 3


def test_any_data_set_can_be_asked_for() -> None:
    study = find("001/tab-C.1")
    assert overridden(study, "quick", {}, data="digits").axes["data"] == ["digits"]
    own = settings_of(overridden(study, "paper", {"data": "cifar10,cifar100"}))
    assert own["data"] == ["cifar10", "cifar100"]
    assert study.read(rank_result(own), own).statements["ranks of CIFAR-100 as printed"] is True


# --- studies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("identifier", IDS)
def test_scales_and_choices_fit(identifier: str) -> None:
    """Every variation names settings that exist, and every scale has cells whose configuration the cell reads."""
    study = find(identifier)
    for one in study.choices.values():
        for change in one.instead.values():
            overridden(study, "quick", change)
    runs = study.paper.constants.get("runs", 10) * len(study.paper.axes.get("chunk", [0]))
    assert runs == 10
    assert study.quick.reduced or study.quick == study.paper


def test_studies_share_cells() -> None:
    """Figures C.9 and C.10 are made of cells of 6.3 and 6.5."""

    def keys(identifier: str) -> set[str]:
        study = find(identifier)
        return {repr(sorted(cell.configuration.items())) for cell in make_job(study, study.paper).cells}

    assert keys("001/fig-C.9-left") <= keys("001/fig-6.5")
    assert keys("001/fig-C.10") <= keys("001/fig-6.5") | keys("001/fig-6.3")


def test_settings_of_the_reading_stay_out_of_cells() -> None:
    study = find("001/fig-C.10")
    assert "layer" not in make_job(study, study.quick).cells[0].configuration
    assert settings_of(overridden(study, "quick", {"layer": "2"}))["layer"] == 2
    with pytest.raises(IsometerError, match="named twice"):
        Scale({}, {"layer": 1}, reading={"layer": 2})


@pytest.mark.slow
@pytest.mark.parametrize("identifier", ["001/fig-6.1", "001/fig-6.2", "001/fig-C.2"])
def test_a_small_study_runs(identifier: str) -> None:
    study = find(identifier)
    small: dict[str, Any] = {"runs": 3}
    if "data" in study.quick.constants:
        small |= {"data": "gaussian:20", "width": 8, "samples": 8}
        small |= {"distinct": [8, 4]} if identifier == "001/fig-6.2" else {"distinct": 8, "depth": [20]}
    else:
        small |= {"width": [4, 8], "depth": 20}
    scale = overridden(study, "quick", small)
    parts = []
    for cell in make_job(study, scale).cells:
        place = {name: [value] for name, value in cell.coordinates.items()}
        parts.append(study.cell(cell.configuration, 3).expand_dims(place))
    result = xarray.combine_by_coords(parts)
    assert study.read(result, settings_of(scale)).verdict in ("agree", "partly", "disagree")
    assert study.draw(result, settings_of(scale)).axes


@pytest.mark.slow
def test_a_study_runs_whole(tmp_path: Any) -> None:
    made = reproduce([find("001/fig-6.1")], tmp_path, changes={"width": [8, 16], "depth": 30}, workers=1)
    assert made[0].record["cells"] == 2
    assert (made[0].folder / "figure.png").is_file()
